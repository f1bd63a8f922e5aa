"""Carrying out decisions: each once, and none on a memory that has changed since."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langgraph_forgetful_store.errors import (
    ConfigurationError,
    IllegalTransitionError,
    MemoryNotFoundError,
    VersionConflictError,
    is_embedding_error,
)
from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.fields import REASONS, Reason
from langgraph_forgetful_store.model.status import MemoryStatus
from langgraph_forgetful_store.policy.actions import ON_MEMORIES, WRITING
from langgraph_forgetful_store.policy.candidates import DECIDED, Decision
from langgraph_forgetful_store.policy.codes import Action, Code, code_of
from langgraph_forgetful_store.policy.config import PolicySettings
from langgraph_forgetful_store.policy.decide import CLOSES_AS, Known
from langgraph_forgetful_store.policy.deliberate import clean
from langgraph_forgetful_store.policy.judges import Relation
from langgraph_forgetful_store.policy.lookup import current, exactly, holder
from langgraph_forgetful_store.policy.steps import Note, Record, Steps, call

_RELATIONS = tuple(Relation)
Decide = Callable[[Decision], Steps[Decision]]
ROUNDS = 3
# What a decision's candidate holds that no write is given.
_NOT_WRITTEN = ("content", *DECIDED)
# How often they are done counts, so a run that is resumed, or several at once, must not do them again.
_COUNTED = (Action.CONFIRM, Action.DENY)
_STATED = ("user", "tool", "database")
_OF_CANDIDATES = (*WRITING, Action.MERGE, Action.RETIRE)
_NOTHING_TO_DO = (Action.REFUSE, Action.ASK, Action.ABSTAIN)
# What a decision can't be carried out without.
_NEEDED = {
    **dict.fromkeys(WRITING, ("content",)),
    Action.END_RUN: ("run_id",),
    Action.FEEDBACK: ("recall_id", "value"),
}
# The action by which decisions are audited.
DECIDED_ACTION = "decision"


class Changed(Exception):
    """What a decision was made on is not as it was."""


def carry_out(
    decision: Decision, again: Decide | None = None, settings: PolicySettings | None = None
) -> Steps[Decision]:
    """Do what a decision says, and have it audited in the same step.

    Args:
        decision: What is to be done; where it has been done, nothing is.
        again: Makes the decision once more, where what it was made on has changed; ``None``: it is given up.
        settings: What is sensitive by them is neither recorded nor returned.

    Returns:
        The decision that was carried out; where none was, with the action ``abstain`` and why.
    """
    settings = settings or PolicySettings()
    for _ in range(ROUNDS):
        is_recorded = False
        try:
            is_recorded = yield from _do(decision, _note(clean(decision, settings)))
        except ConfigurationError:
            raise
        except (Changed, VersionConflictError):
            if again is None:
                break
            decision = yield from again(decision)
            continue
        except (MemoryNotFoundError, IllegalTransitionError, ValueError, TypeError) as error:
            if is_embedding_error(error):
                # Nothing was wrong with what was decided: it is to be done once the embedder works again.
                raise
            if isinstance(error, MemoryNotFoundError) and again is not None and decision["action"] in _OF_CANDIDATES:
                # What it was about is gone, but what was said still holds.
                decision = yield from again(decision)
                continue
            # Of several that write at once, as in parallel branches, one is first.
            if not (yield from _is_written(decision)):
                # What the store says repeats what it was given.
                decision = {**decision, "action": str(Action.REFUSE), "reason": _why_not(error)}
                if not isinstance(error, MemoryNotFoundError | IllegalTransitionError):
                    # It may be the key that is unusable.
                    decision["key"] = None
        shown = clean(decision, settings)
        if not is_recorded:
            yield Record(_note(shown))
        return shown
    decision = clean(decision, settings)
    reason = Code.CHANGED.because("others keep changing what it was made on")
    return {**decision, "action": str(Action.ABSTAIN), "reason": reason}


def _is_written(decision: Decision) -> Steps[bool]:
    """Whether what a decision writes is there."""
    key = decision["key"]
    if decision["action"] not in WRITING or key is None:
        return False
    try:
        there = yield from exactly(namespace_of(decision), key)
    except (ValueError, TypeError):
        return False
    return there is not None and _is_same(there, decision)


def _is_same(there: Known, decision: Decision) -> bool:
    # Keys made from the decision are nobody else's: a run that was resumed, or another branch, did this before.
    return there.key == decision["id"] or there.content == decision["candidate"]["content"]


def _why_not(error: Exception) -> str:
    if isinstance(error, MemoryNotFoundError):
        return Code.NOT_FOUND.because("there is no such memory")
    if isinstance(error, IllegalTransitionError):
        return Code.NOT_POSSIBLE.because("its status does not allow it")
    return Code.INVALID.because("the store refused a value")


def _do(decision: Decision, note: Note) -> Steps[bool]:
    """Do what a decision says; returns whether it is recorded by then."""
    action, key, candidate = decision["action"], decision["key"], decision["candidate"]
    namespace = namespace_of(decision)
    if action == Action.REMEMBER:
        return (yield from _remember(decision, namespace, note))
    if action == Action.SUPERSEDE:
        return (yield from _supersede(decision, namespace, note))
    if action == Action.END_RUN:
        yield call("end_run", namespace, candidate["run_id"], note=note)
        return True
    if action == Action.FEEDBACK:
        yield call("feedback", candidate["recall_id"], candidate["value"], idempotency_key=decision["id"], note=note)
        return True
    if action in (Action.MERGE, *ON_MEMORIES) and key is not None:
        return (yield from _step(decision, namespace, key, note))
    return False


def _remember(decision: Decision, namespace: Namespace, note: Note) -> Steps[bool]:
    candidate, key = decision["candidate"], decision["key"]
    if key is None:
        return False
    there = yield from exactly(namespace, key)
    if there is not None:
        if _is_same(there, decision):
            return (yield from _is_recorded(decision, namespace, key))
        raise Changed
    if "subject" in candidate:
        # The store would supersede what holds the slot by now, but nobody decided that.
        slot = (candidate["subject"], candidate["attribute"])
        taken = yield from holder(namespace, slot, candidate.get("run_id"))
        if taken is not None:
            raise Changed
    yield call("remember", namespace, candidate["content"], key=key, note=note, **_options(candidate))
    yield from _shorten(candidate, namespace, key)
    return True


def _supersede(decision: Decision, namespace: Namespace, note: Note) -> Steps[bool]:
    candidate, key, old = decision["candidate"], decision["key"], decision["supersedes"]
    if key is None or old is None:
        return False
    there = yield from exactly(namespace, key)
    if there is not None:
        if _is_same(there, decision):
            return (yield from _is_recorded(decision, namespace, key))
        raise ValueError("the new key is another memory's")
    latest = yield from current(namespace, old)
    # What was retired has no successor either: it gets one, and the time between stays a gap.
    if latest is None or latest.key != old:
        raise Changed
    relation = decision["relation"]
    reason = CLOSES_AS.get(Relation(relation), Reason.UPDATED) if relation in _RELATIONS else Reason.UPDATED
    yield call(
        "supersede",
        namespace,
        old,
        candidate["content"],
        new_key=key,
        reason=reason.value,
        expected_version=candidate.get("expected_version"),
        note=note,
        **_options(candidate),
    )
    yield from _shorten(candidate, namespace, key)
    return True


def _shorten(candidate: Mapping[str, Any], namespace: Namespace, key: str) -> Steps[None]:
    # A ttl that a write gives is refreshed by reads; one that is set stays what the type made it: absolute.
    if "expires_in" in candidate:
        yield call("set_ttl", namespace, key, candidate["expires_in"])


def _step(decision: Decision, namespace: Namespace, key: str, note: Note) -> Steps[bool]:
    action, candidate = decision["action"], decision["candidate"]
    if action == Action.FORGET:
        yield call("forget", namespace, key, trigger=candidate.get("trigger", "user_request"), note=note)
        return True
    known = yield from exactly(namespace, key)
    if known is None:
        raise MemoryNotFoundError("there is no such memory any more")
    if action == Action.RETIRE and known.status is MemoryStatus.SUPERSEDED:
        return False
    if action == Action.PIN and known.sealed:
        raise IllegalTransitionError("what is encrypted lives a day at the most, and is not pinned")
    expected = candidate.get("expected_version")
    if expected is not None and known.version != expected:
        raise Changed
    if action == Action.MERGE:
        if known.status is MemoryStatus.SUPERSEDED:
            raise Changed
        # To say it again confirms it; that a model infers it again does not.
        said = candidate.get("source") in _STATED
        if not said or (candidate.get("key") == key and (yield from _is_recorded(decision, namespace, key))):
            # A memory with a key of the caller's own that was written for this decision confirms nothing.
            return False
        yield call("confirm", namespace, key, idempotency_key=decision["id"], note=note)
    elif action == Action.RETIRE and candidate.get("reason") in REASONS:
        yield call("retire", namespace, key, reason=candidate["reason"], note=note)
    elif action in _COUNTED:
        yield call(action, namespace, key, idempotency_key=decision["id"], note=note)
    else:
        yield call(action, namespace, key, note=note)
    return True


def _is_recorded(decision: Decision, namespace: Namespace, key: str) -> Steps[bool]:
    """Whether a decision about a memory is recorded, as it was carried out before."""
    records = yield call("audit", namespace, key=key)
    return any(one.action == DECIDED_ACTION and one.details.get("id") == decision["id"] for one in records)


def _options(candidate: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in candidate.items() if name not in _NOT_WRITTEN}


def namespace_of(decision: Decision) -> Namespace:
    """Return the namespace that a decision is about."""
    return tuple(decision["candidate"]["namespace"])


def _note(decision: Decision) -> Note:
    """Return what is recorded of a decision: what and why by its code, and never what it is about, which may be to be
    forgotten.
    """
    details = {
        "id": decision["id"],
        "action": decision["action"],
        "relation": decision["relation"],
        "supersedes": decision["supersedes"],
        "scores": decision["scores"],
        "recall_id": decision["candidate"].get("recall_id"),
    }
    return Note(
        namespace_of(decision),
        DECIDED_ACTION,
        # What was forgotten keeps no record by its key but the store's own, that it was.
        None if decision["action"] == Action.FORGET else decision["key"],
        code_of(decision["reason"]),
        {name: value for name, value in details.items() if value is not None},
    )


def check_decisions(given: Any, namespace: Namespace | None = None) -> list[Decision]:
    """Check decisions that come from elsewhere.

    Args:
        given: What `MemoryPolicy.decide` returned, perhaps by way of JSON.
        namespace: The only one that they may be about; ``None``: any.

    Raises:
        ValueError: They are none, or about another namespace.
    """
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise ValueError(f"decisions must be a list of what decide returned, got {type(given).__name__}")
    for at, one in enumerate(given):
        if problem := _problem(one, namespace):
            raise ValueError(f"decisions must be a list of what decide returned, but the one at {at} {problem}")
    return list(given)


def _problem(one: Any, namespace: Namespace | None) -> str | None:
    if not isinstance(one, Mapping):
        return f"is a {type(one).__name__}"
    if lacking := [name for name in Decision.__annotations__ if name not in one]:
        return f"lacks {', '.join(lacking)}"
    action, candidate = one["action"], one["candidate"]
    if action not in tuple(Action):
        return f"has an unknown action; known are {', '.join(Action)}"
    texts = [one["id"], one["reason"]]
    if action not in _NOTHING_TO_DO and action not in (Action.END_RUN, Action.FEEDBACK):
        texts.append(one["key"])
    if action == Action.SUPERSEDE:
        texts.append(one["supersedes"])
    labels = candidate.get("namespace") if isinstance(candidate, Mapping) else None
    if not all(isinstance(text, str) and text for text in texts) or not isinstance(labels, list | tuple):
        return "has an unusable id, reason, key, supersedes or candidate"
    if not all(name in candidate for name in _NEEDED.get(action, ())):
        return f"has a candidate without {' or '.join(_NEEDED[action])}"
    if namespace is not None and tuple(labels) != namespace:
        return "is about another namespace"
    return None
