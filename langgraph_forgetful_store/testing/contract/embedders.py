"""An embedder whose answers a test decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.embeddings import Embeddings

from langgraph_forgetful_store.testing.embedder import WordEmbeddings


class PlannedEmbeddings(WordEmbeddings):
    """Embeds some texts as planned, the others by their words; keeps texts and queries apart; fails on demand.

    Args:
        planned: Vectors by text.
        dims: The number of dimensions.

    Attributes:
        documents: The texts of each call of `embed_documents`.
        queries: The text of each call of `embed_query`.
        spoil: Called with the vectors of every answer; returns, or raises, what the embedder does instead.
    """

    def __init__(self, planned: Mapping[str, Sequence[float]] | None = None, dims: int = 4) -> None:
        super().__init__(dims)
        self.planned = planned or {}
        self.documents: list[list[str]] = []
        self.queries: list[str] = []
        self.spoil: Callable[[Any], Any] = lambda vectors: vectors

    def _text(self, text: str) -> list[float]:
        return list(self.planned[text]) if text in self.planned else super()._text(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts."""
        self.documents.append(list(texts))
        spoiled: list[list[float]] = self.spoil([self._text(text) for text in texts])
        return spoiled

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        self.queries.append(text)
        spoiled: list[list[float]] = self.spoil([self._text(text)])
        return spoiled[0]


class AsyncOnlyEmbeddings(Embeddings):
    """Embeds on its async side alone.

    Args:
        inner: What embeds.
    """

    def __init__(self, inner: Embeddings) -> None:
        self.inner = inner

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Refuse."""
        raise AssertionError("the sync side of the embedder was called")

    def embed_query(self, text: str) -> list[float]:
        """Refuse."""
        raise AssertionError("the sync side of the embedder was called")

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts."""
        return self.inner.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Embed a query."""
        return self.inner.embed_query(text)


def index(embedder: Embeddings, dims: int = 4, fields: Sequence[str] = ("text",)) -> dict[str, Any]:
    """Return an `IndexConfig`."""
    return {"dims": dims, "embed": embedder, "fields": list(fields)}


def raises(error: Exception) -> Callable[[Any], Any]:
    """Return what, as `spoil`, makes an embedder raise."""

    def spoil(vectors: Any) -> Any:
        raise error

    return spoil
