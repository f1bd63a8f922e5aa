"""What happens to one memory beside its content: archive, restore, retire, pin, reinforce, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph.store.base import NOT_PROVIDED

from langgraph_forgetful_store.backend.codec import (
    FLAG_ABSOLUTE_TTL,
    FLAG_ANCHORED,
    FLAG_ARCHIVE_ON_EXPIRY,
    FLAG_PINNED,
    FOREVER,
    STATUS_ACTIVE,
    STATUS_ARCHIVED,
    STATUS_SUPERSEDED,
)
from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.backend.keys import encode_namespace
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
from langgraph_forgetful_store.model.memory_types import GENERIC, HYPOTHESIS, MemoryTypes, expiry_flags, lifetime
from langgraph_forgetful_store.model.packing import note_done, was_done
from langgraph_forgetful_store.model.places import place_of
from langgraph_forgetful_store.model.status import STATUSES
from langgraph_forgetful_store.operations.plan import (
    LINES,
    MERGED,
    MERGED_REASON,
    UPDATED,
    WITHDRAWN,
    Change,
    End,
    Found,
    Line,
    Plan,
    reason_number,
)
from langgraph_forgetful_store.operations.session import Session, open_store
from langgraph_forgetful_store.operations.transact import Seen, ask_key, look, transact
from langgraph_forgetful_store.operations.writing import start_ttl

# From this confidence on, a guess is none.
NO_GUESS = 0.5
# How far `confirm` and `deny` move a memory; the latter is ours.
CONFIRMED_CONFIDENCE, CONFIRMED_IMPORTANCE, DENIED_CONFIDENCE = 0.1, 0.05, 0.2
ANCHORED_IMPORTANCE = 0.5

# Changes a row, given its line and what it counts as; returns whether there was anything to change.
Transition = Callable[[Plan, Line, int], bool]


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
        row = seen.found[0].living(labels, name)
        if was_done(row.rest, once):
            return plan
        line = Line(plan, seen.found[0], plan.change(row))
        line.change.stamp(plan.now)
        if apply(plan, line, row.status(seen.now)):
            note_done(line.change.rest, once)
            plan.record(action, name, reason, **details)
        else:
            # It is so already: nothing is written.
            plan.rows.clear()
        return plan

    return (yield from transact(session, labels, [ask_key(name)], make, turn=name))[0]


def check_idempotency_key(value: object) -> str | None:
    """Return what tells one request from others; ``None``: nothing does.

    Raises:
        ValueError: It is neither a non-empty str nor ``None``.
    """
    return None if value is None else check_text(value, "idempotency_key")


def refuse(key: str, status: int, action: str, hint: str = "") -> IllegalTransitionError:
    """Return the error for a transition that a status does not allow."""
    return IllegalTransitionError(f"{key!r} is {STATUSES[status].value}: {action} is not possible{hint}")


def clamped(number: float) -> float:
    """Return a number as a confidence or an importance: from 0 to 1."""
    return min(1.0, max(0.0, number))


def _brought_back(plan: Plan, line: Line, status: int, action: str) -> None:
    """Restore a row that is archived; one that is superseded stays so, and the action is not possible."""
    if status == STATUS_SUPERSEDED:
        raise refuse(line.change.key, status, action)
    restored(plan, line, status)


def _is_plan(plan: Plan, change: Change) -> bool:
    return not change.begun(plan.now) and place_of(change.rest)[1] in LINES


def archived(plan: Plan, line: Line, status: int) -> bool:
    """Take it out of recall; one that is to come leaves its line, and what holds before it holds on."""
    if status == STATUS_ARCHIVED:
        return False
    if status == STATUS_SUPERSEDED:
        raise refuse(line.change.key, status, "archive")
    if _is_plan(plan, line.change):
        line.withdraw()
        line.change.uncut()
    line.change.set(status=STATUS_ARCHIVED)
    return True


def restored(plan: Plan, line: Line, status: int) -> bool:
    """Bring it back, with its ttl anew."""
    change = line.change
    if status == STATUS_ACTIVE:
        return False
    if status == STATUS_SUPERSEDED:
        raise refuse(change.key, status, "restore", ": undo_supersede reopens the latest predecessor of a chain")
    # One that was to be closed later still is.
    change.set(status=STATUS_SUPERSEDED if change.meta.reason else STATUS_ACTIVE)
    number, index = place_of(change.rest)
    if index == WITHDRAWN:
        line.insert(UPDATED, number)
    elif index in LINES:
        _share(plan, line)
    start_ttl(change, plan.now)
    return True


def _share(plan: Plan, line: Line) -> None:
    """Have one of two rows hold, where a slot became another's while this one was archived."""
    change, other = line.change, line.holder
    if other is None or not change.holds(plan.now):
        return
    first, last = sorted((change, other), key=lambda one: (one.meta.valid_from, place_of(one.rest)[0]))
    line.merge(first, last, last.meta.valid_from, MERGED_REASON)


def retired(reason: object, valid_until: object) -> Transition:
    """Close it without a successor; what is to come holds nowhere then."""
    number = reason_number(reason)
    until = None if valid_until is None else moment(valid_until, "valid_until")

    def apply(plan: Plan, line: Line, status: int) -> bool:
        change, now = line.change, plan.now
        if status == STATUS_SUPERSEDED:
            return False
        start = change.meta.valid_from
        if until is not None and until < start:
            raise ValueError(f"valid_until must not be before valid_from ({start:.0f} ms), got {until:.0f}")
        if until is None and not change.begun(now):
            if _is_plan(plan, change):
                line.withdraw()
            change.uncut()
            change.cut(start, False, number, now)
            change.set(status=STATUS_SUPERSEDED)
            return True
        own = change.end
        at = max(now, start) if until is None else until
        ahead = until is not None and until > now
        if own.at <= at:
            # It never holds beyond the end that it had.
            at, ahead = own.at, own.ahead
        line.end_itself(End(at, ahead, number, now))
        return True

    return apply


def pinned(plan: Plan, line: Line, status: int) -> bool:
    """Suspend its TTL, and keep every strategy off it."""
    if status == STATUS_SUPERSEDED:
        raise refuse(line.change.key, status, "pin")
    if line.change.meta.flags & FLAG_PINNED:
        return False
    _settle(line.change, status)
    line.change.flag(FLAG_PINNED, True)
    start_ttl(line.change, plan.now)
    return True


def _settle(change: Change, status: int) -> None:
    # What its expiry has archived stays so when the expiry moves.
    if status == STATUS_ARCHIVED:
        change.set(status=STATUS_ARCHIVED)


def unpinned(plan: Plan, line: Line, status: int) -> bool:
    """Let its TTL start anew."""
    if not line.change.meta.flags & FLAG_PINNED:
        return False
    line.change.flag(FLAG_PINNED, False)
    start_ttl(line.change, plan.now)
    return True


def demoted(by: object) -> Transition:
    """Lower its importance."""
    share = fraction(by, "by")

    def apply(plan: Plan, line: Line, status: int) -> bool:
        line.change.set(importance=clamped(line.change.meta.importance - share))
        return True

    return apply


def anchored(plan: Plan, line: Line, status: int) -> bool:
    """Make it matter again."""
    _brought_back(plan, line, status, "anchor")
    line.change.set(importance=max(line.change.meta.importance, ANCHORED_IMPORTANCE))
    line.change.flag(FLAG_ANCHORED, True)
    return True


def confirmed(types: MemoryTypes, default_ttl: int | None) -> Transition:
    """Trust it more, and bring it back where it is archived; a guess that is trusted enough is one no more.

    Args:
        types: The store's memory types.
        default_ttl: The store's, in ms.
    """

    def apply(plan: Plan, line: Line, status: int) -> bool:
        change = line.change
        _brought_back(plan, line, status, "confirm")
        change.set(
            confidence=clamped(change.meta.confidence + CONFIRMED_CONFIDENCE),
            importance=clamped(change.meta.importance + CONFIRMED_IMPORTANCE),
            confirmed_at=plan.now,
        )
        if change.memory_type == HYPOTHESIS and change.meta.confidence >= NO_GUESS:
            _sure(plan, line, types, default_ttl)
        return True

    return apply


def _sure(plan: Plan, line: Line, types: MemoryTypes, default_ttl: int | None) -> None:
    """Make a guess what it would have been, and the latest word of its slot."""
    change = line.change
    name = change.rest.get("presumed_type", GENERIC)
    kind = types[name]
    ttl, absolute = lifetime(NOT_PROVIDED, name, kind, default_ttl)
    change.type_name = name
    flags = change.meta.flags & ~(FLAG_ABSOLUTE_TTL | FLAG_ARCHIVE_ON_EXPIRY) | expiry_flags(kind, absolute)
    change.set(flags=flags, ttl=FOREVER if ttl is None else float(ttl))
    if change.owner is not None:
        line.leave(gives_back=False)
        fact = Line(plan, line.found, change)
        fact.start(None)
        fact.insert(UPDATED)
    start_ttl(change, plan.now)


def denied(plan: Plan, line: Line, status: int) -> bool:
    """Trust it less."""
    if status == STATUS_SUPERSEDED:
        raise refuse(line.change.key, status, "deny")
    line.change.set(confidence=clamped(line.change.meta.confidence - DENIED_CONFIDENCE))
    return True


def ttl_set(ttl: object) -> Transition:
    """Have it expire so many minutes from now; what is to come, from its start."""
    ms = float(ttl_to_ms(ttl))

    def apply(plan: Plan, line: Line, status: int) -> bool:
        check_end(ms, now=plan.now)
        _settle(line.change, status)
        line.change.set(ttl=ms)
        start_ttl(line.change, plan.now)
        return True

    return apply


def undo_supersede(session: Session, namespace: object, key: object) -> Flow[MemoryItem]:
    """Take back the last step of a line; see `ForgetfulStore.undo_supersede`."""
    labels, name = check_namespace(namespace), check_key(key)
    encoded = encode_namespace(labels)
    yield from open_store(session)

    def make(seen: Seen) -> Flow[Plan]:
        found: Found = seen.found[0]
        row = found.living(labels, name)
        plan = Plan(seen.now)
        head = plan.change(row)
        line = Line(plan, found, head)
        head.stamp(plan.now)
        if row.status(plan.now) == STATUS_SUPERSEDED:
            raise IllegalTransitionError(
                f"{name!r} has been superseded by {row.rest.get('superseded_by')!r}:"
                " only the latest of a chain can be undone"
            )
        asked = [ask_key(row.rest[one]) for one in ("took", "supersedes") if one in row.rest]
        more = (yield from look(session, encoded, asked)).found if asked else []
        taken = next((one for one in more if one.row is not None and not one.row.gone), None)
        before = None if taken is None or taken.row is None else plan.change(taken.row)
        if before is None and place_of(head.rest)[1] in LINES:
            # What came between has expired.
            before = line.neighbours()[0]
        took = "took" in row.rest and before is not None and before.key == row.rest["took"]
        if _is_plan(plan, head) and not took:
            raise IllegalTransitionError(f"{name!r} is to come and corrected no plan: archive or delete it")
        if before is None or (took and (before.rest.get("superseded_by") != name)):
            raise IllegalTransitionError(f"{name!r} supersedes no memory that is still there: there is nothing to undo")
        shares = "subject" in head.rest and _slot(found, head) == _slot(found, before)
        if took or any(one is before for one in line.members):
            line.leave(gives_back=True)
        else:
            before.uncut()
            head.rest.pop("supersedes", None)
            plan.unlink(before.key, MERGED, name)
            if shares or "subject" not in head.rest:
                line.leave(gives_back=True)
        before.rest.pop("superseded_by", None)
        if took:
            head.rest.pop("took", None)
            before.uncut()
            Line(plan, taken or found, before).insert(UPDATED, place_of(before.rest)[0])
        else:
            _rejoin(line, before)
        plan.wanted.append(before.key)
        if shares or "subject" not in head.rest:
            head.uncut()
        if shares:
            if row.status(plan.now) == STATUS_ACTIVE:
                head.set(status=STATUS_ARCHIVED)
            for part in ("subject", "attribute", "canonical"):
                head.rest.pop(part, None)
        head.rest.pop("chain", None)
        plan.record("undo_supersede", name, reopened=before.key)
        return plan

    return (yield from transact(session, labels, [ask_key(name)], make, turn=name))[0]


def _rejoin(line: Line, before: Change) -> None:
    """Have a row that is open again end where what follows it starts."""
    after = next((one for one in line.members if one.rest.get("supersedes") == before.key), None)
    if after is not None:
        before.rest["superseded_by"] = after.key


def _slot(found: Found, change: Change) -> tuple[str, str] | None:
    subject = change.rest.get("subject")
    if subject is None:
        return None
    joined = subject == found.subject or subject == found.canonical or subject in found.names
    return (found.canonical if joined else subject), change.rest.get("attribute", "")
