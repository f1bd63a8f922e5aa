"""What happens to a memory beside its content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.documented import twin_of
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.operations import feedback as feedbacks
from langgraph_forgetful_store.operations import transitions
from langgraph_forgetful_store.operations.transitions import Transition, transition
from langgraph_forgetful_store.store.base import Methods, Moment


class TransitionMethods(Methods):
    """Transitions of one memory, each atomic; a memory that is already in the state asked for is returned as it is."""

    def _step(self, namespace: Any, key: Any, action: str, apply: Transition, **more: Any) -> Flow[MemoryItem]:
        return transition(self._session, namespace, key, action, apply, **more)

    @property
    def _confirmed(self) -> Transition:
        return transitions.confirmed(self._session.types, self._session.ttl.default_ttl)

    def retire(
        self, namespace: Namespace, key: str, *, reason: str = "negated", valid_until: Moment | None = None
    ) -> MemoryItem:
        """Close a memory without a successor: from then on it is history.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            reason: Why it is closed: ``updated``, ``corrected``, ``contradicted``, ``negated``, ``merged`` or
                ``resolved``.
            valid_until: Until when it held in the world, an aware datetime or ISO 8601 text; ``None``: until now.

        Returns:
            The memory as it is now.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(
            self._step(namespace, key, "retire", transitions.retired(reason, valid_until), reason=str(reason))
        )

    @twin_of(retire)
    async def aretire(
        self, namespace: Namespace, key: str, *, reason: str = "negated", valid_until: Moment | None = None
    ) -> MemoryItem:
        """The async twin of `retire`."""
        return await self._arun(
            self._step(namespace, key, "retire", transitions.retired(reason, valid_until), reason=str(reason))
        )

    def archive(self, namespace: Namespace, key: str) -> MemoryItem:
        """Take a memory out of recall; it is found where archived memories are asked for, and can be restored.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.

        Returns:
            The memory as it is now.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            IllegalTransitionError: The memory has been superseded.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(self._step(namespace, key, "archive", transitions.archived))

    @twin_of(archive)
    async def aarchive(self, namespace: Namespace, key: str) -> MemoryItem:
        """The async twin of `archive`."""
        return await self._arun(self._step(namespace, key, "archive", transitions.archived))

    def restore(self, namespace: Namespace, key: str) -> MemoryItem:
        """Make an archived memory active again; its TTL starts anew.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.

        Returns:
            The memory as it is now.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            IllegalTransitionError: The memory has been superseded.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(self._step(namespace, key, "restore", transitions.restored))

    @twin_of(restore)
    async def arestore(self, namespace: Namespace, key: str) -> MemoryItem:
        """The async twin of `restore`."""
        return await self._arun(self._step(namespace, key, "restore", transitions.restored))

    def pin(self, namespace: Namespace, key: str) -> MemoryItem:
        """Protect a memory from every strategy that forgets, and suspend its TTL; not of one that is superseded.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.

        Returns:
            The memory as it is now.

        Raises:
            IllegalTransitionError: The memory is superseded.
            MemoryNotFoundError: There is no such memory, or it has expired.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(self._step(namespace, key, "pin", transitions.pinned))

    @twin_of(pin)
    async def apin(self, namespace: Namespace, key: str) -> MemoryItem:
        """The async twin of `pin`."""
        return await self._arun(self._step(namespace, key, "pin", transitions.pinned))

    def unpin(self, namespace: Namespace, key: str) -> MemoryItem:
        """Take the pin off a memory; its TTL starts anew.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.

        Returns:
            The memory as it is now.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(self._step(namespace, key, "unpin", transitions.unpinned))

    @twin_of(unpin)
    async def aunpin(self, namespace: Namespace, key: str) -> MemoryItem:
        """The async twin of `unpin`."""
        return await self._arun(self._step(namespace, key, "unpin", transitions.unpinned))

    def demote(self, namespace: Namespace, key: str, by: float = 0.2) -> MemoryItem:
        """Lower a memory's importance, so that it ranks lower; its status stays.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            by: How much is taken from its importance, from 0 to 1; importance ends at 0.

        Returns:
            The memory as it is now.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(self._step(namespace, key, "demote", transitions.demoted(by), by=by))

    @twin_of(demote)
    async def ademote(self, namespace: Namespace, key: str, by: float = 0.2) -> MemoryItem:
        """The async twin of `demote`."""
        return await self._arun(self._step(namespace, key, "demote", transitions.demoted(by), by=by))

    def anchor(self, namespace: Namespace, key: str) -> MemoryItem:
        """Make a memory matter again: importance of at least 0.5 and twice the half-life.

        An archived memory is restored.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.

        Returns:
            The memory as it is now.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            IllegalTransitionError: The memory has been superseded.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(self._step(namespace, key, "anchor", transitions.anchored))

    @twin_of(anchor)
    async def aanchor(self, namespace: Namespace, key: str) -> MemoryItem:
        """The async twin of `anchor`."""
        return await self._arun(self._step(namespace, key, "anchor", transitions.anchored))

    def confirm(self, namespace: Namespace, key: str, *, idempotency_key: str | None = None) -> MemoryItem:
        """Trust a memory more: confidence rises by 0.1, importance by 0.05.

        An archived memory is restored.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            idempotency_key: Names this request, so that repeating it changes nothing more; a memory remembers the last
                eight. ``None``: each call counts.

        Returns:
            The memory as it is now.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            IllegalTransitionError: The memory has been superseded.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(self._step(namespace, key, "confirm", self._confirmed, idempotency_key=idempotency_key))

    @twin_of(confirm)
    async def aconfirm(self, namespace: Namespace, key: str, *, idempotency_key: str | None = None) -> MemoryItem:
        """The async twin of `confirm`."""
        return await self._arun(self._step(namespace, key, "confirm", self._confirmed, idempotency_key=idempotency_key))

    def deny(self, namespace: Namespace, key: str, *, idempotency_key: str | None = None) -> MemoryItem:
        """Trust a memory less: confidence falls by 0.2.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            idempotency_key: Names this request, so that repeating it changes nothing more; a memory remembers the last
                eight. ``None``: each call counts.

        Returns:
            The memory as it is now.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            IllegalTransitionError: The memory has been superseded.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(self._step(namespace, key, "deny", transitions.denied, idempotency_key=idempotency_key))

    @twin_of(deny)
    async def adeny(self, namespace: Namespace, key: str, *, idempotency_key: str | None = None) -> MemoryItem:
        """The async twin of `deny`."""
        return await self._arun(self._step(namespace, key, "deny", transitions.denied, idempotency_key=idempotency_key))

    def set_ttl(self, namespace: Namespace, key: str, ttl: float) -> MemoryItem:
        """Let a memory expire so many minutes from now, also where its TTL was its type's.

        A pinned memory keeps the minutes for when it is unpinned.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            ttl: Minutes from now until it expires, from 0 on.

        Returns:
            The memory as it is now.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(self._step(namespace, key, "set_ttl", transitions.ttl_set(ttl), ttl=ttl))

    @twin_of(set_ttl)
    async def aset_ttl(self, namespace: Namespace, key: str, ttl: float) -> MemoryItem:
        """The async twin of `set_ttl`."""
        return await self._arun(self._step(namespace, key, "set_ttl", transitions.ttl_set(ttl), ttl=ttl))

    def feedback(
        self,
        recall_id: str,
        value: int,
        *,
        keys: Iterable[str] | None = None,
        idempotency_key: str | None = None,
    ) -> list[MemoryItem]:
        """Say how a recall was received, so that what it returned is trusted more or less.

        With 1 the confidence of each memory rises by 0.1 and its importance by 0.05; with -1 they fall by 0.2 and 0.05.

        Args:
            recall_id: The `recall_id` of any item that a search or recall returned; it names all items of that call.
            value: 1 where the recall was helpful, and -1 where it was not.
            keys: The keys that the feedback is about; ``None``: all that the recall returned.
            idempotency_key: Names this request, so that repeating it changes nothing more; a memory remembers the last
                eight. ``None``: each call counts.

        Returns:
            The memories that are still there, as they are now.

        Raises:
            ValueError, TypeError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(feedbacks.feedback(self._session, recall_id, value, keys, idempotency_key))

    @twin_of(feedback)
    async def afeedback(
        self,
        recall_id: str,
        value: int,
        *,
        keys: Iterable[str] | None = None,
        idempotency_key: str | None = None,
    ) -> list[MemoryItem]:
        """The async twin of `feedback`."""
        return await self._arun(feedbacks.feedback(self._session, recall_id, value, keys, idempotency_key))
