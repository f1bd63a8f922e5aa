"""Writing memories with what is known of their lives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict, Unpack

from langgraph.store.base import NOT_PROVIDED, NotProvided

from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.operations import transitions
from langgraph_forgetful_store.operations.remember import remember, supersede
from langgraph_forgetful_store.operations.writing import Writing
from langgraph_forgetful_store.store.base import Methods, Moment


class WriteOptions(TypedDict, total=False):
    """What a write may say of a memory's life; `LifecycleMethods.remember` explains it."""

    memory_type: str | None
    importance: float | None
    confidence: float | None
    subject: str | None
    attribute: str | None
    valid_from: Moment | None
    valid_until: Moment | None
    source: str | None
    source_refs: Iterable[str] | None
    tags: Iterable[str] | None
    preconditions: Iterable[str] | None
    run_id: str | None
    pinned: bool | None
    presumed_type: str | None
    index: Any
    ttl: float | None


class WriteMethods(Methods):
    """Writing memories; see `Methods` for what all have in common."""

    def _writing(self, namespace: Any, key: Any, content: Any, options: Mapping[str, Any]) -> Writing:
        return Writing.prepare(namespace, key, content, self._session, options)

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Store a value under a key, in place; see `BaseStore.put`.

        Args:
            namespace: Where.
            key: Which.
            value: A dict of JSON types. Under ``"$memory"`` it may say what `remember` takes as arguments.
            index: Paths of what is to be embedded; ``False``: nothing; ``None``: what the store was told.
            ttl: Minutes. Not given: what a memory type named in the value says, else the store's default.
        """
        super().put(namespace, key, value, index, ttl=self._ttl(value, ttl))  # type: ignore[misc]  # BaseStore comes next

    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Do as `put` does."""
        await super().aput(namespace, key, value, index, ttl=self._ttl(value, ttl))  # type: ignore[misc]  # as above

    def _ttl(self, value: Any, ttl: float | NotProvided | None) -> float | NotProvided | None:
        # BaseStore would put its default in place of what is not given, and a type's own ttl comes before that.
        reserved = self._session.reserved_key
        named = (
            isinstance(value, Mapping)
            and isinstance(memory := value.get(reserved), Mapping)
            and memory.get("memory_type")
        )
        return None if ttl is NOT_PROVIDED and named else ttl

    def remember(
        self,
        namespace: Namespace,
        content: str | Mapping[str, Any],
        *,
        key: str | None = None,
        if_absent: Literal["key", "slot", "content"] | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem:
        """Write a memory with what is known of its life.

        An existing key is written over in place, as by `put`. Where another row holds the slot that is named, that row
        is superseded; a `valid_from` before that of the slot's latest row makes it a late fact: it is inserted, closed.

        Args:
            namespace: Where.
            content: A text, stored as ``{"content": text}``, or a dict.
            key: Made up if it is not given.
            if_absent: Nothing is written, and what is there is returned as it is, where the key exists (``"key"``),
                something holds in the slot (``"slot"``), or what holds there, or was said without a slot, has exactly
                this content (``"content"``); in the same run, by however many it is said at once.
            idempotency_key: Tells this request from others: what was written under it is returned, and not written
                again.
            **options: `memory_type`; `importance` and `confidence` (0 to 1); `subject` and `attribute`, which name a
                slot that has one current row; `valid_from` and `valid_until` (aware datetimes or ISO 8601 text: when it
                holds in the world); `source`, `source_refs`, `tags`, `preconditions`; `run_id` (recalled in that run
                alone); `pinned`; `presumed_type` (what a ``hypothesis`` becomes when it is confirmed); `index` as in
                `put`; `ttl` in minutes (``None``: never expires; not given: what the type says, else the store's
                default).

        Returns:
            The memory as it is stored.

        Raises:
            InvalidNamespaceError: The namespace can't hold memories.
            ValueError: `if_absent` asks for the absence of a key or slot that is not named.
        """
        made = self._writing(namespace, key, content, options).once(if_absent, idempotency_key)
        return self._run(remember(self._session, made))

    async def aremember(
        self,
        namespace: Namespace,
        content: str | Mapping[str, Any],
        *,
        key: str | None = None,
        if_absent: Literal["key", "slot", "content"] | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem:
        """Do as `remember` does."""
        made = self._writing(namespace, key, content, options).once(if_absent, idempotency_key)
        return await self._arun(remember(self._session, made), embeds=bool(made.texts))

    def supersede(
        self,
        namespace: Namespace,
        key: str,
        content: str | Mapping[str, Any],
        *,
        new_key: str | None = None,
        reason: str = "updated",
        expected_version: int | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem:
        """Replace a memory by a new one, and keep it as history, in one atomic step.

        The old row is closed where the new one begins to hold, and both point to each other. A row that has been
        superseded already: the latest of its chain is. Slot, type, tags, run and pin are taken over.

        Args:
            namespace: Where.
            key: Of any row of the chain.
            content: As in `remember`.
            new_key: Of the new row; made up if it is not given.
            reason: ``updated``, ``corrected``, ``contradicted``, ``negated``, ``merged`` or ``resolved``.
            expected_version: The version that the latest row must have.
            **options: As in `remember`; `valid_from` is where the old row ends.

        Returns:
            The new memory.

        Raises:
            VersionConflictError: The latest row has another version than expected.
            ValueError: `new_key` exists.
        """
        made = self._writing(namespace, new_key, content, options)
        return self._run(supersede(self._session, made, key, reason, expected_version))

    async def asupersede(
        self,
        namespace: Namespace,
        key: str,
        content: str | Mapping[str, Any],
        *,
        new_key: str | None = None,
        reason: str = "updated",
        expected_version: int | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem:
        """Do as `supersede` does."""
        made = self._writing(namespace, new_key, content, options)
        flow = supersede(self._session, made, key, reason, expected_version)
        return await self._arun(flow, embeds=bool(made.texts))

    def undo_supersede(self, namespace: Namespace, key: str) -> MemoryItem:
        """Take back the last step of a chain: the predecessor of its latest row is current again.

        The latest row is archived if the two share a slot; else it stays as it is, unlinked.

        Args:
            namespace: Where.
            key: Of the latest row of the chain.

        Returns:
            The row that was reopened.
        """
        return self._run(transitions.undo_supersede(self._session, namespace, key))

    async def aundo_supersede(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `undo_supersede` does."""
        return await self._arun(transitions.undo_supersede(self._session, namespace, key))
