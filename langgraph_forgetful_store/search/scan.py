"""The scan engine: reads a scope in windows, in constant memory, and keeps its best rows.

It reads oldest write first, so that a row which is put meanwhile moves ahead of it and is not missed. One window is a
snapshot. Several are not: what changed since the first is asked for at the end, and that answer is the moment for which
the result holds.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.model.memory_types import decode_types
from langgraph_forgetful_store.search.layers import Covers, read_covers
from langgraph_forgetful_store.search.presets import is_pointwise
from langgraph_forgetful_store.search.question import Question
from langgraph_forgetful_store.search.ranking import Measured, measured, rank, rows_of
from langgraph_forgetful_store.search.rows import Row, lost
from langgraph_forgetful_store.search.table import (
    Array,
    Fetched,
    Mask,
    Name,
    Snapshot,
    Table,
    snapshot_of,
    take_snapshot,
)

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
        blind: How many rows without a vector were met.
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
    blind: int = 0
    covers: Covers = field(default_factory=dict)
    now: float = 0.0

    @property
    def _asks(self) -> dict[str, Any]:
        question = self.question
        # Where all rows are kept, the page alone needs its values.
        few = VALUE_BYTES if self._keeps_best and question.is_ranked else 0
        return {
            "vectors": question.query is not None,
            "words": question.words is not None,
            "value_bytes": few if self.matches is None else ALL_VALUES,
            "closed": question.row_filter.reads_closed,
        }

    @property
    def _keeps_best(self) -> bool:
        """Whether rows can be told from each other as they come: how rare a word is, is known only at the end."""
        return self.question.words is None and is_pointwise(self.question.preset)

    def best(self, slack: int) -> Flow[tuple[list[Row], bool]]:
        """Return the best rows, more than wanted, and whether all of them hold for one moment.

        They do not where too much has changed during the scan: each row is then as it was when the scan met it.
        """
        kept: _Kept = _Best(self, slack) if self._keeps_best else _All(self, slack)
        base: bytes | None = None
        epoch: bytes | None = None
        start: tuple[bytes, Any] = (self.prefix, 0)
        asked = self.question.row_filter
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

    def _settled(self, base: bytes, epoch: bytes | None, kept: _Kept) -> Flow[tuple[list[Row], bool]]:
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

    def read(self, rows: Sequence[Fetched]) -> tuple[Snapshot, Mask]:
        """Return a snapshot of some rows, and which of them match the filter.

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
        if self.question.query is not None:
            self.blind += snapshot.without_vectors(mask)
        return snapshot, mask

    def judge(
        self, snapshot: Snapshot, mask: Mask, kept: _Kept, keep: int, compared: Measured | None = None
    ) -> list[Row]:
        """Return the best of some rows."""
        ranking = rank(snapshot, mask, self.question, kept.types, kept.now, keep, compared=compared)
        return rows_of(snapshot, ranking, self.question, kept.types, "scan", kept.now)


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
    def change(self, gone: set[Name], rows: Sequence[Fetched]) -> bool:
        """Take in what has changed since the first window; returns whether the candidates are exact then."""

    @abstractmethod
    def candidates(self) -> list[Row]:
        """Return the best rows, best first."""


class _Best(_Kept):
    """Keeps the best rows alone: constant memory."""

    def __init__(self, scan: Scan, slack: int) -> None:
        super().__init__(scan, slack)
        self._best: list[Row] = []
        # No row that was dropped ranks above it. It never falls, though what was best may become worse meanwhile.
        self._bar: tuple[bool, float, float] | None = None

    def _raise_bar(self, last: Row) -> None:
        self._bar = last.rank if self._bar is None else max(self._bar, last.rank)

    def add(self, rows: Sequence[Fetched]) -> None:
        found = self._scan.judge(*self._scan.read(rows), self, self._keep)
        if len(found) == self._keep < len(rows):
            self._raise_bar(found[-1])
        met = {(row.namespace, row.key) for row in rows}
        merged = [candidate for candidate in self._best if candidate.row not in met] + found
        self._best = heapq.nlargest(self._keep, merged, key=lambda candidate: candidate.rank)
        if len(merged) > self._keep:
            self._raise_bar(self._best[-1])

    def change(self, gone: set[Name], rows: Sequence[Fetched]) -> bool:
        touched = gone | {(row.namespace, row.key) for row in rows}
        merged = [candidate for candidate in self._best if candidate.row not in touched]
        merged += self._scan.judge(*self._scan.read(rows), self, len(rows))
        merged.sort(key=lambda candidate: candidate.rank, reverse=True)
        end = self._scan.end
        # The page is exact as long as it does not reach below what was dropped.
        exact = self._bar is None or (len(merged) >= end and merged[end - 1].rank >= self._bar)
        if exact:
            self._best = merged
        return exact

    def candidates(self) -> list[Row]:
        return self._best


class _All(_Kept):
    """Keeps of every row what its score is made of, for what can be ranked only when all rows are known.

    That is their meta, their similarities and their words, and no vectors; so memory grows with the scope.
    """

    def __init__(self, scan: Scan, slack: int) -> None:
        super().__init__(scan, slack)
        self._table = Table(0)
        self._slots: dict[Name, int] = {}
        self._dead: list[int] = []
        self._similarity: list[Array] = []
        self._towards: list[Array] = []

    def add(self, rows: Sequence[Fetched]) -> None:
        snapshot, mask = self._scan.read(rows)
        self._drop((row.namespace, row.key) for row in rows)
        slots = np.flatnonzero(mask)
        if not len(slots):
            return
        if self._scan.question.is_ranked:
            similarity, towards = measured(snapshot, self._scan.question)
            self._similarity.append(similarity[slots])
            if towards is not None:
                self._towards.append(towards[slots])
        start = self._table.size
        kept = [rows[slot]._replace(vectors=None, value=None) for slot in slots.tolist()]
        self._slots.update(((row.namespace, row.key), start + at) for at, row in enumerate(kept))
        self._table.append(kept)

    def _drop(self, names: Iterable[Name]) -> None:
        self._dead += [slot for name in names if (slot := self._slots.pop(name, None)) is not None]

    def change(self, gone: set[Name], rows: Sequence[Fetched]) -> bool:
        self._drop(gone)
        self.add(rows)
        return True

    def candidates(self) -> list[Row]:
        table = self._table
        live = np.ones(table.size, np.bool_)
        live[self._dead] = False
        compared = None
        if self._scan.question.is_ranked:
            towards = np.concatenate(self._towards) if self._towards else None
            compared = Measured(np.concatenate([np.zeros(0), *self._similarity]), towards)
        # What does not match is not kept, and may lie over what is.
        snapshot = replace(take_snapshot(0, table, live), covers=self._scan.covers)
        return self._scan.judge(snapshot, live, self, self._keep, compared)
