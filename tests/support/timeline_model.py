"""A bitemporal model of the memories of one namespace, from the rules alone.

It knows nothing of how a store keeps them: rows lie in the order in which their words were acknowledged, and what holds
is asked anew of all of them. A row that has expired stays until it is swept, but no read and no rule sees it.
`Unclear` marks the few steps that the rules do not decide; nothing has changed then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

from langgraph_forgetful_store.errors import IllegalTransitionError, MemoryNotFoundError, VersionConflictError

ACTIVE, ARCHIVED, SUPERSEDED = "active", "archived", "superseded"
NEVER = float("inf")
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
PERMANENT, DATED, GUESS = "permanent", "dated", "guess"
HYPOTHESIS = "hypothesis"

# Ms to live, and what expiry does, of the types that are used.
TYPES: dict[str, tuple[float, bool]] = {
    "generic": (NEVER, False),
    "fact": (NEVER, False),
    "emotion": (10 * MINUTE, False),
    "conversation": (HOUR, True),
    HYPOTHESIS: (7 * DAY, False),
}
Slot = tuple[str, str]


class Unclear(Exception):
    """The rules do not say what this step does."""


@dataclass(eq=False)
class Row:
    """What was said under a key."""

    key: str
    content: str
    layer: str
    run: str | None
    slot: Slot | None
    # Of rows without a slot: those that replaced one another have the same.
    chain: int
    start: float
    # The place of its word in the order of acknowledgement, and that of its content.
    word: int
    number: int
    recorded: float
    memory_type: str = "generic"
    version: int = 1
    confidence: float = 0.8
    importance: float = 0.5
    pinned: bool = False
    # It has begun whatever the clock says from now on; so with its end. A call that was not about it may have noted it.
    is_unsure: bool = False
    begun: bool = True
    end: float = NEVER
    over: bool = False
    ttl: float = NEVER
    expires: float = NEVER
    archives: bool = False
    archived: bool = False
    # A plan that was archived, or that another or nothing has taken the place of: it holds nowhere and cuts nobody.
    shelved: bool = False
    withdrawn: bool = False
    corrects: Row | None = None
    # Names were joined while it was over or archived: it stays under its own, cut by what came after it there.
    apart: bool = False
    cut_by: Row | None = None
    cut: float = NEVER
    reason: str | None = None
    # What the store knew, and from when on: ends of its validity, and whether it was archived, shelved or withdrawn.
    ends: list[tuple[float, float]] = field(default_factory=list)
    states: list[tuple[float, tuple[bool, bool, bool]]] = field(default_factory=list)
    # What it was before is not known any more.
    is_rewritten: bool = False
    # What came after it in its line has left it: what undoing the next one gives back is not said.
    was_joined: bool = False
    # It was taken back.
    is_undone: bool = False

    def end_at(self, end: float, known_from: float) -> None:
        self.end = end
        self.ends.append((known_from, end))

    def note(self, now: float) -> None:
        self.states.append((now, (self.archived, self.shelved, self.withdrawn)))


@dataclass
class Said:
    """What a write says beside its content."""

    slot: Slot | None = None
    start: float | None = None
    end: float | None = None
    run: str | None = None
    ttl: float | None = None
    memory_type: str | None = None
    confidence: float | None = None
    pinned: bool = False


@dataclass
class Model:
    """The memories of one namespace; `now` is the time by which the caller of the next step goes."""

    now: float = 0.0
    rows: dict[str, Row] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    links: set[tuple[str, str, str]] = field(default_factory=set)
    words: Any = field(default_factory=lambda: count(1))

    # What there is.

    def expired(self, row: Row) -> bool:
        """Whether expiry has removed it."""
        return not row.archives and row.expires <= self.now

    def alive(self, key: str) -> Row:
        row = self.rows.get(key)
        if row is None or self.expired(row):
            raise MemoryNotFoundError(key)
        return row

    def living(self) -> list[Row]:
        return [row for row in self.rows.values() if not self.expired(row)]

    def canonical(self, subject: str) -> str:
        return self.names.get(subject, subject)

    def topic(self, row: Row) -> Any:
        """What a row is about: its slot, under the canonical name, or its chain."""
        return row.chain if row.slot is None else (self.canonical(row.slot[0]), row.slot[1])

    def about(self, topic: Any) -> list[Row]:
        return [row for row in self.rows.values() if self.topic(row) == topic]

    def lined(self, rows: Iterable[Row]) -> list[Row]:
        """Rows of one topic that come after one another, in their order: without what lies beside the line."""
        found = [row for row in rows if not (row.layer != PERMANENT or row.withdrawn or row.shelved or row.apart)]
        return sorted(found, key=lambda row: (row.start, row.word))

    def line(self, topic: Any, run: str | None) -> list[Row]:
        return self.lined(row for row in self.about(topic) if row.run == run)

    def line_of(self, row: Row) -> list[Row]:
        return self.line(self.topic(row), row.run) if row.layer == PERMANENT else []

    # What holds.

    def has_begun(self, row: Row) -> bool:
        return row.begun or row.start <= self.now

    def has_ended(self, row: Row) -> bool:
        return row.over or row.end <= self.now

    def last_begun(self, line: list[Row]) -> int:
        return max((place for place, row in enumerate(line) if self.has_begun(row)), default=-1)

    def begun_of(self, line: list[Row]) -> list[Row]:
        """What stands before a begun member has begun."""
        return line[: self.last_begun(line) + 1]

    def is_archived(self, row: Row) -> bool:
        return row.archived or (row.archives and row.expires <= self.now)

    def stands(self, row: Row) -> bool:
        return not (self.has_ended(row) or self.is_archived(row) or self.expired(row))

    def holder(self, line: list[Row]) -> Row | None:
        begun = self.begun_of(line)
        return begun[-1] if begun and self.stands(begun[-1]) else None

    def is_closed(self, row: Row) -> bool:
        """Whether it is over: ended, or replaced."""
        if row.withdrawn or self.has_ended(row):
            return True
        if row.apart:
            return row.cut_by is not None
        line = self.line_of(row)
        return row in line and line.index(row) < self.last_begun(line)

    def has_run_out(self, row: Row) -> bool:
        """Whether its end, named when it was written, has passed: nothing has closed it."""
        is_closed = row.layer == PERMANENT or row.withdrawn or row.reason is not None
        return row.end < NEVER and self.has_ended(row) and not is_closed

    def is_planned(self, row: Row) -> bool:
        return not self.has_begun(row) and not self.is_closed(row)

    def status(self, row: Row) -> str:
        """What `get` and `history` call it."""
        if self.is_closed(row) and not self.has_run_out(row):
            return SUPERSEDED
        return ARCHIVED if self.is_archived(row) else ACTIVE

    def interval(self, row: Row) -> tuple[float, float]:
        """From when until when it holds, by all that is known."""
        cut = row.cut
        line = self.line_of(row)
        if row in line and row is not line[-1]:
            cut = line[line.index(row) + 1].start
        return row.start, min(row.end, cut)

    def current(self, run: str | None = None, guesses: bool = False) -> list[Row]:
        """What a plain recall shows, or that of a run; latest write first."""
        found = []
        for topic in {self.topic(row) for row in self.rows.values()}:
            rows = self.about(topic)
            found += self._on_top(rows, run)
            if guesses:
                found += [
                    row
                    for row in rows
                    if row.layer == GUESS
                    and row.run in (None, run)
                    and not row.withdrawn
                    and self.has_begun(row)
                    and self.stands(row)
                ]
        return sorted(found, key=lambda row: -row.number)

    def _on_top(self, rows: list[Row], run: str | None) -> list[Row]:
        if run is not None and (held := self.holder(self.lined(row for row in rows if row.run == run))) is not None:
            return [held]
        line = self.lined(row for row in rows if row.run is None)
        held = self.holder(line)
        dated = [
            row
            for row in rows
            if row.layer == DATED and not row.withdrawn and not row.apart and self.has_begun(row) and self.stands(row)
        ]
        if dated:
            top = max(dated, key=lambda row: row.word)
            if not self._is_overruled(top, self.begun_of(line)):
                return [top]
        return [] if held is None else [held]

    def _is_overruled(self, dated: Row, begun: list[Row]) -> bool:
        """Whether a permanent word that was said later begins within a dated row."""
        return any(row.word > dated.word and row.start >= dated.start and not self.expired(row) for row in begun)

    def as_of(self, moment: float, run: str | None = None) -> list[Row]:
        """What held at a moment, by all that is known; at or after the call, what has begun by now has."""
        late = moment >= self.now
        found = []
        for topic in {self.topic(row) for row in self.rows.values()}:
            rows = self.about(topic)
            held = self._held(self.lined(row for row in rows if row.run == run), moment, late) if run else []
            found += held or self._held_for_all(rows, moment, late)
            # What names being joined left under its own.
            found += [
                row
                for row in rows
                if row.apart
                and row.run in (None, run)
                and row.start <= moment < min(row.cut, row.end)
                and not (late and self.is_closed(row))
                and self._counts(row)
            ]
        return sorted((row for row in found if not self.is_dim(row)), key=lambda row: -row.number)

    def is_dim(self, row: Row) -> bool:
        """Whether the rules leave open when it held: it was taken back, or lay over others that lost their name."""
        return row.is_undone or any(one.apart and one.layer == DATED for one in self.about(self.topic(row)))

    def _counts(self, row: Row) -> bool:
        return not (self.is_archived(row) or self.expired(row))

    def _began_by(self, row: Row, moment: float, late: bool) -> bool:
        return row.start <= moment or (late and self.has_begun(row))

    def _ended_by(self, row: Row, moment: float, late: bool) -> bool:
        return row.end <= moment or (late and self.has_ended(row))

    def _begun_by(self, line: list[Row], moment: float, late: bool) -> list[Row]:
        last = max((at for at, row in enumerate(line) if self._began_by(row, moment, late)), default=-1)
        return line[: last + 1]

    def _held(self, line: list[Row], moment: float, late: bool) -> list[Row]:
        begun = self._begun_by(line, moment, late)
        if not begun or self._ended_by(begun[-1], moment, late) or not self._counts(begun[-1]):
            return []
        return begun[-1:]

    def _held_for_all(self, rows: list[Row], moment: float, late: bool) -> list[Row]:
        line = self.lined(row for row in rows if row.run is None)
        dated = [
            row
            for row in rows
            if row.layer == DATED
            and not row.withdrawn
            and not row.apart
            and self._began_by(row, moment, late)
            and not self._ended_by(row, moment, late)
            and self._counts(row)
        ]
        if dated:
            top = max(dated, key=lambda row: row.word)
            begun = self._begun_by(line, moment, late)
            if not self._is_overruled(top, begun):
                return [top]
        return self._held(line, moment, late)

    def known(self, known_at: float, moment: float, run: str | None = None) -> list[Row] | None:
        """What held at a moment by what was known at another; ``None`` where that is not known any more.

        Of rows that are still there, as long as no clock stepped back.
        """
        if self.names or any(row.is_rewritten or row.archives for row in self.rows.values()):
            return None
        found = []
        for topic in {self.topic(row) for row in self.rows.values()}:
            rows = [row for row in self.about(topic) if row.recorded <= known_at]
            held: list[Row] = []
            for layer in ([run] if run else []) + [None]:
                line = [
                    row
                    for row in rows
                    if row.layer == PERMANENT and row.run == layer and not any(self._state(row, known_at)[1:])
                ]
                line.sort(key=lambda row: (row.start, row.word))
                dated = [row for row in rows if row.layer == DATED and not self._state(row, known_at)[2]]
                held = held or self._known_on_top(line, dated if layer is None else [], known_at, moment)
            found += held
        return sorted(found, key=lambda row: -row.number)

    def _state(self, row: Row, known_at: float) -> tuple[bool, bool, bool]:
        return next((state for at, state in reversed(row.states) if at <= known_at), (False, False, False))

    def _known_on_top(self, line: list[Row], dated: list[Row], known_at: float, moment: float) -> list[Row]:
        def stands(row: Row) -> bool:
            end = min((end for at, end in row.ends if at <= known_at), default=NEVER)
            return row.start <= moment < end and not self._state(row, known_at)[0] and not self.expired(row)

        begun = [row for row in line if row.start <= moment]
        on_top = max(filter(stands, dated), key=lambda row: row.word, default=None)
        if on_top is not None and not self._is_overruled(on_top, begun):
            return [on_top]
        return [row for row in begun[-1:] if stands(row)]

    def family(self, key: str) -> list[Row]:
        """All that `history` shows with a key, and `forget` erases: every layer of its slot, or its chain."""
        row = self.rows.get(key)
        if row is None:
            return []
        return sorted(self.about(self.topic(row)), key=lambda row: (row.start, row.word))

    # What every step begins and ends with.

    def settle(self, line: list[Row]) -> None:
        """Note for good what has begun in a line, and what has ended."""
        for row in self.begun_of(line):
            row.begun = True
            row.over = row.over or row.end <= self.now

    def touched(self) -> None:
        """A call may have noted of more rows than those it is about that they have begun, or ended."""
        for row in self.rows.values():
            if self.unnoted(row):
                row.is_unsure = True

    def unnoted(self, row: Row) -> list[str]:
        """Name what time alone has made of a row, and no step for sure."""
        found = [] if row.begun or row.start > self.now else ["begun"]
        return found + ([] if row.over or row.end > self.now else ["over"])

    def settle_row(self, row: Row) -> None:
        """Note it of a row that a call is about, and of what stands before it."""
        if self.has_begun(row):
            line = self.line_of(row)
            for one in line[: line.index(row)] if row in line else []:
                one.begun = True
            row.begun = True
        row.over = row.over or row.end <= self.now

    def leave(self, row: Row) -> None:
        """Take a row out of its line; what came before it ends where it began, if it had begun."""
        line = self.line_of(row)
        if row in line and self.has_begun(row):
            at = line.index(row)
            before = {id(one): one for one in line[at - 1 : at]}
            before |= {id(one): one for one in self.rows.values() if one.cut_by is row}
            for one in before.values():
                if row.start <= one.end:
                    one.end_at(row.start, row.recorded)
                    one.over = one.was_joined = True
        elif row.apart:
            for one in self.rows.values():
                if one.cut_by is row and row.start <= one.end:
                    one.end_at(row.start, row.recorded)
                    one.over = one.was_joined = True

    def remove(self, row: Row) -> None:
        self.leave(row)
        self.drop(row)

    def drop(self, row: Row) -> None:
        del self.rows[row.key]
        self.links = {link for link in self.links if row.key not in (link[0], link[2])}

    def make_room(self, key: str) -> None:
        """What has expired under a key goes when it is written to."""
        if key in self.rows:
            assert self.expired(self.rows[key])
            self.remove(self.rows[key])

    def place(self, row: Row, named: float | None, as_plan: bool = False) -> None:
        """Give a row its start; a plan is said to be one where it takes the place of another."""
        rows = self.about(self.topic(row))
        begun = [one.start for one in self.begun_of(self.lined(one for one in rows if one.run == row.run))]
        # What is archived under its own name is replaced there.
        begun += [one.start for one in rows if one.apart and one.slot == row.slot and not self.is_closed(one)]
        if row.layer != PERMANENT:
            begun = []
        if named is None or (not as_plan and self.now <= named <= self.now + SECOND):
            if row.layer == PERMANENT and row.run is None:
                begun += [one.start for one in rows if one.layer == DATED and self.has_begun(one) and not one.withdrawn]
            row.start, row.begun = max([self.now, *begun]), True
        elif named > self.now:
            begun += [one.start for one in rows if one.layer == DATED and self.has_begun(one)]
            if begun and named <= max(begun):
                # It would begin with what has begun, and the next word before or behind it.
                raise Unclear
            row.start, row.begun = max([named, *begun]), False
        else:
            row.start, row.begun = named, True

    def deadline(self, row: Row) -> float:
        return NEVER if row.pinned else (self.now if self.has_begun(row) else row.start) + row.ttl

    # Writes.

    def remember(self, key: str, content: str, said: Said) -> Row:
        """Write a row, in place where it is."""
        row = self.rows.get(key)
        if row is None or self.expired(row):
            return self._say(key, content, said)
        if said.start is not None or said.end is not None or said.run is not None:
            raise Unclear
        if said.memory_type == HYPOTHESIS or row.layer == GUESS:
            raise Unclear
        return self.put(key, content, said)

    def _topic_of(self, slot: Slot) -> Any:
        return (self.canonical(slot[0]), slot[1])

    def _say(self, key: str, content: str, said: Said, before: Row | None = None, as_plan: bool = False) -> Row:
        word = next(self.words)
        run = said.run
        layer = PERMANENT if said.end is None else DATED
        if said.memory_type == HYPOTHESIS:
            layer = GUESS
        if run is not None and layer == DATED:
            raise Unclear
        slot = said.slot
        row = Row(key, content, layer, run, slot, word, 0, word, word, self.now)
        if before is not None:
            row.chain = before.chain
        row.memory_type = said.memory_type or "generic"
        row.confidence = 0.8 if said.confidence is None else said.confidence
        row.pinned = said.pinned
        topic = self.topic(row)
        if before is None and said.end is not None and said.start is not None and said.end <= said.start:
            raise ValueError("valid_until")
        if said.start is not None and said.start < self.now and any(one.apart for one in self.about(topic)):
            raise Unclear
        self.place(row, said.start, as_plan)
        if said.end is not None:
            if said.end <= row.start:
                raise ValueError("valid_until")
            row.end_at(said.end, row.recorded)
            row.over = said.end <= self.now
        if layer == PERMANENT:
            self.settle(self.line(topic, run))
        self.make_room(key)
        row.ttl, row.archives = TYPES[row.memory_type]
        if said.ttl is not None:
            row.ttl = said.ttl
        row.expires = self.deadline(row)
        self.rows[key] = row
        for one in self.about(topic):
            # What is archived keeps its slot under its own name: a word under that name replaces it.
            if one.apart and (one.slot, one.run, one.layer) == (slot, run, layer) and not self.is_closed(one):
                one.cut_by, one.cut = row, row.start
        row.version = self._version_after(row)
        return row

    def _version_after(self, row: Row) -> int:
        line = self.line_of(row)
        before = self.begun_of(line)
        if row in before:
            before = line[: line.index(row)]
        return next((one.version + 1 for one in reversed(before) if not self.expired(one)), 1)

    def put(self, key: str, content: str, said: Said | None = None) -> Row:
        """Write a row, where nothing but a TTL and a type may be said of it."""
        said = said or Said()
        row = self.rows.get(key)
        if row is None or self.expired(row):
            return self._say(key, content, said)
        if row.layer == GUESS:
            raise Unclear
        closed = self.is_closed(row)
        if (closed and row.layer == DATED) or (row.apart and not closed):
            # It has run out, or was archived under a name that was joined with another.
            raise Unclear
        moves = said.slot is not None and (row.slot is None or self.topic(row) != self._topic_of(said.slot))
        if (closed or moves) and row.start > self.now:
            # Whether its own start counts.
            raise Unclear
        if moves and (row.layer == DATED or not self.has_begun(row) or row.apart):
            raise Unclear
        self.settle_row(row)
        row.number = next(self.words)
        row.content = content
        row.version += 1
        if said.slot is not None and not moves:
            row.slot = said.slot
        if closed or moves:
            held = self.holder(self.line_of(row))
            if row.apart:
                held = self.holder(self.line(self.topic(row), row.run))
            self.leave(row)
            row.withdrawn = row.shelved = row.apart = row.archived = False
            row.corrects, row.cut_by, row.cut = None, None, NEVER
            if closed:
                row.end, row.over, row.reason = NEVER, False, None
            row.is_rewritten = True
            # Its own start does not count any more.
            began = row.start
            row.start = -NEVER
            if said.slot is not None:
                row.slot = said.slot
                self.settle(self.line_of(row))
                self.place(row, None)
                row.word = row.number
                row.version = max(row.version, self._version_after(row))
            elif row.slot is None or held is not None:
                row.slot, row.chain = None, row.number
                row.start, row.begun = self.now, True
            else:
                self.place(row, None)
                row.word = row.number
                row.version = max(row.version, self._version_after(row))
            row.word = row.number
            for one in self.rows.values():
                if one.end == began:
                    one.was_joined = True
        row.archived = row.shelved = False
        row.note(self.now)
        if said.memory_type is not None:
            row.memory_type = said.memory_type
        row.archives = TYPES[row.memory_type][1]
        row.ttl = TYPES[row.memory_type][0] if said.memory_type is not None else NEVER
        if said.ttl is not None:
            row.ttl = said.ttl
        row.expires = self.deadline(row)
        return row

    def supersede(
        self, key: str, content: str, new_key: str, said: Said, expected: int | None = None, reason: str = "updated"
    ) -> Row:
        """Replace what holds in a key's layer, or correct a plan."""
        row = self.alive(key)
        if new_key in self.rows and not self.expired(self.rows[new_key]):
            raise ValueError("new_key")
        if row.layer == GUESS or said.slot is not None or said.run is not None:
            raise Unclear
        if said.end is not None and row.layer != DATED:
            raise Unclear
        begun = self.begun_of(self.line(self.topic(row), row.run))
        old = begun[-1] if begun and not self.is_planned(row) and row.layer == PERMANENT else row
        kind = said.memory_type or (old.memory_type if old.memory_type != "generic" else None)
        told = Said(old.slot, said.start, said.end, row.run, said.ttl, kind, pinned=old.pinned)
        if self.is_planned(row) and row.archived:
            raise Unclear
        if self.is_planned(row) and not row.apart:
            told.start = row.start if said.start is None else said.start
            if row.layer == DATED:
                told.end = row.end if said.end is None else said.end
            if expected is not None and row.version != expected:
                raise VersionConflictError
            made = self._say(new_key, content, told, row, as_plan=said.start is None)
            row.withdrawn, row.reason = True, reason
            row.note(self.now)
            made.corrects = row
            made.version = row.version + 1
            return made
        if row.layer == DATED:
            beside = [one for one in self.about(self.topic(row)) if one.layer == DATED and one is not row]
            if self.is_closed(row) or self.is_archived(row) or any(self.stands(one) for one in beside):
                raise Unclear
            if said.start is not None and said.start > self.now + SECOND:
                raise Unclear
            told.end = row.end if said.end is None else said.end
            if expected is not None and row.version != expected:
                raise VersionConflictError
            made = self._say(new_key, content, told, row)
            made.version = row.version + 1
            row.end_at(min(row.end, made.start), self.now)
            row.over, row.reason = made.begun, reason
            return made
        if expected is not None:
            if not begun or (said.start is not None and said.start < begun[-1].start):
                raise Unclear
            if begun[-1].version != expected:
                raise VersionConflictError
        return self._say(new_key, content, told, row)

    def delete(self, key: str) -> None:
        if key in self.rows:
            row = self.rows[key]
            self.settle_row(row)
            self.remove(row)

    # Transitions.

    def _stirred(self, key: str) -> Row:
        row = self.alive(key)
        if self.has_run_out(row):
            raise Unclear
        return row

    def retire(self, key: str, until: float | None = None) -> Row:
        row = self._stirred(key)
        if self.is_closed(row):
            if until is not None and until < row.start:
                raise Unclear
            return row
        if until is not None and until < row.start:
            raise ValueError("valid_until")
        if until is not None and until > row.end:
            raise Unclear
        self.settle_row(row)
        row.reason = "negated"
        if until is None and not self.has_begun(row):
            row.withdrawn = True
            row.note(self.now)
            return row
        end = max(self.now, row.start) if until is None else until
        if end < row.end:
            row.end_at(end, self.now)
            row.over = until is None or until <= self.now
        return row

    def archive(self, key: str) -> Row:
        row = self._stirred(key)
        if self.is_closed(row):
            raise IllegalTransitionError
        if not self.is_archived(row):
            self.settle_row(row)
            row.shelved = self.is_planned(row) and row.layer != DATED
            row.archived = True
            row.note(self.now)
        return row

    def restore(self, key: str) -> Row:
        row = self._stirred(key)
        if self.is_closed(row):
            raise IllegalTransitionError
        if self.is_archived(row):
            self._restore(row)
        return row

    def _restore(self, row: Row) -> None:
        self.settle_row(row)
        row.archived = row.shelved = row.apart = False
        row.cut_by, row.cut = None, NEVER
        row.expires = self.deadline(row)
        row.note(self.now)

    def confirm(self, key: str) -> Row:
        row = self._stirred(key)
        if self.is_closed(row):
            raise IllegalTransitionError
        if row.layer == GUESS:
            raise Unclear
        self.settle_row(row)
        row.confidence, row.importance = min(1.0, row.confidence + 0.1), min(1.0, row.importance + 0.05)
        if self.is_archived(row):
            self._restore(row)
        return row

    def pin(self, key: str) -> Row:
        row = self._active_or_archived(key)
        row.archived, row.pinned, row.expires = self.is_archived(row), True, NEVER
        return row

    def unpin(self, key: str) -> Row:
        row = self._stirred(key)
        if row.pinned:
            row.pinned = False
            row.expires = self.deadline(row)
        return row

    def set_ttl(self, key: str, ttl: float) -> Row:
        row = self._stirred(key)
        if not self.has_begun(row):
            raise Unclear
        row.archived, row.ttl = self.is_archived(row), ttl
        row.expires = self.deadline(row)
        return row

    def demote(self, key: str) -> Row:
        row = self._stirred(key)
        row.importance = max(0.0, row.importance - 0.2)
        return row

    def deny(self, key: str) -> Row:
        row = self._active_or_archived(key)
        row.confidence = max(0.0, row.confidence - 0.2)
        return row

    def anchor(self, key: str) -> Row:
        row = self._active_or_archived(key)
        row.importance = max(0.5, row.importance)
        if self.is_archived(row):
            self._restore(row)
        return row

    def _active_or_archived(self, key: str) -> Row:
        row = self._stirred(key)
        if self.is_closed(row):
            raise IllegalTransitionError
        if row.layer == GUESS:
            raise Unclear
        return row

    def link(self, key: str, relation: str, other: str) -> Row:
        """Link two rows; what a new link says of their importance is so once."""
        if key == other:
            raise ValueError("other")
        row, target = self.alive(key), self.alive(other)
        if (key, relation, other) in self.links:
            return row
        if self.is_closed(target) or target.apart:
            raise Unclear
        self.links.add((key, relation, other))
        if relation == "updates":
            row.importance, target.importance = min(1.0, row.importance + 0.3), max(0.0, target.importance - 0.4)
        elif relation == "completes":
            for one in {target, *self._standing(self.line_of(target))}:
                if one is not row:
                    one.importance *= 0.6
        return row

    def _standing(self, line: list[Row]) -> list[Row]:
        """What of a line holds, or is planned."""
        held = self.holder(line)
        return [row for row in line if row is held or self.is_planned(row)]

    def unlink(self, key: str, relation: str, other: str) -> None:
        self.links.discard((key, relation, other))

    def neighbors(self, key: str) -> list[tuple[str, str]]:
        found = [(relation, to) for one, relation, to in self.links if one == key]
        found += [(relation, one) for one, relation, to in self.links if to == key]
        return sorted((relation, other) for relation, other in found if not self.expired(self.rows[other]))

    def undo_supersede(self, key: str) -> Row:
        """Give back what the head, or the plan that corrected another, has taken."""
        row = self.alive(key)
        if row.layer == DATED or row.layer == GUESS or row.apart:
            raise Unclear
        line = self.line_of(row)
        if row not in line:
            # It is out of the line: a plan that was taken back, or shelved.
            raise Unclear
        at = line.index(row)
        taken = row.corrects if row.corrects is not None and self.rows.get(row.corrects.key) is row.corrects else None
        if taken is not None and (self.expired(taken) or not taken.withdrawn):
            raise Unclear
        if taken is None and row.corrects is not None:
            raise Unclear
        if taken is None:
            if not self.has_begun(row) and at:
                raise Unclear
            if at != self.last_begun(line):
                raise IllegalTransitionError
            if self.has_ended(row):
                raise Unclear
            before = [one for one in line[:at] if not self.expired(one)]
            if not before:
                apart = [one for one in self.rows.values() if one.cut_by is row]
                if apart:
                    raise Unclear
                raise IllegalTransitionError
            if before[-1] is not line[at - 1]:
                raise Unclear
            took_from_others = any(one.cut_by is row for one in self.rows.values())
            if before[-1].slot != row.slot or before[-1].was_joined or took_from_others:
                raise Unclear
            back = before[-1]
        else:
            if self.is_closed(row):
                raise Unclear
            back = taken
        self.settle(line)
        for one in self.about(self.topic(row)):
            one.is_rewritten = True
        back.withdrawn = False
        back.reason = None
        row.corrects, row.is_undone = None, True
        if row.slot is not None:
            row.archived = True
        row.slot, row.chain = None, next(self.words)
        return back

    # Names.

    def alias(self, canonical: str, name: str) -> None:
        """Join two names."""
        goal = self.names.get(canonical, canonical)
        if name in (goal, canonical):
            raise ValueError("canonical")
        if self.names.get(name) == goal:
            return
        if name in self.names:
            raise ValueError("names")
        if name in self.names.values() or goal in self.names.values():
            raise Unclear
        topics = {self.topic(row) for row in self.rows.values() if row.slot is not None}
        attributes = {topic[1] for topic in topics if topic[0] in (name, goal)}
        dated = [
            row
            for row in self.rows.values()
            if row.layer == DATED and row.slot is not None and row.slot[0] in (name, goal)
        ]
        if any(self.has_ended(row) and not row.over for row in dated):
            # It may show again when the clock steps back.
            raise Unclear
        about = [row for row in self.rows.values() if row.slot is not None and row.slot[0] in (name, goal)]
        if any(self.is_archived(row) and not row.archived for row in about):
            # Archived by its expiry, it may be active again when the clock steps back.
            raise Unclear
        for attribute in attributes:
            for run in {row.run for row in self.rows.values()}:
                self._check_order(self.line((name, attribute), run), self.line((goal, attribute), run))
        for attribute in attributes:
            ours, theirs = (name, attribute), (goal, attribute)
            for run in {row.run for row in self.rows.values()}:
                lines = self.line(ours, run), self.line(theirs, run)
                if all(lines):
                    self.settle(lines[0])
                    self.settle(lines[1])
                self._join(*lines)
        for row in dated:
            row.apart = row.apart or (self.has_begun(row) and not self.stands(row))
        self.names[name] = goal

    def _check_order(self, *lines: list[Row]) -> None:
        begun = [self.begun_of(line) for line in lines]
        last = max((row.start for rows in begun for row in rows), default=-NEVER)
        if any(row.start <= last for line, rows in zip(lines, begun, strict=True) for row in line[len(rows) :]):
            # A plan of the one would begin before what has begun of the other.
            raise Unclear
        for line, rows in zip(lines, begun, strict=True):
            if rows and not self.stands(rows[-1]) and len(rows) < len(line):
                # What is over or archived stays, what is planned behind it does not.
                raise Unclear

    def _join(self, *lines: list[Row]) -> None:
        for rows in map(self.begun_of, lines):
            if all(lines) or (rows and not self.stands(rows[-1])):
                for row, after in pairwise(rows):
                    row.apart, row.cut_by, row.cut = True, after, after.start
            if rows and not self.stands(rows[-1]):
                rows[-1].apart = True

    def unalias(self, name: str) -> None:
        """Put every row back under the name it was written with."""
        goal = self.names.get(name)
        if goal is None:
            return
        del self.names[name]
        for row in self.rows.values():
            if row.slot is not None and row.slot[0] in (name, goal):
                row.apart, row.cut_by, row.cut = False, None, NEVER

    # Ends.

    def end_run(self, run: str) -> int:
        ended = [row for row in self.living() if row.run == run]
        for row in ended:
            self.settle_row(row)
        for row in [row for row in self.rows.values() if row.run == run]:
            self.drop(row)
        return len(ended)

    def sweep(self) -> None:
        """Remove what has expired: nobody can tell."""
        gone = [row for row in self.rows.values() if self.expired(row)]
        for row in gone:
            self.settle_row(row)
        for row in gone:
            self.remove(row)

    def forget(self, key: str) -> set[str]:
        family = self.family(key)
        for row in family:
            self.drop(row)
        # Names of a subject of which nothing is known go with it.
        spoken = {self.canonical(row.slot[0]) for row in self.rows.values() if row.slot is not None}
        silent = {self.canonical(row.slot[0]) for row in family if row.slot is not None} - spoken
        self.names = {name: goal for name, goal in self.names.items() if goal not in silent}
        return {row.key for row in family}

    def forget_all(self) -> set[str]:
        erased = set(self.rows)
        self.rows, self.names, self.links = {}, {}, set()
        return erased
