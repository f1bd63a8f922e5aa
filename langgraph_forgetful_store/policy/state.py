"""The part of a graph's state that the policy reads and writes; all of it is plain JSON, but the messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages

from langgraph_forgetful_store.policy.candidates import Decision

MAX_DECISIONS = 200
_CONSUMED = "$consumed"


def fingerprint(given: Any) -> str:
    """Return what tells one candidate or action from others."""
    plain = json.dumps(given, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def consumed(given: Iterable[Any]) -> list[Any]:
    """Return the update that takes candidates or actions out of the state, and leaves what others add meanwhile."""
    taken = [fingerprint(one) for one in given]
    return [{_CONSUMED: taken}] if taken else []


def _taken(one: Any) -> list[str] | None:
    found = one.get(_CONSUMED) if isinstance(one, dict) and len(one) == 1 else None
    return found if isinstance(found, list) else None


def waiting(given: Any) -> list[Any]:
    """Return the candidates or actions in a state's value, which may be one alone."""
    if given is None:
        return []
    if isinstance(given, str | dict) or not isinstance(given, Sequence):
        given = [given]
    return [one for one in given if _taken(one) is None]


def queue(left: list[Any] | None, right: Any) -> list[Any]:
    """Reduce candidates or actions: what is written is added, and what the policy has consumed is taken out."""
    held = list(left or [])
    for one in [right] if isinstance(right, str | dict) else list(right or []):
        taken = _taken(one)
        if taken is None:
            held.append(one)
            continue
        gone = list(taken)
        kept = []
        for other in held:
            name = fingerprint(other)
            if name in gone:
                gone.remove(name)
            else:
                kept.append(other)
        held = kept
    return held


def latest_decisions(left: list[Decision] | None, right: list[Decision] | None) -> list[Decision]:
    """Reduce decisions: one for each id, the last ones of them."""
    merged: dict[str, Decision] = {}
    for one in [*(left or []), *(right or [])]:
        merged.pop(one["id"], None)
        merged[one["id"]] = one
    return list(merged.values())[-MAX_DECISIONS:]


def last(left: str | None, right: str | None) -> str | None:
    """Reduce to what was written last; in parallel branches either will do."""
    return left if right is None else right


class MemoryPolicyState(TypedDict, total=False):
    """What `MemoryPolicy` reads and writes; inherit from it, or add its keys to a state of your own.

    Attributes:
        messages: The conversation.
        memory_candidates: What may become a memory: texts, or dicts with ``content`` and the fields of `remember`.
        memory_actions: What to do with memories: dicts with ``action`` and, for most, ``key``.
        memory_decisions: What was decided, latest last, at most 200.
        memory_seen: The id of the last message that candidates were extracted from.
        memory_recall_id: The last recall, which feedback of the user is about.
        memory_summary: A rolling summary of what was said before, where the graph keeps one.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    memory_candidates: Annotated[list[Any], queue]
    memory_actions: Annotated[list[dict[str, Any]], queue]
    memory_decisions: Annotated[list[Decision], latest_decisions]
    memory_seen: Annotated[str | None, last]
    memory_recall_id: Annotated[str | None, last]
    memory_summary: Annotated[str | None, last]
