"""`RecallMemories`: the node before the model, which recalls what the user's message is about."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard, Unpack

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.store.base import Item

from langgraph_forgetful_store.errors import IllegalTransitionError, MemoryNotFoundError, is_embedding_error
from langgraph_forgetful_store.model.checks import as_settings, check_flag, check_function, check_text
from langgraph_forgetful_store.model.documented import twin_of
from langgraph_forgetful_store.model.filters import compile_filter
from langgraph_forgetful_store.model.labels import check_template
from langgraph_forgetful_store.model.memory import recall_id_of
from langgraph_forgetful_store.model.options import IGNORE, ONLY, RecallOptions, check_options, without_reserved
from langgraph_forgetful_store.model.status import MemoryStatus
from langgraph_forgetful_store.policy.candidates import USER_SUBJECT
from langgraph_forgetful_store.policy.mentions import mentions
from langgraph_forgetful_store.policy.scope import Scope, check_store
from langgraph_forgetful_store.policy.state import RecalledState, read_state
from langgraph_forgetful_store.policy.steps import Steps, arun, call, run
from langgraph_forgetful_store.policy.stores import LifecycleStore
from langgraph_forgetful_store.policy.vault import is_sealed
from langgraph_forgetful_store.prompt.context import (
    SIMILARITY_FLOOR,
    Address,
    MemoryContext,
    Order,
    TokenCounter,
    build_context,
    check_assembly,
)
from langgraph_forgetful_store.prompt.rendering import Memory

# How many rows of a kind are looked at; ours.
ALWAYS_TOLD, WITH_NAMES, ANCHORED, SEEDS = 50, 1000, 20, 5
# What says which memories are in scope, not which of them are found.
_SCOPING = (
    "filter",
    "memory_types",
    "tags",
    "subject",
    "attribute",
    "pinned",
    "run_id",
    "in_contexts",
    "min_confidence",
    "as_of",
    "known_at",
)
_LISTS = ("memory_types", "tags", "subject", "attribute", "in_contexts", "status", "negative")
_PAST = ("as_of", "known_at")
_PER_RUN = ("in_contexts", "goal")
# What only an embedder can tell.
_BY_MEANING = ("min_similarity", "archived_above", "goal", "negative")
logger = logging.getLogger("langgraph_forgetful_store")


def last_user_message(messages: Any) -> tuple[str, bool]:
    """Return the text of the user's last message, and whether nothing was said since; ``""`` where there is none."""
    if not messages:
        return "", False
    read: Sequence[BaseMessage] = convert_to_messages(messages)
    for at, message in enumerate(reversed(read)):
        if isinstance(message, HumanMessage):
            return str(message.text), at == 0
    return "", False


class RecallMemories(Runnable[Any, RecalledState]):
    """A node that recalls what the user's last message is about, and writes it into the state as a part of a prompt.

    It recalls with the message as the query; adds what is pinned or of type identity in the same scope, and what is
    linked to the best that were found; and assembles them within a budget (see `assemble_context`). Before, where the
    message names the subject of a memory, active or archived, an alias of that, or a tag, the memory is anchored: it
    matters again, and is restored. The word ``user``, the subject of what users say of themselves, names none.

    The store is the graph's. ``run_id``, ``in_contexts`` and ``goal`` are taken from the runtime's context, or from
    ``config["configurable"]``, where they are given there.

    Args:
        namespace: A template; its fields are filled from the runtime's context or ``config["configurable"]``.
        max_tokens: The budget of the context, in tokens.
        count_tokens: Counts the tokens of a text, as `assemble_context` explains.
        order: The order of the context, ``"edges"`` or ``"best_first"``, as `assemble_context` explains.
        allow: Leaves out of the context those for which it returns ``False``.
        neighbors: Whether what is linked to the best memories is told.
        anchor: Whether what the message names is anchored.
        with_keys: Whether the context tells the keys, for models with `memory_tools`.
        messages_key: The key under which the state holds the messages.
        store: The store to use in place of the graph's.
        **options: Any of the keys of `RecallOptions`, as keyword arguments. ``min_relevance`` is .2 unless it is given:
            a memory is told if its cosine with the message comes up to it, or if it holds half of the message's words.
            ``None``: there is no floor.

    Raises:
        ConfigurationError: An argument is unusable.
    """

    def __init__(
        self,
        namespace: Sequence[str] = ("memories", "{user_id}"),
        *,
        max_tokens: int = 1000,
        count_tokens: TokenCounter | None = None,
        order: Order = "edges",
        allow: Callable[[Memory], bool] | None = None,
        neighbors: bool = True,
        anchor: bool = True,
        with_keys: bool = False,
        messages_key: str = "messages",
        store: LifecycleStore | None = None,
        **options: Unpack[RecallOptions],
    ) -> None:
        self.name = "recall_memories"
        self._namespace = check_template(namespace)
        self._floor = options.pop("min_relevance", SIMILARITY_FLOOR)
        self._options = _checked(options)
        check_function(allow, "allow", "of a memory", optional=True)
        for name, flag in (("neighbors", neighbors), ("anchor", anchor)):
            check_flag(flag, name)
        with as_settings():
            check_text(messages_key, "messages_key")
        check_store(store)
        self._assembly: dict[str, Any] = {
            "max_tokens": max_tokens,
            "count_tokens": count_tokens,
            "order": order,
            "rank": "score" if options.get("rerank") is None else "given",
            "min_relevance": None,
            # A ciphertext tells a model nothing.
            "allow": lambda row: not is_sealed(row.value) and (allow is None or allow(row)),
            "with_keys": with_keys,
        }
        check_assembly(**{**self._assembly, "min_relevance": self._floor})
        self._neighbors, self._anchor = neighbors, anchor
        self._messages_key, self._store = messages_key, store

    def __repr__(self) -> str:
        told = {"max_tokens": self._assembly["max_tokens"], **self._options, "store": self._store}
        return f"RecallMemories({self._namespace!r}, {', '.join(f'{name}={value!r}' for name, value in told.items())})"

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> RecalledState:
        """Recall for a state.

        Args:
            input: The state: a mapping, or an object with attributes.
            config: The run's config, which fills in the namespace; in a graph it is the graph's.
            **kwargs: What a `Runnable` may be given; none of it is used.

        Returns:
            The update of the state.

        Raises:
            ConfigurationError: There is no store, or the namespace can't be filled.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        scope = Scope.find(self._namespace, self._store, config)
        return run(self._steps(input, scope), scope.store)

    @twin_of(invoke)
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> RecalledState:
        """The async twin of `invoke`."""
        scope = Scope.find(self._namespace, self._store, config)
        return await arun(self._steps(input, scope), scope.store)

    def _steps(self, state: Any, scope: Scope) -> Steps[RecalledState]:
        text, is_new = last_user_message(read_state(state, self._messages_key))
        options = {**self._options, **{name: said for name in _PER_RUN if (said := scope.said(name)) is not None}}
        if options.get("run_id") is None and scope.run_id is not None:
            options["run_id"] = scope.run_id
        if isinstance(options.get("in_contexts"), str):
            options["in_contexts"] = (options["in_contexts"],)
        scoping = {name: options[name] for name in _SCOPING if options.get(name) is not None}
        is_past = any(name in scoping for name in _PAST)
        # In the middle of a loop the message has had its effect, and a look at the past must leave no trace.
        if self._anchor and is_new and text.strip() and not is_past:
            yield from self._anchor_named(scope, text, scoping)
        found: list[Memory] = []
        warning: str | None = None
        if text.strip():
            more, warning = yield from recalled(scope, text, {**options, "min_relevance": self._floor})
            found += more
        always = yield from self._always_told(scope, scoping)
        # Links are those of now.
        matches = None if is_past or not self._neighbors else _in_scope(scoping, scope.store.reserved_key)
        context = yield from self._assemble(found, always, matches)
        update = RecalledState(
            recalled_memories=[item.dict() for item in context.items],
            memory_context=context.text,
            memory_recall_id=recall_id_of(context.items),
            memory_warning=warning,
        )
        if is_new:
            update["memory_answered_recall_id"] = read_state(state, "memory_recall_id")
        return update

    def _listed(self, scope: Scope, limit: int, scoping: Mapping[str, Any], **asked: Any) -> Any:
        """Return the call that lists rows by their lifecycle fields, without a trace."""
        # What is in scope is narrower than "any".
        wanted = {name: part for name, part in asked.items() if part is not True or name not in scoping}
        return call("recall", scope.namespace, None, **{**scoping, **wanted, "limit": limit, "refresh_ttl": False})

    def _always_told(self, scope: Scope, scoping: Mapping[str, Any]) -> Steps[list[Memory]]:
        found: list[Memory] = []
        types = scoping.get("memory_types", True)
        if types is True or "identity" in types:
            found += yield self._listed(scope, ALWAYS_TOLD, scoping, memory_types=("identity",))
        if scoping.get("pinned") is not False:
            found += yield self._listed(scope, ALWAYS_TOLD, scoping, pinned=True)
        return found

    def _anchor_named(self, scope: Scope, text: str, scoping: Mapping[str, Any]) -> Steps[None]:
        anywhere = {**scoping, "status": (MemoryStatus.ACTIVE, MemoryStatus.ARCHIVED)}
        rows: dict[Address, Memory] = {}
        for field in ("subject", "tags"):
            listed = yield self._listed(scope, WITH_NAMES, anywhere, **{field: True})
            rows |= {(row.namespace, row.key): row for row in listed}
        groups = {}
        for namespace in {row.namespace for row in rows.values() if row.memory.subject is not None}:
            groups[namespace] = yield call("aliases", namespace)
        named = [row for row in rows.values() if mentions(text, _names(row, groups.get(row.namespace, {})))]
        for row in named[:ANCHORED]:
            try:
                yield call("anchor", row.namespace, row.key)
            except (MemoryNotFoundError, IllegalTransitionError):
                # Another has changed it since.
                continue

    def _assemble(
        self, items: Sequence[Memory], always: Sequence[Memory], may_follow: Callable[[Memory], bool] | None
    ) -> Steps[MemoryContext]:
        context = build_context(items, aside=always, **self._assembly)
        if may_follow is None or not context.items:
            return context
        related: dict[Address, list[tuple[str, Memory]]] = {}
        for row in context.items[:SEEDS]:
            try:
                pairs = yield call("neighbors", row.namespace, row.key)
            except MemoryNotFoundError:
                # Another has deleted it since.
                continue
            related[row.namespace, row.key] = [pair for pair in pairs if may_follow(pair[1])]
        return build_context(items, aside=always, related=related, **self._assembly)


def recalled(scope: Scope, query: str, options: Mapping[str, Any]) -> Steps[tuple[list[Memory], str | None]]:
    """Recall; by words alone where the embedder fails, so that a turn goes on.

    Returns:
        What was found, and a warning where the embedder failed.
    """
    try:
        return (yield call("recall", scope.namespace, query, **options)), None
    except Exception as error:
        if not is_embedding_error(error):
            raise
        warning = f"found by words alone, since the embedder failed: {type(error).__name__}: {error}"
        logger.warning("memories of %r were %s", scope.namespace, warning)
    by_words = {name: value for name, value in options.items() if name not in _BY_MEANING}
    found = yield call("recall", scope.namespace, query, **{**by_words, "words_only": True, "scoring": "relevance"})
    return found, warning


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a recall, of which each that may be a list is one, so that no run can exhaust it."""
    checked = dict(options)
    for name in _LISTS:
        given = checked.get(name)
        if isinstance(given, str | Item):
            checked[name] = (given,)
        elif isinstance(given, Iterable):
            checked[name] = tuple(given)
    given = checked.get("filter")
    # Which key of a filter is reserved is the store's to say.
    plain = {key: part for key, part in given.items() if not str(key).startswith("$")} if _is_dict(given) else given
    with as_settings():
        check_options({**checked, **({} if plain is None else {"filter": plain})}, "RecallMemories")
    return checked


def _is_dict(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _in_scope(scoping: Mapping[str, Any], reserved_key: str | None) -> Callable[[Memory], bool]:
    """Return what tells whether a row that a link leads to is one that the recall could have found."""
    contexts = set(scoping.get("in_contexts", ()))
    given, _ = without_reserved(scoping.get("filter") or {}, reserved_key)
    matches = compile_filter(given)

    def has(name: str, *held: str | None) -> bool:
        """Whether a row that has these names is one of those that are asked for."""
        wanted = scoping.get(name)
        wanted = (wanted,) if isinstance(wanted, str) else wanted
        return wanted is None or (any(held) if wanted is True else not set(wanted).isdisjoint(held))

    def is_in(row: Memory) -> bool:
        memory = row.memory
        only = {tag.removeprefix(ONLY) for tag in memory.tags if tag.startswith(ONLY)}
        return (
            has("memory_types", memory.memory_type)
            and has("tags", *memory.tags)
            and has("subject", memory.subject)
            and has("attribute", memory.attribute)
            and scoping.get("pinned") in (None, memory.pinned)
            and memory.confidence >= scoping.get("min_confidence", 0)
            and contexts.isdisjoint(tag.removeprefix(IGNORE) for tag in memory.tags if tag.startswith(IGNORE))
            and (not only or not only.isdisjoint(contexts))
            and matches(row.value)
        )

    return is_in


def _names(row: Memory, aliases: Mapping[str, str]) -> set[str]:
    """Return by what a message may name a memory: its tags, its subject, and what else that is called."""
    names = {tag for tag in row.memory.tags if not tag.startswith((IGNORE, ONLY))}
    if row.memory.subject is not None:
        goal = aliases.get(row.memory.subject, row.memory.subject)
        names |= {row.memory.subject, goal, *(name for name, other in aliases.items() if other == goal)}
    return {name for name in names if name.casefold() != USER_SUBJECT}
