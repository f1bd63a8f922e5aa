"""A server that is a replica, full, evicts, or loses its scripts or data while it is used."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp
from redis.exceptions import OutOfMemoryError, ReadOnlyError

from langgraph_forgetful_store.backend.keys import store_prefix
from langgraph_forgetful_store.testing import check_keys
from tests.refusals import EVERY_OP, INDEX, NS
from tests.servers import PLAIN

Launch = Callable[..., Any]
FORGETFUL = store_prefix("forgetful")


def dump(client: Any) -> dict[bytes, bytes]:
    return {key: client.dump(key) for key in client.scan_iter(count=1000)}


def wait_until(what: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.mark.parametrize("name", PLAIN)
def test_a_replica_is_read_but_not_written(launch: Launch, open_store: Any, face: Any, clock: Any, name: str) -> None:
    primary = launch(name, "--repl-diskless-sync-delay", "0")
    replica = launch(name, "--replicaof", "127.0.0.1", str(primary.port))
    writer = face(open_store(primary.url, index=INDEX, clock=clock))
    writer.put(NS, "plain", {"text": "green tea"})
    writer.put(NS, "expired", {"text": "tea"}, ttl=1)
    writer.put(NS, "ttl", {"text": "black tea"}, ttl=10)
    clock.advance(minutes=2)
    with primary.client() as up, replica.client() as down:
        wait_until(lambda: down.info("replication").get("master_link_status") == "up")
        wait_until(lambda: down.get(FORGETFUL + b"seq") == up.get(FORGETFUL + b"seq"))
        before = dump(down)
        reader = face(open_store(replica.url, index=INDEX, clock=clock))
        assert reader.get(NS, "plain").value == {"text": "green tea"}
        assert reader.get(NS, "ttl", refresh_ttl=False).value == {"text": "black tea"}
        assert reader.get(NS, "expired") is None
        assert [item.key for item in reader.search(NS, refresh_ttl=False)] == ["ttl", "plain"]
        assert [item.key for item in reader.search(NS, query="green", refresh_ttl=False)] == ["plain", "ttl"]
        assert reader.list_namespaces() == [NS]
        for call in (
            lambda: reader.put(NS, "new", {}),
            lambda: reader.put(NS, "plain", {}),
            lambda: reader.delete(NS, "plain"),
            lambda: reader.get(NS, "ttl"),
            lambda: reader.search(NS),
            lambda: reader.search(NS, query="tea"),
            lambda: reader.sweep_ttl(),
        ):
            with pytest.raises(ReadOnlyError):
                call()
        assert dump(down) == before


BIG = {"text": "x" * 5000}


@pytest.mark.parametrize("name", PLAIN)
def test_a_full_server_refuses_writes_and_still_reads_and_forgets(
    launch: Launch, open_store: Any, face: Any, clock: Any, name: str
) -> None:
    server = launch(name, "--maxmemory-policy", "noeviction")
    side = face(open_store(server.url, index=INDEX, clock=clock))
    side.batch([PutOp(NS, f"expired{i}", {"n": i}, ttl=1) for i in range(20)])
    side.batch([PutOp(NS, f"ttl{i}", {"text": "green tea"}, ttl=10) for i in range(20)])
    clock.advance(minutes=2)

    def put_until_it_raises() -> None:
        for number in itertools.count():
            side.put(("filler",), f"k{number}", BIG)

    with server.client() as client:

        def leave(room: int) -> None:
            client.config_set("maxmemory", client.info("memory")["used_memory"] + room)

        leave(1_000_000)
        with pytest.raises(OutOfMemoryError) as full:
            put_until_it_raises()
        assert "writes were made" not in str(full.value)
        rows = check_keys(client)["rows"]
        assert rows > 60
        # Calls of 500 rows, of which the first fit and the last do not.
        leave(450_000)
        with pytest.raises(OutOfMemoryError, match=r"\(\d+ of the batch's 3000 writes were made\)") as partly:
            side.batch([PutOp(("more",), f"k{i}", {"n": i}, index=False) for i in range(3000)])
        made = int(str(partly.value).rpartition("(")[2].split()[0])
        assert check_keys(client)["rows"] == rows + made
        assert made in {500, 1000, 1500, 2000}
        # Each call that failed wrote nothing; and what frees or only reads works.
        leave(-100_000)
        before = dump(client)
        with pytest.raises(OutOfMemoryError):
            side.put(("filler",), "k", BIG)
        assert dump(client) == before
        assert side.get(NS, "ttl0").memory.expires_at.timestamp() * 1000 == clock.now + 10 * 60_000
        assert [item.key for item in side.search(NS, limit=2)] == ["ttl19", "ttl18"]
        assert len(side.search(NS, query="green tea")) == 10
        assert side.list_namespaces() == [("filler",), ("more",), NS]
        assert side.sweep_ttl() == 20
        side.delete(NS, "ttl0")
        assert side.get(NS, "ttl0") is None
        side.batch([PutOp(("filler",), f"k{i}", None) for i in range(rows)])
        side.put(("filler",), "k", BIG)
        assert side.get(("filler",), "k").value == BIG
        check_keys(client)


def test_a_script_cache_that_is_emptied_all_the_time_is_no_hindrance(make_any_store: Any) -> None:
    store = make_any_store(index=INDEX)
    done = threading.Event()

    def flush() -> None:
        with make_any_store.server.client() as client:
            while not done.is_set():
                client.script_flush()

    def work(thread: int) -> None:
        namespace = ("t", str(thread))
        for turn in range(12):
            # Three calls of one script, and another.
            ops = [PutOp(namespace, f"k{i}", {"turn": turn}, index=False) for i in range(1100)]
            store.batch([GetOp(namespace, "k0"), *ops, PutOp(namespace, f"gone{turn}", None)])
            store.put(namespace, f"gone{turn + 1}", {"text": "tea"}, ttl=5)
            assert store.get(namespace, "k1099").memory.version == turn + 1
            assert store.search(namespace, query="tea", limit=1)[0].key == f"gone{turn + 1}"

    with ThreadPoolExecutor(4) as pool:
        flusher = pool.submit(flush)
        try:
            list(pool.map(work, range(3)))
        finally:
            done.set()
        flusher.result()
    rows = make_any_store().search(("t",), limit=5000, filter={"turn": 11})
    assert {item.memory.version for item in rows} == {12}
    assert make_any_store.keys()["rows"] == 3 * 1101


@pytest.fixture
def database(any_server: Any) -> Iterator[Any]:
    """A database of the server that no other test uses, and its URL."""
    with any_server.client(db=7) as client:
        client.flushdb()
        yield client, f"{any_server.url}?db=7"
        client.flushdb()


def test_a_flushed_database_reads_as_empty_and_is_begun_anew(database: Any, open_store: Any, face: Any) -> None:
    client, url = database
    side, plain = face(open_store(url, index=INDEX)), face(open_store(url))
    for turn in range(3):
        side.put(NS, "k", {"text": "green tea"}, ttl=5)
        assert client.hget(FORGETFUL + b"fmt", "dims") == b"16"
        assert plain.get(NS, "k").memory.version == 1
        assert check_keys(client)["rows"] == 1
        client.flushdb()
        assert (side.get(NS, "k"), side.search(NS), side.search(NS, query="tea")) == (None, [], [])
        assert (side.list_namespaces(), side.sweep_ttl()) == ([], 0)
        side.delete(NS, "k")
        assert client.dbsize() == 0, turn


@pytest.mark.parametrize(("policy", "warnings"), [("allkeys-lru", 1), ("allkeys-random", 1), ("volatile-lru", 0)])
def test_an_eviction_policy_that_takes_the_store_s_keys_is_warned_of_once(
    any_server: Any, make_any_store: Any, face: Any, caplog: Any, policy: str, warnings: int
) -> None:
    side = face(make_any_store(index=INDEX))
    with any_server.client() as client, caplog.at_level(logging.WARNING, "langgraph_forgetful_store"):
        client.config_set("maxmemory-policy", policy)
        try:
            for _ in range(2):
                for call in EVERY_OP.values():
                    call(side)
        finally:
            client.config_set("maxmemory-policy", "noeviction")
    assert [policy in record.getMessage() for record in caplog.records] == [True] * warnings
