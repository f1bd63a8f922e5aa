"""Lines: where a row stands among others of its slot or chain, and what putting it there, or taking it out, changes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

from langgraph_forgetful_store.backend.codec import FLAG_AHEAD, FLAG_END_AHEAD, FOREVER
from langgraph_forgetful_store.model.places import Under, pack_under, place_of, under_of
from langgraph_forgetful_store.model.status import has_begun
from langgraph_forgetful_store.operations.plan import (
    DATED,
    LINES,
    MERGED,
    PERMANENT,
    POINTERS,
    SOON_MS,
    UNDER,
    UPDATED,
    WITHDRAWN,
    Change,
    End,
    Found,
    Plan,
    Stored,
)


class Line:
    """The line that a row is in, or is to be put into: its slot's by all names of the subject, or its chain's.

    Args:
        plan: Changed.
        found: What was looked at.
        change: The row.
        index: Of permanent rows or of its run; what stands beside the lines has none.
    """

    def __init__(self, plan: Plan, found: Found, change: Change) -> None:
        self._plan, self.found, self.change = plan, found, change
        self.index = change.index
        plan.rely_on_found(found)
        run = change.rest.get("run_id")
        rows = found.rows(self.index, run) if self.index in LINES else []
        self.members = [one for one in self._in_index(rows, self.index) if self._is_joined(one)]
        self.dated = self._in_index(found.rows(DATED), DATED)
        gone = [row for row in rows if row.gone and has_begun(row.meta, plan.now)]
        self._gone = [row for row in gone if row.key != change.key]
        self._dead = {row.key for row in self._gone}
        expired = {row.key for part in found.parts for row in part.rows if row.gone}
        for one in [plan.change(row) for part in found.parts for row in part.rows if not row.gone]:
            if one is not change:
                one.stamp(plan.now)
                _stamp_under(one, plan.now)
                self._outlive(one, expired)

    def _outlive(self, one: Change, gone: set[str]) -> None:
        """Take from a row what it says of one that has expired, where that is written anew by this plan."""
        key, known = self.change.key, under_of(one.rest)
        if key in gone and key in (*(one.rest.get(name) for name in POINTERS), known and known.key):
            # The row that had this key leaves what refers to it when it is written.
            one.is_touched = True
        if key in gone and one.rest.get("superseded_by") == key:
            one.freeze(self._plan.now)
            one.rest.pop("superseded_by")
        if key in gone and known is not None and known.key == key:
            one.rest.pop("under")
        if one.rest.get("supersedes") in gone:
            one.rest.pop("supersedes")

    def _in_index(self, rows: Iterable[Stored], index: str) -> list[Change]:
        # What this plan has taken out is there no more.
        changes = [self._plan.change(row) for row in rows if not row.gone and row.key != self.change.key]
        return [one for one in changes if place_of(one.rest)[1] == index]

    def _is_joined(self, one: Change) -> bool:
        # What was over, or archived, when its name became another's stays under its own name.
        mine = self.change.rest
        if one.rest.get("subject") == mine.get("subject"):
            return True
        return one.holds(self._plan.now) or not one.begun(self._plan.now) or "canonical" in one.rest

    @property
    def begun(self) -> list[Change]:
        """The rows that have begun, in order."""
        return [one for one in self.members if one.begun(self._plan.now)]

    @property
    def holder(self) -> Change | None:
        """The row that holds."""
        return next((one for one in reversed(self.begun) if one.holds(self._plan.now)), None)

    @property
    def head(self) -> Change | None:
        """The row that holds, or else the last that has begun."""
        own = [one for one in self.begun if one.rest.get("subject") == self.change.rest.get("subject")]
        return self.holder or next(reversed(own), None)

    def neighbours(self) -> tuple[Change | None, Change | None]:
        """Return the rows before and behind the row, by its start and place number."""
        mine = order_of(self.change)
        before = next((one for one in reversed(self.members) if order_of(one) < mine), None)
        after = next((one for one in self.members if order_of(one) > mine), None)
        holder = self.holder
        if holder is None or before is None or not before.begun(self._plan.now):
            return before, after
        if order_of(before) > order_of(holder):
            # What has begun behind the row that holds is over, under another name.
            before = holder
        return before, after

    def start(self, named: float | None, floor: float = -FOREVER) -> None:
        """Give the row its start.

        Args:
            named: What the write names, in ms.
            floor: When it began before; a word that names no start does not begin earlier.
        """
        now, begun = self._plan.now, [floor] + [one.meta.valid_from for one in self.begun]
        begun += [row.meta.valid_from for row in self._gone]
        last = max(begun, default=-FOREVER) if self.index in LINES else -FOREVER
        if named is None or now <= named <= now + SOON_MS:
            dated = [one.meta.valid_from for one in self.dated if one.begun(now)] if self.index == PERMANENT else []
            start = max([now, last, *dated])
        else:
            start = max(named, last) if named > now else named
        ahead = named is not None and named > now + SOON_MS
        self.change.set(valid_from=start)
        self.change.flag(FLAG_AHEAD, ahead)

    def insert(self, reason: int, number: float = 0.0) -> Change | None:
        """Put the row into its place, and return the one before it.

        Args:
            reason: Why what it replaces is closed, as meta holds it.
            number: Its place number, where it has one.
        """
        change = self.change
        self._mark(change)
        if change.owner is None:
            return None
        if change.value:
            # What is said, be it again under its key, counts on from what it follows.
            earlier = [one.meta.version for one in self.members if order_of(one) < order_of(change)]
            change.set(version=max([change.meta.version, *(version + 1 for version in earlier)]))
        change.place(self.index, number)
        if self.index not in LINES:
            return None
        self._begin_before(change)
        before, after = self.neighbours()
        self._join(before, change, reason)
        self._join(change, after, reason)
        for row in self._gone:
            # It may live again, by a clock that steps back.
            if row.meta.valid_from <= change.meta.valid_from < row.meta.valid_until:
                self._plan.change(row).cut_by(change, reason, self._plan.now)
        if self.index == PERMANENT:
            expired = [self._plan.change(row) for row in self.found.rows(DATED) if row.gone and row.key != change.key]
            for one in self.dated + expired:
                overrule(self._plan, one, [change])
        return before

    def _begin_before(self, change: Change) -> None:
        """Have all that stands before a row that has begun begin for good."""
        if not change.begun(self._plan.now):
            return
        earlier = [one for one in self.members if order_of(one) < order_of(change)]
        for one in earlier:
            if one.meta.flags & FLAG_AHEAD:
                one.flag(FLAG_AHEAD, False)
                for other in earlier:
                    if other.rest.get("superseded_by") == one.key:
                        other.flag(FLAG_END_AHEAD, False)

    def merge(self, loser: Change, survivor: Change, at: float, reason: int) -> None:
        """End a row where another that does not follow it in its line lies over it."""
        loser.cut(at, not survivor.begun(self._plan.now), reason, self._plan.now)
        loser.rest["superseded_by"] = survivor.key
        self._plan.link(loser.key, MERGED, survivor.key)

    def _mark(self, change: Change) -> None:
        if self.found.stands_for or self.found.names:
            change.rest["canonical"] = self.found.canonical

    def _join(self, before: Change | None, after: Change | None, reason: int) -> None:
        # What was superseded under another name, before that came apart again, still is.
        known = {row.key for part in self.found.parts for row in part.rows} | {self.change.key}
        is_free = before is None or before.rest.get("superseded_by", self.change.key) in known
        if before is not None and before.rest.get("superseded_by") in self._dead:
            # It ended where what has expired since began.
            if after is not None and after.meta.valid_from < before.meta.valid_until:
                before.cut_by(after, reason, self._plan.now)
            before = None
        if after is not None:
            _point(after, "supersedes", before if is_free else None)
        if before is None:
            return
        if is_free:
            _point(before, "superseded_by", after)
        if after is None:
            before.uncut()
        else:
            before.cut_by(after, reason, self._plan.now)

    def end_itself(self, end: End) -> None:
        """Give the row an end of its own, within what follows it."""
        self.change.end_itself(end)
        if self.change.rest.get("place") and place_of(self.change.rest)[1] in LINES:
            after = self.neighbours()[1]
            if after is not None:
                self.change.cut_by(after, UPDATED, self._plan.now)

    def leave(self, *, gives_back: bool) -> None:
        """Take the row out of its line.

        Args:
            gives_back: Whether the row before it has its own end again; else it ends there for good.
        """
        change, now = self.change, self._plan.now
        index = place_of(change.rest)[1]
        if index in LINES:
            before = next((one for one in self.members if one.rest.get("superseded_by") == change.key), None)
            after = next((one for one in self.members if one.rest.get("supersedes") == change.key), None)
            if gives_back:
                by_order = self.neighbours()
                self._join(before or by_order[0], after or by_order[1], UPDATED)
            else:
                if before is not None:
                    _point(before, "superseded_by", after)
                    before.freeze(now)
                if after is not None:
                    _point(after, "supersedes", before)
        for one in self.dated:
            lift(self._plan, one, change.key, self.members)
        for row in (row for part in self.found.parts for row in part.rows if row.gone and row.key != change.key):
            for name in POINTERS:
                if row.rest.get(name) == change.key:
                    self._plan.change(row).rest.pop(name, None)
        if "superseded_by" in change.rest:
            self._plan.unlink(change.key, MERGED, change.rest["superseded_by"])
        for one in self.members + self.dated:
            if one.rest.get("took") == change.key:
                one.rest.pop("took")
        if (known := under_of(change.rest)) is not None:
            self._plan.unlink(change.key, UNDER, known.key)
        for name in ("place", "under", *POINTERS):
            change.rest.pop(name, None)

    def withdraw(self) -> None:
        """Take a row that was to come out of its line; what held before it has its own end again."""
        number = place_of(self.change.rest)[0]
        self.leave(gives_back=True)
        self.change.place(WITHDRAWN, number)


def overrule(plan: Plan, dated: Change, words: Iterable[Change]) -> None:
    """Note from when on a permanent word lies over a dated row: the first that begins after it and was said later."""
    if place_of(dated.rest)[1] != DATED:
        return
    said, known = place_of(dated.rest)[0], under_of(dated.rest)
    over = [
        one
        for one in words
        if place_of(one.rest)[1] == PERMANENT
        and (place_of(one.rest)[0] or math.inf) > said
        and dated.meta.valid_from <= one.meta.valid_from
    ]
    first = min(over, key=order_of, default=None)
    if first is None or (known is not None and known.start <= first.meta.valid_from):
        return
    if known is not None:
        plan.unlink(dated.key, UNDER, known.key)
    dated.rest["under"] = pack_under(Under(first.meta.valid_from, not first.begun(plan.now), first.key))
    plan.link(dated.key, UNDER, first.key)


def lift(plan: Plan, dated: Change, key: str, words: Iterable[Change]) -> None:
    """Take a word off a dated row; another one may lie over it still."""
    known = under_of(dated.rest)
    if known is not None and known.key == key:
        plan.unlink(dated.key, UNDER, key)
        dated.rest.pop("under")
        overrule(plan, dated, words)


def _stamp_under(dated: Change, now: float) -> None:
    known = under_of(dated.rest)
    if known is not None and known.ahead and known.start <= now:
        dated.rest["under"] = pack_under(known._replace(ahead=False))


def order_of(change: Change) -> tuple[float, float]:
    """Return what rows of a line are sorted by."""
    # A row that is placed by this write is behind all others that start with it.
    return change.meta.valid_from, place_of(change.rest)[0] or math.inf


def _point(change: Change, name: str, other: Change | None) -> None:
    if other is None:
        change.rest.pop(name, None)
    else:
        change.rest[name] = other.key


def new_chain(plan: Plan, row: Change) -> bytes:
    """Begin a chain with a row that has no slot, and return what it is called."""
    assert row.was is not None
    chain = os.urandom(8)
    row.rest["chain"] = chain
    # One that was to come, and was retired, is no part of the line.
    row.place(row.index if row.begun(plan.now) or not row.ended(plan.now) else WITHDRAWN, row.meta.content)
    return chain
