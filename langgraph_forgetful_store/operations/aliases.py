"""Names of one subject: slots of all of them are one slot, and a wrong merge can be undone.

Lines stay under the names that rows were written with. What holds, or is to come, by the names of one subject is one
order; what is over, or archived, stays under its own name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import decode_text, encode_json, encode_namespace, encode_text
from langgraph_forgetful_store.model.checks import check_namespace
from langgraph_forgetful_store.model.lifecycle import check_label
from langgraph_forgetful_store.operations.plan import (
    DATED,
    LINES,
    MERGED,
    MERGED_REASON,
    UPDATED,
    Change,
    Part,
    Plan,
    alias_field,
    name_entry,
    place_of,
    undo_field,
)
from langgraph_forgetful_store.operations.session import Session, open_store
from langgraph_forgetful_store.operations.transact import Name, Seen, ask_name, ask_row, look, transact

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
        self._last: dict[_Track, tuple[float, float]] = {}
        for part in parts:
            plan.rely_on_part(part.first, part.last, part.entries)
            for row in part.rows:
                if row.gone:
                    continue
                change = plan.change(row)
                change.stamp(plan.now)
                attribute = row.rest.get("attribute", "")
                if part.index == DATED and not change.ended(plan.now):
                    self.dated.setdefault(attribute, []).append(change)
                elif part.index in LINES:
                    track = (attribute, row.rest.get("run_id"))
                    if change.begun(plan.now):
                        self._last[track] = max(self._last.get(track, _order(change)), _order(change))
                    if not change.begun(plan.now) or change.holds(plan.now):
                        self.lines.setdefault(track, []).append(change)
        for line in self.lines.values():
            line.sort(key=_order)

    def mark(self, subject: str | None) -> None:
        """Note in every row what its subject stands for."""
        for rows in (*self.lines.values(), *self.dated.values()):
            for change in rows:
                if subject is None:
                    change.rest.pop("canonical", None)
                else:
                    change.rest["canonical"] = subject

    def reopen(self, change: Change) -> bool:
        """Give a row that was closed its own end again, unless another came after it in its line."""
        track = (change.rest.get("attribute", ""), change.rest.get("run_id"))
        is_in_line = place_of(change.rest)[1] in LINES
        if is_in_line and _order(change) < self._last.get(track, _order(change)):
            return False
        change.uncut()
        if is_in_line and change.holds(self._now):
            self.lines.setdefault(track, []).append(change)
        return True

    def holder(self, track: _Track) -> Change | None:
        """Return what holds."""
        return next((one for one in reversed(self.lines.get(track, ())) if one.begun(self._now)), None)

    def to_come(self, track: _Track) -> list[Change]:
        """Return what is to come, in order."""
        return [one for one in self.lines.get(track, ()) if not one.begun(self._now)]


def _order(change: Change) -> tuple[float, float]:
    return change.meta.valid_from, place_of(change.rest)[0]


def _in_order(rows: Sequence[Change], now: float) -> None:
    """Have each row end where the next one starts."""
    for before, after in zip(rows, rows[1:], strict=False):
        before.rest["superseded_by"], after.rest["supersedes"] = after.key, before.key
        before.cut(after.meta.valid_from, not after.begun(now), UPDATED, now)
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
        closed: list[dict[str, Any]] = []
        for track in ours.lines.keys() | theirs.lines.keys():
            _merge(plan, track, ours, theirs, closed)
        ours.mark(goal)
        theirs.mark(goal)
        plan.fields[undo_field(name)] = encode_json({"closed": closed, "names": list(its.names)})
        plan.record("alias", "", canonical=goal, name=name, merged=[one["key"] for one in closed])
        return plan

    yield from transact(session, labels, [ask_name(canonical), ask_name(name)], make)


def _by_names(
    session: Session, encoded: bytes, plan: Plan, subject: str, names: Sequence[str] | None
) -> Flow[_Tracks]:
    """Look at what goes by a subject and its names, as they are or, with ``None``, as they are told."""
    first: Name = (yield from look(session, encoded, [ask_name(subject)])).found[0]
    known = first.names if names is None else names
    plan.rely_on_names(subject, first.names)
    parts = list(first.parts)
    if known:
        for one in (yield from look(session, encoded, [ask_name(name) for name in known])).found:
            parts += one.parts
    return _Tracks(plan, parts)


def _merge(plan: Plan, track: _Track, ours: _Tracks, theirs: _Tracks, closed: list[dict[str, Any]]) -> None:
    now = plan.now
    mine, its = ours.holder(track), theirs.holder(track)
    survivor = mine or its
    if mine is not None and its is not None:
        loser, survivor = sorted((mine, its), key=_order)
        _close(plan, loser, survivor, track[0], closed)
    to_come = sorted([*ours.to_come(track), *theirs.to_come(track)], key=_order)
    _in_order([*([survivor] if survivor is not None else []), *to_come], now)
    if track[1] is not None:
        return
    for one in (*ours.dated.get(track[0], ()), *theirs.dated.get(track[0], ())):
        if (
            survivor is not None
            and one.rest.get("superseded_by") is None
            and place_of(one.rest)[0] < place_of(survivor.rest)[0]
            and one.begun(now)
            and one.meta.valid_from <= survivor.meta.valid_from < one.end.at
        ):
            _close(plan, one, survivor, track[0], closed)


def _close(plan: Plan, loser: Change, survivor: Change, attribute: str, closed: list[dict[str, Any]]) -> None:
    loser.uncut()
    loser.cut(max(survivor.meta.valid_from, loser.meta.valid_from), False, MERGED_REASON, plan.now)
    loser.rest["superseded_by"] = survivor.key
    plan.link(loser.key, MERGED, survivor.key)
    closed.append({"key": loser.key, "survivor": survivor.key, "attribute": attribute})


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
        undo: dict[str, Any] = json.loads(known.undo or b'{"closed": [], "names": []}')
        told: Name = (yield from look(session, encoded, [ask_name(goal)])).found[0]
        # A name that was taken out by itself stays out.
        names = [other for other in undo["names"] if other in told.names]
        stays = [other for other in told.names if other != alone and other not in names]
        plan.rely_on_names(goal, told.names)
        plan.fields[alias_field(alone)] = plan.fields[undo_field(alone)] = b""
        for other in (alone, *names):
            plan.less[name_entry(goal, other)] = None
        for other in names:
            plan.fields[alias_field(other)] = encode_text(alone)
            plan.more[name_entry(alone, other)] = None
        ours = yield from _by_names_at(session, encoded, plan, [alone, *names])
        theirs = yield from _by_names_at(session, encoded, plan, [goal, *stays])
        asked = [one[end] for one in undo["closed"] for end in ("key", "survivor")]
        rows = (yield from look(session, encoded, [ask_row(key) for key in asked])).found if asked else []
        for one, loser in zip(undo["closed"], rows[::2], strict=True):
            if loser.row is None or loser.row.gone:
                continue
            change = plan.change(loser.row)
            if change.rest.get("superseded_by") != one["survivor"] or change.meta.reason != MERGED_REASON:
                continue
            side = ours if change.rest.get("subject") in (alone, *names) else theirs
            if side.reopen(change):
                change.rest.pop("superseded_by")
                plan.unlink(change.key, MERGED, one["survivor"])
        for side, far in ((ours, theirs), (theirs, ours)):
            foreign = {change.key for line in far.lines.values() for change in line}
            for line in side.lines.values():
                line.sort(key=_order)
                if line[0].rest.get("supersedes") in foreign:
                    line[0].rest.pop("supersedes")
                _in_order(line, plan.now)
        ours.mark(alone if names else None)
        theirs.mark(goal if stays else None)
        plan.record("unalias", "", canonical=goal, name=alone)
        return plan

    yield from transact(session, labels, [ask_name(alone)], make)


def _by_names_at(session: Session, encoded: bytes, plan: Plan, names: Sequence[str]) -> Flow[_Tracks]:
    found = (yield from look(session, encoded, [ask_name(name) for name in names])).found
    return _Tracks(plan, [part for one in found for part in one.parts])
