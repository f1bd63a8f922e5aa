"""However large the rows are, no script returns much more than it may at once, and nothing is left out for it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import unpack_meta
from langgraph_forgetful_store.backend.flow import Send
from langgraph_forgetful_store.backend.keys import decode_text, encode_namespace, store_prefix
from langgraph_forgetful_store.search.near_cache import ask_rows
from langgraph_forgetful_store.search.rows import Row, complete
from langgraph_forgetful_store.search.scan import ALL_VALUES
from langgraph_forgetful_store.search.table import Fetched, snapshot_of
from tests.support.refused_input import INDEX, NS

MB = 1_000_000
FRAME = scripts.Frame("", True)


def value(size: int) -> dict[str, Any]:
    return {"text": "x" * size}


def size_of(reply: Any) -> int:
    if isinstance(reply, list):
        return sum(map(size_of, reply))
    return len(reply) if isinstance(reply, bytes) else 0


@dataclass
class Place:
    """A store, and its scripts called directly."""

    store: Any
    client: Any
    prefix: bytes

    def call(self, call: scripts.Call) -> Any:
        return self.client.eval(call.script.source, 1, self.prefix, *call.args)

    def windows(self, *, vectors: bool = False, value_bytes: int = ALL_VALUES) -> Iterator[list[Any]]:
        start: tuple[bytes, Any] = (b"", 0)
        while True:
            before = [start[0], int(start[1])]
            reply = self.call(scripts.scan(FRAME, b"", start, 1000, vectors=vectors, value_bytes=value_bytes))
            yield reply
            at_end, *start = reply[4:7]
            if at_end == b"1":
                break
            assert [start[0], int(start[1])] > before, "the scan does not move on"

    def pages(self, since: int = 0) -> Iterator[list[Any]]:
        page_from: Any = since
        while True:
            reply = self.call(scripts.sync(FRAME, b"", since, 2000, page_from, vectors=True, value_bytes=ALL_VALUES))
            yield reply
            if reply[5] != b"more":
                break
            page_from = reply[6]


@pytest.fixture
def place(make_any_store: Any) -> Iterator[Place]:
    with make_any_store.server.client() as client:
        yield Place(make_any_store(index=INDEX), client, store_prefix(make_any_store.key_prefix))


def names(groups: list[Any], skip: int) -> list[tuple[bytes, str]]:
    return [(group[0], decode_text(row[0])) for group in groups for row in group[skip:]]


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("value_bytes", [0, 65_536, ALL_VALUES])
def test_windows_of_a_scan_are_bounded_in_bytes_and_hold_each_row_once(
    place: Place, vectors: bool, value_bytes: int
) -> None:
    chosen = random.Random(7)
    expected: list[tuple[bytes, str]] = []
    texts = {"texts": [f"w{n}" for n in range(4000)]}
    for space in ("a", "b", "c"):
        sizes = chosen.choices([1, 1000, 60_000, 400_000, 900_000, 1_999_000, 3 * MB], [40, 40, 9, 4, 3, 2, 2], k=100)
        for at, size in enumerate(sizes):
            # Some have so many vectors that those alone are half of what a window may hold.
            wide = at % 40 == 7
            what = {**value(size), **(texts if wide else {})}
            gone = at % 10 == 3
            place.store.put((space,), f"k{at}", what, index=["texts[*]"] if wide else False, ttl=0 if gone else None)
            if not gone:
                expected.append((encode_namespace((space,)), f"k{at}"))
    found = []
    windows = list(place.windows(vectors=vectors, value_bytes=value_bytes))
    for reply in windows:
        fresh = names(reply[7:], 1)
        assert size_of(reply) <= scripts.MAX_BYTES + 20_000 or len(fresh) == 1
        found += fresh
    assert found == expected
    assert len(windows) > (1 if value_bytes == ALL_VALUES or vectors else 0)


def test_pages_of_changes_end_after_the_namespace_with_which_they_are_large(place: Place) -> None:
    place.store.batch([PutOp((f"n{n}",), f"k{m}", value(MB // 2)) for n in range(8) for m in range(3)])
    found = []
    pages = list(place.pages())
    for reply in pages:
        assert size_of(reply) <= scripts.MAX_BYTES + 3 * MB // 2 + 20_000
        found += names(reply[7:], 2)
    assert found == [(encode_namespace((f"n{n}",)), f"k{m}") for n in range(8) for m in range(3)]
    assert [reply[5] for reply in pages] == [b"more"] * (len(pages) - 1) + [b"done"]
    assert len(pages) >= 4


def test_the_changes_of_one_namespace_are_told_whole_or_not_at_all(place: Place) -> None:
    for rows in (1, 12, 18):
        place.store.put(NS, f"k{rows}", value(17 * MB if rows == 1 else 1))
        since = int(place.client.get(place.prefix + b"seq"))
        place.store.batch([PutOp(NS, f"k{n}", value(17 * MB if rows == 1 else MB)) for n in range(rows)])
        (reply,) = place.pages(since)
        assert reply[5] == (b"done" if rows < 18 else b"reload")
        assert len(names(reply[7:], 2)) == (rows if rows < 18 else 0)


def test_rows_too_large_for_one_reply_are_listed_all_the_same(place: Place, make_any_store: Any, clock: Any) -> None:
    store = make_any_store(clock=clock)
    store.batch([PutOp(NS, f"k{n}", value(900_000), ttl=10) for n in range(5)])
    clock.advance(minutes=1)
    frame = scripts.Frame(round(clock.now), True)
    call = scripts.page(frame, encode_namespace(NS), 0, 10, True, 1000)
    before = place.client.dump(place.prefix + b"m:" + encode_namespace(NS))
    assert place.call(call) is None
    assert place.client.dump(place.prefix + b"m:" + encode_namespace(NS)) == before, "refreshed, and not returned"
    items = store.search(NS)
    assert [(item.key, item.value) for item in items] == [(f"k{n}", value(900_000)) for n in reversed(range(5))]
    assert {item.memory.expires_at.timestamp() * 1000 for item in items} == {clock.now + 10 * 60_000}
    store.put(NS, "larger", value(3 * MB))
    namespace, row = place.call(scripts.page(frame, encode_namespace(NS), 0, 1, False, 1000))
    assert (namespace, row[0]) == (encode_namespace(NS), b"larger")
    assert len(place.call(scripts.page(frame, encode_namespace(NS), 1, 2, False, 1000))) == 3


def rows_asked_for(flow: Any) -> list[int]:
    send = next(flow)
    flow.close()
    assert isinstance(send, Send)
    return [call.rows for call in send.calls]


def test_values_are_asked_for_in_calls_of_a_bounded_size(place: Place) -> None:
    place.store.batch([PutOp(NS, f"k{n}", value(900_000), index=False) for n in range(5)])
    _, *rows = place.call(scripts.scan(FRAME, b"", (b"", 0), 1000, vectors=False, value_bytes=0))[7]
    fetched = [Fetched(encode_namespace(NS), *row) for row in rows]
    candidates = [Row(row.namespace, row.key, unpack_meta(row.meta), None) for row in fetched]
    assert rows_asked_for(complete(FRAME, candidates, refresh=False, final=True)) == [2, 2, 1]
    known = [Row(row.namespace, row.key, unpack_meta(row.meta)._replace(ttl=1.0), {}) for row in fetched]
    assert rows_asked_for(complete(FRAME, known, refresh=True, final=True)) == [5]
    snapshot = snapshot_of(fetched, 0)
    assert rows_asked_for(ask_rows(FRAME, snapshot, list(range(5)), scripts.WITH_VALUE)) == [2, 2, 1]
    assert rows_asked_for(ask_rows(FRAME, snapshot, list(range(5)), 0)) == [5]
