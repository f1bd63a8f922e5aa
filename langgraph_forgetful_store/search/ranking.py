"""Ranking: the one place where a snapshot's rows become an ordered result, whichever engine read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from langgraph_forgetful_store.backend.codec import Matrix, copy_json
from langgraph_forgetful_store.memory_types import half_lives
from langgraph_forgetful_store.search.admission import Admission, shared_contexts
from langgraph_forgetful_store.search.candidates import Candidate
from langgraph_forgetful_store.search.presets import Array, Columns, Preset, Scores
from langgraph_forgetful_store.search.scope import Mask, Slots, Snapshot
from langgraph_forgetful_store.search.scoring import cosine

# Under this similarity to the goal a row is left out.
GOAL_FLOOR = 0.2


@dataclass(frozen=True, slots=True)
class Question:
    """What a search asks of the rows of a snapshot.

    Attributes:
        query: Normalised, shape (dims,); ``None``: newest first.
        preset: What scores.
        admission: What lets rows in.
        min_similarity: Rows below it, and rows without a vector, are left out.
        goal: Normalised, shape (dims,): scores are multiplied by the similarity to it, and rows below `GOAL_FLOOR` are
            left out.
        explain: Whether candidates carry their `details`.
    """

    query: Matrix | None
    preset: Preset
    admission: Admission
    min_similarity: float | None = None
    goal: Matrix | None = None
    explain: bool = False

    def filters(self) -> list[str]:
        """Return the names of the filters that a row has passed."""
        given = [name for name in ("min_similarity", "goal") if getattr(self, name) is not None]
        return given + self.admission.names()


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best slots, best first.

    Attributes:
        slots: Which.
        scores: Their scores; NaN where there is nothing to compare.
        similarities: Their best cosines; NaN likewise.
        explain: Returns the terms of the nth.
        candidates: How many rows were ranked.
    """

    slots: Slots
    scores: Array
    similarities: Array
    explain: Callable[[int], dict[str, Any]]
    candidates: int

    def numbers(self, at: int) -> tuple[float, float]:
        """Return the score and the similarity of the nth."""
        return float(self.scores[at]), float(self.similarities[at])


def similarities(snapshot: Snapshot, query: Matrix) -> Array:
    """Return each slot's best cosine with the query; NaN for a slot without vectors."""
    dots = cosine(query, snapshot.vectors)
    owners = snapshot.owners
    if len(owners) == snapshot.size and snapshot.one_to_one:
        return dots
    best = np.full(snapshot.size, np.nan)
    if len(owners):
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        best[owners[first]] = np.maximum.reduceat(dots, first)
    return best


def rank(snapshot: Snapshot, mask: Mask, question: Question, types: tuple[str, ...], now: float, keep: int) -> Ranking:
    """Order the rows that `mask` picks and the question admits.

    Args:
        snapshot: The rows.
        mask: Which of its slots count.
        question: What is asked.
        types: The names of the memory types by their ids.
        now: The server's time, in ms.
        keep: How many rows to return at the most.

    Returns:
        Scored rows by score, then rows without a vector; ties, and rows without a query, latest write first.
    """
    mask = mask & question.admission.mask(snapshot, types)
    if question.query is None:
        slots = _latest(snapshot, np.flatnonzero(mask), keep)
        nothing = np.full(len(slots), np.nan)
        return Ranking(slots, nothing, nothing, lambda at: {}, int(np.count_nonzero(mask)))
    similarity = similarities(snapshot, question.query)
    has_vector = ~np.isnan(similarity)
    scored = mask & has_vector
    if question.min_similarity is not None:
        scored &= similarity >= question.min_similarity
    towards = None
    if question.goal is not None:
        towards = similarities(snapshot, question.goal)
        scored &= towards >= GOAL_FLOOR
    pool = np.flatnonzero(scored)
    scores = question.preset.score(_columns(snapshot, pool, similarity, question, types, now))
    if towards is not None:
        scores = scores.times("goal", towards[pool], np.maximum(towards[pool], 0.0))
    order = _best(scores.total, snapshot.columns["content"][pool], keep)
    slots, totals = pool[order], scores.total[order]
    unscored = 0
    if question.min_similarity is None and towards is None:
        rest = np.flatnonzero(mask & ~has_vector)
        unscored = len(rest)
        if len(slots) < keep and unscored:
            more = _latest(snapshot, rest, keep - len(slots))
            slots = np.concatenate([slots, more])
            totals = np.concatenate([totals, np.full(len(more), np.nan)])
    return Ranking(slots, totals, similarity[slots], _explainer(scores, order), len(pool) + unscored)


def candidates_of(
    snapshot: Snapshot, ranking: Ranking, question: Question, types: tuple[str, ...], engine: str
) -> list[Candidate]:
    """Turn a ranking into candidates, each with a value of its own."""
    found = []
    for at, slot in enumerate(ranking.slots.tolist()):
        value = snapshot.value(slot)
        score, similarity = (None if number != number else number for number in ranking.numbers(at))
        namespace, key = snapshot.table.names[slot]
        candidate = Candidate(
            namespace,
            key,
            meta=snapshot.meta(slot),
            value=None if value is None else copy_json(value),
            rest=snapshot.table.rests[slot],
            memory_type=types[int(snapshot.types[slot])],
            score=score,
            similarity=similarity,
        )
        if question.explain:
            candidate.details = {
                "score": score,
                "similarity": similarity,
                "engine": engine,
                "candidates": ranking.candidates,
                "filters": question.filters(),
                "terms": ranking.explain(at),
            }
        found.append(candidate)
    return found


def _explainer(scores: Scores, order: Slots) -> Callable[[int], dict[str, Any]]:
    return lambda at: scores.explain(int(order[at])) if at < len(order) else {}


def _columns(
    snapshot: Snapshot, pool: Slots, similarity: Array, question: Question, types: tuple[str, ...], now: float
) -> Columns:
    columns = snapshot.columns
    # Most often every slot counts, and then nothing has to be copied.
    pick: Any = slice(None) if len(pool) == snapshot.size else pool
    return Columns(
        similarity[pick],
        columns["importance"][pick],
        columns["confidence"][pick],
        columns["created_at"][pick],
        columns["updated_at"][pick],
        columns["confirmed_at"][pick],
        columns["accessed_at"][pick],
        columns["access_count"][pick],
        half_lives(types)[snapshot.types[pick]],
        shared_contexts(snapshot, question.admission.in_contexts)[pick],
        now,
    )


def _best(scores: Array, contents: Array, keep: int) -> Slots:
    if keep < len(scores):
        least = np.partition(scores, len(scores) - keep)[len(scores) - keep]
        pool = np.flatnonzero(scores >= least)
    else:
        pool = np.arange(len(scores))
    return pool[np.lexsort((-contents[pool], -scores[pool]))][:keep]


def _latest(snapshot: Snapshot, slots: Slots, keep: int) -> Slots:
    contents = snapshot.columns["content"][slots]
    if keep < len(slots):
        chosen = np.argpartition(contents, len(slots) - keep)[len(slots) - keep :] if keep else np.zeros(0, np.intp)
        slots, contents = slots[chosen], contents[chosen]
    return slots[np.argsort(-contents)]
