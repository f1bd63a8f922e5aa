"""Erasing memories for good, and the records of what was done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.operations import audit as auditing
from langgraph_forgetful_store.operations import digests, erase, runs
from langgraph_forgetful_store.operations.audit import AuditRecord
from langgraph_forgetful_store.operations.closure import Rederive
from langgraph_forgetful_store.operations.erase import ErasureReceipt
from langgraph_forgetful_store.store.base import Methods, Moment


class ErasureMethods(Methods):
    """Hard delete, ended runs and the audit; see `Methods` for what all have in common."""

    def end_run(self, namespace_prefix: Namespace, run_id: str) -> int:
        """Delete exactly the memories of a run, below a prefix, and return how many there were.

        Args:
            namespace_prefix: What its namespace begins with.
            run_id: The run.
        """
        return self._run(runs.end_run(self._session, namespace_prefix, run_id))

    async def aend_run(self, namespace_prefix: Namespace, run_id: str) -> int:
        """Do as `end_run` does."""
        return await self._arun(runs.end_run(self._session, namespace_prefix, run_id))

    def forget(
        self,
        namespace: Namespace,
        key: str,
        *,
        trigger: str = "user_request",
        byte_scan: bool = False,
        rewrite: bool = False,
        rederive: Rederive | None = None,
    ) -> ErasureReceipt:
        """Erase a memory for good: its whole chain, what was merged into it, its links, and the summaries made from it.

        Args:
            namespace: Where.
            key: Which.
            trigger: Why: ``user_request``, ``sensitive``, ``wrong``, ``compliance`` or ``test_data``.
            byte_scan: Whether every byte below the store's prefix is searched for its key, texts, subject and other
                names (of 8 bytes or more) that no memory which is left holds.
            rewrite: Whether the server rewrites its append-only file, or its snapshot, before this returns.
            rederive: Given a summary and what is left of its sources, returns its new content; ``None``: it is erased
                too.
        """
        return self._run(
            erase.forget(self._session, namespace, key, erase.Terms.parse(trigger, byte_scan, rewrite, rederive))
        )

    async def aforget(
        self,
        namespace: Namespace,
        key: str,
        *,
        trigger: str = "user_request",
        byte_scan: bool = False,
        rewrite: bool = False,
        rederive: Rederive | None = None,
    ) -> ErasureReceipt:
        """Do as `forget` does."""
        return await self._arun(
            erase.forget(self._session, namespace, key, erase.Terms.parse(trigger, byte_scan, rewrite, rederive))
        )

    def forget_all(
        self,
        namespace_prefix: Namespace,
        *,
        trigger: str = "user_request",
        byte_scan: bool = False,
        rewrite: bool = False,
    ) -> ErasureReceipt:
        """Erase everything below a prefix for good; can be repeated where it was cut off.

        Args:
            namespace_prefix: What its namespace begins with.
            trigger: As in `forget`; likewise `byte_scan` and `rewrite`.
        """
        return self._run(
            erase.forget_all(self._session, namespace_prefix, erase.Terms.parse(trigger, byte_scan, rewrite, None))
        )

    async def aforget_all(
        self,
        namespace_prefix: Namespace,
        *,
        trigger: str = "user_request",
        byte_scan: bool = False,
        rewrite: bool = False,
    ) -> ErasureReceipt:
        """Do as `forget_all` does."""
        return await self._arun(
            erase.forget_all(self._session, namespace_prefix, erase.Terms.parse(trigger, byte_scan, rewrite, None))
        )

    def erased_before(
        self, namespace: Namespace, message_ids: Iterable[str] = (), content: str | Mapping[str, Any] | None = None
    ) -> bool:
        """Tell whether something comes from what was erased: a replayed message, a resumed run, a copy.

        An erasure leaves digests of the ids of the messages that its memories came from (`source_refs`), and of their
        contents; no text. What a later message says anew is new, so a content is asked about only where there is no id.

        Args:
            namespace: The namespace that the memories were in.
            message_ids: The ids of the messages that something comes from.
            content: The text, or the dict, that would be stored; it is looked at where there are no ids.

        Returns:
            Whether one of the messages, or else the content, was erased there.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(digests.erased_before(self._session, namespace, message_ids, content))

    async def aerased_before(
        self, namespace: Namespace, message_ids: Iterable[str] = (), content: str | Mapping[str, Any] | None = None
    ) -> bool:
        """Do as `erased_before` does."""
        return await self._arun(digests.erased_before(self._session, namespace, message_ids, content))

    def audit(
        self, namespace_prefix: Namespace, *, key: str | None = None, since: Moment | None = None, limit: int = 100
    ) -> list[AuditRecord]:
        """Read what was done to the memories below a prefix, latest first; counts no access.

        Args:
            namespace_prefix: What its namespace begins with.
            key: Only of this key, in every namespace below.
            since: Only from then on.
            limit: How many at the most.
        """
        return self._run(auditing.audit(self._session, namespace_prefix, key, since, limit))

    async def aaudit(
        self, namespace_prefix: Namespace, *, key: str | None = None, since: Moment | None = None, limit: int = 100
    ) -> list[AuditRecord]:
        """Do as `audit` does."""
        return await self._arun(auditing.audit(self._session, namespace_prefix, key, since, limit))
