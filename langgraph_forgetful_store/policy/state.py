"""The part of a graph's state that the policy reads and writes; all of it is plain JSON, but the messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages

# Not typing's, which could not be mixed with LangGraph's MessagesState.
from typing_extensions import TypedDict

from langgraph_forgetful_store.policy.candidates import Decision, fingerprint

T = TypeVar("T")
MAX_DECISIONS = 200


def read_state(state: Any, name: str) -> Any:
    """Return a value of a state, which may be a mapping or an object; ``None`` where it has none."""
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


@dataclass(frozen=True, slots=True)
class _Mark:
    """What a policy leaves in a queue: what it has taken out, and what nothing could be decided about.

    The value of a graph is what its parent's reducer is given, so in a graph below another the mark stays in the queue
    until the graph is done, and rises. What is left is in it alone there: as a part of the value it would be added to
    what the parent has of it.

    Attributes:
        gone: The fingerprints of what is taken out.
        kept: What is left: added where the queue does not have it, as after a `Send`, or where no reducer merges.
        rises: How many queues it has yet to reach, the next among them.
        by: Tells it from others; ``""``: nothing does.
    """

    gone: tuple[str, ...]
    kept: tuple[Any, ...] = ()
    rises: int = 1
    by: str = ""

    @classmethod
    def read(cls, given: Any) -> _Mark | None:
        """Read what `to_json` returned; ``None`` where it is something else."""
        if not isinstance(given, dict) or not given.keys() <= _MARK or not isinstance(given.get(_GONE), list):
            return None
        return cls(tuple(given[_GONE]), tuple(given.get(_KEPT, ())), given.get(_RISES, 1), given.get(_BY, ""))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON, which checkpoints may hold."""
        return {_GONE: list(self.gone), _KEPT: list(self.kept), _RISES: self.rises, _BY: self.by}


_GONE, _KEPT, _RISES, _BY = "$consumed", "$kept", "$rises", "$by"
_MARK = {_GONE, _KEPT, _RISES, _BY}
# A graph below another that keeps its state between runs keeps its mark too, which must not grow without end.
_MAX_GONE = 1000


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return [given] if isinstance(given, str | dict) or not isinstance(given, Sequence) else list(given)


def _names(given: Iterable[Any]) -> list[str]:
    return [fingerprint(one) for one in given]


def _without(given: Iterable[Any], names: Iterable[str]) -> tuple[list[Any], list[str]]:
    """Take out one item for each name; returns what is left of both."""
    left, open_names = [], list(names)
    for one in given:
        name = fingerprint(one) if open_names else ""
        if name in open_names:
            open_names.remove(name)
        else:
            left.append(one)
    return left, open_names


def consumed(held: Iterable[Any], left: Iterable[Any] = (), *, level: int = 0, by: str = "") -> list[Any]:
    """Return the update that takes candidates or actions out of the state, and leaves what others add meanwhile.

    Args:
        held: All that was looked at.
        left: What stays, or is to be added: what nothing could be decided about. Of several that are the same one will
            do: they are decided about as one.
        level: How many graphs are around the one whose node this is.
        by: Tells this update from others, so that a queue to which it comes back does not take out what is new.
    """
    kept = list({fingerprint(one): one for one in left}.values())
    gone, _ = _without(held, _names(kept))
    if not gone and not kept:
        return []
    names = tuple(_names(gone))
    return [_Mark(names, tuple(kept), level + 1, by and fingerprint([by, names, kept])).to_json()]


def pending(given: Any) -> list[Any]:
    """Return the candidates or actions that wait in a state's value, which may be one alone.

    In a graph below another a queue also holds a mark of what has been dealt with, and what is left beside it: to ask
    whether anything waits, as a conditional edge does, ask ``pending(state["memory_candidates"])``.

    Args:
        given: The value that the state holds under ``memory_candidates`` or ``memory_actions``.
    """
    held: list[Any] = []
    for one in _listed(given):
        mark = _Mark.read(one)
        if mark is None:
            held.append(one)
        else:
            held, _ = _without(held, mark.gone)
            held += _without(mark.kept, _names(held))[0]
    return held


def queue(left: Any, right: Any) -> list[Any]:
    """Reduce candidates or actions: what is written is added, and what the policy has consumed is taken out."""
    rising, held = _split(left)
    for one in _listed(right):
        mark = _Mark.read(one)
        if mark is None:
            held.append(one)
        # A graph below was given this queue's value, and returns it.
        elif rising is None or not mark.by or mark.by != rising.by:
            rising, held = _marked(rising, held, mark)
    return held if rising is None else [rising.to_json(), *held]


def _split(value: Any) -> tuple[_Mark | None, list[Any]]:
    rising: _Mark | None = None
    held: list[Any] = []
    for one in _listed(value):
        mark = _Mark.read(one)
        if mark is None:
            held.append(one)
        elif rising is None:
            rising = mark
    return rising, held


def _marked(rising: _Mark | None, held: list[Any], mark: _Mark) -> tuple[_Mark | None, list[Any]]:
    """Do to a queue what a mark says, and keep it where it has to rise further."""
    before, gone = _without(() if rising is None else rising.kept, mark.gone)
    held, _ = _without(held, gone)
    added, _ = _without(mark.kept, _names(before))
    level, here = mark.rises - 1, 0 if rising is None else rising.rises
    if level < max(1, here):
        # It rises no further; or it is one from above, in the value that this graph was given.
        left = held + _without(added, _names(held))[0]
        return None if rising is None else replace(rising, kept=tuple(before)), left
    # What came with a value from above is not to be taken out there again.
    past = rising.gone if rising is not None and level == here else ()
    held, _ = _without(held, _names(added))
    return _Mark((*past, *mark.gone)[-_MAX_GONE:], (*before, *added), level, mark.by), held


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
        memory_context: A part of the prompt, ``""`` where nothing was found.
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
        messages: The messages of the conversation.
        memory_candidates: What may become a memory: texts, or dicts with ``content`` and the fields of `remember`. In a
            graph below another, ask `pending` what is in it: there a mark stays, of what the parent is to take out.
        memory_actions: What to do with memories: dicts with ``action`` and, for most, ``key``.
        memory_decisions: What was decided, latest last, at most 200.
        memory_seen: The id of the last message that candidates were extracted from.
        memory_summary: A rolling summary of what was said before, where the graph keeps one.
        recalled_memories: What the context holds, best first, as plain JSON.
        memory_context: A part of the prompt, ``""`` where nothing was found.
        memory_recall_id: What `ForgetfulStore.feedback` is given; decisions tell which recall came before them.
        memory_answered_recall_id: The recall before the user's last message, which the user's feedback is about. Where
            a state lacks it, the feedback is about ``memory_recall_id``.
    """

    messages: Annotated[list[AnyMessage], add_messages]
