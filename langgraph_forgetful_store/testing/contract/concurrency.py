"""Threads, event loops, cancellation, and callers that fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp, SearchOp

from langgraph_forgetful_store.testing.contract.base import NS, Section, keys
from langgraph_forgetful_store.testing.contract.embedders import PlannedEmbeddings, index

THREADS = 8
MakeStore = Callable[..., Any]


async def put_and_get(store: Any, key: str) -> Any:
    """Put a value, get it back, and return it."""
    await store.aput(NS, key, {"v": key})
    return (await store.aget(NS, key)).value["v"]


class Poisoned(PlannedEmbeddings):
    """Fails for one text."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts, unless one of them is poison."""
        if "poison" in texts:
            raise RuntimeError("poison")
        return super().embed_documents(texts)


class ConcurrencyContract(Section):
    """Contract 41, 42."""

    def test_sync_methods_work_from_any_thread(self, make_store: MakeStore) -> None:
        """Contract 41."""
        store = make_store()
        together = threading.Barrier(THREADS)

        def work(who: int) -> Any:
            together.wait()
            for at in range(10):
                store.put((*NS, str(who)), str(at), {"v": at})
                assert store.get((*NS, str(who)), str(at)).value == {"v": at}
            return sorted(keys(store.search((*NS, str(who)))))

        with ThreadPoolExecutor(THREADS) as pool:
            assert list(pool.map(work, range(THREADS))) == [[str(at) for at in range(10)]] * THREADS
        assert len(store.search(NS, limit=1000)) == THREADS * 10

    def test_one_fresh_key_written_by_many_threads_is_one_item(self, make_store: MakeStore) -> None:
        """Contract 41."""
        store = make_store()
        together = threading.Barrier(THREADS)

        def work(who: int) -> None:
            together.wait()
            store.put(NS, "k", {"who": who})

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
        (item,) = store.search(NS)
        assert item.value == store.get(NS, "k").value
        store.delete(NS, "k")
        assert store.search(NS) == []

    def test_sync_methods_work_under_a_running_loop(self, make_store: MakeStore) -> None:
        """Contract 41."""
        store = make_store()

        async def main() -> None:
            store.put(NS, "k", {"v": 1})
            assert store.get(NS, "k").value == {"v": 1}
            assert (await store.aget(NS, "k")).value == {"v": 1}
            assert (await asyncio.to_thread(store.get, NS, "k")).value == {"v": 1}
            store.batch([PutOp(NS, "k", None)])

        asyncio.run(main())
        assert store.get(NS, "k") is None

    def test_async_methods_work_from_one_loop_after_another(self, make_store: MakeStore) -> None:
        """Contract 41: the loops before are closed."""
        store = make_store()
        for at in range(3):
            assert asyncio.run(put_and_get(store, str(at))) == str(at)
            assert store.get(NS, str(at)).value == {"v": str(at)}
        assert len(store.search(NS)) == 3

    def test_async_methods_work_from_several_loops_at_once(self, make_store: MakeStore) -> None:
        """Contract 41."""
        store = make_store()
        together = threading.Barrier(4)

        def loop(who: int) -> Any:
            async def main() -> Any:
                together.wait()
                return await asyncio.gather(*(put_and_get(store, f"{who}-{at}") for at in range(10)))

            return asyncio.run(main())

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(loop, range(4)))
        assert results == [[f"{who}-{at}" for at in range(10)] for who in range(4)]
        assert len(store.search(NS, limit=100)) == 40

    def test_a_loop_that_outlives_another_goes_on(self, make_store: MakeStore) -> None:
        """Contract 41."""
        store = make_store()
        with asyncio.Runner() as outer:
            assert outer.run(put_and_get(store, "a")) == "a"
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(lambda: asyncio.run(put_and_get(store, "b"))).result() == "b"
            assert outer.run(put_and_get(store, "c")) == "c"
        assert sorted(keys(store.search(NS))) == ["a", "b", "c"]

    def test_many_calls_of_one_tick_each_get_their_own_result(self, make_store: MakeStore) -> None:
        """Contract 41."""
        store = make_store()

        async def main() -> None:
            await asyncio.gather(*(store.aput(NS, str(at), {"v": at}) for at in range(300)))
            items = await asyncio.gather(*(store.aget(NS, str(at)) for at in range(301)))
            assert [item.value["v"] for item in items[:300]] == list(range(300))
            assert items[300] is None
            found, listed, absent = await asyncio.gather(
                store.asearch(NS, filter={"v": {"$gte": 298}}), store.alist_namespaces(), store.aget(("x",), "k")
            )
            assert sorted(keys(found)) == ["298", "299"]
            assert (listed, absent) == ([NS], None)

        asyncio.run(main())

    def test_a_cancelled_caller_breaks_no_other_call(self, make_store: MakeStore) -> None:
        """Contract 42: cancelled before it starts and a few turns of the loop later."""
        store = make_store()

        async def main(turns: int) -> None:
            for round_ in range(5):
                doomed = [asyncio.create_task(store.aget(NS, "k")), asyncio.create_task(store.asearch(NS))]
                names = [f"{turns}-{round_}-{at}" for at in range(5)]
                others = [asyncio.create_task(put_and_get(store, name)) for name in names]
                for _ in range(turns):
                    await asyncio.sleep(0)
                for task in doomed:
                    task.cancel()
                assert await asyncio.gather(*others) == names
                await asyncio.gather(*doomed, return_exceptions=True)
                assert (await store.aget(NS, "k")).value == {"v": 0}

        store.put(NS, "k", {"v": 0})
        for turns in range(6):
            asyncio.run(main(turns))
        assert len(store.search(NS, limit=1000)) == 151
        assert asyncio.run(put_and_get(store, "later")) == "later"

    def test_a_caller_that_times_out_breaks_no_later_call(self, make_store: MakeStore) -> None:
        """Contract 42."""
        store = make_store()

        async def main() -> None:
            for at in range(10):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(store.asearch(NS), timeout=0)
                assert await put_and_get(store, str(at)) == str(at)

        asyncio.run(main())
        assert len(store.search(NS)) == 10

    def test_one_failing_caller_fails_no_other(self, make_store: MakeStore) -> None:
        """Contract 42: all in one turn of the event loop."""
        store = make_store()

        async def main() -> None:
            results = await asyncio.gather(
                store.aput(NS, "a", {"v": 1}),
                store.aput(("no.label",), "b", {"v": 1}),
                store.abatch([PutOp(NS, "c", {"v": 1}), "no op"]),
                store.abatch([PutOp(NS, "d", {"v": 1}), GetOp(NS, "a")]),
                store.asearch(NS, filter={"v": {"$gt": 0}}),
                return_exceptions=True,
            )
            assert [type(result) for result in results] == [type(None), InvalidNamespaceError, ValueError, list, list]

        asyncio.run(main())
        assert sorted(keys(store.search(NS))) == ["a", "d"]

    def test_a_text_that_cannot_be_embedded_fails_only_its_own_caller(self, make_store: MakeStore) -> None:
        """Contract 42: though callers of one turn of the loop may share the call of the embedder."""
        store = make_store(index=index(Poisoned()))

        async def main() -> None:
            results = await asyncio.gather(
                *(store.aput(NS, text, {"text": text}) for text in ("tea", "poison", "coffee")),
                store.abatch([SearchOp(NS, query="poison")]),
                return_exceptions=True,
            )
            assert [type(result) for result in results] == [type(None), RuntimeError, type(None), list]

        asyncio.run(main())
        assert sorted(keys(store.search(NS))) == ["coffee", "tea"]
        assert store.search(NS, query="tea")[0].key == "tea"

    def test_every_sync_method_has_an_async_twin(self, make_store: MakeStore) -> None:
        """Contract 46."""
        store = make_store()
        for name in ("get", "put", "search", "delete", "list_namespaces", "batch"):
            assert asyncio.iscoroutinefunction(getattr(store, f"a{name}"))
