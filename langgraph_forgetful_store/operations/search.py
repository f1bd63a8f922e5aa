"""Searching: by the live index where one namespace is paged, else by an exact scan in windows.

A scan reads rows oldest write first, so that a row which is put meanwhile moves ahead of it and is not missed. One
window is a snapshot. Several are not: what changed since the first is asked for at the end, and that answer is the
moment for which the result holds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from langgraph.store.base import SearchOp

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import Matrix, Meta, load_value, load_vectors, unpack_meta
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import decode_namespace, decode_text, encode_namespace
from langgraph_forgetful_store.errors import CorruptRecord
from langgraph_forgetful_store.memory import MemorySearchItem, to_datetime
from langgraph_forgetful_store.operations.checks import Namespace, check_count, check_labels, check_refresh
from langgraph_forgetful_store.operations.context import Context, check_format
from langgraph_forgetful_store.search.filters import compile_filter
from langgraph_forgetful_store.search.scoring import best_per_item, cosine

WINDOW = 1000
PAGE_LIMIT = 1000
PAGE_LOOK = 20_000
# Values above this are not read for every row of a scan, but for the rows of the result alone.
VALUE_BYTES = 65_536
ALL_VALUES = 2**32
# Rows kept beyond the page, so that it still fills when some of it has changed meanwhile.
SLACK = 64
ROUNDS = 3
CHANGES = 1000

Row = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Search:
    """A checked `SearchOp`; `query` is ``None`` where nothing is to be compared."""

    prefix: Namespace
    query: str | None
    matches: Callable[[Any], bool] | None
    limit: int
    offset: int
    refresh: bool

    @classmethod
    def prepare(cls, op: SearchOp, context: Context) -> Self:
        """Check an op.

        Raises:
            InvalidNamespaceError: The prefix holds what is no label.
            TypeError: The query is no str, a number no int, or the filter no dict.
            ValueError: A number is negative, or the filter has an unknown operator.
        """
        if op.query is not None and not isinstance(op.query, str):
            raise TypeError(f"query must be a str or None, got {op.query!r}")
        return cls(
            check_labels(op.namespace_prefix, "namespace_prefix"),
            op.query or None if context.index else None,
            None if op.filter is None or op.filter == {} else compile_filter(op.filter),
            check_count(op.limit, "limit"),
            check_count(op.offset, "offset"),
            check_refresh(op.refresh_ttl, context.ttl.refresh_on_read),
        )


@dataclass(slots=True)
class Candidate:
    """A row that may be part of the result."""

    namespace: bytes
    key: bytes
    meta: Meta
    value: dict[str, Any] | None
    score: float | None

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Greater is better: scored before unscored, by score, then the latest write."""
        return self.score is not None, self.score or 0.0, self.meta.content

    @property
    def row(self) -> Row:
        """What names it."""
        return self.namespace, self.key

    def item(self) -> MemorySearchItem:
        """Return what the caller gets."""
        if self.value is None:
            raise _lost(self.namespace, self.key)
        return MemorySearchItem(
            decode_namespace(self.namespace),
            decode_text(self.key),
            self.value,
            to_datetime(self.meta.created_at),
            to_datetime(self.meta.updated_at),
            self.score,
            self.meta,
        )


def _lost(namespace: bytes, key: bytes) -> CorruptRecord:
    return CorruptRecord(f"the row {decode_text(key)!r} of {decode_namespace(namespace)!r} has lost its value")


def search(context: Context, frame: scripts.Frame, op: Search, query: Matrix | None) -> Flow[list[MemorySearchItem]]:
    """Search below a prefix.

    Args:
        context: The store's.
        frame: The operation's.
        op: What is asked.
        query: The embedded query, shape (dims,); ``None``: newest first.

    Returns:
        A page of items, filtered before offset and limit.
    """
    if op.limit == 0:
        return []
    page: list[Candidate] | None = None
    if query is None and op.matches is None and op.limit <= PAGE_LIMIT:
        page = yield from _newest(frame, op)
        if page is not None:
            return [candidate.item() for candidate in page]
    scan = _Scan(context, frame, op, query)
    for attempt in range(ROUNDS):
        final = attempt == ROUNDS - 1
        candidates, exact = yield from scan.candidates(SLACK * 10**attempt)
        if exact or final:
            page = yield from _complete(frame, op, candidates, final=final)
        if page is not None:
            break
    return [candidate.item() for candidate in page or []]


def _newest(frame: scripts.Frame, op: Search) -> Flow[list[Candidate] | None]:
    call = scripts.page(frame, encode_namespace(op.prefix), op.offset, op.limit, op.refresh, PAGE_LOOK)
    reply = checked((yield Send([call]))[0])
    if reply is None:
        return None
    namespace, *rows = reply
    return [
        Candidate(namespace, key, unpack_meta(meta), None if value is None else load_value(value), None)
        for key, meta, value, _ in rows
    ]


class _Scan:
    """Scans a scope for its best rows in constant memory."""

    def __init__(self, context: Context, frame: scripts.Frame, op: Search, query: Matrix | None) -> None:
        self._context = context
        self._frame = frame
        self._op = op
        self._query = query
        self._dims = context.index.dims if context.index else 0
        self._prefix = encode_namespace(op.prefix)
        self._vectors = query is not None
        self._value_bytes = ALL_VALUES if op.matches else VALUE_BYTES if query is not None else 0

    def candidates(self, slack: int) -> Flow[tuple[list[Candidate], bool]]:
        """Return the best rows, more than a page, and whether all of them hold for one moment.

        They do not where too much has changed during the scan: each row is then as it was when the scan met it.
        """
        keep = self._op.offset + self._op.limit + slack
        kept: list[Candidate] = []
        dropped, windows, base = False, 0, b"0"
        start: tuple[bytes, bytes] = (self._prefix, b"0")
        while True:
            call = scripts.scan(
                self._frame, self._prefix, start, WINDOW, vectors=self._vectors, value_bytes=self._value_bytes
            )
            # The format comes after the vectors, so it is the one that they were written under.
            also = [scripts.stored_format(self._frame)] if self._vectors else []
            replies = yield Send([call, *also])
            number, _, at_end, *cursor = checked(replies[0])
            for stored in replies[1:]:
                check_format(self._context, checked(stored))
            base = base if windows else number
            windows += 1
            found = self._read((group[0], group[1:]) for group in cursor[2:])
            # A row that moved ahead of the scan is met twice; the later meeting is the current one.
            latest = {candidate.row for candidate in found}
            kept = [candidate for candidate in kept if candidate.row not in latest] + found
            dropped = dropped or len(kept) > keep
            kept = heapq.nlargest(keep, kept, key=lambda candidate: candidate.rank)
            if at_end == b"1":
                break
            start = (cursor[0], cursor[1])
        if windows == 1:
            return kept, True
        settled = yield from self._settle(base, kept, dropped)
        return (kept, False) if settled is None else (settled, True)

    def _settle(self, base: bytes, kept: list[Candidate], dropped: bool) -> Flow[list[Candidate] | None]:
        call = scripts.changes(
            self._frame, self._prefix, base, CHANGES, vectors=self._vectors, value_bytes=self._value_bytes
        )
        _, too_many, *groups = checked((yield Send([call]))[0])
        if too_many == b"1":
            return None
        touched = {(group[0], key) for group in groups for key in group[1]}
        touched |= {(group[0], row[0]) for group in groups for row in group[2:]}
        found = self._read((group[0], group[2:]) for group in groups)
        stable = [candidate for candidate in kept if candidate.row not in touched]
        merged = sorted(stable + found, key=lambda candidate: candidate.rank, reverse=True)
        end = self._op.offset + self._op.limit
        # What was dropped ranks below the last row kept: the page is exact as long as it does not reach below that.
        if dropped and (len(merged) < end or merged[end - 1].rank < kept[-1].rank):
            return None
        return merged

    def _read(self, groups: Iterable[tuple[bytes, list[Any]]]) -> list[Candidate]:
        found: list[Candidate] = []
        blobs: list[bytes] = []
        for namespace, rows in groups:
            for key, meta, blob, value, _ in rows:
                parsed = None if value is None else load_value(value)
                if self._op.matches is not None:
                    # A scan with a filter reads every value but those of unreadable meta.
                    if parsed is None:
                        unpack_meta(meta)
                        raise _lost(namespace, key)
                    if not self._op.matches(parsed):
                        continue
                found.append(Candidate(namespace, key, unpack_meta(meta), parsed, None))
                blobs.append(blob or b"")
        if self._query is not None and found:
            for candidate, score in zip(found, self._scores(blobs), strict=True):
                candidate.score = score
        return found

    def _scores(self, blobs: Sequence[bytes]) -> list[float | None]:
        assert self._query is not None
        vectors, counts = load_vectors(blobs, self._dims)
        return best_per_item(cosine(self._query, vectors), counts)


def _complete(
    frame: scripts.Frame, op: Search, candidates: list[Candidate], *, final: bool
) -> Flow[list[Candidate] | None]:
    """Cut out the page, read the values it still lacks, and slide the TTLs it touches.

    Returns:
        The page; ``None`` where a row whose value was not read yet has changed since it was ranked.
    """
    page = candidates[op.offset : op.offset + op.limit]
    asked = [
        at
        for at, candidate in enumerate(page)
        if candidate.value is None or (op.refresh and candidate.meta.ttl != float("inf"))
    ]
    if not asked:
        return page
    calls = scripts.get(
        frame,
        (
            (
                *page[at].row,
                (scripts.WITH_VALUE if page[at].value is None else 0) + (scripts.REFRESH if op.refresh else 0),
                # A row that keeps changing is returned as it is now rather than not at all.
                "" if final and page[at].value is None else f"{page[at].meta.content:.0f}",
            )
            for at in asked
        ),
    )
    rows = [row for reply in (yield Send(calls)) for row in checked(reply)]
    lost: set[int] = set()
    for at, row in zip(asked, rows, strict=True):
        if isinstance(row, list):
            value = page[at].value
            page[at] = replace(
                page[at], meta=unpack_meta(row[0]), value=load_value(row[1]) if value is None and row[1] else value
            )
        elif page[at].value is None:
            lost.add(at)
    if lost and not final:
        return None
    return [candidate for at, candidate in enumerate(page) if at not in lost]
