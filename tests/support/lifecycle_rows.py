"""The rows of the naive model of the lifecycle: what they count as, their chains and their slots.

A row that has expired stays in the dict until it is swept, as the promise says, but no read and no rule sees it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from langgraph_forgetful_store.errors import MemoryNotFoundError

ACTIVE, ARCHIVED, SUPERSEDED = "active", "archived", "superseded"
NEVER = float("inf")
DAY = 86_400_000
Namespace = tuple[str, ...]


@dataclass(frozen=True)
class Belief:
    """What the store held of a row from a moment on."""

    at: float
    status: str
    until: float
    closes: bool
    expires: float


@dataclass(eq=False)
class Row:
    ns: Namespace
    key: str
    value: Any
    created: float
    updated: float
    number: int
    recorded: float
    valid_from: float
    valid_until: float = NEVER
    retired: float = NEVER
    ttl: float = NEVER
    expires: float = NEVER
    importance: float = 0.5
    confidence: float = 0.8
    version: int = 1
    memory_type: str = "generic"
    absolute: bool = False
    archives: bool = False
    pinned: bool = False
    run_id: str | None = None
    source: str | None = None
    tags: tuple[str, ...] = ()
    slot: tuple[str, str] | None = None
    status: str = ACTIVE
    reason: str | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    confirmed: float | None = None
    accesses: int = 0
    beliefs: list[Belief] = field(default_factory=list)

    @property
    def closes(self) -> bool:
        """Whether it ends with its interval, rather than being no longer true for a while."""
        return self.status == SUPERSEDED or self.reason is not None

    def note(self, now: float) -> None:
        fresh = Belief(now, self.status, self.valid_until, self.closes, self.expires)
        if not self.beliefs or self.beliefs[-1] != fresh:
            self.beliefs.append(fresh)

    def believed(self, known: float) -> Belief:
        return next((one for one in reversed(self.beliefs) if one.at <= known), self.beliefs[0])

    def hidden(self, belief: Belief, known: float) -> bool:
        lapsed = belief.status != ARCHIVED and self.archives and belief.expires <= known
        return belief.status == ARCHIVED or lapsed

    def status_at(self, now: float) -> str:
        """What `get` calls it."""
        belief = self.believed(now)
        if belief.closes and belief.until <= now:
            return SUPERSEDED
        return ARCHIVED if self.hidden(belief, now) else ACTIVE

    def state(self, now: float, as_of: float | None, known_at: float | None) -> str | None:
        """What a recall counts it as; None: nothing."""
        known = now if known_at is None else known_at
        at = now if as_of is None else as_of
        if self.recorded > known or at < self.valid_from:
            return None
        belief = self.believed(known)
        over = belief.closes and belief.until <= known
        if self.hidden(belief, known) and not over:
            return SUPERSEDED if belief.closes and at >= belief.until else ARCHIVED
        if at < belief.until:
            return ACTIVE
        return SUPERSEDED if belief.closes else None


class Rows:
    """What there is, and how it hangs together."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Namespace, str], Row] = {}
        self.slots: dict[tuple[Namespace, str, str], str] = {}
        self.aliases: dict[tuple[Namespace, str], str] = {}
        self.merges: dict[tuple[Namespace, str], tuple[list[tuple[str, str, str]], list[str]]] = {}
        self.links: dict[tuple[Namespace, str, str, str], None] = {}
        self.now = 0.0
        self._numbers = count(1)

    # What there is.

    def alive(self, row: Row | None) -> bool:
        return row is not None and (row.archives or row.expires > self.now)

    def find(self, ns: Namespace, key: str | None) -> Row | None:
        return None if key is None else self.rows.get((ns, key))

    def living(self, ns: Namespace, key: str) -> Row:
        row = self.find(ns, key)
        if row is None or not self.alive(row):
            raise MemoryNotFoundError(key)
        return row

    def every(self) -> list[Row]:
        return [row for row in self.rows.values() if self.alive(row)]

    def _after(self, row: Row) -> Row | None:
        return next((one for one in self.rows.values() if one.ns == row.ns and one.supersedes == row.key), None)

    def line(self, row: Row) -> list[Row]:
        """The linear chain of a row, latest first, with what has expired."""
        while (after := self._after(row)) is not None:
            row = after
        found = [row]
        while (before := self.find(row.ns, found[-1].supersedes)) is not None:
            found.append(before)
        return found

    def survivor(self, row: Row) -> Row | None:
        """What the latest row of a line was merged into."""
        latest = self.line(row)[0]
        found = self.find(row.ns, latest.superseded_by)
        return found if latest.reason == "merged" else None

    def whole(self, row: Row) -> list[Row]:
        """The line that a row's was merged into, its own after it; latest first, living ones."""
        found: list[Row] = []
        one: Row | None = row
        while one is not None:
            line = self.line(one)
            found = line + found
            one = self.survivor(one)
        return [one for one in found if self.alive(one)]

    def canonical(self, ns: Namespace, slot: tuple[str, str]) -> tuple[Namespace, str, str]:
        subject, attribute = slot
        return (ns, self.aliases.get((ns, subject), subject), attribute)

    def holder(self, ns: Namespace, slot: tuple[str, str]) -> Row | None:
        """The row in a slot; of one that has expired before it began, what holds still."""
        row = self.find(ns, self.slots.get(self.canonical(ns, slot)))
        if row is None or self.alive(row):
            return row
        earlier = self.line(row)[self.line(row).index(row) + 1 :]
        return next((one for one in earlier if self.alive(one) and one.valid_until > self.now), None)

    def _free_for(self, row: Row) -> bool:
        assert row.slot is not None
        return self.holder(row.ns, row.slot) in (None, row)

    def _reclaim(self, row: Row) -> None:
        if row.slot is None:
            return
        if self._free_for(row):
            self.slots[self.canonical(row.ns, row.slot)] = row.key
        else:
            row.slot = None

    def _leave_chain(self, row: Row) -> None:
        before, after = self.find(row.ns, row.supersedes), self._after(row)
        if before is not None and before.superseded_by == row.key:
            before.superseded_by = after.key if after is not None else None
        if after is not None:
            after.supersedes = row.supersedes
        row.supersedes = row.superseded_by = None

    def _leave_slot(self, row: Row) -> None:
        slot = None if row.slot is None else self.canonical(row.ns, row.slot)
        if slot is None or self.slots.get(slot) != row.key:
            return
        del self.slots[slot]
        before = self.find(row.ns, row.supersedes)
        if before is None or before.slot is None or self.canonical(row.ns, before.slot) != slot:
            return
        # It was to begin later: what came before it holds still.
        if self.alive(before) and before.valid_until > self.now:
            self.slots[slot] = before.key

    def remove(self, row: Row) -> None:
        self._leave_slot(row)
        self._leave_chain(row)
        for other in self.rows.values():
            if other.ns == row.ns and other.superseded_by == row.key:
                other.superseded_by = None
        self.links = {one: None for one in self.links if one[0] != row.ns or row.key not in (one[1], one[3])}
        del self.rows[row.ns, row.key]

    # Reads.

    def history(self, ns: Namespace, key: str, as_of: float | None, known_at: float | None) -> list[Row]:
        row = self.find(ns, key)
        if row is None or not self.alive(row):
            return []
        rows = self.whole(row)[::-1]
        if as_of is not None or known_at is not None:
            rows = [one for one in rows if one.state(self.now, as_of, known_at) is not None]
        return sorted(rows, key=lambda one: one.valid_from)

    def recall(
        self,
        prefix: Namespace,
        status: Iterable[str] = (ACTIVE,),
        as_of: float | None = None,
        known_at: float | None = None,
        run_id: str | None = None,
        types: tuple[str, ...] | None = None,
    ) -> list[Row]:
        """Latest write first."""
        found = [
            row
            for row in self.every()
            if row.ns[: len(prefix)] == prefix
            and row.state(self.now, as_of, known_at) in status
            and (row.run_id is None or row.run_id == run_id)
            and (row.memory_type != "hypothesis" if types is None else row.memory_type in types)
        ]
        return sorted(found, key=lambda row: -row.number)

    def read(self, row: Row) -> None:
        """A read slides the TTL of a living row, unless it is its type's, is suspended, or has run out."""
        lapsed = row.archives and row.expires <= self.now
        if not (row.pinned or row.absolute or lapsed) and self.now + row.ttl > row.expires:
            row.expires = self.now + row.ttl
            row.note(self.now)

    # Ends.

    def sweep(self) -> int:
        gone = [row for row in self.rows.values() if not self.alive(row)]
        for row in gone:
            self.remove(row)
        return len(gone)

    def end_run(self, prefix: Namespace, run_id: str) -> int:
        ended = [row for row in self.every() if row.ns[: len(prefix)] == prefix and row.run_id == run_id]
        for row in ended:
            self.remove(row)
        return len(ended)

    def forget_all(self, prefix: Namespace) -> int:
        doomed = [row for row in self.rows.values() if row.ns[: len(prefix)] == prefix]
        for row in doomed:
            self.remove(row)
        for names in (self.aliases, self.merges):
            for place in [place for place in names if place[0][: len(prefix)] == prefix]:
                del names[place]
        return len(doomed)
