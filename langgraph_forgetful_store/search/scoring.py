"""Similarity of stored vectors to a query."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.backend.codec import Matrix

# Below it a float32 sum of squares has lost digits.
_LEAST, _MOST = 1e-15, 1e18
Scores = npt.NDArray[np.float64]


def cosine(query: Matrix, vectors: Matrix) -> Scores:
    """Return the cosine of each row of `vectors` with `query`, 0 where either is zero.

    Args:
        query: Shape (dims,), normalised.
        vectors: Shape (n, dims), normalised.

    Returns:
        Shape (n,), from -1 to 1.
    """
    # vecdot goes row by row: unlike a threaded matrix product it neither stalls beside a busy server nor lets the
    # rounding of a row depend on which rows stand around it.
    dots: Scores = np.vecdot(vectors, query).astype(np.float64)
    return np.minimum(np.maximum(dots, -1.0, out=dots), 1.0, out=dots)


def normalise(vectors: Matrix) -> Matrix:
    """Scale each row to length 1; zeros stay zeros.

    Args:
        vectors: Shape (n, dims).
    """
    if len(vectors) == 1 and (unit := _unit(vectors[0])) is not None:
        return unit[None]
    with np.errstate(over="ignore", under="ignore"):
        norms = np.sqrt(np.vecdot(vectors, vectors))
    scaled: Matrix = np.divide(vectors, np.where(norms > 0, norms, np.float32(1.0))[:, None], dtype=np.float32)
    # The squares of very large or small components leave the range of float32.
    for row in np.flatnonzero(~((norms > _LEAST) & np.isfinite(norms))):
        wide = vectors[row].astype(np.float64)
        length = np.sqrt(np.vecdot(wide, wide))
        scaled[row] = wide / length if length > 0 else 0.0
    return scaled


def _unit(vector: Matrix) -> Matrix | None:
    # Most often a query, which every search waits for; None where float32 has lost digits of it.
    # A ufunc would warn of what overflows, and to quiet it takes longer than the sum.
    length = math.sqrt(float(np.dot(vector, vector)))
    if not _LEAST < length < _MOST:
        return None
    unit: Matrix = vector / np.float32(length)
    return unit
