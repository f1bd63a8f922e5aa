"""Reading what is remembered."""

from __future__ import annotations

from typing import Unpack

from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.memory import MemoryItem, MemorySearchItem
from langgraph_forgetful_store.operations import history
from langgraph_forgetful_store.operations.search import RecallOptions, Search, recall
from langgraph_forgetful_store.store.base import Methods, Moment


class ReadMethods(Methods):
    """Searching with the lifecycle in mind; see `Methods` for what all have in common."""

    def recall(
        self, namespace_prefix: tuple[str, ...], query: str | None = None, **options: Unpack[RecallOptions]
    ) -> list[MemorySearchItem]:
        """Search, with what is asked about the lifecycle said in Python.

        Args:
            namespace_prefix: The labels that the namespaces begin with.
            query: What to compare with; without it, rows come latest write first, without scores.
            **options: `filter`, `limit` (10), `offset`, `refresh_ttl`, as in `search`; `memory_types` (without it, all
                but hypotheses), `tags` (any of them), `run_id` (rows of this run beside those of none), `in_contexts`,
                `min_similarity`, `min_confidence`; `goal` (scores are multiplied by the similarity to it, and below 0.2
                a row is left out); `negative` (rejected memories, as items or texts: 0.3 of their mean vector is taken
                from the query's); `rerank` (given the query and the page's items, returns them in another order);
                `explain` (items carry `score_details`); `status` (``active``, ``archived``, ``superseded``; without it,
                active ones); `as_of` and `known_at` (what held in the world, and what the store knew, at that time: an
                aware datetime or ISO 8601 text; such reads count no access and slide no TTL); `archived_above`
                (archived memories of that similarity, too); `track_access` (``False``: nothing is counted).

        Returns:
            A page of items, best first.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        operation = Search.recalled(namespace_prefix, query, self._session, options)
        return self._run(recall(self._session, operation))

    async def arecall(
        self, namespace_prefix: tuple[str, ...], query: str | None = None, **options: Unpack[RecallOptions]
    ) -> list[MemorySearchItem]:
        """Do as `recall` does."""
        operation = Search.recalled(namespace_prefix, query, self._session, options)
        return await self._arun(recall(self._session, operation), embeds=bool(operation.texts))

    def history(
        self, namespace: Namespace, key: str, *, as_of: Moment | None = None, known_at: Moment | None = None
    ) -> list[MemoryItem]:
        """Read the whole chain of a memory, oldest first; counts no access and slides no TTL.

        Args:
            namespace: Where.
            key: Which.
            as_of: Only what held by then in the world.
            known_at: Only what the store knew by then.
        """
        return self._run(history.history(self._session, namespace, key, as_of, known_at))

    async def ahistory(
        self, namespace: Namespace, key: str, *, as_of: Moment | None = None, known_at: Moment | None = None
    ) -> list[MemoryItem]:
        """Do as `history` does."""
        return await self._arun(history.history(self._session, namespace, key, as_of, known_at))
