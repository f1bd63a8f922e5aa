"""Scoring presets: how similarity, importance, confidence, freshness and access make one score.

A preset is a small frozen object that maps columns (one entry a candidate) to scores. `Weighted` is the default; a
user's own is any object with `ScoringPreset`'s method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.errors import ConfigurationError

Array = npt.NDArray[np.float64]
HOUR_MS = 3_600_000.0
DAY_MS = 24 * HOUR_MS


class Columns(NamedTuple):
    """What a preset may look at: one entry a candidate, each array of shape (n,).

    Attributes:
        similarity: The best cosine over the candidate's vectors, from -1 to 1.
        importance: How much it matters, from 0 to 1.
        confidence: How sure it is, from 0 to 1.
        created_at: When it was first written, in ms since the epoch like all times here.
        updated_at: The time of the last write.
        confirmed_at: When it was confirmed last, ``-inf`` where it never was.
        accessed_at: When it was read last, ``-inf`` where it never was.
        access_count: How often it was read.
        half_life: The half-life of its memory type, in ms; ``inf`` where it does not fade.
        shared_contexts: How many of its tags name a current session.
        now: The server's time, in ms.
    """

    similarity: Array
    importance: Array
    confidence: Array
    created_at: Array
    updated_at: Array
    confirmed_at: Array
    accessed_at: Array
    access_count: Array
    half_life: Array
    shared_contexts: Array
    now: float


class Term(NamedTuple):
    """One part of a score.

    Attributes:
        name: What it is called in an explanation.
        raw: What it was computed from.
        value: What enters the score.
        weight: What `value` is multiplied by.
        scale: What the whole score is multiplied by, candidate by candidate; ``None`` for nothing.
    """

    name: str
    raw: Array
    value: Array
    weight: float = 1.0
    scale: Array | None = None

    def explain(self, at: int, *, adds: bool) -> dict[str, float]:
        """Return the term of one candidate; a factor contributes its value, a summand its weighted value.

        Args:
            at: The candidate's place in the columns.
            adds: Whether the score is a sum of its terms, and not a product.
        """
        value = float(self.value[at])
        scale = 1.0 if self.scale is None else float(self.scale[at])
        return {
            "raw": float(self.raw[at]),
            "value": value,
            "weight": self.weight,
            "contribution": value * self.weight * scale if adds else value,
        }


class Scores(NamedTuple):
    """The scores of all candidates, and what they are made of.

    Attributes:
        total: The scores, an array of shape (n,).
        terms: The parts of the scores, in the order they are explained.
        adds: Whether contributions add up to the score; otherwise they multiply to it.
    """

    total: Array
    terms: tuple[Term, ...]
    adds: bool = True

    @classmethod
    def weighted_sum(cls, terms: Sequence[Term]) -> Scores:
        """Add terms up, each times its weight.

        Args:
            terms: The terms, at least one.
        """
        total = terms[0].weight * terms[0].value
        for term in terms[1:]:
            total += term.weight * term.value
        return cls(total, tuple(terms))

    def times(self, name: str, raw: Array, factor: Array) -> Scores:
        """Return the scores times a factor of each candidate; the parts are scaled, so they still make the score.

        Args:
            name: What the factor is called in an explanation.
            raw: What the factor was computed from.
            factor: The factor of each candidate, an array of shape (n,).
        """
        if not self.adds:
            return Scores(self.total * factor, (*self.terms, Term(name, raw, factor)), adds=False)
        scaled = tuple(Term(term.name, term.raw, term.value, term.weight, factor) for term in self.terms)
        return Scores(self.total * factor, (*scaled, Term(name, raw, factor, 0.0)))

    def explain(self, at: int) -> dict[str, dict[str, float]]:
        """Return the terms of one candidate by their names.

        Args:
            at: The candidate's place in the columns.
        """
        return {term.name: term.explain(at, adds=self.adds) for term in self.terms}


@runtime_checkable
class ScoringPreset(Protocol):
    """Anything that scores candidates."""

    def score(self, rows: Columns) -> Scores:
        """Score every candidate; it must not look at the order they stand in.

        Args:
            rows: The columns that may be looked at, one entry a candidate.
        """


def _check_weights(preset: object) -> None:
    total = 0.0
    for field in fields(preset):  # type: ignore[arg-type]
        value = getattr(preset, field.name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise ConfigurationError(
                f"{type(preset).__name__}.{field.name} must be a finite number from 0, got {value!r}"
            )
        total += value
    if not total:
        raise ConfigurationError(f"{type(preset).__name__} needs a weight above 0, got only zeros")


def _since(now: float, *moments: Array) -> Array:
    latest = moments[0]
    for moment in moments[1:]:
        latest = np.maximum(latest, moment)
    return np.maximum(now - latest, 0.0)


class Parts(NamedTuple):
    """What a recall score is made of beside similarity and the time.

    Attributes:
        static: What importance, confidence and access add to it.
        last: Since when it fades, in ms since the epoch.
        span: How long its freshness takes to halve, in ms.
    """

    static: Array
    last: Array
    span: Array


def _clamped(similarity: Array) -> Array:
    return np.minimum(np.maximum(similarity, 0.0), 1.0)


def _used(rows: Columns) -> Array:
    return rows.access_count / (rows.access_count + 5.0)


def _fading(parts: Parts, now: float) -> tuple[Array, Array]:
    """Return ages in ms, and how fresh that leaves what is of such an age."""
    age = np.maximum(now - parts.last, 0.0)
    return age, np.exp2(-age / parts.span)


@dataclass(frozen=True, slots=True)
class Weighted:
    """``.40 similarity + .20 importance + .15 confidence + .15 freshness + .10 access``, from 0 to 1.

    Similarity is clamped to [0, 1]. Freshness is ``0.5 ** (age / half_life)``: age since the later of update and
    confirmation, half-life that of the memory's type times ``1 + 0.5 * access_count``. Access is ``n / (n + 5)``. A
    weight of 0 switches its term off; the others are scaled to sum to 1.

    Attributes:
        similarity: The weight of the similarity.
        importance: The weight of the importance.
        confidence: The weight of the confidence.
        freshness: The weight of the freshness.
        access: The weight of the access count.

    Raises:
        ConfigurationError: A weight is negative or not finite, or all are 0.
    """

    pointwise: ClassVar[bool] = True

    similarity: float = 0.40
    importance: float = 0.20
    confidence: float = 0.15
    freshness: float = 0.15
    access: float = 0.10

    def __post_init__(self) -> None:
        _check_weights(self)

    @property
    def _scale(self) -> float:
        return 1.0 / (self.similarity + self.importance + self.confidence + self.freshness + self.access)

    @property
    def similarity_share(self) -> float:
        """What the clamped similarity is multiplied by."""
        return self.similarity * self._scale

    def score(self, rows: Columns) -> Scores:
        """Score every candidate, as the class says.

        Args:
            rows: The columns that may be looked at, one entry a candidate.
        """
        parts, scale = self.parts(rows), self._scale
        age, fresh = _fading(parts, rows.now)
        total = self._total(rows.similarity, parts.static, fresh)
        terms = (
            Term("similarity", rows.similarity, _clamped(rows.similarity), self.similarity_share),
            Term("importance", rows.importance, rows.importance, self.importance * scale),
            Term("confidence", rows.confidence, rows.confidence, self.confidence * scale),
            Term("freshness", age, fresh, self.freshness * scale),
            Term("access", rows.access_count, _used(rows), self.access * scale),
        )
        return Scores(total, tuple(term for term in terms if term.weight))

    def parts(self, rows: Columns) -> Parts:
        """Return what all terms but similarity are made of, whatever the time is.

        Args:
            rows: The columns that may be looked at, one entry a candidate.
        """
        scale = self._scale
        static = self.importance * scale * rows.importance
        static += self.confidence * scale * rows.confidence
        static += self.access * scale * _used(rows)
        last = np.maximum(rows.updated_at, rows.confirmed_at)
        return Parts(static, last, rows.half_life * (1.0 + 0.5 * rows.access_count))

    def total(self, similarity: Array, parts: Parts, now: float) -> Array:
        """Return the scores that `score` does.

        Args:
            similarity: The best cosine of each candidate.
            parts: What `parts` returned for the candidates.
            now: The time, in ms since the epoch.
        """
        return self._total(similarity, parts.static, _fading(parts, now)[1])

    def without_similarity(self, parts: Parts, now: float) -> Array:
        """Return what all other terms add to the score; it never grows as time goes on.

        Args:
            parts: What `parts` returned for the candidates.
            now: The time, in ms since the epoch.
        """
        fresh = _fading(parts, now)[1]
        fresh *= self.freshness * self._scale
        fresh += parts.static
        return fresh

    def _total(self, similarity: Array, static: Array, fresh: Array) -> Array:
        total = _clamped(similarity)
        total *= self.similarity_share
        total += self.freshness * self._scale * fresh
        total += static
        return total


@dataclass(frozen=True, slots=True)
class Similarity:
    """Ranks by the plain cosine alone."""

    pointwise: ClassVar[bool] = True

    def score(self, rows: Columns) -> Scores:
        """Score every candidate, as the class says.

        Args:
            rows: The columns that may be looked at, one entry a candidate.
        """
        return Scores(rows.similarity, (Term("similarity", rows.similarity, rows.similarity),))


def _min_max(values: Array) -> Array:
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    return (values - low) / (high - low) if high > low else np.full_like(values, 0.5)


@dataclass(frozen=True, slots=True)
class GenerativeAgents:
    """Similarity, recency and importance, min-max normalised over the candidates, weighted 3, 0.5 and 2.

    Recency is 0.995 to the hours since the last access, or since the writing where there was none. As in Park et al.,
    "Generative Agents" (2023), and its code; where all candidates are equal in a term, it is 0.5.

    Attributes:
        similarity: The weight of the similarity.
        recency: The weight of the recency.
        importance: The weight of the importance.

    Raises:
        ConfigurationError: A weight is negative or not finite, or all are 0.
    """

    similarity: float = 3.0
    recency: float = 0.5
    importance: float = 2.0

    def __post_init__(self) -> None:
        _check_weights(self)

    def score(self, rows: Columns) -> Scores:
        """Score every candidate, as the class says.

        Args:
            rows: The columns that may be looked at, one entry a candidate.
        """
        hours = _since(rows.now, rows.accessed_at, rows.created_at) / HOUR_MS
        recency = 0.995**hours
        return Scores.weighted_sum(
            [
                Term("similarity", rows.similarity, _min_max(rows.similarity), self.similarity),
                Term("recency", hours, _min_max(recency), self.recency),
                Term("importance", rows.importance, _min_max(rows.importance), self.importance),
            ]
        )


@dataclass(frozen=True, slots=True)
class Multiplicative:
    """Similarity × recency × confidence × context × importance.

    Recency is ``0.5 ** (hours / 24)`` since the last access, or since the writing where there was none; context is
    1 + 0.2 for each tag that names a current session.
    """

    pointwise: ClassVar[bool] = True

    def score(self, rows: Columns) -> Scores:
        """Score every candidate, as the class says.

        Args:
            rows: The columns that may be looked at, one entry a candidate.
        """
        hours = _since(rows.now, rows.accessed_at, rows.created_at) / HOUR_MS
        terms = (
            Term("similarity", rows.similarity, np.maximum(rows.similarity, 0.0)),
            Term("recency", hours, np.exp2(-hours / 24.0)),
            Term("confidence", rows.confidence, rows.confidence),
            Term("context", rows.shared_contexts, 1.0 + 0.2 * rows.shared_contexts),
            Term("importance", rows.importance, rows.importance),
        )
        total = np.ones_like(rows.similarity)
        for term in terms:
            total *= term.value
        return Scores(total, terms, adds=False)


PRESETS: dict[str, ScoringPreset] = {
    "weighted": Weighted(),
    "similarity": Similarity(),
    "generative_agents": GenerativeAgents(),
    "multiplicative": Multiplicative(),
}


def is_pointwise(preset: ScoringPreset) -> bool:
    """Tell whether a preset scores each candidate by itself; it says so by a true attribute `pointwise`."""
    return bool(getattr(preset, "pointwise", False))


def find_preset(scoring: Any) -> ScoringPreset:
    """Return a preset by its name, or the object itself where it is one.

    Raises:
        ConfigurationError: There is no such preset.
    """
    if isinstance(scoring, str) and scoring in PRESETS:
        return PRESETS[scoring]
    if not isinstance(scoring, str | type) and isinstance(scoring, ScoringPreset):
        return scoring
    raise ConfigurationError(
        f"scoring must be one of {', '.join(PRESETS)}, or an object with a score method, got {scoring!r}"
    )
