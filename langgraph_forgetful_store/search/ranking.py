"""Ranking: the one place where a snapshot's rows become an ordered result, whichever engine read them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from langgraph_forgetful_store.backend.codec import FLAG_ANCHORED, STATUS_ACTIVE, Matrix, copy_json
from langgraph_forgetful_store.model.packing import unpack_rest
from langgraph_forgetful_store.model.status import state_at
from langgraph_forgetful_store.search.admission import shared_contexts
from langgraph_forgetful_store.search.bounds import Reckoned
from langgraph_forgetful_store.search.candidates import Candidate
from langgraph_forgetful_store.search.presets import Array, Columns, Parts, Scores, Weighted
from langgraph_forgetful_store.search.question import GOAL_FLOOR, Question
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
        explain: Returns the terms of the nth.
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


class Draft:
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
        self._similarity: Array | None = None
        self._bounds: Reckoned | None = None
        self._pool: _Pool | None = None

    def prepare(self, snapshot: Snapshot) -> None:
        """Reckon it, as far as can be told before the server has answered."""
        query, preset, bounds = self._question.query, self._question.preset, snapshot.table.bounds
        if query is None or self._snapshot is not None:
            return
        self._snapshot = snapshot
        self._similarity = similarity = similarities(snapshot, query)
        if type(preset) is not Weighted or bounds is None or not snapshot.one_to_one:
            return
        known, wide = bounds.known, self._keep + SPARE
        count = int(np.count_nonzero(snapshot.live))
        if wide < count and len(known.rest) >= snapshot.size:
            self._bounds = known
            self._pool = _Pool.of(snapshot, preset, similarity, known, snapshot.live, count, wide)

    def similarity(self, snapshot: Snapshot) -> Array | None:
        """Return the similarities of a snapshot's slots, where they are known."""
        mine = self._snapshot
        same = mine is not None and mine.table is snapshot.table and mine.size == snapshot.size
        return self._similarity if same else None

    def pool(self, snapshot: Snapshot, scored: Mask, now: float) -> _Pool | None:
        """Return slots that can be among the best of those that are to be scored, where they are known."""
        if self._bounds is None or self.similarity(snapshot) is None or not self._bounds.hold_at(now):
            return None
        assert self._snapshot is not None
        # Masks are replaced, never changed.
        return self._pool if scored is self._snapshot.live else None


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
    draft: Draft | None = None,
) -> Ranking:
    """Order the rows that `mask` picks and the question admits.

    Args:
        snapshot: The rows.
        mask: Which of its slots count.
        question: What is asked.
        types: The names of the memory types by their ids.
        now: The server's time, in ms.
        keep: How many rows to return at the most.
        draft: Of the same question.

    Returns:
        Scored rows by score, then rows without a vector; ties, and rows without a query, latest write first.
    """
    admission = question.admission
    similarity = None if draft is None else draft.similarity(snapshot)
    if similarity is None and question.query is not None:
        similarity = similarities(snapshot, question.query)
    if not admission.lets_all_in(snapshot, types, now):
        mask = mask & admission.mask(snapshot, types, now, similarity)
    if question.query is None or similarity is None:
        slots = _latest(snapshot, np.flatnonzero(mask), keep)
        nothing = np.full(len(slots), np.nan)
        return Ranking(slots, nothing, nothing, lambda at: {}, int(np.count_nonzero(mask)))
    without_vector = None if snapshot.one_to_one else np.isnan(similarity)
    scored = mask if without_vector is None else mask & ~without_vector
    if question.min_similarity is not None:
        scored = scored & (similarity >= question.min_similarity)
    towards = None
    if question.goal is not None:
        towards = similarities(snapshot, question.goal)
        scored = scored & (towards >= GOAL_FLOOR)
    count = int(np.count_nonzero(scored))

    def columns(pick: Any) -> Columns:
        return _columns(snapshot, pick, similarity, question, types, now)

    best = None
    if towards is None and keep < count:
        drafted = None if draft is None else draft.pool(snapshot, scored, now)
        best = _pruned(snapshot, scored, count, question, similarity, now, keep, columns, drafted)
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
    if question.min_similarity is None and towards is None and without_vector is not None:
        rest = np.flatnonzero(mask & without_vector)
        unscored = len(rest)
        if len(slots) < keep and unscored:
            more = _latest(snapshot, rest, keep - len(slots))
            slots = np.concatenate([slots, more])
            totals = np.concatenate([totals, np.full(len(more), np.nan)])
    return Ranking(slots, totals, similarity[slots], _explainer(scores, order), count + unscored)


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
    if type(preset) is not Weighted or bounds is None:
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


def candidates_of(
    snapshot: Snapshot,
    ranking: Ranking,
    question: Question,
    types: tuple[str, ...],
    engine: str,
    now: float,
    hear: Callable[[Snapshot, int, float], None] | None = None,
) -> list[Candidate]:
    """Turn a ranking into candidates, each with a value of its own.

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
    table, admission = snapshot.table, question.admission
    told = None if hear is None else partial(hear, snapshot)
    names, rests = table.names, table.rests
    judged = admission.reads_closed or not table.is_timeless(now)
    ranked = zip(ranking.slots.tolist(), snapshot.metas(ranking.slots), ranking.numbers(), strict=True)
    for at, (slot, meta, (score, similarity)) in enumerate(ranked):
        value = snapshot.value(slot)
        namespace, key = names[slot]
        if judged:
            rest = unpack_rest(rests[slot])
            meta = meta._replace(status=state_at(meta, rest, now, admission.as_of, admission.known_at) or STATUS_ACTIVE)
        candidate = Candidate(
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
    snapshot: Snapshot,
    pick: Any,
    similarity: Array,
    question: Question,
    types: tuple[str, ...],
    now: float,
) -> Columns:
    columns = {name: _fixed(column[pick]) for name, column in snapshot.columns.items()}
    picked = _fixed(similarity[pick])
    # Another search may add rows to the table at any time, of a type that came after `types` was told: one type alone
    # is this snapshot's only where the snapshot has a row.
    half_life, kinds, contexts = (
        question.types.half_lives(types),
        tuple(snapshot.table.type_ids),
        question.admission.in_contexts,
    )
    # The types lie scattered among the rest of meta.
    is_one = len(kinds) == 1 and snapshot.size > 0
    lasting = np.full(len(picked), half_life[kinds[0]]) if is_one else half_life[snapshot.types[pick]]
    if snapshot.table.flags & FLAG_ANCHORED:
        lasting = np.where(snapshot.flags[pick] & FLAG_ANCHORED, ANCHORED_HALF_LIFE * lasting, lasting)
    return Columns(
        picked,
        columns["importance"],
        columns["confidence"],
        columns["created_at"],
        columns["updated_at"],
        columns["confirmed_at"],
        columns["accessed_at"],
        columns["access_count"],
        lasting,
        shared_contexts(snapshot, contexts)[pick] if contexts else np.zeros(len(picked)),
        now,
    )


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
