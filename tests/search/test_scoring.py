"""Presets against their formulas, written out anew in plain Python."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from langgraph_forgetful_store import ConfigurationError, ForgetfulStore
from langgraph_forgetful_store.model.memory_types import DAY_MS, LIFECYCLE, MemoryTypes
from langgraph_forgetful_store.search.presets import (
    HOUR_MS,
    PRESETS,
    Columns,
    GenerativeAgents,
    Multiplicative,
    ScoringPreset,
    Similarity,
    Weighted,
    find_preset,
)

pytestmark = pytest.mark.exhaustive

NOW = 1_700_000_000_000.0
NEVER = -math.inf
PLAIN: dict[str, float] = {
    "similarity": 0.5,
    "importance": 0.5,
    "confidence": 0.8,
    "created_at": NOW,
    "updated_at": NOW,
    "confirmed_at": NEVER,
    "accessed_at": NEVER,
    "access_count": 0,
    "half_life": 90 * DAY_MS,
    "shared_contexts": 0,
}
ROWS: dict[str, dict[str, float]] = {
    "plain": {},
    "alike": {"similarity": 1.0},
    "unlike": {"similarity": 0.0},
    "contrary": {"similarity": -1.0},
    "slightly contrary": {"similarity": -0.01},
    "important": {"importance": 1.0},
    "of no importance": {"importance": 0.0},
    "certain": {"confidence": 1.0},
    "doubted": {"confidence": 0.0},
    "a half-life old": {"created_at": NOW - 90 * DAY_MS, "updated_at": NOW - 90 * DAY_MS},
    "written anew": {"created_at": NOW - 90 * DAY_MS, "updated_at": NOW - HOUR_MS},
    "confirmed": {"created_at": 0.0, "updated_at": 0.0, "confirmed_at": NOW - 5 * DAY_MS},
    "confirmed before it was updated": {"updated_at": NOW - DAY_MS, "confirmed_at": NOW - 5 * DAY_MS},
    "unfading": {"created_at": 0.0, "updated_at": 0.0, "half_life": math.inf},
    "fading fast": {"created_at": NOW - DAY_MS, "updated_at": NOW - DAY_MS, "half_life": DAY_MS / 144},
    "from the beginning of time": {"created_at": 0.0, "updated_at": 0.0, "half_life": DAY_MS / 144},
    "from the future": {"created_at": NOW + DAY_MS, "updated_at": NOW + DAY_MS},
    "accessed in the future": {"accessed_at": NOW + DAY_MS, "access_count": 1, "created_at": 0.0},
    "used": {"access_count": 5, "accessed_at": NOW - 3 * HOUR_MS, "updated_at": NOW - 90 * DAY_MS},
    "used without end": {"access_count": 4_294_967_295, "accessed_at": NOW, "updated_at": 0.0},
    "in context": {"shared_contexts": 2},
}


def row(name: str) -> SimpleNamespace:
    return SimpleNamespace(**{**PLAIN, **ROWS[name]})


def columns(*names: str) -> Columns:
    rows = [row(name) for name in names]
    return Columns(**{name: np.array([getattr(one, name) for one in rows], float) for name in PLAIN}, now=NOW)


def fresh(one: Any) -> float:
    age = max(0.0, NOW - max(one.updated_at, one.confirmed_at))
    stability = 1 + 0.5 * one.access_count
    return 0.5 ** (age / (one.half_life * stability))


def recall(one: Any, weights: tuple[float, ...] = (0.40, 0.20, 0.15, 0.15, 0.10)) -> float:
    parts = (
        min(1.0, max(0.0, one.similarity)),
        one.importance,
        one.confidence,
        fresh(one),
        one.access_count / (one.access_count + 5),
    )
    return sum(weight * part for weight, part in zip(weights, parts, strict=True)) / sum(weights)


def hours(one: Any) -> float:
    since = one.created_at if one.accessed_at == NEVER else max(one.accessed_at, one.created_at)
    return max(0.0, NOW - since) / HOUR_MS


def multiplicative(one: Any) -> float:
    recency = 0.5 ** (hours(one) / 24)
    context = 1 + 0.2 * one.shared_contexts
    return max(0.0, one.similarity) * recency * one.confidence * context * one.importance


def min_max(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]


def generative_agents(rows: list[Any], weights: tuple[float, ...] = (3, 0.5, 2)) -> list[float]:
    terms = (
        min_max([one.similarity for one in rows]),
        min_max([0.995 ** hours(one) for one in rows]),
        min_max([one.importance for one in rows]),
    )
    return [sum(w * part for w, part in zip(weights, parts, strict=True)) for parts in zip(*terms, strict=True)]


@pytest.mark.parametrize("name", ROWS)
def test_each_row_scores_as_its_formula_says(name):
    (composite,) = Weighted().score(columns(name)).total
    (product,) = Multiplicative().score(columns(name)).total
    (plain,) = Similarity().score(columns(name)).total
    assert composite == pytest.approx(recall(row(name)), abs=1e-12)
    assert 0 <= composite <= 1
    assert product == pytest.approx(multiplicative(row(name)), abs=1e-12)
    assert plain == row(name).similarity


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("plain", 0.40 * 0.5 + 0.20 * 0.5 + 0.15 * 0.8 + 0.15),
        ("contrary", 0.20 * 0.5 + 0.15 * 0.8 + 0.15),
        ("a half-life old", 0.40 * 0.5 + 0.20 * 0.5 + 0.15 * 0.8 + 0.15 * 0.5),
        ("unfading", 0.40 * 0.5 + 0.20 * 0.5 + 0.15 * 0.8 + 0.15),
        # Five accesses: half of the access term, and a half-life 3.5 times as long.
        ("used", 0.40 * 0.5 + 0.20 * 0.5 + 0.15 * 0.8 + 0.15 * 0.5 ** (1 / 3.5) + 0.10 * 0.5),
    ],
)
def test_the_recall_score_in_numbers(name, score):
    assert Weighted().score(columns(name)).total == pytest.approx([score], abs=1e-12)


def test_the_multiplicative_score_in_numbers():
    one = columns("in context")
    assert Multiplicative().score(one).total == pytest.approx([0.5 * 0.8 * 1.4 * 0.5], abs=1e-12)
    assert Multiplicative().score(columns("a half-life old")).total == pytest.approx([0.2 * 0.5**90], abs=1e-30)


def test_the_score_of_generative_agents_is_normalised_over_all_candidates():
    rows = [row(name) for name in ROWS]
    assert GenerativeAgents().score(columns(*ROWS)).total == pytest.approx(generative_agents(rows), abs=1e-12)
    pair = GenerativeAgents().score(columns("alike", "important")).total
    # Each is the best in one term, and both are alike in recency.
    assert pair == pytest.approx([3 + 0.25, 0.25 + 2])
    weighed = GenerativeAgents(similarity=1, recency=0, importance=7)
    assert weighed.score(columns(*ROWS)).total == pytest.approx(generative_agents(rows, (1, 0, 7)), abs=1e-12)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_candidates_that_are_all_equal_get_the_middle_of_each_term(count):
    assert GenerativeAgents().score(columns(*["plain"] * count)).total == pytest.approx([2.75] * count)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_no_candidates_have_no_scores(preset):
    assert preset.score(columns()).total.shape == (0,)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_scores_do_not_depend_on_the_order_of_the_candidates(preset):
    names = list(ROWS)
    forwards = dict(zip(names, preset.score(columns(*names)).total.tolist(), strict=True))
    names.reverse()
    assert dict(zip(names, preset.score(columns(*names)).total.tolist(), strict=True)) == pytest.approx(forwards)


@pytest.mark.parametrize(
    "weights", [(0, 0.2, 0.15, 0.15, 0.1), (0.4, 0, 0, 0, 0.1), (0, 0, 0, 1, 0), (4, 2, 1.5, 1.5, 1), (1, 1, 1, 1, 1)]
)
def test_weights_of_zero_drop_their_term_and_the_others_sum_to_one(weights):
    names = ("similarity", "importance", "confidence", "freshness", "access")
    scores = Weighted(**dict(zip(names, weights, strict=True))).score(columns(*ROWS))
    assert scores.total == pytest.approx([recall(row(name), weights) for name in ROWS], abs=1e-12)
    assert [term.name for term in scores.terms] == [n for n, w in zip(names, weights, strict=True) if w]
    assert sum(term.weight for term in scores.terms) == pytest.approx(1)


@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf, "0.4", None, True])
@pytest.mark.parametrize(("preset", "name"), [(Weighted, "freshness"), (GenerativeAgents, "recency")])
def test_an_unusable_weight_is_refused_by_its_name(preset, name, weight):
    with pytest.raises(ConfigurationError, match=rf"{preset.__name__}\.{name} must be a finite number from 0"):
        preset(**{name: weight})


def test_weights_that_are_all_zero_are_refused():
    with pytest.raises(ConfigurationError, match="Weighted needs a weight above 0"):
        Weighted(0, 0, 0, 0, 0)
    with pytest.raises(ConfigurationError, match="GenerativeAgents needs a weight above 0"):
        GenerativeAgents(0, 0, 0)


def test_presets_cannot_be_changed():
    with pytest.raises(AttributeError):
        Weighted().similarity = 1


@pytest.mark.parametrize("scoring", ["cosine", "", None, 3, Weighted, object()])
def test_what_is_no_preset_is_refused_and_the_known_names_are_listed(scoring):
    with pytest.raises(ConfigurationError, match="weighted, similarity, generative_agents, multiplicative"):
        ForgetfulStore.from_conn_string("redis://localhost", scoring=scoring)


def test_a_name_and_an_object_say_the_same():
    assert find_preset("weighted") == find_preset(Weighted()) == Weighted(0.40, 0.20, 0.15, 0.15, 0.10)
    assert all(isinstance(preset, ScoringPreset) for preset in PRESETS.values())


@pytest.mark.parametrize(
    ("names", "days"),
    [
        (("generic", "preference", "fact", "procedural", "tool"), 90),
        (("episodic", "summary"), 30),
        (("intent", "commitment"), 7),
        (("opinion",), 3),
        (("task", "hypothesis"), 2),
        (("sensitive",), 1),
        (("conversation",), 1 / 24),
        (("emotion",), 1 / 144),
        (("identity",), math.inf),
        (("a type of one's own",), 90),
    ],
)
def test_half_lives_by_type(names, days):
    assert (MemoryTypes().half_lives(names) / 86_400_000).tolist() == pytest.approx([days] * len(names))


def test_every_known_type_has_a_half_life():
    assert len(LIFECYCLE) == 16
    assert (MemoryTypes().half_lives(tuple(LIFECYCLE)) > 0).all()
