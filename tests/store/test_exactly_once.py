"""A lost reply makes redis-py send a pipeline again: every operation takes effect exactly once all the same."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from langgraph.store.base import GetOp, PutOp
from redis.backoff import ConstantBackoff, NoBackoff
from redis.retry import Retry

from langgraph_forgetful_store import CorruptRecordError, ForgetfulStore
from langgraph_forgetful_store.backend.keys import encode_namespace, store_prefix
from langgraph_forgetful_store.testing import check_keys
from langgraph_forgetful_store.testing.internals import sync_driver_of
from tests.support.lossy_proxy import Loss, Proxy

pytestmark = pytest.mark.exhaustive

NS = ("users", "alice")
LOSSES = ("request", "reply", "half")
RETRIES = 12


class Setting:
    """A store behind a proxy, another one that is not, and what lies in Redis."""

    def __init__(self, maker: Any, proxy: Proxy) -> None:
        self.proxy = proxy
        self.maker = maker
        self.prefix = store_prefix(maker.key_prefix)

    def behind_proxy(self, **settings: Any) -> ForgetfulStore:
        template = redis.Redis(unix_socket_path=self.proxy.address, retry=Retry(NoBackoff(), RETRIES))
        store = ForgetfulStore(template, **{"key_prefix": self.maker.key_prefix, **settings})
        store.setup()
        return store

    def direct(self, **settings: Any) -> ForgetfulStore:
        return self.maker(**settings)

    def ask(self, *command: Any) -> Any:
        with self.maker.server.client() as client:
            return client.execute_command(*command)

    @property
    def number(self) -> int:
        """How many changes of rows there have been."""
        return int(self.ask("GET", self.prefix + b"seq") or 0)


@pytest.fixture
def proxied(make_any_store: Any) -> Iterator[Setting]:
    proxy = Proxy(make_any_store.server.socket_path)
    yield Setting(make_any_store, proxy)
    proxy.close()


@pytest.fixture
def behind(proxied: Setting, face: Any) -> Iterator[Callable[..., Any]]:
    """Makes the sync or the async side of a store that is behind the proxy."""
    stores: list[ForgetfulStore] = []

    def make(**settings: Any) -> Any:
        stores.append(proxied.behind_proxy(**settings))
        return face(stores[-1])

    yield make
    for store in stores:
        store.close()


def version(store: Any, key: str, namespace: tuple[str, ...] = NS) -> int:
    return store.get(namespace, key).memory.version


@pytest.mark.parametrize("loss", LOSSES)
def test_a_put_whose_reply_was_lost_counts_once(proxied: Setting, behind: Any, loss: str) -> None:
    store = behind()
    for expected in (1, 2, 3):
        proxied.proxy.lose(loss, times=2)
        store.put(NS, "k", {"v": expected})
        assert (store.get(NS, "k").value, version(store, "k")) == ({"v": expected}, expected)
        assert proxied.number == expected
    assert len(proxied.proxy.seen) >= 9


@pytest.mark.parametrize("loss", LOSSES)
def test_a_delete_whose_reply_was_lost_counts_once(proxied: Setting, behind: Any, loss: str) -> None:
    store = behind()
    store.put(NS, "k", {"v": 1})
    proxied.proxy.lose(loss, times=2)
    store.delete(NS, "k")
    assert (store.get(NS, "k"), proxied.number) == (None, 2)
    proxied.proxy.lose(loss, times=2)
    store.delete(NS, "absent")
    assert proxied.number == 2


@pytest.mark.parametrize("loss", LOSSES)
def test_a_batch_of_many_calls_whose_reply_was_lost_counts_once(proxied: Setting, behind: Any, loss: str) -> None:
    store = behind()
    store.batch([PutOp(NS, f"old{i}", {"v": i}) for i in range(700)])
    store.batch([PutOp(NS, f"k{i}", {"v": i}) for i in range(300)])
    ops = [PutOp(NS, f"k{i}", {"w": i}) for i in range(1200)] + [PutOp(NS, f"old{i}", None) for i in range(700)]
    proxied.proxy.lose(loss, at=1, times=3)
    results = store.batch([GetOp(NS, "k0"), *ops, GetOp(NS, "old699")])
    assert [results[0].value, *results[1:-1], results[-1].value] == [{"v": 0}, *[None] * 1900, {"v": 699}]
    assert len(proxied.proxy.seen) >= 2 + 1 + 4
    assert proxied.number == 1000 + 1900
    items = proxied.direct().batch([GetOp(NS, f"k{i}") for i in range(1200)])
    assert [item.memory.version for item in items] == [2] * 300 + [1] * 900
    assert [item.key for item in store.search(NS, limit=3)] == ["k1199", "k1198", "k1197"]
    assert proxied.maker.keys()["rows"] == 1200


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_sweep_whose_reply_was_lost_counts_every_row_once(
    proxied: Setting, behind: Any, clock: Any, loss: str, at: int
) -> None:
    store = behind(clock=clock)
    store.batch([PutOp((f"n{i % 3}",), f"k{i}", {}, ttl=1) for i in range(1200)])
    store.put(NS, "stays", {})
    clock.advance(minutes=1)
    proxied.proxy.lose(loss, at=at, times=2)
    assert store.sweep_ttl() == 1200
    assert store.sweep_ttl() == 0
    assert proxied.number == 2401
    assert proxied.maker.keys() == {"rows": 1, "expiring": 0, "namespaces": 1}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_refreshing_get_whose_reply_was_lost_slides_the_ttl_once(
    proxied: Setting, behind: Any, clock: Any, loss: str
) -> None:
    store = behind(clock=clock)
    store.put(NS, "k", {"v": 1}, ttl=10)
    clock.advance(minutes=5)
    proxied.proxy.lose(loss, times=2, then=lambda: clock.advance(minutes=1))
    item = store.get(NS, "k")
    # The time of an operation is taken when it starts, whatever its repetitions take.
    assert (item.value, item.memory.version) == ({"v": 1}, 1)
    assert item.memory.expires_at.timestamp() * 1000 == clock.now + 9 * 60_000
    assert proxied.number == 1
    assert proxied.direct(clock=clock).get(NS, "k", refresh_ttl=False).memory.expires_at == item.memory.expires_at


@pytest.mark.parametrize("loss", ["reply", "half"])
def test_a_repeated_put_does_not_undo_a_put_that_came_between(proxied: Setting, behind: Any, loss: str) -> None:
    store, other = behind(), proxied.direct()
    proxied.proxy.lose(loss, then=lambda: other.put(NS, "k", {"by": "other"}))
    store.put(NS, "k", {"by": "store"})
    assert (other.get(NS, "k").value, version(other, "k"), proxied.number) == ({"by": "other"}, 2, 2)


@pytest.mark.parametrize("loss", ["reply", "half"])
def test_a_repeated_put_does_not_bring_back_what_was_deleted_between(proxied: Setting, behind: Any, loss: str) -> None:
    store, other = behind(), proxied.direct()
    proxied.proxy.lose(loss, then=lambda: other.delete(NS, "k"))
    store.put(NS, "k", {"by": "store"})
    assert (other.get(NS, "k"), proxied.number) == (None, 2)


@pytest.mark.parametrize("loss", ["reply", "half"])
def test_a_repeated_delete_does_not_take_a_put_that_came_between(proxied: Setting, behind: Any, loss: str) -> None:
    store, other = behind(), proxied.direct()
    store.put(NS, "k", {"by": "store"})
    proxied.proxy.lose(loss, then=lambda: other.put(NS, "k", {"by": "other"}))
    store.delete(NS, "k")
    assert (other.get(NS, "k").value, version(other, "k"), proxied.number) == ({"by": "other"}, 1, 3)


@pytest.mark.parametrize("loss", ["reply", "half"])
def test_a_repeated_sweep_does_not_count_what_came_between(
    proxied: Setting, behind: Any, clock: Any, loss: str
) -> None:
    store, other = behind(clock=clock), proxied.direct(clock=clock)
    store.batch([PutOp(NS, f"k{i}", {}, ttl=1) for i in range(5)])
    clock.advance(minutes=2)

    def meanwhile() -> None:
        other.put(NS, "k0", {"by": "other"})
        other.put(NS, "expired already", {}, ttl=0)

    proxied.proxy.lose(loss, then=meanwhile)
    assert store.sweep_ttl() == 5
    assert (other.get(NS, "k0").value, version(other, "k0")) == ({"by": "other"}, 1)
    assert store.sweep_ttl() == 1


@pytest.mark.parametrize("loss", ["reply", "half"])
def test_a_repeated_refresh_leaves_a_put_that_came_between_as_it_is(
    proxied: Setting, behind: Any, clock: Any, loss: str
) -> None:
    store, other = behind(clock=clock), proxied.direct(clock=clock)
    store.put(NS, "k", {"v": 1}, ttl=10)
    clock.advance(minutes=5)
    proxied.proxy.lose(loss, then=lambda: other.put(NS, "k", {"v": 2}))
    item = store.get(NS, "k")
    assert (item.value, item.memory.expires_at) == ({"v": 2}, None)
    assert other.get(NS, "k", refresh_ttl=False).memory == item.memory


def test_a_request_that_arrives_after_its_repetition_does_nothing(proxied: Setting, behind: Any) -> None:
    store, other = behind(), proxied.direct()
    proxied.proxy.lose("late")
    store.put(NS, "k", {"v": 1})
    other.put(NS, "k", {"v": 2})
    proxied.proxy.release()
    assert (other.get(NS, "k").value, proxied.number) == ({"v": 2}, 2)
    proxied.proxy.lose("late")
    store.delete(NS, "k")
    store.put(NS, "k", {"v": 3})
    proxied.proxy.release()
    assert (other.get(NS, "k").value, version(other, "k"), proxied.number) == ({"v": 3}, 1, 4)


def poison(proxied: Setting, namespace: tuple[str, ...]) -> bytes:
    """Make every write to a namespace fail; returns the key that does it."""
    key = proxied.prefix + b"v:" + encode_namespace(namespace)
    proxied.ask("SET", key, "foreign")
    return key


@pytest.mark.parametrize("loss", LOSSES)
def test_what_failed_beside_what_succeeded_still_fails_when_it_is_repeated(
    proxied: Setting, behind: Any, loss: str
) -> None:
    store = behind()
    store.put(NS, "gone", {})
    bad = poison(proxied, ("bad",))
    proxied.proxy.lose(loss, times=2)
    rows = [PutOp(("bad",), f"k{i}", {}) for i in range(500)]
    with pytest.raises(CorruptRecordError, match=r"\(2 of the batch's 502 writes were made\)"):
        store.batch([*rows, PutOp(NS, "good", {}), PutOp(NS, "gone", None)])
    assert (version(store, "good"), store.get(NS, "gone"), proxied.number) == (1, None, 3)
    proxied.ask("DEL", bad)


@pytest.mark.parametrize("loss", LOSSES)
async def test_callers_that_share_a_pipeline_each_get_their_own_result_when_it_is_repeated(
    proxied: Setting, clock: Any, loss: str
) -> None:
    async with proxied.behind_proxy(clock=clock) as store:
        await store.abatch([PutOp(NS, f"old{i}", {}, ttl=1) for i in range(600)])
        clock.advance(minutes=1)
        bad = poison(proxied, ("bad",))
        proxied.proxy.lose(loss, times=2)
        swept, refused, put, deleted, also_swept = await asyncio.gather(
            store.asweep_ttl(),
            store.aput(("bad",), "k", {}),
            store.aput(NS, "k", {"v": 1}),
            store.adelete(NS, "absent"),
            store.asweep_ttl(),
            return_exceptions=True,
        )
        assert swept + also_swept == 600
        assert isinstance(refused, CorruptRecordError)
        assert (put, deleted) == (None, None)
        assert version(proxied.direct(clock=clock), "k") == 1
        assert proxied.number == 1201
        proxied.ask("DEL", bad)


@pytest.mark.parametrize("loss", ["reply", "half"])
def test_a_script_that_is_lost_together_with_the_reply_is_not_run_again(
    proxied: Setting, behind: Any, loss: str
) -> None:
    store, other = behind(), proxied.direct()
    store.put(NS, "k", {"v": 1})

    def meanwhile() -> None:
        other.put(NS, "k", {"by": "other"})
        proxied.ask("SCRIPT", "FLUSH")

    proxied.proxy.lose(loss, then=meanwhile)
    store.put(NS, "k", {"v": 2})
    assert [commands[0][0] for commands in proxied.proxy.seen[-3:]] == [b"EVALSHA", b"EVALSHA", b"EVAL"]
    assert (other.get(NS, "k").value, version(other, "k"), proxied.number) == ({"by": "other"}, 3, 3)


async def test_scripts_that_are_lost_after_every_single_command_hinder_no_pipeline(proxied: Setting) -> None:
    async with proxied.behind_proxy() as store:
        await store.aput(NS, "first", {})
        proxied.proxy.between = lambda: proxied.ask("SCRIPT", "FLUSH")
        await asyncio.gather(*(store.aput(NS, f"k{i}", {}) for i in range(12)), store.adelete(NS, "first"))
        items = await store.abatch([GetOp(NS, f"k{i}") for i in range(12)])
        assert [item.memory.version for item in items] == [1] * 12
        assert proxied.number == 14


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_reply_to_the_call_that_loads_a_script_changes_nothing(proxied: Setting, behind: Any, loss: str) -> None:
    store = behind()
    proxied.ask("SCRIPT", "FLUSH")
    proxied.proxy.lose(loss, at=1, times=2, then=lambda: proxied.ask("SCRIPT", "FLUSH"))
    store.batch([PutOp(NS, f"k{i}", {}) for i in range(1200)])
    assert [commands[0][0] for commands in proxied.proxy.seen[-4:]] == [b"EVALSHA", b"EVAL", b"EVAL", b"EVAL"]
    assert proxied.number == 1200
    items = proxied.direct().batch([GetOp(NS, f"k{i}") for i in range(1200)])
    assert {item.memory.version for item in items} == {1}


def test_a_server_that_answers_too_late_has_carried_out_each_call_once(launch: Any, open_store: Any, face: Any) -> None:
    server = launch("valkey-9.1")
    impatient = redis.Redis(
        unix_socket_path=server.socket_path, socket_timeout=0.05, retry=Retry(ConstantBackoff(0.01), 100)
    )
    side = face(open_store(impatient))
    side.put(NS, "k", {"turn": 0})
    for turn in range(1, 4):
        # Its requests wait in the sockets of connections that the client gives up, and all are read later.
        server.pause()
        waking = threading.Timer(0.3, server.resume)
        waking.start()
        side.put(NS, "k", {"turn": turn})
        waking.join()
        assert (side.get(NS, "k").value, version(side, "k")) == ({"turn": turn}, turn + 1)
    side.delete(NS, "k")
    assert check_keys(server.client()) == {"rows": 0, "expiring": 0, "namespaces": 0}


def lossy(proxy: Proxy, seed: int) -> None:
    """Lose a fifth of all pipelines, in every way."""
    dice = random.Random(seed)
    proxy.fate = lambda commands: Loss(dice.choice(LOSSES)) if dice.random() < 0.2 else None


THREADS, PUTS = 8, 100


def test_threads_that_lose_a_fifth_of_all_replies_count_every_put_once(proxied: Setting) -> None:
    store = proxied.behind_proxy(ttl={"refresh_on_read": False}, track_access=False)
    lossy(proxied.proxy, 1)
    barrier = threading.Barrier(THREADS)

    def work(thread: int) -> None:
        barrier.wait()
        for i in range(PUTS):
            # Forty keys of its own, twenty of them put again; and one that all threads put.
            key = f"{thread}-{i % 40}" if i < 60 else "shared"
            store.put(NS, key, {"v": i})
            assert store.get(NS, key).memory.version == (1 if i < 40 else 2) or key == "shared"

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    assert proxied.number == THREADS * PUTS
    rows = {item.key: item.memory.version for item in proxied.direct().search(NS, limit=1000)}
    expected = {f"{thread}-{i}": 2 if i < 20 else 1 for thread in range(THREADS) for i in range(40)}
    assert rows == {**expected, "shared": THREADS * 40}
    proxied.proxy.fate = lambda commands: None
    assert len(sync_driver_of(store).lanes.free) <= THREADS
    store.close()


async def test_tasks_that_share_pipelines_and_lose_a_fifth_of_all_replies_count_every_put_once(
    proxied: Setting,
) -> None:
    async with proxied.behind_proxy() as store:
        lossy(proxied.proxy, 2)
        for turn in range(40):
            puts = [store.aput(NS, f"k{i}", {"turn": turn}) for i in range(30)]
            await asyncio.gather(*puts, store.aput(NS, f"once{turn}", {}), store.adelete(NS, f"once{turn - 1}"))
        rows = {item.key: item.memory.version for item in proxied.direct().search(NS, limit=1000)}
        assert rows == {**{f"k{i}": 40 for i in range(30)}, "once39": 1}
        assert proxied.number == 40 * 30 + 40 + 39


async def test_the_records_of_lanes_are_dropped_some_time_after_their_last_use(proxied: Setting, clock: Any) -> None:
    async def put_together(count: int) -> int:
        async with proxied.direct(clock=clock) as store:
            await asyncio.gather(*(store.aput(NS, f"k{i}", {}) for i in range(count)))
        return proxied.ask("HLEN", proxied.prefix + b"ops")

    assert await put_together(1200) == 1200
    clock.advance(minutes=9)
    assert await put_together(600) == 1800
    clock.advance(minutes=2)
    # The oldest 1,200 have not been used for 11 minutes: so many of them go that no more than 1,024 are left in all.
    assert 800 <= await put_together(200) <= 1024
