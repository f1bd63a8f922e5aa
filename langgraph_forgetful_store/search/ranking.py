"""Ranking: the one place where a snapshot's rows become an ordered result, whichever engine read them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from langgraph_forgetful_store.backend.codec import FLAG_ANCHORED, STATUS_ACTIVE, Matrix, copy_json
from langgraph_forgetful_store.model.options import COVERAGE_FLOOR
from langgraph_forgetful_store.model.packing import unpack_rest
from langgraph_forgetful_store.model.status import state_at
from langgraph_forgetful_store.search.bounds import Reckoned
from langgraph_forgetful_store.search.postings import Lexical, by_words
from langgraph_forgetful_store.search.presets import (
    MOST_LIFT,
    Array,
    Columns,
    Parts,
    Relevance,
    Scores,
    Weighted,
    lift_of,
    relevance_of,
    uses_words,
)
from langgraph_forgetful_store.search.question import GOAL_FLOOR, Question
from langgraph_forgetful_store.search.row_filter import shared_contexts
from langgraph_forgetful_store.search.rows import Row
from langgraph_forgetful_store.search.scoring import cosine
from langgraph_forgetful_store.search.table import Mask, Slots, Snapshot

# How much longer what was anchored stays fresh.
ANCHORED_HALF_LIFE = 2.0
# Rows scored beyond the page, and by how much more where that was not enough.
SPARE = 64
WIDEN = 16
# So many more than wanted are sorted at once.
FEW = 100
# A bound may be less than the score by this much.
ROUNDING = 1e-9


class Ranking(NamedTuple):
    """The best slots, best first.

    Attributes:
        slots: Which.
        scores: Their scores; NaN where there is nothing to compare.
        similarities: Their best cosines; NaN likewise.
        explain: Returns the terms, and the words, of the nth.
        candidates: How many rows were ranked.
    """

    slots: Slots
    scores: Array
    similarities: Array
    explain: Callable[[int], dict[str, Any]]
    candidates: int

    def numbers(self) -> list[tuple[float | None, float | None]]:
        """Return each one's score and similarity."""
        return list(zip(_known(self.scores), _known(self.similarities), strict=True))


def _known(numbers: Array) -> list[float | None]:
    return [None if number != number else number for number in numbers.tolist()]


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


class Measured(NamedTuple):
    """What the rows of a snapshot are compared by.

    Attributes:
        similarity: To the query; NaN for a slot without vectors.
        towards: To the goal, likewise; ``None`` without a goal.
    """

    similarity: Array
    towards: Array | None = None


def measured(snapshot: Snapshot, question: Question) -> Measured:
    """Compare the rows of a snapshot with the query and the goal.

    Args:
        snapshot: The rows, with their vectors.
        question: What is asked; it may have no query, and no row is like it then.
    """
    query, goal = question.query, question.goal
    similarity = np.full(snapshot.size, np.nan) if query is None else similarities(snapshot, query)
    return Measured(similarity, None if goal is None else similarities(snapshot, goal))


class Precomputed:
    """What a ranking needs of a snapshot whatever the time is: reckoned while the server is still to answer.

    Slots never change, so where the answer brings no new ones this is what the ranking would reckon itself.

    Args:
        question: What is asked.
        keep: How many rows are wanted at the most.
    """

    def __init__(self, question: Question, keep: int) -> None:
        self._question = question
        self._keep = keep
        self._snapshot: Snapshot | None = None
        self._measured: Measured | None = None
        self._lexical: Lexical | None = None
        self._relevance: Array | None = None
        self._bounds: Reckoned | None = None
        self._pool: _Pool | None = None

    def prepare(self, snapshot: Snapshot) -> None:
        """Reckon it, as far as can be told before the server has answered."""
        question, preset, bounds = self._question, self._question.preset, snapshot.table.bounds
        if not question.is_ranked or self._snapshot is not None:
            return
        self._snapshot = snapshot
        self._measured = compared = measured(snapshot, question)
        if question.words is not None and not question.filtered:
            self._lexical = by_words(snapshot.words, question.words, snapshot.live)
        if type(preset) is Relevance:
            if question.words is None or self._lexical is not None:
                self._relevance = relevances(compared.similarity, self._lexical)
            return
        if type(preset) is not Weighted or preset.pool is not None or bounds is None or not snapshot.one_to_one:
            return
        known, wide = bounds.known, self._keep + SPARE
        count = int(np.count_nonzero(snapshot.live))
        if wide < count and len(known.rest) >= snapshot.size and known.preset == preset:
            self._bounds = known
            self._pool = _Pool.of(snapshot, preset, compared.similarity, known, snapshot.live, count, wide)

    def measured(self, snapshot: Snapshot) -> Measured | None:
        """Return what a snapshot's slots are compared by, where it is known."""
        mine = self._snapshot
        same = mine is not None and mine.table is snapshot.table and mine.size == snapshot.size
        return self._measured if same else None

    def _holds_for(self, snapshot: Snapshot, mask: Mask) -> bool:
        # Masks are replaced, never changed.
        return self.measured(snapshot) is not None and self._snapshot is not None and mask is self._snapshot.live

    def lexical(self, snapshot: Snapshot, mask: Mask) -> Lexical | None:
        """Return how the slots score by words, where it is known for those that may be returned."""
        return self._lexical if self._holds_for(snapshot, mask) else None

    def relevance(self, snapshot: Snapshot, mask: Mask) -> Array | None:
        """Return the relevance of the slots, likewise."""
        return self._relevance if self._holds_for(snapshot, mask) else None

    def pool(self, snapshot: Snapshot, scored: Mask, now: float) -> _Pool | None:
        """Return slots that can be among the best of those that are to be scored, where they are known."""
        if self._bounds is None or not self._bounds.hold_at(now):
            return None
        return self._pool if self._holds_for(snapshot, scored) else None


def relevances(similarity: Array, lexical: Lexical | None) -> Array:
    """Return the relevance of each slot; 0 where neither words nor meaning reach it."""
    return relevance_of(similarity, np.zeros(len(similarity)) if lexical is None else lexical.share)


class _Pool(NamedTuple):
    """Slots that can be among the best.

    Attributes:
        slots: Which.
        least: No other slot's score is greater.
        similarity: Theirs.
        parts: What else their scores are made of.
        contents: Their content numbers.
    """

    slots: Slots
    least: float
    similarity: Array
    parts: Parts
    contents: Array

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        preset: Weighted,
        similarity: Array,
        known: Reckoned,
        scored: Mask,
        count: int,
        wide: int,
    ) -> _Pool:
        """Pick so many slots by the bounds of their scores."""
        most = np.maximum(similarity, 0.0)
        most *= preset.similarity_share
        most += known.rest[: snapshot.size]
        if count < snapshot.size:
            most[~scored] = -np.inf
        at = snapshot.size - wide
        least = np.partition(most, at)[at]
        slots = np.flatnonzero(most >= least)
        static, last, span = known.parts
        parts = Parts(static.take(slots), last.take(slots), span.take(slots))
        return cls(slots, float(least), similarity.take(slots), parts, snapshot.columns["content"].take(slots))


def rank(
    snapshot: Snapshot,
    mask: Mask,
    question: Question,
    types: tuple[str, ...],
    now: float,
    keep: int,
    precomputed: Precomputed | None = None,
    compared: Measured | None = None,
) -> Ranking:
    """Order the rows that `mask` picks and the question admits.

    Args:
        snapshot: The rows.
        mask: Which of its slots count.
        question: What is asked.
        types: The names of the memory types by their ids.
        now: The server's time, in ms.
        keep: How many rows to return at the most.
        precomputed: Of the same question.
        compared: What the rows are compared by, where it was found out before.

    Returns:
        Scored rows by score, then rows that nothing reaches; ties, and rows without a query, latest write first.
    """
    row_filter = question.row_filter
    if compared is None and precomputed is not None:
        compared = precomputed.measured(snapshot)
    if compared is None and question.is_ranked:
        compared = measured(snapshot, question)
    if not row_filter.lets_all_in(snapshot, types, now):
        mask = mask & row_filter.mask(snapshot, types, now, None if compared is None else compared.similarity)
    if compared is None:
        slots = _latest(snapshot, np.flatnonzero(mask), keep)
        nothing = np.full(len(slots), np.nan)
        return Ranking(slots, nothing, nothing, lambda at: {"terms": {}}, int(np.count_nonzero(mask)))
    similarity, towards = compared
    lexical = None
    if question.words is not None:
        # Before any floor: how rare a word is must depend on nothing but what may be returned.
        lexical = None if precomputed is None else precomputed.lexical(snapshot, mask)
        lexical = lexical or by_words(snapshot.words, question.words, mask)
    shown = mask
    if question.min_relevance is not None:
        passes = similarity >= question.min_relevance
        shown = mask & (passes if lexical is None else passes | (lexical.coverage() >= COVERAGE_FLOOR))
    scored, counts_words = shown, lexical is not None and uses_words(question.preset)
    if not snapshot.one_to_one:
        compares = ~np.isnan(similarity)
        scored = shown & (compares | (lexical.share > 0) if lexical is not None and counts_words else compares)
    if question.min_similarity is not None:
        scored = scored & (similarity >= question.min_similarity)
    if towards is not None:
        scored = scored & (towards >= GOAL_FLOOR)
    count = int(np.count_nonzero(scored))
    told = lexical if counts_words else None

    def columns(pick: Any) -> Columns:
        return _columns(snapshot, pick, similarity, told, question, types, now)

    best = None
    if towards is None and keep < count:
        if type(question.preset) is Relevance:
            relevance = None if precomputed is None else precomputed.relevance(snapshot, mask)
            if relevance is None:
                relevance = relevances(similarity, told)
            best = _nearest(snapshot, scored, count, question, relevance, types, now, keep, columns)
        else:
            ready = None if precomputed is None else precomputed.pool(snapshot, scored, now)
            best = _pruned(snapshot, scored, count, question, similarity, now, keep, columns, ready)
    if best is None:
        # Most often every slot counts, and then nothing has to be copied.
        pool = np.flatnonzero(scored)
        pick = slice(None) if count == snapshot.size else pool
        scores = question.preset.score(columns(pick))
        if towards is not None:
            scores = scores.times("goal", towards[pick], np.maximum(towards[pick], 0.0))
        best = pool, scores, _best(scores.total, snapshot.columns["content"][pick], keep)
    pool, scores, order = best
    slots, totals = pool[order], scores.total[order]
    unscored = 0
    if question.min_similarity is None and towards is None and scored is not shown:
        rest = np.flatnonzero(shown & ~scored)
        unscored = len(rest)
        if len(slots) < keep and unscored:
            more = _latest(snapshot, rest, keep - len(slots))
            slots = np.concatenate([slots, more])
            totals = np.concatenate([totals, np.full(len(more), np.nan)])
    return Ranking(slots, totals, similarity[slots], _explainer(scores, order, slots, lexical), count + unscored)


def _nearest(
    snapshot: Snapshot,
    scored: Mask,
    count: int,
    question: Question,
    relevance: Array,
    types: tuple[str, ...],
    now: float,
    keep: int,
    columns: Callable[[Any], Columns],
) -> tuple[Slots, Scores, Slots]:
    """Score only slots that can be among the best: a score is at the most their relevance, and little less.

    Returns:
        The slots scored, their scores, and which of them are the best.
    """
    known = relevance if count == len(relevance) else relevance[scored]
    least = float(np.partition(known, count - keep)[count - keep])
    pool = np.flatnonzero(scored & (relevance >= least * (1.0 - MOST_LIFT) - ROUNDING))
    contents = snapshot.columns["content"].take(pool)
    if question.explain:
        scores = question.preset.score(columns(pool))
    else:
        names = ("updated_at", "confirmed_at", "importance", "confidence")
        updated, confirmed, importance, confidence = (snapshot.columns[name].take(pool) for name in names)
        half_life = _half_lives(snapshot, pool, question, types)
        _, lift = lift_of(now, np.maximum(updated, confirmed), half_life, importance, confidence)
        scores = Scores(relevance.take(pool) * lift, ())
    return pool, scores, _best(scores.total, contents, keep)


def _pruned(
    snapshot: Snapshot,
    scored: Mask,
    count: int,
    question: Question,
    similarity: Array,
    now: float,
    keep: int,
    columns: Callable[[Any], Columns],
    pool: _Pool | None,
) -> tuple[Slots, Scores, Slots] | None:
    """Score only slots that can be among the best, by the bound of the part of the score that is not similarity.

    Returns:
        The slots scored, their scores, and which of them are the best; ``None`` where bounds are of no use.
    """
    preset, bounds = question.preset, snapshot.table.bounds
    # A subclass may score in another way.
    if type(preset) is not Weighted or preset.pool is not None or bounds is None:
        return None
    wide = keep + SPARE
    while wide < count:
        if pool is None:
            known = bounds.upto(snapshot.size, now, preset, lambda slots: preset.parts(columns(slots)))
            pool = _Pool.of(snapshot, preset, similarity, known, scored, count, wide)
        if question.explain:
            scores = preset.score(columns(pool.slots))
        else:
            scores = Scores(preset.total(pool.similarity, pool.parts, now), ())
        order = _best(scores.total, pool.contents, keep)
        if scores.total[order[-1]] > pool.least + ROUNDING:
            return pool.slots, scores, order
        pool = None
        wide *= WIDEN
    return None


def rows_of(
    snapshot: Snapshot,
    ranking: Ranking,
    question: Question,
    types: tuple[str, ...],
    engine: str,
    now: float,
    hear: Callable[[Snapshot, int, float], None] | None = None,
) -> list[Row]:
    """Turn a ranking into rows, each with a value of its own.

    Args:
        snapshot: The rows.
        ranking: Of the snapshot.
        question: What was asked.
        types: The names of the memory types by their ids.
        engine: What read the rows.
        now: The server's time, in ms.
        hear: Told a slot's expiry when a refresh has moved it.
    """
    found = []
    table, row_filter = snapshot.table, question.row_filter
    told = None if hear is None else partial(hear, snapshot)
    names, rests = table.names, table.rests
    judged = row_filter.reads_closed or not table.is_timeless(now)
    ranked = zip(ranking.slots.tolist(), snapshot.metas(ranking.slots), ranking.numbers(), strict=True)
    for at, (slot, meta, (score, similarity)) in enumerate(ranked):
        value = snapshot.value(slot)
        namespace, key = names[slot]
        if judged:
            rest = unpack_rest(rests[slot])
            state = state_at(meta, rest, now, row_filter.as_of, row_filter.known_at)
            meta = meta._replace(status=state or STATUS_ACTIVE)
        row = Row(
            namespace,
            key,
            meta,
            None if value is None else copy_json(value),
            rests[slot],
            types[meta.memory_type],
            score,
            similarity,
            None,
            slot,
            told,
        )
        if question.explain:
            row.details = {
                "score": score,
                "similarity": similarity,
                "engine": engine,
                "candidates": ranking.candidates,
                "filters": question.filters(),
                **ranking.explain(at),
            }
        found.append(row)
    return found


def _explainer(scores: Scores, order: Slots, slots: Slots, lexical: Lexical | None) -> Callable[[int], dict[str, Any]]:
    covered = None

    def explain(at: int) -> dict[str, Any]:
        nonlocal covered
        told: dict[str, Any] = {"terms": scores.explain(int(order[at])) if at < len(order) else {}}
        if lexical is not None:
            covered = lexical.coverage() if covered is None else covered
            slot = int(slots[at])
            told["words"] = {
                "matched": lexical.matched(slot),
                "coverage": float(covered[slot]),
                "share": float(lexical.share[slot]),
            }
        return told

    return explain


def _columns(
    snapshot: Snapshot,
    pick: Any,
    similarity: Array,
    lexical: Lexical | None,
    question: Question,
    types: tuple[str, ...],
    now: float,
) -> Columns:
    columns = {name: _fixed(column[pick]) for name, column in snapshot.columns.items()}
    picked = similarity[pick]
    # By words alone, where there is no vector.
    picked = _fixed(picked if lexical is None else np.where(np.isnan(picked), 0.0, picked))
    contexts = question.row_filter.in_contexts
    return Columns(
        picked,
        columns["importance"],
        columns["confidence"],
        columns["created_at"],
        columns["updated_at"],
        columns["confirmed_at"],
        columns["accessed_at"],
        columns["access_count"],
        np.broadcast_to(_half_lives(snapshot, pick, question, types), picked.shape),
        shared_contexts(snapshot, contexts)[pick] if contexts else np.zeros(len(picked)),
        now,
        np.zeros(len(picked)) if lexical is None else _fixed(lexical.share[pick]),
    )


def _half_lives(snapshot: Snapshot, pick: Any, question: Question, types: tuple[str, ...]) -> Array:
    """Return the half-lives of some slots; one for all where they are of one type."""
    # Another search may add rows to the table at any time, of a type that came after `types` was told: one type alone
    # is this snapshot's only where the snapshot has a row.
    half_life, kinds = question.types.half_lives(types), tuple(snapshot.table.type_ids)
    is_one = len(kinds) == 1 and snapshot.size > 0
    # The types lie scattered among the rest of meta.
    lasting: Array = half_life[kinds[0] : kinds[0] + 1] if is_one else half_life[snapshot.types[pick]]
    if snapshot.table.flags & FLAG_ANCHORED:
        lasting = np.where(snapshot.flags[pick] & FLAG_ANCHORED, ANCHORED_HALF_LIFE * lasting, lasting)
    return lasting


def _fixed(picked: Array) -> Array:
    """Forbid a preset to write into what may be a view of cached columns."""
    view = picked.view()
    view.flags.writeable = False
    return view


def _best(scores: Array, contents: Array, keep: int) -> Slots:
    if keep + FEW < len(scores):
        least = np.partition(scores, len(scores) - keep)[len(scores) - keep]
        pool = np.flatnonzero(scores >= least)
        return pool[np.lexsort((-contents[pool], -scores[pool]))][:keep]
    return np.lexsort((-contents, -scores))[:keep]


def _latest(snapshot: Snapshot, slots: Slots, keep: int) -> Slots:
    contents = snapshot.columns["content"][slots]
    if keep < len(slots):
        chosen = np.argpartition(contents, len(slots) - keep)[len(slots) - keep :] if keep else np.zeros(0, np.intp)
        slots, contents = slots[chosen], contents[chosen]
    return slots[np.argsort(-contents)]
