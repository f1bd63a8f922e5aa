"""What a policy needs of the store, beyond the lifecycle: its settings, and records of what was decided."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from langgraph_forgetful_store.backend.keys import encode_namespace, encode_text
from langgraph_forgetful_store.model.checks import Namespace, check_labels, check_text
from langgraph_forgetful_store.model.documented import twin_of
from langgraph_forgetful_store.model.memory_types import MemoryTypes
from langgraph_forgetful_store.operations.session import Note, write_note
from langgraph_forgetful_store.store.base import Methods

S = TypeVar("S", bound=Methods)


@dataclass(frozen=True, slots=True)
class Audited(Generic[S]):
    """A store that adds a record of who asked for it, and why, to one call.

    Attributes:
        store: The same store, for one call: the record is written with what the call changes in that namespace, in one
            step; where it changes nothing there, right after it.
    """

    store: S

    def write(self) -> None:
        """Write the record alone, where nothing is to be changed.

        Raises:
            redis.exceptions.RedisError: The server is down or refuses.
        """
        self.store._run(write_note(self.store._session))

    @twin_of(write)
    async def awrite(self) -> None:
        """The async twin of `write`."""
        await self.store._arun(write_note(self.store._session))


class PolicyMethods(Methods):
    """What a policy needs to know of the store, and to have recorded."""

    @property
    def memory_types(self) -> MemoryTypes:
        """The store's memory types, by name."""
        return self._session.types

    @property
    def reserved_key(self) -> str | None:
        """The key by which values and filters speak of the lifecycle; ``None`` where it is switched off."""
        return self._session.reserved_key

    def audited(
        self,
        namespace: Namespace,
        action: str,
        *,
        key: str | None = None,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Audited[Self]:
        """Return this store for one call that is to be audited as what somebody has decided.

        The call's own record is written all the same: this one says why it was made.

        Args:
            namespace: The namespace in which it was decided.
            action: A word for what was decided or done.
            key: The key of the memory that it is about; ``None``: of none.
            reason: Why it was decided; without contents, since forgetting a memory erases only records of its key.
            details: What else there is to know, as plain JSON.

        Raises:
            ValueError, InvalidNamespaceError: An argument is unusable.
        """
        labels, name = check_labels(namespace, "namespace"), check_text(action, "action")
        encoded = b"" if key is None else encode_text(check_text(key, "key"))
        note = Note(encode_namespace(labels), name, encoded, reason, dict(details or {}))
        store = copy.copy(self)
        store._session = replace(self._session, note=note)
        return Audited(store)
