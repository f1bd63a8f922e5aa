"""Counting accesses: exact whatever happens on the way, and nothing else of a memory moves."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp

from langgraph_forgetful_store.testing import WordEmbeddings
from tests.servers.test_forking import fork, wait

NS = ("users", "alice")
INDEX = {"dims": 16, "embed": WordEmbeddings(16), "fields": ["text"]}


def listed(store: Any, *, times: bool = False) -> dict[str, Any]:
    """The counts as a listing shows them, which does not count."""
    items = store.search((), limit=10_000, refresh_ttl=False)
    return {item.key: item.memory.last_accessed_at if times else item.memory.access_count for item in items}


def ms(moment: Any) -> float:
    return moment.timestamp() * 1000


def test_gets_and_searches_with_a_query_count_and_listings_do_not(make_store, face, clock):
    store, other = (face(make_store(clock=clock, index=INDEX)) for _ in range(2))
    for key in ("a", "b", "c"):
        store.put(NS, key, {"text": key, "key": key})
    store.get(NS, "a")
    store.search(NS, query="a", filter={"key": {"$in": ["a", "b"]}})
    store.recall(NS, "b", filter={"key": "b"})
    store.batch([GetOp(NS, "a"), SearchOp(NS, {"key": "c"}, query="c"), GetOp(NS, "absent"), GetOp(NS, "a")])
    expected = {"a": 4, "b": 2, "c": 1}
    for _ in range(3):
        store.search(NS)
        store.search(NS, query="", filter={"key": "a"})
        store.recall((), filter={"key": "b"})
        store.search(NS, query="a", limit=0)
        store.list_namespaces()
    assert listed(store) == expected
    assert listed(other) == {"a": 0, "b": 0, "c": 0}
    store.flush()
    assert listed(store) == listed(other) == expected


def test_a_search_counts_the_rows_of_its_page_alone(make_any_store, face, clock):
    store = face(make_any_store(clock=clock, index=INDEX))
    store.batch([PutOp(NS, str(at), {"text": "tea"}) for at in range(6)])
    store.search(NS, query="tea", limit=2, offset=1)
    assert listed(store) == {"5": 0, "4": 1, "3": 1, "2": 0, "1": 0, "0": 0}


def test_a_query_that_compares_nothing_counts_nothing(make_any_store, face, clock):
    store = face(make_any_store(clock=clock))
    store.put(NS, "k", {"text": "tea"})
    store.search(NS, query="and the")
    store.recall(NS, "tea", scoring="similarity")
    assert listed(store) == {"k": 0}


def test_a_read_shows_the_count_before_it(make_any_store, face, clock):
    store = face(make_any_store(clock=clock, index=INDEX))
    store.put(NS, "k", {"text": "tea"})
    shown = [store.get(NS, "k").memory.access_count for _ in range(3)]
    shown += [store.search(NS, query="tea")[0].memory.access_count]
    store.flush()
    shown += [store.search(NS, query="tea")[0].memory.access_count, store.get(NS, "k").memory.access_count]
    assert shown == [0, 1, 2, 3, 4, 5]


def test_nothing_else_moves(make_store, face, clock):
    store = face(make_store(clock=clock, index=INDEX))
    for key in ("a", "b"):
        store.put(NS, key, {"text": key, "$memory": {"confidence": 0.4, "tags": ["red"]}}, ttl=10)
    before = [item.dict() for item in store.search(NS, refresh_ttl=False)]
    clock.advance(minutes=1)
    for _ in range(3):
        store.get(NS, "a", refresh_ttl=False)
        store.flush()
    after = [item.dict() for item in store.search(NS, refresh_ttl=False)]
    counted = after[1]["memory"]
    assert counted.pop("access_count") == 3
    assert counted.pop("last_accessed_at") is not None
    # The order of listings neither.
    assert after == before


def test_the_time_of_the_last_access_is_written(make_store, face, clock):
    store = face(make_store(clock=clock))
    for key in ("a", "b"):
        store.put(NS, key, {})
    assert listed(store, times=True) == {"a": None, "b": None}
    clock.advance(minutes=5)
    store.get(NS, "a")
    store.flush()
    moments = listed(store, times=True)
    assert moments["b"] is None
    assert 0 <= clock.now - ms(moments["a"]) < 60_000
    written = ms(moments["a"])
    # A later clock of another client is not put back.
    clock.advance(minutes=-5)
    store.get(NS, "a")
    store.flush()
    assert ms(listed(store, times=True)["a"]) == written


def test_switched_off_nothing_counts(make_any_store, face):
    store = face(make_any_store(track_access=False, index=INDEX))
    store.put(NS, "k", {"text": "tea"})
    for _ in range(3):
        store.get(NS, "k")
        store.search(NS, query="tea")
    store.flush()
    assert store.get(NS, "k").dict()["memory"] == {"status": "active"}
    assert store.get(NS, "k").memory.access_count == 0


def test_a_new_life_starts_from_zero(make_store, face, clock):
    store, other = (face(make_store(clock=clock)) for _ in range(2))
    for end in (lambda: store.delete(NS, "k"), lambda: clock.advance(minutes=2)):
        store.put(NS, "k", {}, ttl=1)
        store.get(NS, "k")
        store.flush()
        # Two that are still in the buffer when the life ends.
        store.get(NS, "k")
        store.get(NS, "k")
        assert listed(store) == {"k": 3}
        end()
        clock.advance(ms=1)
        store.put(NS, "k", {}, ttl=1)
        assert listed(store) == {"k": 0}
        store.get(NS, "k")
        assert listed(store) == {"k": 1}
        store.flush()
        assert listed(store) == listed(other) == {"k": 1}
        store.delete(NS, "k")
        clock.advance(ms=1)


def test_a_put_over_a_row_keeps_its_count(make_store, face, clock):
    store = face(make_store(clock=clock))
    store.put(NS, "k", {"v": 1})
    store.get(NS, "k")
    store.flush()
    store.get(NS, "k")
    clock.advance(ms=5)
    store.put(NS, "k", {"v": 2})
    store.get(NS, "k")
    assert listed(store) == {"k": 3}
    store.flush()
    assert listed(store) == {"k": 3}


def test_accesses_of_what_is_gone_are_passed_over(make_store, face, clock):
    store = face(make_store(clock=clock))
    store.put(NS, "gone", {})
    store.put(NS, "kept", {})
    store.get(NS, "gone")
    store.get(NS, "kept")
    store.delete(NS, "gone")
    store.flush()
    assert listed(store) == {"kept": 1}


def test_any_number_of_rows_and_keys_of_any_length_are_counted_once_each(make_any_store, face, clock):
    store, other = (face(make_any_store(clock=clock)) for _ in range(2))
    names = [((*NS, str(at % 7)), f"{at}-" + "k" * (9000 if at % 2 else 0)) for at in range(1300)]
    for start in range(0, len(names), 100):
        store.batch([PutOp(*name, {}) for name in names[start : start + 100]])
    store.batch([GetOp(*name) for name in names])
    store.batch([GetOp(*name) for name in names[::2]])
    expected = {key: 2 if at % 2 == 0 else 1 for at, (_, key) in enumerate(names)}
    assert listed(store) == expected
    store.flush()
    assert listed(store) == listed(other) == expected
    store.flush()
    assert listed(other) == expected


def test_flushing_nothing_sends_nothing(make_any_store, face):
    store = face(make_any_store())
    store.flush()
    store.put(NS, "k", {})
    store.get(NS, "k")
    store.flush()
    with make_any_store.server.client() as client:
        before = client.info("commandstats")
        store.flush()
        after = client.info("commandstats")
    calls = [stats.get("cmdstat_evalsha", {}).get("calls") for stats in (before, after)]
    assert calls[0] == calls[1]


def test_closing_writes_what_is_counted(make_store, face, clock):
    other = face(make_store(clock=clock))
    other.put(NS, "k", {})
    store = face(make_store(clock=clock))
    for _ in range(3):
        store.get(NS, "k")
    assert listed(other) == {"k": 0}
    store.close()
    assert listed(other) == {"k": 3}


def test_leaving_the_context_writes_what_is_counted(make_any_store, clock):
    with make_any_store(clock=clock) as store:
        store.put(NS, "k", {})
        store.get(NS, "k")

    async def read() -> None:
        async with make_any_store(clock=clock) as store:
            await store.aget(NS, "k")

    asyncio.run(read())
    assert listed(make_any_store(clock=clock)) == {"k": 2}


@pytest.mark.parametrize("read", ["get", "search", "recall"])
def test_by_server_time_counts_are_written_in_the_background(make_any_store, face, read):
    store = face(make_any_store(index=INDEX))
    other = make_any_store(index=INDEX)
    store.put(NS, "k", {"text": "tea"})
    calls: dict[str, Callable[[], Any]] = {
        "get": lambda: store.get(NS, "k"),
        "search": lambda: store.search(NS, query="tea"),
        "recall": lambda: store.recall(NS, "tea"),
    }
    for _ in range(5):
        calls[read]()
    deadline = time.monotonic() + 20
    while listed(other) != {"k": 5} and time.monotonic() < deadline:
        time.sleep(0.05)
    assert listed(other) == listed(store) == {"k": 5}


def test_by_an_injected_clock_nothing_is_written_by_itself(make_any_store, face, clock):
    store = face(make_any_store(clock=clock))
    store.put(NS, "k", {})
    store.get(NS, "k")
    assert not any("counted accesses" in thread.name for thread in threading.enumerate() if thread.is_alive())
    assert listed(make_any_store(clock=clock)) == {"k": 0}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_forked_child_writes_what_it_counted_and_the_parent_what_it_did(make_any_store, clock):
    store, other = make_any_store(clock=clock), make_any_store(clock=clock)
    store.put(NS, "k", {})
    for _ in range(3):
        store.get(NS, "k")

    def child() -> None:
        store.flush()
        assert listed(store) == {"k": 0}
        store.get(NS, "k")
        store.close()

    wait(fork(child))
    assert (listed(other), listed(store)) == ({"k": 1}, {"k": 4})
    store.flush()
    assert listed(other) == {"k": 4}


def test_a_recall_may_leave_no_trace(make_store, face, clock):
    store = face(make_store(clock=clock, index={"dims": 8, "embed": WordEmbeddings(8), "fields": ["text"]}))
    store.put(("a",), "k", {"text": "tea"})
    assert [item.key for item in store.recall(("a",), "tea", track_access=False)] == ["k"]
    assert store.recall(("a",), "tea")[0].memory.access_count == 0
    assert store.recall(("a",), "tea", track_access=False)[0].memory.access_count == 1
    with pytest.raises(TypeError, match="track_access must be True or False"):
        store.recall(("a",), "tea", track_access=None)
