"""Races of searches that share one near-cache, each by its name, and each shown to go wrong without what prevents it.

A test runs twice: with the protocol as it is, and with a naive one put in its place, where the same check must fail.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from langgraph.store.base import PutOp, SearchOp

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.errors import CorruptRecordError
from langgraph_forgetful_store.operations import search as search_operation
from langgraph_forgetful_store.search import near_cache
from langgraph_forgetful_store.search.scope import Scope
from langgraph_forgetful_store.testing import WordEmbeddings
from tests.support.paused_searches import ALL, NS, Paused, found, put, scope_of

pytestmark = pytest.mark.exhaustive

LARGE = "x" * 70_000
PROTOCOLS = pytest.mark.parametrize("naive", [False, True], ids=["exact", "naive"])


@PROTOCOLS
def test_a_reply_that_comes_after_a_newer_one_changes_nothing(stage, monkeypatch, naive):
    if naive:

        def apply(self, identity, delta):
            self.type_names = delta.type_names
            self.put(delta.gone, delta.rows, max(delta.number, self.snapshot.version))
            return self.snapshot

        monkeypatch.setattr(Scope, "apply", apply)
    at = stage()
    put(at, "a", 0)
    assert found(at) == {"a": 0}
    put(at, "a", 1)
    older = Paused(at, ALL).execute()
    put(at, "a", None)
    put(at, "b", 2)
    assert found(at) == {"b": 2}
    right = older.finish() in ({"a": 1}, {}, {"b": 2}) and found(at) == {"b": 2}
    assert right is not naive


def test_replies_that_overlap_are_asked_for_again(stage):
    at = stage()
    put(at, "a", 0)
    found(at)
    put(at, "b", 1)
    shorter = Paused(at, ALL).execute()
    put(at, "c", 2)
    longer = Paused(at, ALL).execute()
    shorter.deliver()
    longer.deliver()
    assert not longer.is_done
    assert shorter.finish() == {"a": 0, "b": 1}
    put(at, "b", None)
    assert longer.finish() == {"a": 0, "c": 2}


@PROTOCOLS
def test_a_load_beside_another_search_is_not_taken_for_a_state(stage, monkeypatch, naive):
    if naive:
        monkeypatch.setattr(Scope, "load", property(lambda scope: 0, lambda scope, load: None), raising=False)
    monkeypatch.setattr(near_cache, "WINDOW", 1)
    at = stage()
    put(at, "goes", 0)
    put(at, "moves", 0)
    one, two = Paused(at, ALL).execute().deliver(), Paused(at, ALL).execute().deliver()
    one.until(scripts.SYNC).execute()
    two.until(scripts.SCAN).execute().deliver()
    put(at, "goes", None)
    put(at, "moves", 1)
    two.until(scripts.SYNC)
    right = one.finish() in ({"goes": 0, "moves": 0}, {"moves": 0}, {"moves": 1})
    assert right is not naive
    assert two.finish() == {"moves": 1}


def test_an_older_answer_does_not_pass_a_load_off_as_settled(stage, monkeypatch):
    monkeypatch.setattr(near_cache, "WINDOW", 1)
    at = stage()
    put(at, "goes", 0)
    put(at, "moves", 0)
    found(at)
    older = Paused(at, ALL).execute()
    scope_of(at).forget()
    loading = Paused(at, ALL).until(scripts.SCAN).execute().deliver()
    put(at, "goes", None)
    put(at, "moves", 1)
    loading.until(scripts.SYNC)
    assert older.finish() in ({"goes": 0, "moves": 0}, {"moves": 0}, {"moves": 1})
    assert loading.finish() == {"moves": 1}


@PROTOCOLS
def test_a_large_value_that_is_put_again_under_a_filter_never_vanishes(stage, monkeypatch, naive):
    if naive:
        ask = search_operation.ask_rows

        def drop(*args):
            rows = yield from ask(*args)
            return [row if isinstance(row, list) else [b"", b'{"v": -1}', None, None] for row in rows]

        monkeypatch.setattr(search_operation, "ask_rows", drop)
    at = stage()
    put(at, "large", 0, text=LARGE)
    put(at, "small", 0)
    search = Paused(at, ALL).until(scripts.GET)
    put(at, "large", 1, text=LARGE)
    assert (search.finish() == {"large": 1, "small": 0}) is not naive


@PROTOCOLS
def test_what_a_filter_said_of_a_large_value_outlives_another_search(stage, monkeypatch, naive):
    if naive:
        matching = search_operation.matching_slots

        def remembered(frame, op, matches, synced):
            yield from matching(frame, op, matches, synced)
            return synced.scope.mask(synced.snapshot, op.filter_name, matches)[0]

        monkeypatch.setattr(search_operation, "matching_slots", remembered)
    at = stage()
    put(at, "large", 0, text=LARGE)
    at.store.batch([PutOp(NS, f"k{n}", {"v": -1}) for n in range(100)])
    search = Paused(at, ALL).until(scripts.GET).execute()
    before = scope_of(at).snapshot.table
    at.store.batch([PutOp(NS, f"k{n}", None) for n in range(60)])
    Paused(at, ALL).finish()
    assert scope_of(at).snapshot.table is not before
    assert (search.finish() == {"large": 0}) is not naive


@PROTOCOLS
@pytest.mark.parametrize("refresh", [False, True])
def test_a_score_and_a_large_value_are_of_one_version(stage, monkeypatch, naive, refresh):
    if naive:
        get = scripts.get
        monkeypatch.setattr(
            scripts, "get", lambda frame, rows, *more: get(frame, [(*row[:3], "") for row in rows], *more)
        )
    at = stage(index={"dims": 8, "embed": WordEmbeddings(8), "fields": ["text"]})
    put(at, "large", 0, text="alpha", rest=LARGE, ttl=10)
    put(at, "other", 5, text="gamma", ttl=10)
    op = SearchOp(NS, query="alpha", limit=2, refresh_ttl=refresh)
    search = Paused(at, op).until(scripts.GET)
    put(at, "large", 1, text="beta", rest=LARGE, ttl=10)
    search.finish()
    score = {item.value["v"]: item.score for item in search.items}
    now = {item.value["v"]: item.score for item in at.store.batch([op])[0]}
    assert now[1] < 0.99
    assert (score == now) is not naive


@PROTOCOLS
def test_a_capped_sync_keeps_its_base_until_its_last_page(stage, monkeypatch, naive):
    if naive:
        sync = scripts.sync
        monkeypatch.setattr(
            scripts,
            "sync",
            lambda frame, prefix, since, most, page_from, **more: sync(
                frame, prefix, page_from, most, page_from, **more
            ),
        )
    monkeypatch.setattr(near_cache, "CHANGES", 2)
    at = stage()
    names = [(*NS, f"n{n}") for n in range(6)]
    for ns in names:
        put(at, "first", 0, ns)
        put(at, "second", 0, ns)
    found(at)
    # Each namespace changes twice, the second time in another order.
    for n, ns in enumerate(names):
        put(at, "first", n + 1, ns)
    for ns in reversed(names):
        put(at, "second", 9, ns)
    values = [(item.namespace[-1], item.key, item.value["v"]) for item in at.store.batch([ALL])[0]]
    expected = {(ns[-1], "first", n + 1) for n, ns in enumerate(names)} | {(ns[-1], "second", 9) for ns in names}
    assert (set(values) == expected) is not naive


def test_a_namespace_that_changes_or_empties_between_two_pages_is_told_as_it_is_at_the_last(stage, monkeypatch):
    monkeypatch.setattr(near_cache, "CHANGES", 2)
    at = stage()
    names = [(*NS, f"n{n}") for n in range(4)]
    for n, ns in enumerate(names):
        put(at, f"k{n}", 0, ns)
    found(at)
    for n, ns in enumerate(names):
        put(at, f"k{n}", 1, ns)
    search = Paused(at, ALL).execute().deliver()
    assert not search.is_done
    put(at, "k0", None, names[0])
    put(at, "k1", 2, names[1])
    assert search.finish() == {"k1": 2, "k2": 1, "k3": 1}
    assert found(at) == {"k1": 2, "k2": 1, "k3": 1}


@PROTOCOLS
def test_a_late_answer_knows_the_memory_types_of_the_snapshot_it_gets(stage, monkeypatch, naive):
    if naive:
        apply = Scope.apply

        def own(self, identity, delta):
            snapshot = apply(self, identity, delta)
            return snapshot and replace(snapshot, type_names=delta.type_names)

        monkeypatch.setattr(Scope, "apply", own)
    at = stage()
    put(at, "a", 0)
    found(at)
    older = Paused(at, ALL).execute()
    put(at, "b", 1, **{"$memory": {"memory_type": "episodic"}})
    assert found(at) == {"a": 0, "b": 1}
    if naive:
        with pytest.raises(IndexError):
            older.finish()
    else:
        assert older.finish() in ({"a": 0}, {"a": 0, "b": 1})


def test_a_search_that_ranks_is_not_disturbed_by_a_type_that_comes_meanwhile(stage):
    at = stage()
    put(at, "large", 0, text=LARGE)
    search = Paused(at, ALL).until(scripts.GET).execute()
    put(at, "b", 1, **{"$memory": {"memory_type": "episodic"}})
    Paused(at, ALL).finish()
    assert search.finish() == {"large": 0}


def test_a_delta_that_holds_a_corrupt_row_changes_nothing(stage):
    at = stage(index={"dims": 8, "embed": WordEmbeddings(8), "fields": ["text"]})
    put(at, "gone", 0, text="alpha")
    put(at, "k", 0, text="alpha")
    assert found(at) == {"gone": 0, "k": 0}
    put(at, "gone", None)
    put(at, "k", 1, text="beta")
    at.client.hset(at.interleaver.prefix + b"e:notes\0\1", "k", b"abc")
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            found(at)
    put(at, "k", 2, text="gamma")
    assert found(at) == {"k": 2}
