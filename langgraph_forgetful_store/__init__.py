"""A LangGraph `BaseStore` on Redis or Valkey, no module needed, that forgets on the read path."""

from importlib.metadata import PackageNotFoundError, version

from langgraph_forgetful_store.context import assemble_context
from langgraph_forgetful_store.errors import (
    ConfigurationError,
    CorruptRecord,
    ForgetfulStoreError,
    IllegalTransition,
    MemoryNotFound,
    ServerUnsupported,
    VersionConflict,
)
from langgraph_forgetful_store.forgetting.audit import AuditRecord
from langgraph_forgetful_store.forgetting.erasure import ErasureReceipt
from langgraph_forgetful_store.labels import namespace_label
from langgraph_forgetful_store.memory import Lifecycle, MemoryItem, MemorySearchItem, Status
from langgraph_forgetful_store.memory_types import MemoryType
from langgraph_forgetful_store.policy.node import MemoryPolicy
from langgraph_forgetful_store.policy.recall_node import RecallMemories
from langgraph_forgetful_store.policy.state import MemoryPolicyState
from langgraph_forgetful_store.policy.tools import memory_tools
from langgraph_forgetful_store.store import ForgetfulStore

try:
    __version__ = version("langgraph-forgetful-store")
except PackageNotFoundError:  # a checkout that is on the path but not installed
    __version__ = "0+unknown"

__all__ = [
    "AuditRecord",
    "ConfigurationError",
    "CorruptRecord",
    "ErasureReceipt",
    "ForgetfulStore",
    "ForgetfulStoreError",
    "IllegalTransition",
    "Lifecycle",
    "MemoryItem",
    "MemoryNotFound",
    "MemoryPolicy",
    "MemoryPolicyState",
    "MemorySearchItem",
    "MemoryType",
    "RecallMemories",
    "ServerUnsupported",
    "Status",
    "VersionConflict",
    "__version__",
    "assemble_context",
    "memory_tools",
    "namespace_label",
]
