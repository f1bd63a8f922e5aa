"""What tests of a store, or of a subclass of it, can reuse.

`StoreContract` is the contract of a `BaseStore` as a pytest class; `check_keys` proves that what lies in Redis is
consistent; `WordEmbeddings` embeds without a model; `Clock` is a clock to inject; `Face` calls a store's sync or async
side; `Interleaver` runs flows in every order. Needs pytest.
"""

import pytest

from langgraph_forgetful_store.testing.clock import Clock
from langgraph_forgetful_store.testing.embedder import WordEmbeddings
from langgraph_forgetful_store.testing.face import Face, faces
from langgraph_forgetful_store.testing.interleaving import Event, Interleaver, Run
from langgraph_forgetful_store.testing.keys import check_keys

# Said before the import, it makes the asserts of the contract show their values, as those of a test module do.
pytest.register_assert_rewrite("langgraph_forgetful_store.testing.contract")

from langgraph_forgetful_store.testing.contract import StoreContract  # noqa: E402

__all__ = ["Clock", "Event", "Face", "Interleaver", "Run", "StoreContract", "WordEmbeddings", "check_keys", "faces"]
