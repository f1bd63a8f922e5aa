"""What memories were, what they are linked to, and how they are erased."""

from __future__ import annotations

from langgraph_forgetful_store.forgetting import audit as auditing
from langgraph_forgetful_store.forgetting import erasure
from langgraph_forgetful_store.forgetting.audit import AuditRecord
from langgraph_forgetful_store.forgetting.closure import Rederive
from langgraph_forgetful_store.forgetting.erasure import ErasureReceipt
from langgraph_forgetful_store.memory import MemoryItem
from langgraph_forgetful_store.methods.base import Methods, Moment
from langgraph_forgetful_store.operations import aliases, history, runs
from langgraph_forgetful_store.operations.checks import Namespace


class RecordMethods(Methods):
    """History, relations, runs and erasure; see `Methods` for what all have in common."""

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
        return self._run(history.history(self._context, namespace, key, as_of, known_at))

    async def ahistory(
        self, namespace: Namespace, key: str, *, as_of: Moment | None = None, known_at: Moment | None = None
    ) -> list[MemoryItem]:
        """Do as `history` does."""
        return await self._arun(history.history(self._context, namespace, key, as_of, known_at))

    def alias(self, namespace: Namespace, canonical: str, *names: str) -> None:
        """Have names stand for one subject, so that their slots are one.

        Of two rows that hold a slot the one valid later stays, and the other is closed as merged.

        Args:
            namespace: Where.
            canonical: The subject.
            *names: What else it is called.
        """
        self._run(aliases.alias(self._context, namespace, canonical, *names))

    async def aalias(self, namespace: Namespace, canonical: str, *names: str) -> None:
        """Do as `alias` does."""
        await self._arun(aliases.alias(self._context, namespace, canonical, *names))

    def unalias(self, namespace: Namespace, name: str) -> None:
        """Undo a wrong merge: the name stands for itself again, and what its merge had closed is open again.

        Args:
            namespace: Where.
            name: What `alias` was given; silent where it stands for itself.
        """
        self._run(aliases.unalias(self._context, namespace, name))

    async def aunalias(self, namespace: Namespace, name: str) -> None:
        """Do as `unalias` does."""
        await self._arun(aliases.unalias(self._context, namespace, name))

    def aliases(self, namespace: Namespace) -> dict[str, str]:
        """Read which names stand for which subjects.

        Args:
            namespace: Where.

        Returns:
            The subject of each name, by name.
        """
        return self._run(aliases.known(self._context, namespace))

    async def aaliases(self, namespace: Namespace) -> dict[str, str]:
        """Do as `aliases` does."""
        return await self._arun(aliases.known(self._context, namespace))

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
        return self._run(history.link(self._context, namespace, key, relation, other))

    async def alink(self, namespace: Namespace, key: str, relation: str, other: str) -> MemoryItem:
        """Do as `link` does."""
        return await self._arun(history.link(self._context, namespace, key, relation, other))

    def unlink(self, namespace: Namespace, key: str, relation: str, other: str) -> None:
        """Take a link away; silent where there is none. What it did to importance stays.

        Args:
            namespace: Where.
            key: Which.
            relation: As in `link`.
            other: The key of the other.
        """
        self._run(history.unlink(self._context, namespace, key, relation, other))

    async def aunlink(self, namespace: Namespace, key: str, relation: str, other: str) -> None:
        """Do as `unlink` does."""
        await self._arun(history.unlink(self._context, namespace, key, relation, other))

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
        return self._run(history.neighbors(self._context, namespace, key, relation, direction))

    async def aneighbors(
        self, namespace: Namespace, key: str, relation: str | None = None, direction: str = "both"
    ) -> list[tuple[str, MemoryItem]]:
        """Do as `neighbors` does."""
        return await self._arun(history.neighbors(self._context, namespace, key, relation, direction))

    def end_run(self, namespace_prefix: Namespace, run_id: str) -> int:
        """Delete exactly the memories of a run, below a prefix, and return how many there were.

        Args:
            namespace_prefix: What its namespace begins with.
            run_id: The run.
        """
        return self._run(runs.end_run(self._context, namespace_prefix, run_id))

    async def aend_run(self, namespace_prefix: Namespace, run_id: str) -> int:
        """Do as `end_run` does."""
        return await self._arun(runs.end_run(self._context, namespace_prefix, run_id))

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
        return self._run(
            erasure.forget(self._context, namespace, key, erasure.Terms.parse(trigger, byte_scan, rewrite, rederive))
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
            erasure.forget(self._context, namespace, key, erasure.Terms.parse(trigger, byte_scan, rewrite, rederive))
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
            erasure.forget_all(self._context, namespace_prefix, erasure.Terms.parse(trigger, byte_scan, rewrite, None))
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
            erasure.forget_all(self._context, namespace_prefix, erasure.Terms.parse(trigger, byte_scan, rewrite, None))
        )

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
        return self._run(auditing.audit(self._context, namespace_prefix, key, since, limit))

    async def aaudit(
        self, namespace_prefix: Namespace, *, key: str | None = None, since: Moment | None = None, limit: int = 100
    ) -> list[AuditRecord]:
        """Do as `audit` does."""
        return await self._arun(auditing.audit(self._context, namespace_prefix, key, since, limit))
