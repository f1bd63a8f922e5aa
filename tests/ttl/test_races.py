"""Races at server time, with many threads and tasks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store.backend.keys import store_prefix
from langgraph_forgetful_store.testing import WordEmbeddings

pytestmark = pytest.mark.exhaustive

NS = ("race",)
ROUNDS = 50
READERS = 64
TTL_MINUTES = 0.0005


def _now() -> float:
    # Server and tests share one machine, and so one clock.
    return time.time() * 1000


def _wait_until(ms: float) -> None:
    while (left := ms - _now()) > 0:
        time.sleep(left / 2000)


def _no_late_hit(seen: list[tuple[float, bool]], expires: float) -> None:
    assert seen
    late = [sent - expires for sent, hit in seen if hit and sent >= expires]
    assert not late, f"hits sent {late} ms after the expiry"


class _Round:
    """One key, put anew each round, and what its readers saw."""

    def __init__(self, store: Any, serial: int) -> None:
        self.store = store
        self.key = f"k{serial}"
        store.put(NS, self.key, {"n": 1}, ttl=TTL_MINUTES)
        item = store.get(NS, self.key, refresh_ttl=False)
        self.expires = _now() if item is None else item.memory.expires_at.timestamp() * 1000
        self.seen: list[tuple[float, bool]] = []

    def read(self, sliding: bool) -> None:
        """Readers that slide TTLs begin at the expiry, the others shortly before."""
        _wait_until(self.expires if sliding else self.expires - 5)
        while True:
            sent = _now()
            if sliding:
                found = self.store.get(NS, self.key) or self.store.search(NS, filter={"n": 1})
            else:
                found = self.store.get(NS, self.key, refresh_ttl=False)
            self.seen.append((sent, bool(found)))
            if sent >= self.expires + 2:
                return


def test_64_threads_across_an_expiry_never_hit_late_and_never_revive(make_any_store):
    store = make_any_store()
    store.setup()
    with ThreadPoolExecutor(READERS) as pool:
        for serial in range(ROUNDS):
            one = _Round(store, serial)
            list(pool.map(one.read, [reader % 2 == 0 for reader in range(READERS)]))
            _no_late_hit(one.seen, one.expires)
            assert store.get(NS, one.key) is None
    assert store.list_namespaces() == []


async def test_64_tasks_across_an_expiry_never_hit_late_and_never_revive(make_any_store):
    store = make_any_store()
    await store.asetup()
    for serial in range(ROUNDS):
        key = f"k{serial}"
        await store.aput(NS, key, {"n": 1}, ttl=TTL_MINUTES)
        item = await store.aget(NS, key, refresh_ttl=False)
        expires = _now() if item is None else item.memory.expires_at.timestamp() * 1000
        seen: list[tuple[float, bool]] = []

        async def read(reader: int, key: str = key, expires: float = expires, seen: Any = seen) -> None:
            sliding = reader % 2 == 0
            while _now() < expires - (0 if sliding else 5):
                await asyncio.sleep(0)
            while True:
                sent = _now()
                found = await store.aget(NS, key, refresh_ttl=sliding)
                seen.append((sent, found is not None))
                if sent >= expires + 2:
                    return

        await asyncio.gather(*(read(reader) for reader in range(READERS)))
        _no_late_hit(seen, expires)
        assert await store.aget(NS, key) is None


def _together(count: int, work: Callable[[int], None]) -> None:
    barrier = threading.Barrier(count)

    def begin(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(begin, range(count)))


def test_threads_that_put_one_fresh_key_leave_one_item_and_one_index_entry(make_store):
    store = make_store(index={"dims": 8, "embed": WordEmbeddings(8)})
    for serial in range(20):
        namespace = ("fresh", f"n{serial}")
        _together(8, lambda number, ns=namespace: store.put(ns, "k", {"n": number}, ttl=5))
        items = store.search(namespace, limit=50)
        assert len(items) == 1
        assert items[0].memory.version == 8
    assert make_store.keys() == {"rows": 20, "expiring": 20, "namespaces": 20}


def test_the_change_number_is_one_a_row_under_concurrent_batches(make_store):
    store = make_store()
    _together(8, lambda number: [store.batch([PutOp(NS, f"{number}-{n}", {}) for n in range(50)]) for _ in range(4)])
    with make_store.server.client() as client:
        assert int(client.get(store_prefix(make_store.key_prefix) + b"seq")) == 8 * 50 * 4
    assert make_store.keys()["rows"] == 400


SEARCHES: dict[str, Callable[[Any], list[Any]]] = {
    "get": lambda store: [store.get(NS, "k")],
    "listing": lambda store: store.search(NS, limit=1000),
    "listing of several namespaces": lambda store: store.search((), limit=1000),
    "filter": lambda store: store.search(NS, filter={"hot": True}),
    "query": lambda store: store.search(NS, query="alpha", limit=1000),
}


@pytest.mark.parametrize("kind", SEARCHES)
def test_readers_during_updates_never_see_a_gap(make_any_store, kind):
    store = make_any_store(index={"dims": 8, "embed": WordEmbeddings(8), "fields": ["text"]})
    store.batch([PutOp(NS, f"other{n}", {"text": "beta", "hot": False}) for n in range(1500)])
    store.put(("race2",), "other", {"text": "beta"})
    store.put(NS, "k", {"n": 0, "hot": True, "text": "alpha"}, ttl=5)
    done = threading.Event()

    def update() -> None:
        n = 0
        while not done.is_set():
            n += 1
            store.put(NS, "k", {"n": n, "hot": True, "text": "alpha"}, ttl=5)

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(update) for _ in range(2)]
        try:
            for _ in range(40):
                found = [item.key for item in SEARCHES[kind](store) if item is not None and item.key == "k"]
                assert found == ["k"]
        finally:
            done.set()
        for writer in writers:
            writer.result()


def test_concurrent_sweeps_count_every_row_once(make_store, clock):
    store = make_store(clock=clock)
    for start in range(0, 2000, 500):
        store.batch([PutOp((f"n{n % 7}",), str(n), {}, ttl=1) for n in range(start, start + 500)])
    clock.advance(minutes=1)
    swept: list[int] = []
    _together(6, lambda number: swept.append(store.sweep_ttl()))
    assert sum(swept) == 2000
    assert make_store.keys(empty=True)["rows"] == 0
