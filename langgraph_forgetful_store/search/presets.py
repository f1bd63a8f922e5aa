"""Scoring presets: how words, similarity, importance, confidence, freshness and access make one score.

A preset is a small frozen object that maps columns (one entry a candidate) to scores. `Relevance` is the default; a
user's own is any object with `ScoringPreset`'s method.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.errors import ConfigurationError

Array = npt.NDArray[np.float64]
HOUR_MS = 3_600_000.0
DAY_MS = 24 * HOUR_MS
# How much words count at the most, and how much less than its R the score can be.
WORDS_SHARE, MOST_LIFT = 0.9, 0.04
# Of one term; beside a far larger one the others would lose their digits.
MOST_WEIGHT = 1e6


class Columns(NamedTuple):
    """What a preset may look at: one entry a candidate, each array of shape (n,).

    Attributes:
        similarity: The best cosine over the candidate's vectors, from -1 to 1; 0 for one that words alone reach.
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
        words: How well it answers by words, from 0 (it holds no word of the query) to 1: the L of `Relevance`. Zeros
            for a preset that says that it does not use it.
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
    words: Array


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
    """Anything that scores candidates: memories that have a vector, or that hold a word of the query.

    Two attributes may say more. `pointwise`, true: each candidate is scored by itself, so a scan need not keep all.
    `uses_words`, false: `Columns.words` is not looked at, so memories without a vector are not scored.
    """

    def score(self, rows: Columns) -> Scores:
        """Score every candidate; it must not look at the order they stand in.

        Args:
            rows: The columns that may be looked at, one entry a candidate.
        """


def _check_weights(preset: object, *names: str) -> None:
    total = 0.0
    for name in names:
        value = getattr(preset, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_WEIGHT:
            raise ConfigurationError(
                f"{type(preset).__name__}.{name} must be a number from 0 to {MOST_WEIGHT:.0f}, got {value!r}"
            )
        total += value
    if not total:
        raise ConfigurationError(f"{type(preset).__name__} needs a weight above 0, got only zeros")
    if total < sys.float_info.min:
        raise ConfigurationError(f"the weights of {type(preset).__name__} are too small to be scaled: {total!r} in all")


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


def _cosines(rows: Columns) -> Array:
    return np.maximum(rows.similarity, 0.0)


def relevance_of(similarity: Array, words: Array) -> Array:
    """Return R of each candidate.

    Args:
        similarity: The cosines; one that is NaN counts as 0.
        words: How well each answers by words, from 0 to 1.
    """
    missing: Array = 1.0 - np.fmax(similarity, 0.0)
    missing *= 1.0 - WORDS_SHARE * words
    return np.subtract(1.0, missing, out=missing)


def lift_of(now: float, last: Array, half_life: Array, importance: Array, confidence: Array) -> tuple[Array, Array]:
    """Return u and C of each candidate.

    Args:
        now: The server's time, in ms.
        last: The later of update and confirmation, in ms since the epoch.
        half_life: The half-life of the memory type, in ms.
        importance: How much it matters, from 0 to 1.
        confidence: How sure it is, from 0 to 1.
    """
    standing = 0.5 * np.exp2(np.minimum(last - now, 0.0) / half_life) + 0.25 * importance + 0.25 * confidence
    return standing, 1.0 - MOST_LIFT * (1.0 - standing)


@dataclass(frozen=True, slots=True)
class Relevance:
    """Words and meaning in one score, from 0 to 1, which what is fresh, important and certain lifts a little.

    R = 1 - (1 - cosine) * (1 - 0.9 * L), where a negative cosine counts as 0 and L is how well the memory answers by
    words; the score is R * C with C = 1 - 0.04 * (1 - u), u = .5 freshness + .25 importance + .25 confidence. Freshness
    is ``0.5 ** (age / half_life)``, age since the later of update and confirmation. So a score is at most R, at least
    0.96 times the cosine, and how often a memory was read moves nothing.

    L = b / (b + min(6, .15 m)): b is the BM25 sum (k1 = .9, b = .4) of the query's words in the memory, m the most that
    such a sum can come to. How rare a word is, is counted over the memories that the search may return.
    """

    pointwise: ClassVar[bool] = True
    uses_words: ClassVar[bool] = True

    def score(self, rows: Columns) -> Scores:
        """Score every candidate, as the class says.

        Args:
            rows: The columns that may be looked at, one entry a candidate.
        """
        relevance, last = relevance_of(rows.similarity, rows.words), np.maximum(rows.updated_at, rows.confirmed_at)
        standing, lift = lift_of(rows.now, last, rows.half_life, rows.importance, rows.confidence)
        terms = (Term("relevance", _cosines(rows), relevance), Term("lift", standing, lift))
        return Scores(relevance * lift, terms, adds=False)


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

    On real conversations the sum loses a third of the evidence that cosine finds, and more the more it is used: what
    was returned before is fresher and more often accessed. With a `pool` it loses next to none.

    Attributes:
        similarity: The weight of the similarity.
        importance: The weight of the importance.
        confidence: The weight of the confidence.
        freshness: The weight of the freshness.
        access: The weight of the access count.
        pool: So many of the most relevant memories (see `Relevance`) are weighed, with their relevance stretched from 0
            to 1 in the place of similarity; the others follow in the order of their relevance. ``None``: all are.

    Raises:
        ConfigurationError: A weight is no number from 0 to 1,000,000, or their sum is 0 or underflows; or the pool is
            no whole number from 1.
    """

    similarity: float = 0.40
    importance: float = 0.20
    confidence: float = 0.15
    freshness: float = 0.15
    access: float = 0.10
    pool: int | None = None

    def __post_init__(self) -> None:
        _check_weights(self, "similarity", "importance", "confidence", "freshness", "access")
        if self.pool is not None and (isinstance(self.pool, bool) or not isinstance(self.pool, int) or self.pool < 1):
            raise ConfigurationError(f"Weighted.pool must be a whole number from 1, or None, got {self.pool!r}")

    @property
    def pointwise(self) -> bool:
        """Whether each candidate is scored by itself."""
        return self.pool is None

    @property
    def uses_words(self) -> bool:
        """Whether the score depends on words."""
        return self.pool is not None

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
        if self.pool is not None:
            return self._pooled(rows, self.pool)
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

    def _pooled(self, rows: Columns, pool: int) -> Scores:
        relevance = Relevance().score(rows).total
        at = len(relevance) - min(pool, len(relevance))
        low = float(np.partition(relevance, at)[at]) if len(relevance) else 0.0
        # Of equal ones at the end of the pool all are in it: it must not depend on the order they stand in.
        weighed = relevance >= low
        inside = relevance[weighed]
        span = float(inside.max()) - low if len(inside) else 0.0
        stretched = np.where(weighed, (relevance - low) / span if span > 0 else 1.0, 0.0)
        whole = replace(self, pool=None).score(rows._replace(similarity=stretched))
        least = float(whole.total[weighed].min()) if len(inside) else 0.0
        terms = [
            Term(
                term.name,
                relevance if term.name == "similarity" else term.raw,
                np.where(weighed, term.value, 0.0),
                term.weight,
            )
            for term in whole.terms
        ]
        beyond = np.where(weighed, 0.0, relevance * least)
        terms.append(Term("beyond_pool", relevance, beyond))
        return Scores(np.where(weighed, whole.total, beyond), tuple(terms))

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
    uses_words: ClassVar[bool] = False

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
        ConfigurationError: A weight is no number from 0 to 1,000,000, or their sum is 0 or underflows.
    """

    uses_words: ClassVar[bool] = False

    similarity: float = 3.0
    recency: float = 0.5
    importance: float = 2.0

    def __post_init__(self) -> None:
        _check_weights(self, "similarity", "recency", "importance")

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
    uses_words: ClassVar[bool] = False

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
    "relevance": Relevance(),
    "weighted": Weighted(),
    "similarity": Similarity(),
    "generative_agents": GenerativeAgents(),
    "multiplicative": Multiplicative(),
}


def is_pointwise(preset: ScoringPreset) -> bool:
    """Tell whether a preset scores each candidate by itself; it says so by a true attribute `pointwise`."""
    return bool(getattr(preset, "pointwise", False))


def uses_words(preset: ScoringPreset) -> bool:
    """Tell whether a preset looks at words: it does unless its attribute `uses_words` is false."""
    return bool(getattr(preset, "uses_words", True))


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
