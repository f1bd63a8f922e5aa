"""How many connections there are, when they are given up, and that one caller's failure is its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from langgraph.store.base import GetOp, PutOp
from redis.backoff import ConstantBackoff, NoBackoff
from redis.exceptions import ReadOnlyError
from redis.retry import Retry

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.backend.connections import AsyncSentinelPool, Connections, SentinelPool
from langgraph_forgetful_store.backend.drivers import MAX_PIPELINES
from langgraph_forgetful_store.backend.lanes import keeps_connections
from langgraph_forgetful_store.testing import Face, WordEmbeddings
from tests.conftest import start_or_skip
from tests.support.open_connections import run_script

NS = ("n",)


@pytest.fixture
def own_server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A server that the test may pause, limit or demote."""
    server = start_or_skip(getattr(request, "param", "valkey-9.1"))
    yield server
    server.resume()
    server.stop()


def _count(server: Any) -> int:
    with server.client() as client:
        return len(client.client_list()) - 1


def test_a_burst_of_turns_of_a_loop_waits_for_connections_and_leaves_few_behind(own_server):
    async def main() -> None:
        async with ForgetfulStore.from_conn_string(own_server.url) as store:
            await store.aput(NS, "k", {"v": 1})
            own_server.pause()
            reads = []
            for _ in range(300):
                reads.append(asyncio.ensure_future(store.aget(NS, "k")))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            own_server.resume()
            assert all(item.value == {"v": 1} for item in await asyncio.gather(*reads))
            assert _count(own_server) <= MAX_PIPELINES

    asyncio.run(main())


def test_many_threads_leave_few_connections_behind(own_server):
    with ForgetfulStore.from_conn_string(own_server.url) as store:
        store.put(NS, "k", {"v": 1})
        barrier = threading.Barrier(120)

        def read() -> None:
            barrier.wait()
            for _ in range(3):
                assert store.get(NS, "k") is not None

        threads = [threading.Thread(target=read) for _ in range(120)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert _count(own_server) <= 40


@pytest.mark.parametrize("limit", [2, 150])
def test_a_limit_of_connections_is_the_stores_too(any_server, limit):
    template = redis.Redis(unix_socket_path=any_server.socket_path, max_connections=limit)
    pool = Connections(template, "client").sync_client().connection_pool
    assert (type(pool), pool.max_connections, pool.timeout) == (redis.BlockingConnectionPool, limit, None)
    waiting = redis.BlockingConnectionPool(
        connection_class=redis.UnixDomainSocketConnection, path=any_server.socket_path, max_connections=3, timeout=0.2
    )
    pool = Connections(redis.Redis(connection_pool=waiting), "client").sync_client().connection_pool
    assert (pool.max_connections, pool.timeout) == (3, 0.2)


def test_behind_a_sentinel_connections_go_back_to_the_pool_and_its_own_stay_open_on_a_change():
    asked: list[str] = []

    class Node:
        def disconnect(self) -> None:
            asked.append("closed")

        async def adisconnect(self) -> None:
            asked.append("closed")

    class Manager:
        sentinels = (type("One", (), {"connection_pool": Node()})(),)

    pool = SentinelPool("primary", Manager())
    assert not keeps_connections(pool)
    pool.disconnect(inuse_connections=False)
    assert asked == []
    pool.disconnect()
    assert asked == ["closed"]
    assert not keeps_connections(AsyncSentinelPool("primary", Manager()))


@pytest.mark.parametrize("own_server", ["redis-6.2", "valkey-9.1"], indirect=True)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_demoted_primary_is_tried_again_where_the_user_retries_that_error(own_server, asynchronous):
    client = own_server.client(retry=Retry(ConstantBackoff(0.02), 200), retry_on_error=[ReadOnlyError])
    with ForgetfulStore(client) as store, own_server.client() as admin:
        face = Face(store, asynchronous=asynchronous)
        face.put(NS, "k", {"v": 1})
        admin.replicaof("127.0.0.1", 1)

        def promote() -> None:
            time.sleep(0.2)
            admin.replicaof("NO", "ONE")

        thread = threading.Thread(target=promote)
        thread.start()
        face.put(NS, "k", {"v": 2})
        thread.join()
        item = face.get(NS, "k")
        assert (item.value, item.memory.version) == ({"v": 2}, 2)
        face.end()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_demoted_primary_raises_at_once_otherwise_and_its_connection_is_not_kept(own_server, asynchronous):
    client = own_server.client(retry=Retry(NoBackoff(), 3))
    with ForgetfulStore(client) as store, own_server.client() as admin:
        face = Face(store, asynchronous=asynchronous)
        face.put(NS, "k", {"v": 1})
        before = {one["id"] for one in admin.client_list()}
        admin.replicaof("127.0.0.1", 1)
        with pytest.raises(ReadOnlyError):
            face.put(NS, "k", {"v": 2})
        admin.replicaof("NO", "ONE")
        face.put(NS, "k", {"v": 3})
        assert len({one["id"] for one in admin.client_list()} - before) == 1
        face.end()


async def test_a_request_that_the_server_hangs_up_on_fails_its_caller_alone(own_server):
    with own_server.client() as admin:
        admin.config_set("proto-max-bulk-len", 1024 * 1024)
    async with ForgetfulStore(own_server.client(retry=Retry(NoBackoff(), 1))) as store:
        await store.aput(NS, "k", {"v": 1})
        large, got, small, found = await asyncio.gather(
            store.aput(NS, "large", {"v": "x" * 1_500_000}),
            store.aget(NS, "k"),
            store.aput(NS, "small", {"v": 2}),
            store.asearch(NS),
            return_exceptions=True,
        )
        assert isinstance(large, redis.ConnectionError | redis.ResponseError)
        assert got.value == {"v": 1}
        assert small is None
        assert {item.key for item in found} >= {"k"}
        item = await store.aget(NS, "small")
        assert (item.value, item.memory.version) == ({"v": 2}, 1)
        assert await store.aget(NS, "large") is None


async def test_a_server_that_is_gone_fails_all_callers_of_a_turn_without_asking_for_each(own_server):
    async with ForgetfulStore(own_server.client(retry=Retry(ConstantBackoff(0.05), 2))) as store:
        await store.aput(NS, "k", {"v": 1})
        own_server.kill()
        before = time.monotonic()
        results = await asyncio.gather(*(store.aget(NS, "k") for _ in range(200)), return_exceptions=True)
        assert all(isinstance(result, redis.ConnectionError) for result in results)
        # 200 callers that retried one after the other would take 20 s.
        assert time.monotonic() - before < 5


class Cancelling(WordEmbeddings):
    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        if any("poison" in text for text in texts):
            raise asyncio.CancelledError
        return self.embed_documents(texts)


async def test_an_embedder_that_is_cancelled_fails_its_caller_alone(make_any_store):
    store = make_any_store(index={"dims": 8, "embed": Cancelling(8), "fields": ["t"]})
    bad, good = await asyncio.gather(
        store.aput(NS, "bad", {"t": "poison"}), store.aput(NS, "good", {"t": "fine"}), return_exceptions=True
    )
    assert isinstance(bad, RuntimeError)
    assert good is None
    assert await store.aget(NS, "bad") is None
    assert await store.aget(NS, "good") is not None


CLOSED_IN_FLIGHT = """
import asyncio, gc, sys
from redis.retry import Retry
from redis.backoff import NoBackoff
import redis
from langgraph.store.base import GetOp, PutOp
from langgraph_forgetful_store import ForgetfulStore

async def main():
    store = ForgetfulStore(redis.Redis(unix_socket_path=sys.argv[1], retry=Retry(NoBackoff(), 3)))
    await store.aput(("n",), "k", {})
    calls = [asyncio.ensure_future(store.aget(("n",), "k")) for _ in range(5)]
    await asyncio.sleep(0)
    await store.aclose()
    await asyncio.gather(*calls)
    async with store:
        call = asyncio.ensure_future(store.aget(("n",), "k"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()

asyncio.run(main())
gc.collect()
print("clean")
"""


def test_closing_beside_calls_that_are_under_way_leaves_no_socket_and_no_warning(any_server):
    assert run_script(CLOSED_IN_FLIGHT, any_server.socket_path).strip() == "clean"
    with any_server.client() as client:
        client.flushall()


async def test_stopping_the_sweeper_on_an_event_loop_waits_by_awaiting_alone(make_any_store, monkeypatch):
    store = make_any_store(ttl={"default_ttl": 1})
    begun, go_on = threading.Event(), threading.Event()

    def sweep() -> int:
        begun.set()
        assert go_on.wait(20)
        return 0

    monkeypatch.setattr(store, "sweep_ttl", sweep)
    await store.start_ttl_sweeper(0.0001)
    await asyncio.to_thread(begun.wait, 20)
    stopping = store.stop_ttl_sweeper()
    # Had it waited here, nothing could have let the sweep go on.
    assert not stopping
    go_on.set()
    assert await stopping is True
    assert store.stop_ttl_sweeper()


async def test_a_large_batch_leaves_the_event_loop_to_others(make_any_store):
    store = make_any_store()
    await store.aput(NS, "k", {"v": 1})
    threads: set[str] = set()

    class Watched(dict[str, Any]):
        def items(self) -> Any:
            threads.add(threading.current_thread().name)
            return super().items()

    puts = [PutOp(("large",), str(n), Watched(v=n)) for n in range(6000)]
    large = asyncio.ensure_future(store.abatch(puts))
    await asyncio.sleep(0)
    # It is asked for later and answered first: it neither waits for the batch's turn nor stands behind its pipeline.
    assert (await store.aget(NS, "k")).value == {"v": 1}
    assert not large.done()
    await large
    assert threading.current_thread().name not in threads
    gets = [GetOp(("large",), str(n)) for n in range(6000)]
    assert [item.value["v"] for item in await store.abatch(gets)] == list(range(6000))
