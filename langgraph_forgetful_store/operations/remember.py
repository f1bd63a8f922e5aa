"""Writing into lines: `remember` and `supersede`."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import (
    FLAG_AHEAD,
    FLAG_DATED,
    FLAG_PINNED,
    FOREVER,
    STATUS_ACTIVE,
    STATUS_SUPERSEDED,
    load_value,
)
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import encode_json, encode_namespace, encode_text
from langgraph_forgetful_store.errors import VersionConflictError
from langgraph_forgetful_store.model.checks import check_text
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.model.memory_types import GENERIC
from langgraph_forgetful_store.model.packing import note_done, was_done
from langgraph_forgetful_store.model.places import place_of
from langgraph_forgetful_store.operations.lines import Line, new_chain
from langgraph_forgetful_store.operations.plan import (
    DATED,
    LINES,
    UPDATED,
    WITHDRAWN,
    Change,
    End,
    Found,
    Plan,
    Stored,
    reason_number,
)
from langgraph_forgetful_store.operations.session import Session
from langgraph_forgetful_store.operations.transact import Ask, Seen, ask_key, ask_row, ask_slot, look, transact
from langgraph_forgetful_store.operations.writing import Writing, embedded, reopen

_NOTHING = Found(None)
_SECRET_BYTES, _NAME_CHARS = 32, 32


def remember(session: Session, writing: Writing, *, is_put: bool = False) -> Flow[MemoryItem]:
    """Write a memory: in place where the key exists; where it names an occupied slot, that row is superseded."""
    if not is_put:
        yield from embedded(writing, session)
    if writing.if_absent is not None or writing.idempotency_key is not None:
        return (yield from _remember_once(session, writing))

    def make(seen: Seen) -> Flow[Plan]:
        plan = Plan(seen.now, [writing.key])
        replaced = yield from _write(session, plan, seen, writing)
        if not is_put:
            plan.record("remember", writing.key, superseded=replaced)
        return plan

    return (yield from transact(session, writing.namespace, _asked(writing), make, turn=_turn(writing)))[0]


def _turn(writing: Writing) -> object:
    return writing.patch.slot or (writing.key if writing.names_key else writing.value)


def _asked(writing: Writing) -> list[Ask]:
    slot, start, run = writing.patch.slot, writing.named_start, writing.run_id
    return [ask_key(writing.key, run, start), *([ask_slot(*slot, run, start)] if slot else [])]


def _write(session: Session, plan: Plan, seen: Seen, writing: Writing) -> Flow[str | None]:
    """Plan a write, given what `_asked` has found, and return the key of what it replaces in its slot."""
    slot, start, run = writing.patch.slot, writing.named_start, writing.run_id
    own: Found = seen.found[0]
    into: Found = seen.found[1] if slot else _NOTHING
    row, encoded = own.row, encode_namespace(writing.namespace)
    if row is None or row.gone:
        plan.rely_on_absence(writing.key)
        change = plan.rows[writing.key] = writing.new(session, plan.now, {}, None)
        if writing.names_key:
            note_done(change.rest, writing.idempotency_key)
        return _insert(plan, into, change, writing, start, UPDATED)
    if slot and row.rest.get("run_id") and run is None and _owner(row) != slot:
        # It keeps its run, whose line in the other slot is to be looked at.
        into = (yield from look(session, encoded, [ask_slot(*slot, row.rest["run_id"], start)])).found[0]
    took: Found = _NOTHING
    if "took" in row.rest:
        took = (yield from look(session, encoded, [ask_row(row.rest["took"])])).found[0]
    replaced = _write_over(session, plan, own, into, row, writing)
    note_done(plan.rows[row.key].rest, writing.idempotency_key)
    if took.row is not None and "took" not in plan.rows[row.key].rest and took.row.rest.get("superseded_by") == row.key:
        # What it corrected points at it no more.
        plan.change(took.row).rest.pop("superseded_by")
    return replaced


def _remember_once(session: Session, writing: Writing) -> Flow[MemoryItem]:
    """Write a memory unless it, or what must be absent, is there; then that is returned as it is."""
    makes_name = not writing.names_key and (writing.idempotency_key is not None or writing.if_absent == "content")
    if makes_name and session.secret is None:
        proposal = secrets.token_bytes(_SECRET_BYTES)
        session.secret = checked((yield Send([scripts.digest_key(session.frame(), proposal)]))[0])
    encoded, asked_key = encode_namespace(writing.namespace), writing.key

    def make(seen: Seen) -> Flow[Plan]:
        # What was looked at is what was asked for first, also where an attempt before has given it a name.
        writing.key, before = asked_key, b""
        while True:
            there = _there(session, seen, writing, made=makes_name and before != b"")
            if there is not None:
                plan = Plan(seen.now, [there.key])
                plan.rely_on(there)
                return plan
            if not makes_name:
                break
            name = _name_of(session, seen, writing, before)
            own = seen.found[0].row
            if writing.key == name and (own is None or own.gone):
                break
            if writing.key == name:
                # What was said under that name is over, or says something else by now.
                before = encode_text(name)
                name = _name_of(session, seen, writing, before)
            writing.key = name
            seen = yield from look(session, encoded, _asked(writing), values=True)
            before = before or b"\0"
        plan = Plan(seen.now, [writing.key])
        replaced = yield from _write(session, plan, seen, writing)
        plan.record("remember", writing.key, superseded=replaced)
        return plan

    return (yield from transact(session, writing.namespace, _asked(writing), make, values=True, turn=_turn(writing)))[0]


def _there(session: Session, seen: Seen, writing: Writing, *, made: bool) -> Stored | None:
    """Return what is there already."""
    own: Stored | None = seen.found[0].row
    if own is not None and own.gone:
        own = None
    once, absent = writing.idempotency_key, writing.if_absent
    if own is not None and (absent == "key" or was_done(own.rest, once) or (made and once is not None)):
        return own
    if own is not None and absent == "content" and own.status(seen.now) == STATUS_ACTIVE and _same(own, writing):
        return own
    if absent not in ("slot", "content") or writing.patch.slot is None:
        return None
    plan = Plan(seen.now)
    holder = Line(plan, seen.found[1], writing.new(session, seen.now, {}, None)).holder
    row = None if holder is None else holder.was
    return row if row is not None and (absent == "slot" or _same(row, writing)) else None


def _same(row: Stored, writing: Writing) -> bool:
    return row.value is not None and _plain(row.value) == _plain(writing.value)


def _plain(value: bytes) -> str:
    return json.dumps(load_value(value), sort_keys=True)


def _name_of(session: Session, seen: Seen, writing: Writing, before: bytes) -> str:
    """Return the key that a request, or a content in the place that it is said in, has for all who say it."""
    assert session.secret is not None
    if writing.idempotency_key is not None:
        said: list[Any] = ["request", writing.idempotency_key]
    else:
        plan, change = Plan(seen.now), writing.new(session, seen.now, {}, None)
        head = None
        if writing.patch.slot is not None and change.index in LINES:
            found = Line(plan, seen.found[1], change).head
            head = (
                None
                if found is None or found.was is None
                else [found.key, found.was.meta.content, found.holds(seen.now)]
            )
        said = ["content", _plain(writing.value), writing.patch.slot, writing.run_id, change.index, head]
        said += [before.hex()] if before not in (b"", b"\0") else []
    return hmac.new(session.secret, encode_json([writing.namespace, said]), hashlib.blake2b).hexdigest()[:_NAME_CHARS]


def _owner(row: Stored) -> tuple[str, str] | None:
    return (row.rest["subject"], row.rest.get("attribute", "")) if "subject" in row.rest else None


def _insert(
    plan: Plan,
    found: Found,
    change: Change,
    writing: Writing,
    named: float | None,
    reason: int,
    floor: float = -FOREVER,
) -> str | None:
    """Put a row into its line by a start, and return the key of what it replaces."""
    line = Line(plan, found, change)
    holder = line.holder
    line.start(named, floor)
    writing.begin(change, plan.now)
    before = line.insert(reason)
    return before.key if before is not None and holder is before else None


def _write_over(session: Session, plan: Plan, own: Found, into: Found, row: Stored, writing: Writing) -> str | None:
    """Write over a row, and return the key of what it replaces in its slot."""
    now, slot, start = plan.now, writing.patch.slot, writing.named_start
    change = plan.change(row)
    line, index = Line(plan, own, change), place_of(change.rest)[1]
    change.stamp(now)
    is_over = (row.closes or bool(change.meta.flags & FLAG_DATED)) and change.ended(now)
    is_elsewhere, had_begun = slot is not None and not _is_own(own, row, slot), change.begun(now)
    writing.over(session, now, change)
    if slot is not None and not is_elsewhere:
        # It stays under the name that it was written with.
        change.rest["subject"] = row.rest["subject"]
    goal = into if is_elsewhere else own
    if is_over:
        began = change.meta.valid_from if had_begun and slot_of(change) is not None else -FOREVER
        line.leave(gives_back=False)
        reopen(change, now)
        writing.set_end(change, now)
        _settle_owner(change, is_elsewhere)
        if slot is None and ("subject" not in change.rest or Line(plan, own, change).holder is not None):
            # It stands alone: its slot is another's.
            for name in ("subject", "attribute", "chain"):
                change.rest.pop(name, None)
            goal, began = _NOTHING, -FOREVER
        return _insert(plan, goal, change, writing, start, UPDATED, began)
    named_end = "valid_until" in writing.patch.given
    if named_end:
        writing.set_end(change, now)
    changes_index = index not in ("", WITHDRAWN, change.index)
    if is_elsewhere or changes_index or (start is not None and start != row.meta.valid_from):
        is_same = not is_elsewhere and not changes_index
        line.leave(gives_back=is_same or not had_begun)
        _settle_owner(change, is_elsewhere)
        change.set(status=_open_status(change))
        # What becomes dated is so from its start on.
        named = row.meta.valid_from if start is None and change.index == DATED else start
        return _insert(plan, goal, change, writing, named, UPDATED)
    change.set(status=_open_status(change))
    if index == WITHDRAWN:
        # An archived plan is one again.
        Line(plan, own, change).insert(UPDATED, place_of(change.rest)[0])
    elif named_end:
        line.end_itself(change.end)
    writing.begin(change, now)
    return None


def _is_own(own: Found, row: Stored, slot: tuple[str, str]) -> bool:
    """Tell whether a slot is the row's own, by any name of its subject."""
    subject, attribute = slot
    return _owner(row) == slot or (
        row.rest.get("attribute") == attribute and subject in (own.subject, own.canonical, *own.names)
    )


def _settle_owner(change: Change, is_elsewhere: bool) -> None:
    if is_elsewhere:
        change.rest.pop("chain", None)
    for name in ("canonical", "took"):
        change.rest.pop(name, None)


def _open_status(change: Change) -> int:
    return STATUS_SUPERSEDED if change.meta.reason else STATUS_ACTIVE


def supersede(
    session: Session,
    writing: Writing,
    old_key: object,
    reason: object,
    expected_version: object,
) -> Flow[MemoryItem]:
    """Close what holds in a row's line, or correct a plan, and open a new row; see `ForgetfulStore.supersede`."""
    number = reason_number(reason)
    if expected_version is not None and (isinstance(expected_version, bool) or not isinstance(expected_version, int)):
        raise ValueError(f"expected_version must be a whole number or None, got {expected_version!r}")
    yield from embedded(writing, session)
    slot, start, run = writing.patch.slot, writing.named_start, writing.run_id
    old_key = check_text(old_key, "key")
    asked = [ask_key(old_key, run, start), ask_row(writing.key), *([ask_slot(*slot, run, start)] if slot else [])]

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now, [writing.key])
        now, found = plan.now, seen.found[0]
        row = found.living(writing.namespace, old_key)
        there = seen.found[1].row
        if there is not None and not there.gone:
            raise ValueError(f"new_key must name no memory, but {writing.key!r} exists in {writing.namespace!r}")
        old = plan.change(row)
        old.stamp(now)
        is_plan = not old.begun(now) and not old.ended(now)
        target = old if is_plan else _replaced(plan, found, old)
        version = target.meta.version
        if expected_version is not None and version != expected_version:
            raise VersionConflictError(
                f"expected_version is {expected_version}, but {target.key!r}, the latest of {old_key!r} in"
                f" {writing.namespace!r}, is at version {version}"
            )
        plan.rely_on_absence(writing.key)
        inherited = {**target.rest, "pinned": bool(target.meta.flags & FLAG_PINNED)}
        if "subject" in target.rest and "subject" in row.rest:
            # It goes by the name of the row that was named.
            inherited["subject"] = row.rest["subject"]
        kind = None if target.was is None or target.was.memory_type == GENERIC else target.was.memory_type
        change = plan.rows[writing.key] = writing.new(session, now, inherited, kind)
        if target.meta.flags & FLAG_DATED and "valid_until" not in writing.patch.given:
            end = target.end
            change.end_itself(End(end.at, end.at > now, 0, FOREVER))
            change.flag(FLAG_DATED, True)
        owner = slot_of(change) if slot is None else slot_of(target)
        goal: Found = found
        if slot and slot != owner:
            goal = seen.found[2]
            holder = Line(plan, goal, change).holder
            if holder is not None and holder.key != target.key:
                raise ValueError(
                    f"subject and attribute name a slot that {holder.key!r} holds: supersede that one, or remember"
                )
        elif owner is None:
            change.rest["chain"] = target.rest.get("chain") or new_chain(plan, target)
        if is_plan:
            _correct(plan, found, goal, target, change, writing, number)
        else:
            _replace(plan, goal, target, change, writing, number)
        change.set(version=max(change.meta.version, row.meta.version + 1))
        plan.record("supersede", writing.key, str(reason), superseded=target.key)
        return plan

    return (yield from transact(session, writing.namespace, asked, make, turn=old_key))[0]


def slot_of(change: Change) -> tuple[str, str] | None:
    """Return subject and attribute."""
    return (change.rest["subject"], change.rest.get("attribute", "")) if "subject" in change.rest else None


def _replaced(plan: Plan, found: Found, old: Change) -> Change:
    """Return what holds in the layer of a row, or else the last that has begun in it."""
    index = old.index
    # A row that is not there is in no line: all the others are.
    line = Line(plan, found, Change("", old.meta, dict(old.rest), None, type_name=old.memory_type))
    if index in LINES:
        return line.head or old
    if index == DATED:
        holding = [one for one in line.dated if one.holds(plan.now)]
        return max(holding, key=lambda one: place_of(one.rest)[0], default=old)
    return old


def _correct(
    plan: Plan, found: Found, goal: Found, target: Change, change: Change, writing: Writing, reason: int
) -> None:
    """Put a row in the place of one that was to come."""
    now = plan.now
    start, own_end = target.meta.valid_from, target.end
    Line(plan, found, target).withdraw()
    target.end_itself(own_end)
    target.cut(start, False, reason, now)
    target.set(status=STATUS_SUPERSEDED)
    target.rest["superseded_by"], change.rest["took"] = change.key, target.key
    line = Line(plan, goal, change)
    if writing.named_start is None:
        change.set(valid_from=start)
        change.flag(FLAG_AHEAD, True)
    else:
        line.start(writing.named_start)
    _check_end(change)
    writing.begin(change, now)
    line.insert(reason)


def _replace(plan: Plan, goal: Found, target: Change, change: Change, writing: Writing, reason: int) -> None:
    """Put a row behind, or by its start before, what holds."""
    now = plan.now
    line = Line(plan, goal, change)
    is_line = target.index == change.index and target.index in LINES
    if is_line and (target.owner == change.owner or any(one is target for one in line.members)):
        # A chain that begins with this write has no entries yet.
        if place_of(target.rest)[1] in LINES and all(one.key != target.key for one in line.members):
            line.members = sorted([*line.members, target], key=lambda one: one.meta.valid_from)
        line.start(writing.named_start)
        _check_end(change)
        writing.begin(change, now)
        line.insert(reason)
        return
    line.start(writing.named_start)
    _check_end(change)
    writing.begin(change, now)
    line.insert(reason)
    if "supersedes" in change.rest:
        # It stands in a line of its own, behind another.
        line.merge(target, change, change.meta.valid_from, reason)
        return
    target.cut_by(change, reason, now)
    target.rest["superseded_by"], change.rest["supersedes"] = change.key, target.key


def _check_end(change: Change) -> None:
    end, start = change.end.at, change.meta.valid_from
    if end <= start:
        raise ValueError(f"valid_until must be after valid_from, got {end:.0f} and {start:.0f} ms")
