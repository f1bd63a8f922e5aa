"""The scan engine: reads a scope in windows, in constant memory, and keeps its best rows.

It reads oldest write first, so that a row which is put meanwhile moves ahead of it and is not missed. One window is a
snapshot. Several are not: what changed since the first is asked for at the end, and that answer is the moment for which
the result holds.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.model.memory_types import decode_types
from langgraph_forgetful_store.search.candidates import Candidate, lost
from langgraph_forgetful_store.search.layers import Covers, read_covers
from langgraph_forgetful_store.search.presets import is_pointwise
from langgraph_forgetful_store.search.question import Question
from langgraph_forgetful_store.search.ranking import candidates_of, rank
from langgraph_forgetful_store.search.table import Fetched, Row, snapshot_of

WINDOW = 1000
# Rows kept beyond the page, so that it still fills when some of it has changed meanwhile.
SLACK = 64
CHANGES = 2000
VALUE_BYTES = 65_536
ALL_VALUES = 2**32


def fetched(groups: Iterable[list[Any]], skip: int) -> Iterator[Fetched]:
    """Read rows as scan and sync return them, behind `skip` entries of each namespace's group."""
    for group in groups:
        for row in group[skip:]:
            yield Fetched(group[0], *row)


@dataclass(slots=True)
class Scan:
    """A scan of what lies below a prefix.

    Attributes:
        frame: The operation's.
        prefix: Encoded.
        question: What is asked.
        matches: The filter of values; ``None`` for none.
        dims: Of the vectors; 0 for none.
        end: How many rows are wanted, from the first.
        check: Compares the stored format with the store's.
        covers: What lies over other rows, as it was when the scan began.
        now: The server's time at the first window, in ms.
    """

    frame: scripts.Frame
    prefix: bytes
    question: Question
    matches: Callable[[Any], bool] | None
    dims: int
    end: int
    check: Callable[[list[bytes | None]], None]
    covers: Covers = field(default_factory=dict)
    now: float = 0.0

    @property
    def _asks(self) -> dict[str, Any]:
        with_vectors = self.question.query is not None
        return {
            "vectors": with_vectors,
            "value_bytes": ALL_VALUES if self.matches else VALUE_BYTES if with_vectors else 0,
            "closed": self.question.admission.reads_closed,
        }

    def best(self, slack: int) -> Flow[tuple[list[Candidate], bool]]:
        """Return the best rows, more than wanted, and whether all of them hold for one moment.

        They do not where too much has changed during the scan: each row is then as it was when the scan met it.
        """
        kept: _Kept = _Best(self, slack) if is_pointwise(self.question.preset) else _All(self, slack)
        base: bytes | None = None
        epoch: bytes | None = None
        start: tuple[bytes, Any] = (self.prefix, 0)
        asked = self.question.admission
        # What a window shows may lie below a row of another one.
        self.covers = yield from read_covers(self.frame, self.prefix, asked.run_id, asked.as_of, asked.known_at)
        while True:
            call = scripts.scan(self.frame, self.prefix, start, WINDOW, **self._asks)
            # The format comes after the vectors, so it is the one that they were written under.
            reply, stored = yield Send([call, scripts.stored_format(self.frame)])
            self.check(checked(stored))
            number, time, types, fresh, at_end, *cursor = checked(reply)
            first = base is None
            if not first and fresh != epoch:
                # The data were flushed and written anew: nothing of what was met is there.
                return [], False
            if first:
                epoch = fresh
                # One time for all rows, or those of later windows would have aged more.
                base, kept.now = number, float(time)
                self.now = kept.now
            kept.types = decode_types(types)
            kept.add(list(fetched(cursor[2:], 1)))
            if at_end == b"1":
                break
            start = (cursor[0], cursor[1])
        if first:
            return kept.candidates(), True
        assert base is not None
        return (yield from self._settled(base, epoch, kept))

    def _settled(self, base: bytes, epoch: bytes | None, kept: _Kept) -> Flow[tuple[list[Candidate], bool]]:
        # A namespace that is met again on a later page is told whole again.
        groups: dict[bytes, list[Any]] = {}
        page_from: Any = base
        while True:
            call = scripts.sync(self.frame, self.prefix, base, CHANGES, page_from, **self._asks)
            _, _, fresh, _, types, state, page_from, *found = checked((yield Send([call]))[0])
            if fresh != epoch:
                return [], False
            if state == b"reload":
                return kept.candidates(), False
            groups.update((group[0], group) for group in found)
            if state == b"done":
                break
        kept.types = decode_types(types)
        gone = {(group[0], key) for group in groups.values() for key in group[1]}
        exact = kept.change(gone, list(fetched(groups.values(), 2)))
        return kept.candidates(), exact

    def judge(self, rows: Sequence[Fetched], kept: _Kept, keep: int) -> list[Candidate]:
        """Return the best of some rows.

        Raises:
            CorruptRecordError: A row that has to be filtered has no value.
        """
        snapshot = snapshot_of(rows, self.dims if self.question.query is not None else 0, self.covers)
        mask = snapshot.live
        if self.matches is not None:
            for slot in range(snapshot.size):
                value = snapshot.value(slot)
                if value is None:
                    raise lost(*snapshot.table.names[slot])
                mask[slot] = self.matches(value)
        ranking = rank(snapshot, mask, self.question, kept.types, kept.now, keep)
        return candidates_of(snapshot, ranking, self.question, kept.types, "scan", kept.now)


class _Kept(ABC):
    """What a scan keeps of the rows it has met.

    Attributes:
        types: The names of the memory types by their ids.
        now: The time by which rows age.
    """

    def __init__(self, scan: Scan, slack: int) -> None:
        self.types: tuple[str, ...] = ()
        self.now = 0.0
        self._scan = scan
        self._keep = scan.end + slack

    @abstractmethod
    def add(self, rows: Sequence[Fetched]) -> None:
        """Meet rows. One that moved ahead of the scan is met twice; the later meeting is the current one."""

    @abstractmethod
    def change(self, gone: set[Row], rows: Sequence[Fetched]) -> bool:
        """Take in what has changed since the first window; returns whether the candidates are exact then."""

    @abstractmethod
    def candidates(self) -> list[Candidate]:
        """Return the best rows, best first."""


class _Best(_Kept):
    """Keeps the best rows alone: constant memory."""

    def __init__(self, scan: Scan, slack: int) -> None:
        super().__init__(scan, slack)
        self._best: list[Candidate] = []
        self._dropped = False

    def add(self, rows: Sequence[Fetched]) -> None:
        found = self._scan.judge(rows, self, self._keep)
        met = {(row.namespace, row.key) for row in rows}
        merged = [candidate for candidate in self._best if candidate.row not in met] + found
        self._dropped = self._dropped or len(merged) > self._keep or len(found) == self._keep < len(rows)
        self._best = heapq.nlargest(self._keep, merged, key=lambda candidate: candidate.rank)

    def change(self, gone: set[Row], rows: Sequence[Fetched]) -> bool:
        touched = gone | {(row.namespace, row.key) for row in rows}
        lowest = self._best[-1].rank if self._best else None
        merged = [candidate for candidate in self._best if candidate.row not in touched]
        merged += self._scan.judge(rows, self, len(rows))
        merged.sort(key=lambda candidate: candidate.rank, reverse=True)
        end = self._scan.end
        # What was dropped ranks below the last row kept: the page is exact as long as it does not reach below that.
        exact = not self._dropped or lowest is None or (len(merged) >= end and merged[end - 1].rank >= lowest)
        if exact:
            self._best = merged
        return exact

    def candidates(self) -> list[Candidate]:
        return self._best


class _All(_Kept):
    """Keeps every row, for presets whose scores depend on all candidates: memory grows with the scope."""

    def __init__(self, scan: Scan, slack: int) -> None:
        super().__init__(scan, slack)
        self._rows: dict[Row, Fetched] = {}

    def add(self, rows: Sequence[Fetched]) -> None:
        self._rows |= {(row.namespace, row.key): row for row in rows}

    def change(self, gone: set[Row], rows: Sequence[Fetched]) -> bool:
        for name in gone:
            self._rows.pop(name, None)
        self.add(rows)
        return True

    def candidates(self) -> list[Candidate]:
        return self._scan.judge(list(self._rows.values()), self, self._keep)
