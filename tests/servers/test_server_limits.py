"""A server that is a replica, full, evicts, or loses its scripts or data while it is used."""

from __future__ import annotations

import itertools
import logging
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
from langgraph.store.base import GetOp, PutOp
from redis.exceptions import MovedError, OutOfMemoryError, ReadOnlyError

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Work
from langgraph_forgetful_store.backend.keys import store_prefix
from langgraph_forgetful_store.operations.put import Put, write
from langgraph_forgetful_store.testing import check_keys
from langgraph_forgetful_store.testing.internals import session_of
from tests.support.real_servers import PLAIN, wait_until
from tests.support.refused_input import EVERY_OP, INDEX, NS

Launch = Callable[..., Any]
FORGETFUL = store_prefix("forgetful")


def dump(client: Any) -> dict[bytes, Any]:
    """Return all that is stored; a hash by its fields, since a server may move these about on its own."""
    keys = list(client.scan_iter(count=1000))
    return {key: client.hgetall(key) if client.type(key) == b"hash" else client.dump(key) for key in keys}


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


@pytest.mark.parametrize(
    "error", [MovedError("1 somewhere:7000"), ReadOnlyError("no")], ids=lambda one: type(one).__name__
)
def test_an_error_amid_a_batch_says_how_much_was_written_whatever_it_is_made_of(
    make_any_store: Any, error: Exception
) -> None:
    session = session_of(make_any_store())
    puts = [Put.prepare(PutOp(NS, f"k{n}", {}), session) for n in range(1001)]
    flow = write(session, scripts.Frame("", True), puts, np.empty((0, 0), np.float32))
    send = next(flow)
    while isinstance(send, Work):
        send = flow.send(send.compute())
    replies = [b"OK", error, error, *[[0, b"0"]] * (len(send.calls) - 3)]
    with pytest.raises(type(error)) as caught:
        flow.send(replies)
    said = "".join(traceback.format_exception_only(caught.value))
    assert "(500 of the batch's 1001 writes were made)" in said
    assert str(error) in said


OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
CALLS = re.compile(r"(?:redis\.p?call|\bcall)\('([A-Z]+)'")


def allowed_commands() -> list[str]:
    text = OPERATIONS.read_text("utf-8")
    return " ".join(re.findall(r"^ *ACL SETUSER .*?~forgetful:\* (.*?)$", text, re.MULTILINE)).split()


def test_the_page_on_operations_names_every_command_that_scripts_call() -> None:
    found = {
        name
        for script in vars(scripts).values()
        if isinstance(script, scripts.Script)
        for name in CALLS.findall(script.source)
    }
    assert {f"+{name.lower()}" for name in found} | {"+eval", "+evalsha"} == set(allowed_commands())


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("may_info", [True, False], ids=["with INFO", "without INFO"])
def test_a_user_who_may_do_what_the_page_lists_may_do_everything(
    launch: Launch, open_store: Any, face: Any, caplog: Any, name: str, may_info: bool
) -> None:
    server = launch(name)
    allowed = [one for one in allowed_commands() if may_info or one != "+info"]
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "app", "reset", "on", ">pw", "~forgetful:*", *allowed)
    user = redis.Redis(unix_socket_path=server.socket_path, username="app", password="pw")
    side = face(open_store(user, index=INDEX))
    side.batch([PutOp(NS, f"k{n}", {"text": "tea", "n": n}, ttl=5 * (n % 2)) for n in range(30)])
    side.put(NS, "vector", {"text": "green tea"})
    for call in EVERY_OP.values():
        call(side)
    side.search(NS, limit=3, offset=2)
    side.search((), filter={"n": {"$gte": 1}}, query="tea")
    assert side.get(NS, "k1").value["n"] == 1
    assert ("near-cache is off" in caplog.text) == (not may_info)
