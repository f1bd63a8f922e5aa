"""What happens to one memory beside its content: archive, restore, retire, pin, reinforce, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from langgraph_forgetful_store.backend.codec import (
    FLAG_ANCHORED,
    FLAG_PINNED,
    STATUS_ACTIVE,
    STATUS_ARCHIVED,
    STATUS_SUPERSEDED,
)
from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.backend.keys import encode_namespace, encode_text
from langgraph_forgetful_store.errors import IllegalTransitionError
from langgraph_forgetful_store.model.checks import (
    check_end,
    check_key,
    check_namespace,
    check_text,
    fraction,
    moment,
    ttl_to_ms,
)
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.model.packing import note_done, was_done
from langgraph_forgetful_store.model.status import STATUSES, read_trail
from langgraph_forgetful_store.operations.commit import (
    NOW,
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
from langgraph_forgetful_store.operations.session import Session, open_store

# How far `confirm` and `deny` move a memory; the latter is ours.
CONFIRMED_CONFIDENCE, CONFIRMED_IMPORTANCE, DENIED_CONFIDENCE = 0.1, 0.05, 0.2
ANCHORED_IMPORTANCE = 0.5

# Returns what changes of a row's meta, given the row and what it counts as; None where it is so already.
Transition = Callable[[Plan, Stored, int], Change | None]


def transition(
    session: Session,
    namespace: object,
    key: object,
    action: str,
    apply: Transition,
    reason: str = "",
    idempotency_key: object = None,
    **details: Any,
) -> Flow[MemoryItem]:
    """Carry out a transition of one row, and audit it; one that has an idempotency key only once.

    Raises:
        MemoryNotFoundError: The row is absent or expired.
        IllegalTransitionError: Its status does not allow it.
    """
    labels, name = check_namespace(namespace), check_key(key)
    once = check_idempotency_key(idempotency_key)
    yield from open_store(session)

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now, [name])
        row = living(seen.found[0], labels, name)
        if was_done(row.rest, once):
            return plan
        change = apply(plan, row, row.status(seen.now))
        if change is not None:
            note_done(change.rest, once)
            plan.record(action, name, reason, **details)
        return plan

    return (yield from transact(session, labels, [("r", name, "")], make))[0]


def check_idempotency_key(value: object) -> str | None:
    """Return what tells one request from others; ``None``: nothing does.

    Raises:
        ValueError: It is neither a non-empty str nor ``None``.
    """
    return None if value is None else check_text(value, "idempotency_key")


def refuse(row: Stored, status: int, action: str, hint: str = "") -> IllegalTransitionError:
    """Return the error for a transition that a status does not allow."""
    return IllegalTransitionError(f"{row.key!r} is {STATUSES[status].value}: {action} is not possible{hint}")


def clamped(number: float) -> float:
    """Return a number as a confidence or an importance: from 0 to 1."""
    return min(1.0, max(0.0, number))


def _brought_back(plan: Plan, row: Stored, status: int, action: str) -> None:
    """Restore a row that is archived; one that is superseded stays so, and the action is not possible."""
    if status == STATUS_SUPERSEDED:
        raise refuse(row, status, action)
    restored(plan, row, status)


def archived(plan: Plan, row: Stored, status: int) -> Change | None:
    """Take it out of recall."""
    if status == STATUS_ARCHIVED:
        return None
    if status == STATUS_SUPERSEDED:
        raise refuse(row, status, "archive")
    return plan.change(row, status=STATUS_ARCHIVED)


def restored(plan: Plan, row: Stored, status: int) -> Change | None:
    """Bring it back, with its ttl anew."""
    if status == STATUS_ACTIVE:
        return None
    if status == STATUS_SUPERSEDED:
        raise refuse(row, status, "restore", ": undo_supersede reopens the latest predecessor of a chain")
    # One that was to be closed later still is; one that is open again has its slot, or none where that is taken.
    if row.closes:
        return plan.change(row, letters="e", status=STATUS_SUPERSEDED, expires_at=NOW)
    return plan.change(row, letters="ec", status=STATUS_ACTIVE, expires_at=NOW)


def retired(reason: object, valid_until: object) -> Transition:
    """Close it without a successor."""
    number = reason_number(reason)
    until = None if valid_until is None else moment(valid_until, "valid_until")

    def apply(plan: Plan, row: Stored, status: int) -> Change | None:
        if status == STATUS_SUPERSEDED:
            return None
        if until is not None and until < row.meta.valid_from:
            raise ValueError(
                f"valid_until must not be before valid_from ({row.meta.valid_from:.0f} ms), got {until:.0f}"
            )
        end = NOW if until is None else until
        if until is None and row.meta.valid_until <= plan.now:
            end = row.meta.valid_until
        elif row.closes:
            # It was to be closed later, and never holds beyond that.
            end = min(end, row.meta.valid_until)
        return plan.change(
            row, status=closing_status(status, end, plan.now), valid_until=end, retired_at=NOW, reason=number
        )

    return apply


def pinned(plan: Plan, row: Stored, status: int) -> Change | None:
    """Suspend its TTL, and keep every strategy off it."""
    if status == STATUS_SUPERSEDED:
        raise refuse(row, status, "pin")
    if row.meta.flags & FLAG_PINNED:
        return None
    flags = row.meta.flags | FLAG_PINNED
    return plan.change(row, letters="e", status=_settled(row, status), flags=flags, expires_at=math.inf)


def _settled(row: Stored, status: int) -> int:
    # What its expiry has archived stays so when the expiry moves.
    return STATUS_ARCHIVED if status == STATUS_ARCHIVED else row.meta.status


def unpinned(plan: Plan, row: Stored, status: int) -> Change | None:
    """Let its TTL start anew."""
    if not row.meta.flags & FLAG_PINNED:
        return None
    return plan.change(row, letters="e", flags=row.meta.flags & ~FLAG_PINNED, expires_at=NOW)


def demoted(by: object) -> Transition:
    """Lower its importance."""
    share = fraction(by, "by")

    def apply(plan: Plan, row: Stored, status: int) -> Change:
        return plan.change(row, importance=clamped(row.meta.importance - share))

    return apply


def anchored(plan: Plan, row: Stored, status: int) -> Change:
    """Make it matter again."""
    _brought_back(plan, row, status, "anchor")
    return plan.change(
        row,
        importance=max(row.meta.importance, ANCHORED_IMPORTANCE),
        flags=row.meta.flags | FLAG_ANCHORED,
    )


def confirmed(plan: Plan, row: Stored, status: int) -> Change:
    """Trust it more, and bring it back where it is archived."""
    _brought_back(plan, row, status, "confirm")
    return plan.change(
        row,
        confidence=clamped(row.meta.confidence + CONFIRMED_CONFIDENCE),
        importance=clamped(row.meta.importance + CONFIRMED_IMPORTANCE),
        confirmed_at=NOW,
    )


def denied(plan: Plan, row: Stored, status: int) -> Change:
    """Trust it less."""
    if status == STATUS_SUPERSEDED:
        raise refuse(row, status, "deny")
    return plan.change(row, confidence=clamped(row.meta.confidence - DENIED_CONFIDENCE))


def ttl_set(ttl: object) -> Transition:
    """Have it expire so many minutes from now."""
    ms = float(ttl_to_ms(ttl))

    def apply(plan: Plan, row: Stored, status: int) -> Change:
        check_end(ms, now=plan.now)
        return plan.change(row, letters="e", status=_settled(row, status), ttl=ms, expires_at=NOW)

    return apply


def reopen(plan: Plan, row: Stored, *, exactly: bool = False) -> Change:
    """Open a closed row again, with the end of validity that it had before; `exactly`: with its status, too."""
    steps = read_trail(row.rest)
    while steps and steps[-1].closes:
        steps.pop()
    until = steps[-1].valid_until if steps else math.inf
    status = steps[-1].status if exactly and steps else STATUS_ACTIVE
    change = plan.change(row, status=status, valid_until=until, retired_at=math.inf, reason=0)
    change.rest.pop("superseded_by", None)
    return change


def undo_supersede(session: Session, namespace: object, key: object) -> Flow[MemoryItem]:
    """Make the head's predecessor current again; see `ForgetfulStore.undo_supersede`."""
    labels, name = check_namespace(namespace), check_key(key)
    yield from open_store(session)

    def make(seen: Seen) -> Flow[Plan]:
        chain: Chain = seen.found[1]
        row = living(seen.found[0], labels, name)
        if chain.living[0].key != name:
            raise IllegalTransitionError(
                f"{name!r} has been superseded by {row.rest.get('superseded_by')!r}:"
                " only the latest of a chain can be undone"
            )
        before = next(iter(chain.line()[1:]), None)
        if before is None or not before.closes:
            raise IllegalTransitionError(f"{name!r} supersedes no memory that is still there: there is nothing to undo")
        asked = [("r", before.key, ""), ("r", name, "")]
        its, own = (yield from look(session.frame(), encode_namespace(labels), asked)).found
        plan = Plan(seen.now, [before.key])
        # It has its slot again, or none where another row is in it by now.
        reopened, head = reopen(plan, before), plan.change(row)
        plan.rely_on_slot(its)
        plan.rely_on_slot(own)
        head.rest.pop("supersedes", None)
        if its.slot and its.slot == own.slot and row.status(seen.now) == STATUS_ACTIVE:
            head.meta = head.meta._replace(status=STATUS_ARCHIVED)
        if its.slot and its.holder == name:
            plan.fields["s", its.slot] = encode_text(before.key)
        else:
            reopened.letters += "c"
        plan.record("undo_supersede", name, reopened=before.key)
        return plan

    items = yield from transact(session, labels, [("r", name, ""), ("k", name, "")], make, since=NOW)
    return items[0]
