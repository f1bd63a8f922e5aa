"""Similarity of stored vectors to a query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
_TINY = 1e-30


def cosine(query: Floats, vectors: Floats) -> Scores:
    """Return the cosine of each row of `vectors` with `query`, 0 where either is zero.

    Args:
        query: Shape (dims,).
        vectors: Shape (n, dims).

    Returns:
        Shape (n,), from -1 to 1.
    """
    # vecdot goes row by row: unlike a threaded matrix product it neither stalls beside a busy server nor lets the
    # rounding of a row depend on which rows stand around it.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        dots = np.vecdot(vectors, query).astype(np.float64)
        norms = np.sqrt(np.vecdot(vectors, vectors).astype(np.float64)) * np.sqrt(float(np.vecdot(query, query)))
    if vectors.dtype == np.float32 and not (np.isfinite(norms) & (norms > _TINY)).all():
        # Squares of very large or small components leave the range of float32.
        return cosine(query.astype(np.float64), vectors.astype(np.float64))
    scores: Scores = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0)
    return np.clip(scores, -1.0, 1.0)


def best_per_item(scores: Scores, counts: Sequence[int]) -> list[float | None]:
    """Reduce the scores of vectors to the best of each item.

    Args:
        scores: One a vector, item after item.
        counts: How many vectors each item has.

    Returns:
        One an item; ``None`` for an item without vectors.
    """
    best: list[float | None] = []
    at = 0
    for count in counts:
        best.append(float(scores[at : at + count].max()) if count else None)
        at += count
    return best
