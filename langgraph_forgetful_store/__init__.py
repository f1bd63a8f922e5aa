"""A LangGraph `BaseStore` on Redis or Valkey, no module needed, that forgets on the read path."""

from importlib.metadata import PackageNotFoundError, version

from langgraph_forgetful_store.errors import (
    ConfigurationError,
    CorruptRecord,
    ForgetfulStoreError,
    ServerUnsupported,
)
from langgraph_forgetful_store.memory import Lifecycle, MemoryItem, MemorySearchItem, Status
from langgraph_forgetful_store.store import ForgetfulStore

try:
    __version__ = version("langgraph-forgetful-store")
except PackageNotFoundError:  # a checkout that is on the path but not installed
    __version__ = "0+unknown"

__all__ = [
    "ConfigurationError",
    "CorruptRecord",
    "ForgetfulStore",
    "ForgetfulStoreError",
    "Lifecycle",
    "MemoryItem",
    "MemorySearchItem",
    "ServerUnsupported",
    "Status",
    "__version__",
]
