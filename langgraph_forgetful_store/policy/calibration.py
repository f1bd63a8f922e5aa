"""Thresholds of similarity belong to the embedder: this finds them on labelled pairs, and says how good they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from langchain_core.embeddings import Embeddings

from langgraph_forgetful_store.config import EmbedFunction
from langgraph_forgetful_store.model.checks import as_settings, check_count, cosine, fraction, is_sync_function

# What the literature writes down for any embedder.
LITERAL_THRESHOLD = 0.85


@dataclass(frozen=True, slots=True)
class Calibration:
    """A threshold of similarity, and how it did on the pairs that it was found on.

    Attributes:
        threshold: From it on two texts may be about the same.
        precision: Of the pairs from it on, the share that is; ``None``: not measured.
        recall: Of the pairs that are, the share from it on; ``None``: not measured.
        pairs: How many pairs it was found on.
    """

    threshold: float = LITERAL_THRESHOLD
    precision: float | None = None
    recall: float | None = None
    pairs: int = 0

    def __post_init__(self) -> None:
        with as_settings():
            cosine(self.threshold, "threshold")
            for name in ("precision", "recall"):
                if getattr(self, name) is not None:
                    fraction(getattr(self, name), name)
            check_count(self.pairs, "pairs")

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall."""
        if self.precision is None or self.recall is None:
            return None
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def calibrate(
    embedder: Embeddings | EmbedFunction,
    labelled_pairs: Iterable[tuple[str, str, bool]],
    *,
    min_precision: float | None = None,
) -> Calibration:
    """Find the threshold from which on texts are about the same.

    Args:
        embedder: An `Embeddings`, or a function from texts to vectors.
        labelled_pairs: Two texts, and whether they are about the same: an update or a duplicate of each other.
        min_precision: Take the threshold with the best recall that is so precise; ``None``: the one with the best F1.

    Returns:
        The threshold, its precision and its recall.

    Raises:
        ValueError: An argument is unusable, there are no pairs of one kind, or none of the thresholds is so precise.
    """
    embed = _embed(embedder)
    if min_precision is not None:
        fraction(min_precision, "min_precision")
    pairs = _read(labelled_pairs)
    positives = sum(label for *_, label in pairs)
    if positives in (0, len(pairs)):
        raise ValueError(f"calibration needs pairs of both kinds, got {positives} of {len(pairs)} about the same")
    texts = list(dict.fromkeys(text for one, other, _ in pairs for text in (one, other)))
    vectors = dict(zip(texts, _unit(embed, texts), strict=True))
    scored = sorted(((float(vectors[one] @ vectors[other]), label) for one, other, label in pairs), reverse=True)
    best: Calibration | None = None
    found = 0
    for taken, (similarity, label) in enumerate(scored, start=1):
        found += label
        if taken < len(scored) and scored[taken][0] == similarity:
            # No threshold parts pairs that are equally similar.
            continue
        precision, recall = found / taken, found / positives
        if min_precision is not None and precision < min_precision:
            continue
        one = Calibration(max(-1.0, min(1.0, similarity)), precision, recall, len(pairs))
        if best is None or _rank(one, min_precision) > _rank(best, min_precision):
            best = one
    if best is None:
        raise ValueError(f"no threshold reaches a precision of {min_precision} on these {len(pairs)} pairs")
    return best


def _read(labelled_pairs: object) -> list[tuple[str, str, bool]]:
    allowed = "labelled_pairs must be tuples of two texts and a bool"
    if not isinstance(labelled_pairs, Iterable):
        raise ValueError(f"{allowed}, got {labelled_pairs!r}")
    pairs = []
    for given in labelled_pairs:
        match given:
            # Data sets and numpy write 1 for True.
            case [str() as one, str() as other, label] if label in (True, False):
                pairs.append((one, other, bool(label)))
            case _:
                raise ValueError(f"{allowed}, got {given!r}")
    return pairs


def _rank(one: Calibration, min_precision: float | None) -> float:
    return (one.f1 if min_precision is None else one.recall) or 0.0


def _embed(embedder: Any) -> Callable[[list[str]], Sequence[Sequence[float]]]:
    found: Callable[[list[str]], Sequence[Sequence[float]]] = getattr(embedder, "embed_documents", embedder)
    if isinstance(embedder, type) or not is_sync_function(found):
        raise ValueError(f"embedder must be an Embeddings or a function from texts to vectors, got {embedder!r}")
    return found


def _unit(embed: Callable[[list[str]], Sequence[Sequence[float]]], texts: list[str]) -> npt.NDArray[np.float64]:
    came = embed(texts)
    try:
        vectors = np.asarray(came, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"embedder must return a list of equally long lists of numbers: {error}") from error
    if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
        raise ValueError(
            f"embedder must return a vector of finite numbers for each of {len(texts)} texts, got an array of shape"
            f" {vectors.shape}"
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.asarray(vectors / lengths, dtype=np.float64)
