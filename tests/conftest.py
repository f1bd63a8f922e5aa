"""The matrix: a test that asks for `make_store` runs on each server; one that asks for `face`, sync and async."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.testing import Clock, Face, check_keys, faces
from langgraph_forgetful_store.testing.internals import embedded_server_of
from tests.support.memories_over_days import Memories
from tests.support.policy_graphs import INDEX
from tests.support.real_servers import IN_CI, PLAIN, RunningServer
from tests.support.rule_conversations import Conversation
from tests.support.staged_orders import Stage

_serial = itertools.count()


SERVERS = [*PLAIN, "embedded"]
ONE_SERVER = "valkey-9.1"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of single tests."""
    parser.addoption(
        "--update-stream",
        metavar="PATH",
        default=os.environ.get("UPDATE_STREAM"),
        help="facts in which later ones replace earlier ones, as JSON lines; default: the environment's UPDATE_STREAM",
    )
    parser.addoption(
        "--server",
        choices=[*SERVERS, "all", "others"],
        default=ONE_SERVER,
        help="run the tests of the server matrix on this one alone, on all, or on all others and nothing else;"
        f" default: {ONE_SERVER}",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs on other servers than those asked for."""
    asked = config.getoption("--server")
    if asked == "all":
        return
    # What does not depend on the server ran with the one.
    wanted: set[str | None] = {*SERVERS} - {ONE_SERVER} if asked == "others" else {None, asked}
    left_out = [item for item in items if _server_of(item) not in wanted]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _server_of(item) in wanted]


def _server_of(item: pytest.Item) -> str | None:
    server = getattr(item, "callspec", None) and item.callspec.params.get("server")
    return server if server in SERVERS else None


class Embedded:
    """The embedded mode, as one more server of the matrix."""

    name = "embedded"

    def __init__(self) -> None:
        self._keeper = ForgetfulStore.embedded()
        self._keeper.setup()
        self.socket_path = embedded_server_of(self._keeper).socket_path

    @property
    def url(self) -> str:
        return f"unix://{self.socket_path}"

    def client(self, **settings: Any) -> Any:
        import redis

        return redis.Redis(unix_socket_path=self.socket_path, **settings)

    def stop(self) -> None:
        self._keeper.close()


def start_or_skip(name: str, *options: str) -> Any:
    """Start a server; where its wheel is missing, skip the test, but fail it in CI."""
    try:
        return Embedded() if name == "embedded" else RunningServer(name, *options)
    except FileNotFoundError as error:
        if IN_CI:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each server of the matrix in turn."""
    running = start_or_skip(request.param)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def any_server() -> Iterator[Any]:
    """One server, for what does not depend on which."""
    running = start_or_skip(ONE_SERVER)
    yield running
    running.stop()


class StoreMaker:
    """Makes stores under one key prefix on one server, and closes them."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.key_prefix = f"t{next(_serial)}"
        self._stores: list[ForgetfulStore] = []

    def __call__(self, **settings: Any) -> ForgetfulStore:
        store = ForgetfulStore.from_conn_string(self.server.url, **{"key_prefix": self.key_prefix, **settings})
        self._stores.append(store)
        return store

    def keys(self, **options: Any) -> dict[str, int]:
        """Check all that the stores have left in Redis."""
        with self.server.client() as client:
            return check_keys(client, self.key_prefix, **options)

    def let_go(self) -> None:
        """Leave the stores to whoever else holds them, and else to the garbage collector."""
        self._stores.clear()

    def finish(self) -> None:
        for store in self._stores:
            store.close()
        with self.server.client() as client:
            try:
                self.keys()
                strangers = [key for key in client.scan_iter() if not key.startswith(f"{self.key_prefix}:".encode())]
                assert not strangers, f"keys outside of the prefix: {strangers[:5]}"
            finally:
                # A test that fails must not fail the next one too.
                client.flushall()


@pytest.fixture
def make_store(server: Any) -> Iterator[StoreMaker]:
    """A maker of stores on each server; after the test all that lies in Redis is checked."""
    maker = StoreMaker(server)
    yield maker
    maker.finish()


@pytest.fixture
def make_any_store(any_server: Any) -> Iterator[StoreMaker]:
    """A maker of stores on one server; after the test all that lies in Redis is checked."""
    maker = StoreMaker(any_server)
    yield maker
    maker.finish()


@pytest.fixture(params=["sync", "async"])
def face(request: pytest.FixtureRequest) -> Iterator[Callable[[Any], Face]]:
    """Wraps a store so that the same test calls its sync or its async side."""
    with faces(asynchronous=request.param == "async") as wrap:
        yield wrap


@pytest.fixture(params=["sync", "async"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Invokes anything runnable, so that the same test runs its sync or its async side."""
    if request.param == "sync":
        return lambda runnable, *args, **more: runnable.invoke(*args, **more)
    return lambda runnable, *args, **more: asyncio.run(runnable.ainvoke(*args, **more))


@pytest.fixture
def clock() -> Clock:
    """An injected clock."""
    return Clock()


@pytest.fixture
def launch() -> Iterator[Callable[..., Any]]:
    """Starts servers with settings of their own; they end with the test."""
    running: list[Any] = []

    def start(name: str, *options: str) -> Any:
        running.append(start_or_skip(name, *options))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def open_store() -> Iterator[Callable[..., ForgetfulStore]]:
    """Makes stores from any client or URL, and closes them."""
    stores: list[ForgetfulStore] = []

    def make(target: Any, **settings: Any) -> ForgetfulStore:
        make_one = ForgetfulStore.from_conn_string if isinstance(target, str) else ForgetfulStore
        stores.append(make_one(target, **settings))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def memories(make_store: StoreMaker, face: Callable[[Any], Face]) -> Memories:
    """Memories on one server, called by one of the two sides."""
    return Memories(make_store, face)


@pytest.fixture
def lives(make_any_store: StoreMaker, face: Callable[[Any], Face]) -> Memories:
    """The same, where the server does not matter."""
    return Memories(make_any_store, face)


@pytest.fixture
def stage(make_any_store: StoreMaker) -> Iterator[Callable[..., Stage]]:
    """A function that makes stores whose operations can be run in every order."""
    made: list[Stage] = []

    def make(**settings: Any) -> Stage:
        made.append(Stage(make_any_store, **settings))
        return made[-1]

    yield make
    for one in made:
        one.client.close()


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def talk(request: pytest.FixtureRequest, make_any_store: StoreMaker, clock: Clock) -> Conversation:
    """A conversation with a policy."""
    return Conversation(make_any_store(index=INDEX, clock=clock), request.param)
