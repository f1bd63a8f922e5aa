"""A naive bitemporal model of the lifecycle: plain dicts, no script, no cache, written from what is promised.

A row that has expired stays in the dict until it is swept, as the promise says, but no read and no rule sees it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from langgraph_forgetful_store.errors import IllegalTransition, MemoryNotFound, VersionConflict

ACTIVE, ARCHIVED, SUPERSEDED = "active", "archived", "superseded"
NEVER = float("inf")
DAY = 86_400_000
# Minutes to live, and what expiry does, of the types that the machine uses.
TYPES = {
    "generic": (None, "delete"),
    "fact": (None, "delete"),
    "intent": (7 * DAY, "archive"),
    "conversation": (3_600_000, "archive"),
    "task": (7 * DAY, "delete"),
    "hypothesis": (7 * DAY, "delete"),
    "emotion": (600_000, "delete"),
}
TRUST = {"user": 0.95, "tool": 0.95, "model": 0.7}
INHERITED = ("slot", "tags", "run_id", "pinned")
UNSAID: Any = object()
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


class Model:
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
            raise MemoryNotFound(key)
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
        """The row in a slot."""
        row = self.find(ns, self.slots.get(self.canonical(ns, slot)))
        return row if self.alive(row) else None

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
        if row.slot is not None and self.slots.get(self.canonical(row.ns, row.slot)) == row.key:
            del self.slots[self.canonical(row.ns, row.slot)]

    def remove(self, row: Row) -> None:
        self._leave_chain(row)
        self._leave_slot(row)
        for other in self.rows.values():
            if other.ns == row.ns and other.superseded_by == row.key:
                other.superseded_by = None
        self.links = {one: None for one in self.links if one[0] != row.ns or row.key not in (one[1], one[3])}
        del self.rows[row.ns, row.key]

    # Writes.

    def write(
        self,
        ns: Namespace,
        key: str,
        value: Any,
        said: dict[str, Any],
        ttl: Any,
        inherited: Row | None = None,
    ) -> Row:
        """Write a row, in place where it is; `said` are the fields that the write names, ttl is in ms."""
        row = self.find(ns, key)
        if row is not None and not self.alive(row):
            self.remove(row)
            row = None
        start = said.get("valid_from", self.now if row is None else row.valid_from)
        if said.get("valid_until", NEVER) <= start:
            raise ValueError("valid_until")
        if row is None:
            row = self.rows[ns, key] = Row(ns, key, value, self.now, self.now, 0, self.now, self.now)
            row.confidence = TRUST.get(said.get("source", ""), 0.8)
            if inherited is not None:
                for name in INHERITED:
                    setattr(row, name, getattr(inherited, name))
        else:
            row.version += 1
            self._leave_chain(row)
        row.value, row.updated, row.number = value, self.now, next(self._numbers)
        row.status, row.reason, row.retired, row.valid_until = ACTIVE, None, NEVER, NEVER
        named = said.get("memory_type")
        if named is None and inherited is not None and inherited.memory_type != "generic":
            named = inherited.memory_type
        row.absolute = False
        if named is not None:
            typed, action = TYPES[named]
            row.memory_type, row.archives = named, action == "archive"
            if ttl is UNSAID:
                row.absolute, ttl = typed is not None, typed
        row.ttl = NEVER if ttl is UNSAID or ttl is None else ttl
        if "slot" in said:
            self._leave_slot(row)
        for name, given in said.items():
            setattr(row, name, given)
        row.expires = NEVER if row.pinned else self.now + row.ttl
        return row

    def put(self, ns: Namespace, key: str, value: Any, said: dict[str, Any], ttl: Any) -> Row:
        """`put` and `remember`."""
        into = said.get("slot")
        held = self.holder(ns, into) if into else None
        row = self.write(ns, key, value, said, ttl)
        if into is None:
            self._reclaim(row)
        elif held is None or held is row:
            self.slots[self.canonical(ns, into)] = key
        else:
            if not self._place(row, [one for one in self.whole(held) if one is not row], "updated"):
                self.slots[self.canonical(ns, into)] = key
        row.note(self.now)
        return row

    def _place(self, row: Row, chain: list[Row], reason: str) -> bool:
        """Put a row where it belongs by valid_from; whether it is late."""
        head, start = chain[0], row.valid_from
        if start >= head.valid_from:
            row.supersedes = head.key
            row.version = max(row.version, head.version + 1)
            self._close(head, start, reason, row.key)
            return False
        at = max(place for place, one in enumerate(chain) if one.valid_from > start and self._lined(chain, place))
        later = chain[at]
        earlier = chain[at + 1] if self._lined(chain, at + 1) else None
        row.superseded_by, later.supersedes = later.key, row.key
        row.status, row.reason, row.retired = SUPERSEDED, reason, self.now
        row.valid_until = min(row.valid_until, later.valid_from)
        if earlier is not None:
            row.supersedes, earlier.superseded_by = earlier.key, row.key
            row.version = max(row.version, earlier.version + 1)
            earlier.valid_until = min(earlier.valid_until, start)
            earlier.note(self.now)
        return True

    def _lined(self, chain: list[Row], place: int) -> bool:
        return place < len(chain) and chain[place] in self.line(chain[0])

    def _close(self, row: Row, until: float, reason: str, by: str | None) -> None:
        was_closed = row.closes
        row.valid_until = min(row.valid_until, until)
        row.superseded_by = by
        if not was_closed:
            row.reason, row.retired = reason, self.now
        if row.status_at(self.now) != ARCHIVED or row.valid_until <= self.now:
            row.status = SUPERSEDED
        row.note(self.now)

    def supersede(
        self, ns: Namespace, key: str, value: Any, new_key: str, said: dict[str, Any], ttl: Any, reason: str, version: Any
    ) -> Row:
        head = self.whole(self.living(ns, key))[0]
        if self.alive(self.find(ns, new_key)):
            raise ValueError("new_key")
        if version is not None and head.version != version:
            raise VersionConflict
        chain = self.whole(head)
        moved = "slot" in said and head.slot is not None and self.canonical(ns, said["slot"]) != self.canonical(ns, head.slot)
        if "slot" in said and self.holder(ns, said["slot"]) not in (None, *chain):
            raise ValueError("slot")
        row = self.write(ns, new_key, value, said, ttl, head)
        late = self._place(row, chain, reason)
        if row.slot is not None:
            held = self.holder(ns, row.slot)
            if held is None or held in chain:
                if not late:
                    self.slots[self.canonical(ns, row.slot)] = row.key
                    if moved:
                        self._leave_slot(head)
            else:
                row.slot = None
        row.note(self.now)
        return row

    def delete(self, ns: Namespace, key: str) -> None:
        if (row := self.find(ns, key)) is not None:
            self.remove(row)

    # Transitions.

    def archive(self, ns: Namespace, key: str) -> Row:
        row = self.living(ns, key)
        status = row.status_at(self.now)
        if status == SUPERSEDED:
            raise IllegalTransition
        if status == ACTIVE:
            row.status = ARCHIVED
            row.note(self.now)
        return row

    def restore(self, ns: Namespace, key: str) -> Row:
        row = self.living(ns, key)
        status = row.status_at(self.now)
        if status == SUPERSEDED:
            raise IllegalTransition
        if status == ARCHIVED:
            self._restore(row)
        return row

    def _restore(self, row: Row) -> None:
        row.status = SUPERSEDED if row.reason is not None else ACTIVE
        row.expires = NEVER if row.pinned else self.now + row.ttl
        if row.status == ACTIVE:
            self._reclaim(row)
        row.note(self.now)

    def retire(self, ns: Namespace, key: str, reason: str, until: float | None) -> Row:
        row = self.living(ns, key)
        if row.status_at(self.now) == SUPERSEDED:
            return row
        if until is not None and until < row.valid_from:
            raise ValueError("valid_until")
        end = min(row.valid_until, self.now) if until is None else until
        row.valid_until = min(end, row.valid_until) if row.closes else end
        row.reason, row.retired = reason, self.now
        if row.status_at(self.now) != ARCHIVED or row.valid_until <= self.now:
            row.status = SUPERSEDED
        row.note(self.now)
        return row

    def _settle(self, row: Row) -> None:
        # What expiry has archived stays so, whatever becomes of the expiry.
        if row.status_at(self.now) == ARCHIVED:
            row.status = ARCHIVED

    def pin(self, ns: Namespace, key: str) -> Row:
        row = self.living(ns, key)
        if not row.pinned:
            self._settle(row)
            row.pinned, row.expires = True, NEVER
            row.note(self.now)
        return row

    def unpin(self, ns: Namespace, key: str) -> Row:
        row = self.living(ns, key)
        if row.pinned:
            row.pinned, row.expires = False, self.now + row.ttl
            row.note(self.now)
        return row

    def extend(self, ns: Namespace, key: str, ttl: float) -> Row:
        row = self.living(ns, key)
        self._settle(row)
        row.ttl = ttl
        row.expires = NEVER if row.pinned else self.now + ttl
        row.note(self.now)
        return row

    def demote(self, ns: Namespace, key: str, by: float) -> Row:
        row = self.living(ns, key)
        row.importance = max(0.0, row.importance - by)
        return row

    def _stirred(self, ns: Namespace, key: str) -> Row:
        row = self.living(ns, key)
        if row.status_at(self.now) == SUPERSEDED:
            raise IllegalTransition
        return row

    def anchor(self, ns: Namespace, key: str) -> Row:
        row = self._stirred(ns, key)
        row.importance = max(row.importance, 0.5)
        if row.status_at(self.now) == ARCHIVED:
            self._restore(row)
        return row

    def confirm(self, ns: Namespace, key: str) -> Row:
        row = self._stirred(ns, key)
        row.confidence, row.importance = min(1.0, row.confidence + 0.1), min(1.0, row.importance + 0.05)
        row.confirmed = self.now
        if row.status_at(self.now) == ARCHIVED:
            self._restore(row)
        return row

    def deny(self, ns: Namespace, key: str) -> Row:
        row = self._stirred(ns, key)
        row.confidence = max(0.0, row.confidence - 0.2)
        return row

    def _reopen(self, row: Row) -> None:
        open_ = [one for one in row.beliefs if not one.closes]
        row.status, row.reason, row.retired = ACTIVE, None, NEVER
        row.valid_until = open_[-1].until if open_ else NEVER
        row.superseded_by = None
        row.note(self.now)

    def undo_supersede(self, ns: Namespace, key: str) -> Row:
        head = self.living(ns, key)
        if self.whole(head)[0] is not head:
            raise IllegalTransition
        line = [one for one in self.line(head) if self.alive(one)]
        before = next(iter(line[line.index(head) + 1 :]), None)
        if before is None or not before.closes:
            raise IllegalTransition
        shares = (
            before.slot is not None
            and head.slot is not None
            and self.canonical(ns, before.slot) == self.canonical(ns, head.slot)
        )
        self._reopen(before)
        head.supersedes = None
        if shares:
            if head.status_at(self.now) == ACTIVE:
                head.status = ARCHIVED
                head.note(self.now)
            if self.slots.get(self.canonical(ns, before.slot)) == head.key:
                self._leave_slot(head)
        self._reclaim(before)
        return before

    # Names and links.

    def alias(self, ns: Namespace, canonical: str, name: str) -> None:
        goal = self.aliases.get((ns, canonical), canonical)
        if goal == name or canonical == name:
            raise ValueError("canonical")
        if self.aliases.get((ns, name)) == goal:
            return
        if (ns, name) in self.aliases:
            raise ValueError("names")
        names = [other for (place, other), stands in self.aliases.items() if place == ns and stands == name]
        attributes = [attribute for place, subject, attribute in self.slots if (place, subject) == (ns, name)]
        pairs = {one: (self.holder(ns, (name, one)), self.holder(ns, (goal, one))) for one in attributes}
        for attribute in attributes:
            del self.slots[ns, name, attribute]
        for other in (name, *names):
            self.aliases[ns, other] = goal
        closed = []
        for attribute, (mine, its) in pairs.items():
            if mine is None:
                continue
            if its is None:
                self.slots[ns, goal, attribute] = mine.key
                continue
            loser, survivor = (its, mine) if mine.valid_from > its.valid_from else (mine, its)
            self.slots[ns, goal, attribute] = survivor.key
            if loser.status_at(self.now) == SUPERSEDED:
                continue
            loser.valid_until = min(loser.valid_until, max(survivor.valid_from, loser.valid_from))
            loser.status, loser.reason, loser.retired = SUPERSEDED, "merged", self.now
            loser.superseded_by = survivor.key
            loser.note(self.now)
            closed.append((loser.key, survivor.key, attribute))
        self.merges[ns, name] = (closed, names)

    def unalias(self, ns: Namespace, name: str) -> None:
        goal = self.aliases.pop((ns, name), None)
        if goal is None:
            return
        closed, names = self.merges.pop((ns, name))
        names = [other for other in names if self.aliases.get((ns, other)) == goal]
        for other in names:
            self.aliases[ns, other] = name
        held = [(slot, key) for slot, key in self.slots.items() if slot[:2] == (ns, goal)]
        for slot, key in held:
            del self.slots[slot]
            row = self.find(ns, key)
            if self.alive(row):
                self.slots[self.canonical(ns, row.slot)] = key
        for key, survivor, _ in closed:
            row = self.find(ns, key)
            if not self.alive(row) or row.reason != "merged" or row.superseded_by != survivor or row.slot is None:
                continue
            if self._free_for(row):
                self._reopen(row)
                self.slots[self.canonical(ns, row.slot)] = key

    def link(self, ns: Namespace, key: str, relation: str, other: str) -> Row:
        if key == other:
            raise ValueError("other")
        own, its = self.living(ns, key), self.living(ns, other)
        if (ns, key, relation, other) in self.links:
            return own
        self.links[ns, key, relation, other] = None
        if relation == "updates":
            own.importance, its.importance = min(1.0, own.importance + 0.3), max(0.0, its.importance - 0.4)
        elif relation == "negates":
            own.importance, its.importance = min(1.0, own.importance + 0.2), max(0.0, its.importance - 0.5)
        elif relation in ("completes", "resolves", "closes"):
            for row in self.whole(its):
                if row is not own:
                    row.importance *= 0.6
            if relation != "completes" and its.status_at(self.now) != SUPERSEDED:
                self.retire(ns, other, "resolved", None)
        return own

    def unlink(self, ns: Namespace, key: str, relation: str, other: str) -> None:
        self.links.pop((ns, key, relation, other), None)

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

    def forget(self, ns: Namespace, key: str) -> set[str]:
        """What is erased with a row."""
        found: set[str] = set()
        pending = [key]
        while pending:
            row = self.find(ns, pending.pop())
            if row is None or row.key in found:
                continue
            found.add(row.key)
            pending += [one.key for one in self.line(row)]
            if (survivor := self.survivor(row)) is not None:
                pending.append(survivor.key)
            for one in self.rows.values():
                if one.ns == ns and one.superseded_by == row.key:
                    pending.append(one.key)
            pending += [one for place, one, relation, to in self.links if (place, relation, to) == (ns, "summarizes", row.key)]
        for one in found:
            self.remove(self.rows[ns, one])
        return found

    def forget_all(self, prefix: Namespace) -> int:
        doomed = [row for row in self.rows.values() if row.ns[: len(prefix)] == prefix]
        for row in doomed:
            self.remove(row)
        for names in (self.aliases, self.merges):
            for place in [place for place in names if place[0][: len(prefix)] == prefix]:
                del names[place]
        return len(doomed)

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
