"""A score that explains itself: the parts make the score, in every preset and engine."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import PutOp, SearchOp

from langgraph_forgetful_store import MemorySearchItem
from langgraph_forgetful_store.search.presets import PRESETS, Weighted
from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("users", "alice")
ENGINES = {"near-cache": 2**24, "scan": 0}
TERMS = {
    "relevance": ["relevance", "lift"],
    "weighted": ["similarity", "importance", "confidence", "freshness", "access"],
    "similarity": ["similarity"],
    "generative_agents": ["similarity", "recency", "importance"],
    "multiplicative": ["similarity", "recency", "confidence", "context", "importance"],
}
EXPLAIN = {"$memory": {"explain": True}}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def make(make_any_store: Any, face: Any, clock: Any, engine: str) -> Any:
    """Makes a store with a few dozen rows of all kinds, which are some days old and have been read."""

    def filled(scoring: Any = "weighted") -> Any:
        settings = {"clock": clock, "scoring": scoring, "cache_bytes": ENGINES[engine]}
        settings["index"] = {"dims": 16, "embed": WordEmbeddings(16), "fields": ["text", "more[*]"]}
        store = face(make_any_store(**settings))
        puts = []
        for at in range(40):
            memory = {"importance": at % 5 / 4, "confidence": at % 3 / 2, "tags": ["work"] if at % 2 else []}
            memory["memory_type"] = ("fact", "task", "identity")[at % 3]
            value = {"text": ("tea", "coffee", "red bicycle")[at % 3], "more": [f"green {at}"] * (at % 4)}
            puts.append(PutOp(NS, str(at), {**value, "$memory": memory}))
        store.batch([*puts, PutOp(NS, "blank", {"n": 1})])
        for at in range(12):
            store.get(NS, str(at))
        clock.advance(minutes=3 * 24 * 60)
        store.flush()
        return store

    return filled


def contributions(item: Any) -> list[float]:
    return [term["contribution"] for term in item.score_details["terms"].values()]


@pytest.mark.parametrize("scoring", TERMS)
def test_the_parts_make_the_score(make, engine, scoring):
    store = make(scoring)
    for options in ({}, {"goal": "green"}, {"goal": "tea", "in_contexts": ["work"]}, {"min_similarity": 0.1}):
        found = store.recall(NS, "green tea", limit=100, explain=True, **options)
        scored = [item for item in found if item.score is not None]
        assert len(scored) > 5
        for item in scored:
            details = item.score_details
            parts = contributions(item)
            made = math.prod(parts) if scoring in {"multiplicative", "relevance"} else sum(parts)
            assert made == pytest.approx(item.score, abs=1e-6)
            assert (details["score"], details["similarity"]) == (item.score, item.similarity)
            assert details["engine"] == engine
            assert list(details["terms"]) == TERMS[scoring] + (["goal"] if "goal" in options else [])
            for term in details["terms"].values():
                assert set(term) == {"raw", "value", "weight", "contribution"}


def test_the_terms_say_what_went_in_and_what_it_weighed(make_any_store, face, clock, engine):
    index = {"dims": 16, "embed": WordEmbeddings(16), "fields": ["text"]}
    settings = {"scoring": "weighted", "cache_bytes": ENGINES[engine]}
    store = face(make_any_store(clock=clock, index=index, **settings))
    store.put(NS, "k", {"text": "tea", "$memory": {"importance": 0.75, "memory_type": "task"}}, ttl=30 * 24 * 60)
    for _ in range(5):
        store.get(NS, "k")
    store.flush()
    clock.advance(minutes=7 * 24 * 60)
    (item,) = store.recall(NS, "tea", explain=True)
    week = 7 * 86_400_000
    # Two days, slowed by five accesses to seven.
    assert item.score_details["terms"] == {
        "similarity": approx(raw=1, value=1, weight=0.4, contribution=0.4),
        "importance": approx(raw=0.75, value=0.75, weight=0.2, contribution=0.15),
        "confidence": approx(raw=0.8, value=0.8, weight=0.15, contribution=0.12),
        "freshness": approx(raw=week, value=0.5, weight=0.15, contribution=0.075),
        "access": approx(raw=5, value=0.5, weight=0.1, contribution=0.05),
    }
    assert item.score == pytest.approx(0.795)
    (towards,) = store.recall(NS, "tea", explain=True, goal="tea milk")
    goal = towards.score_details["terms"]["goal"]
    assert goal["raw"] == goal["value"] == pytest.approx(towards.score / item.score, rel=0.1)
    assert (goal["weight"], goal["contribution"]) == (0, 0)


def approx(**numbers: float) -> Any:
    return pytest.approx(numbers, abs=1e-6)


def test_a_term_that_is_switched_off_is_not_explained(make):
    (item, *_) = make(Weighted(freshness=0, access=0)).recall(NS, "green tea", explain=True)
    assert list(item.score_details["terms"]) == ["similarity", "importance", "confidence"]
    assert sum(term["weight"] for term in item.score_details["terms"].values()) == pytest.approx(1)
    assert sum(contributions(item)) == pytest.approx(item.score, abs=1e-6)


def test_the_candidates_that_were_ranked_and_the_filters_that_were_passed_are_told(make):
    store = make()
    (item, *_) = store.recall(NS, "green tea", explain=True)
    assert (item.score_details["candidates"], item.score_details["filters"]) == (41, [])
    asked = {"memory_types": ["task"], "min_confidence": 0.5, "tags": ["work"], "min_similarity": -1, "goal": "green"}
    asked |= {"run_id": "r", "in_contexts": ["work"], "filter": {"$memory": {"importance": {"$gte": 0}}}}
    (item, *_) = store.recall(NS, "green tea", explain=True, **asked)
    assert 0 < item.score_details["candidates"] <= 7
    assert set(item.score_details["filters"]) == {
        "memory_types", "min_confidence", "tags", "min_similarity", "goal", "run_id", "in_contexts", "$memory"
    }  # fmt: skip
    store.put(("other",), "k", {"text": "green tea"})
    (item,) = store.recall(NS, "green tea", explain=True, filter={"text": "tea"}, limit=1)
    assert item.score_details["candidates"] == 14


def test_a_row_without_a_vector_explains_that_nothing_was_compared(make, engine):
    *_, item = make().recall(NS, "green tea", limit=100, explain=True)
    details = {"score": None, "similarity": None, "engine": engine, "candidates": 41, "filters": [], "terms": {}}
    assert (item.key, item.score, item.score_details) == ("blank", None, details)


def test_without_a_query_there_are_no_terms(make):
    for item in make().recall(NS, explain=True, limit=3):
        assert (item.score, item.score_details["terms"], item.score_details["candidates"]) == (None, {}, 41)


def test_clients_that_know_only_a_base_store_ask_by_the_reserved_key(make):
    store = make()
    found = store.search(NS, query="green tea", filter={**EXPLAIN, "text": "tea"}, limit=3)
    (batched,) = store.batch([SearchOp(NS, {"$and": [{"text": "tea"}, EXPLAIN]}, 3, 0, "green tea")])
    recalled = store.recall(NS, "green tea", filter={"text": "tea"}, explain=True, limit=3)
    assert len(found) == 3
    for one, two, three in zip(found, batched, recalled, strict=True):
        assert one.score_details == two.score_details == three.score_details
        assert sum(contributions(one)) == pytest.approx(one.score, abs=1e-6)


@pytest.mark.parametrize("scoring", PRESETS)
def test_an_explained_item_is_plain_json_and_survives_the_checkpoint_serializer(make, scoring):
    store = make(scoring)
    serde = JsonPlusSerializer()
    for item in store.recall(NS, "green tea", explain=True, goal="green", limit=3):
        plain = item.dict()
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        assert (plain["similarity"], plain["score_details"]) == (item.similarity, item.score_details)
        again = serde.loads_typed(serde.dumps_typed(item))
        assert type(again) is MemorySearchItem
        assert again.dict() == plain
        assert (again.similarity, again.score_details) == (item.similarity, item.score_details)
        assert "score_details" in repr(item)


def test_a_row_never_accessed_and_never_confirmed_is_plain_json_too(make_any_store, face, engine):
    index = {"dims": 16, "embed": WordEmbeddings(16)}
    for scoring in PRESETS:
        store = face(make_any_store(index=index, scoring=scoring, cache_bytes=ENGINES[engine]))
        store.put(NS, "k", {"text": "tea", "$memory": {"memory_type": "identity"}})
        (item,) = store.recall(NS, "tea", explain=True)
        assert "null" not in json.dumps(item.dict(), allow_nan=False)


def test_only_who_asks_gets_an_explanation(make):
    store = make()
    for item in (*store.search(NS, query="green tea"), *store.recall(NS, "green tea")):
        assert item.score_details is None
        assert item.similarity is not None
        assert not {"similarity", "score_details"} & set(item.dict())
    assert all(item.similarity is None for item in store.search(NS))
