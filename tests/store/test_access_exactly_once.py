"""Counts of accesses are exact with many readers at once, and when requests and replies are lost."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from langgraph.store.base import GetOp, PutOp
from redis.backoff import NoBackoff
from redis.retry import Retry

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.backend.keys import encode_namespace, store_prefix
from langgraph_forgetful_store.operations import access
from tests.store.test_access import INDEX, NS, listed
from tests.support.lossy_proxy import Loss, Proxy

pytestmark = pytest.mark.exhaustive

TASKS, READS = 50, 100


def lossy(proxy: Proxy, seed: int) -> None:
    """Lose a fifth of all pipelines, in every way."""
    dice = random.Random(seed)
    proxy.fate = lambda commands: Loss(dice.choice(["request", "reply", "half"])) if dice.random() < 0.2 else None


@pytest.fixture
def proxy(make_any_store: Any) -> Iterator[Proxy]:
    made = Proxy(make_any_store.server.socket_path)
    yield made
    made.close()


@pytest.fixture
def behind(proxy: Proxy, make_any_store: Any) -> Iterator[Callable[..., ForgetfulStore]]:
    """Makes a store behind the proxy, whose client sends again so many times."""
    stores: list[ForgetfulStore] = []

    def make(retries: int = 12, **settings: Any) -> ForgetfulStore:
        template = redis.Redis(unix_socket_path=proxy.address, retry=Retry(NoBackoff(), retries))
        stores.append(ForgetfulStore(template, key_prefix=make_any_store.key_prefix, **settings))
        stores[-1].setup()
        return stores[-1]

    yield make
    proxy.fate = lambda commands: None
    for store in stores:
        store.close()


@pytest.mark.parametrize("losing", [False, True], ids=["all goes well", "replies are lost"])
async def test_the_counts_of_many_tasks_are_exact(behind, proxy, make_any_store, losing):
    store = behind(index=INDEX)
    await store.aput(NS, "k", {"text": "tea"})
    await store.aput(NS, "other", {"text": "coffee"})
    if losing:
        lossy(proxy, 3)

    async def work(task: int) -> None:
        for at in range(READS):
            if at % 10 == task % 10:
                await store.asearch(NS, query="tea", limit=1)
            else:
                await store.aget(NS, "k")
            if at % 25 == task % 25:
                await store.aflush()

    await asyncio.gather(*(work(task) for task in range(TASKS)))
    await store.aflush()
    assert listed(make_any_store()) == {"other": 0, "k": TASKS * READS}


@pytest.mark.parametrize("losing", [False, True], ids=["all goes well", "replies are lost"])
def test_the_counts_of_many_threads_are_exact(behind, proxy, make_any_store, losing):
    store = behind()
    keys = [f"k{at}" for at in range(5)]
    store.batch([PutOp(NS, key, {}) for key in keys])
    if losing:
        lossy(proxy, 4)
    barrier = threading.Barrier(10)
    failures: list[BaseException] = []

    def work(thread: int) -> None:
        barrier.wait()
        try:
            for at in range(100):
                store.batch([GetOp(NS, keys[thread % 5]), GetOp(NS, keys[at % 5])])
                if at % 20 == thread:
                    store.flush()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    store.flush()
    assert listed(make_any_store()) == dict.fromkeys(reversed(keys), 400)


async def test_sync_and_async_readers_count_together(make_any_store, clock):
    store = make_any_store(clock=clock)
    store.put(NS, "k", {})

    def read() -> None:
        for _ in range(200):
            store.get(NS, "k")

    async def aread() -> None:
        for _ in range(200):
            await store.aget(NS, "k")

    await asyncio.gather(asyncio.to_thread(read), aread(), asyncio.to_thread(read), aread())
    assert listed(store) == {"k": 800}
    await store.aflush()
    assert listed(make_any_store(clock=clock)) == {"k": 800}


@pytest.mark.parametrize("loss", ["request", "reply", "half"])
def test_a_flush_that_fails_loses_nothing_and_counts_nothing_twice(behind, proxy, face, make_any_store, clock, loss):
    store, other = face(behind(retries=0, clock=clock)), make_any_store(clock=clock)
    names = [f"k{at}" for at in range(1200)]
    store.batch([PutOp(NS, name, {}) for name in names])
    store.batch([GetOp(NS, name) for name in names])
    for _ in range(3):
        proxy.lose(loss)
        with pytest.raises(redis.ConnectionError):
            store.flush()
    proxy.fate = lambda commands: None
    # What is read meanwhile waits for its turn.
    store.get(NS, "k7")
    store.flush()
    store.flush()
    expected = {**dict.fromkeys(names, 1), "k7": 2}
    assert listed(other) == listed(store) == expected


def test_a_flush_that_can_be_written_in_part_is_tried_again_with_the_rest(make_any_store, face, clock, monkeypatch):
    monkeypatch.setattr(access, "RETRY_SECONDS", 0.0)
    store, other = face(make_any_store(clock=clock)), make_any_store(clock=clock)
    spaces = [(*NS, str(at)) for at in range(1200)]
    store.batch([PutOp(space, space[-1], {}) for space in spaces])
    store.batch([GetOp(space, space[-1]) for space in spaces])
    log = store_prefix(make_any_store.key_prefix) + b"l:" + encode_namespace(spaces[700])
    with make_any_store.server.client() as client:
        # Something else wrote there, so the rows of this namespace can't be written, among those of many others.
        client.set(log, "x")
        for _ in range(2):
            store.flush()
            assert sum(listed(other).values()) == 1199
        assert set(listed(store).values()) == {1}
        client.delete(log)
    store.flush()
    store.flush()
    assert listed(other) == listed(store) == {space[-1]: 1 for space in spaces}


def test_a_flush_that_arrives_after_all_counts_nothing_twice(behind, proxy, face, make_any_store, clock):
    store, other = face(behind(retries=0, clock=clock)), make_any_store(clock=clock)
    store.put(NS, "k", {})
    store.get(NS, "k")
    proxy.lose("late")
    with pytest.raises(redis.ConnectionError):
        store.flush()
    store.flush()
    store.get(NS, "k")
    store.flush()
    proxy.release()
    assert listed(other) == listed(store) == {"k": 2}


def test_closing_without_a_server_warns_of_what_is_lost_and_ends(behind, proxy, caplog, clock):
    store = behind(retries=0, clock=clock)
    store.put(NS, "k", {})
    store.get(NS, "k")
    proxy.lose("request", times=100)
    store.close()
    assert ["counted accesses were lost on closing" in record.message for record in caplog.records] == [True]
