"""A deterministic embedder that needs no model."""

from __future__ import annotations

import hashlib
import re

import numpy as np
from langchain_core.embeddings import Embeddings


class WordEmbeddings(Embeddings):
    """Embeds a text as the sum of one pseudo-random unit vector a word: texts that share words are similar.

    Args:
        dims: The number of dimensions of a vector.

    Attributes:
        calls: The texts of each call so far, queries as lists of one.
    """

    def __init__(self, dims: int = 16) -> None:
        self.dims = dims
        self.calls: list[list[str]] = []

    def _word(self, word: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "little")
        vector = np.random.default_rng(seed).standard_normal(self.dims)
        return vector / np.linalg.norm(vector)

    def _text(self, text: str) -> list[float]:
        words = re.findall(r"\w+", text.lower()) or [text]
        total: list[float] = np.sum([self._word(word) for word in words], axis=0).tolist()
        return total

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text.

        Args:
            texts: The texts to embed.
        """
        self.calls.append(list(texts))
        return [self._text(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query, which is that of a text.

        Args:
            text: The query to embed.
        """
        self.calls.append([text])
        return self._text(text)
