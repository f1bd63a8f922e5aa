"""What ends the life of what is cached, and races with it, each shown to go wrong without what prevents it.

A test runs twice: with the protocol as it is, and with a naive one put in its place, where the same check must fail.
"""

from __future__ import annotations

import itertools

import pytest
import redis
from langgraph.store.base import PutOp, SearchOp
from redis.backoff import NoBackoff
from redis.retry import Retry

from langgraph_forgetful_store.operations import search as operations_search
from langgraph_forgetful_store.search import near_cache
from langgraph_forgetful_store.search.cached_prefix import Identity
from langgraph_forgetful_store.search.near_cache import ask_dead
from langgraph_forgetful_store.testing.interleaving import Interleaver
from tests.support.lossy_proxy import Proxy
from tests.support.paused_searches import ALL, NS, Paused, found, put, scope_of

pytestmark = pytest.mark.exhaustive

LARGE = "x" * 70_000
PROTOCOLS = pytest.mark.parametrize("naive", [False, True], ids=["exact", "naive"])


@PROTOCOLS
def test_a_failover_that_overtook_the_number_is_noticed(stage, launch, open_store, monkeypatch, naive):
    if naive:
        monkeypatch.setattr(Identity, "__eq__", lambda self, other: isinstance(other, Identity))
    at = stage()
    put(at, "a", 0)
    found(at)
    replica = launch("valkey-9.1")
    primary = at.maker.server
    with replica.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        while client.info("replication")["master_link_status"] != "up" or client.dbsize() == 0:
            pass
        client.execute_command("REPLICAOF", "NO", "ONE")
        put(at, "lost", 1)
        assert found(at) == {"a": 0, "lost": 1}
        # From here on others write to the promoted replica, and then this store is led to it too.
        promoted = open_store(replica.url, key_prefix=at.maker.key_prefix)
        for n in range(3):
            promoted.put(NS, f"n{n}", {"v": n})
        at.interleaver = Interleaver(client, at.interleaver.prefix)
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
def test_more_deletions_than_the_log_keeps_lead_to_a_load(stage, naive):
    at = stage()
    at.store.batch([PutOp(NS, f"k{n}", {"v": n}) for n in range(1500)])
    found(at)
    at.store.batch([PutOp(NS, f"k{n}", None) for n in range(1100)])
    if naive:
        at.client.hdel(at.interleaver.prefix + b"flr", b"notes\0\1")
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
    assert not at.client.zscore(at.interleaver.prefix + b"nsl", b"notes\0\1")
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
    other = at.maker(clock=clock)
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

        def drop(frame, synced):
            dead, _ = yield from ask_dead(frame, synced)
            return dead, True

        monkeypatch.setattr(operations_search, "ask_dead", drop)
    at = stage(clock=clock)
    other = at.maker(clock=clock)
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


def test_a_search_during_which_the_server_forgets_its_scripts_again_and_again_is_exact(stage):
    at = stage()
    put(at, "a", 0)
    put(at, "large", 0, text="x" * 70_000)
    for turn in range(1, 4):
        search = Paused(at, ALL)
        while not search.is_done:
            at.client.script_flush()
            search.execute()
            at.client.script_flush()
            search.deliver()
        assert search.finish() == found(at)
        put(at, f"b{turn}", turn)
        assert found(at) == {"a": 0, "large": 0} | {f"b{n}": n for n in range(1, turn + 1)}
