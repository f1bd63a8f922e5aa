"""A LangGraph `BaseStore` on Redis or Valkey, no module needed, that forgets on the read path."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from langgraph_forgetful_store.config import IndexConfig, TTLConfig
from langgraph_forgetful_store.errors import (
    ConfigurationError,
    CorruptRecordError,
    ForgetfulStoreError,
    IllegalTransitionError,
    MemoryNotFoundError,
    UnsupportedServerError,
    VersionConflictError,
)
from langgraph_forgetful_store.model.fields import Lifecycle, WriteOptions
from langgraph_forgetful_store.model.labels import namespace_label
from langgraph_forgetful_store.model.memory import MemoryItem, MemorySearchItem
from langgraph_forgetful_store.model.memory_types import MemoryType
from langgraph_forgetful_store.model.options import RecallOptions
from langgraph_forgetful_store.model.status import MemoryStatus
from langgraph_forgetful_store.operations.audit import AuditRecord
from langgraph_forgetful_store.store.store import ForgetfulStore, StoreSettings
from langgraph_forgetful_store.version import VERSION

if TYPE_CHECKING:
    from langgraph_forgetful_store.operations.erase import ErasureReceipt
    from langgraph_forgetful_store.policy.node import MemoryPolicy
    from langgraph_forgetful_store.policy.recall_node import RecallMemories
    from langgraph_forgetful_store.policy.state import MemoryPolicyState
    from langgraph_forgetful_store.policy.tools import memory_tools
    from langgraph_forgetful_store.prompt.context import assemble_context

# What agents need imports much of LangChain, and erasing is rare: who only wants the store does not wait for it.
_LAZY = {
    "ErasureReceipt": "operations.erase",
    "MemoryPolicy": "policy.node",
    "MemoryPolicyState": "policy.state",
    "RecallMemories": "policy.recall_node",
    "assemble_context": "prompt.context",
    "memory_tools": "policy.tools",
}

__version__ = VERSION

__all__ = [
    "AuditRecord",
    "ConfigurationError",
    "CorruptRecordError",
    "ErasureReceipt",
    "ForgetfulStore",
    "ForgetfulStoreError",
    "IllegalTransitionError",
    "IndexConfig",
    "Lifecycle",
    "MemoryItem",
    "MemoryNotFoundError",
    "MemoryPolicy",
    "MemoryPolicyState",
    "MemorySearchItem",
    "MemoryStatus",
    "MemoryType",
    "RecallMemories",
    "RecallOptions",
    "StoreSettings",
    "TTLConfig",
    "UnsupportedServerError",
    "VersionConflictError",
    "WriteOptions",
    "__version__",
    "assemble_context",
    "memory_tools",
    "namespace_label",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
