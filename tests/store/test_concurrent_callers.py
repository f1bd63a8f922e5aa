"""Contract 42: callers of one event loop share round trips, and nothing else: neither errors nor cancellations."""

from __future__ import annotations

import asyncio

import pytest
from langgraph.store.base import GetOp, PutOp

from langgraph_forgetful_store.testing import WordEmbeddings

pytestmark = pytest.mark.exhaustive

NS = ("callers",)


class StepEmbeddings(WordEmbeddings):
    """Embeds in several turns of the event loop, and counts the calls in which it is and was."""

    def __init__(self):
        super().__init__(dims=4)
        self.inside = 0
        self.done = 0

    async def aembed_documents(self, texts):
        self.inside += 1
        try:
            for _ in range(3):
                await asyncio.sleep(0)
        finally:
            self.inside -= 1
        self.done += 1
        return self.embed_documents(texts)

    async def aembed_query(self, text):
        return (await self.aembed_documents([text]))[0]


class GatedEmbeddings(WordEmbeddings):
    """Embeds no document before its gate is opened."""

    def __init__(self):
        super().__init__(dims=4)
        self.gate = asyncio.Event()

    async def aembed_documents(self, texts):
        await self.gate.wait()
        return self.embed_documents(texts)


class PoisonedEmbeddings(WordEmbeddings):
    """Refuses every call in which a text speaks of poison."""

    def __init__(self):
        super().__init__(dims=4)

    async def aembed_documents(self, texts):
        if any("poison" in text for text in texts):
            raise RuntimeError("poisoned")
        return self.embed_documents(texts)

    async def aembed_query(self, text):
        return (await self.aembed_documents([text]))[0]


def index(embeddings):
    return {"dims": embeddings.dims, "embed": embeddings}


CALLS = {
    "put": lambda store: store.aput(NS, "cancelled", {"text": "new words"}),
    "get": lambda store: store.aget(NS, "k1"),
    "search": lambda store: store.asearch(NS, query="some words"),
    "list": lambda store: store.alist_namespaces(),
    "delete": lambda store: store.adelete(NS, "absent"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_cancelled_at_any_point_breaks_no_later_call(make_any_store, name):
    embeddings = StepEmbeddings()
    async with make_any_store(index=index(embeddings)) as store:
        for at in range(8):
            await store.aput(NS, f"k{at}", {"at": at})
        phases = set()
        for turns in range(400):
            done_before = embeddings.done
            task = asyncio.create_task(CALLS[name](store))
            for _ in range(turns):
                await asyncio.sleep(0)
            started = "unstarted" if turns == 0 else "embedding" if embeddings.inside else "sending"
            if not task.cancel():
                phases.add("finished")
                task.result()
                break
            phases.add(started if started != "sending" or embeddings.done > done_before else "waiting")
            with pytest.raises(asyncio.CancelledError):
                await task
            found = await asyncio.gather(*(store.aget(NS, f"k{at}") for at in range(8)))
            assert [item.value for item in found] == [{"at": at} for at in range(8)]
        embeds = {"embedding", "sending"} if name in {"put", "search"} else set()
        assert phases == {"unstarted", "waiting", "finished"} | embeds
        assert len(await store.asearch(NS, limit=100)) in {8, 9}


async def test_a_cancelled_caller_takes_no_other_one_along(make_any_store):
    async with make_any_store(index=index(StepEmbeddings())) as store:
        for turns in range(12):
            tasks = [asyncio.create_task(store.aput(NS, f"{turns}-{at}", {"at": at})) for at in range(10)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in tasks[::3]:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            kept = [at for at, outcome in enumerate(outcomes) if outcome is None]
            assert set(kept) >= {1, 2, 4, 5, 7, 8}
            for at in kept:
                assert (await store.aget(NS, f"{turns}-{at}")).value == {"at": at}


async def test_a_caller_cancelled_before_its_turn_writes_nothing(make_any_store):
    async with make_any_store() as store:
        task = asyncio.create_task(store.aput(NS, "k", {}))
        other = asyncio.create_task(store.aput(NS, "other", {}))
        await asyncio.sleep(0)
        task.cancel()
        await other
        assert [item.key for item in await store.asearch(NS)] == ["other"]


@pytest.mark.parametrize("name", CALLS)
async def test_cancelling_every_task_of_the_loop_breaks_no_later_call(make_any_store, name):
    async with make_any_store(index=index(StepEmbeddings())) as store:
        for at in range(8):
            await store.aput(NS, f"k{at}", {"at": at})
        for turns in range(30):
            call = asyncio.create_task(CALLS[name](store))
            for _ in range(turns):
                await asyncio.sleep(0)
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.wait({call, *tasks})
            found = await asyncio.gather(*(store.aget(NS, f"k{at}") for at in range(8)))
            assert [item.value for item in found] == [{"at": at} for at in range(8)]


async def test_calls_that_time_out_leave_the_connections_usable(make_any_store):
    async with make_any_store() as store:
        await store.aput(NS, "k", {"x": 1})
        for attempt in range(40):
            try:
                async with asyncio.timeout(attempt * 0.00005):
                    await asyncio.gather(*(store.aput(NS, f"{at}", {"at": at}) for at in range(20)))
            except TimeoutError:
                pass
            assert (await store.aget(NS, "k")).value == {"x": 1}


async def test_a_text_that_cannot_be_embedded_fails_its_own_caller_alone(make_any_store):
    embeddings = PoisonedEmbeddings()
    async with make_any_store(index=index(embeddings)) as store:
        await store.aput(NS, "old", {"text": "before"})
        outcomes = await asyncio.gather(
            *(store.aput(NS, str(at), {"text": "poison" if at == 3 else f"word {at}"}) for at in range(6)),
            store.asearch(NS, query="before"),
            store.asearch(NS, query="poison"),
            store.abatch([PutOp(NS, "in batch", {"text": "poison"}), PutOp(NS, "beside it", {"text": "fine"})]),
            store.aget(NS, "old"),
            return_exceptions=True,
        )
        failed = [at for at, outcome in enumerate(outcomes) if isinstance(outcome, RuntimeError)]
        assert failed == [3, 7, 8]
        assert outcomes[6][0].score is not None
        assert outcomes[9].value == {"text": "before"}
        assert sorted(item.key for item in await store.asearch(NS)) == ["0", "1", "2", "4", "5", "old"]


async def test_a_refused_op_fails_its_own_caller_alone(make_any_store):
    async with make_any_store() as store:
        outcomes = await asyncio.gather(
            store.aput(NS, "a", {"x": 1}),
            store.aput(NS, "b", {"x": {1, 2}}),
            store.asearch(NS, filter={"x": {"$near": 1}}),
            store.aget(("dotted.label",), "k"),
            store.abatch([GetOp(NS, "a"), "no op"]),
            store.aput(NS, "c", {"x": 3}),
            return_exceptions=True,
        )
        assert [type(outcome).__name__ for outcome in outcomes] == [
            "NoneType", "TypeError", "ValueError", "InvalidNamespaceError", "ValueError", "NoneType",
        ]  # fmt: skip
        assert [item.key for item in await store.asearch(NS)] == ["c", "a"]


async def test_what_the_server_refuses_fails_its_own_caller_alone(make_any_store):
    async with make_any_store() as store:
        await store.aput(("good",), "k", {})
        with make_any_store.server.client() as client:
            client.set(f"{make_any_store.key_prefix}:{{0}}:m:bad\0\1", "no hash")
            outcomes = await asyncio.gather(
                store.aput(("good",), "k", {"x": 1}),
                store.aget(("bad",), "k"),
                store.aget(("good",), "k"),
                return_exceptions=True,
            )
            client.delete(f"{make_any_store.key_prefix}:{{0}}:m:bad\0\1")
        assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, False]
        assert "WRONGTYPE" in str(outcomes[1])


async def test_a_reader_does_not_wait_for_the_embedder_of_another_caller(make_any_store):
    embeddings = GatedEmbeddings()
    async with make_any_store(index=index(embeddings)) as store:
        # With a TTL, so that the filtered search takes a second round trip to slide it.
        await store.aput(NS, "k", {"x": 1}, index=False, ttl=10)
        slow = asyncio.create_task(store.aput(NS, "slow", {"text": "words"}))
        fast = [
            store.aget(NS, "k"),
            store.asearch(NS, filter={"x": 1}),
            store.alist_namespaces(),
            store.aput(NS, "plain", {"x": 2}, index=False),
        ]
        async with asyncio.timeout(30):
            item, found, namespaces, _ = await asyncio.gather(*fast)
            assert (await store.aget(NS, "plain")).value == {"x": 2}
        assert item.value == {"x": 1}
        assert [one.key for one in found] == ["k"]
        assert namespaces == [NS]
        assert not slow.done()
        embeddings.gate.set()
        await slow
        assert (await store.aget(NS, "slow")).value == {"text": "words"}


async def test_a_thousand_puts_of_one_tick_take_a_few_round_trips(make_any_store):
    embeddings = WordEmbeddings(dims=4)
    async with make_any_store(index=index(embeddings)) as store:
        await store.aput(NS, "warm", {})
        embeddings.calls.clear()
        with make_any_store.server.client() as client:

            def stats():
                info = client.info("stats")
                return info["total_reads_processed"], info["total_connections_received"]

            reads, connections = stats()
            await asyncio.gather(*(store.aput(NS, str(at), {"at": at}) for at in range(1000)))
            reads_after, connections_after = stats()
        # The server reads 16 kB at a time, so a round trip of many puts is several reads.
        assert reads_after - reads < 60
        assert connections_after == connections
        assert [len(texts) for texts in embeddings.calls] == [1000]
        assert len(await store.asearch(NS, limit=2000)) == 1001


async def test_reads_and_writes_of_one_tick_each_get_their_own_answer(make_any_store):
    async with make_any_store() as store:
        for at in range(50):
            await store.aput((*NS, str(at % 5)), str(at), {"at": at})
        answers = await asyncio.gather(
            *(store.aget((*NS, str(at % 5)), str(at)) for at in range(50)),
            *(store.asearch((*NS, str(part)), limit=20) for part in range(5)),
            *(store.aput((*NS, "new"), str(at), {"at": at}) for at in range(50)),
            store.alist_namespaces(prefix=NS, suffix=("3",)),
        )
        assert [item.value["at"] for item in answers[:50]] == list(range(50))
        assert [{item.value["at"] % 5 for item in found} for found in answers[50:55]] == [{part} for part in range(5)]
        assert answers[55:105] == [None] * 50
        assert answers[105] == [(*NS, "3")]
        assert len(await store.asearch((*NS, "new"), limit=100)) == 50
