"""A server that takes no writes: reads answer without refreshing or counting; a replica is read where it is wanted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp
from redis.exceptions import ReadOnlyError, ResponseError

from langgraph_forgetful_store import ConfigurationError
from langgraph_forgetful_store.backend import refusals
from langgraph_forgetful_store.backend.keys import store_prefix
from langgraph_forgetful_store.testing.internals import session_of
from tests.support.real_servers import PLAIN, wait_until
from tests.support.refused_input import INDEX, NS, dump, refuses

TTL = {"default_ttl": 10}
KEYS = {"ttl", "other", "plain"}
# Every read that would refresh a TTL or count an access, and the keys that it finds.
READS: dict[str, Callable[[Any], set[str]]] = {
    "get": lambda side: {side.get(NS, "ttl").key, side.get(NS, "other").key, side.get(NS, "plain").key},
    "gets": lambda side: {item.key for item in side.batch([GetOp(NS, key) for key in KEYS])},
    "page": lambda side: {item.key for item in side.search(NS)},
    "filter": lambda side: {item.key for item in side.search((), filter={"n": 1})},
    "query": lambda side: {item.key for item in side.search(NS, query="green tea")},
    "recall": lambda side: {item.key for item in side.recall(NS, "tea", status=["active", "archived"])},
    "history": lambda side: {item.key for key in KEYS for item in side.history(NS, key)},
    "gets and searches": lambda side: {item.key for item in side.batch([GetOp(NS, "ttl"), SearchOp(NS)])[1]},
}


def fill(store: Any) -> None:
    store.batch([PutOp(NS, key, {"text": f"{key} tea", "n": 1}, ttl=10) for key in ("ttl", "other")])
    store.put(NS, "plain", {"text": "green tea", "n": 1}, ttl=None)


class Misconfigured:
    """A server that can't save its data, and so takes no writes, and can again when told to."""

    def __init__(self, server: Any) -> None:
        self.server, self.client = server, server.client()
        (server.folder / "dump.rdb" / "in the way").mkdir(parents=True)
        self.client.config_set("save", "3600 1000000")
        self._save("err")

    def _save(self, status: str) -> None:
        self.client.bgsave()
        wait_until(lambda: not self.client.info("persistence")["rdb_bgsave_in_progress"])
        assert self.client.info("persistence")["rdb_last_bgsave_status"] == status

    def mend(self) -> None:
        (self.server.folder / "dump.rdb" / "in the way").rmdir()
        (self.server.folder / "dump.rdb").rmdir()
        self._save("ok")


@pytest.fixture
def too_few_replicas(launch):
    """A server that wants a replica for each write and has none, once it is told to."""
    server = launch("valkey-9.1")
    return server, lambda client: client.config_set("min-replicas-to-write", 1)


def expiries(store: Any) -> dict[str, Any]:
    return {item.key: item.memory.expires_at for item in store.search(NS, refresh_ttl=False)}


@pytest.mark.parametrize("cache", [0, 2**20], ids=["scan", "near-cache"])
@pytest.mark.parametrize("name", PLAIN)
def test_reads_answer_where_the_server_can_not_save(launch, open_store, face, clock, caplog, monkeypatch, name, cache):
    """Semantics 50."""
    server = launch(name)
    store = open_store(server.url, index=INDEX, ttl=TTL, clock=clock, cache_bytes=cache)
    fill(store)
    before = expiries(store)
    clock.advance(minutes=5)
    broken = Misconfigured(server)
    side = face(store)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            for read, call in READS.items():
                assert call(side) == KEYS, read
    assert len([one for one in caplog.records if "takes no writes" in one.message]) == 1
    for write in (lambda: side.put(NS, "new", {}), lambda: side.delete(NS, "ttl"), lambda: side.pin(NS, "ttl")):
        with pytest.raises(ResponseError, match="MISCONF"):
            write()
    assert expiries(store) == before
    assert {item.memory.access_count for item in store.search(NS, refresh_ttl=False)} <= {0, 1}
    broken.mend()
    monkeypatch.setattr(refusals, "TRY_AGAIN_SECONDS", 0.0)
    session_of(store).access.refusals.until = -1.0
    side.get(NS, "ttl")
    assert expiries(store)["ttl"] > before["ttl"]
    side.flush()
    assert open_store(server.url, clock=clock).get(NS, "ttl").memory.access_count in (1, 2)
    broken.client.close()


def test_what_is_read_while_the_server_refuses_is_not_counted(launch, open_store, face, clock):
    server = launch("valkey-9.1")
    side = face(open_store(server.url, clock=clock))
    fill(side)
    side.get(NS, "plain")
    clock.advance(minutes=1)
    broken = Misconfigured(server)
    # The first is refused its refresh, and so what follows is known to be of no use.
    for _ in range(5):
        side.get(NS, "ttl")
        side.get(NS, "plain")
    expected = {"plain": 1, "other": 0, "ttl": 0}
    assert {item.key: item.memory.access_count for item in side.search(NS)} == expected
    # What was counted before is kept.
    with pytest.raises(ResponseError, match="MISCONF"):
        side.flush()
    broken.mend()
    side.flush()
    assert {item.key: item.memory.access_count for item in open_store(server.url, clock=clock).search(NS)} == expected
    broken.client.close()


@pytest.mark.parametrize("name", PLAIN)
def test_reads_answer_where_replicas_are_missing(launch, open_store, face, clock, name):
    server = launch(name)
    side = face(open_store(server.url, index=INDEX, ttl=TTL, clock=clock))
    fill(side)
    with server.client() as client:
        client.config_set("min-replicas-to-write", 1)
        for read, call in READS.items():
            assert call(side) == KEYS, read
        with pytest.raises(ResponseError, match="NOREPLICAS"):
            side.put(NS, "new", {})
        client.config_set("min-replicas-to-write", 0)
    side.put(NS, "new", {})


class Replicated:
    """A primary with a few memories, and its replica."""

    def __init__(self, launch: Any, name: str, clock: Any) -> None:
        self.primary = launch(name, "--repl-diskless-sync-delay", "0")
        self.replica = launch(name, "--replicaof", "127.0.0.1", str(self.primary.port))
        self.clock = clock

    def settle(self) -> None:
        seq = store_prefix("forgetful") + b"seq"
        with self.primary.client() as up, self.replica.client() as down:
            wait_until(lambda: down.info("replication").get("master_link_status") == "up")
            wait_until(lambda: down.get(seq) == up.get(seq))


@pytest.mark.parametrize("cache", [0, 2**20], ids=["scan", "near-cache"])
@pytest.mark.parametrize("name", PLAIN)
def test_a_replica_is_read_where_that_is_wanted(launch, open_store, face, clock, caplog, name, cache):
    """Semantics 50: by every read, warm and cold, and what is written to the primary comes through."""
    pair = Replicated(launch, name, clock)
    writer = open_store(pair.primary.url, index=INDEX, ttl=TTL, clock=clock)
    fill(writer)
    pair.settle()
    clock.advance(minutes=5)
    store = open_store(pair.replica.url, index=INDEX, ttl=TTL, clock=clock, cache_bytes=cache, read_from_replica=True)
    side = face(store)
    with caplog.at_level(logging.WARNING), pair.replica.client() as client:
        before = {key: client.dump(key) for key in client.scan_iter()}
        for _ in range(2):
            for read, call in READS.items():
                assert call(side) == KEYS, read
        side.flush()
        for write in (lambda: side.put(NS, "new", {}), lambda: side.archive(NS, "ttl"), lambda: side.delete(NS, "ttl")):
            with pytest.raises(ReadOnlyError):
                write()
        assert {key: client.dump(key) for key in client.scan_iter()} == before
    assert len([one for one in caplog.records if "is a replica" in one.message]) == 1
    assert {item.memory.access_count for item in side.search(NS)} == {0}
    writer.put(NS, "plain", {"text": "white tea"})
    writer.delete(NS, "other")
    pair.settle()
    assert {item.key: item.value["text"] for item in side.search(NS, query="tea")} == {
        "ttl": "ttl tea",
        "plain": "white tea",
    }
    # It is read still when it has become the primary, and takes writes then.
    with pair.replica.client() as client:
        client.replicaof("NO", "ONE")
    assert side.get(NS, "ttl").key == "ttl"
    side.put(NS, "new", {"text": "x"})
    assert side.get(NS, "new").value == {"text": "x"}


@pytest.mark.parametrize("name", ["redis-6.2", "valkey-9.1"])
def test_a_replica_s_refusal_is_an_error_otherwise_after_one_new_connection(launch, open_store, face, clock, name):
    pair = Replicated(launch, name, clock)
    writer = open_store(pair.primary.url, ttl=TTL, clock=clock)
    fill(writer)
    pair.settle()
    side = face(open_store(pair.replica.url, ttl=TTL, clock=clock))
    assert side.get(NS, "plain").key == "plain"
    clock.advance(minutes=1)
    with pair.replica.client() as client:
        for call in (lambda: side.get(NS, "ttl"), lambda: side.search(NS), lambda: side.put(NS, "k", {})):
            before = client.info("stats")["total_connections_received"]
            with pytest.raises(ReadOnlyError):
                call()
            assert client.info("stats")["total_connections_received"] - before <= 2


@pytest.mark.parametrize("write", [True, False], ids=["write", "refreshing read"])
def test_a_name_that_stands_for_another_server_by_now_is_asked_again(launch, open_store, face, clock, write):
    """Semantics 50: as after a failover behind a DNS name, or a port that is forwarded."""
    pair = Replicated(launch, "valkey-9.1", clock)
    side = face(open_store(pair.primary.url, ttl=TTL, clock=clock))
    fill(side)
    pair.settle()
    clock.advance(minutes=1)
    with pair.primary.client() as old, pair.replica.client() as new:
        new.replicaof("NO", "ONE")
        old.replicaof("127.0.0.1", pair.replica.port)
        # The socket's path leads to the new primary; the connections that are open, to the old one.
        pair.primary_path = pair.primary.folder / "s"
        pair.primary_path.unlink()
        pair.primary_path.symlink_to(pair.replica.socket_path)
        if write:
            side.put(NS, "k", {"n": 2})
            assert side.get(NS, "k").value == {"n": 2}
        else:
            assert side.get(NS, "ttl").key == "ttl"


def test_the_setting_is_a_bool(make_any_store):
    for bad in (1, "yes", None):
        said = ("read_from_replica must be True or False", repr(bad))
        refuses(lambda bad=bad: make_any_store(read_from_replica=bad), ConfigurationError, *said)
    assert dump(make_any_store) == {}
