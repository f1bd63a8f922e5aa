"""Writing memories, with what is known about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from langgraph.store.base import NOT_PROVIDED, NotProvided

from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.documented import takes_options, twin_of
from langgraph_forgetful_store.model.fields import WriteOptions
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.operations import remember as remembering
from langgraph_forgetful_store.operations import transitions
from langgraph_forgetful_store.operations.writing import Writing
from langgraph_forgetful_store.store.base import Methods


class WriteMethods(Methods):
    """Writing, replacing and deleting memories."""

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
        """Store a value under a key; a value that is already there is replaced as a whole.

        Replacing it keeps ``created_at`` and the access count, and starts its TTL anew. To keep the old value as
        history use `supersede`, or `remember` with a slot.

        Args:
            namespace: The namespace to write to, a tuple of labels.
            key: The key in that namespace.
            value: A dict of JSON types. Below the reserved key, ``$memory``, it may hold what `remember` takes as
                options.
            index: The field paths that are embedded; ``False`` embeds nothing, ``None`` what the store's index config
                says.
            ttl: Minutes until it expires; ``None``: it never does. Left out: what a memory type named in the value
                says, else the store's default.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable; nothing has been written.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        super().put(namespace, key, value, index, ttl=self._ttl(value, ttl))

    @twin_of(put)
    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """The async twin of `put`."""
        await super().aput(namespace, key, value, index, ttl=self._ttl(value, ttl))

    def delete(self, namespace: Namespace, key: str) -> None:
        """Delete one memory; where there is none, nothing changes.

        Only that row goes: its predecessors, its links and what was made from it stay. To erase all of these, with a
        receipt, use `forget`.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.

        Raises:
            InvalidNamespaceError: The namespace holds what is no label.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        super().delete(namespace, key)

    @twin_of(delete)
    async def adelete(self, namespace: Namespace, key: str) -> None:
        """The async twin of `delete`."""
        await super().adelete(namespace, key)

    def _ttl(self, value: Any, ttl: float | NotProvided | None) -> float | NotProvided | None:
        # BaseStore would put its default in place of what is not given, and a type's own ttl comes before that.
        reserved = self._session.reserved_key
        named = (
            isinstance(value, Mapping)
            and isinstance(memory := value.get(reserved), Mapping)
            and memory.get("memory_type")
        )
        return None if ttl is NOT_PROVIDED and named else ttl

    @takes_options(WriteOptions)
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
        """Write a memory together with what is known about it.

        An existing key is written over in place, as by `put`. Where another memory holds the slot that `subject` and
        `attribute` name, that memory is superseded: it stays as history. Where `valid_from` lies before that of the
        slot's latest memory, the new one is a late fact: it is inserted into the history, already closed.

        Args:
            namespace: The namespace to write to, a tuple of labels.
            content: A text, stored as ``{"content": text}`` and always embedded, or a dict of JSON types.
            key: The key in that namespace; ``None``: a new one is made up.
            if_absent: Nothing is written, and what is there is returned as it is, where the key exists (``"key"``),
                something holds in the slot (``"slot"``), or what holds there, or was said without a slot, has exactly
                this content (``"content"``); in the same run, by however many it is said at once. ``None``: it is
                written whatever is there.
            idempotency_key: Tells this request from others: what was written under it is returned, and not written
                again; ``None``: nothing tells it.
            **options: Any of the keys of `WriteOptions`, as keyword arguments.

        Returns:
            The memory as it is stored.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable; nothing has been written.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        made = self._writing(namespace, key, content, options).once(if_absent, idempotency_key)
        return self._run(remembering.remember(self._session, made))

    @twin_of(remember)
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
        """The async twin of `remember`."""
        made = self._writing(namespace, key, content, options).once(if_absent, idempotency_key)
        return await self._arun(remembering.remember(self._session, made), embeds=bool(made.texts))

    @takes_options(WriteOptions)
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

        The old memory is closed where the new one begins to hold, and both point to each other. Where the memory has
        already been superseded, the latest one of its chain is replaced. Slot, type, tags, run and pin are taken over.

        Args:
            namespace: The namespace that holds the memory.
            key: The key of any memory of the chain.
            content: The new memory's content: a text, or a dict of JSON types.
            new_key: The key of the new memory; ``None``: a new one is made up.
            reason: Why the old one is closed: ``updated``, ``corrected``, ``contradicted``, ``negated``, ``merged`` or
                ``resolved``.
            expected_version: The version that the latest memory of the chain must have; ``None``: any will do.
            **options: Any of the keys of `WriteOptions`, as keyword arguments; `valid_from` is also where the old
                memory ends.

        Returns:
            The new memory.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            VersionConflictError: The latest memory has another version than expected.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable, or `new_key` exists.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        made = self._writing(namespace, new_key, content, options)
        return self._run(remembering.supersede(self._session, made, key, reason, expected_version))

    @twin_of(supersede)
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
        """The async twin of `supersede`."""
        made = self._writing(namespace, new_key, content, options)
        flow = remembering.supersede(self._session, made, key, reason, expected_version)
        return await self._arun(flow, embeds=bool(made.texts))

    def undo_supersede(self, namespace: Namespace, key: str) -> MemoryItem:
        """Take back the last step of a chain: the predecessor of its latest memory is current again.

        The latest memory is archived if the two share a slot; else it stays as it is, unlinked.

        Args:
            namespace: The namespace that holds the memory.
            key: The key of the latest memory of the chain.

        Returns:
            The memory that is current again.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            IllegalTransitionError: The memory replaced nothing, or its predecessor is gone.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(transitions.undo_supersede(self._session, namespace, key))

    @twin_of(undo_supersede)
    async def aundo_supersede(self, namespace: Namespace, key: str) -> MemoryItem:
        """The async twin of `undo_supersede`."""
        return await self._arun(transitions.undo_supersede(self._session, namespace, key))
