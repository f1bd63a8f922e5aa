"""A client is a template of settings: the store keeps them, makes its own connections, and derives the other colour."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.retry
from langgraph.store.base import PutOp
from redis.credentials import UsernamePasswordCredentialProvider
from redis.retry import Retry

import langgraph_forgetful_store
from langgraph_forgetful_store import ConfigurationError
from langgraph_forgetful_store.testing import Face, check_keys
from langgraph_forgetful_store.testing.internals import sync_driver_of
from tests.support.lossy_proxy import Proxy
from tests.support.refused_input import INDEX, NS

Template = Callable[..., Any]


@pytest.fixture
def clean(any_server: Any) -> Iterator[Any]:
    """A server on which the default key prefix is free."""
    yield any_server
    with any_server.client() as client:
        for key in list(client.scan_iter(match="forgetful:*")):
            client.delete(key)


@pytest.fixture(params=["sync template", "async template"])
def template(request: Any, clean: Any) -> Template:
    """Makes sync or async clients of the server, by its unix socket or over TCP."""
    kind = redis.Redis if request.param == "sync template" else redis.asyncio.Redis

    def make(*, tcp: bool = False, **settings: Any) -> Any:
        where = {"port": clean.port} if tcp else {"unix_socket_path": clean.socket_path}
        return kind(**where, **settings)

    return make


def use(side: Any) -> None:
    """Do a little of everything."""
    side.batch([PutOp(NS, "k", {"text": "grüner Tee"}, ttl=5), PutOp(NS, "gone", {"text": "x"})])
    side.delete(NS, "gone")
    assert side.get(NS, "k").value == {"text": "grüner Tee"}
    assert [item.value for item in side.search(NS, query="tee")] == [{"text": "grüner Tee"}]
    assert side.list_namespaces() == [NS]
    assert side.sweep_ttl() == 0


def connections(server: Any, **wanted: str) -> list[dict[str, str]]:
    """The server's list of connections with these properties."""
    with server.client() as client:
        return [one for one in client.client_list() if wanted.items() <= one.items()]


SETTINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "tcp": {"tcp": True},
    "decoded": {"decode_responses": True},
    "another encoding": {"decode_responses": True, "encoding": "latin-1", "encoding_errors": "replace"},
    "RESP3": {"protocol": 3},
    "RESP2": {"protocol": 2},
    "RESP3 over tcp": {"tcp": True, "protocol": 3, "decode_responses": True},
    "health checks": {"health_check_interval": 1},
    "timeouts": {"tcp": True, "socket_timeout": 5, "socket_connect_timeout": 5},
    "keepalive": {"tcp": True, "socket_keepalive": True},
    "retries": {"retry_on_error": [redis.exceptions.BusyLoadingError]},
    "one connection": {"single_connection_client": True},
    "two connections": {"max_connections": 2},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_template_may_have_any_setting(template: Template, open_store: Any, face: Any, name: str) -> None:
    use(face(open_store(template(**SETTINGS[name]), index=INDEX)))


def test_the_database_of_the_template_is_used(template: Template, open_store: Any, face: Any, clean: Any) -> None:
    use(face(open_store(template(db=5), index=INDEX)))
    with clean.client(db=5) as five, clean.client(db=0) as zero:
        assert check_keys(five)["rows"] == 1
        assert check_keys(zero)["rows"] == 0
        five.flushdb()


@pytest.mark.parametrize("how", ["settings", "provider"])
def test_the_credentials_of_the_template_are_used(
    template: Template, open_store: Any, face: Any, clean: Any, how: str
) -> None:
    credentials = {"username": "keeper", "password": "secret"}
    with clean.client() as admin:
        admin.acl_setuser("keeper", enabled=True, passwords=["+secret"], keys=["forgetful:*"], commands=["+@all"])
        if how == "provider":
            given: dict[str, Any] = {"credential_provider": UsernamePasswordCredentialProvider(**credentials)}
        else:
            given = credentials
        store = open_store(template(**given), index=INDEX)
        use(face(store))
        assert connections(clean, user="keeper")
        # It writes its counts when it closes, and would try again and again to log in.
        store.close()
        admin.acl_deluser("keeper")


def test_the_client_name_of_the_template_is_used(template: Template, open_store: Any, face: Any, clean: Any) -> None:
    store = open_store(template(client_name="keeper"), index=INDEX)
    use(face(store))
    assert connections(clean, name="keeper")


def test_the_template_s_own_pool_is_never_touched(clean: Any, open_store: Any, face: Any) -> None:
    class Untouchable(redis.ConnectionPool):
        def get_connection(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("a connection was taken from the template's pool")

        make_connection = disconnect = release = get_connection

    class AsyncUntouchable(redis.asyncio.ConnectionPool):
        async def get_connection(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("a connection was taken from the template's pool")

        disconnect = release = get_connection

        def make_connection(self) -> Any:
            raise AssertionError("a connection was made in the template's pool")

    settings = {"path": clean.socket_path}
    pool = Untouchable(connection_class=redis.UnixDomainSocketConnection, **settings)
    async_pool = AsyncUntouchable(connection_class=redis.asyncio.UnixDomainSocketConnection, **settings)
    for store in (
        open_store(redis.Redis(connection_pool=pool), index=INDEX),
        open_store(redis.asyncio.Redis(connection_pool=async_pool), index=INDEX),
    ):
        use(face(store))
        store.close()
        use(face(store))


def test_a_template_that_is_in_use_stays_so(clean: Any, open_store: Any) -> None:
    with clean.client() as client:
        client.set("forgetful:mine", "x")
        with client.pubsub() as channel, client.pipeline() as pipeline:
            channel.subscribe("news")
            pipeline.get("forgetful:mine")
            store = open_store(client, index=INDEX)
            use(store)
            store.close()
            assert pipeline.execute() == [b"x"]
            client.publish("news", "hello")
            assert [channel.get_message(timeout=5)["type"] for _ in range(2)] == ["subscribe", "message"]


@pytest.mark.parametrize("how", ["max_connections", "blocking pool", "url"])
def test_threads_wait_where_the_template_allows_few_connections(clean: Any, open_store: Any, how: str) -> None:
    if how == "max_connections":
        target: Any = clean.client(max_connections=2, client_name="few")
    elif how == "url":
        target = f"{clean.url}?max_connections=2&client_name=few"
    else:
        pool = redis.BlockingConnectionPool(
            connection_class=redis.UnixDomainSocketConnection,
            path=clean.socket_path,
            max_connections=2,
            timeout=20,
            client_name="few",
        )
        target = redis.Redis(connection_pool=pool)
    store = open_store(target)
    barrier, most = threading.Barrier(16), []

    def work(thread: int) -> None:
        barrier.wait()
        for i in range(25):
            store.put(NS, f"{thread}-{i}", {"i": i})
            if i % 5 == 0:
                most.append(len(connections(clean, name="few")))

    with ThreadPoolExecutor(16) as executor:
        list(executor.map(work, range(16)))
    assert len(store.search(NS, limit=1000)) == 400
    assert max(most) == 2


def test_tasks_wait_where_the_template_allows_few_connections(template: Template, open_store: Any, clean: Any) -> None:
    store = open_store(template(max_connections=2, client_name="few"))

    async def work(task: int) -> None:
        for i in range(10):
            # Each in a turn of the loop, and so a pipeline, of its own.
            for _ in range(task):
                await asyncio.sleep(0)
            await store.aput(NS, f"{task}-{i}", {"i": i})

    async def main() -> int:
        await asyncio.gather(*(work(task) for task in range(16)))
        return len(await asyncio.to_thread(connections, clean, name="few"))

    assert asyncio.run(main()) == 2
    assert len(store.search(NS, limit=1000)) == 160


class Attempts:
    """Counts the attempts to connect."""

    def __init__(self) -> None:
        self.delays: list[int] = []

    def compute(self, failures: int) -> float:
        self.delays.append(failures)
        return 0

    def reset(self) -> None:
        pass

    def __deepcopy__(self, memo: Any) -> Attempts:
        # redis-py gives each connection a copy.
        return self


@pytest.mark.parametrize(
    ("kind", "retry"), [(redis.Redis, Retry), (redis.asyncio.Redis, redis.asyncio.retry.Retry)], ids=["sync", "async"]
)
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_the_retries_of_the_template_are_kept(
    face: Any, open_store: Any, clean: Any, kind: Any, retry: Any, retries: int
) -> None:
    proxy, attempts = Proxy(clean.socket_path), Attempts()
    side = face(open_store(kind(unix_socket_path=proxy.address, retry=retry(attempts, retries))))
    side.setup()
    before = len(proxy.seen)
    proxy.lose("request", times=100)
    with pytest.raises(redis.ConnectionError):
        side.get(NS, "k")
    assert len(proxy.seen) - before == retries + 1
    assert attempts.delays == list(range(1, retries + 1))
    proxy.close()


@pytest.mark.parametrize("kind", [redis.Redis, redis.asyncio.Redis], ids=["sync", "async"])
def test_a_template_without_retries_has_none(face: Any, open_store: Any, tmp_path: Any, kind: Any) -> None:
    with pytest.raises((redis.ConnectionError, FileNotFoundError)):
        face(open_store(kind(unix_socket_path=str(tmp_path / "nothing"), retry=None))).get(NS, "k")


class MyConnection(redis.UnixDomainSocketConnection):
    """A class of the user's, whose twin is unknown."""


class MyAsyncConnection(redis.asyncio.UnixDomainSocketConnection):
    """Its twin."""


def own_classes(server: Any) -> tuple[redis.Redis, redis.asyncio.Redis]:
    settings = {"path": server.socket_path}
    return (
        redis.Redis(connection_pool=redis.ConnectionPool(connection_class=MyConnection, **settings)),
        redis.asyncio.Redis(
            connection_pool=redis.asyncio.ConnectionPool(connection_class=MyAsyncConnection, **settings)
        ),
    )


def test_the_other_side_of_an_unknown_connection_class_asks_for_its_client(clean: Any, open_store: Any) -> None:
    sync, asynchronous = own_classes(clean)
    use(open_store(sync, index=INDEX))
    with pytest.raises(ConfigurationError, match=r"async client from client.*MyConnection.*async_client="):
        asyncio.run(open_store(sync).aget(NS, "k"))
    with pytest.raises(ConfigurationError, match=r"sync client from client.*MyAsyncConnection.*client="):
        open_store(asynchronous).get(NS, "k")
    both = open_store(sync, async_client=asynchronous, index=INDEX)
    for is_async in (False, True):
        side = Face(both, asynchronous=is_async)
        use(side)
        side.end()
    assert sync_driver_of(both).client.connection_pool.connection_class is MyConnection


def test_an_async_client_beside_the_client_is_used_for_the_async_side(clean: Any, open_store: Any) -> None:
    store = open_store(
        clean.client(client_name="sync"),
        async_client=redis.asyncio.Redis(unix_socket_path=clean.socket_path, client_name="async"),
    )
    store.put(NS, "k", {"v": 1})
    assert connections(clean, name="sync")
    assert not connections(clean, name="async")

    async def main() -> Any:
        item = await store.aget(NS, "k")
        return item.value, len(await asyncio.to_thread(connections, clean, name="async"))

    assert asyncio.run(main()) == ({"v": 1}, 1)


def test_a_conn_string_takes_redis_py_s_options(clean: Any, open_store: Any, face: Any) -> None:
    for url in (f"{clean.url}?db=5&client_name=by-url", f"{clean.tcp_url}/5?protocol=3&client_name=by-url"):
        store = open_store(url, index=INDEX)
        use(face(store))
        assert {one["db"] for one in connections(clean, name="by-url")} == {"5"}
        store.close()
    with clean.client(db=5) as client:
        assert check_keys(client)["rows"] == 1
        client.flushdb()


def test_a_valkey_url_is_one_of_redis(clean: Any, open_store: Any, face: Any) -> None:
    use(face(open_store(clean.tcp_url.replace("redis://", "valkey://") + "/5", index=INDEX)))
    with clean.client(db=5) as client:
        assert check_keys(client)["rows"] == 1
        client.flushdb()


def test_a_valkeys_url_asks_for_tls(open_store: Any) -> None:
    assert "rediss://localhost:6390/2" in repr(open_store("valkeys://localhost:6390/2"))


def told(server: Any) -> set[tuple[str, str]]:
    """What connections say of their library to a server that keeps it."""
    with server.client() as client:
        own = client.client_id()
        return {(one["lib-name"], one["lib-ver"]) for one in client.client_list() if int(one["id"]) != own}


OURS = f"langgraph-forgetful-store_v{langgraph_forgetful_store.__version__}"


def test_connections_tell_every_server_which_library_they_are_of(make_store: Any, server: Any, face: Any) -> None:
    """Redis 6.2 can't be told; the store works there all the same."""
    side = face(make_store())
    side.put(NS, "k", {"v": 1})
    assert side.get(NS, "k").value == {"v": 1}
    with server.client() as client:
        can_be_told = "lib-name" in client.client_list()[0]
    assert can_be_told == (server.name != "redis-6.2")
    if can_be_told:
        assert (f"redis-py({OURS})", redis.__version__) in told(server)


@pytest.mark.skipif(not hasattr(redis, "DriverInfo"), reason="this redis-py knows no upstream drivers")
def test_the_libraries_that_the_template_names_are_told_too(
    template: Template, open_store: Any, face: Any, clean: Any
) -> None:
    info = redis.DriverInfo(lib_version="1.2.3").add_upstream_driver("mine", "2").add_upstream_driver("yours", "3")
    use(face(open_store(template(driver_info=info), index=INDEX)))
    assert (f"redis-py({OURS};yours_v3;mine_v2)", "1.2.3") in told(clean)
    assert info.formatted_name == "redis-py(yours_v3;mine_v2)"


@pytest.mark.skipif(not hasattr(redis, "DriverInfo"), reason="this redis-py knows no upstream drivers")
def test_a_template_that_tells_nothing_is_heeded(template: Template, open_store: Any, face: Any, clean: Any) -> None:
    use(face(open_store(template(driver_info=None, client_name="silent"), index=INDEX)))
    assert {(one["lib-name"], one["lib-ver"]) for one in connections(clean, name="silent")} == {("", "")}


def test_the_repr_says_where_a_store_is_and_hides_what_is_secret(open_store: Any) -> None:
    told = [
        repr(open_store(client, index=INDEX, ttl={"default_ttl": 90}))
        for client in (
            redis.Redis("db.example", 6380, 2, "s3cret", username="keeper"),
            redis.asyncio.Redis(host="db.example", port=6380, db=2, password="s3cret"),
            "redis://keeper:s3cret@db.example:6380/2",
        )
    ]
    assert all(one.startswith("ForgetfulStore(redis://db.example:6380/2, key_prefix='forgetful'") for one in told)
    assert all("16 dimensions, default_ttl=90 minutes, scoring=Relevance(" in one for one in told)
    assert "s3cret" not in "".join(told)
    assert repr(open_store(redis.Redis(unix_socket_path="/run/x.sock"))).startswith(
        "ForgetfulStore(unix:///run/x.sock?db=0, key_prefix='forgetful', index=None, default_ttl=None"
    )


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A self-signed certificate of 127.0.0.1, and its key."""
    x509 = pytest.importorskip("cryptography.x509", reason="comes with langgraph-api")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    pem = serialization.Encoding.PEM
    (folder / "certificate").write_bytes(made.public_bytes(pem))
    (folder / "key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(folder / "certificate"), str(folder / "key")


@pytest.fixture
def tls_port(clean: Any, certificate: tuple[str, str]) -> Iterator[int]:
    """A port that speaks TLS; none of the servers does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    proxy = Proxy(clean.socket_path, context)
    yield proxy.address[1]
    proxy.close()


@pytest.mark.parametrize("kind", ["sync", "async", "url"])
def test_a_template_may_use_tls(tls_port: int, open_store: Any, face: Any, certificate: Any, kind: str) -> None:
    settings = {"host": "127.0.0.1", "port": tls_port, "ssl": True, "ssl_ca_certs": certificate[0]}
    target = {
        "sync": redis.Redis(**settings),
        "async": redis.asyncio.Redis(**settings),
        "url": f"rediss://127.0.0.1:{tls_port}?ssl_ca_certs={certificate[0]}",
    }[kind]
    use(face(open_store(target, index=INDEX)))
    with pytest.raises(redis.ConnectionError, match="certificate"):
        face(open_store(f"rediss://127.0.0.1:{tls_port}")).get(NS, "k")
