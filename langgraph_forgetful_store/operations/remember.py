"""Writing into chains and slots: `remember` and `supersede`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langgraph_forgetful_store.backend.codec import FLAG_PINNED, STATUS_SUPERSEDED
from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.backend.keys import encode_text
from langgraph_forgetful_store.errors import VersionConflict
from langgraph_forgetful_store.lifecycle import check_text
from langgraph_forgetful_store.memory import MemoryItem
from langgraph_forgetful_store.memory_types import GENERIC
from langgraph_forgetful_store.operations.commit import (
    NOW,
    Ask,
    Chain,
    Change,
    Plan,
    Seen,
    Stored,
    living,
    reason_number,
    transact,
)
from langgraph_forgetful_store.operations.context import Context
from langgraph_forgetful_store.operations.writing import LATEST, Writing, embedded


def remember(context: Context, writing: Writing, *, is_put: bool = False) -> Flow[MemoryItem]:
    """Write a memory: in place where the key exists; where it names an occupied slot, that row is superseded."""
    if not is_put:
        yield from embedded(writing, context)
    slot = writing.patch.slot
    asked: list[Ask] = [("r", writing.key, ""), *([("s", *slot)] if slot else [])]

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now, [writing.key])
        own: Chain = seen.found[0]
        row = next(iter(own.living), None)
        if row is None:
            plan.rely_on_absence(writing.key)
            change = writing.new(context, plan, {}, None)
        else:
            change = writing.over(context, plan, row)
        plan.rows[writing.key] = change
        replaced = None
        if slot:
            chain: Chain = seen.found[1]
            plan.rely_on_slot(chain)
            plan.fields["s", chain.slot] = encode_text(writing.key)
            if chain.holder != writing.key:
                replaced = _place(plan, chain.living, writing.key, change, reason_number("updated"))
                if replaced is not None and replaced.late:
                    del plan.fields["s", chain.slot]
        if not is_put:
            plan.record("remember", writing.key, superseded=None if replaced is None else replaced.key)
        return plan

    since = writing.patch.given.get("valid_from")
    items = yield from transact(context, writing.namespace, asked, make, since=LATEST if since is None else since)
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
        closed = _closed(plan, head, start, reason)
        closed.rest["superseded_by"] = key
        if closed.rest.get("supersedes") == key:
            # The row that is written over was its predecessor, and leaves its place to the one before.
            _skip(closed, chain, key)
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


def _skip(closed: Change, chain: Sequence[Stored], key: str) -> None:
    before = next((row.rest.get("supersedes") for row in chain if row.key == key), None)
    if before is None:
        del closed.rest["supersedes"]
    else:
        closed.rest["supersedes"] = before


def _closed(plan: Plan, row: Stored, until: float, reason: int) -> Change:
    """Close a row, unless it is closed already: then its interval is only cut where it reaches beyond."""
    already = row.meta.status == STATUS_SUPERSEDED
    if until != until:
        # Now: later than the end of what is over, and earlier than what is to come.
        end = row.meta.valid_until if row.meta.valid_until <= plan.now else NOW
    else:
        end = min(row.meta.valid_until, until)
    if already:
        return plan.change(row, valid_until=end)
    return plan.change(row, status=STATUS_SUPERSEDED, valid_until=end, retired_at=NOW, reason=reason)


def supersede(
    context: Context,
    writing: Writing,
    old_key: object,
    reason: object,
    expected_version: object,
) -> Flow[MemoryItem]:
    """Close the latest row of a chain and open a new one; see `ForgetfulStore.supersede`."""
    number = reason_number(reason)
    if expected_version is not None and (isinstance(expected_version, bool) or not isinstance(expected_version, int)):
        raise ValueError(f"expected_version must be a whole number or None, got {expected_version!r}")
    yield from embedded(writing, context)
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
            raise VersionConflict(
                f"expected_version is {expected_version}, but {head.key!r}, the latest of {old_key!r} in"
                f" {writing.namespace!r}, is at version {head.meta.version}"
            )
        plan.rely_on_absence(writing.key)
        inherited = {**head.rest, "pinned": bool(head.meta.flags & FLAG_PINNED)}
        kind = None if head.memory_type == GENERIC else head.memory_type
        change = writing.new(context, plan, inherited, kind)
        plan.rows[writing.key] = change
        placed = _place(plan, chain.living, writing.key, change, number)
        assert placed is not None
        _take_slot(plan, chain, head, seen.found[3] if slot else None, writing.key, moves=not placed.late)
        plan.record("supersede", writing.key, str(reason), superseded=placed.key)
        return plan

    since = writing.patch.given.get("valid_from")
    items = yield from transact(context, writing.namespace, asked, make, since=LATEST if since is None else since)
    return items[0]


def _take_slot(plan: Plan, chain: Chain, head: Stored, named: Chain | None, key: str, *, moves: bool) -> None:
    plan.rely_on_slot(chain)
    holds = bool(chain.slot) and chain.holder == head.key
    if named is not None and named.slot != chain.slot:
        plan.rely_on_slot(named)
        if named.living and named.living[0].key != head.key:
            raise ValueError(
                f"subject and attribute name a slot that {named.living[0].key!r} holds: supersede that one, or remember"
            )
        if moves:
            plan.fields["s", named.slot] = encode_text(key)
            if holds:
                plan.fields["s", chain.slot] = b""
        return
    if moves and chain.slot and (holds or not chain.holder):
        plan.fields["s", chain.slot] = encode_text(key)
