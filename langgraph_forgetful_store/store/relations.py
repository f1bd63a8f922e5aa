"""What memories are to each other: names of one subject, and links."""

from __future__ import annotations

from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.operations import aliases, history
from langgraph_forgetful_store.store.base import Methods


class RelationMethods(Methods):
    """Aliases and links; see `Methods` for what all have in common."""

    def alias(self, namespace: Namespace, canonical: str, *names: str) -> None:
        """Have names stand for one subject, so that their slots are one.

        Of two rows that hold a slot the one valid later stays, and the other is closed as merged.

        Args:
            namespace: Where.
            canonical: The subject.
            *names: What else it is called.
        """
        self._run(aliases.alias(self._session, namespace, canonical, *names))

    async def aalias(self, namespace: Namespace, canonical: str, *names: str) -> None:
        """Do as `alias` does."""
        await self._arun(aliases.alias(self._session, namespace, canonical, *names))

    def unalias(self, namespace: Namespace, name: str) -> None:
        """Undo a wrong merge: the name stands for itself again, and what its merge had closed is open again.

        Args:
            namespace: Where.
            name: What `alias` was given; silent where it stands for itself.
        """
        self._run(aliases.unalias(self._session, namespace, name))

    async def aunalias(self, namespace: Namespace, name: str) -> None:
        """Do as `unalias` does."""
        await self._arun(aliases.unalias(self._session, namespace, name))

    def aliases(self, namespace: Namespace) -> dict[str, str]:
        """Read which names stand for which subjects.

        Args:
            namespace: Where.

        Returns:
            The subject of each name, by name.
        """
        return self._run(aliases.known(self._session, namespace))

    async def aaliases(self, namespace: Namespace) -> dict[str, str]:
        """Do as `aliases` does."""
        return await self._arun(aliases.known(self._session, namespace))

    def link(self, namespace: Namespace, key: str, relation: str, other: str) -> MemoryItem:
        """Link a memory to another of its namespace; what the relation says happens to their importance, once.

        Args:
            namespace: Where.
            key: Which.
            relation: ``triggers``, ``responds``, ``relates``, ``resolves``, ``closes``, ``causes``, ``updates``,
                ``negates``, ``completes``, ``summarizes`` or ``same_session``. `updates` and `negates` raise the one
                and lower the other; what is completed, resolved or closed falls with its chain, and the latter two
                leave recall.
            other: The key of the other.
        """
        return self._run(history.link(self._session, namespace, key, relation, other))

    async def alink(self, namespace: Namespace, key: str, relation: str, other: str) -> MemoryItem:
        """Do as `link` does."""
        return await self._arun(history.link(self._session, namespace, key, relation, other))

    def unlink(self, namespace: Namespace, key: str, relation: str, other: str) -> None:
        """Take a link away; silent where there is none. What it did to importance stays.

        Args:
            namespace: Where.
            key: Which.
            relation: As in `link`.
            other: The key of the other.
        """
        self._run(history.unlink(self._session, namespace, key, relation, other))

    async def aunlink(self, namespace: Namespace, key: str, relation: str, other: str) -> None:
        """Do as `unlink` does."""
        await self._arun(history.unlink(self._session, namespace, key, relation, other))

    def neighbors(
        self, namespace: Namespace, key: str, relation: str | None = None, direction: str = "both"
    ) -> list[tuple[str, MemoryItem]]:
        """Read what a memory is linked to, as (relation, item) pairs.

        Args:
            namespace: Where.
            key: Which.
            relation: Only this one.
            direction: ``out``, ``in`` or ``both``.
        """
        return self._run(history.neighbors(self._session, namespace, key, relation, direction))

    async def aneighbors(
        self, namespace: Namespace, key: str, relation: str | None = None, direction: str = "both"
    ) -> list[tuple[str, MemoryItem]]:
        """Do as `neighbors` does."""
        return await self._arun(history.neighbors(self._session, namespace, key, relation, direction))
