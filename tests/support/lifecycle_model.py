"""A naive bitemporal model of the lifecycle: plain dicts, no script, no cache, written from what is promised.

A row that has expired stays in the dict until it is swept, as the promise says, but no read and no rule sees it.
"""

from __future__ import annotations

from typing import Any

from langgraph_forgetful_store.errors import IllegalTransitionError, VersionConflictError
from tests.support.lifecycle_rows import ACTIVE, ARCHIVED, DAY, NEVER, SUPERSEDED, Namespace, Row, Rows

# Ms to live, and what expiry does, of the types that the machine uses.
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


class Model(Rows):
    """What the store is expected to do."""

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
        found = self.find(ns, key)
        row = found if self.alive(found) else None
        start = said.get("valid_from", self.now if row is None else row.valid_from)
        if said.get("valid_until", NEVER) <= start:
            raise ValueError("valid_until")
        if row is None:
            if found is not None:
                self.remove(found)
            row = self.rows[ns, key] = Row(ns, key, value, self.now, self.now, 0, self.now, self.now)
            row.confidence = TRUST.get(said.get("source", ""), 0.8)
            if inherited is not None:
                for name in INHERITED:
                    setattr(row, name, getattr(inherited, name))
        else:
            row.version += 1
            if "slot" in said:
                self._leave_slot(row)
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
        self,
        ns: Namespace,
        key: str,
        value: Any,
        new_key: str,
        said: dict[str, Any],
        ttl: Any,
        reason: str,
        version: Any,
    ) -> Row:
        head = self.whole(self.living(ns, key))[0]
        if self.alive(self.find(ns, new_key)):
            raise ValueError("new_key")
        if version is not None and head.version != version:
            raise VersionConflictError
        chain = self.whole(head)
        moved = (
            "slot" in said
            and head.slot is not None
            and self.canonical(ns, said["slot"]) != self.canonical(ns, head.slot)
        )
        if "slot" in said and self.holder(ns, said["slot"]) not in (None, *chain):
            raise ValueError("slot")
        row = self.write(ns, new_key, value, said, ttl, head)
        late = self._place(row, chain, reason)
        held = self.holder(ns, row.slot) if row.slot is not None else None
        if held is None or held not in chain:
            self._reclaim(row)
        elif not late:
            self.slots[self.canonical(ns, row.slot)] = row.key
        if moved and not late and self.slots.get(self.canonical(ns, head.slot)) in [one.key for one in chain]:
            del self.slots[self.canonical(ns, head.slot)]
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
            raise IllegalTransitionError
        if status == ACTIVE:
            row.status = ARCHIVED
            row.note(self.now)
        return row

    def restore(self, ns: Namespace, key: str) -> Row:
        row = self.living(ns, key)
        status = row.status_at(self.now)
        if status == SUPERSEDED:
            raise IllegalTransitionError
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
        if row.status_at(self.now) == SUPERSEDED:
            raise IllegalTransitionError
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

    def set_ttl(self, ns: Namespace, key: str, ttl: float) -> Row:
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
            raise IllegalTransitionError
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
            raise IllegalTransitionError
        line = [one for one in self.line(head) if self.alive(one)]
        before = next(iter(line[line.index(head) + 1 :]), None)
        if before is None or not before.closes:
            raise IllegalTransitionError
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
            pending += [
                one for place, one, relation, to in self.links if (place, relation, to) == (ns, "summarizes", row.key)
            ]
        for one in found:
            self.remove(self.rows[ns, one])
        return found
