"""What memories are to each other: names of one subject, and links."""

from __future__ import annotations

from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.documented import twin_of
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.operations import aliases as naming
from langgraph_forgetful_store.operations import history
from langgraph_forgetful_store.store.base import Methods


class RelationMethods(Methods):
    """Aliases of subjects, and links between memories."""

    def alias(self, namespace: Namespace, canonical: str, *names: str) -> None:
        """Let names stand for one subject, so that their slots are one.

        Of two memories that hold a slot then, the one valid later stays, and the other is closed as merged.

        Args:
            namespace: The namespace whose slots are concerned.
            canonical: The name that the subject keeps.
            *names: Other names of the same subject.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        self._run(naming.alias(self._session, namespace, canonical, *names))

    @twin_of(alias)
    async def aalias(self, namespace: Namespace, canonical: str, *names: str) -> None:
        """The async twin of `alias`."""
        await self._arun(naming.alias(self._session, namespace, canonical, *names))

    def unalias(self, namespace: Namespace, name: str) -> None:
        """Undo a wrong merge: the name stands for itself again, and what the merge closed is open again.

        Args:
            namespace: The namespace whose slots are concerned.
            name: A name that `alias` was given; one that stands for itself changes nothing.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        self._run(naming.unalias(self._session, namespace, name))

    @twin_of(unalias)
    async def aunalias(self, namespace: Namespace, name: str) -> None:
        """The async twin of `unalias`."""
        await self._arun(naming.unalias(self._session, namespace, name))

    def aliases(self, namespace: Namespace) -> dict[str, str]:
        """Read which names stand for which subjects.

        Args:
            namespace: The namespace whose slots are concerned.

        Returns:
            The subject of each name, by name.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(naming.known(self._session, namespace))

    @twin_of(aliases)
    async def aaliases(self, namespace: Namespace) -> dict[str, str]:
        """The async twin of `aliases`."""
        return await self._arun(naming.known(self._session, namespace))

    def link(self, namespace: Namespace, key: str, relation: str, other: str) -> MemoryItem:
        """Link a memory to another of its namespace; their importance changes once, as the relation says.

        ``updates`` and ``negates`` raise the importance of the one and lower that of the other. What is completed,
        resolved or closed falls in importance together with its chain; what is resolved or closed also leaves recall.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            relation: How it relates to the other: ``triggers``, ``responds``, ``relates``, ``resolves``, ``closes``,
                ``causes``, ``updates``, ``negates``, ``completes``, ``summarizes`` or ``same_session``.
            other: The key of the other memory in that namespace.

        Returns:
            The memory that the link starts from, as it is now.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(history.link(self._session, namespace, key, relation, other))

    @twin_of(link)
    async def alink(self, namespace: Namespace, key: str, relation: str, other: str) -> MemoryItem:
        """The async twin of `link`."""
        return await self._arun(history.link(self._session, namespace, key, relation, other))

    def unlink(self, namespace: Namespace, key: str, relation: str, other: str) -> None:
        """Take a link away; where there is none, nothing changes. What it did to importance stays.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            relation: How it relates to the other: ``triggers``, ``responds``, ``relates``, ``resolves``, ``closes``,
                ``causes``, ``updates``, ``negates``, ``completes``, ``summarizes`` or ``same_session``.
            other: The key of the other memory in that namespace.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        self._run(history.unlink(self._session, namespace, key, relation, other))

    @twin_of(unlink)
    async def aunlink(self, namespace: Namespace, key: str, relation: str, other: str) -> None:
        """The async twin of `unlink`."""
        await self._arun(history.unlink(self._session, namespace, key, relation, other))

    def neighbors(
        self, namespace: Namespace, key: str, relation: str | None = None, direction: str = "both"
    ) -> list[tuple[str, MemoryItem]]:
        """Read what a memory is linked to. Reading it changes neither access counts nor expiry.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            relation: The only relation that is followed; ``None``: all are.
            direction: Which links are followed: ``out``, ``in`` or ``both``.

        Returns:
            Pairs of a relation and the memory at its other end.

        Raises:
            MemoryNotFoundError: There is no such memory, or it has expired.
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(history.neighbors(self._session, namespace, key, relation, direction))

    @twin_of(neighbors)
    async def aneighbors(
        self, namespace: Namespace, key: str, relation: str | None = None, direction: str = "both"
    ) -> list[tuple[str, MemoryItem]]:
        """The async twin of `neighbors`."""
        return await self._arun(history.neighbors(self._session, namespace, key, relation, direction))
