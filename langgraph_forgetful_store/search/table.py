"""Tables of rows as numpy arrays, and the immutable snapshots through which they are read.

Rows are only ever appended, so a reader that scores an older snapshot in another thread sees what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.backend.codec import (
    LAST_STATUS,
    META_BYTES,
    META_DTYPE,
    Matrix,
    Meta,
    load_value,
    unpack_many,
    unpack_meta,
)
from langgraph_forgetful_store.errors import CorruptRecordError
from langgraph_forgetful_store.model.status import settled_span
from langgraph_forgetful_store.search.bounds import Bounds
from langgraph_forgetful_store.search.postings import Postings, View, grown
from langgraph_forgetful_store.search.scoring import normalise

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Slots = npt.NDArray[np.intp]
Name = tuple[bytes, bytes]

# Bytes that Python keeps for a row beside its arrays and its value: names, dict and list entries.
ROW_OVERHEAD = 400
# Parsed JSON takes about this many times the bytes of its text.
VALUE_FACTOR = 4
# Postings take about this many times the bytes of packed words.
POSTING_FACTOR = 3
# Columns that scoring and expiry read for every row, each contiguous; the rest of meta is read for a result's rows.
COLUMNS = (
    "content",
    "expires_at",
    "ttl",
    "importance",
    "confidence",
    "created_at",
    "updated_at",
    "confirmed_at",
    "accessed_at",
    "access_count",
)


class Fetched(NamedTuple):
    """A row as the server sent it; `value` is ``None`` where it was too large to be sent along."""

    namespace: bytes
    key: bytes
    meta: bytes
    vectors: bytes | None
    value: bytes | None
    rest: bytes | None
    words: bytes | None = None


def estimate(row: Fetched) -> int:
    """Return about how many bytes a row will take in this process."""
    arrays = META_BYTES + 8 * len(COLUMNS) + len(row.vectors or b"") + POSTING_FACTOR * len(row.words or b"")
    return _objects(row) + arrays


def _objects(row: Fetched) -> int:
    """Return about how many of them are not in arrays."""
    text = len(row.value or b"") + len(row.rest or b"") + len(row.key) + len(row.namespace)
    return ROW_OVERHEAD + VALUE_FACTOR * text


@dataclass(slots=True)
class Table:
    """Growing arrays; what lies beyond `size` is free.

    Attributes:
        type_ids: Every memory type that a row has, or had.
        flags: Every flag that a row has, or had.
        bounds: Of scores; ``None`` for rows that are looked at once.
        postings: The rows' words.
        settled: Slots whose expiry has passed, as the server has said.
        last_start: The latest start of a row's validity; likewise `first_end`, the earliest end of one, or expiry that
            archives.
    """

    dims: int
    size: int = 0
    vector_size: int = 0
    one_to_one: bool = True
    held: int = 0
    meta: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0, META_DTYPE))
    columns: dict[str, Array] = field(default_factory=lambda: {name: np.empty(0) for name in COLUMNS})
    vectors: Matrix = field(default_factory=lambda: np.empty((0, 0), np.float32))
    owners: Slots = field(default_factory=lambda: np.empty(0, np.intp))
    names: list[Name] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    rests: list[bytes | None] = field(default_factory=list)
    with_rest: list[int] = field(default_factory=list)
    type_ids: set[int] = field(default_factory=set)
    flags: int = 0
    bounds: Bounds | None = None
    postings: Postings = field(default_factory=Postings)
    settled: set[int] = field(default_factory=set)
    last_start: float = -np.inf
    first_end: float = np.inf

    def __post_init__(self) -> None:
        self.vectors = self.vectors.reshape(0, self.dims)

    def append(self, rows: Sequence[Fetched]) -> None:
        """Add rows, all or, where one is corrupt, none.

        Raises:
            CorruptRecordError: A row is not what the store writes.
        """
        count = len(rows)
        for row in rows:
            if len(row.meta) != META_BYTES:
                unpack_meta(row.meta)
        meta = np.frombuffer(b"".join(row.meta for row in rows), META_DTYPE)
        for at in np.flatnonzero((meta["status"] > LAST_STATUS) | np.isnan(meta["created_at"])).tolist():
            unpack_meta(rows[at].meta)
        if self.dims:
            width = 4 * self.dims
            if any(len(row.vectors or b"") % width for row in rows):
                raise CorruptRecordError(f"a row's vectors are no whole number of {self.dims} float32 dimensions")
        self.postings.append([row.words for row in rows])
        self.meta = grown(self.meta, self.size, meta)
        self._note_times(meta)
        self.type_ids.update(np.unique(meta["memory_type"]).tolist())
        self.flags |= int(np.bitwise_or.reduce(meta["flags"]))
        for name, column in self.columns.items():
            self.columns[name] = grown(column, self.size, meta[name].astype(np.float64))
        if self.dims:
            blobs = [row.vectors or b"" for row in rows]
            fresh = np.frombuffer(b"".join(blobs), "<f4").reshape(-1, self.dims)
            counts = [len(blob) // width for blob in blobs]
            self.one_to_one = self.one_to_one and counts.count(1) == count
            owners = np.repeat(np.arange(self.size, self.size + count), counts)
            self.vectors = grown(self.vectors, self.vector_size, normalise(fresh))
            self.owners = grown(self.owners, self.vector_size, owners)
            self.vector_size += len(owners)
        self.names += [(row.namespace, row.key) for row in rows]
        self.values += [row.value for row in rows]
        self.rests += [row.rest for row in rows]
        self.with_rest += [self.size + at for at, row in enumerate(rows) if row.rest]
        self.size += count
        self.held += sum(_objects(row) for row in rows)

    def is_timeless(self, now: float) -> bool:
        """Tell whether time has neither ended the validity of a row nor has yet to begin it."""
        return self.last_start <= now < self.first_end

    def _note_times(self, meta: npt.NDArray[Any]) -> None:
        start, end = settled_span(meta)
        self.last_start, self.first_end = max(self.last_start, start), min(self.first_end, end)

    @property
    def bytes(self) -> int:
        """About how much memory it holds; arrays with what they have in reserve."""
        arrays = (self.meta, self.vectors, self.owners, *self.columns.values())
        return self.held + self.postings.held + sum(array.nbytes for array in arrays)

    def picked(self, slots: Slots) -> Table:
        """Return a table of some of the rows, in their order."""
        table = Table(
            self.dims, len(slots), one_to_one=self.one_to_one, held=self.held * len(slots) // max(self.size, 1)
        )
        table.meta = self.meta[slots]
        table.type_ids, table.flags, table.bounds = set(self.type_ids), self.flags, Bounds()
        if len(slots):
            table._note_times(table.meta)
        table.columns = {name: column[slots] for name, column in self.columns.items()}
        if self.dims:
            place = np.full(self.size, -1, np.intp)
            place[slots] = np.arange(len(slots))
            moved = place[self.owners[: self.vector_size]]
            table.vectors, table.owners = self.vectors[: self.vector_size][moved >= 0], moved[moved >= 0]
            table.vector_size = len(table.owners)
        table.names = [self.names[slot] for slot in slots]
        table.values = [self.values[slot] for slot in slots]
        table.rests = [self.rests[slot] for slot in slots]
        table.postings = self.postings.picked(slots)
        table.with_rest = [slot for slot, rest in enumerate(table.rests) if rest]
        return table


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A scope at one version; arrays have `size` entries, one a slot, living or not.

    Attributes:
        covers: Which rows lie over others of their slots; ``None``: those that are here say so.
        expired: Slots of rows that time has taken out, as the server has said.
    """

    version: int
    size: int
    live: Mask
    columns: dict[str, Array]
    vectors: Matrix
    owners: Slots
    table: Table
    words: View
    type_names: tuple[str, ...] = ()
    covers: Any = None
    expired: frozenset[int] = frozenset()

    def without_vectors(self, mask: npt.NDArray[np.bool_]) -> int:
        """Return how many of some rows have no vector."""
        seen = np.zeros(self.size, bool)
        seen[self.owners[self.owners < self.size]] = True
        return int(np.count_nonzero(mask & ~seen))

    @property
    def one_to_one(self) -> bool:
        """Whether every slot has exactly one vector, so that slots and vectors are numbered alike."""
        return self.table.one_to_one and len(self.owners) == self.size

    @property
    def types(self) -> npt.NDArray[Any]:
        """The ids of the memory types, shape (size,)."""
        types: npt.NDArray[Any] = self.table.meta["memory_type"][: self.size]
        return types

    @property
    def flags(self) -> npt.NDArray[Any]:
        """The flags of meta, shape (size,)."""
        flags: npt.NDArray[Any] = self.table.meta["flags"][: self.size]
        return flags

    def passed(self, now: float) -> list[int]:
        """Return the living slots whose expiry, as last heard, has passed."""
        passed = self.columns["expires_at"] <= now
        # Most often there are none, and one look tells so.
        return np.flatnonzero(passed & self.live).tolist() if passed.any() else []

    def with_rest(self) -> list[int]:
        """Return the slots of rows that have lifecycle fields beside their meta."""
        return [slot for slot in self.table.with_rest if slot < self.size]

    def metas(self, slots: Slots) -> list[Meta]:
        """Return the whole meta of some slots, with their expiries as last heard."""
        meta = self.table.meta.take(slots)
        meta["expires_at"] = self.columns["expires_at"].take(slots)
        return unpack_many(meta.tobytes())

    def value(self, slot: int) -> dict[str, Any] | None:
        """Return a slot's value, parsed once, to be copied before it leaves; ``None`` where it is not cached."""
        value = self.table.values[slot]
        if isinstance(value, bytes):
            value = self.table.values[slot] = load_value(value)
        parsed: dict[str, Any] | None = value
        return parsed


def snapshot_of(rows: Sequence[Fetched], dims: int, covers: Any = None) -> Snapshot:
    """Return a snapshot of some rows that belong to no scope; `covers` are known of all rows."""
    table = Table(dims)
    if rows:
        table.append(rows)
    return replace(take_snapshot(0, table, np.ones(table.size, np.bool_)), covers=covers)


def take_snapshot(version: int, table: Table, live: Mask, type_names: tuple[str, ...] = ()) -> Snapshot:
    """Return a table as it is now."""
    size, vectors = table.size, table.vector_size
    return Snapshot(
        version,
        size,
        live,
        {name: column[:size] for name, column in table.columns.items()},
        table.vectors[:vectors],
        table.owners[:vectors],
        table,
        table.postings.view(),
        type_names,
    )
