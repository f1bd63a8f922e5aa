"""Actions: what the user, or the graph, asks to be done with memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.memory import read_recall_id
from langgraph_forgetful_store.model.options import TRIGGERS
from langgraph_forgetful_store.model.status import MemoryStatus
from langgraph_forgetful_store.policy import wording
from langgraph_forgetful_store.policy.calibration import LITERAL_THRESHOLD
from langgraph_forgetful_store.policy.candidates import (
    Decision,
    Invalid,
    fingerprint,
    no_answers,
    source_messages,
    texts,
)
from langgraph_forgetful_store.policy.codes import Action, Code
from langgraph_forgetful_store.policy.decide import Known
from langgraph_forgetful_store.policy.lookup import ANY, OPEN, exactly, names_of, similar_to
from langgraph_forgetful_store.policy.steps import Steps
from langgraph_forgetful_store.policy.subjects import Subject, described

# These go the way of candidates: what they write is verified, screened and compared too.
WRITING = (Action.REMEMBER, Action.SUPERSEDE)
ON_MEMORIES = (
    Action.ARCHIVE,
    Action.RESTORE,
    Action.RETIRE,
    Action.FORGET,
    Action.PIN,
    Action.UNPIN,
    Action.CONFIRM,
    Action.DENY,
)
ACTIONS = (*WRITING, *ON_MEMORIES, Action.END_RUN, Action.FEEDBACK)
# What an action's reason may be to be told as a code.
_SAID = (Code.ASKED, Code.DONE, *TRIGGERS)
_SEALED = Code.SENSITIVE.because("what is encrypted lives a day at the most, and is not pinned")
# One request does not mean more of them.
MOST = 5
_KNOWN = (
    "action",
    "key",
    "about",
    "said",
    "reason",
    "run_id",
    "recall_id",
    "value",
    "memory_types",
    "source_messages",
    "trigger",
)


def check_action(given: object) -> dict[str, Any]:
    """Return an action as a plain dict.

    Raises:
        Invalid: It is no dict, its action is unknown, or it lacks what it needs; the message says what.
    """
    if not isinstance(given, Mapping):
        raise Invalid("action", f"an action must be a dict with action, got {type(given).__name__}")
    name = given.get("action")
    if name not in ACTIONS:
        raise Invalid("action", f"action must be one of {', '.join(ACTIONS)}")
    if name in WRITING:
        if name == Action.SUPERSEDE and not _is_text(given.get("key")):
            raise Invalid("key", "supersede needs key, the memory that is replaced")
        return dict(given)
    if unknown := [repr(key) for key in given if key not in _KNOWN]:
        raise Invalid(
            "unknown fields", f"{name} has unknown fields {', '.join(unknown)}; known are {', '.join(_KNOWN)}"
        )
    for field, check in _CHECKS.items():
        if given.get(field) is not None:
            try:
                check(given[field])
            except ValueError:
                raise Invalid(field, f"{field} of {name} is unusable") from None
    if name in ON_MEMORIES and given.get("key") is None and given.get("about") is None:
        raise Invalid("key", f"{name} needs key, or about: what the memory is about")
    if name == Action.END_RUN and given.get("run_id") is None:
        raise Invalid("run_id", "end_run needs run_id")
    if name == Action.FEEDBACK and (isinstance(given.get("value"), bool) or given.get("value") not in (1, -1)):
        raise Invalid("value", "feedback needs value, 1 or -1")
    return dict(given)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _insist(wanted: bool) -> None:
    if not wanted:
        raise ValueError


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    **dict.fromkeys(("key", "run_id"), lambda value: _insist(_is_text(value))),
    **dict.fromkeys(("about", "said", "reason"), lambda value: _insist(isinstance(value, str))),
    "trigger": lambda value: _insist(value in TRIGGERS),
    "recall_id": read_recall_id,
    "memory_types": lambda value: texts(value, "memory_types"),
    "source_messages": source_messages,
}


def as_candidate(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return the candidate that a writing action stands for."""
    given = {name: value for name, value in action.items() if name not in ("action", "about", "said", "reason")}
    if action["action"] == Action.SUPERSEDE:
        given["relation_to"] = given.pop("key")
        if new_key := given.pop("new_key", None):
            given["key"] = new_key
    return {"explicit": True, **given}


def shown(action: Mapping[str, Any], namespace: Namespace) -> dict[str, Any]:
    """Return an action as decisions show it: without the user's own words, which may hold what is to be forgotten."""
    hidden = ("source_messages", "said", "about")
    return {**{name: value for name, value in action.items() if name not in hidden}, "namespace": list(namespace)}


def decide_action(
    action: Mapping[str, Any], namespace: Namespace, name: str, answered_id: str | None
) -> Steps[list[Decision]]:
    """Return the decisions about an action: one for each memory that it is about, or why there is none."""
    what = action["action"]
    # The code of a decision's reason is audited, so it is none of the caller's own.
    said = action["reason"] if action.get("reason") in _SAID else Code.ASKED.value
    if what == Action.FORGET and not _users_own(action):
        return [
            _decision(
                action, namespace, name, Action.ASK, None, Code.UNCLEAR.because("no message of the user asks for it")
            )
        ]
    if what == Action.END_RUN:
        return [_decision(action, namespace, name, what, None, f"{said}: the run is over")]
    if what == Action.FEEDBACK:
        wanted = action.get("recall_id") or answered_id
        if wanted is None:
            missing = Code.NO_RECALL.because("nothing was recalled that it could be about")
            return [_decision(action, namespace, name, Action.REFUSE, None, missing)]
        return [
            _decision({**action, "recall_id": wanted}, namespace, name, what, None, f"{said}: about what was recalled")
        ]
    if isinstance(action.get("key"), str):
        known = yield from exactly(namespace, action["key"])
        if known is None and what != Action.FORGET:
            return [
                _decision(
                    action, namespace, name, Action.REFUSE, None, Code.NOT_FOUND.because("there is no such memory")
                )
            ]
        if _is_kept(what, known):
            return [_decision(action, namespace, name, Action.REFUSE, known, _SEALED)]
        return [_decision(action, namespace, name, what, known, f"{said}: by its key", action["key"])]
    found = yield from _meant(action, namespace)
    if isinstance(found, str):
        return [_decision(action, namespace, name, Action.ASK, None, Code.UNCLEAR.because(found))]
    if not found:
        return [
            _decision(action, namespace, name, Action.REFUSE, None, Code.NOT_FOUND.because("no memory is about it"))
        ]
    decisions = []
    for known in found:
        # Each has an id of its own, the same on a resume: what has been done by then may change how many there are, and
        # their order.
        one = fingerprint([name, known.key])
        if _is_kept(what, known):
            decisions.append(_decision(action, namespace, one, Action.REFUSE, known, _SEALED))
        else:
            decisions.append(_decision(action, namespace, one, what, known, f"{said}: {why(action, known)}"))
    return decisions


def _users_own(action: Mapping[str, Any]) -> bool:
    """Whether the user may have asked for an action: what a tool or the model says erases nothing."""
    sources = source_messages(action.get("source_messages"))
    return not sources or any(one.get("role", "user") == "user" for one in sources)


def _is_kept(what: str, known: Known | None) -> bool:
    """Whether an action would keep a sealed memory beyond its day."""
    return what == Action.PIN and known is not None and known.sealed


def why(action: Mapping[str, Any], known: Known) -> str:
    """Say why a memory is meant."""
    if known.slot is not None:
        return "it is about {}/{}".format(*known.slot)
    return "it is about that" if action.get("about") else "it is the only one open"


def _meant(action: Mapping[str, Any], namespace: Namespace) -> Steps[list[Known] | str]:
    """Return the memories that an action is about, or why that is not clear."""
    about = str(action["about"]).strip()
    types = action.get("memory_types")
    if not wording.telling_words(about):
        if action["action"] == Action.FORGET or types is None:
            return "it does not say which memory"
        open_ones = yield from similar_to(namespace, "", types, action.get("run_id"))
        open_ones = [one for one in open_ones if one.status is MemoryStatus.ACTIVE]
        return open_ones if len(open_ones) <= 1 else f"{len(open_ones)} memories could be meant"
    erases = action["action"] == Action.FORGET
    # What is closed is kept too, until it is erased.
    near = yield from similar_to(namespace, about, types, action.get("run_id"), ANY if erases else OPEN)
    names = yield from names_of(namespace)
    subject = Subject.of(about)
    looked = [(one, described(one, names)) for one in near]
    # To erase what was before would erase what took its place.
    latest = [(one, memory) for one, memory in looked if not one.followed]
    # What is called so counts before what is only another word for it, and that before a word somewhere in a text.
    found = [one for one, memory in latest if subject.names(memory)]
    if not found:
        meant = [(one, memory) for one, memory in latest if subject.means(memory)]
        mentioned = [(one, memory) for one, memory in latest if subject.occurs_in(memory)]
        if erases and subject.is_vague and mentioned and not meant:
            return "it is only mentioned in what is known"
        pairs = meant or mentioned
        if erases and pairs and not subject.is_plain:
            return "it does not say what of it is to be forgotten"
        if erases and not all(subject.is_all_of(memory) for _, memory in pairs):
            return "what is known says more than that"
        found = [one for one, _ in pairs]
    if not found:
        if any(subject.names(memory) or subject.means(memory) for _, memory in looked):
            return "it is only what was known before"
        # Similarity only proposes: alone it erases nothing.
        close = [one for one in near if one.similarity is not None and one.similarity >= LITERAL_THRESHOLD]
        return "something similar is known, in other words" if close else []
    return found if len(found) <= MOST else f"{len(found)} memories are about it"


def _decision(
    action: Mapping[str, Any],
    namespace: Namespace,
    name: str,
    what: str,
    known: Known | None,
    reason: str,
    key: str | None = None,
) -> Decision:
    candidate = shown(action, namespace)
    if known is not None:
        candidate["expected_version"] = known.version
    found = known.key if known is not None else key
    return Decision(
        id=name,
        candidate=candidate,
        relation=None,
        action=str(what),
        key=found,
        supersedes=None,
        reason=reason,
        scores={} if known is None or known.similarity is None else {"similarity": known.similarity},
        answers=no_answers(),
    )
