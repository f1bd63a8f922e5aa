"""Reading what is remembered."""

from __future__ import annotations

from typing import Any, Unpack, cast

from langgraph.store.base import NamespacePath

from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.documented import takes_options, twin_of
from langgraph_forgetful_store.model.memory import MemoryItem, MemorySearchItem
from langgraph_forgetful_store.model.options import RecallOptions, check_option
from langgraph_forgetful_store.operations import history
from langgraph_forgetful_store.operations.get import get_untracked
from langgraph_forgetful_store.operations.search import Search, recall
from langgraph_forgetful_store.store.base import Methods, Moment


class ReadMethods(Methods):
    """Reading one memory, searching, listing namespaces, and reading the past."""

    def get(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None, track_access: bool = True
    ) -> MemoryItem | None:
        """Read one memory by its key, whatever its status.

        An expired memory is absent from the millisecond of its expiry on, unless the store was made with
        ``ttl={"omit_expired": False}``; one whose type archives on expiry is returned as archived. The read counts as
        an access, and refreshes a TTL that a write or the store's default gave; a TTL of the memory's type is never
        refreshed by reads.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            refresh_ttl: Whether the read refreshes the TTL, which then starts anew; ``None``: what the store's ttl
                config says under ``refresh_on_read``, which is ``True`` by default.
            track_access: Whether the read counts as an access. ``False``: it leaves no trace, as it refreshes no TTL
                either, unless `refresh_ttl` is ``True``.

        Returns:
            The memory, or ``None`` where there is none or it has expired.

        Raises:
            TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        if check_option("track_access", track_access):
            return cast("MemoryItem | None", super().get(namespace, key, refresh_ttl=refresh_ttl))
        return self._run(get_untracked(self._session, namespace, key, refresh_ttl))

    @twin_of(get)
    async def aget(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None, track_access: bool = True
    ) -> MemoryItem | None:
        """The async twin of `get`."""
        if check_option("track_access", track_access):
            return cast("MemoryItem | None", await super().aget(namespace, key, refresh_ttl=refresh_ttl))
        return await self._arun(get_untracked(self._session, namespace, key, refresh_ttl))

    # A list of LangGraph's items could be given other items; this one is made anew for each caller.
    def search(  # type: ignore[override]
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[MemorySearchItem]:
        """Search the active memories in all namespaces below a prefix; `recall` has more options.

        With a query and an index, items come best first, with a ``score`` by the store's scoring preset and the
        ``similarity`` that entered it. Without either, they come latest write first, and their score is ``None``.
        Filtering comes before paging, so pages are full and exact. Expired memories are absent, unless the store was
        made with ``ttl={"omit_expired": False}``. A search with a query counts as an access of what it returns.

        Args:
            namespace_prefix: The labels that the namespaces begin with; ``()`` searches everything.
            query: The text to compare memories with; ``None`` lists them by the time of their last write.
            filter: What the values must hold, as LangGraph's filters say it, with the operators ``$eq``, ``$ne``,
                ``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$in``, ``$nin``, ``$contains``, ``$exists``, ``$and``, ``$or``
                and ``$not``. Below the reserved key, ``$memory``, it speaks of the lifecycle.
            limit: How many items to return at most.
            offset: How many items to skip before the first one that is returned.
            refresh_ttl: Whether the TTLs of what is returned are refreshed; ``None``: what the store's ttl config says
                under ``refresh_on_read``, which is ``True`` by default.

        Returns:
            A page of items, best first or latest write first.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        found = super().search(
            namespace_prefix, query=query, filter=filter, limit=limit, offset=offset, refresh_ttl=refresh_ttl
        )
        return cast("list[MemorySearchItem]", found)

    @twin_of(search)
    async def asearch(  # type: ignore[override]  # as above
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[MemorySearchItem]:
        """The async twin of `search`."""
        found = await super().asearch(
            namespace_prefix, query=query, filter=filter, limit=limit, offset=offset, refresh_ttl=refresh_ttl
        )
        return cast("list[MemorySearchItem]", found)

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """List the namespaces that hold a memory which a read can return, in the order of their labels.

        A namespace whose memories have all expired is not listed. Listing counts no access and refreshes no TTL.

        Args:
            prefix: The labels that a namespace must begin with; ``*`` stands for any one label.
            suffix: The labels that a namespace must end with; ``*`` stands for any one label.
            max_depth: Namespaces are cut to so many labels, and each is listed once; ``None`` cuts none.
            limit: How many namespaces to return at most.
            offset: How many namespaces to skip before the first one that is returned.

        Returns:
            The namespaces, sorted.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return super().list_namespaces(prefix=prefix, suffix=suffix, max_depth=max_depth, limit=limit, offset=offset)

    @twin_of(list_namespaces)
    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """The async twin of `list_namespaces`."""
        return await super().alist_namespaces(
            prefix=prefix, suffix=suffix, max_depth=max_depth, limit=limit, offset=offset
        )

    @takes_options(RecallOptions)
    def recall(
        self, namespace_prefix: Namespace, query: str | None = None, **options: Unpack[RecallOptions]
    ) -> list[MemorySearchItem]:
        """Search, with the lifecycle said in Python.

        It returns what `search` returns, and takes more options. A read of the past (`as_of`, `known_at`) changes
        neither access counts nor expiry.

        Args:
            namespace_prefix: The labels that the namespaces begin with; ``()`` searches everything.
            query: The text to compare memories with; without it, items come latest write first, without scores.
            **options: Any of the keys of `RecallOptions`, as keyword arguments.

        Returns:
            A page of items, best first or latest write first.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        operation = Search.recalled(namespace_prefix, query, self._session, options)
        return self._run(recall(self._session, operation))

    @twin_of(recall)
    async def arecall(
        self, namespace_prefix: Namespace, query: str | None = None, **options: Unpack[RecallOptions]
    ) -> list[MemorySearchItem]:
        """The async twin of `recall`."""
        operation = Search.recalled(namespace_prefix, query, self._session, options)
        return await self._arun(recall(self._session, operation), embeds=bool(operation.texts))

    def history(
        self, namespace: Namespace, key: str, *, as_of: Moment | None = None, known_at: Moment | None = None
    ) -> list[MemoryItem]:
        """Read the whole chain of a memory: what it replaced, and what replaced it.

        Reading it changes neither access counts nor expiry.

        Args:
            namespace: The namespace that holds the memory.
            key: The key of any memory of the chain.
            as_of: Leaves out what did not hold in the world by then; an aware datetime or ISO 8601 text.
            known_at: Leaves out what the store did not know by then; an aware datetime or ISO 8601 text.

        Returns:
            The memories of the chain, oldest first; an empty list where there is no such memory.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(history.history(self._session, namespace, key, as_of, known_at))

    @twin_of(history)
    async def ahistory(
        self, namespace: Namespace, key: str, *, as_of: Moment | None = None, known_at: Moment | None = None
    ) -> list[MemoryItem]:
        """The async twin of `history`."""
        return await self._arun(history.history(self._session, namespace, key, as_of, known_at))
