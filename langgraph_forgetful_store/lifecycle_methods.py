"""The lifecycle as methods of the store: each one flow, run by the sync or the async driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict, TypeVar, Unpack

from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.forgetting import audit as auditing
from langgraph_forgetful_store.forgetting import erasure
from langgraph_forgetful_store.forgetting.audit import AuditRecord
from langgraph_forgetful_store.forgetting.erasure import ErasureReceipt, Rederive
from langgraph_forgetful_store.memory import MemoryItem
from langgraph_forgetful_store.operations import aliases, history, runs, transitions, writing
from langgraph_forgetful_store.operations.context import Context
from langgraph_forgetful_store.operations.transitions import Transition, transition
from langgraph_forgetful_store.operations.writing import Writing

T = TypeVar("T")
Namespace = tuple[str, ...]
Moment = str | datetime


class WriteOptions(TypedDict, total=False):
    """What a write may say of a memory's life; `LifecycleMethods.remember` explains it."""

    memory_type: str | None
    importance: float | None
    confidence: float | None
    subject: str | None
    attribute: str | None
    valid_from: Moment | None
    valid_until: Moment | None
    source: str | None
    source_refs: Iterable[str] | None
    tags: Iterable[str] | None
    preconditions: Iterable[str] | None
    run_id: str | None
    pinned: bool | None
    index: Any
    ttl: float | None


class LifecycleMethods:
    """From "written" to "gone", each step atomic. Every method has an async twin, with ``a`` in front.

    Common to all: an absent or expired key raises `MemoryNotFound`; a status that does not allow the step raises
    `IllegalTransition`; a row that is in the state asked for already is returned as it is; arguments that are unusable
    raise `ValueError` or `TypeError`; a server that is down or refuses raises redis-py's error. Nothing has changed then.
    """

    _context: Context

    def _run(self, flow: Flow[T]) -> T:
        raise NotImplementedError

    async def _arun(self, flow: Flow[T], *, embeds: bool = False) -> T:
        raise NotImplementedError

    def _writing(self, namespace: Any, key: Any, content: Any, options: Mapping[str, Any]) -> Writing:
        return Writing.prepare(namespace, key, content, self._context, options)

    def _step(self, namespace: Any, key: Any, action: str, apply: Transition, **more: Any) -> Flow[MemoryItem]:
        return transition(self._context, namespace, key, action, apply, **more)

    def remember(
        self,
        namespace: Namespace,
        content: str | Mapping[str, Any],
        *,
        key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem:
        """Write a memory with what is known of its life.

        An existing key is written over in place, as by `put`. Where another row holds the slot that is named, that row is
        superseded; a `valid_from` before that of the slot's latest row makes it a late fact: it is inserted, closed.

        Args:
            namespace: Where.
            content: A text, stored as ``{"content": text}``, or a dict.
            key: Made up if it is not given.
            **options: `memory_type`; `importance` and `confidence` (0 to 1); `subject` and `attribute`, which name a slot
                that has one current row; `valid_from` and `valid_until` (aware datetimes or ISO 8601 text: when it holds
                in the world); `source`, `source_refs`, `tags`, `preconditions`; `run_id` (recalled in that run alone);
                `pinned`; `index` as in `put`; `ttl` in minutes (``None``: never expires; not given: what the type says,
                else the store's default).

        Returns:
            The memory as it is stored.

        Raises:
            InvalidNamespaceError: The namespace can't hold memories.
        """
        return self._run(writing.remember(self._context, self._writing(namespace, key, content, options)))

    async def aremember(
        self,
        namespace: Namespace,
        content: str | Mapping[str, Any],
        *,
        key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem:
        """Do as `remember` does."""
        made = self._writing(namespace, key, content, options)
        return await self._arun(writing.remember(self._context, made), embeds=bool(made.texts))

    def supersede(
        self,
        namespace: Namespace,
        key: str,
        content: str | Mapping[str, Any],
        *,
        new_key: str | None = None,
        reason: str = "updated",
        expected_version: int | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem:
        """Replace a memory by a new one, and keep it as history, in one atomic step.

        The old row is closed where the new one begins to hold, and both point to each other. A row that has been
        superseded already: the latest of its chain is. Slot, type, tags, run and pin are taken over.

        Args:
            namespace: Where.
            key: Of any row of the chain.
            content: As in `remember`.
            new_key: Of the new row; made up if it is not given.
            reason: ``updated``, ``corrected``, ``contradicted``, ``negated``, ``merged`` or ``resolved``.
            expected_version: The version that the latest row must have.
            **options: As in `remember`; `valid_from` is where the old row ends.

        Returns:
            The new memory.

        Raises:
            VersionConflict: The latest row has another version than expected.
            ValueError: `new_key` exists.
        """
        made = self._writing(namespace, new_key, content, options)
        return self._run(writing.supersede(self._context, made, key, reason, expected_version))

    async def asupersede(
        self,
        namespace: Namespace,
        key: str,
        content: str | Mapping[str, Any],
        *,
        new_key: str | None = None,
        reason: str = "updated",
        expected_version: int | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem:
        """Do as `supersede` does."""
        made = self._writing(namespace, new_key, content, options)
        flow = writing.supersede(self._context, made, key, reason, expected_version)
        return await self._arun(flow, embeds=bool(made.texts))

    def undo_supersede(self, namespace: Namespace, key: str) -> MemoryItem:
        """Take back the last step of a chain: the predecessor of its latest row is current again.

        The latest row is archived if the two share a slot; else it stays as it is, unlinked.

        Args:
            namespace: Where.
            key: Of the latest row of the chain.

        Returns:
            The row that was reopened.
        """
        return self._run(transitions.undo_supersede(self._context, namespace, key))

    async def aundo_supersede(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `undo_supersede` does."""
        return await self._arun(transitions.undo_supersede(self._context, namespace, key))

    def retire(
        self, namespace: Namespace, key: str, *, reason: str = "negated", valid_until: Moment | None = None
    ) -> MemoryItem:
        """Close a memory without a successor: it no longer holds.

        Args:
            namespace: Where.
            key: Which.
            reason: As in `supersede`.
            valid_until: Until when it has held; not given: until now.
        """
        return self._run(
            self._step(namespace, key, "retire", transitions.retired(reason, valid_until), reason=str(reason))
        )

    async def aretire(
        self, namespace: Namespace, key: str, *, reason: str = "negated", valid_until: Moment | None = None
    ) -> MemoryItem:
        """Do as `retire` does."""
        return await self._arun(
            self._step(namespace, key, "retire", transitions.retired(reason, valid_until), reason=str(reason))
        )

    def archive(self, namespace: Namespace, key: str) -> MemoryItem:
        """Take a memory out of recall; it is found when archived ones are asked for, and can be restored."""
        return self._run(self._step(namespace, key, "archive", transitions.archived))

    async def aarchive(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `archive` does."""
        return await self._arun(self._step(namespace, key, "archive", transitions.archived))

    def restore(self, namespace: Namespace, key: str) -> MemoryItem:
        """Bring an archived memory back, with its TTL anew."""
        return self._run(self._step(namespace, key, "restore", transitions.restored))

    async def arestore(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `restore` does."""
        return await self._arun(self._step(namespace, key, "restore", transitions.restored))

    def pin(self, namespace: Namespace, key: str) -> MemoryItem:
        """Keep every strategy off a memory, and suspend its TTL."""
        return self._run(self._step(namespace, key, "pin", transitions.pinned))

    async def apin(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `pin` does."""
        return await self._arun(self._step(namespace, key, "pin", transitions.pinned))

    def unpin(self, namespace: Namespace, key: str) -> MemoryItem:
        """Take the pin off a memory; its TTL starts anew."""
        return self._run(self._step(namespace, key, "unpin", transitions.unpinned))

    async def aunpin(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `unpin` does."""
        return await self._arun(self._step(namespace, key, "unpin", transitions.unpinned))

    def demote(self, namespace: Namespace, key: str, by: float = 0.2) -> MemoryItem:
        """Lower a memory's importance, so that it ranks lower; its status stays.

        Args:
            namespace: Where.
            key: Which.
            by: How much, 0 to 1; importance ends at 0.
        """
        return self._run(self._step(namespace, key, "demote", transitions.demoted(by), by=by))

    async def ademote(self, namespace: Namespace, key: str, by: float = 0.2) -> MemoryItem:
        """Do as `demote` does."""
        return await self._arun(self._step(namespace, key, "demote", transitions.demoted(by), by=by))

    def anchor(self, namespace: Namespace, key: str) -> MemoryItem:
        """Make a memory matter again: importance 0.5 at the least, twice the half-life, and restored where it is archived."""
        return self._run(self._step(namespace, key, "anchor", transitions.anchored))

    async def aanchor(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `anchor` does."""
        return await self._arun(self._step(namespace, key, "anchor", transitions.anchored))

    def confirm(self, namespace: Namespace, key: str) -> MemoryItem:
        """Trust a memory more: confidence rises by 0.1, importance by 0.05; an archived one is restored."""
        return self._run(self._step(namespace, key, "confirm", transitions.confirmed))

    async def aconfirm(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `confirm` does."""
        return await self._arun(self._step(namespace, key, "confirm", transitions.confirmed))

    def deny(self, namespace: Namespace, key: str) -> MemoryItem:
        """Trust a memory less: confidence falls by 0.2."""
        return self._run(self._step(namespace, key, "deny", transitions.denied))

    async def adeny(self, namespace: Namespace, key: str) -> MemoryItem:
        """Do as `deny` does."""
        return await self._arun(self._step(namespace, key, "deny", transitions.denied))

    def extend(self, namespace: Namespace, key: str, ttl: float) -> MemoryItem:
        """Have a memory expire so many minutes from now, also where its TTL is its type's; a pinned one when it is unpinned.

        Args:
            namespace: Where.
            key: Which.
            ttl: In minutes.
        """
        return self._run(self._step(namespace, key, "extend", transitions.extended(ttl), ttl=ttl))

    async def aextend(self, namespace: Namespace, key: str, ttl: float) -> MemoryItem:
        """Do as `extend` does."""
        return await self._arun(self._step(namespace, key, "extend", transitions.extended(ttl), ttl=ttl))

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
        """Have names stand for one subject, so that their slots are one: of two rows the one valid later stays, the other is merged.

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

    def link(self, namespace: Namespace, key: str, relation: str, other: str) -> MemoryItem:
        """Link a memory to another of its namespace; what the relation says happens to their importance, once.

        Args:
            namespace: Where.
            key: Which.
            relation: ``triggers``, ``responds``, ``relates``, ``resolves``, ``closes``, ``causes``, ``updates``, ``negates``,
                ``completes``, ``summarizes`` or ``same_session``. `updates` and `negates` raise the one and lower the other;
                what is completed, resolved or closed falls with its chain, and the latter two leave recall.
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
            rederive: Given a summary and what is left of its sources, returns its new content; ``None``: it is erased too.
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
