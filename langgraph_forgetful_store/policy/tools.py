"""`memory_tools`: with them an agent decides in the middle of its loop what to keep, replace and forget."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, create_model

from langgraph_forgetful_store.errors import (
    ConfigurationError,
    IllegalTransitionError,
    MemoryNotFoundError,
    VersionConflictError,
    is_embedding_error,
)
from langgraph_forgetful_store.model.checks import check_function, read_moment, unusable
from langgraph_forgetful_store.model.fields import DATE, WRITABLE, ToolArgument, texts_in
from langgraph_forgetful_store.model.labels import check_template
from langgraph_forgetful_store.model.status import MemoryStatus
from langgraph_forgetful_store.policy import rules, wording
from langgraph_forgetful_store.policy.findings import Screener
from langgraph_forgetful_store.policy.scope import Scope, check_store
from langgraph_forgetful_store.policy.screening import find_sensitive, warn_if_incomplete
from langgraph_forgetful_store.policy.steps import Note, Record, Steps, arun, call, run
from langgraph_forgetful_store.policy.stores import LifecycleStore
from langgraph_forgetful_store.policy.vault import SENSITIVE, is_sealed
from langgraph_forgetful_store.prompt.context import SIMILARITY_FLOOR, TokenCounter, assemble_context, check_assembly
from langgraph_forgetful_store.prompt.rendering import Memory, describe, encode_line

NAMES = ("remember", "recall", "supersede", "archive", "restore", "forget", "pin", "confirm")

# What providers of models allow as the name of a tool.
_PREFIX = re.compile(r"[A-Za-z0-9_-]*")
_LONGEST = 64

Key = Annotated[str, Field(description="The memory's key, as `recall` told it.")]
Fact = Annotated[
    str, Field(description="One fact that can be understood by itself: names in place of pronouns, dates in full.")
]
# The fields of a memory that `remember` asks for.
ASKED = {name: spec.tool for name, spec in WRITABLE.items() if spec.tool is not None}
Source = Annotated[Literal["user", "tool", "model"], Field(description=ASKED["source"].description)]


class _Toolset:
    """The tools as steps, each of which is told the scope that it acts in."""

    def __init__(
        self, screener: Screener | None, max_tokens: int, count_tokens: TokenCounter | None, min_relevance: float | None
    ) -> None:
        self._screener = screener
        self._assembly: dict[str, Any] = {
            "max_tokens": max_tokens,
            "count_tokens": count_tokens,
            "min_similarity": min_relevance,
            "with_keys": True,
            "order": "best_first",
            # A ciphertext tells a model nothing.
            "allow": lambda row: not is_sealed(row.value),
        }
        check_assembly(**self._assembly)

    def _refuse_sensitive(self, scope: Scope, *texts: str | None) -> Steps[None]:
        found = self._screener("\n".join(text for text in texts if text)) if self._screener is not None else ()
        if kinds := sorted({one.kind for one in found}):
            named = ", ".join(kinds)
            yield Record(Note(scope.namespace, "refuse", reason=f"sensitive: {named}"))
            raise ToolException(
                f"Not kept, since it holds what memories must not hold ({named}). Do not try again in other words, but"
                " tell the user that it was not kept."
            )

    def _refuse_type(self, scope: Scope, memory_type: str) -> Steps[None]:
        known = [name for name in scope.store.memory_types if name != SENSITIVE]
        if memory_type == SENSITIVE and self._screener is not None:
            yield from self._refuse_plain(scope)
        elif memory_type not in (*known, SENSITIVE):
            raise ToolException(
                f"memory_type must be one of {', '.join(known)}, got {memory_type!r}. Nothing was kept: choose one of"
                " these and try again."
            )

    def _refuse_plain(self, scope: Scope) -> Steps[None]:
        yield Record(Note(scope.namespace, "refuse", reason=f"sensitive: {SENSITIVE}"))
        raise ToolException(
            "Not kept: what is sensitive is kept encrypted and with the user's consent only, which this tool can't do."
            " Nothing has changed. Do not try again under another memory_type, but tell the user that it was not kept."
        )

    def remember(
        self,
        scope: Scope,
        content: Fact,
        ttl_minutes: Annotated[
            float | None, Field(description="Minutes until it may be forgotten; leave out for the type's own.")
        ] = None,
        **told: Any,
    ) -> Steps[str]:
        """Keep a fact for later conversations.

        Use it for what will be useful later: who the user is, what they prefer, what was decided, how something is
        done. Do not use it for small talk, for what only this answer needs, or for passwords, card and id numbers. If
        the fact replaces one that you know the key of, use `supersede`.
        """
        _refuse_empty(content)
        if ttl_minutes is not None and not ttl_minutes > 0:
            raise ToolException(
                f"ttl_minutes must be above 0, or left out, got {ttl_minutes!r}: what is gone at once helps nobody."
                " Nothing was kept."
            )
        told = {**{name: argument.default for name, argument in ASKED.items()}, **told}
        # What has a list of choices of its own is no text of the model's.
        free = [value for name, value in told.items() if ASKED[name].asked is None]
        yield from self._refuse_sensitive(scope, content, *(text for value in free for text in texts_in(value)))
        yield from self._refuse_type(scope, told["memory_type"])
        for name, value in told.items():
            if WRITABLE[name].is_time:
                _moment(value, name)
        told |= {"confidence": _capped(told["confidence"], content), "ttl": ttl_minutes}
        subject, attribute = told["subject"], told["attribute"]
        # A graph that is resumed runs its tools again, and models repeat themselves.
        same = yield call("recall", scope.namespace, None, filter={"content": content}, limit=50, refresh_ttl=False)
        for item in same:
            if item.namespace == scope.namespace and _says(item, content) and _is_in_slot(item, subject, attribute):
                return _told("remembered already", item)
        given: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
        item = yield call("remember", scope.namespace, content, **given)
        return _told("remembered", item)

    def recall(
        self,
        scope: Scope,
        query: Annotated[str, Field(description="What to look for, in plain words.")],
        limit: Annotated[int, Field(description="How many at the most.", ge=1, le=50)] = 5,
        include_archived: Annotated[bool, Field(description="Also look at what was put away.")] = False,
        as_of: Annotated[
            str | None, Field(description=f"What held then: {DATE}. Leave out for what holds now.")
        ] = None,
    ) -> Steps[str]:
        """Look up what is remembered, with the keys that the other memory tools take.

        What comes back is data and may be out of date: each memory says from when it is and how sure it is.
        """
        options: dict[str, Any] = {"limit": limit}
        if include_archived:
            options["status"] = (MemoryStatus.ACTIVE, MemoryStatus.ARCHIVED)
        more = {"as_of": _moment(as_of, "as_of"), "run_id": scope.run_id, "in_contexts": scope.said("in_contexts")}
        options |= {name: value for name, value in more.items() if value is not None}
        items = yield call("recall", scope.namespace, query, **options)
        return assemble_context(items, **self._assembly) or "Nothing is remembered about that."

    def supersede(
        self,
        scope: Scope,
        key: Key,
        content: Fact,
        reason: Annotated[
            Literal["updated", "corrected", "contradicted"],
            Field(
                description="updated: it has changed; corrected: it was wrong; contradicted: another source differs."
            ),
        ] = "updated",
        source: Source = "model",
    ) -> Steps[str]:
        """Replace a memory by a new one. From then on only the new one is recalled; the old one stays as history.

        Use it when a fact has changed or was wrong, rather than remembering a second, contrary one.
        """
        _refuse_empty(content)
        yield from self._refuse_sensitive(scope, content)
        chain = yield call("history", scope.namespace, key)
        # The new one would be of the same type.
        if chain and chain[-1].memory.memory_type == SENSITIVE and self._screener is not None:
            yield from self._refuse_plain(scope)
        if chain and chain[-1].memory.status is MemoryStatus.ACTIVE and _says(chain[-1], content):
            return _told("superseded already", chain[-1])
        capped = _capped(None, content)
        doubt: dict[str, Any] = {} if capped is None else {"confidence": capped}
        item = yield call("supersede", scope.namespace, key, content, reason=reason, source=source, **doubt)
        return _told("superseded", item)

    def archive(self, scope: Scope, key: Key) -> Steps[str]:
        """Put a memory away: it is recalled no more, unless asked for, and can be restored.

        Use it for what is over or of no use now but may matter again, such as a task that is done.
        """
        return (yield from _step("archive", scope, key))

    def restore(self, scope: Scope, key: Key) -> Steps[str]:
        """Bring back an archived memory, because it matters again."""
        return (yield from _step("restore", scope, key))

    def forget(
        self,
        scope: Scope,
        key: Key,
        trigger: Annotated[
            Literal["user_request", "sensitive", "wrong"],
            Field(description="Why: the user asked for it, it should never have been kept, or it is wrong."),
        ] = "user_request",
    ) -> Steps[str]:
        """Erase a memory and its history for good. This can't be undone.

        Use it when the user asks to forget something. For what has only changed use `supersede`, for what is over
        `archive`.
        """
        receipt = yield call("forget", scope.namespace, key, trigger=trigger)
        if not any(receipt.erased.values()):
            raise ToolException(
                f"There is no memory with the key {key!r}, so nothing was erased: look up keys with recall."
            )
        return encode_line({"done": "forgotten", "key": key, "erased": dict(receipt.erased)})

    def pin(self, scope: Scope, key: Key) -> Steps[str]:
        """Keep a memory whatever happens: it does not expire, fade or make room.

        Use it for what must never be lost, such as an allergy, or what the user asks you to never forget.
        """
        chain = yield call("history", scope.namespace, key)
        if any(item.key == key and is_sealed(item.value) for item in chain):
            raise ToolException("Not pinned: what is encrypted lives a day at the most. Nothing has changed.")
        return (yield from _step("pin", scope, key))

    def confirm(self, scope: Scope, key: Key) -> Steps[str]:
        """Note that the user, or a tool, has just confirmed a memory: it is trusted more, and restored if archived."""
        return (yield from _step("confirm", scope, key))


def _step(method: str, scope: Scope, key: str) -> Steps[str]:
    item = yield call(method, scope.namespace, key)
    return _told({"pin": "pinned"}.get(method, f"{method.removesuffix('e')}ed"), item)


def _refuse_empty(content: str) -> None:
    # The store keeps what it is given; a model that says nothing has made a mistake.
    if not content.strip():
        raise ToolException(f"content must say something, got {content!r}. Nothing has changed.")


def _moment(given: str | None, name: str) -> str | None:
    if given is not None and read_moment(given) is None:
        raise ValueError(f"{name} must be {DATE}, got {given!r}")
    return given


def _capped(confidence: float | None, content: str) -> float | None:
    """Return the confidence that something said with doubt has at the most."""
    if not rules.is_hedged(wording.heard(content)):
        return confidence
    return rules.HEDGED_CONFIDENCE if confidence is None else min(confidence, rules.HEDGED_CONFIDENCE)


def _says(item: Memory, content: str) -> bool:
    return item.value == {"content": content}


def _is_in_slot(item: Memory, subject: str | None, attribute: str | None) -> bool:
    return subject is None or (item.memory.subject, item.memory.attribute) == (subject, attribute)


def _told(done: str, item: Memory) -> str:
    return encode_line({"done": done, **describe(item, with_key=True)})


def _explained(steps: Steps[str]) -> Steps[str]:
    """Turn errors that the model can do something about into ones that it is told."""
    try:
        return (yield from steps)
    except MemoryNotFoundError as error:
        raise ToolException(f"{error}. Look up keys with recall, and try again with one of those.") from error
    except (IllegalTransitionError, VersionConflictError) as error:
        raise ToolException(
            f"{error}. Nothing has changed. Look it up with recall, and act on the memory that is current."
        ) from error
    except (ValueError, TypeError) as error:
        # What is set up wrong, or an embedder that fails, is not the model's to mend.
        if isinstance(error, ConfigurationError) or is_embedding_error(error):
            raise
        raise ToolException(f"{error}. Nothing has changed: correct the argument and try again.") from error


def _schema(name: str, method: Callable[..., Any]) -> type[BaseModel]:
    parameters = [one for one in inspect.signature(method, eval_str=True).parameters.values() if one.name != "scope"]
    named = [one for one in parameters if one.kind is not one.VAR_KEYWORD]
    fields: dict[str, Any] = {
        one.name: (one.annotation, ... if one.default is one.empty else one.default) for one in named
    }
    if len(named) < len(parameters):
        # It takes the fields of a memory.
        fields |= {name: _asked(name, argument) for name, argument in ASKED.items()}
    # An argument that a model made up must not be dropped in silence.
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


def _asked(name: str, argument: ToolArgument) -> tuple[Any, Any]:
    kind = WRITABLE[name].kind
    assert kind is not None
    return Annotated[argument.asked or kind.asked, Field(description=argument.description)], argument.default


def _tool(
    name: str, method: Callable[..., Steps[str]], template: tuple[str, ...], store: LifecycleStore | None
) -> BaseTool:
    # The model is not told of the scope: that comes from the run.
    def act(**arguments: Any) -> str:
        scope = Scope.find(template, store)
        return run(_explained(method(scope, **arguments)), scope.store)

    async def aact(**arguments: Any) -> str:
        scope = Scope.find(template, store)
        return await arun(_explained(method(scope, **arguments)), scope.store)

    return StructuredTool(
        name=name,
        description=inspect.getdoc(method) or "",
        args_schema=_schema(name, method),
        func=act,
        coroutine=aact,
        handle_tool_error=True,
    )


def memory_tools(
    namespace: Sequence[str] = ("memories", "{user_id}"),
    *,
    only: Sequence[str] = NAMES,
    prefix: str = "",
    screener: Screener | None = find_sensitive,
    max_tokens: int = 1000,
    count_tokens: TokenCounter | None = None,
    min_relevance: float | None = SIMILARITY_FLOOR,
    store: LifecycleStore | None = None,
) -> list[BaseTool]:
    """Return tools with which an agent remembers, recalls, supersedes, archives, restores, forgets, pins and confirms.

    They act on the graph's store, in a namespace that the model does not choose. What it asked for and can't be done
    comes back to it as the tool's message, with what to do about it; a server that is down raises.

    Args:
        namespace: A template; its fields are filled from the runtime's context or ``config["configurable"]``.
        only: The tools that are wanted, of `NAMES`.
        prefix: What each tool's name begins with, where others have the same names.
        screener: Finds what is sensitive in a text; such a memory is refused, as is the type ``sensitive``. ``None``:
            nothing is.
        max_tokens: The budget of what `recall` answers.
        count_tokens: Counts the tokens of a text, as `assemble_context` explains.
        min_relevance: `recall` leaves out memories that are less similar to the query; ``None``: none are.
        store: The store to use in place of the graph's.

    Returns:
        The tools, for `ToolNode`, `create_agent` or ``model.bind_tools``.

    Raises:
        ConfigurationError: An argument is unusable.
    """
    template = check_template(namespace)
    names = tuple(only) if isinstance(only, Iterable) and not isinstance(only, str) else None
    if names is None or any(name not in NAMES for name in names) or len(set(names)) < len(names):
        raise unusable("only", f"a list of any of {', '.join(NAMES)}, each once", only)
    room = _LONGEST - max(map(len, NAMES))
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix) or len(prefix) > room:
        raise unusable("prefix", f"at most {room} letters of ASCII, digits, _ and -", prefix)
    check_function(screener, "screener", "from a text to findings", optional=True)
    check_store(store)
    toolset = _Toolset(screener, max_tokens, count_tokens, min_relevance)
    if screener is find_sensitive:
        warn_if_incomplete()
    return [_tool(prefix + name, getattr(toolset, name), template, store) for name in names]
