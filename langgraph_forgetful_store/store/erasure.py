"""Erasing memories for good, and the records of what was done."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from langgraph_forgetful_store.backend.drivers import WORK_ON_LOOP
from langgraph_forgetful_store.backend.flow import Flow, Work
from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.operations import audit as auditing
from langgraph_forgetful_store.operations.audit import AuditRecord
from langgraph_forgetful_store.operations.session import Session
from langgraph_forgetful_store.store.base import Methods, Moment

if TYPE_CHECKING:
    from langgraph_forgetful_store.operations.closure import Rederive
    from langgraph_forgetful_store.operations.erase import ErasureReceipt


class ErasureMethods(Methods):
    """Hard delete, ended runs and the audit; see `Methods` for what all have in common."""

    def end_run(self, namespace_prefix: Namespace, run_id: str) -> int:
        """Delete exactly the memories of a run, below a prefix, and return how many there were.

        Args:
            namespace_prefix: What its namespace begins with.
            run_id: The run.
        """
        return self._run(_end_run(self._session, namespace_prefix, run_id))

    async def aend_run(self, namespace_prefix: Namespace, run_id: str) -> int:
        """Do as `end_run` does."""
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
            namespace: Where.
            key: Which.
            trigger: Why: ``user_request``, ``sensitive``, ``wrong``, ``compliance`` or ``test_data``.
            byte_scan: Whether every byte below the store's prefix is searched for its contents (of 16 bytes or more).
            rewrite: Whether the server rewrites its append-only file, or its snapshot, before this returns.
            rederive: Given a summary and what is left of its sources, returns its new content; ``None``: it is erased
                too.
        """
        return self._run(_forget(self._session, namespace, key, trigger, byte_scan, rewrite, rederive))

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
        return await self._arun(_forget(self._session, namespace, key, trigger, byte_scan, rewrite, rederive))

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
        return self._run(_forget_all(self._session, namespace_prefix, trigger, byte_scan, rewrite))

    async def aforget_all(
        self,
        namespace_prefix: Namespace,
        *,
        trigger: str = "user_request",
        byte_scan: bool = False,
        rewrite: bool = False,
    ) -> ErasureReceipt:
        """Do as `forget_all` does."""
        return await self._arun(_forget_all(self._session, namespace_prefix, trigger, byte_scan, rewrite))

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
