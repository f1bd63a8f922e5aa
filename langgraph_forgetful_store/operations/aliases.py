"""Names of one subject: slots of all of them are one slot, and a wrong merge can be undone.

Lines stay under the names that rows were written with. What holds, or is to come, by the names of one subject is one
order; what is over, or archived, stays under its own name.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import decode_text, encode_json, encode_namespace, encode_text
from langgraph_forgetful_store.model.checks import check_label, check_namespace
from langgraph_forgetful_store.model.places import place_of, under_of
from langgraph_forgetful_store.operations.lines import lift, order_of, overrule
from langgraph_forgetful_store.operations.plan import (
    DATED,
    LINES,
    MERGED,
    MERGED_REASON,
    UPDATED,
    Change,
    Part,
    Plan,
    Stored,
    alias_field,
    name_entry,
    undo_field,
)
from langgraph_forgetful_store.operations.session import Session, open_store
from langgraph_forgetful_store.operations.transact import Name, Seen, ask_name, look, told, transact

# What is one order where names are one: an attribute, and a run or none.
_Track = tuple[str, str | None]


class _Tracks:
    """What holds, or is to come, by some names of a subject.

    Args:
        plan: Relies on all that was told.
        parts: Of the lines of these names.
    """

    def __init__(self, plan: Plan, parts: Iterable[Part]) -> None:
        self._now = plan.now
        self.lines: dict[_Track, list[Change]] = {}
        self.dated: dict[str, list[Change]] = {}
        self.over: dict[_Track, list[Change]] = {}
        for part in parts:
            plan.rely_on_part(part.first, part.last, part.entries)
            for row in part.rows:
                if row.gone:
                    continue
                change = plan.change(row)
                attribute = row.rest.get("attribute", "")
                if part.letter == DATED:
                    self.dated.setdefault(attribute, []).append(change)
                elif part.letter in LINES:
                    track = (attribute, row.rest.get("run_id"))
                    side = self.lines if not change.begun(plan.now) or change.holds(plan.now) else self.over
                    side.setdefault(track, []).append(change)
        for line in self.lines.values():
            line.sort(key=order_of)

    def mark(self, subject: str, other: _Tracks) -> None:
        """Note in rows what their subject stands for: what is over only where the other names say nothing of it."""
        alone = [rows for track, rows in self.over.items() if track not in other.tracks]
        for rows in (*self.lines.values(), *self.dated.values(), *alone):
            for change in rows:
                change.rest["canonical"] = subject

    @property
    def attributes(self) -> set[str]:
        """Of what anything was said."""
        return {attribute for attribute, _ in self.tracks} | self.dated.keys()

    def stamp(self, attributes: set[str]) -> None:
        """Note for good what has begun, and what has ended, by now."""
        for rows in (*self.lines.values(), *self.over.values(), *self.dated.values()):
            for change in rows:
                if change.rest.get("attribute", "") in attributes:
                    change.stamp(self._now)

    @property
    def tracks(self) -> set[_Track]:
        """What anything was said of."""
        return {*self.lines, *self.over}

    def holder(self, track: _Track) -> Change | None:
        """Return what holds."""
        return next((one for one in reversed(self.lines.get(track, ())) if one.begun(self._now)), None)

    def to_come(self, track: _Track) -> list[Change]:
        """Return what is to come, in order."""
        return [one for one in self.lines.get(track, ()) if not one.begun(self._now)]


def _in_order(rows: Sequence[Change], now: float) -> None:
    """Have each row end where the next one starts."""
    for before, after in itertools.pairwise(rows):
        before.rest["superseded_by"], after.rest["supersedes"] = after.key, before.key
        before.cut_by(after, UPDATED, now)
    if rows:
        rows[-1].rest.pop("superseded_by", None)
        rows[-1].uncut()


def alias(session: Session, namespace: object, canonical: object, *names: object) -> Flow[None]:
    """Have names stand for one subject; see `ForgetfulStore.alias`."""
    labels, target = check_namespace(namespace), check_label(canonical, "canonical")
    checked = [check_label(name, "names") for name in names]
    if not checked:
        raise ValueError("names must hold a name at the least, got none")
    if target in checked:
        raise ValueError(f"names must not hold canonical itself, got {target!r}")
    yield from open_store(session)
    for name in dict.fromkeys(checked):
        yield from _alias_one(session, labels, target, name)


def _alias_one(session: Session, labels: tuple[str, ...], canonical: str, name: str) -> Flow[None]:
    encoded = encode_namespace(labels)

    def make(seen: Seen) -> Flow[Plan]:
        to: Name = seen.found[0]
        its: Name = seen.found[1]
        plan = Plan(seen.now)
        goal = to.stands_for or canonical
        plan.rely_on_field(alias_field(canonical), encode_text(to.stands_for))
        plan.rely_on_field(alias_field(name), encode_text(its.stands_for))
        if goal == name:
            raise ValueError(f"canonical {canonical!r} stands for {name!r} already: unalias it first")
        if its.stands_for == goal:
            return plan
        if its.stands_for:
            raise ValueError(f"names: {name!r} stands for {its.stands_for!r} already: unalias it first")
        ours = yield from _by_names(session, encoded, plan, name, its.names)
        theirs = yield from _by_names(session, encoded, plan, goal, None)
        for other in (name, *its.names):
            plan.fields[alias_field(other)] = encode_text(goal)
            plan.more[name_entry(goal, other)] = None
        for other in its.names:
            plan.less[name_entry(name, other)] = None
        both = ours.attributes & theirs.attributes
        ours.stamp(both)
        theirs.stamp(both)
        closed: list[str] = []
        for track in ours.lines.keys() | theirs.lines.keys():
            _merge(plan, track, ours, theirs, closed)
        ours.mark(goal, theirs)
        theirs.mark(goal, ours)
        plan.fields[undo_field(name)] = encode_json({"names": list(its.names)})
        plan.record("alias", "", canonical=goal, name=name, merged=closed)
        return plan

    yield from transact(session, labels, [ask_name(canonical), ask_name(name)], make)


def _by_names(session: Session, encoded: bytes, plan: Plan, subject: str, names: Sequence[str] | None) -> Flow[_Tracks]:
    """Look at what goes by a subject and its names, as they are or, with ``None``, as they are told."""
    first: Name = (yield from look(session, encoded, [ask_name(subject)])).found[0]
    known = first.names if names is None else names
    plan.rely_on_names(subject, first.names)
    parts = list(first.parts)
    if known:
        for one in (yield from look(session, encoded, [ask_name(name) for name in known])).found:
            parts += one.parts
    return _Tracks(plan, parts)


def _merge(plan: Plan, track: _Track, ours: _Tracks, theirs: _Tracks, closed: list[str]) -> None:
    now = plan.now
    mine, its = ours.holder(track), theirs.holder(track)
    survivor = mine or its
    if mine is not None and its is not None:
        loser, survivor = sorted((mine, its), key=order_of)
        _close(plan, loser, survivor, closed)
    to_come = sorted([*ours.to_come(track), *theirs.to_come(track)], key=order_of)
    _in_order([*([survivor] if survivor is not None else []), *to_come], now)
    if track[1] is None:
        for one in (*ours.dated.get(track[0], ()), *theirs.dated.get(track[0], ())):
            if one.ended(now):
                continue
            overrule(plan, one, [*([survivor] if survivor is not None else []), *to_come])


def _close(plan: Plan, loser: Change, survivor: Change, closed: list[str]) -> None:
    loser.uncut()
    loser.cut(max(survivor.meta.valid_from, loser.meta.valid_from), False, MERGED_REASON, plan.now)
    loser.rest["superseded_by"] = survivor.key
    plan.link(loser.key, MERGED, survivor.key)
    closed.append(loser.key)


def known(session: Session, namespace: object) -> Flow[dict[str, str]]:
    """Read which names stand for which subjects; see `ForgetfulStore.aliases`."""
    labels = check_namespace(namespace)
    yield from open_store(session)
    call = scripts.aliases(session.frame(), encode_namespace(labels))
    found = [decode_text(part) for part in checked((yield Send([call]))[0])]
    return dict(sorted(zip(found[::2], found[1::2], strict=True)))


def unalias(session: Session, namespace: object, name: object) -> Flow[None]:
    """Have a name stand for itself again; see `ForgetfulStore.unalias`."""
    labels, alone = check_namespace(namespace), check_label(name, "name")
    encoded = encode_namespace(labels)
    yield from open_store(session)

    def make(seen: Seen) -> Flow[Plan]:
        plan = Plan(seen.now)
        known: Name = seen.found[0]
        plan.rely_on_field(alias_field(alone), encode_text(known.stands_for))
        if not known.stands_for:
            return plan
        goal = known.stands_for
        plan.rely_on_field(undo_field(alone), known.undo)
        undo: dict[str, Any] = json.loads(known.undo or b'{"names": []}')
        told_names: Name = (yield from look(session, encoded, [ask_name(goal)])).found[0]
        # A name that was taken out by itself stays out.
        names = [other for other in undo["names"] if other in told_names.names]
        stays = [other for other in told_names.names if other != alone and other not in names]
        plan.rely_on_names(goal, told_names.names)
        plan.fields[alias_field(alone)] = plan.fields[undo_field(alone)] = b""
        for other in (alone, *names):
            plan.less[name_entry(goal, other)] = None
        for other in names:
            plan.fields[alias_field(other)] = encode_text(alone)
            plan.more[name_entry(alone, other)] = None
        ours = yield from _told(session, encoded, plan, [alone, *names])
        theirs = yield from _told(session, encoded, plan, [goal, *stays])
        for attribute in ours.keys() | theirs.keys():
            mine, its = ours.get(attribute, _NONE), theirs.get(attribute, _NONE)
            _part(plan, mine.rows, its)
            _part(plan, its.rows, mine)
        for rows, subject in ((ours, alone if names else None), (theirs, goal if stays else None)):
            for change in (one for told_of in rows.values() for one in told_of.rows):
                change.stamp(plan.now)
                if "canonical" in change.rest:
                    change.rest.pop("canonical")
                    if subject is not None:
                        change.rest["canonical"] = subject
        plan.record("unalias", "", canonical=goal, name=alone)
        return plan

    yield from transact(session, labels, [ask_name(alone)], make)


class _Told(NamedTuple):
    """What was said of an attribute: the rows, the keys of all, and of those that have expired."""

    rows: list[Change]
    keys: set[str]
    gone: set[str]


_NONE = _Told([], set(), set())


def _told(session: Session, encoded: bytes, plan: Plan, names: Sequence[str]) -> Flow[dict[str, _Told]]:
    """Read all that was said by names, by its attribute."""
    found: dict[str, _Told] = {}
    seen = yield from look(session, encoded, [ask_name(name) for name in names])
    for one in seen.found:
        for part in one.parts:
            plan.rely_on_part(part.first, part.last, part.entries)
    attributes = {(row.rest["subject"], row.rest.get("attribute", "")): row.key for row in _rows(seen.found)}
    for (_, attribute), key in attributes.items():
        rows = (yield from told(session, encoded, key, by_names=False))[1]
        of = found.setdefault(attribute, _Told([], set(), set()))
        of.rows.extend(plan.change(row) for row in rows if not row.gone)
        of.keys.update(row.key for row in rows)
        of.gone.update(row.key for row in rows if row.gone)
    return found


def _rows(found: Iterable[Name]) -> Iterator[Stored]:
    for one in found:
        for part in one.parts:
            yield from part.rows


def _part(plan: Plan, rows: Sequence[Change], other: _Told) -> None:
    """Have what was closed under another name end where the next row of its own starts, or where it did.

    What has expired reopens nothing when it goes.
    """
    lines: dict[str | None, list[Change]] = {}
    for change in rows:
        if place_of(change.rest)[1] in LINES:
            lines.setdefault(change.rest.get("run_id"), []).append(change)
        if (known := under_of(change.rest)) is not None and known.key in other.keys:
            lift(plan, change, known.key, rows)
        if change.rest.get("supersedes") in other.keys:
            change.rest.pop("supersedes")
        if (follower := change.rest.get("superseded_by")) in other.keys:
            plan.unlink(change.key, MERGED, change.rest.pop("superseded_by"))
            change.stamp(plan.now)
            if follower in other.gone:
                change.freeze(plan.now)
                continue
            change.uncut()
            change.stamp(plan.now)
            change.rest["parted"] = True
    for line in lines.values():
        line.sort(key=order_of)
        for before, after in itertools.pairwise(line):
            if before.rest.pop("parted", False):
                before.cut_by(after, UPDATED, plan.now)
                before.rest["superseded_by"], after.rest["supersedes"] = after.key, before.key
    for change in rows:
        change.rest.pop("parted", None)
