"""What a policy needs of the store, beyond the lifecycle: its settings, and records of what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.backend.keys import encode_namespace, encode_text
from langgraph_forgetful_store.model.checks import check_labels, check_text
from langgraph_forgetful_store.model.documented import twin_of
from langgraph_forgetful_store.model.memory_types import MemoryTypes
from langgraph_forgetful_store.operations import session as sessions
from langgraph_forgetful_store.operations.session import Session, open_store
from langgraph_forgetful_store.store.base import Methods


class PolicyMethods(Methods):
    """What a policy needs to know of the store."""

    @property
    def memory_types(self) -> MemoryTypes:
        """The store's memory types, by name."""
        return self._session.types

    @property
    def reserved_key(self) -> str | None:
        """The key by which values and filters speak of the lifecycle; ``None`` where it is switched off."""
        return self._session.reserved_key

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
            namespace: The namespace in which it was decided.
            action: A word for what was decided or done.
            key: The key of the memory that it is about; ``None``: of none.
            reason: Why it was decided; without contents, since forgetting a memory erases only records of its key.
            details: What else there is to know, as plain JSON.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        self._run(_record(self._session, namespace, action, key, reason, details))

    @twin_of(record)
    async def arecord(
        self,
        namespace: tuple[str, ...],
        action: str,
        *,
        key: str | None = None,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """The async twin of `record`."""
        await self._arun(_record(self._session, namespace, action, key, reason, details))


def _record(
    session: Session, namespace: object, action: object, key: str | None, reason: str, details: Mapping[str, Any] | None
) -> Flow[None]:
    labels, name = check_labels(namespace, "namespace"), check_text(action, "action")
    yield from open_store(session)
    text = encode_text("" if key is None else check_text(key, "key"))
    yield from sessions.record(session, encode_namespace(labels), name, text, reason, dict(details or {}))
