"""The part of a graph's state that the policy reads and writes; all of it is plain JSON, but the messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages

# Not typing's, which could not be mixed with LangGraph's MessagesState.
from typing_extensions import TypedDict

from langgraph_forgetful_store.policy.candidates import Decision, fingerprint

T = TypeVar("T")
MAX_DECISIONS = 200
_CONSUMED = "$consumed"


def read_state(state: Any, name: str) -> Any:
    """Return a value of a state, which may be a mapping or an object; ``None`` where it has none."""
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


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


def last(left: T, right: T) -> T:
    """Reduce to what was written last, and be it nothing; in parallel branches either will do."""
    return right


class RecalledState(TypedDict, total=False):
    """What `RecallMemories` writes into a graph's state; `MemoryPolicyState` has it too.

    Attributes:
        recalled_memories: What the context holds, best first, as plain JSON.
        memory_context: A part of the prompt; ``""`` where nothing was found.
        memory_recall_id: What `ForgetfulStore.feedback` is given: it names what was found and is in the context.
        memory_answered_recall_id: The one before the user's last message, which is what that message may complain of.
    """

    recalled_memories: Annotated[list[dict[str, Any]], last]
    memory_context: Annotated[str, last]
    memory_recall_id: Annotated[str | None, last]
    memory_answered_recall_id: Annotated[str | None, last]


class DecidedState(RecalledState, total=False):
    """What `MemoryPolicy` reads and writes beside the messages; see `MemoryPolicyState`."""

    memory_candidates: Annotated[list[Any], queue]
    memory_actions: Annotated[list[dict[str, Any]], queue]
    memory_decisions: Annotated[list[Decision], latest_decisions]
    memory_seen: Annotated[str | None, last]
    memory_summary: Annotated[str | None, last]


class MemoryPolicyState(DecidedState, total=False):
    """What `MemoryPolicy` and `RecallMemories` read and write; inherit from it, or add its keys to a state of your own.

    Attributes:
        messages: The conversation.
        memory_candidates: What may become a memory: texts, or dicts with ``content`` and the fields of `remember`.
        memory_actions: What to do with memories: dicts with ``action`` and, for most, ``key``.
        memory_decisions: What was decided, latest last, at most 200.
        memory_seen: The id of the last message that candidates were extracted from.
        memory_summary: A rolling summary of what was said before, where the graph keeps one.
        recalled_memories: As in `RecalledState`.
        memory_context: Likewise.
        memory_recall_id: Likewise; decisions tell which recall came before them.
        memory_answered_recall_id: Likewise; the user's feedback is about it. Where a state lacks it, it is about
            ``memory_recall_id``.
    """

    messages: Annotated[list[AnyMessage], add_messages]
