"""What tests of a store, or of a subclass of it, can reuse.

`StoreContract` is the contract of a `BaseStore` as a pytest class; `check_keys` proves that what lies in Redis is
consistent; `WordEmbeddings` embeds without a model; `Clock` is a clock to inject; `Face` calls a store's sync or async
side. Only `StoreContract` needs pytest.
"""

from typing import TYPE_CHECKING, Any

from langgraph_forgetful_store.testing.clock import Clock
from langgraph_forgetful_store.testing.embedder import WordEmbeddings
from langgraph_forgetful_store.testing.face import Face, faces
from langgraph_forgetful_store.testing.keys import check_keys

if TYPE_CHECKING:
    from langgraph_forgetful_store.testing.contract import StoreContract

__all__ = ["Clock", "Face", "StoreContract", "WordEmbeddings", "check_keys", "faces"]


def __getattr__(name: str) -> Any:
    if name != "StoreContract":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from langgraph_forgetful_store.testing.contract import StoreContract

    globals()[name] = StoreContract
    return StoreContract


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
