"""Supersedes that race, searches and erasures beside them, and clients that are killed at any point."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import PutOp, SearchOp

from langgraph_forgetful_store import MemoryNotFoundError, VersionConflictError
from langgraph_forgetful_store.operations import erase
from langgraph_forgetful_store.operations import remember as remembering
from langgraph_forgetful_store.operations.writing import Writing
from langgraph_forgetful_store.testing import WordEmbeddings
from tests.support.memories_over_days import is_linear
from tests.support.staged_orders import Stage

pytestmark = pytest.mark.exhaustive

NS = ("notes",)
SLOT = {"subject": "user", "attribute": "home"}
EVERY_STATUS = ["active", "archived", "superseded"]
TERMS = erase.Terms.parse("user_request", False, False, None)


def texts(items: list[Any]) -> list[str]:
    return [item.value["content"] for item in items]


def check_one_head(store: Any, count: int | None = None) -> None:
    """Check that the slot has one current row, and that every row is in its chain."""
    (head,) = store.recall(NS, limit=10)
    chain = store.history(NS, head.key)
    assert is_linear(chain)
    assert chain[-1].key == head.key
    everything = store.recall(NS, status=EVERY_STATUS, limit=10_000)
    assert sorted(texts(chain)) == sorted(texts(everything))
    assert [row.memory.version for row in chain] == list(range(1, len(chain) + 1))
    ends = [row.memory.valid_until for row in chain]
    assert ends == [*(row.memory.valid_from for row in chain[1:]), None]
    assert count is None or len(chain) == count


SUPERSEDE_MANY = """
import sys
from langgraph_forgetful_store import ForgetfulStore
url, prefix, name, count = sys.argv[1:]
with ForgetfulStore.from_conn_string(url, key_prefix=prefix) as store:
    store.setup()
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        if number % 2:
            store.supersede(("notes",), "first", f"{name} {number}")
        else:
            store.remember(("notes",), f"{name} {number}", subject="user", attribute="home")
"""


def start(script: str, *args: str) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script, *args], text=True, cwd=root, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_two_processes_that_race_on_one_slot_leave_one_head_and_a_linear_chain(make_any_store):
    store = make_any_store()
    store.remember(NS, "first", key="first", **SLOT)
    racers = [start(SUPERSEDE_MANY, make_any_store.server.url, make_any_store.key_prefix, n, "500") for n in "ab"]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    while racers[0].poll() is None and racers[1].poll() is None:
        assert len(store.recall(NS)) == len(store.recall(NS, "home")) == 1
    for racer in racers:
        _, errors = racer.communicate(timeout=60)
        assert (racer.returncode, errors) == (0, "")
    check_one_head(store, 1001)
    (head,) = store.recall(NS)
    wanted = {f"{name} {number}" for name in "ab" for number in range(500)}
    assert {*texts(store.history(NS, head.key))} == wanted | {"first"}


def test_threads_and_tasks_that_race_leave_one_head_and_a_linear_chain(make_store):
    store = make_store(index={"dims": 8, "embed": WordEmbeddings(8), "fields": ["content"]})
    store.remember(NS, "first", key="first", **SLOT)

    def step(name: str) -> None:
        store.supersede(NS, "first", f"thread {name}")
        assert len(store.recall(NS, "thread")) == 1

    async def tasks() -> None:
        await asyncio.gather(*(store.asupersede(NS, "first", f"task {number}") for number in range(40)))

    with ThreadPoolExecutor(8) as pool:
        steps = [pool.submit(step, str(number)) for number in range(40)]
        asyncio.run(tasks())
        for one in steps:
            one.result()
    check_one_head(store, 81)


def test_of_racers_that_expect_the_same_version_one_wins(make_any_store):
    store = make_any_store()
    store.remember(NS, "first", key="first")

    def attempt(number: int) -> bool:
        try:
            store.supersede(NS, "first", f"{number}", expected_version=1)
        except VersionConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1
    check_one_head(store, 2)


INDEX = {"dims": 8, "embed": WordEmbeddings(8), "fields": ["content"]}
LARGE = "x" * 70_000
SEARCHES = {
    "listing": (SearchOp(NS), {}),
    "query": (SearchOp(NS, query="home"), {}),
    "filter": (SearchOp(NS, filter={"home": True}), {}),
    # A second step fetches what is not kept, or slides TTLs.
    "second step for values": (SearchOp(NS, query="home"), {"large": LARGE}),
    "second step for TTLs": (SearchOp(NS, query="home", refresh_ttl=True), {}),
}


def superseding(at: Stage, key: str) -> Any:
    content = {"content": "home new", "home": True, "large": LARGE}
    made = Writing.prepare(NS, key, content, at.session, {})
    return remembering.supersede(at.session, made, "old", "updated", None)


def seed(search: str) -> list[PutOp]:
    life = {"subject": "user", "attribute": "home"}
    value = {"content": "home old", "home": True, "$memory": life, **SEARCHES[search][1]}
    return [PutOp(NS, "old", value, ttl=10 if "TTLs" in search else None)]


@pytest.mark.parametrize("cache", [{}, {"cache_bytes": 0}], ids=["near-cache", "scan"])
@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_beside_a_supersede_sees_exactly_one_current_row(stage, search, cache):
    at = stage(index=INDEX, **cache)
    op = SEARCHES[search][0]
    runs, seen = 0, set()
    # With and without what an earlier search has kept.
    for warm in (False, True):

        def make(warm: bool = warm) -> dict[str, Any]:
            if warm:
                at.store.batch([op])
            return {"search": at.batch(op), "supersede": superseding(at, "new")}

        for run in at.explore(seed(search), make, most=40):
            (items,) = run.result("search")
            assert [item.key for item in items] in (["old"], ["new"])
            assert items[0].memory.status == "active"
            committed = run.at("supersede", "execute", -1)
            if run.at("search", "execute") > committed:
                assert items[0].key == "new"
            if run.at("search", "deliver", -1) < committed:
                assert items[0].key == "old"
            assert run.result("supersede").memory.supersedes == "old"
            seen.add(items[0].key)
            runs += 1
    assert seen == {"old", "new"}
    assert runs > 20


def test_two_supersedes_and_a_search_in_random_orders(stage):
    at = stage(index=INDEX)
    op = SEARCHES["second step for values"][0]

    def make() -> dict[str, Any]:
        return {"search": at.batch(op), "one": superseding(at, "one"), "two": superseding(at, "two")}

    for run in at.explore(seed("second step for values"), make, most=40):
        (items,) = run.result("search")
        assert len(items) == 1
        assert {run.result(name).memory.version for name in ("one", "two")} == {2, 3}
        check_one_head(at.store, 3)


def test_a_supersede_beside_a_forget_leaves_all_or_nothing(stage):
    at = stage(index=INDEX)

    def make() -> dict[str, Any]:
        forget = erase.forget(at.session, NS, "old", TERMS)
        return {"forget": forget, "supersede": superseding(at, "new"), "search": at.batch(SearchOp(NS))}

    ends = set()
    for run in at.explore(seed("listing"), make, most=60):
        assert run.result("forget").residue == ()
        assert len(run.result("search")[0]) <= 1
        error = run.outcomes["supersede"].error
        assert error is None or isinstance(error, MemoryNotFoundError)
        # What came before the erasure went with it.
        ends.add((error is None, tuple(item.key for item in at.store.recall(NS, status=EVERY_STATUS))))
    assert ends == {(True, ()), (False, ())}


@pytest.mark.parametrize("call", ["supersede", "forget"])
def test_a_client_that_stops_between_any_two_pipelines_leaves_all_in_order(stage, call):
    at = stage(index=INDEX)

    def make() -> Any:
        return superseding(at, "new") if call == "supersede" else erase.forget(at.session, NS, "old", TERMS)

    stopped = 0
    while True:
        at.reset(*seed("listing"))
        at.store.supersede(NS, "old", {"content": "home middle", "home": True}, new_key="middle")
        steps = at.interleaver.pipelines(make())
        commands, done = next(steps), False
        for _ in range(stopped):
            replies = [at.client.execute_command(*command) for command in commands]
            try:
                commands = steps.send(replies)
            except StopIteration:
                done = True
        steps.close()
        at.maker.keys()
        left = at.store.recall(NS, status=EVERY_STATUS)
        if left:
            check_one_head(at.store)
        if call == "forget":
            assert at.store.forget(NS, "old").residue == ()
            assert at.store.recall(NS, status=EVERY_STATUS) == []
        else:
            at.store.supersede(NS, "old", "again")
            check_one_head(at.store, len(left) + 1)
        if done:
            break
        stopped += 1
    assert stopped >= 2


KILL_MANY = """
import os, random, signal, sys, time
from langgraph_forgetful_store import ForgetfulStore

url, prefix, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
NS, SLOT = ("notes",), {"subject": "user", "attribute": "home"}
EVERY_STATUS = ["active", "archived", "superseded"]
dice = random.Random(7)


def open_store():
    return ForgetfulStore.from_conn_string(url, key_prefix=prefix)


def work(ready):
    with open_store() as store:
        store.setup()
        os.write(ready, b"r")
        number = 0
        while True:
            for _ in range(4):
                number += 1
                store.remember(NS, f"home {number}", subject="user", attribute="home")
            store.link(NS, store.recall(NS)[0].key, "relates", "anchor")
            (head,) = store.recall(NS, tags=None, filter={"$memory": {"subject": "user"}})
            store.forget(NS, head.key)


found = {"rows": 0, "empty": 0}
for _ in range(rounds):
    reading, ready = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open_store() as store:
                store.remember(NS, "anchor", key="anchor")
            work(ready)
        finally:
            os._exit(1)
    os.close(ready)
    assert os.read(reading, 1) == b"r", "the child failed"
    os.close(reading)
    # It is killed wherever it is by then: no injected clock tells how far another process has come.
    time.sleep(dice.random() * 0.012)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    with open_store() as store:
        heads = store.recall(NS, filter={"$memory": {"subject": "user"}})
        rows = store.recall(NS, filter={"$memory": {"subject": "user"}}, status=EVERY_STATUS, limit=1000)
        assert len(heads) <= 1, heads
        if not heads:
            assert not rows, rows
            found["empty"] += 1
        else:
            found["rows"] += 1
            chain = store.history(NS, heads[0].key)
            assert sorted(row.key for row in chain) == sorted(row.key for row in rows)
            names = [None, *(row.key for row in chain), None]
            for before, row, after in zip(names, chain, names[2:], strict=False):
                assert (row.memory.supersedes, row.memory.superseded_by) == (before, after)
            again = store.supersede(NS, chain[0].key, "again")
            assert again.memory.supersedes == heads[0].key
            assert store.forget(NS, chain[0].key).erased["memories"] == len(chain) + 1
        assert store.recall(NS, filter={"$memory": {"subject": "user"}}, status=EVERY_STATUS) == []
        assert store.neighbors(NS, "anchor") == []
print(found["rows"] > 0, flush=True)
"""


def test_clients_that_are_killed_at_any_point_leave_all_in_order(make_any_store):
    run = start(KILL_MANY, make_any_store.server.url, make_any_store.key_prefix, "200")
    printed, errors = run.communicate(timeout=120)
    assert (run.returncode, errors, printed) == (0, "", "True\n")
