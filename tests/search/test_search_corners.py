"""Corners of a search: filters that look alike, presets that write, data that begin a new life midway."""

from __future__ import annotations

import pytest
import redis
from langgraph.store.base import PutOp, SearchOp

from langgraph_forgetful_store.backend.keys import store_prefix
from langgraph_forgetful_store.operations.batch import Batch
from langgraph_forgetful_store.search import scan
from langgraph_forgetful_store.search.presets import Scores, Term
from langgraph_forgetful_store.testing import WordEmbeddings
from langgraph_forgetful_store.testing.interleaving import Interleaver
from langgraph_forgetful_store.testing.internals import session_of

NS = ("n",)
INDEX = {"dims": 8, "embed": WordEmbeddings(8), "fields": ["t"]}


class Odd(list):
    def __repr__(self):
        return "always the same"


def test_filters_that_look_alike_are_told_apart(make_any_store):
    store = make_any_store()
    store.put(NS, "k", {"a": {"1": "y"}, "b": 1})
    for _ in range(3):
        assert store.search(NS, filter={"a": {"$eq": {1: "y"}}}) == []
        assert len(store.search(NS, filter={"a": {"$eq": {"1": "y"}}})) == 1
        assert store.search(NS, filter={"b": {"$in": Odd([2])}}) == []
        assert len(store.search(NS, filter={"b": {"$in": Odd([1])}})) == 1
    assert store.search(NS, filter={"a": {"$eq": {1: "y", "b": 2}}}) == []


class Writing:
    def score(self, rows):
        value = rows.importance
        value *= 0.5
        return Scores(value, (Term("importance", value, value),))


def test_a_preset_can_not_write_into_what_is_cached(make_any_store):
    store = make_any_store(index=INDEX, scoring=Writing())
    store.put(NS, "k", {"t": "red"})
    with pytest.raises(ValueError, match="read-only"):
        store.search(NS, query="red")
    assert store.get(NS, "k").memory.importance == 0.5


@pytest.mark.parametrize("scoring", ["similarity", "generative_agents"])
def test_a_scan_finds_nothing_of_data_that_were_flushed_midway(make_any_store, monkeypatch, scoring):
    monkeypatch.setattr(scan, "WINDOW", 2)
    store = make_any_store(index=INDEX, scoring=scoring, cache_bytes=0, clock=lambda: 1_700_000_000_000)
    # All scripts are known to the server from here on, so that each run sends the same.
    store.batch([PutOp(NS, f"new{n}", {"t": "red"}) for n in range(9)])
    assert len(store.search(NS, query="red", limit=20)) == 9
    prefix = store_prefix(make_any_store.key_prefix)
    with make_any_store.server.client() as client:
        session = session_of(store)
        interleaver = Interleaver(client, prefix, session.index.embedder)

        def anew():
            client.flushall()
            store.batch([PutOp(NS, f"new{n}", {"t": "red"}) for n in range(9)])

        def make():
            client.flushall()
            for at in range(5):
                store.put(NS, f"old{at}", {"t": "red", "$memory": {"memory_type": "task"}})
            search = Batch.prepare([SearchOp(NS, query="red", limit=20)], session)
            return {"search": search.run(session), "flush": anew}

        for run in interleaver.explore(make, most=100):
            names = {item.key for item in run.result("search")[0]}
            assert names in ({f"old{n}" for n in range(5)}, {f"new{n}" for n in range(9)})


def test_what_several_parts_ask_under_the_reserved_key_is_anded(make_any_store):
    store = make_any_store(index=INDEX)
    store.put(NS, "k", {"t": "red", "$memory": {"confidence": 0.3}})
    strict, loose = {"$memory": {"min_confidence": 0.9}}, {"$memory": {"min_confidence": 0.1}}
    assert store.search(NS, query="red", filter={"$and": [strict, loose]}) == []
    assert store.search(NS, query="red", filter={**strict, "$and": [loose]}) == []
    assert len(store.search(NS, query="red", filter={"$and": [loose, loose]})) == 1
    with pytest.raises(ValueError, match="run_id is asked for twice"):
        store.search(NS, filter={"$and": [{"$memory": {"run_id": "a"}}, {"$memory": {"run_id": "b"}}]})
    deep: dict = {"a": 1}
    for _ in range(5000):
        deep = {"$and": [deep]}
    with pytest.raises(ValueError, match="nested too deeply"):
        store.search(NS, filter=deep)


def test_a_source_sets_the_confidence_of_a_new_row_alone(make_store):
    store = make_store()
    store.put(NS, "k", {"$memory": {"confidence": 0.3}})
    store.put(NS, "k", {"$memory": {"source": "user"}})
    store.put(NS, "new", {"$memory": {"source": "model"}})
    assert (store.get(NS, "k").memory.confidence, store.get(NS, "new").memory.confidence) == (0.3, 0.7)


def test_memory_types_are_bounded_and_one_too_many_writes_nothing(make_any_store):
    store = make_any_store()
    store.batch([PutOp(NS, f"k{n}", {"$memory": {"memory_type": f"type{n}"}}) for n in range(1024)])
    before = make_any_store.keys()
    with pytest.raises(redis.ResponseError, match="too many memory types: at most 1024"):
        store.put(NS, "k", {"$memory": {"memory_type": "one more"}})
    assert make_any_store.keys() == before
    store.put(NS, "k", {"$memory": {"memory_type": "type7"}})
    assert store.get(NS, "k").memory.memory_type == "type7"


@pytest.mark.parametrize("scoring", ["relevance", "generative_agents"])
def test_what_has_expired_and_is_not_swept_moves_no_score(make_any_store, clock, scoring):
    near = make_any_store(index=INDEX, scoring=scoring, clock=clock)
    scanned = make_any_store(index=INDEX, scoring=scoring, clock=clock, cache_bytes=0)
    near.batch([PutOp(NS, f"k{at}", {"t": text}) for at, text in enumerate(("red car", "blue car", "red tea"))])
    near.batch([PutOp(NS, f"gone{at}", {"t": "red"}, ttl=1) for at in range(20)])
    assert len(near.search(NS, query="red car", limit=100)) == 23
    clock.advance(ms=3_600_000)
    found = [[(item.key, item.score) for item in one.search(NS, query="red car", limit=2)] for one in (near, scanned)]
    assert found[0] == found[1]
