"""The embedder of an index: called sync or async, its answers checked."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

from langgraph_forgetful_store.backend.codec import Matrix, to_matrix
from langgraph_forgetful_store.errors import mark_embedding_error


def embedder_id(embed: object, embeddings: Embeddings) -> str:
    """Name an embedder so that vectors of another one are recognised.

    A provider string names itself. An `Embeddings` object is named by its class and its model; a function by its
    qualified name, without the module, so that moving it changes nothing.
    """
    if isinstance(embed, str):
        return embed
    if isinstance(embed, Embeddings):
        models = (getattr(embed, name, None) for name in ("model", "model_name", "model_id", "deployment"))
        model = next((model for model in models if isinstance(model, str) and model), None)
        return type(embed).__qualname__ + (f":{model}" if model else "")
    while isinstance(embed, functools.partial):
        embed = embed.func
    return str(getattr(embed, "__qualname__", type(embed).__qualname__))


@contextmanager
def _marked() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        mark_embedding_error(error)
        raise


class Embedder:
    """Calls an `Embeddings` and returns checked arrays of float32.

    What the embedder raises passes through as it is, marked as its own: nothing that a caller gave is wrong.

    Args:
        embeddings: LangChain embeddings, as `ensure_embeddings` makes them.
        dims: The dimensions that the index is configured for.
    """

    def __init__(self, embeddings: Embeddings, dims: int) -> None:
        self.embeddings = embeddings
        self.dims = dims
        self._nothing: Matrix = np.empty((0, dims), np.float32)

    def embed(self, texts: Sequence[str], queries: Sequence[str]) -> tuple[Matrix, Matrix]:
        """Embed the distinct texts in one call, and each distinct query by `embed_query`.

        Returns:
            Two arrays of float32: a row for each of `texts`, and a row for each of `queries`.

        Raises:
            ValueError: The embedder returned another number of vectors or dimensions, or numbers that are not finite.
        """
        each_text, each_query = list(dict.fromkeys(texts)), list(dict.fromkeys(queries))
        with _marked():
            documents: Sequence[Any] = self.embeddings.embed_documents(each_text) if texts else []
            asked = [self.embeddings.embed_query(query) for query in each_query]
            return self._spread(documents, each_text, texts), self._spread(asked, each_query, queries)

    async def aembed(self, texts: Sequence[str], queries: Sequence[str]) -> tuple[Matrix, Matrix]:
        """Do as `embed` does, by the embedder's async methods."""
        each_text, each_query = list(dict.fromkeys(texts)), list(dict.fromkeys(queries))
        with _marked():
            try:
                documents: Sequence[Any] = await self.embeddings.aembed_documents(each_text) if texts else []
                asked = await asyncio.gather(*(self.embeddings.aembed_query(query) for query in each_query))
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                # The embedder's own doing: as a cancellation it would end the other callers of this turn too.
                raise RuntimeError("the embedder was cancelled") from error
            return self._spread(documents, each_text, texts), self._spread(asked, each_query, queries)

    def _spread(self, vectors: Sequence[Any], distinct: Sequence[str], wanted: Sequence[str]) -> Matrix:
        if not wanted:
            return self._nothing
        if not hasattr(vectors, "__len__"):
            raise TypeError(f"the embedder must return a list of vectors, got a {type(vectors).__name__}")
        if len(vectors) != len(distinct):
            raise ValueError(f"the embedder returned {len(vectors)} vectors for {len(distinct)} texts")
        matrix = to_matrix(vectors, self.dims)
        if len(distinct) == len(wanted):
            return matrix
        at = {text: row for row, text in enumerate(distinct)}
        return matrix[[at[text] for text in wanted]]


NO_VECTORS: Matrix = np.empty((0, 0), np.float32)
