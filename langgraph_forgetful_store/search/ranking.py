"""Ranking: the one place where a snapshot's rows become an ordered result, whichever engine read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from langgraph_forgetful_store.backend.codec import Matrix, copy_json
from langgraph_forgetful_store.search.candidates import Candidate
from langgraph_forgetful_store.search.presets import Array, Columns, Preset, Scores
from langgraph_forgetful_store.search.scope import Mask, Slots, Snapshot
from langgraph_forgetful_store.search.scoring import cosine


@dataclass(frozen=True, slots=True)
class Question:
    """What a search asks of the rows of a snapshot.

    Attributes:
        query: The normalised query, shape (dims,); ``None``: newest first.
        preset: What scores.
        min_similarity: Rows below it, and rows without a vector, are left out.
        half_lives: Of the memory types by their ids, in ms.
    """

    query: Matrix | None
    preset: Preset
    min_similarity: float | None = None
    half_lives: Array | None = None
    explain: bool = False

    def admits(self, snapshot: Snapshot) -> Mask:
        """Return which slots pass the filters of meta."""
        return np.ones(snapshot.size, np.bool_)


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


def rank(snapshot: Snapshot, mask: Mask, question: Question, now: float, keep: int) -> Ranking:
    """Order the rows that `mask` picks.

    Args:
        snapshot: The rows.
        mask: Which of its slots count.
        question: What is asked.
        now: The server's time, in ms.
        keep: How many rows to return at the most.

    Returns:
        Scored rows by score, then rows without a vector; ties, and rows without a query, latest write first.
    """
    if question.query is None:
        slots = _latest(snapshot, np.flatnonzero(mask), keep)
        return Ranking(slots, *(np.full(len(slots), np.nan) for _ in range(2)), lambda at: {}, int(mask.sum()))
    similarity = similarities(snapshot, question.query)
    has_vector = ~np.isnan(similarity)
    scored = mask & has_vector
    if question.min_similarity is not None:
        scored &= similarity >= question.min_similarity
    pool = np.flatnonzero(scored)
    scores = question.preset.score(_columns(snapshot, pool, similarity, question, now))
    order = _best(scores.total, snapshot.columns["content"][pool], keep)
    slots, totals = pool[order], scores.total[order]
    unscored = 0
    if question.min_similarity is None:
        rest = np.flatnonzero(mask & ~has_vector)
        unscored = len(rest)
        if len(slots) < keep and unscored:
            more = _latest(snapshot, rest, keep - len(slots))
            slots = np.concatenate([slots, more])
            totals = np.concatenate([totals, np.full(len(more), np.nan)])
    return Ranking(slots, totals, similarity[slots], _explainer(scores, order), len(pool) + unscored)


def candidates_of(snapshot: Snapshot, ranking: Ranking) -> list[Candidate]:
    """Turn a ranking into candidates, each with a value of its own."""
    found = []
    for at, slot in enumerate(ranking.slots.tolist()):
        value = snapshot.value(slot)
        score, similarity = float(ranking.scores[at]), float(ranking.similarities[at])
        found.append(
            Candidate(
                *snapshot.table.names[slot],
                snapshot.meta(slot),
                None if value is None else copy_json(value),
                None if score != score else score,
                None if similarity != similarity else similarity,
            )
        )
    return found


def _explainer(scores: Scores, order: Slots) -> Callable[[int], dict[str, Any]]:
    return lambda at: scores.explain(int(order[at])) if at < len(order) else {}


def _columns(snapshot: Snapshot, pool: Slots, similarity: Array, question: Question, now: float) -> Columns:
    columns = snapshot.columns
    # Most often every slot counts, and then nothing has to be copied.
    pick: Any = slice(None) if len(pool) == snapshot.size else pool
    types = snapshot.types[pick]
    half_lives = question.half_lives
    half_life = np.full(len(pool), np.inf) if half_lives is None else half_lives[types]
    return Columns(
        similarity[pick],
        columns["importance"][pick],
        columns["confidence"][pick],
        columns["created_at"][pick],
        columns["updated_at"][pick],
        columns["confirmed_at"][pick],
        columns["accessed_at"][pick],
        columns["access_count"][pick],
        half_life,
        np.zeros(len(pool)),
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
