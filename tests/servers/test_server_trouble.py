"""A server that is down, was restarted, or does not let the user in: an error, never a wrong answer."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import Any

import pytest
import redis
from langgraph.store.base import PutOp
from redis.exceptions import NoPermissionError

from langgraph_forgetful_store import UnsupportedServerError
from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.testing import check_keys
from tests.support.real_servers import PLAIN
from tests.support.refused_input import EVERY_OP, INDEX, NS

Launch = Callable[..., Any]


def raises_from_every_op(side: Any, error: type[Exception], *, match: str | None = None, but: str = "") -> None:
    for name in EVERY_OP.keys() - {but}:
        with pytest.raises(error, match=match):
            EVERY_OP[name](side)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens at, nor will."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_server_that_is_down_makes_every_operation_raise(
    closed_port: int, open_store: Any, face: Any, tmp_path: Any
) -> None:
    for url in (f"redis://127.0.0.1:{closed_port}", f"unix://{tmp_path}/nothing"):
        raises_from_every_op(face(open_store(url, index=INDEX)), redis.ConnectionError, match="onnect")


@pytest.mark.parametrize("name", PLAIN)
def test_a_server_that_was_killed_is_used_again_when_it_is_back(
    launch: Launch, open_store: Any, face: Any, name: str
) -> None:
    server = launch(name)
    side = face(open_store(server.url, index=INDEX))
    side.put(NS, "k", {"text": "tea"})
    server.kill()
    # Setting up is done with, and looks at nothing.
    raises_from_every_op(side, redis.ConnectionError, but="setup")
    server.start()
    # It has lost its data and the scripts.
    assert (side.get(NS, "k"), side.search(NS, query="tea"), side.list_namespaces()) == (None, [], [])
    side.put(NS, "k", {"text": "tea"})
    assert side.get(NS, "k").memory.version == 1
    with server.client() as client:
        assert check_keys(client)["rows"] == 1


def test_threads_go_on_when_the_server_has_been_restarted(launch: Launch, open_store: Any) -> None:
    server = launch("valkey-9.1")
    store = open_store(server.url)
    restarted, up, errors = threading.Event(), threading.Barrier(5), []

    def work(thread: int) -> int:
        after = 0
        for i in range(100_000):
            try:
                back = restarted.is_set()
                store.put(NS, f"{thread}", {"i": i})
                item = store.get(NS, f"{thread}")
                after += back
                assert item is None or item.value == {"i": i}
            except redis.ConnectionError as error:
                errors.append(error)
            if i == 50:
                up.wait()
            if after == 50:
                return after
        return after

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(work, thread) for thread in range(4)]
        up.wait()
        server.kill()
        server.start()
        restarted.set()
        assert [one.result() for one in working] == [50] * 4
    assert errors
    with server.client() as client:
        assert check_keys(client)["rows"] == 4


@pytest.mark.parametrize("name", PLAIN)
def test_a_wrong_password_or_none_raises(launch: Launch, open_store: Any, face: Any, name: str) -> None:
    server = launch(name, "--requirepass", "right")
    # redis-py raises a subclass, but not in all cases on its async side.
    raises_from_every_op(face(open_store(f"{server.url}?password=wrong")), redis.ConnectionError, match="password")
    raises_from_every_op(face(open_store(server.url)), redis.ConnectionError, match="uthentication required")
    right = face(open_store(f"{server.url}?password=right"))
    right.put(NS, "k", {"v": 1})
    assert right.get(NS, "k").value == {"v": 1}


LACKING = [
    "-info",
    "-config",
    "-keys",
    "-module",
    "-script",
    "-info -config -keys -module -script -scan -flushdb -debug",
]


@pytest.fixture
def user(server: Any) -> Iterator[Callable[..., redis.Redis]]:
    """Makes a user with some permissions, and a client for it."""
    with server.client() as admin:

        def make(keys: str, *rules: str) -> redis.Redis:
            admin.execute_command("ACL", "SETUSER", "limited", "reset", "on", ">secret", f"~{keys}", *rules)
            return redis.Redis(unix_socket_path=server.socket_path, username="limited", password="secret", retry=None)

        yield make
        admin.execute_command("ACL", "DELUSER", "limited")
        for key in list(admin.scan_iter(match="forgetful:*")):
            admin.delete(key)


def use_everything(side: Any) -> None:
    side.setup()
    side.batch([PutOp(NS, "k", {"text": "green tea"}, ttl=5), PutOp(NS, "gone", {}), PutOp(NS, "expired", {}, ttl=0)])
    side.delete(NS, "gone")
    assert side.get(NS, "k").value == {"text": "green tea"}
    assert [item.key for item in side.search(NS)] == ["k"]
    assert [item.key for item in side.search((), query="tea", filter={"text": {"$exists": True}})] == ["k"]
    assert side.list_namespaces() == [NS]
    assert side.sweep_ttl() <= 1
    assert side.get(NS, "expired") is None


@pytest.mark.parametrize("lacking", LACKING)
def test_a_user_without_these_permissions_can_use_the_store(
    user: Any, open_store: Any, face: Any, lacking: str
) -> None:
    use_everything(face(open_store(user("forgetful*", "+@all", *lacking.split()), index=INDEX)))


def test_a_user_who_may_only_run_what_the_scripts_call_can_use_the_store(user: Any, open_store: Any, face: Any) -> None:
    sources = [file.read_text() for file in resources.files(scripts).iterdir() if file.name.endswith(".lua")]
    calls = {name.lower() for source in sources for name in re.findall(r"redis\.call\('(\w+)'", source)}
    least = [f"+{name}" for name in sorted({"eval", "evalsha", *calls})]
    use_everything(face(open_store(user("forgetful:*", *least), index=INDEX)))


def test_a_user_who_may_not_run_scripts_gets_an_error(user: Any, open_store: Any, face: Any) -> None:
    raises_from_every_op(face(open_store(user("*", "+@all", "-evalsha"))), NoPermissionError)


def test_a_user_of_other_keys_gets_an_error(user: Any, open_store: Any, face: Any) -> None:
    raises_from_every_op(face(open_store(user("other*", "+@all"))), NoPermissionError)


def test_a_user_who_may_only_read_reads_and_gets_an_error_from_writes(
    server: Any, user: Any, open_store: Any, face: Any
) -> None:
    owner = face(open_store(server.url))
    owner.put(NS, "k", {"v": 1})
    owner.put(NS, "ttl", {"v": 2}, ttl=5)
    reader = face(open_store(user("forgetful*", "+@all", "-@write", "+eval", "+evalsha")))
    assert reader.get(NS, "k").value == {"v": 1}
    assert len(reader.search(NS, refresh_ttl=False)) == 2
    for call in (
        lambda: reader.put(NS, "k", {}),
        lambda: reader.delete(NS, "k"),
        lambda: reader.get(NS, "ttl"),
        lambda: reader.search(NS),
    ):
        with pytest.raises(NoPermissionError):
            call()
    assert owner.get(NS, "k").value == {"v": 1}


def low_port() -> int:
    """A free port whose number leaves room for that of the cluster's bus, 10,000 above."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            if (port := probe.getsockname()[1]) < 55_000:
                return port


@pytest.mark.parametrize("name", PLAIN)
def test_a_node_of_a_cluster_is_refused(launch: Launch, open_store: Any, face: Any, name: str) -> None:
    server = launch(name, "--cluster-enabled", "yes", "--port", str(low_port()))
    raises_from_every_op(face(open_store(server.url)), UnsupportedServerError, match="a node of a cluster")
