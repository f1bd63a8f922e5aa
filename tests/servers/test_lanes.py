"""Connections stay with their lanes: what has happened to one meanwhile reaches no later call."""

from __future__ import annotations

import asyncio
import threading

import pytest
from redis.backoff import NoBackoff
from redis.retry import Retry

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.backend import lanes
from langgraph_forgetful_store.testing.internals import async_driver_of, sync_driver_of

NS = ("n",)
NAME = "lanes-of-a-test"


@pytest.fixture
def store(make_any_store, any_server):
    """A store whose client retries nothing, so that what it survives it survives by itself."""
    client = any_server.client(client_name=NAME, retry=Retry(NoBackoff(), 0))
    with ForgetfulStore(client, key_prefix=make_any_store.key_prefix) as store:
        yield store


def connections(any_server) -> list[str]:
    with any_server.client() as client:
        return [one["id"] for one in client.client_list() if one["name"] == NAME]


def kill_all(any_server) -> None:
    with any_server.client() as client:
        for one in connections(any_server):
            client.client_kill_filter(_id=one)


def test_calls_of_one_thread_share_one_connection(store, any_server):
    for at in range(20):
        store.put(NS, str(at), {"at": at})
        store.get(NS, str(at))
        store.search(NS)
    assert len(connections(any_server)) == 1


async def test_calls_of_one_loop_one_after_another_share_one_connection(store, any_server):
    for at in range(20):
        await store.aput(NS, str(at), {"at": at})
        await store.aget(NS, str(at))
        await store.asearch(NS)
    assert len(connections(any_server)) == 1


def test_a_connection_that_the_server_has_closed_meanwhile_is_replaced(store, any_server):
    store.put(NS, "k", {"v": 1})
    kill_all(any_server)
    assert store.get(NS, "k").value == {"v": 1}
    assert len(connections(any_server)) == 1


async def test_an_async_connection_that_the_server_has_closed_meanwhile_is_replaced(store, any_server):
    await store.aput(NS, "k", {"v": 1})
    kill_all(any_server)
    assert (await store.aget(NS, "k")).value == {"v": 1}
    assert len(connections(any_server)) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_call_that_is_interrupted_leaves_its_reply_to_no_other(store, any_server, monkeypatch, error):
    store.put(NS, "a", {"v": "a"})
    store.put(NS, "b", {"v": "b"})

    def interrupt(connection):
        raise error

    with any_server.client() as client:
        # The reply of the first call comes only when the second has been sent.
        client.client_pause(100)
    with monkeypatch.context() as patched:
        patched.setattr(lanes, "read_reply", interrupt)
        with pytest.raises(error):
            store.get(NS, "a")
    assert store.get(NS, "b").value == {"v": "b"}


async def test_a_cancelled_exchange_leaves_its_reply_to_no_other(store, any_server):
    await store.aput(NS, "a", {"v": "a"})
    await store.aput(NS, "b", {"v": "b"})
    (state,) = async_driver_of(store).loops.values()
    with any_server.client() as client:
        client.client_pause(100)
    call = asyncio.create_task(store.aget(NS, "a"))
    # It has sent its command then, and waits for the reply.
    await asyncio.sleep(0.02)
    (task,) = state.tasks
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await store.aget(NS, "b")).value == {"v": "b"}


def test_a_reply_that_was_left_in_a_connection_is_no_later_calls_answer(store):
    store.put(NS, "k", {"v": 1})
    (lane,) = sync_driver_of(store).lanes.free
    lane.connection.send_command("PING")
    lane.connection.can_read(timeout=5)
    assert store.get(NS, "k").value == {"v": 1}


def test_a_closed_store_leaves_no_connection_and_opens_a_new_one_when_used(store, any_server):
    store.put(NS, "k", {"v": 1})
    store.close()
    assert connections(any_server) == []
    assert store.get(NS, "k").value == {"v": 1}
    store.close()
    assert connections(any_server) == []


def test_as_many_connections_as_threads_at_once_and_none_more(store, any_server):
    ready = threading.Barrier(4)

    def work(name: str) -> None:
        ready.wait()
        for at in range(50):
            store.put(NS, name, {"at": at})
            assert store.get(NS, name).value == {"at": at}

    for _ in range(3):
        threads = [threading.Thread(target=work, args=(str(at),)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 1 <= len(connections(any_server)) <= 4
