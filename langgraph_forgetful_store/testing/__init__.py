"""What tests of a store, or of a subclass of it, can reuse.

`StoreContract` is the contract of a `BaseStore` as a pytest class; `check_keys` proves that what lies in Redis is
consistent; `WordEmbeddings` embeds without a model; `Interleaver` runs flows in every order. Needs pytest.
"""

from langgraph_forgetful_store.testing.embedder import WordEmbeddings
from langgraph_forgetful_store.testing.face import Face
from langgraph_forgetful_store.testing.interleaving import Event, Interleaver, Run
from langgraph_forgetful_store.testing.keys import check_keys

__all__ = ["Event", "Face", "Interleaver", "Run", "WordEmbeddings", "check_keys"]
