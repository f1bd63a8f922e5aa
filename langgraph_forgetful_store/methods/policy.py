"""What a policy needs of the store, beyond the lifecycle: its settings, and records of what was decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.backend.keys import encode_namespace, encode_text
from langgraph_forgetful_store.lifecycle import check_text
from langgraph_forgetful_store.memory import MemoryItem
from langgraph_forgetful_store.memory_types import MemoryTypes
from langgraph_forgetful_store.methods.base import Methods
from langgraph_forgetful_store.operations.checks import check_labels
from langgraph_forgetful_store.operations.context import Context, open_store, record
from langgraph_forgetful_store.operations.feedback import feedback


class PolicyMethods(Methods):
    """What a policy needs; see `Methods` for what all have in common."""

    @property
    def memory_types(self) -> MemoryTypes:
        """The memory types, by name."""
        return self._context.types

    @property
    def reserved_key(self) -> str | None:
        """The key by which filters speak of the lifecycle; ``None``: none does."""
        return self._context.reserved_key

    def record(
        self,
        namespace: tuple[str, ...],
        action: str,
        *,
        key: str | None = None,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an audit record of something that was decided, or done, outside of the store.

        Args:
            namespace: Where.
            action: What.
            key: On which memory.
            reason: Why; no contents, since forgetting a memory erases only what was recorded of its key.
            details: What else there is to know, as plain JSON.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        self._run(_record(self._context, namespace, action, key, reason, details))

    async def arecord(
        self,
        namespace: tuple[str, ...],
        action: str,
        *,
        key: str | None = None,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Do as `record` does."""
        await self._arun(_record(self._context, namespace, action, key, reason, details))

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
        return self._run(feedback(self._context, recall_id, value, keys, idempotency_key))

    async def afeedback(
        self,
        recall_id: str,
        value: int,
        *,
        keys: Iterable[str] | None = None,
        idempotency_key: str | None = None,
    ) -> list[MemoryItem]:
        """Do as `feedback` does."""
        return await self._arun(feedback(self._context, recall_id, value, keys, idempotency_key))


def _record(
    context: Context, namespace: object, action: object, key: str | None, reason: str, details: Mapping[str, Any] | None
) -> Flow[None]:
    labels, name = check_labels(namespace, "namespace"), check_text(action, "action")
    yield from open_store(context)
    text = encode_text("" if key is None else check_text(key, "key"))
    yield from record(context, encode_namespace(labels), name, text, reason, dict(details or {}))
