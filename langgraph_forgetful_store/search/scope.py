"""The near-cache: what lies below a prefix, kept in the client as numpy arrays.

A `Scope` is brought up to date by deltas and read through immutable snapshots: rows are only ever appended, a changed
row gets a new slot, and a mask of the living slots is copied before it changes. So a reader that scores an older
snapshot in another thread sees what it was.

What makes a result exact is the protocol of `Scope.apply`: a delta is applied only to the version it was made for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.backend.codec import META_BYTES, META_DTYPE, Matrix, Meta, load_value, unpack_meta
from langgraph_forgetful_store.errors import CorruptRecord
from langgraph_forgetful_store.search.scoring import normalise

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Slots = npt.NDArray[np.intp]
Row = tuple[bytes, bytes]

# Bytes that Python keeps for a row beside its arrays and its value: names, dict and list entries.
ROW_OVERHEAD = 400
# Parsed JSON takes about this many times the bytes of its text.
VALUE_FACTOR = 4
KEEP_MASKS = 32
NO_MATCH, MATCH, UNKNOWN = 0, 1, 2
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


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells one life of the data from another: the epoch they began in, and the server's replication id."""

    epoch: bytes | None
    replication: bytes


@dataclass(frozen=True, slots=True)
class Delta:
    """What a sync brought.

    Attributes:
        base: The version it was asked for.
        number: The version it leads to.
        gone: Rows that are no longer there, or no longer active.
        rows: Rows that were written or changed.
    """

    base: int
    number: int
    gone: Sequence[Row]
    rows: Sequence[Fetched]


def estimate(row: Fetched) -> int:
    """Return about how many bytes a row will take in this process."""
    text = len(row.value or b"") + len(row.key) + len(row.namespace)
    return ROW_OVERHEAD + META_BYTES + 8 * len(COLUMNS) + len(row.vectors or b"") + VALUE_FACTOR * text


@dataclass(slots=True)
class _Table:
    """Growing arrays; what lies beyond `size` is free."""

    dims: int
    size: int = 0
    vector_size: int = 0
    one_to_one: bool = True
    held: int = 0
    meta: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0, META_DTYPE))
    columns: dict[str, Array] = field(default_factory=lambda: {name: np.empty(0) for name in COLUMNS})
    vectors: Matrix = field(default_factory=lambda: np.empty((0, 0), np.float32))
    owners: Slots = field(default_factory=lambda: np.empty(0, np.intp))
    names: list[Row] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    rests: list[bytes | None] = field(default_factory=list)
    with_rest: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.vectors = self.vectors.reshape(0, self.dims)

    def append(self, rows: Sequence[Fetched]) -> None:
        count = len(rows)
        for row in rows:
            if len(row.meta) != META_BYTES:
                unpack_meta(row.meta)
        meta = np.frombuffer(b"".join(row.meta for row in rows), META_DTYPE)
        self.meta = _grown(self.meta, self.size, meta)
        for name, column in self.columns.items():
            self.columns[name] = _grown(column, self.size, meta[name].astype(np.float64))
        if self.dims:
            blobs = [row.vectors or b"" for row in rows]
            width = 4 * self.dims
            if any(len(blob) % width for blob in blobs):
                raise CorruptRecord(f"a row's vectors are no whole number of {self.dims} float32 dimensions")
            fresh = np.frombuffer(b"".join(blobs), "<f4").reshape(-1, self.dims)
            counts = [len(blob) // width for blob in blobs]
            self.one_to_one = self.one_to_one and counts.count(1) == count
            owners = np.repeat(np.arange(self.size, self.size + count), counts)
            self.vectors = _grown(self.vectors, self.vector_size, normalise(fresh))
            self.owners = _grown(self.owners, self.vector_size, owners)
            self.vector_size += len(owners)
        self.names += [(row.namespace, row.key) for row in rows]
        self.values += [row.value for row in rows]
        self.rests += [row.rest for row in rows]
        self.with_rest += [self.size + at for at, row in enumerate(rows) if row.rest]
        self.size += count
        self.held += sum(estimate(row) for row in rows)

    def picked(self, slots: Slots) -> _Table:
        """Return a table of some of the rows, in their order."""
        table = _Table(
            self.dims, len(slots), one_to_one=self.one_to_one, held=self.held * len(slots) // max(self.size, 1)
        )
        table.meta = self.meta[slots]
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
        table.with_rest = [slot for slot, rest in enumerate(table.rests) if rest]
        return table


def _grown(array: Any, size: int, more: Any) -> Any:
    """Return an array that begins with `size` entries of `array`, then `more`; in place where there is room."""
    if size + len(more) > len(array):
        # Readers of older snapshots go on reading the old array.
        larger = np.empty((max(2 * len(array), size + len(more), 64), *more.shape[1:]), more.dtype)
        larger[:size] = array[:size]
        array = larger
    array[size : size + len(more)] = more
    return array


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A scope at one version; arrays have `size` entries, one a slot, living or not."""

    version: int
    size: int
    live: Mask
    columns: dict[str, Array]
    vectors: Matrix
    owners: Slots
    table: _Table

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

    def with_rest(self) -> list[int]:
        """Return the slots of rows that have lifecycle fields beside their meta."""
        return [slot for slot in self.table.with_rest if slot < self.size]

    def meta(self, slot: int) -> Meta:
        """Return a slot's whole meta, with its expiry as last heard."""
        meta = Meta._make(self.table.meta[slot].item()[: len(Meta._fields)])
        return meta._replace(expires_at=float(self.columns["expires_at"][slot]))

    def value(self, slot: int) -> dict[str, Any] | None:
        """Return a slot's value, parsed once, to be copied before it leaves; ``None`` where it is not cached."""
        value = self.table.values[slot]
        if isinstance(value, bytes):
            value = self.table.values[slot] = load_value(value)
        parsed: dict[str, Any] | None = value
        return parsed


def snapshot_of(rows: Sequence[Fetched], dims: int) -> Snapshot:
    """Return a snapshot of some rows that belong to no scope."""
    table = _Table(dims)
    if rows:
        table.append(rows)
    return _snapshot(0, table, np.ones(table.size, np.bool_))


def _snapshot(version: int, table: _Table, live: Mask) -> Snapshot:
    size, vectors = table.size, table.vector_size
    return Snapshot(
        version,
        size,
        live,
        {name: column[:size] for name, column in table.columns.items()},
        table.vectors[:vectors],
        table.owners[:vectors],
        table,
    )


class Scope:
    """What lies below one prefix.

    Args:
        dims: Of the vectors; 0 for none.
    """

    def __init__(self, dims: int) -> None:
        self._dims = dims
        self._lock = threading.Lock()
        self._clear(0)
        self.identity: Identity | None = None

    def _clear(self, version: int) -> None:
        self._table = _Table(self._dims)
        self._slots: dict[Row, int] = {}
        self._live: Mask = np.zeros(0, np.bool_)
        self._masks: OrderedDict[str, _FilterMask] = OrderedDict()
        self.snapshot = self._take(version)

    @property
    def bytes(self) -> int:
        """About how much memory it holds."""
        return self._table.held + sum(len(mask.known) for mask in list(self._masks.values()))

    def _take(self, version: int) -> Snapshot:
        return _snapshot(version, self._table, self._live)

    def replace(self, identity: Identity, version: int, rows: Iterable[Fetched]) -> None:
        """Set the scope to what a load has read: at least the state at `version`, some rows perhaps newer."""
        # A row that moved ahead of the load was met twice; the later meeting is the current one.
        latest = {(row.namespace, row.key): row for row in rows}
        with self._lock:
            self.identity = identity
            self._clear(version)
            self._put((), list(latest.values()), version)

    def apply(self, identity: Identity, delta: Delta) -> Snapshot | None:
        """Apply a delta, and return a snapshot not older than it; ``None``: ask again.

        A delta is applied only to the version that it was made for. Where the cache is already newer than what it
        leads to, the cache is what counts; where it only overlaps, what lies between is unknown.
        """
        with self._lock:
            if identity != self.identity:
                return None
            version = self.snapshot.version
            if version == delta.base:
                self._put(delta.gone, delta.rows, delta.number)
                return self.snapshot
            return self.snapshot if delta.number <= version else None

    def heard(self, snapshot: Snapshot, slot: int, expires_at: float) -> None:
        """Note a later expiry of a row, as a refresh or a look has told it.

        Refreshes are not logged, so what is cached is a lower bound; raising it in place is seen, or not, by readers
        of any snapshot, and right either way.
        """
        column = snapshot.columns["expires_at"]
        column[slot] = max(column[slot], expires_at)
        current = self._table.columns["expires_at"]
        if snapshot.table is self._table and current is not column.base:
            current[slot] = max(current[slot], expires_at)

    def expired(self, snapshot: Snapshot, slots: Iterable[int]) -> None:
        """Drop rows of which the server has said that they are gone; only a logged put brings them back."""
        with self._lock:
            if snapshot.table is self._table:
                live = self._live.copy()
                live[list(slots)] = False
                self._live = live
                self.snapshot = self._take(self.snapshot.version)

    def _put(self, gone: Iterable[Row], rows: Sequence[Fetched], version: int) -> None:
        dead = [slot for name in gone if (slot := self._slots.pop(name, None)) is not None]
        dead += [slot for row in rows if (slot := self._slots.get((row.namespace, row.key))) is not None]
        start = self._table.size
        if rows:
            self._table.append(rows)
            self._slots.update(((row.namespace, row.key), start + at) for at, row in enumerate(rows))
        if rows or dead:
            live = np.ones(self._table.size, np.bool_)
            live[:start] = self._live
            live[dead] = False
            self._live = live
            if self._table.size > 64 and np.count_nonzero(live) < self._table.size * 3 // 4:
                self._compact()
        self.snapshot = self._take(version)

    def _compact(self) -> None:
        slots = np.flatnonzero(self._live)
        self._table = self._table.picked(slots)
        self._slots = {name: slot for slot, name in enumerate(self._table.names)}
        self._live = np.ones(len(slots), np.bool_)
        self._masks.clear()

    def mask(self, snapshot: Snapshot, name: str, matches: Callable[[Any], bool]) -> tuple[Mask, list[int]]:
        """Evaluate a filter, once for each version of a row.

        Args:
            snapshot: Whose slots are wanted.
            name: What tells this filter from others.
            matches: The filter.

        Returns:
            Which slots match, and which living slots can't be told, since their values are not cached.
        """
        with self._lock:
            found = self._masks.get(name)
            if found is None or found.table is not snapshot.table:
                found = _FilterMask(snapshot.table)
                if snapshot.table is self._table:
                    self._masks[name] = found
                    while len(self._masks) > KEEP_MASKS:
                        self._masks.popitem(last=False)
            else:
                self._masks.move_to_end(name)
        return found.upto(snapshot, matches)

    def judge(self, snapshot: Snapshot, name: str, slot: int, matches: bool) -> None:
        """Note whether a slot whose value is not cached matches a filter."""
        found = self._masks.get(name)
        if found is not None and found.table is snapshot.table:
            found.known[slot] = MATCH if matches else NO_MATCH


class _FilterMask:
    """Which slots of a table match one filter; slots never change, so each is looked at once."""

    def __init__(self, table: _Table) -> None:
        self.table = table
        self.known: npt.NDArray[np.int8] = np.zeros(0, np.int8)
        self._lock = threading.Lock()

    def upto(self, snapshot: Snapshot, matches: Callable[[Any], bool]) -> tuple[Mask, list[int]]:
        with self._lock:
            start = len(self.known)
            if start < snapshot.size:
                fresh = np.fromiter(
                    (_judge(snapshot, slot, matches) for slot in range(start, snapshot.size)),
                    np.int8,
                    snapshot.size - start,
                )
                self.known = np.concatenate([self.known, fresh])
            known = self.known[: snapshot.size]
        return known == MATCH, np.flatnonzero((known == UNKNOWN) & snapshot.live).tolist()


def _judge(snapshot: Snapshot, slot: int, matches: Callable[[Any], bool]) -> int:
    value = snapshot.value(slot)
    if value is None:
        return UNKNOWN
    return MATCH if matches(value) else NO_MATCH
