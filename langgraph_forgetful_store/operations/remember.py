"""Writing into chains and slots: `remember` and `supersede`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langgraph_forgetful_store.backend.codec import FLAG_PINNED, STATUS_SUPERSEDED
from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.backend.keys import encode_namespace, encode_text
from langgraph_forgetful_store.errors import VersionConflictError
from langgraph_forgetful_store.model.checks import check_text
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.model.memory_types import GENERIC
from langgraph_forgetful_store.operations.commit import (
    NOW,
    Ask,
    Chain,
    Change,
    Plan,
    Seen,
    Stored,
    closing_status,
    living,
    look,
    reason_number,
    transact,
)
from langgraph_forgetful_store.operations.session import Session
from langgraph_forgetful_store.operations.writing import Writing, embedded


def remember(session: Session, writing: Writing, *, is_put: bool = False) -> Flow[MemoryItem]:
    """Write a memory: in place where the key exists; where it names an occupied slot, that row is superseded."""
    if not is_put:
        yield from embedded(writing, session)
    slot = writing.patch.slot
    asked: list[Ask] = [("r", writing.key, ""), *([("s", *slot)] if slot else [])]
    since = writing.patch.given.get("valid_from")

    def make(seen: Seen) -> Flow[Plan]:
        plan = Plan(seen.now, [writing.key])
        own: Chain = seen.found[0]
        row = next(iter(own.living), None)
        if row is None:
            plan.rely_on_absence(writing.key)
            change = writing.new(session, plan, {}, None)
        else:
            change = writing.over(session, plan, row)
        plan.rows[writing.key] = change
        replaced = None
        chain: Chain | None = seen.found[1] if slot else None
        moves = False
        if row is not None and (since is None) == bool(slot):
            # It keeps its slot, or the start of its validity, which may be long before what has been told.
            named = slot or (row.rest.get("subject", ""), row.rest.get("attribute", ""))
            start = row.meta.valid_from if since is None else since
            told = look(session.frame(), encode_namespace(writing.namespace), [("s", *named)], since=start)
            chain = (yield from told).found[0]
        if chain is not None and row is not None and since is not None and chain.holder == writing.key:
            # What was to be followed by it holds on: with another start it finds its place among those.
            moves = any(one.key != writing.key and one.meta.valid_until > plan.now for one in chain.line())
        if chain is not None and (slot or moves):
            change.letters = change.letters.replace("c", "")
            plan.rely_on_slot(chain)
            plan.fields["s", chain.slot] = encode_text(writing.key)
            _leave(plan, chain, own)
            # A slot whose row is gone is free.
            if moves or (chain.holder != writing.key and chain.held_by(plan.now)):
                replaced = _place(plan, chain.line(), writing.key, change, reason_number("updated"))
                if replaced is not None and replaced.late:
                    del plan.fields["s", chain.slot]
        if not is_put:
            plan.record("remember", writing.key, superseded=None if replaced is None else replaced.key)
        return plan

    items = yield from transact(session, writing.namespace, asked, make, since=NOW if since is None else since)
    return items[0]


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of a row that was put into a chain: whose place it took, or before whom it was inserted."""

    key: str
    late: bool


def _place(plan: Plan, chain: Sequence[Stored], key: str, change: Change, reason: int) -> Placed | None:
    """Put a row into a chain by the start of its validity: as its head, or closed, before a row that is valid later.

    Args:
        plan: Changed.
        chain: Latest first, as far back as the first row that is valid before the new one; without what is gone.
        key: Of the new row.
        change: The new row's.
        reason: Why the head is superseded, as meta holds it.
    """
    rows = [row for row in chain if row.key != key]
    if not rows:
        return None
    head = rows[0]
    start = change.meta.valid_from
    if start != start and plan.now < head.meta.valid_from <= head.meta.recorded_at:
        # The server's clock has gone back: what is written now is no earlier than what held before.
        start = head.meta.valid_from
        change.meta = change.meta._replace(valid_from=start)
    at = plan.now if start != start else start
    if at >= head.meta.valid_from:
        change.rest["supersedes"] = head.key
        change.meta = change.meta._replace(version=max(head.meta.version + 1, change.meta.version))
        _closed(plan, head, start, reason).rest["superseded_by"] = key
        return Placed(head.key, late=False)
    later, earlier = head, None
    for row in rows[1:]:
        if row.meta.valid_from <= at:
            earlier = row
            break
        later = row
    end = min(change.meta.valid_until, later.meta.valid_from)
    change.meta = change.meta._replace(valid_until=end, status=STATUS_SUPERSEDED, reason=reason, retired_at=NOW)
    change.rest["superseded_by"] = later.key
    follower = plan.change(later)
    follower.rest["supersedes"] = key
    if earlier is not None:
        change.rest["supersedes"] = earlier.key
        change.meta = change.meta._replace(version=max(earlier.meta.version + 1, change.meta.version))
        before = plan.change(earlier, valid_until=min(earlier.meta.valid_until, at))
        before.rest["superseded_by"] = key
    return Placed(later.key, late=True)


def _leave(plan: Plan, chain: Chain, own: Chain) -> None:
    """Join the neighbours of a row before it is placed anew: their plan overwrites what the script joins."""
    for row in own.rows:
        after = next((one for one in chain.living if one.rest.get("supersedes") == row.key), None)
        before = next((one for one in chain.living if one.rest.get("superseded_by") == row.key), None)
        for neighbour, name, other in (
            (after, "supersedes", row.rest.get("supersedes")),
            (before, "superseded_by", None if after is None else after.key),
        ):
            if neighbour is None or neighbour.key == row.key:
                continue
            rest = plan.change(neighbour).rest
            rest.pop(name)
            if other is not None:
                rest[name] = other


def _closed(plan: Plan, row: Stored, until: float, reason: int) -> Change:
    """Close a row, unless it is closed already: then its interval is only cut where it reaches beyond."""
    if until != until:
        # Now: later than the end of what is over, and earlier than what is to come.
        end = row.meta.valid_until if row.meta.valid_until <= plan.now else NOW
    else:
        end = min(row.meta.valid_until, until)
    if row.closes:
        return plan.change(row, valid_until=end)
    status = closing_status(row.status(plan.now), end, plan.now)
    return plan.change(row, status=status, valid_until=end, retired_at=NOW, reason=reason)


def supersede(
    session: Session,
    writing: Writing,
    old_key: object,
    reason: object,
    expected_version: object,
) -> Flow[MemoryItem]:
    """Close the latest row of a chain and open a new one; see `ForgetfulStore.supersede`."""
    number = reason_number(reason)
    if expected_version is not None and (isinstance(expected_version, bool) or not isinstance(expected_version, int)):
        raise ValueError(f"expected_version must be a whole number or None, got {expected_version!r}")
    yield from embedded(writing, session)
    slot = writing.patch.slot
    old_key = check_text(old_key, "key")
    named: list[Ask] = [("s", *slot)] if slot else []
    asked: list[Ask] = [("r", old_key, ""), ("k", old_key, ""), ("r", writing.key, ""), *named]

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now, [writing.key])
        chain: Chain = seen.found[1]
        living(seen.found[0], writing.namespace, old_key)
        head = chain.living[0]
        if seen.found[2].living:
            raise ValueError(f"new_key must name no memory, but {writing.key!r} exists in {writing.namespace!r}")
        if expected_version is not None and head.meta.version != expected_version:
            raise VersionConflictError(
                f"expected_version is {expected_version}, but {head.key!r}, the latest of {old_key!r} in"
                f" {writing.namespace!r}, is at version {head.meta.version}"
            )
        plan.rely_on_absence(writing.key)
        inherited = {**head.rest, "pinned": bool(head.meta.flags & FLAG_PINNED)}
        kind = None if head.memory_type == GENERIC else head.memory_type
        change = writing.new(session, plan, inherited, kind)
        plan.rows[writing.key] = change
        placed = _place(plan, chain.line(), writing.key, change, number)
        assert placed is not None
        _take_slot(plan, chain, seen.found[3] if slot else None, writing.key, moves=not placed.late)
        plan.record("supersede", writing.key, str(reason), superseded=placed.key)
        return plan

    since = writing.patch.given.get("valid_from")
    items = yield from transact(session, writing.namespace, asked, make, since=NOW if since is None else since)
    return items[0]


def _take_slot(plan: Plan, chain: Chain, named: Chain | None, key: str, *, moves: bool) -> None:
    """Give a successor its slot: that of its chain, or the one that it names itself."""
    keys = {row.key for row in chain.living}
    goal = chain if named is None else named
    plan.rely_on_slot(chain)
    plan.rely_on_slot(goal)
    if named is not None and named.held_by(plan.now) and named.holder not in keys:
        raise ValueError(
            f"subject and attribute name a slot that {named.holder!r} holds: supersede that one, or remember"
        )
    if goal.holder not in keys:
        # It is free, or the row has none: the slot that is taken over may be another's by now.
        plan.rows[key].letters += "c"
    elif moves:
        plan.fields["s", goal.slot] = encode_text(key)
    if moves and goal.slot != chain.slot and chain.holder in keys:
        plan.fields["s", chain.slot] = b""
