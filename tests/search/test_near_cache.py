"""Searches that share one near-cache, in every order that concurrency allows; and what the cache takes and leaves."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import random
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from langgraph.store.base import PutOp, SearchOp

from langgraph_forgetful_store.backend.keys import store_prefix
from langgraph_forgetful_store.operations import search as search_operation
from langgraph_forgetful_store.operations.batch import Batch
from langgraph_forgetful_store.search import near_cache, scope
from langgraph_forgetful_store.testing import WordEmbeddings
from langgraph_forgetful_store.testing.interleaving import Interleaver, Run
from langgraph_forgetful_store.testing.internals import session_of
from tests.servers.test_forking import fork, wait
from tests.support.staged_orders import load_scripts

pytestmark = pytest.mark.exhaustive

NS = ("notes",)
OTHER = ("notes", "old")
MATCHES = {"v": {"$gte": 0}}
INDEX = {"dims": 8, "embed": WordEmbeddings(8), "fields": ["text"]}


class Shared:
    """A store whose rows are set back quickly, between thousands of runs."""

    def __init__(self, maker: Any, puts: list[PutOp], **settings: Any) -> None:
        self.store = maker(scoring="similarity", clock=lambda: 1_700_000_000_000, **settings)
        self.store.setup()
        for put in puts:
            self.store.batch([put])
        self.puts = puts
        self.client = maker.server.client()
        load_scripts(self.client)
        self._prefix = store_prefix(maker.key_prefix)
        self._rows = {key: self.client.dump(key) for key in self.client.scan_iter(match=f"{maker.key_prefix}:*")}
        self.session = session_of(self.store)
        self.interleaver = Interleaver(self.client, self._prefix, self.session.index.embedder)

    def flow(self, *ops: Any) -> Any:
        return Batch.prepare(ops, self.session).run(self.session)

    def reset(self) -> None:
        with self.client.pipeline(transaction=False) as pipeline:
            pipeline.flushdb()
            for key, data in self._rows.items():
                pipeline.restore(key, 0, data)
            pipeline.execute()
        self.session.cache.clear()

    def rows_at(self, run: Run, writers: dict[str, list[PutOp]], until: int) -> list[tuple[str, int]]:
        """The rows, latest write first, after the events before `until`."""
        done = dict.fromkeys(writers, 0)
        rows: dict[tuple[tuple[str, ...], str], int] = {}
        puts = list(self.puts)
        for event in run.events[:until]:
            if event.kind == "execute" and event.actor in writers:
                puts.append(writers[event.actor][done[event.actor]])
                done[event.actor] += 1
        for put in puts:
            rows.pop((put.namespace, put.key), None)
            if put.value is not None:
                rows[put.namespace, put.key] = put.value["v"]
        return [(key, value) for (_, key), value in reversed(rows.items())]


@pytest.fixture
def shared(make_any_store) -> Iterator[Any]:
    made: list[Shared] = []

    def make(puts: list[PutOp], **settings: Any) -> Shared:
        made.append(Shared(make_any_store, puts, **settings))
        return made[-1]

    yield make
    for one in made:
        one.client.close()


SCENES: dict[str, tuple[list[SearchOp], dict[str, list[PutOp]]]] = {
    "cold": (
        [SearchOp(NS, filter=MATCHES, limit=9)] * 2,
        {"one": [PutOp(NS, "k0", None), PutOp(NS, "k1", {"v": 10})], "two": [PutOp(NS, "k0", {"v": 11})]},
    ),
    "warm": (
        [SearchOp(NS, filter=MATCHES, limit=9)] * 2,
        {
            "one": [PutOp(NS, "k0", {"v": 10}), PutOp(NS, "k0", None)],
            "two": [PutOp(NS, "new", {"v": 12}), PutOp(OTHER, "k2", {"v": 11})],
        },
    ),
    "three": (
        [SearchOp(NS, filter=MATCHES, limit=9)] * 3,
        {"one": [PutOp(NS, "k0", {"v": 10}), PutOp(NS, "k0", None)], "two": [PutOp(OTHER, "k2", {"v": 11})]},
    ),
    "large": (
        [SearchOp(NS, filter=MATCHES, limit=2), SearchOp(NS, filter=MATCHES, limit=9)],
        {
            "one": [PutOp(NS, "k0", {"v": 10, "rest": "x" * 99}), PutOp(NS, "k1", None)],
            "two": [PutOp(NS, "n", {"v": 12})],
        },
    ),
}


def in_strides(dice: random.Random) -> Callable[[int], int]:
    """Choose as if one actor were often fast while the others wait: what goes wrong deep in a load is met so."""
    last = 0

    def choose(count: int) -> int:
        nonlocal last
        if last >= count or dice.random() < 0.25:
            last = dice.randrange(count)
        return last

    return choose


def faults(shared: Any, monkeypatch: Any, scene: str, most: int) -> Iterator[list[Any]]:
    """Explore a scene; yields, for each run, what was wrong."""
    monkeypatch.setattr(near_cache, "WINDOW", 1)
    monkeypatch.setattr(near_cache, "CHANGES", 2)
    # With a lower bound for values, the step that reads and judges large ones has its place in the orders too.
    monkeypatch.setattr(near_cache, "VALUE_BYTES", 50)
    ops, writers = SCENES[scene]
    large = {"rest": "x" * 99} if scene == "large" else {}
    puts = [PutOp(NS, "k0", {"v": 0, **large}), PutOp(NS, "k1", {"v": 1, **large}), PutOp(OTHER, "k2", {"v": 2})]
    at = shared(puts, index=INDEX)
    searches = {f"search {n}": op for n, op in enumerate(ops)}

    def actors() -> dict[str, Any]:
        at.reset()
        if scene != "cold":
            at.store.batch([ops[0]])
        flows = {name: at.flow(op) for name, op in searches.items()}
        return flows | {name: _several([at.flow(put) for put in puts]) for name, puts in writers.items()}

    def is_right(run: Run, op: SearchOp, items: list[Any], moments: Iterable[int]) -> bool:
        found = [(item.key, item.value["v"]) for item in items]
        return found in [at.rows_at(run, writers, place)[: op.limit] for place in moments]

    strides = (at.interleaver.run(actors(), in_strides(random.Random(seed))) for seed in range(most))
    for run in itertools.chain(strides, at.interleaver.explore(actors, most=most // 2)):
        wrong = []
        for name, op in searches.items():
            # Its sync, or a later one of another search, answered before: between its first event and its last.
            moments = range(run.at(name, "execute"), run.at(name, "deliver", -1) + 1)
            if not is_right(run, op, run.result(name)[0], moments):
                wrong.append((name, run))
        if not is_right(run, ops[-1], at.store.batch([ops[-1]])[0], [len(run.events)]):
            wrong.append(("afterwards", run))
        yield wrong


@pytest.mark.parametrize("scene", SCENES)
def test_each_search_that_shares_a_cache_returns_what_was_there_at_one_moment_of_it(shared, monkeypatch, scene):
    runs = 0
    for wrong in faults(shared, monkeypatch, scene, 1000):
        assert wrong == []
        runs += 1
    assert runs == 2000


def fixed(value: Any) -> property:
    """An attribute that stays as it is, whatever it is set to."""
    return property(lambda one: value, lambda one, other: None)


def _whatever_its_base(self: Any, identity: Any, delta: Any) -> Any:
    self.put(delta.gone, delta.rows, max(delta.number, self.snapshot.version))
    return self.snapshot


@pytest.mark.parametrize("scene", ["warm", "three"])
def test_the_same_orders_find_what_is_wrong_with_deltas_that_are_applied_to_anything(shared, monkeypatch, scene):
    monkeypatch.setattr(scope.Scope, "apply", _whatever_its_base)
    monkeypatch.setattr(scope.Scope, "type_names", fixed(("generic",)), raising=False)
    assert any(faults(shared, monkeypatch, scene, 1000))


def test_the_same_orders_find_what_is_wrong_with_loads_that_are_not_told_apart(shared, monkeypatch):
    monkeypatch.setattr(scope.Scope, "load", fixed(0), raising=False)
    monkeypatch.setattr(scope.Scope, "type_names", fixed(("generic",)), raising=False)
    assert any(faults(shared, monkeypatch, "cold", 1000))


def _several(flows: list[Any]) -> Any:
    """A writer's puts, one after another."""
    for flow in flows:
        yield from flow


def fill(store: Any, count: int, ns: tuple[str, ...] = NS, **more: Any) -> None:
    store.batch([PutOp(ns, f"k{n:06}", {"v": n, "text": f"word{n % 50} more", **more}) for n in range(count)])


@pytest.mark.parametrize(("rows", "scopes"), [(3000, 1), (1, 300), (0, 300), (40, 20)])
def test_the_estimate_of_the_memory_that_is_taken_is_right_within_a_factor_of_two(make_any_store, rows, scopes):
    store = make_any_store(index={**INDEX, "dims": 128, "embed": WordEmbeddings(128)})
    store.setup()
    for n in range(scopes):
        fill(store, rows, ("user", f"{n}"), kind="fact", tags=["a", "b"])
    gc.collect()
    tracemalloc.start()
    try:
        for n in range(scopes):
            store.search(("user", f"{n}"), query="word1", filter=MATCHES)
        for n in range(min(rows, 30)):
            store.put(("user", "0"), f"k{n:06}", {"v": n, "text": "changed"})
            store.search(("user", "0"), query="word1", filter=MATCHES)
        gc.collect()
        real = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    estimate = sum(one.bytes for one in session_of(store).cache.scopes.values())
    assert real / 2 < estimate < real * 2


def test_the_cache_keeps_to_its_budget_also_when_scopes_grow_by_deltas(make_any_store):
    budget = 400_000
    store = make_any_store(cache_bytes=budget)
    cache = session_of(store).cache
    names = [("user", f"{n}") for n in range(8)]
    for turn in range(12):
        for ns in names:
            store.batch([PutOp(ns, f"k{turn}-{n}", {"v": n}) for n in range(10)])
            assert len(store.search(ns, filter=MATCHES, limit=1000)) == 10 * (turn + 1)
            assert sum(one.bytes for one in cache.scopes.values()) <= budget
    assert 0 < len(cache.scopes) < len(names)


def test_one_scope_that_outgrows_the_budget_is_left_to_the_scan(make_any_store):
    store = make_any_store(cache_bytes=100_000)
    for turn in range(30):
        store.batch([PutOp(NS, f"k{turn}-{n}", {"v": n}) for n in range(10)])
        assert len(store.search(NS, filter=MATCHES, limit=1000)) == 10 * (turn + 1)
    assert not session_of(store).cache.scopes


def test_thousands_of_empty_scopes_do_not_pile_up(make_any_store):
    store = make_any_store(cache_bytes=100_000)
    for n in range(200):
        assert store.search(("nobody", f"{n}"), filter=MATCHES) == []
    assert 0 < len(session_of(store).cache.scopes) < 20


def test_many_updates_are_compacted_away(make_any_store):
    store = make_any_store(index=INDEX)
    fill(store, 100)
    sizes = set()
    for turn in range(60):
        fill(store, 20, turn=turn)
        assert len(store.search(NS, query="word1", filter={"v": {"$lt": 100}}, limit=200)) == 100
        (one,) = session_of(store).cache.scopes.values()
        sizes.add(one.snapshot.size)
    assert max(sizes) < 160
    assert one.bytes < 400_000


def test_filter_masks_are_bounded_and_forgotten_ones_are_evaluated_again(make_any_store, monkeypatch):
    monkeypatch.setattr(scope, "KEEP_MASKS", 4)
    store = make_any_store()
    fill(store, 20)
    for n in itertools.chain(range(20), range(20)):
        assert len(store.search(NS, filter={"v": {"$lt": n}}, limit=100)) == n
    (one,) = session_of(store).cache.scopes.values()
    assert len(one.masks) == 4


def test_a_filter_looks_at_each_version_of_a_row_once(make_any_store, monkeypatch):
    looked = []
    compile_filter = search_operation.compile_filter

    def counting(given: Any) -> Any:
        matches = compile_filter(given)
        return lambda value: looked.append(value["v"]) or matches(value)

    monkeypatch.setattr(search_operation, "compile_filter", counting)
    store = make_any_store()
    fill(store, 5)
    for _ in range(3):
        store.search(NS, filter=MATCHES)
    assert sorted(looked) == list(range(5))
    # Also where so many rows have changed that the cache is made anew.
    for turn in range(200):
        store.put(NS, "k000003", {"v": 33 + turn})
        found = store.search(NS, filter=MATCHES)
        assert sorted(item.value["v"] for item in found) == [0, 1, 2, 4, 33 + turn]
    assert looked[5:] == list(range(33, 233))


def test_a_result_that_its_caller_changes_leaves_the_cache_as_it_is(make_any_store):
    store = make_any_store()
    store.put(NS, "k", {"v": 0, "deep": {"list": [1]}})
    for _ in range(3):
        (item,) = store.search(NS, filter=MATCHES)
        assert item.value == {"v": 0, "deep": {"list": [1]}}
        item.value["deep"]["list"].append(2)
        item.value["v"] = -1


async def test_a_search_over_many_rows_leaves_the_event_loop(make_any_store, monkeypatch):
    store = make_any_store(index=INDEX)
    fill(store, 2000)
    store.batch([PutOp(NS, f"more{n}", {"v": n}) for n in range(18_000)])
    ran: dict[str, set[int]] = {}

    def watch(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def watched(*args: Any, **more: Any) -> Any:
            ran.setdefault(name, set()).add(threading.get_ident())
            return function(*args, **more)

        monkeypatch.setattr(owner, name, watched)

    watch(search_operation, "rank")
    watch(scope.Scope, "replace")
    watch(scope.Scope, "mask")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    try:
        await asyncio.sleep(0)
        before = ticks
        found = await store.asearch(NS, query="word", filter=MATCHES, limit=3)
        assert len(found) == 3
        assert ticks > before
        (one,) = session_of(store).cache.scopes.values()
        assert one.snapshot.size == 20_000
    finally:
        ticking.cancel()
    assert set(ran) == {"rank", "replace", "mask"}
    assert all(threading.get_ident() not in threads for threads in ran.values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_child_that_is_forked_from_a_warm_cache_is_exact_and_so_is_its_parent(make_any_store):
    store = make_any_store()
    fill(store, 20)
    assert len(store.search(NS, filter=MATCHES, limit=100)) == 20
    (one,) = session_of(store).cache.scopes.values()
    one.lock.acquire()
    session_of(store).cache.lock.acquire()
    try:

        def action() -> None:
            assert len(store.search(NS, filter=MATCHES, limit=100)) == 20
            store.put(NS, "child", {"v": 100})
            store.delete(NS, "k000000")
            assert len(store.search(NS, filter={"v": {"$gte": 100}})) == 1

        child = fork(action)
    finally:
        one.lock.release()
        session_of(store).cache.lock.release()
    wait(child)
    found = {item.key for item in store.search(NS, filter=MATCHES, limit=100)}
    assert found == {f"k{n:06}" for n in range(1, 20)} | {"child"}


def test_without_the_right_to_call_info_the_cache_is_off_and_says_so_once(launch, open_store, caplog):
    server = launch("valkey-9.1")
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-info")
    settings: dict[str, Any] = {"scoring": "similarity", "index": INDEX}
    full = open_store(server.url, **settings)
    fill(full, 50)
    limited = open_store(f"unix://limited:secret@{server.socket_path}", **settings)
    with caplog.at_level(logging.WARNING, "langgraph_forgetful_store"):
        for turn in range(4):
            limited.put(NS, "more", {"v": turn, "text": "word3"})
            for query in ("word1 more", None):
                asked = {"query": query, "filter": MATCHES, "limit": 30}
                results = [
                    [(item.key, item.value, item.score) for item in one.search(NS, **asked)] for one in (limited, full)
                ]
                assert results[0] == results[1]
    assert sum("near-cache is off" in record.message for record in caplog.records) == 1
    assert session_of(full).cache.scopes
