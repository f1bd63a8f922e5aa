"""The near-cache engine: one sync with the server, then everything from arrays in this process.

The sync is the linearisation point. A scope that is not cached yet, or whose data have begun a new life, is loaded in
windows first; what changes meanwhile comes with the sync after it.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import unpack_meta
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.memory_types import decode_types
from langgraph_forgetful_store.search.scan import CHANGES, VALUE_BYTES, WINDOW, fetched
from langgraph_forgetful_store.search.scope import Delta, Fetched, Identity, Mask, Scope, Snapshot, estimate

logger = logging.getLogger("langgraph_forgetful_store")

DEFAULT_CACHE_BYTES = 512 * 2**20
# A scope that keeps beginning new lives while it is read is left to the scan.
ROUNDS = 5
# Rows whose expiry is asked for one by one; above it the scope is loaded again.
ASK = 2000
# A scope too large for the budget is tried again after so many searches.
TRY_AGAIN = 256


@dataclass(slots=True)
class Synced:
    """A snapshot, and the server's time at which it held.

    Attributes:
        scope: Whose.
        snapshot: The rows.
        live: Which slots hold a row that a read can return.
        types: The names of the memory types by their ids.
        now: In ms.
    """

    scope: Scope
    snapshot: Snapshot
    live: Mask
    types: tuple[str, ...]
    now: float


class NearCache:
    """Scopes by their prefixes, the least recently used ones dropped beyond a budget.

    Args:
        dims: Of the vectors; 0 for none.
        budget: In bytes; 0 switches the cache off.
        omit_expired: Whether expired rows are absent.
    """

    def __init__(self, dims: int, budget: int, *, omit_expired: bool) -> None:
        self._dims = dims
        self._budget = budget
        self._omit = omit_expired
        self.after_fork()

    def after_fork(self) -> None:
        """Start anew in a forked child, whose locks may be held by threads that it does not have."""
        self._lock = threading.Lock()
        self._scopes: OrderedDict[bytes, Scope] = OrderedDict()
        self._too_large: dict[bytes, int] = {}
        self._is_off = self._budget == 0

    def clear(self) -> None:
        """Drop every scope."""
        with self._lock:
            self._scopes.clear()
            self._too_large.clear()

    def sync(
        self, frame: scripts.Frame, prefix: bytes, check: Callable[[list[bytes | None]], None]
    ) -> Flow[Synced | None]:
        """Bring a scope up to date.

        Args:
            frame: The operation's.
            prefix: Encoded.
            check: Compares the stored format with the store's, when a scope is loaded.

        Returns:
            What lies below the prefix now; ``None`` where the scan has to answer.
        """
        scope = self._scope(prefix)
        if scope is None:
            return None
        for _ in range(ROUNDS):
            since = scope.snapshot.version if scope.identity is not None else -1
            answer = yield from self._ask(frame, prefix, since)
            if not answer.identity.replication:
                self._switch_off()
                return None
            if answer.delta is None or answer.identity != scope.identity:
                check(checked((yield Send([scripts.stored_format(frame)]))[0]))
                if not (yield from self._load(frame, prefix, scope, answer)):
                    return None
                continue
            snapshot = scope.apply(answer.identity, answer.delta)
            if snapshot is not None:
                return (yield from self._without_expired(frame, scope, snapshot, answer))
        return None

    def _scope(self, prefix: bytes) -> Scope | None:
        if self._is_off:
            return None
        with self._lock:
            wait = self._too_large.get(prefix, 0)
            if wait:
                self._too_large[prefix] = wait - 1
                return None
            scope = self._scopes.get(prefix)
            if scope is None:
                scope = self._scopes[prefix] = Scope(self._dims)
            self._scopes.move_to_end(prefix)
            return scope

    def _switch_off(self) -> None:
        if not self._is_off:
            self._is_off = True
            logger.warning(
                "the server does not let scripts call INFO, so the near-cache is off and every search scans: grant the"
                " store's user the INFO command"
            )

    def _ask(self, frame: scripts.Frame, prefix: bytes, since: int) -> Flow[_Answer]:
        # A namespace that is met again on a later page is told whole again.
        groups: dict[bytes, list[Any]] = {}
        page_from: Any = since
        first: Identity | None = None
        while True:
            call = scripts.sync(
                frame, prefix, since, CHANGES, page_from, vectors=bool(self._dims), value_bytes=VALUE_BYTES
            )
            now, number, epoch, replication, types, state, page_from, *found = checked((yield Send([call]))[0])
            identity = Identity(epoch, replication)
            first = first or identity
            if state == b"reload" or identity != first:
                return _Answer(identity, int(number), float(now), decode_types(types), None)
            groups.update((group[0], group) for group in found)
            if state == b"done":
                break
        gone = [(group[0], key) for group in groups.values() for key in group[1]]
        rows = list(fetched(groups.values(), 2))
        delta = Delta(since, int(number), gone, rows)
        return _Answer(identity, int(number), float(now), decode_types(types), delta)

    def _load(self, frame: scripts.Frame, prefix: bytes, scope: Scope, answer: _Answer) -> Flow[bool]:
        rows: list[Fetched] = []
        held = 0
        start: tuple[bytes, Any] = (prefix, 0)
        while True:
            call = scripts.scan(frame, prefix, start, WINDOW, vectors=bool(self._dims), value_bytes=VALUE_BYTES)
            _, _, _, at_end, *cursor = checked((yield Send([call]))[0])
            fresh = list(fetched(cursor[2:], 1))
            rows += fresh
            held += sum(estimate(row) for row in fresh)
            if held > self._budget:
                self._give_up(prefix)
                return False
            if at_end == b"1":
                break
            start = (cursor[0], cursor[1])
        scope.replace(answer.identity, answer.number, rows)
        self._make_room()
        return True

    def _give_up(self, prefix: bytes) -> None:
        with self._lock:
            self._scopes.pop(prefix, None)
            self._too_large[prefix] = TRY_AGAIN

    def _make_room(self) -> None:
        with self._lock:
            while len(self._scopes) > 1 and sum(scope.bytes for scope in self._scopes.values()) > self._budget:
                self._scopes.popitem(last=False)

    def _without_expired(
        self, frame: scripts.Frame, scope: Scope, snapshot: Snapshot, answer: _Answer
    ) -> Flow[Synced | None]:
        live = snapshot.live
        if self._omit:
            passed = np.flatnonzero(live & (snapshot.columns["expires_at"] <= answer.now)).tolist()
            if len(passed) > ASK:
                scope.identity = None
                return None
            if passed:
                dead = yield from self._ask_dead(frame, scope, snapshot, passed)
                live = live.copy()
                live[dead] = False
        return Synced(scope, snapshot, live, answer.types, answer.now)

    @staticmethod
    def _ask_dead(frame: scripts.Frame, scope: Scope, snapshot: Snapshot, passed: list[int]) -> Flow[list[int]]:
        # Another client's read may have slid them since: the server knows, and a refresh is not logged.
        dead = []
        for slot, row in zip(passed, (yield from ask_rows(frame, snapshot, passed, 0)), strict=True):
            if isinstance(row, list):
                scope.heard(snapshot, slot, unpack_meta(row[0]).expires_at)
            else:
                dead.append(slot)
        scope.expired(snapshot, dead)
        return dead


def ask_rows(frame: scripts.Frame, snapshot: Snapshot, slots: list[int], flags: int) -> Flow[list[Any]]:
    """Read rows of a snapshot again, as `get.lua` returns them: 0 for one that has been written since."""
    contents = snapshot.columns["content"]
    rows = ((*snapshot.table.names[slot], flags, f"{contents[slot]:.0f}") for slot in slots)
    return [row for reply in (yield Send(scripts.get(frame, rows))) for row in checked(reply)]


@dataclass(frozen=True, slots=True)
class _Answer:
    identity: Identity
    number: int
    now: float
    types: tuple[str, ...]
    delta: Delta | None
