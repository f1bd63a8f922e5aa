"""Near-cache, scan and a model over random operations of several clients, through whatever befalls the server."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store.search import near_cache
from langgraph_forgetful_store.search.scoring import cosine, normalise
from langgraph_forgetful_store.testing import WordEmbeddings
from langgraph_forgetful_store.testing.internals import session_of

pytestmark = pytest.mark.exhaustive

DIMS = 8
WORDS = ["red", "green", "blue", "car", "house", "tree"]
NAMESPACES = [("u", "a"), ("u", "b"), ("u", "b", "deep"), ("other",)]
PREFIXES: list[tuple[str, ...]] = [*NAMESPACES, ("u",), (), ("nobody",)]
FILTERS: list[Any] = [None, {"n": {"$gte": 3}}, {"n": 2}, {"kind": {"$ne": "x"}}, {"more": {"$exists": False}}]
SETTINGS: dict[str, Any] = {
    "scoring": "similarity",
    "index": {"dims": DIMS, "embed": WordEmbeddings(DIMS), "fields": ["text", "more"]},
}
TINY = 24_000
_words = WordEmbeddings(DIMS)
_vectors = {
    text: normalise(np.array([_words.embed_query(text)], np.float32))
    for text in itertools.chain(WORDS, (f"{one} {two}" for one in WORDS for two in WORDS))
}


def matches(given: Any, value: dict[str, Any]) -> bool:
    if given is None:
        return True
    if given == {"n": {"$gte": 3}}:
        return value["n"] >= 3
    if given == {"n": 2}:
        return value["n"] == 2
    return "more" not in value if "more" in given else value["kind"] != "x"


class Client:
    """One writer with keys of its own, so that the model knows what is there, whoever else writes."""

    def __init__(self, name: str, seed: int) -> None:
        self.dice = random.Random(seed)
        self.name = name
        self.rows: dict[tuple[tuple[str, ...], str], dict[str, Any]] = {}

    def ops(self, count: int) -> list[PutOp]:
        ops: dict[Any, PutOp] = {}
        for _ in range(count):
            ns, key = self.dice.choice(NAMESPACES), f"{self.name}{self.dice.randrange(12)}"
            value = None
            if self.dice.random() < 0.75:
                value = {"n": self.dice.randrange(6), "kind": self.dice.choice("xyz")}
                if self.dice.random() < 0.8:
                    value["text"] = " ".join(self.dice.choices(WORDS, k=self.dice.choice([1, 2])))
                if self.dice.random() < 0.3:
                    value["more"] = self.dice.choice(WORDS)
                if self.dice.random() < 0.1:
                    value["long"] = "x" * 70_000
            ops[ns, key] = PutOp(ns, key, value)
        for name, op in ops.items():
            if op.value is None:
                self.rows.pop(name, None)
            else:
                self.rows[name] = op.value
        return list(ops.values())


def model(
    rows: dict[Any, dict[str, Any]], order: dict[Any, float], prefix: tuple[str, ...], query: str | None, given: Any
) -> list[tuple[Any, float | None]]:
    """What a search has to return: names and scores, in order."""
    names = [name for name in rows if name[0][: len(prefix)] == prefix and matches(given, rows[name])]
    scores: dict[Any, float | None] = {}
    for name in names:
        texts = [rows[name][field] for field in ("text", "more") if field in rows[name]]
        scores[name] = None
        if query is not None and texts:
            scores[name] = max(cosine(_vectors[query][0], _vectors[text])[0].item() for text in texts)
    return sorted(
        ((name, scores[name]) for name in names),
        key=lambda one: (one[1] is None, -(one[1] or 0.0), -order[one[0]]),
    )


class Engines:
    """Stores on the same data: near-cache, near-cache that evicts all the time, and scan."""

    def __init__(self, make: Any, **settings: Any) -> None:
        self.dice = random.Random(7)
        self.stores = {
            name: make(**SETTINGS, cache_bytes=size, **settings)
            for name, size in (("cached", 2**26), ("evicting", TINY), ("scan", 0))
        }

    def agree(self, rows: dict[Any, dict[str, Any]], searches: int = 12) -> None:
        """Compare them with each other and with the model, while nobody writes."""
        everything = self.stores["scan"].search((), limit=1000, filter={"n": {"$exists": True}})
        assert {(item.namespace, item.key): item.value for item in everything} == rows
        order = {(item.namespace, item.key): -place for place, item in enumerate(everything)}
        for _ in range(searches):
            prefix, given = self.dice.choice(PREFIXES), self.dice.choice(FILTERS)
            query = self.dice.choice([None, "red", "blue car", "tree house"])
            limit, offset = self.dice.choice([1, 5, 100]), self.dice.choice([0, 0, 2])
            asked = {"query": query, "filter": given, "limit": limit, "offset": offset}
            expected = model(rows, order, prefix, query, given)[offset : offset + limit]
            results = {
                name: [((item.namespace, item.key), item.value, item.score) for item in store.search(prefix, **asked)]
                for name, store in self.stores.items()
            }
            assert results["cached"] == results["scan"] == results["evicting"], (prefix, asked)
            assert [(name, value) for name, value, _ in results["scan"]] == [(name, rows[name]) for name, _ in expected]
            assert [score for *_, score in results["scan"]] == pytest.approx(
                [score for _, score in expected], abs=1e-6
            ), (prefix, asked)


def busy(store: Any, client: Client, rounds: int) -> None:
    """Write and search; each search must return every row of this client that nobody touches, as it is."""
    for _ in range(rounds):
        store.batch(client.ops(4))
        prefix = client.dice.choice(PREFIXES)
        found = store.search(prefix, query=client.dice.choice(["red", None]), filter={"n": {"$gte": 0}}, limit=1000)
        own = {(item.namespace, item.key): item.value for item in found if item.key.startswith(client.name)}
        assert own == {name: value for name, value in client.rows.items() if name[0][: len(prefix)] == prefix}


async def abusy(store: Any, client: Client, rounds: int) -> None:
    for _ in range(rounds):
        await store.abatch(client.ops(4))
        prefix = client.dice.choice(PREFIXES)
        asked = {"query": client.dice.choice(["red", None]), "filter": {"n": {"$gte": 0}}, "limit": 1000}
        found = await store.asearch(prefix, **asked)
        own = {(item.namespace, item.key): item.value for item in found if item.key.startswith(client.name)}
        assert own == {name: value for name, value in client.rows.items() if name[0][: len(prefix)] == prefix}


PROCESS = """
import json, sys
from langgraph_forgetful_store import ForgetfulStore
from tests.search.test_engines_agree import SETTINGS, Client, busy
store = ForgetfulStore.from_conn_string(sys.argv[1], key_prefix=sys.argv[2], **SETTINGS)
client = Client("process", int(sys.argv[3]))
for line in sys.stdin:
    busy(store, client, int(line))
    print(json.dumps([[*name, value] for name, value in client.rows.items()]), flush=True)
store.close()
"""


@pytest.mark.parametrize("seed", range(2))
def test_engines_and_model_agree_beside_threads_tasks_and_another_process(make_any_store, monkeypatch, seed):
    monkeypatch.setattr(near_cache, "TRY_AGAIN", 3)
    engines = Engines(make_any_store)
    dice = random.Random(seed)
    threads = [Client(f"thread{n}", seed * 100 + n) for n in range(3)]
    tasks = [Client(f"task{n}", seed * 100 + 50 + n) for n in range(3)]
    command = [sys.executable, "-c", PROCESS, make_any_store.server.url, make_any_store.key_prefix, f"{seed}"]
    names = list(engines.stores)

    async def all_tasks() -> None:
        await asyncio.gather(*(abusy(engines.stores[name], task, 8) for name, task in zip(names, tasks, strict=True)))

    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        ThreadPoolExecutor(5) as pool,
        make_any_store.server.client() as client,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(4):
            process.stdin.write("8\n")
            process.stdin.flush()
            running = [
                pool.submit(busy, engines.stores[name], one, 8) for name, one in zip(names, threads, strict=True)
            ]
            running.append(pool.submit(asyncio.run, all_tasks()))
            for _ in range(3):
                client.script_flush()
            for one in running:
                one.result()
            others = {(tuple(ns), key): value for ns, key, value in json.loads(process.stdout.readline())}
            rows = {name: value for one in (*threads, *tasks) for name, value in one.rows.items()} | others
            engines.agree(rows)
            if dice.random() < 0.3:
                client.script_flush()
                engines.agree(rows, 3)
        process.stdin.close()
        assert process.wait(20) == 0
    assert session_of(engines.stores["cached"]).cache.scopes


def test_engines_and_model_agree_after_a_flush_and_a_refill(make_any_store):
    engines = Engines(make_any_store)
    with make_any_store.server.client() as client:
        for seed in range(6):
            if seed % 2:
                client.flushdb()
            else:
                client.flushall()
            if seed == 3:
                engines.agree({})
            one = Client("c", seed)
            for _ in range(10 + seed * 3):
                engines.stores["cached"].batch(one.ops(4))
            engines.agree(one.rows)


@pytest.mark.parametrize("keeps", [True, False])
def test_engines_and_model_agree_after_the_server_has_started_again(launch, open_store, keeps):
    server = launch("valkey-9.1", *(("--appendonly", "yes", "--appendfsync", "always") if keeps else ()))

    def make(**settings: Any) -> Any:
        return open_store(server.url, **settings)

    engines = Engines(make)
    one = Client("c", 0)
    for _ in range(3):
        for _ in range(12):
            engines.stores["cached"].batch(one.ops(4))
        engines.agree(one.rows)
        server.kill()
        server.start()
        if not keeps:
            one.rows.clear()
        engines.agree(one.rows)


def test_engines_and_model_agree_after_a_replica_was_promoted(launch, open_store):
    primary, replica = launch("valkey-9.1"), launch("valkey-9.1")
    engines = Engines(lambda **settings: open_store(primary.url, **settings))
    one = Client("c", 1)
    for _ in range(10):
        engines.stores["cached"].batch(one.ops(4))
    engines.agree(one.rows)
    with replica.client() as client, primary.client() as old:
        client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        while client.info("replication")["master_link_status"] != "up":
            pass
        engines.agree(one.rows)
        old.execute_command("WAIT", 1, 5000)
        client.execute_command("REPLICAOF", "NO", "ONE")
    kept = dict(one.rows)
    lost = Client("lost", 2)
    for _ in range(5):
        engines.stores["cached"].batch(lost.ops(4))
    engines.agree(kept | lost.rows)
    # Stores that share the warm caches, and are led to the promoted replica.
    promoted = Engines(lambda **settings: open_store(replica.url, **settings))
    for name, store in promoted.stores.items():
        session_of(store).cache = session_of(engines.stores[name]).cache
    promoted.agree(kept)
    for _ in range(8):
        promoted.stores["cached"].batch(one.ops(4))
    promoted.agree(one.rows)
    # A search that is led back meets the other server's data, not a mixture.
    engines.agree(kept | lost.rows)
