"""What happens to a memory beside its content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.operations import transitions
from langgraph_forgetful_store.operations.feedback import feedback
from langgraph_forgetful_store.operations.transitions import Transition, transition
from langgraph_forgetful_store.store.base import Methods, Moment


class TransitionMethods(Methods):
    """Transitions of one memory; see `Methods` for what all have in common."""

    def _step(self, namespace: Any, key: Any, action: str, apply: Transition, **more: Any) -> Flow[MemoryItem]:
        return transition(self._session, namespace, key, action, apply, **more)

    @property
    def _confirmed(self) -> Transition:
        return transitions.confirmed(self._session.types, self._session.ttl.default_ttl)

    def retire(
        self, namespace: Namespace, key: str, *, reason: str = "negated", valid_until: Moment | None = None
    ) -> MemoryItem:
        """Close a memory without a successor: it no longer holds.

        Args:
            namespace: Where.
            key: Which.
            reason: As in `supersede`.
            valid_until: Until when it has held; not given: until now.
        """
        return self._run(
            self._step(namespace, key, "retire", transitions.retired(reason, valid_until), reason=str(reason))
        )

    async def aretire(
        self, namespace: Namespace, key: str, *, reason: str = "negated", valid_until: Moment | None = None
    ) -> MemoryItem:
        """Do as `retire` does."""
        return await self._arun(
            self._step(namespace, key, "retire", transitions.retired(reason, valid_until), reason=str(reason))
        )

    def archive(self, namespace: Namespace, key: str) -> MemoryItem:
        """Take a memory out of recall; it is found when archived ones are asked for, and can be restored."""
        return self._run(self._step(namespace, key, "archive", transitions.archived))

    async def aarchive(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `archive` does."""
        return await self._arun(self._step(namespace, key, "archive", transitions.archived))

    def restore(self, namespace: Namespace, key: str) -> MemoryItem:
        """Bring an archived memory back, with its TTL anew."""
        return self._run(self._step(namespace, key, "restore", transitions.restored))

    async def arestore(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `restore` does."""
        return await self._arun(self._step(namespace, key, "restore", transitions.restored))

    def pin(self, namespace: Namespace, key: str) -> MemoryItem:
        """Keep every strategy off a memory, and suspend its TTL."""
        return self._run(self._step(namespace, key, "pin", transitions.pinned))

    async def apin(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `pin` does."""
        return await self._arun(self._step(namespace, key, "pin", transitions.pinned))

    def unpin(self, namespace: Namespace, key: str) -> MemoryItem:
        """Take the pin off a memory; its TTL starts anew."""
        return self._run(self._step(namespace, key, "unpin", transitions.unpinned))

    async def aunpin(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `unpin` does."""
        return await self._arun(self._step(namespace, key, "unpin", transitions.unpinned))

    def demote(self, namespace: Namespace, key: str, by: float = 0.2) -> MemoryItem:
        """Lower a memory's importance, so that it ranks lower; its status stays.

        Args:
            namespace: Where.
            key: Which.
            by: How much, 0 to 1; importance ends at 0.
        """
        return self._run(self._step(namespace, key, "demote", transitions.demoted(by), by=by))

    async def ademote(self, namespace: Namespace, key: str, by: float = 0.2) -> MemoryItem:
        """Do as `demote` does."""
        return await self._arun(self._step(namespace, key, "demote", transitions.demoted(by), by=by))

    def anchor(self, namespace: Namespace, key: str) -> MemoryItem:
        """Make a memory matter again: importance 0.5 at the least, twice the half-life; an archived one is restored."""
        return self._run(self._step(namespace, key, "anchor", transitions.anchored))

    async def aanchor(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `anchor` does."""
        return await self._arun(self._step(namespace, key, "anchor", transitions.anchored))

    def confirm(self, namespace: Namespace, key: str, *, idempotency_key: str | None = None) -> MemoryItem:
        """Trust a memory more: confidence rises by 0.1, importance by 0.05; an archived one is restored.

        Args:
            namespace: Where.
            key: Which.
            idempotency_key: Tells this request from others: what was done under it is not done again, however often and
                by however many it is asked for. A memory remembers the last eight.
        """
        return self._run(self._step(namespace, key, "confirm", self._confirmed, idempotency_key=idempotency_key))

    async def aconfirm(self, namespace: Namespace, key: str, *, idempotency_key: str | None = None) -> MemoryItem:
        """Do as `confirm` does."""
        return await self._arun(
            self._step(namespace, key, "confirm", self._confirmed, idempotency_key=idempotency_key)
        )

    def deny(self, namespace: Namespace, key: str, *, idempotency_key: str | None = None) -> MemoryItem:
        """Trust a memory less: confidence falls by 0.2.

        Args:
            namespace: Where.
            key: Which.
            idempotency_key: As in `confirm`.
        """
        return self._run(self._step(namespace, key, "deny", transitions.denied, idempotency_key=idempotency_key))

    async def adeny(self, namespace: Namespace, key: str, *, idempotency_key: str | None = None) -> MemoryItem:
        """Do as `deny` does."""
        return await self._arun(self._step(namespace, key, "deny", transitions.denied, idempotency_key=idempotency_key))

    def set_ttl(self, namespace: Namespace, key: str, ttl: float) -> MemoryItem:
        """Have a memory expire so many minutes from now, also where its TTL is its type's.

        A pinned one keeps the minutes for when it is unpinned.

        Args:
            namespace: Where.
            key: Which.
            ttl: In minutes.
        """
        return self._run(self._step(namespace, key, "set_ttl", transitions.ttl_set(ttl), ttl=ttl))

    async def aset_ttl(self, namespace: Namespace, key: str, ttl: float) -> MemoryItem:
        """Do as `set_ttl` does."""
        return await self._arun(self._step(namespace, key, "set_ttl", transitions.ttl_set(ttl), ttl=ttl))

    def feedback(
        self,
        recall_id: str,
        value: int,
        *,
        keys: Iterable[str] | None = None,
        idempotency_key: str | None = None,
    ) -> list[MemoryItem]:
        """Say how a recall was received: what it returned is trusted more, or less.

        Confidence rises by 0.1 and importance by 0.05, or they fall by 0.2 and 0.05.

        Args:
            recall_id: Of an item that a search or recall has returned.
            value: 1 or -1.
            keys: Only of these; ``None``: of all that was returned.
            idempotency_key: As in `confirm`.

        Returns:
            The memories that are still there, as they are now.

        Raises:
            ValueError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(feedback(self._session, recall_id, value, keys, idempotency_key))

    async def afeedback(
        self,
        recall_id: str,
        value: int,
        *,
        keys: Iterable[str] | None = None,
        idempotency_key: str | None = None,
    ) -> list[MemoryItem]:
        """Do as `feedback` does."""
        return await self._arun(feedback(self._session, recall_id, value, keys, idempotency_key))
