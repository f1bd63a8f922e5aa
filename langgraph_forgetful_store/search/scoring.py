"""Similarity of stored vectors to a query."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.backend.codec import Matrix

# Rows that are scaled at once.
_CHUNK = 1024
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
    scaled: Matrix = np.empty(vectors.shape, np.float32)
    for start in range(0, len(vectors), _CHUNK):
        # Doubles: the squares of very large or small components leave the range of float32, and a sum that some
        # machine rounds in another way for one row than for many still gives the same float32.
        wide = vectors[start : start + _CHUNK].astype(np.float64)
        norms = np.sqrt(np.vecdot(wide, wide))
        wide /= np.where(norms > 0, norms, 1.0)[:, None]
        scaled[start : start + _CHUNK] = wide
    return scaled
