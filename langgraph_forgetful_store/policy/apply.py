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
from langgraph_forgetful_store.model.lifecycle import REASONS
from langgraph_forgetful_store.policy.actions import ACTIONS, ON_MEMORIES
from langgraph_forgetful_store.policy.candidates import DECIDED, Decision
from langgraph_forgetful_store.policy.config import PolicySettings
from langgraph_forgetful_store.policy.decide import Known
from langgraph_forgetful_store.policy.deliberate import clean
from langgraph_forgetful_store.policy.lookup import current, exactly, holder
from langgraph_forgetful_store.policy.steps import Steps, call

Decide = Callable[[Decision], Steps[Decision]]
ROUNDS = 3
# What a decision's candidate holds that no write is given.
_NOT_WRITTEN = ("content", *DECIDED)
# How often they are done counts, so a run that is resumed, or several at once, must not do them again.
_COUNTED = ("confirm", "deny")
_STATED = ("user", "tool", "database")
_OF_CANDIDATES = ("remember", "supersede", "merge", "retire")
_NOTHING_TO_DO = ("refuse", "ask", "abstain")
_ALL = (*ACTIONS, "merge", *_NOTHING_TO_DO)
# What a decision can't be carried out without.
_NEEDED = {
    **dict.fromkeys(("remember", "supersede"), ("content",)),
    "end_run": ("run_id",),
    "feedback": ("recall_id", "value"),
}
_REASONS = {"UPDATE": "updated", "CONTRADICT": "contradicted", "SUPPLEMENT": "merged"}


class Changed(Exception):
    """What a decision was made on is not as it was."""


def carry_out(
    decision: Decision, reserved: str | None, again: Decide | None = None, settings: PolicySettings | None = None
) -> Steps[Decision]:
    """Do what a decision says.

    Args:
        decision: What is to be done; where it has been done, nothing is.
        reserved: The store's reserved key.
        again: Makes the decision once more, where what it was made on has changed; ``None``: it is given up.
        settings: What is sensitive by them is neither recorded nor returned.

    Returns:
        The decision that was carried out; where none was, with the action ``abstain`` and why.
    """
    settings = settings or PolicySettings()
    for _ in range(ROUNDS):
        try:
            yield from _do(decision, reserved)
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
                decision = {**decision, "action": "refuse", "reason": _why_not(error)}
                if not isinstance(error, MemoryNotFoundError | IllegalTransitionError):
                    # It may be the key that is unusable.
                    decision["key"] = None
        shown = clean(decision, settings)
        yield from _record(shown)
        return shown
    decision = clean(decision, settings)
    return {**decision, "action": "abstain", "reason": "changed: others keep changing what it was made on"}


def _is_written(decision: Decision) -> Steps[bool]:
    """Whether what a decision writes is there."""
    key = decision["key"]
    if decision["action"] not in ("remember", "supersede") or key is None:
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
        return "not_found: there is no such memory"
    if isinstance(error, IllegalTransitionError):
        return "not_possible: its status does not allow it"
    return "invalid: the store refused a value"


def _do(decision: Decision, reserved: str | None) -> Steps[None]:
    action, key, candidate = decision["action"], decision["key"], decision["candidate"]
    namespace = namespace_of(decision)
    if action == "remember":
        yield from _remember(decision, namespace, reserved)
    elif action == "supersede":
        yield from _supersede(decision, namespace)
    elif action == "end_run":
        yield call("end_run", namespace, candidate["run_id"])
    elif action == "feedback":
        yield call("feedback", candidate["recall_id"], candidate["value"], idempotency_key=decision["id"])
    elif action in ("merge", *ON_MEMORIES) and key is not None:
        yield from _step(decision, namespace, key)


def _remember(decision: Decision, namespace: Namespace, reserved: str | None) -> Steps[None]:
    candidate, key = decision["candidate"], decision["key"]
    if key is None:
        return
    there = yield from exactly(namespace, key)
    if there is not None:
        if _is_same(there, decision):
            return
        raise Changed
    if "subject" in candidate:
        # The store would supersede what holds the slot by now, but nobody decided that.
        taken = yield from holder(
            namespace, (candidate["subject"], candidate["attribute"]), candidate.get("run_id"), reserved
        )
        if taken is not None:
            raise Changed
    yield call("remember", namespace, candidate["content"], key=key, **_options(candidate))
    yield from _shorten(candidate, namespace, key)


def _supersede(decision: Decision, namespace: Namespace) -> Steps[None]:
    candidate, key, old = decision["candidate"], decision["key"], decision["supersedes"]
    if key is None or old is None:
        return
    there = yield from exactly(namespace, key)
    if there is not None:
        if _is_same(there, decision):
            return
        raise ValueError("the new key is another memory's")
    latest = yield from current(namespace, old)
    # What was retired has no successor either: it gets one, and the time between stays a gap.
    if latest is None or latest.key != old:
        raise Changed
    yield call(
        "supersede",
        namespace,
        old,
        candidate["content"],
        new_key=key,
        reason=_REASONS.get(decision["relation"] or "", "updated"),
        expected_version=candidate.get("expected_version"),
        **_options(candidate),
    )
    yield from _shorten(candidate, namespace, key)


def _shorten(candidate: Mapping[str, Any], namespace: Namespace, key: str) -> Steps[None]:
    # A ttl that a write gives is slid by reads; one that is extended stays what the type made it: absolute.
    if "expires_in" in candidate:
        yield call("set_ttl", namespace, key, candidate["expires_in"])


def _step(decision: Decision, namespace: Namespace, key: str) -> Steps[None]:
    action, candidate = decision["action"], decision["candidate"]
    if action == "forget":
        yield call("forget", namespace, key, trigger=candidate.get("trigger", "user_request"))
        return
    known = yield from exactly(namespace, key)
    if known is None:
        raise MemoryNotFoundError("there is no such memory any more")
    if action == "retire" and known.status == "superseded":
        return
    if action == "pin" and known.sealed:
        raise IllegalTransitionError("what is encrypted lives a day at the most, and is not pinned")
    expected = candidate.get("expected_version")
    if expected is not None and known.version != expected:
        raise Changed
    if action == "merge":
        if known.status == "superseded":
            raise Changed
        # To say it again confirms it; that a model infers it again does not.
        if candidate.get("source") in _STATED and not (yield from _is_recorded(decision, namespace, key)):
            yield call("confirm", namespace, key, idempotency_key=decision["id"])
    elif action == "retire" and candidate.get("reason") in REASONS:
        yield call("retire", namespace, key, reason=candidate["reason"])
    elif action in _COUNTED:
        yield call(action, namespace, key, idempotency_key=decision["id"])
    else:
        yield call(action, namespace, key)


def _is_recorded(decision: Decision, namespace: Namespace, key: str) -> Steps[bool]:
    """Whether a memory with a key of the caller's own was written for a decision before, which is no confirmation."""
    if decision["candidate"].get("key") != key:
        return False
    records = yield call("audit", namespace, key=key)
    return any(one.action == "decision" and one.details.get("id") == decision["id"] for one in records)


def _options(candidate: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in candidate.items() if name not in _NOT_WRITTEN}


def namespace_of(decision: Decision) -> Namespace:
    """Return the namespace that a decision is about."""
    return tuple(decision["candidate"]["namespace"])


def _record(decision: Decision) -> Steps[None]:
    """Have a decision audited: what and why by its code, and never what it is about, which may be to be forgotten."""
    candidate = decision["candidate"]
    details = {
        "id": decision["id"],
        "action": decision["action"],
        "relation": decision["relation"],
        "supersedes": decision["supersedes"],
        "scores": decision["scores"],
        "recall_id": candidate.get("recall_id"),
    }
    yield call(
        "record",
        namespace_of(decision),
        "decision",
        # What was forgotten keeps no record by its key but the store's own, that it was.
        key=None if decision["action"] == "forget" else decision["key"],
        reason=decision["reason"].partition(":")[0],
        details={name: value for name, value in details.items() if value is not None},
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
    if action not in _ALL:
        return f"has an unknown action; known are {', '.join(_ALL)}"
    texts = [one["id"], one["reason"]]
    if action not in _NOTHING_TO_DO and action not in ("end_run", "feedback"):
        texts.append(one["key"])
    if action == "supersede":
        texts.append(one["supersedes"])
    labels = candidate.get("namespace") if isinstance(candidate, Mapping) else None
    if not all(isinstance(text, str) and text for text in texts) or not isinstance(labels, list | tuple):
        return "has an unusable id, reason, key, supersedes or candidate"
    if not all(name in candidate for name in _NEEDED.get(action, ())):
        return f"has a candidate without {' or '.join(_NEEDED[action])}"
    if namespace is not None and tuple(labels) != namespace:
        return "is about another namespace"
    return None
