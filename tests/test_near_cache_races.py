"""Races of searches that share one near-cache, each by its name, and each shown to go wrong without what prevents it.

A test runs twice: with the protocol as it is, and with a naive one put in its place, where the same check must fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis
from langgraph.store.base import PutOp, SearchOp
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.retry import Retry

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.errors import CorruptRecord
from langgraph_forgetful_store.operations import search as search_operation
from langgraph_forgetful_store.search import near_cache
from langgraph_forgetful_store.search.near_cache import NearCache, Synced
from langgraph_forgetful_store.search.scope import Identity, Scope
from langgraph_forgetful_store.testing import Interleaver, WordEmbeddings
from tests.proxy import Proxy
from tests.test_interleavings import Stage

NS = ("notes",)
ALL = SearchOp(NS, filter={"v": {"$gte": 0}}, limit=1000)
LARGE = "x" * 70_000
PROTOCOLS = pytest.mark.parametrize("naive", [False, True], ids=["exact", "naive"])


class Paused:
    """A search that goes on only when it is told to, one pipeline at a time."""

    def __init__(self, at: Stage, op: SearchOp) -> None:
        self._at = at
        self._steps = at.interleaver._pipelines(at.batch(op))
        self._replies: list[Any] = []
        self.is_done = False
        self.items: list[Any] = []
        self.commands = next(self._steps)

    def execute(self) -> Paused:
        """Let the server execute the next pipeline."""
        for command in self.commands:
            try:
                self._replies.append(self._at.client.execute_command(*command))
            except ResponseError as error:
                self._replies.append(error)
        return self

    def deliver(self) -> Paused:
        """Deliver its replies."""
        replies, self._replies = self._replies, []
        try:
            self.commands = self._steps.send(replies)
        except StopIteration as stop:
            self.is_done, self.items = True, stop.value[0]
        return self

    def until(self, script: scripts.Script) -> Paused:
        """Go on until the next pipeline calls a script."""
        while not any(script.sha in command for command in self.commands):
            self.execute().deliver()
            assert not self.is_done
        return self

    def finish(self) -> dict[str, int]:
        """Go on to the end; returns the keys and what their values hold under ``v``."""
        if self._replies:
            self.deliver()
        while not self.is_done:
            self.execute().deliver()
        return {item.key: item.value["v"] for item in self.items}


@pytest.fixture
def stage(make_any_store) -> Iterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def make(**settings: Any) -> Stage:
        made.append(Stage(make_any_store, **settings))
        return made[-1]

    yield make
    for one in made:
        one.client.close()


def put(at: Stage, key: str, v: int | None, ns: tuple[str, ...] = NS, **more: Any) -> None:
    ttl = {"ttl": more.pop("ttl")} if "ttl" in more else {}
    at.store.batch([PutOp(ns, key, None if v is None else {"v": v, **more}, **ttl)])


def found(at: Stage, op: SearchOp = ALL) -> dict[str, int]:
    return {item.key: item.value["v"] for item in at.store.batch([op])[0]}


def scope_of(at: Stage) -> Scope:
    (scope,) = at.context.cache._scopes.values()
    return scope


@PROTOCOLS
def test_a_reply_that_comes_after_a_newer_one_changes_nothing(stage, monkeypatch, naive):
    if naive:

        def apply(self, identity, delta):
            self._type_names = delta.type_names
            self._put(delta.gone, delta.rows, max(delta.number, self.snapshot.version))
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
        monkeypatch.setattr(Scope, "_load", property(lambda scope: 0, lambda scope, load: None), raising=False)
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
        matching = search_operation._matching

        def remembered(frame, op, matches, synced):
            yield from matching(frame, op, matches, synced)
            return synced.scope.mask(synced.snapshot, op.filter_name, matches)[0]

        monkeypatch.setattr(search_operation, "_matching", remembered)
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
def test_a_failover_that_overtook_the_number_is_noticed(stage, launch, open_store, monkeypatch, naive):
    if naive:
        monkeypatch.setattr(Identity, "__eq__", lambda self, other: isinstance(other, Identity))
    at = stage()
    put(at, "a", 0)
    found(at)
    replica = launch("valkey-9.1")
    primary = at._maker.server
    with replica.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        while client.info("replication")["master_link_status"] != "up" or client.dbsize() == 0:
            pass
        client.execute_command("REPLICAOF", "NO", "ONE")
        put(at, "lost", 1)
        assert found(at) == {"a": 0, "lost": 1}
        # From here on others write to the promoted replica, and then this store is led to it too.
        promoted = open_store(replica.url, key_prefix=at._maker.key_prefix)
        for n in range(3):
            promoted.put(NS, f"n{n}", {"v": n})
        at.interleaver = Interleaver(client, at.interleaver._prefix)
        at.client, own = client, at.client
        right = Paused(at, ALL).finish() == {"a": 0, "n0": 0, "n1": 1, "n2": 2}
        at.client = own
    assert right is not naive


@PROTOCOLS
def test_a_database_that_was_flushed_and_refilled_past_the_number_is_loaded_again(stage, monkeypatch, naive):
    if naive:

        def same_server(self, other):
            return isinstance(other, Identity) and self.replication == other.replication

        monkeypatch.setattr(Identity, "__eq__", same_server)
    at = stage()
    put(at, "old", 0)
    put(at, "older", 1)
    found(at)
    at.client.flushdb()
    for n in range(4):
        put(at, f"n{n}", n)
    assert (found(at) == {f"n{n}": n for n in range(4)}) is not naive


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
def test_more_deletions_than_the_log_keeps_lead_to_a_load(stage, naive):
    at = stage()
    at.store.batch([PutOp(NS, f"k{n}", {"v": n}) for n in range(1500)])
    found(at)
    at.store.batch([PutOp(NS, f"k{n}", None) for n in range(1100)])
    if naive:
        at.client.hdel(at.interleaver._prefix + b"flr", b"notes\0\1")
    right = found(at, SearchOp(NS, filter={"v": {"$lt": 1100}}, limit=2000)) == {}
    assert right is not naive
    assert scope_of(at).base.load == (1 if naive else 2)


def test_what_is_cached_of_a_namespace_goes_when_its_tombstones_are_pruned(stage):
    at = stage()
    put(at, "k", 0)
    put(at, "stays", 1, ("other",))
    assert found(at) == {"k": 0}
    assert found(at, ALL._replace(namespace_prefix=())) == {"k": 0, "stays": 1}
    put(at, "k", None)
    names = [("dying", f"n{n}") for n in range(1100)]
    at.store.batch([PutOp(ns, "k", {"v": 0}) for ns in names])
    for part in (
        itertools.batched(names, 10) if hasattr(itertools, "batched") else zip(*[iter(names)] * 10, strict=True)
    ):
        at.store.batch([PutOp(ns, "k", None) for ns in part])
    assert not at.client.zscore(at.interleaver._prefix + b"nsl", b"notes\0\1")
    assert found(at, ALL._replace(namespace_prefix=())) == {"stays": 1}
    assert found(at) == {}


@PROTOCOLS
def test_a_row_that_others_have_refreshed_outlives_the_expiry_that_is_cached(stage, clock, monkeypatch, naive):
    if naive:

        def nothing(frame, snapshot, slots, flags):
            return [None for _ in slots]
            yield

        monkeypatch.setattr(near_cache, "ask_rows", nothing)
    at = stage(clock=clock)
    other = at._maker(clock=clock)
    put(at, "k", 0, ttl=1)
    assert found(at) == {"k": 0}
    clock.advance(ms=50_000)
    other.get(NS, "k", refresh_ttl=True)
    clock.advance(ms=30_000)
    assert (found(at, ALL._replace(refresh_ttl=False)) == {"k": 0}) is not naive
    clock.advance(ms=30_001)
    assert found(at) == {}


@PROTOCOLS
def test_a_row_that_seems_expired_and_is_put_again_never_vanishes(stage, clock, monkeypatch, naive):
    if naive:

        def drop(self, frame, scope, snapshot, answer):
            live = snapshot.live & (snapshot.columns["expires_at"] > answer.now)
            yield from self._ask_dead(frame, scope, snapshot, (snapshot.live & ~live).nonzero()[0].tolist())
            return Synced(scope, snapshot, live, snapshot.type_names, answer.now)

        monkeypatch.setattr(NearCache, "_without_expired", drop)
    at = stage(clock=clock)
    other = at._maker(clock=clock)
    put(at, "k", 0, ttl=1)
    assert found(at, ALL._replace(refresh_ttl=False)) == {"k": 0}
    clock.advance(ms=50_000)
    other.get(NS, "k", refresh_ttl=True)
    clock.advance(ms=30_000)
    search = Paused(at, ALL).execute().deliver()
    put(at, "k", 1, ttl=1)
    assert (search.finish() in ({"k": 0}, {"k": 1})) is not naive


def test_an_expired_row_comes_back_when_it_is_put_again(stage, clock):
    at = stage(clock=clock)
    put(at, "k", 0, ttl=1)
    put(at, "stays", 0)
    assert found(at) == {"k": 0, "stays": 0}
    clock.advance(ms=60_000)
    assert found(at) == {"stays": 0}
    put(at, "k", 1, ttl=1)
    assert found(at) == {"k": 1, "stays": 0}


def test_a_put_that_shortens_an_expiry_is_heard(stage, clock):
    at = stage(clock=clock)
    put(at, "k", 0, ttl=10)
    assert found(at) == {"k": 0}
    put(at, "k", 0, ttl=0.5)
    assert found(at, ALL._replace(refresh_ttl=False)) == {"k": 0}
    clock.advance(ms=30_000)
    assert found(at) == {}


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
    at.client.hset(at.interleaver._prefix + b"e:notes\0\1", "k", b"abc")
    for _ in range(2):
        with pytest.raises(CorruptRecord):
            found(at)
    put(at, "k", 2, text="gamma")
    assert found(at) == {"k": 2}


@pytest.mark.parametrize("what", ["reply", "half", "request"])
def test_a_search_whose_reply_is_lost_and_that_is_sent_again_is_exact(make_any_store, open_store, what):
    writer = make_any_store()
    proxy = Proxy(make_any_store.server.socket_path)
    try:
        client = redis.Redis(unix_socket_path=proxy.address, retry=Retry(NoBackoff(), 3))
        store = open_store(client, key_prefix=make_any_store.key_prefix, scoring="similarity")
        writer.put(NS, "a", {"v": 0})
        search = {"filter": {"v": {"$gte": 0}}}
        assert [item.key for item in store.search(NS, **search)] == ["a"]
        writer.put(NS, "b", {"v": 1})
        # What the lost reply said is put again before the search asks once more.
        proxy.lose(what, then=lambda: (writer.put(NS, "b", {"v": 2}), writer.delete(NS, "a")))
        for _ in range(2):
            assert [(item.key, item.value["v"]) for item in store.search(NS, **search)] == [("b", 2)]
    finally:
        client.close()
        proxy.close()
