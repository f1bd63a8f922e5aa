"""The default ranking: words and meaning in one score, with and without an embedder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store import ConfigurationError
from langgraph_forgetful_store.model.memory_types import DAY_MS
from langgraph_forgetful_store.scoring import Columns, Relevance, Scores, Similarity, Term, Weighted
from langgraph_forgetful_store.search.presets import relevance_of
from langgraph_forgetful_store.testing.contract.embedders import PlannedEmbeddings
from tests.support.words_model import Spoken, lift, relevance, shares

NS = ("users", "alice")
VECTORS = {
    "peanut allergy": (1.0, 0.0, 0.0, 0.0),
    "what can't I eat": (1.0, 0.0, 0.0, 0.0),
    "the": (1.0, 0.0, 0.0, 0.0),
    "peanuts make me ill": (0.8, 0.6, 0.0, 0.0),
    "nuts are off the table": (0.95, 0.3122499, 0.0, 0.0),
    "an allergy to peanut dust": (0.1, 0.994987, 0.0, 0.0),
    "the river walk": (-0.5, 0.8660254, 0.0, 0.0),
}
ROWS = [text for text in VECTORS if " " in text and text not in ("peanut allergy", "what can't I eat")]
ENGINES = {"near-cache": 2**24, "scan": 0}


@pytest.fixture(params=ENGINES)
def settings(request: pytest.FixtureRequest, clock: Any) -> dict[str, Any]:
    return {"clock": clock, "cache_bytes": ENGINES[request.param], "track_access": False}


@pytest.fixture
def index() -> dict[str, Any]:
    return {"dims": 4, "embed": PlannedEmbeddings(VECTORS), "fields": ["text"], "embedder_id": "planned"}


def fill(store: Any) -> None:
    store.batch([PutOp(NS, text, {"text": text}) for text in ROWS])


def test_the_score_is_relevance_lifted_by_what_is_fresh_important_and_sure(
    make_any_store, face, clock, settings, index
):
    store = face(make_any_store(index=index, **settings))
    memory = {"importance": 0.25, "confidence": 0.5, "memory_type": "task"}
    store.batch([PutOp(NS, text, {"text": text, "$memory": memory}, ttl=1e6) for text in ROWS])
    clock.advance(minutes=24 * 60)
    by_words = shares("peanut allergy", {text: Spoken.of(text) for text in ROWS})
    found = store.recall(NS, "peanut allergy", explain=True)
    expected = {
        text: relevance(VECTORS[text][0], by_words[text][0]) * lift(DAY_MS, 2 * DAY_MS, 0.25, 0.5) for text in ROWS
    }
    assert {item.key: item.score for item in found} == pytest.approx(expected, abs=1e-6)
    assert [item.key for item in found] == sorted(ROWS, key=expected.__getitem__, reverse=True)
    for item in found:
        details = item.score_details
        assert details["terms"]["relevance"]["value"] * details["terms"]["lift"]["value"] == pytest.approx(item.score)
        assert details["terms"]["relevance"]["raw"] == pytest.approx(max(VECTORS[item.key][0], 0), abs=1e-6)
        assert details["words"]["share"] == by_words[item.key][0]
        assert details["words"]["coverage"] == pytest.approx(by_words[item.key][1])
    told = {item.key: item.score_details["words"]["matched"] for item in found}
    assert told == {
        "peanuts make me ill": ["peanut"],
        "an allergy to peanut dust": ["allergy", "peanut"],
        "nuts are off the table": [],
        "the river walk": [],
    }


def test_where_no_word_matches_the_score_is_at_most_four_percent_below_the_cosine(
    make_any_store, face, settings, index
):
    """Contract 27."""
    store = face(make_any_store(index=index, **settings))
    fill(store)
    for item in store.search(NS, query="what can't I eat"):
        if item.similarity > 0:
            assert 0.96 * item.similarity <= item.score <= item.similarity
        else:
            assert item.score == 0


def test_words_alone_rank_where_there_is_no_embedder(make_any_store, face, settings):
    """Contract 23."""
    store = face(make_any_store(**settings))
    fill(store)
    found = store.search(NS, query="peanut allergy")
    assert [item.key for item in found] == [
        "an allergy to peanut dust",
        "peanuts make me ill",
        # What no word reaches comes last, newest first.
        "the river walk",
        "nuts are off the table",
    ]
    assert [item.score is None for item in found] == [False, False, True, True]
    assert all(item.similarity is None for item in found)
    assert found[0].score <= 0.9
    paged = [store.search(NS, query="peanut allergy", limit=1, offset=at)[0].key for at in range(4)]
    assert paged == [item.key for item in found]


def test_a_query_of_stop_words_goes_by_meaning_or_lists_the_newest(make_any_store, face, settings, index):
    words = face(make_any_store(**settings))
    fill(face(make_any_store(index=index, **settings)))
    newest = [(text, None) for text in reversed(ROWS)]
    assert [(item.key, item.score) for item in words.search(NS, query="and the")] == newest
    whole = face(make_any_store(index=index, **settings))
    assert next(item.key for item in whole.search(NS, query="the")) == "nuts are off the table"
    assert all(item.score is not None for item in whole.search(NS, query="the"))


def test_a_call_may_name_another_ranking(make_any_store, face, settings, index):
    store = face(make_any_store(index=index, **settings))
    fill(store)
    plain = store.recall(NS, "peanut allergy", scoring="similarity")
    assert [item.score for item in plain] == [item.similarity for item in plain]
    asked = {"$memory": {"scoring": "similarity"}}
    assert [item.key for item in store.search(NS, query="peanut allergy", filter=asked)] == [item.key for item in plain]
    assert [item.key for item in store.recall(NS, "peanut allergy", scoring=Similarity())] == [
        item.key for item in plain
    ]
    # Where filter and argument both name one, the argument counts.
    both = store.recall(NS, "peanut allergy", filter=asked, scoring="relevance")
    assert [item.key for item in both] == [item.key for item in store.search(NS, query="peanut allergy")]
    assert [item.score for item in both] != [item.score for item in plain]
    for scoring in ("weighted", Weighted(importance=0), "relevance", Weighted()):
        once = store.recall(NS, "peanut allergy", scoring=scoring)
        other = face(make_any_store(index=index, scoring=scoring, **settings))
        assert [(item.key, item.score) for item in once] == [
            (item.key, item.score) for item in other.recall(NS, "peanut allergy")
        ]


def test_plain_cosine_without_an_index_scores_nothing_and_lists_the_newest(make_any_store, face, settings):
    store = face(make_any_store(**settings))
    fill(store)
    found = store.recall(NS, "peanut allergy", scoring="similarity")
    assert [(item.key, item.score) for item in found] == [(text, None) for text in reversed(ROWS)]


@pytest.mark.parametrize("scoring", ["best", 3, Similarity])
def test_an_unknown_ranking_is_refused(make_any_store, face, scoring):
    store = face(make_any_store())
    with pytest.raises(ValueError, match="scoring must be"):
        store.recall(NS, "tea", scoring=scoring)
    with pytest.raises(ValueError, match="scoring must be"):
        store.search(NS, query="tea", filter={"$memory": {"scoring": scoring}})


@pytest.mark.parametrize("name", ["goal", "negative", "min_similarity", "archived_above"])
def test_what_only_an_embedder_can_tell_is_refused_without_one(make_any_store, face, name):
    store = face(make_any_store())
    given = {"goal": "work", "negative": ["tea"], "min_similarity": 0.1, "archived_above": 0.5}[name]
    with pytest.raises(ValueError, match=f"{name} can't be used without an embedder"):
        store.recall(NS, "tea", **{name: given})
    if name != "negative":
        with pytest.raises(ValueError, match=f"{name} can't be used without an embedder"):
            store.search(NS, query="tea", filter={"$memory": {name: given}})
    assert store.recall(NS, "tea", **{name: None}) == []


def test_a_floor_is_passed_by_meaning_or_by_half_of_the_words(make_any_store, face, settings, index):
    store = face(make_any_store(index=index, **settings))
    fill(store)
    found = {
        floor: {item.key for item in store.recall(NS, "peanut allergy", min_relevance=floor)} for floor in (0.7, 0.9, 1)
    }
    assert found == {
        0.7: {"peanuts make me ill", "nuts are off the table", "an allergy to peanut dust"},
        0.9: {"nuts are off the table", "an allergy to peanut dust"},
        # Both words, however unlike its vector is.
        1: {"an allergy to peanut dust"},
    }
    assert [item.key for item in store.recall(NS, "peanut allergy", min_relevance=1, scoring="similarity")] == [
        "an allergy to peanut dust"
    ]
    by_filter = store.search(NS, query="peanut allergy", filter={"$memory": {"min_relevance": 0.9}})
    assert {item.key for item in by_filter} == found[0.9]
    words = face(make_any_store(**settings))
    assert [item.key for item in words.recall(NS, "peanut allergy", min_relevance=0.2)] == ["an allergy to peanut dust"]
    assert words.recall(NS, "and the", min_relevance=0.2) == words.recall(NS, min_relevance=0.2) == []


def test_a_floor_comes_before_the_page_and_after_the_words_are_counted(make_any_store, face, settings, index):
    store = face(make_any_store(index=index, **settings))
    fill(store)
    whole = {item.key: item.score for item in store.recall(NS, "peanut allergy")}
    pages = [store.recall(NS, "peanut allergy", min_relevance=0.7, limit=1, offset=at) for at in range(4)]
    assert [len(page) for page in pages] == [1, 1, 1, 0]
    # How rare a word is does not depend on the floor.
    assert all(page[0].score == whole[page[0].key] for page in pages[:3])


def test_what_a_filter_hides_does_not_tell_how_rare_a_word_is(make_any_store, face, settings):
    store = face(make_any_store(**settings))
    store.batch([PutOp(NS, f"mine{at}", {"text": text, "user": "me"}) for at, text in enumerate(ROWS)])
    asked: dict[str, Any] = {"filter": {"user": "me"}}
    before = [(item.key, item.score) for item in store.recall(NS, "peanut allergy", **asked)]
    store.batch([PutOp(NS, f"theirs{at}", {"text": "peanut butter", "user": "them"}) for at in range(20)])
    store.batch(
        [PutOp(NS, f"run{at}", {"text": "peanut", "user": "me", "$memory": {"run_id": "r"}}) for at in range(20)]
    )
    assert [(item.key, item.score) for item in store.recall(NS, "peanut allergy", **asked)] == before


def test_accesses_are_counted_and_move_nothing(make_any_store, face, clock, index):
    store = face(make_any_store(index=index, clock=clock))
    fill(store)
    before = [(item.key, item.score) for item in store.recall(NS, "peanut allergy", track_access=False)]
    for _ in range(20):
        store.get(NS, before[-1][0])
        store.search(NS, query="what can't I eat", limit=1)
    store.flush()
    after = store.recall(NS, "peanut allergy", track_access=False)
    assert [(item.key, item.score) for item in after] == before
    assert max(item.memory.access_count for item in after) == 20


@dataclass(frozen=True)
class ByWords:
    """A preset of one's own that looks at words alone."""

    pointwise = True

    def score(self, rows: Columns) -> Scores:
        return Scores(rows.words, (Term("words", rows.words, rows.words),))


def test_a_preset_of_ones_own_is_told_how_well_words_match(make_any_store, face, settings, index):
    store = face(make_any_store(index=index, scoring=ByWords(), **settings))
    fill(store)
    store.put(NS, "silent", {"text": "peanut allergy"}, index=False)
    by_words = shares("peanut allergy", {text: Spoken.of(text) for text in ROWS} | {"silent": Spoken.of()})
    found = store.recall(NS, "peanut allergy")
    assert {item.key: item.score for item in found[:-1]} == {text: by_words[text][0] for text in ROWS}
    assert (found[-1].key, found[-1].score) == ("silent", None)


def test_a_pool_is_weighed_and_the_rest_follows_by_relevance(make_any_store, face, clock, settings, index):
    store = face(make_any_store(index=index, scoring=Weighted(pool=2), **settings))
    for text in ROWS:
        important = 1.0 if text in ("nuts are off the table", "the river walk") else 0.0
        store.put(NS, text, {"text": text, "$memory": {"importance": important}})
    ranked = [item.key for item in store.recall(NS, "peanut allergy", scoring="relevance")]
    found = store.recall(NS, "peanut allergy", explain=True)
    assert {item.key for item in found[:2]} == set(ranked[:2])
    assert [item.key for item in found[2:]] == ranked[2:]
    for item in found:
        parts = [term["contribution"] for term in item.score_details["terms"].values()]
        assert sum(parts) == pytest.approx(item.score)
    best = next(item for item in found if item.key == ranked[0])
    assert best.score_details["terms"]["similarity"]["value"] == 1
    with pytest.raises(ConfigurationError, match=r"Weighted\.pool must be a whole number from 1"):
        Weighted(pool=0)


def test_relevance_is_bounded_whatever_goes_in():
    dice = np.random.default_rng(0)
    size = 1000
    numbers = {name: dice.random(size) for name in ("importance", "confidence", "words")}
    times = {
        name: 1e12 + dice.random(size) * 1e12 for name in ("created_at", "updated_at", "confirmed_at", "accessed_at")
    }
    rows = Columns(
        similarity=dice.random(size) * 2 - 1,
        access_count=np.zeros(size),
        half_life=np.where(dice.random(size) < 0.1, math.inf, 10 ** (dice.random(size) * 12)),
        shared_contexts=np.zeros(size),
        now=1.5e12,
        **numbers,
        **times,
    )
    total = Relevance().score(rows).total
    assert ((total >= 0.96 * np.maximum(rows.similarity, 0)) & (total >= 0) & (total <= 1)).all()
    least = relevance_of(rows.similarity, rows.words)
    assert (total <= least).all()
