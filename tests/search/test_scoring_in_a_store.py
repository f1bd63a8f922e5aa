"""Presets through a store: what was written is what is weighed, and both engines give the same results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store.search.presets import PRESETS, Columns, Scores, Term
from langgraph_forgetful_store.testing import WordEmbeddings
from langgraph_forgetful_store.testing.contract.embedders import PlannedEmbeddings

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


def test_the_weighted_score_weighs_what_was_written(make_store, face, clock):
    store = face(make_store(clock=clock, index=planned(), scoring="weighted", track_access=False))
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


def test_counted_accesses_raise_the_weighted_score_and_slow_the_fading(make_any_store, face, clock):
    store = face(make_any_store(clock=clock, index=planned(), scoring="weighted"))
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
