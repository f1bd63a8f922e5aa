"""Erasing memories for good, and the records of what was done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from langgraph_forgetful_store.backend.drivers import WORK_ON_LOOP
from langgraph_forgetful_store.backend.flow import Flow, Work
from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.documented import twin_of
from langgraph_forgetful_store.operations import audit as auditing
from langgraph_forgetful_store.operations import digests
from langgraph_forgetful_store.operations.audit import AuditRecord
from langgraph_forgetful_store.operations.session import Session
from langgraph_forgetful_store.store.base import Methods, Moment

if TYPE_CHECKING:
    from langgraph_forgetful_store.operations.closure import Rederive
    from langgraph_forgetful_store.operations.erase import ErasureReceipt


class ErasureMethods(Methods):
    """Hard delete, ended runs, and the audit."""

    def end_run(self, namespace_prefix: Namespace, run_id: str) -> int:
        """Delete exactly the memories that are bound to a run, and nothing else.

        Args:
            namespace_prefix: The labels that the namespaces begin with; ``()`` stands for the whole store.
            run_id: The run whose memories are deleted.

        Returns:
            How many memories were deleted.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(_end_run(self._session, namespace_prefix, run_id))

    @twin_of(end_run)
    async def aend_run(self, namespace_prefix: Namespace, run_id: str) -> int:
        """The async twin of `end_run`."""
        return await self._arun(_end_run(self._session, namespace_prefix, run_id))

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
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            trigger: Why, for the audit: ``user_request``, ``sensitive``, ``wrong``, ``compliance`` or ``test_data``.
            byte_scan: Whether every byte below the store's key prefix is searched for its key, its texts, its subject
                and other names, of 8 bytes or more, that no memory which is left holds; it takes long on large stores.
            rewrite: Whether the server rewrites its append-only file, or its snapshot, before this returns.
            rederive: A function that is given a summary and what is left of its sources, and returns the summary's new
                content; ``None``: such summaries are erased too.

        Returns:
            What was erased, what was looked at to prove it, and what the store can't reach; where there was nothing to
            erase, the counts are 0.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(_forget(self._session, namespace, key, trigger, byte_scan, rewrite, rederive))

    @twin_of(forget)
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
        """The async twin of `forget`."""
        return await self._arun(_forget(self._session, namespace, key, trigger, byte_scan, rewrite, rederive))

    def forget_all(
        self,
        namespace_prefix: Namespace,
        *,
        trigger: str = "user_request",
        byte_scan: bool = False,
        rewrite: bool = False,
    ) -> ErasureReceipt:
        """Erase everything below a prefix for good; where it was cut off, call it again.

        Args:
            namespace_prefix: The labels that the namespaces begin with; ``()`` stands for the whole store.
            trigger: Why, for the audit: ``user_request``, ``sensitive``, ``wrong``, ``compliance`` or ``test_data``.
            byte_scan: Whether every byte below the store's key prefix is searched for the erased contents of 16 bytes
                or more; it takes long on large stores.
            rewrite: Whether the server rewrites its append-only file, or its snapshot, before this returns.

        Returns:
            What was erased, what was looked at to prove it, and what the store can't reach.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(_forget_all(self._session, namespace_prefix, trigger, byte_scan, rewrite))

    @twin_of(forget_all)
    async def aforget_all(
        self,
        namespace_prefix: Namespace,
        *,
        trigger: str = "user_request",
        byte_scan: bool = False,
        rewrite: bool = False,
    ) -> ErasureReceipt:
        """The async twin of `forget_all`."""
        return await self._arun(_forget_all(self._session, namespace_prefix, trigger, byte_scan, rewrite))

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

    @twin_of(erased_before)
    async def aerased_before(
        self, namespace: Namespace, message_ids: Iterable[str] = (), content: str | Mapping[str, Any] | None = None
    ) -> bool:
        """The async twin of `erased_before`."""
        return await self._arun(digests.erased_before(self._session, namespace, message_ids, content))

    def audit(
        self, namespace_prefix: Namespace, *, key: str | None = None, since: Moment | None = None, limit: int = 100
    ) -> list[AuditRecord]:
        """Read the records of what was done to memories. Reading them counts no access.

        Args:
            namespace_prefix: The labels that the namespaces begin with; ``()`` stands for the whole store.
            key: The only key whose records are returned, in every namespace below; ``None``: all are.
            since: The time of the earliest record, an aware datetime or ISO 8601 text; ``None``: no limit.
            limit: How many records to return at most.

        Returns:
            The records, latest first.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An argument is unusable.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(auditing.audit(self._session, namespace_prefix, key, since, limit))

    @twin_of(audit)
    async def aaudit(
        self, namespace_prefix: Namespace, *, key: str | None = None, since: Moment | None = None, limit: int = 100
    ) -> list[AuditRecord]:
        """The async twin of `audit`."""
        return await self._arun(auditing.audit(self._session, namespace_prefix, key, since, limit))


# Who only reads and writes does not wait for the code that erases.
_OPERATIONS = "langgraph_forgetful_store.operations"


def _load(name: str) -> Work:
    # So that it leaves an event loop: an import reads files.
    return Work(partial(import_module, f"{_OPERATIONS}.{name}"), WORK_ON_LOOP + 1)


def _end_run(session: Session, namespace_prefix: Namespace, run_id: str) -> Flow[int]:
    yield _load("runs")
    from langgraph_forgetful_store.operations import runs

    return (yield from runs.end_run(session, namespace_prefix, run_id))


def _forget(
    session: Session,
    namespace: Namespace,
    key: str,
    trigger: str,
    byte_scan: bool,
    rewrite: bool,
    rederive: Rederive | None,
) -> Flow[ErasureReceipt]:
    yield _load("erase")
    from langgraph_forgetful_store.operations import erase

    terms = erase.Terms.parse(trigger, byte_scan, rewrite, rederive)
    return (yield from erase.forget(session, namespace, key, terms))


def _forget_all(
    session: Session, namespace_prefix: Namespace, trigger: str, byte_scan: bool, rewrite: bool
) -> Flow[ErasureReceipt]:
    yield _load("erase")
    from langgraph_forgetful_store.operations import erase

    terms = erase.Terms.parse(trigger, byte_scan, rewrite, None)
    return (yield from erase.forget_all(session, namespace_prefix, terms))
