"""Presets against their formulas, written out anew in plain Python; and through a store, by both of its engines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store import ConfigurationError, ForgetfulStore
from langgraph_forgetful_store.memory_types import DAY_MS, KNOWN_TYPES, half_lives
from langgraph_forgetful_store.search.presets import (
    HOUR_MS,
    PRESETS,
    Columns,
    GenerativeAgents,
    Multiplicative,
    Preset,
    Recall,
    Scores,
    Similarity,
    Term,
    find_preset,
)
from langgraph_forgetful_store.testing import WordEmbeddings
from langgraph_forgetful_store.testing.contract.embedders import PlannedEmbeddings

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
    (composite,) = Recall().score(columns(name)).total
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
    assert Recall().score(columns(name)).total == pytest.approx([score], abs=1e-12)


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
    scores = Recall(**dict(zip(names, weights, strict=True))).score(columns(*ROWS))
    assert scores.total == pytest.approx([recall(row(name), weights) for name in ROWS], abs=1e-12)
    assert [term.name for term in scores.terms] == [n for n, w in zip(names, weights, strict=True) if w]
    assert sum(term.weight for term in scores.terms) == pytest.approx(1)


@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf, "0.4", None, True])
@pytest.mark.parametrize(("preset", "name"), [(Recall, "freshness"), (GenerativeAgents, "recency")])
def test_an_unusable_weight_is_refused_by_its_name(preset, name, weight):
    with pytest.raises(ConfigurationError, match=rf"{preset.__name__}\.{name} must be a finite number from 0"):
        preset(**{name: weight})


def test_weights_that_are_all_zero_are_refused():
    with pytest.raises(ConfigurationError, match="Recall needs a weight above 0"):
        Recall(0, 0, 0, 0, 0)
    with pytest.raises(ConfigurationError, match="GenerativeAgents needs a weight above 0"):
        GenerativeAgents(0, 0, 0)


def test_presets_cannot_be_changed():
    with pytest.raises(AttributeError):
        Recall().similarity = 1


@pytest.mark.parametrize("scoring", ["cosine", "", None, 3, Recall, object()])
def test_what_is_no_preset_is_refused_and_the_known_names_are_listed(scoring):
    with pytest.raises(ConfigurationError, match="recall, similarity, generative_agents, multiplicative"):
        ForgetfulStore.from_conn_string("redis://localhost", scoring=scoring)


def test_a_name_and_an_object_say_the_same():
    assert find_preset("recall") == find_preset(Recall()) == Recall(0.40, 0.20, 0.15, 0.15, 0.10)
    assert all(isinstance(preset, Preset) for preset in PRESETS.values())


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
    assert (half_lives(names) / 86_400_000).tolist() == pytest.approx([days] * len(names))


def test_every_known_type_has_a_half_life():
    assert len(KNOWN_TYPES) == 16
    assert (half_lives(KNOWN_TYPES) > 0).all()


# Through a store.
NS = ("users", "alice")
VECTORS = {
    "query": (1.0, 0.0, 0.0, 0.0),
    "alike": (1.0, 0.0, 0.0, 0.0),
    "near": (3.0, 4.0, 0.0, 0.0),
    "unlike": (0.0, 1.0, 0.0, 0.0),
    "contrary": (-1.0, 0.0, 0.0, 0.0),
}
COSINES = {"alike": 1.0, "near": 0.6, "unlike": 0.0, "contrary": -1.0}
HOUR = 60.0


def planned() -> dict[str, Any]:
    return {"dims": 4, "embed": PlannedEmbeddings(VECTORS), "fields": ["text"]}


def scores(items: list[Any]) -> list[tuple[str, float | None, float | None]]:
    return [(item.key, item.score, item.similarity) for item in items]


def test_the_recall_score_weighs_what_was_written(make_store, face, clock):
    store = face(make_store(clock=clock, index=planned(), track_access=False))
    store.put(NS, "task", {"text": "near", "$memory": {"memory_type": "task"}})
    store.put(NS, "trifle", {"text": "alike", "$memory": {"importance": 0.0, "confidence": 0.1}})
    clock.advance(minutes=48 * HOUR)
    store.put(NS, "vital", {"text": "near", "$memory": {"importance": 1.0, "source": "user"}})
    found = store.search(NS, query="query")
    assert {item.key: item.score for item in found} == pytest.approx(
        {
            "vital": 0.4 * 0.6 + 0.2 * 1.0 + 0.15 * 0.95 + 0.15,
            "task": 0.4 * 0.6 + 0.2 * 0.5 + 0.15 * 0.8 + 0.15 * 0.5,
            "trifle": 0.4 * 1.0 + 0.15 * 0.1 + 0.15 * 0.5 ** (2 / 90),
        },
        abs=1e-6,
    )
    assert [item.key for item in found] == ["vital", "trifle", "task"]
    assert [item.similarity for item in found] == pytest.approx([0.6, 1.0, 0.6])
    assert {type(number) for item in found for number in (item.score, item.similarity)} == {float}


def test_counted_accesses_raise_the_score_and_slow_the_fading(make_any_store, face, clock):
    store = face(make_any_store(clock=clock, index=planned()))
    store.put(NS, "task", {"text": "near", "$memory": {"memory_type": "task"}})
    for _ in range(5):
        store.get(NS, "task")
    store.flush()
    clock.advance(minutes=48 * HOUR)
    (found,) = store.search(NS, query="query")
    expected = 0.4 * 0.6 + 0.2 * 0.5 + 0.15 * 0.8 + 0.15 * 0.5 ** (1 / 3.5) + 0.1 * 0.5
    assert found.score == pytest.approx(expected, abs=1e-6)


def test_plain_cosine_is_the_score_of_the_preset_similarity(make_store, face, clock):
    store = face(make_store(clock=clock, index=planned(), scoring="similarity"))
    store.batch([PutOp(NS, key, {"text": key}) for key in COSINES])
    found = store.search(NS, query="query")
    assert [item.score for item in found] == [item.similarity for item in found]
    assert {item.key: item.score for item in found} == pytest.approx(COSINES, abs=1e-6)


def test_contexts_weigh_in_the_preset_multiplicative(make_any_store, face, clock):
    store = face(make_any_store(clock=clock, index=planned(), scoring="multiplicative", track_access=False))
    store.put(NS, "k", {"text": "near", "$memory": {"tags": ["work", "travel", "home"]}})
    clock.advance(minutes=24 * HOUR)
    product = 0.6 * 0.5 * 0.8 * 0.5
    for contexts, factor in (((), 1.0), (("work",), 1.2), (("work", "home", "elsewhere"), 1.4)):
        (found,) = store.recall(NS, "query", in_contexts=contexts)
        assert found.score == pytest.approx(product * factor, abs=1e-6)


@dataclass(frozen=True)
class Loudest:
    """A preset of one's own."""

    least: float

    def score(self, rows: Columns) -> Scores:
        value = np.maximum(rows.importance, self.least)
        return Scores(value, (Term("loudness", rows.importance, value),))


@pytest.mark.parametrize("cache_bytes", [0, 2**20])
def test_a_preset_of_ones_own_ranks(make_any_store, face, clock, cache_bytes):
    store = face(make_any_store(clock=clock, index=planned(), scoring=Loudest(0.3), cache_bytes=cache_bytes))
    for key, importance in (("a", 0.1), ("b", 0.9), ("c", 0.2), ("d", 0.4)):
        store.put(NS, key, {"text": "near", "$memory": {"importance": importance}})
    found = store.recall(NS, "query", explain=True)
    # What is equal comes latest first.
    assert [(item.key, item.score) for item in found] == [("b", 0.9), ("d", 0.4), ("c", 0.3), ("a", 0.3)]
    assert found[3].score_details["terms"] == {
        "loudness": {"raw": 0.1, "value": 0.3, "weight": 1.0, "contribution": 0.3}
    }


def fill(store: Any, clock: Any, count: int) -> None:
    """Put rows of every kind, over weeks, and read some of them."""
    words = ["tea", "green", "bicycle", "lisbon", "work", "noor", "sunday", "cat"]
    for start in range(0, count, 40):
        puts = []
        for at in range(start, min(start + 40, count)):
            text = f"{words[at % 8]} {words[at * 5 % 7]} {at % 11}"
            value: dict[str, Any] = {"text": text, "at": at}
            if at % 3:
                value["$memory"] = {"importance": at % 10 / 10, "confidence": at % 7 / 7, "memory_type": TYPES[at % 5]}
            if at % 4 == 1:
                value["$memory"] = {"tags": ["work", *(["home"] if at % 8 == 1 else [])]}
            puts.append(PutOp((*NS, f"n{at % 3}"), str(at), value, index=False if at % 17 == 0 else None))
        store.batch(puts)
        clock.advance(minutes=7 * HOUR)
    for at in range(0, count, 6):
        for _ in range(at % 4):
            store.get((*NS, f"n{at % 3}"), str(at))
    store.flush()


TYPES = ["fact", "task", "emotion", "identity", "hypothesis"]


@pytest.mark.parametrize("scoring", PRESETS)
def test_near_cache_and_scan_give_the_same_results_in_the_same_order(make_any_store, face, clock, scoring):
    index = {"dims": 16, "embed": WordEmbeddings(16), "fields": ["text"]}
    near, scan = (
        face(make_any_store(clock=clock, index=index, scoring=scoring, cache_bytes=size, track_access=False))
        for size in (2**24, 0)
    )
    fill(face(make_any_store(clock=clock, index=index)), clock, 240)
    for prefix in (NS, (*NS, "n1")):
        for query in ("green tea", "bicycle noor 3", "cat"):
            for options in (
                {},
                {"limit": 1000},
                {"limit": 7, "offset": 11},
                {"filter": {"at": {"$gte": 60}}, "limit": 30},
                {"min_confidence": 0.5, "limit": 50},
                {"goal": "work sunday", "limit": 50},
                {"in_contexts": ["work"], "memory_types": ["generic", "hypothesis"], "limit": 50},
            ):
                one = near.recall(prefix, query, explain=True, **options)
                two = scan.recall(prefix, query, explain=True, **options)
                assert one or options.get("offset") or "goal" in options
                assert [engine(item) for item in one] == ["near-cache"] * len(one)
                assert [engine(item) for item in two] == ["scan"] * len(two)
                # Which rows stand beside one does not change how its numbers are rounded.
                assert scores(one) == scores(two)
                assert [item.value for item in one] == [item.value for item in two]


def engine(item: Any) -> str:
    return item.score_details["engine"]


@pytest.mark.parametrize("scoring", PRESETS)
def test_a_scan_of_several_windows_ranks_as_the_near_cache_does(make_any_store, clock, scoring):
    index = {"dims": 16, "embed": WordEmbeddings(16), "fields": ["text"]}
    near, scan = (
        make_any_store(clock=clock, index=index, scoring=scoring, cache_bytes=size, track_access=False)
        for size in (2**26, 0)
    )
    fill(near, clock, 2300)
    for options in ({"limit": 30}, {"limit": 1500, "offset": 700}, {"filter": {"at": {"$lt": 50}}, "limit": 3000}):
        one, two = (store.recall(NS, "green tea", explain=True, **options) for store in (near, scan))
        assert (engine(one[0]), engine(two[0])) == ("near-cache", "scan")
        assert scores(one) == scores(two)
