"""What the policy, its nodes and its tools ask of a store."""

# ruff: noqa: D102 (`ForgetfulStore` documents the methods)

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack

from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.fields import WriteOptions
from langgraph_forgetful_store.model.memory import MemoryItem, MemorySearchItem
from langgraph_forgetful_store.model.memory_types import MemoryTypes
from langgraph_forgetful_store.model.options import RecallOptions

if TYPE_CHECKING:
    from langgraph_forgetful_store import AuditRecord, ErasureReceipt

Content = str | Mapping[str, Any]
Links = list[tuple[str, MemoryItem]]


class SyncLifecycleStore(Protocol):
    """The sync methods of `ForgetfulStore` that a graph's node calls when the graph is invoked."""

    @property
    def memory_types(self) -> MemoryTypes: ...
    @property
    def reserved_key(self) -> str | None: ...

    def recall(
        self, namespace_prefix: Namespace, query: str | None = None, /, **options: Unpack[RecallOptions]
    ) -> list[MemorySearchItem]: ...
    def get(self, namespace: Namespace, key: str, /, *, track_access: bool = True) -> MemoryItem | None: ...
    def history(self, namespace: Namespace, key: str, /) -> list[MemoryItem]: ...
    def audit(self, namespace_prefix: Namespace, /, *, key: str | None = None) -> list[AuditRecord]: ...
    def audited(
        self,
        namespace: Namespace,
        action: str,
        /,
        *,
        key: str | None = None,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Any: ...
    def aliases(self, namespace: Namespace, /) -> dict[str, str]: ...
    def neighbors(self, namespace: Namespace, key: str, /) -> Links: ...
    def remember(
        self,
        namespace: Namespace,
        content: Content,
        /,
        *,
        key: str | None = None,
        if_absent: Literal["key", "slot", "content"] | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem: ...
    def supersede(
        self,
        namespace: Namespace,
        key: str,
        content: Content,
        /,
        *,
        new_key: str | None = None,
        reason: str = "updated",
        expected_version: int | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem: ...
    def retire(self, namespace: Namespace, key: str, /, *, reason: str = "negated") -> MemoryItem: ...
    def archive(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    def restore(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    def pin(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    def unpin(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    def demote(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    def anchor(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    def confirm(self, namespace: Namespace, key: str, /, *, idempotency_key: str | None = None) -> MemoryItem: ...
    def deny(self, namespace: Namespace, key: str, /, *, idempotency_key: str | None = None) -> MemoryItem: ...
    def set_ttl(self, namespace: Namespace, key: str, ttl: float, /) -> MemoryItem: ...
    def feedback(
        self,
        recall_id: str,
        value: int,
        /,
        *,
        keys: Iterable[str] | None = None,
        idempotency_key: str | None = None,
    ) -> list[MemoryItem]: ...
    def forget(self, namespace: Namespace, key: str, /, *, trigger: str = "user_request") -> ErasureReceipt: ...
    def end_run(self, namespace_prefix: Namespace, run_id: str, /) -> int: ...


class LifecycleStore(SyncLifecycleStore, Protocol):
    """A store with a lifecycle, sync and async: `ForgetfulStore`, or what wraps one."""

    async def arecall(
        self, namespace_prefix: Namespace, query: str | None = None, /, **options: Unpack[RecallOptions]
    ) -> list[MemorySearchItem]: ...
    async def aget(self, namespace: Namespace, key: str, /, *, track_access: bool = True) -> MemoryItem | None: ...
    async def aaudit(self, namespace_prefix: Namespace, /, *, key: str | None = None) -> list[AuditRecord]: ...
    async def ahistory(self, namespace: Namespace, key: str, /) -> list[MemoryItem]: ...
    async def aaliases(self, namespace: Namespace, /) -> dict[str, str]: ...
    async def aneighbors(self, namespace: Namespace, key: str, /) -> Links: ...
    async def aremember(
        self,
        namespace: Namespace,
        content: Content,
        /,
        *,
        key: str | None = None,
        if_absent: Literal["key", "slot", "content"] | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem: ...
    async def asupersede(
        self,
        namespace: Namespace,
        key: str,
        content: Content,
        /,
        *,
        new_key: str | None = None,
        reason: str = "updated",
        expected_version: int | None = None,
        **options: Unpack[WriteOptions],
    ) -> MemoryItem: ...
    async def aretire(self, namespace: Namespace, key: str, /, *, reason: str = "negated") -> MemoryItem: ...
    async def aarchive(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    async def arestore(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    async def apin(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    async def aunpin(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    async def ademote(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    async def aanchor(self, namespace: Namespace, key: str, /) -> MemoryItem: ...
    async def aconfirm(
        self, namespace: Namespace, key: str, /, *, idempotency_key: str | None = None
    ) -> MemoryItem: ...
    async def adeny(self, namespace: Namespace, key: str, /, *, idempotency_key: str | None = None) -> MemoryItem: ...
    async def aset_ttl(self, namespace: Namespace, key: str, ttl: float, /) -> MemoryItem: ...
    async def afeedback(
        self,
        recall_id: str,
        value: int,
        /,
        *,
        keys: Iterable[str] | None = None,
        idempotency_key: str | None = None,
    ) -> list[MemoryItem]: ...
    async def aforget(self, namespace: Namespace, key: str, /, *, trigger: str = "user_request") -> ErasureReceipt: ...
    async def aend_run(self, namespace_prefix: Namespace, run_id: str, /) -> int: ...
