"""The near-cache engine: one sync with the server, then everything from arrays in this process.

The sync is the linearisation point. A scope that is not cached yet, or whose data have begun a new life, is loaded in
windows first; what changes meanwhile comes with the sync after it.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import FLAG_ARCHIVE_ON_EXPIRY, FLAG_DATED, FLAG_RUN, unpack_meta
from langgraph_forgetful_store.backend.flow import Flow, Send, Work, checked
from langgraph_forgetful_store.model.memory_types import decode_types
from langgraph_forgetful_store.search.cached_prefix import Base, CachedPrefix, Delta, Identity
from langgraph_forgetful_store.search.scan import CHANGES, VALUE_BYTES, WINDOW, fetched
from langgraph_forgetful_store.search.table import Fetched, Mask, Snapshot, estimate

logger = logging.getLogger("langgraph_forgetful_store")

DEFAULT_CACHE_BYTES = 512 * 2**20
# A scope that keeps beginning new lives while it is read is left to the scan.
ROUNDS = 5
# Rows whose expiry is asked for one by one; above it the scope is loaded again.
ASK = 2000
# A scope too large for the budget is tried again after so many searches.
TRY_AGAIN = 256
KEEP_TOO_LARGE = 10_000


@dataclass(slots=True)
class Synced:
    """A snapshot, and the server's time at which it held.

    Attributes:
        scope: Whose.
        snapshot: The rows.
        live: Which slots hold a row that a read can return.
        types: The names of the memory types by their ids.
        now: In ms.
        doubtful: Slots whose rows are gone, as far as is known here.
    """

    scope: CachedPrefix
    snapshot: Snapshot
    live: Mask
    types: tuple[str, ...]
    now: float
    doubtful: list[int]

    @property
    def is_layered_doubtfully(self) -> bool:
        """Whether what seems to be gone may hide other rows."""
        known = self.snapshot.table.flags
        if known & FLAG_DATED:
            # Over a dated row may lie any.
            return bool(self.doubtful)
        return bool(known & FLAG_RUN and (self.snapshot.flags[self.doubtful] & FLAG_RUN).any())

    def without(self, dead: list[int]) -> Synced:
        """Return it without rows that are gone."""
        live = self.snapshot.live.copy()
        live[dead] = False
        return replace(self, snapshot=replace(self.snapshot, live=live, expired=frozenset(dead)), live=live)


class NearCache:
    """Scopes by their prefixes, the least recently used ones dropped beyond a budget.

    Args:
        dims: Of the vectors; 0 for none.
        budget: In bytes; 0 switches the cache off.
        omit_expired: Whether expired rows are absent.

    Attributes:
        lock: Held while scopes come and go.
        scopes: What is cached, by the encoded prefix, the least recently used first.
    """

    def __init__(self, dims: int, budget: int, *, omit_expired: bool) -> None:
        self._dims = dims
        self._budget = budget
        self._omit = omit_expired
        self.after_fork()

    def after_fork(self) -> None:
        """Start anew in a forked child, whose locks may be held by threads that it does not have."""
        self.lock = threading.Lock()
        self.scopes: OrderedDict[bytes, CachedPrefix] = OrderedDict()
        # What each scope held when it last grew: adding them all up at each search would take longer than the search.
        self._sizes: dict[bytes, int] = {}
        self._total = 0
        self._too_large: dict[bytes, int] = {}
        self._is_off = self._budget == 0

    def clear(self) -> None:
        """Drop every scope."""
        with self.lock:
            self.scopes.clear()
            self._sizes.clear()
            self._total = 0
            self._too_large.clear()

    def sync(
        self,
        frame: scripts.Frame,
        prefix: bytes,
        check: Callable[[list[bytes | None]], None],
        meanwhile: Callable[[Snapshot], object] | None = None,
    ) -> Flow[Synced | None]:
        """Bring a scope up to date.

        Args:
            frame: The operation's.
            prefix: Encoded.
            check: Compares the stored format with the store's, when a scope is loaded.
            meanwhile: What may be done, while the server answers, with what is cached; it may prove to be out of date.

        Returns:
            What lies below the prefix now; ``None`` where the scan has to answer.
        """
        scope = self._scope(prefix)
        if scope is None:
            return None
        for _ in range(ROUNDS):
            answer = yield from self._ask(frame, prefix, scope, meanwhile)
            if not answer.identity.replication:
                self._switch_off()
                return None
            if answer.delta is None or answer.identity != scope.identity:
                check(checked((yield Send([scripts.stored_format(frame)]))[0]))
                if not (yield from self._load(frame, prefix, scope, answer)):
                    return None
                continue
            delta = answer.delta
            apply = partial(scope.apply, answer.identity, delta)
            snapshot = (yield Work(apply, len(delta.rows))) if delta.rows else apply()
            if snapshot is None:
                continue
            if delta.rows and not self._make_room(prefix, scope):
                return None
            synced = yield from self._expired(frame, scope, snapshot, answer)
            if synced is not None:
                return synced
        return None

    def _scope(self, prefix: bytes) -> CachedPrefix | None:
        if self._is_off:
            return None
        with self.lock:
            wait = self._too_large.get(prefix, 0)
            if wait:
                if wait > 1:
                    self._too_large[prefix] = wait - 1
                else:
                    del self._too_large[prefix]
                return None
            scope = self.scopes.get(prefix)
            if scope is None:
                scope = self.scopes[prefix] = CachedPrefix(self._dims)
            self.scopes.move_to_end(prefix)
            return scope

    def _switch_off(self) -> None:
        with self.lock:
            was_off, self._is_off = self._is_off, True
        if not was_off:
            logger.warning(
                "the server does not let scripts call INFO, so the near-cache is off and every search scans: grant the"
                " store's user the INFO command"
            )

    def _ask(
        self, frame: scripts.Frame, prefix: bytes, scope: CachedPrefix, prepare: Callable[[Snapshot], object] | None
    ) -> Flow[_Answer]:
        base, snapshot = scope.base, scope.snapshot
        since = base.version
        meanwhile = Work(partial(prepare, snapshot), snapshot.size) if prepare and snapshot.size else None
        # A namespace that is met again on a later page is told whole again.
        groups: dict[bytes, list[Any]] = {}
        page_from: Any = since
        first: Identity | None = None
        while True:
            call = scripts.sync(
                frame,
                prefix,
                since,
                CHANGES,
                page_from,
                vectors=bool(self._dims),
                value_bytes=VALUE_BYTES,
                expired=True,
                words=True,
            )
            now, number, epoch, replication, types, state, page_from, *found = checked(
                (yield Send([call], meanwhile))[0]
            )
            identity = Identity(epoch, replication)
            first = first or identity
            if state == b"reload" or identity != first:
                return _Answer(identity, base, int(number), float(now), None)
            groups.update((group[0], group) for group in found)
            if state == b"done":
                break
        reached, names = int(number), decode_types(types)
        if not groups:
            return _Answer(identity, base, reached, float(now), Delta(base, reached, (), (), names))
        gone = [(group[0], key) for group in groups.values() for key in group[1]]
        rows = list(fetched(groups.values(), 2))
        return _Answer(identity, base, reached, float(now), Delta(base, reached, gone, rows, names))

    def _load(self, frame: scripts.Frame, prefix: bytes, scope: CachedPrefix, answer: _Answer) -> Flow[bool]:
        rows: list[Fetched] = []
        held = 0
        start: tuple[bytes, Any] = (prefix, 0)
        while True:
            # What has expired by now may live again by another clock.
            call = scripts.scan(
                frame,
                prefix,
                start,
                WINDOW,
                vectors=bool(self._dims),
                words=True,
                value_bytes=VALUE_BYTES,
                expired=True,
            )
            _, _, _, _, at_end, *cursor = checked((yield Send([call]))[0])
            fresh = list(fetched(cursor[2:], 1))
            rows += fresh
            held += sum(estimate(row) for row in fresh)
            if held > self._budget:
                self._give_up(prefix)
                return False
            if at_end == b"1":
                break
            start = (cursor[0], cursor[1])
        yield Work(partial(scope.replace, answer.identity, answer.number, rows, answer.base), len(rows))
        return self._make_room(prefix, scope)

    def _give_up(self, prefix: bytes) -> None:
        with self.lock:
            self._drop(prefix)
            self._too_large[prefix] = TRY_AGAIN
            while len(self._too_large) > KEEP_TOO_LARGE:
                del self._too_large[next(iter(self._too_large))]

    def _drop(self, prefix: bytes) -> None:
        self.scopes.pop(prefix, None)
        self._total -= self._sizes.pop(prefix, 0)

    def _make_room(self, prefix: bytes, scope: CachedPrefix) -> bool:
        """Keep to the budget when a scope has grown; ``False`` where it is too large by itself."""
        size = scope.bytes
        if size > self._budget:
            self._give_up(prefix)
            return False
        with self.lock:
            # Another search may have dropped it meanwhile; this one goes on with it.
            if self.scopes.get(prefix) is scope:
                self._total += size - self._sizes.get(prefix, 0)
                self._sizes[prefix] = size
            while self._total > self._budget:
                self._drop(next(name for name in self.scopes if name != prefix))
        return True

    def _expired(
        self, frame: scripts.Frame, scope: CachedPrefix, snapshot: Snapshot, answer: _Answer
    ) -> Flow[Synced | None]:
        """Tell rows whose expiry has passed, as far as is known; ``None``: sync again."""
        passed = snapshot.passed(answer.now)
        doubtful = passed if self._omit else []
        if passed and snapshot.table.flags & FLAG_ARCHIVE_ON_EXPIRY:
            archives = (snapshot.flags & FLAG_ARCHIVE_ON_EXPIRY) != 0
            doubtful = [slot for slot in doubtful if not archives[slot]]
            asked = [slot for slot in passed if archives[slot] and slot not in snapshot.table.settled]
            if len(asked) > ASK:
                scope.forget()
                return None
            # Another client's read may have slid them since. What an expiry has archived, no read slides.
            if asked and not (yield from self._settle(frame, scope, snapshot, asked)):
                return None
        return Synced(scope, snapshot, snapshot.live, snapshot.type_names, answer.now, doubtful)

    @staticmethod
    def _settle(frame: scripts.Frame, scope: CachedPrefix, snapshot: Snapshot, slots: list[int]) -> Flow[bool]:
        same = True
        for slot, row in zip(slots, (yield from ask_rows(frame, snapshot, slots, 0)), strict=True):
            if isinstance(row, list):
                scope.heard(snapshot, slot, unpack_meta(row[0]).expires_at)
                snapshot.table.settled.add(slot)
            else:
                same = False
        return same


def ask_dead(frame: scripts.Frame, synced: Synced) -> Flow[tuple[list[int], bool]]:
    """Ask about rows that seem to have expired: the server knows, and a refresh is not logged.

    It is asked each time: by a clock that steps back, or a client that is told what has expired, a row may live again.

    Returns:
        Those that are gone, and whether that was known before. If not, it may have become so since the sync.
    """
    scope, snapshot = synced.scope, synced.snapshot
    dead = []
    slots = synced.doubtful[:ASK]
    for slot, row in zip(slots, (yield from ask_rows(frame, snapshot, slots, 0)), strict=True):
        if isinstance(row, list):
            scope.heard(snapshot, slot, unpack_meta(row[0]).expires_at)
        else:
            dead.append(slot)
    was_known = snapshot.table.settled.issuperset(dead)
    snapshot.table.settled.update(dead)
    return dead, was_known


def ask_rows(frame: scripts.Frame, snapshot: Snapshot, slots: list[int], flags: int) -> Flow[list[Any]]:
    """Read rows of a snapshot again, as `get.lua` returns them: 0 for one that has been written since."""
    contents, sizes = snapshot.columns["content"], snapshot.table.meta["value_bytes"]
    rows = ((*snapshot.table.names[slot], flags, f"{contents[slot]:.0f}") for slot in slots)
    value_bytes = (int(sizes[slot]) if flags & scripts.WITH_VALUE else 0 for slot in slots)
    return [row for reply in (yield Send(scripts.get(frame, rows, value_bytes))) for row in checked(reply)[:-1]]


class _Answer(NamedTuple):
    identity: Identity
    base: Base
    number: int
    now: float
    delta: Delta | None
