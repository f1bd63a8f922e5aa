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
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.search.bounds import Bounds
from langgraph_forgetful_store.search.table import Fetched, Mask, Row, Slots, Snapshot, Table, take_snapshot

KEEP_MASKS = 32
# Dead rows that any table may hold.
FEW = 32
NO_MATCH, MATCH, UNKNOWN = 0, 1, 2
# Bytes of a scope without rows.
SCOPE_OVERHEAD = 6000


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells one life of the data from another: the epoch they began in, and the server's replication id."""

    epoch: bytes | None
    replication: bytes


class Base(NamedTuple):
    """The state of a scope that a sync is asked for.

    A load alone is no state: its later windows are newer than its version. So a delta that was asked for before the
    load, and may be older than those windows, must not count for it, though the versions may be equal.

    Attributes:
        load: Which load of the scope.
        version: ``-1`` where nothing is loaded.
    """

    load: int
    version: int


class Delta(NamedTuple):
    """What a sync brought.

    Attributes:
        base: What it was asked for.
        number: The version it leads to.
        gone: Rows that are no longer there, or no longer active.
        rows: Rows that were written or changed.
        type_names: The names of the memory types by their ids; ids are never given twice in one life of the data.
    """

    base: Base
    number: int
    gone: Sequence[Row]
    rows: Sequence[Fetched]
    type_names: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no row has changed."""
        return not self.gone and not self.rows


class Scope:
    """What lies below one prefix.

    Args:
        dims: Of the vectors; 0 for none.

    Attributes:
        lock: Held while the rows change; readers of a snapshot need none.
        load: Which load of the scope its rows came with.
        type_names: The names of the memory types by their ids.
        masks: What each filter said of the slots, by the filter's name.
        identity: Which life of the data its rows are of; ``None``: nothing is loaded.
        snapshot: The rows as they are now.
    """

    def __init__(self, dims: int) -> None:
        self._dims = dims
        self.lock = threading.Lock()
        self.load = 0
        self.type_names: tuple[str, ...] = ()
        self._clear(0)
        self.identity: Identity | None = None

    def _clear(self, version: int) -> None:
        self._table = Table(self._dims, bounds=Bounds())
        self._slots: dict[Row, int] = {}
        self._live: Mask = np.zeros(0, np.bool_)
        self.masks: OrderedDict[str, _FilterMask] = OrderedDict()
        self.snapshot = self._take(version)

    @property
    def bytes(self) -> int:
        """About how much memory it holds."""
        return SCOPE_OVERHEAD + self._table.bytes + sum(len(mask.known) for mask in list(self.masks.values()))

    def _take(self, version: int) -> Snapshot:
        return take_snapshot(version, self._table, self._live, self.type_names)

    @property
    def base(self) -> Base:
        """What the next sync is to be asked for."""
        with self.lock:
            return Base(self.load, -1 if self.identity is None else self.snapshot.version)

    def forget(self) -> None:
        """Have the scope loaded again."""
        with self.lock:
            self.identity = None

    def replace(self, identity: Identity, version: int, rows: Iterable[Fetched], base: Base) -> None:
        """Set the scope to what a load has read: at least the state at `version`, some rows perhaps newer.

        Args:
            identity: Of the data.
            version: Of the answer that asked for the load.
            rows: What was read.
            base: What was asked for; where the scope has been loaded since, this load is not needed.
        """
        # A row that moved ahead of the load was met twice; the later meeting is the current one.
        latest = {(row.namespace, row.key): row for row in rows}
        with self.lock:
            if base.load != self.load:
                return
            self.load += 1
            # Not loaded until all is there: a corrupt row fails on the way, and must fail the next search too.
            self.identity = None
            self.type_names = ()
            self._clear(version)
            self.put((), list(latest.values()), version)
            self.identity = identity

    def apply(self, identity: Identity, delta: Delta) -> Snapshot | None:
        """Apply a delta, and return a snapshot not older than it; ``None``: ask again.

        A delta is applied only to the version that it was made for. Where the cache is already newer than what it
        leads to, the cache is what counts; where it only overlaps, what lies between is unknown.
        """
        with self.lock:
            if identity != self.identity or delta.base.load != self.load:
                return None
            version = self.snapshot.version
            if version == delta.base.version:
                # Another search's answer may be late, and know fewer of them.
                self.type_names = max(self.type_names, delta.type_names, key=len)
                if delta.number == version and self.type_names is self.snapshot.type_names and delta.is_empty:
                    return self.snapshot
                self.put(delta.gone, delta.rows, delta.number)
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

    def put(self, gone: Iterable[Row], rows: Sequence[Fetched], version: int) -> None:
        """Take over changed rows; the caller holds the lock and has compared the versions."""
        start = self._table.size
        if rows:
            # First, since a corrupt row fails here: the same delta must find everything unchanged the next time.
            self._table.append(rows)
        dead = [slot for name in gone if (slot := self._slots.pop(name, None)) is not None]
        dead += [slot for row in rows if (slot := self._slots.get((row.namespace, row.key))) is not None]
        if rows:
            self._slots.update(((row.namespace, row.key), start + at) for at, row in enumerate(rows))
        if rows or dead:
            live = np.ones(self._table.size, np.bool_)
            live[:start] = self._live
            live[dead] = False
            self._live = live
            dead_rows = self._table.size - int(np.count_nonzero(live))
            # Every search compares them, and copying a table costs some rows' worth for each that is dead.
            if dead_rows > max(FEW, self._table.size // 16):
                self._compact()
        self.snapshot = self._take(version)

    def _compact(self) -> None:
        slots = np.flatnonzero(self._live)
        self._table = self._table.picked(slots)
        self._slots = {name: slot for slot, name in enumerate(self._table.names)}
        self._live = np.ones(len(slots), np.bool_)
        self.masks = OrderedDict((name, mask.picked(self._table, slots)) for name, mask in self.masks.items())

    def mask(self, snapshot: Snapshot, name: str | None, matches: Callable[[Any], bool]) -> tuple[Mask, list[int]]:
        """Evaluate a filter, once for each version of a row.

        Args:
            snapshot: Whose slots are wanted.
            name: What tells this filter from others; ``None``: nothing does, so what it says is not kept.
            matches: The filter.

        Returns:
            Which slots match, and which living slots can't be told, since their values are not cached.
        """
        if name is None:
            return _FilterMask(snapshot.table).upto(snapshot, matches)
        with self.lock:
            found = self.masks.get(name)
            if found is None or found.table is not snapshot.table:
                found = _FilterMask(snapshot.table)
                if snapshot.table is self._table:
                    self.masks[name] = found
                    while len(self.masks) > KEEP_MASKS:
                        self.masks.popitem(last=False)
            else:
                self.masks.move_to_end(name)
        return found.upto(snapshot, matches)

    def judge(self, snapshot: Snapshot, name: str | None, slot: int, matches: bool) -> None:
        """Note whether a slot whose value is not cached matches a filter."""
        found = None if name is None else self.masks.get(name)
        if found is not None and found.table is snapshot.table:
            found.known[slot] = MATCH if matches else NO_MATCH


class _FilterMask:
    """Which slots of a table match one filter; slots never change, so each is looked at once."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.known: npt.NDArray[np.int8] = np.zeros(0, np.int8)
        self._lock = threading.Lock()

    def picked(self, table: Table, slots: Slots) -> _FilterMask:
        """Return the mask of a table that holds some of the slots, in their order."""
        mask, known = _FilterMask(table), self.known
        mask.known = known[slots[slots < len(known)]]
        return mask

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
