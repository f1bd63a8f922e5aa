"""Contract 41, 44 and 45 with LangGraph itself: compiled graphs, the functional API, tools and checkpoints."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.config import get_store
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, Item, SearchItem

from langgraph_forgetful_store import Lifecycle, MemoryItem, MemorySearchItem
from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("users", "ada")
INDEX = {"dims": 16, "embed": WordEmbeddings(16)}
OURS = [("langgraph_forgetful_store.model.memory", name) for name in ("MemoryItem", "MemorySearchItem")]


class State(TypedDict, total=False):
    say: str
    heard: list[str]
    items: list[Any]


def remember(state: State, runtime: Runtime) -> State:
    runtime.store.put(NS, state["say"], {"text": state["say"]})
    return {"heard": [item.key for item in runtime.store.search(NS)]}


async def aremember(state: State, *, store: BaseStore) -> State:
    await store.aput(NS, state["say"], {"text": state["say"]})
    return {"heard": [item.key for item in await store.asearch(NS)]}


def either(state: State) -> State:
    get_store().put(NS, state["say"], {"text": state["say"]})
    return {"heard": [item.key for item in get_store().search(NS)]}


def graph_of(node, store, **settings):
    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile(store=store, **settings)


def test_one_store_serves_invoke_and_ainvoke_of_several_graphs(make_any_store):
    store = make_any_store()
    sync, asynchronous, by_config = (graph_of(node, store) for node in (remember, aremember, either))
    assert sync.invoke({"say": "one"})["heard"] == ["one"]
    assert asyncio.run(asynchronous.ainvoke({"say": "two"}))["heard"] == ["two", "one"]
    assert by_config.invoke({"say": "three"})["heard"] == ["three", "two", "one"]
    assert asyncio.run(by_config.ainvoke({"say": "four"}))["heard"] == ["four", "three", "two", "one"]
    assert asyncio.run(sync.ainvoke({"say": "five"}))["heard"] == ["five", "four", "three", "two", "one"]
    assert sync.invoke({"say": "six"})["heard"][0] == "six"


async def test_many_runs_at_once_share_one_store(make_any_store):
    async def node(state: State, runtime: Runtime) -> State:
        await runtime.store.aput(("runs", state["say"]), "k", {"say": state["say"]})
        found = await runtime.store.asearch(("runs", state["say"]))
        return {"heard": [item.value["say"] for item in found]}

    async with make_any_store() as store:
        graph = graph_of(node, store)
        outs = await asyncio.gather(*(graph.ainvoke({"say": str(at)}) for at in range(40)))
        assert [out["heard"] for out in outs] == [[str(at)] for at in range(40)]
        assert len(await store.alist_namespaces(prefix=("runs",))) == 40


async def test_parallel_branches_of_one_run_share_the_store(make_any_store):
    async def branch(state: State, runtime: Runtime) -> None:
        await runtime.store.aput(("branches",), "async", {})

    def sync_branch(state: State, runtime: Runtime) -> None:
        runtime.store.put(("branches",), "sync", {})

    async with make_any_store() as store:
        builder = StateGraph(State).add_node("a", branch).add_node("b", sync_branch)
        await builder.add_edge(START, "a").add_edge(START, "b").compile(store=store).ainvoke({"say": "x"})
        assert {item.key for item in await store.asearch(("branches",))} == {"async", "sync"}


def test_the_functional_api_gets_the_store(make_any_store):
    store = make_any_store()

    @task
    def note(text: str) -> str:
        get_store().put(NS, text, {"text": text})
        return text

    @entrypoint(store=store, checkpointer=InMemorySaver())
    def flow(texts: list[str], *, store: BaseStore, previous: Any = None) -> entrypoint.final:
        for each in [note(text) for text in texts]:
            each.result()
        keys = sorted(item.key for item in store.search(NS))
        return entrypoint.final(value=(previous, keys), save=keys)

    thread = {"configurable": {"thread_id": "1"}}
    assert flow.invoke(["a", "b"], thread) == (None, ["a", "b"])
    assert flow.invoke(["c"], thread) == (["a", "b"], ["a", "b", "c"])


async def test_the_async_functional_api_gets_the_store(make_any_store):
    @task
    async def note(text: str) -> None:
        await get_store().aput(NS, text, {"text": text})

    async with make_any_store() as store:

        @entrypoint(store=store)
        async def flow(texts: list[str], runtime: Runtime) -> list[str]:
            await asyncio.gather(*(note(text) for text in texts))
            return sorted(item.key for item in await runtime.store.asearch(NS))

        assert await flow.ainvoke(["a", "b"]) == ["a", "b"]


@tool
def save(text: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Save a text."""
    store.put(NS, text, {"text": text})
    return f"saved {text}"


@tool
async def recall(query: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Recall texts."""
    return json.dumps([item.value["text"] for item in await store.asearch(NS, query=query, limit=1)])


async def test_tools_get_the_store_injected(make_any_store):
    async with make_any_store(index=INDEX) as store:
        builder = StateGraph(MessagesState).add_node("tools", ToolNode([save, recall])).add_edge(START, "tools")
        graph = builder.compile(store=store)

        async def call(name, **args):
            request = AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1"}])
            return (await graph.ainvoke({"messages": [request]}))["messages"][-1].content

        assert await call("save", text="tea without sugar") == "saved tea without sugar"
        assert await call("save", text="a red bicycle") == "saved a red bicycle"
        assert await call("recall", query="sugar in tea") == '["tea without sugar"]'


@pytest.fixture
def items(make_any_store):
    """An item got, one found by meaning, one found without; of rows that differ in their lives."""
    store = make_any_store(index=INDEX)
    store.put(NS, "plain", {"text": "tea", "deep": {"list": [1, 2.5, None, True], "großes": 2**62}})
    store.put(NS, "timed", {"text": "tea, again"}, ttl=1.5)
    store.put(NS, "timed", {"text": "tea, again and again"}, ttl=1.5)
    found = [store.get(NS, "plain"), store.get(NS, "timed"), *store.search(NS, query="tea"), *store.search(NS)]
    late = Lifecycle(recorded_at=found[0].created_at + timedelta(days=1), access_count=3)
    return [*found, MemoryItem(**{**found[0].dict(), "memory": late})]


def everything(item):
    """All that an item says of itself."""
    return type(item), item, getattr(item, "score", None), item.memory, repr(item), item.dict()


def test_items_survive_the_serializer_of_checkpoints(items):
    serializer = JsonPlusSerializer(allowed_msgpack_modules=OURS)
    assert {type(item) for item in items} == {MemoryItem, MemorySearchItem}
    assert any(item.memory.expires_at for item in items)
    restored = serializer.loads_typed(serializer.dumps_typed(items))
    assert [everything(item) for item in restored] == [everything(item) for item in items]
    again = serializer.loads_typed(serializer.dumps_typed(restored))
    assert [everything(item) for item in again] == [everything(item) for item in items]


def test_items_rebuild_from_their_own_dict_which_is_plain_json(items):
    for item in items:
        plain = json.loads(json.dumps(item.dict(), allow_nan=False))
        assert plain == item.dict()
        assert everything(type(item)(**plain)) == everything(item)
        upstream = Item if type(item) is MemoryItem else SearchItem
        base = {name: value for name, value in plain.items() if name != "memory"}
        assert type(item)(**base) == upstream(**base) == item


def test_items_are_copied_and_pickled_whole(items):
    for item in items:
        for copied in (copy.copy(item), copy.deepcopy(item), pickle.loads(pickle.dumps(item))):
            assert everything(copied) == everything(item)


def test_the_dict_of_an_item_adds_one_small_key(items):
    for item in items:
        upstream = {"namespace", "key", "value", "created_at", "updated_at"}
        assert set(item.dict()) - {"score"} == upstream | {"memory"}
        assert item.dict()["memory"]["status"] == "active"
        assert len(json.dumps(item.dict()["memory"])) < 120


@pytest.mark.parametrize("asynchronous", [False, True])
def test_items_in_the_state_come_back_from_the_checkpoint(make_any_store, asynchronous):
    store = make_any_store(index=INDEX)
    store.put(NS, "tea", {"text": "tea"}, ttl=5)
    got, seen = {}, []

    def collect(state: State, runtime: Runtime) -> State:
        seen.append([everything(item) for item in state.get("items", [])])
        got["items"] = [runtime.store.get(NS, "tea"), *runtime.store.search(NS, query="tea")]
        return {"items": got["items"]}

    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=OURS))
    graph = graph_of(collect, store, checkpointer=saver)
    thread = {"configurable": {"thread_id": "1"}}

    def turn():
        return asyncio.run(graph.ainvoke({"say": "x"}, thread)) if asynchronous else graph.invoke({"say": "x"}, thread)

    turn()
    first = [everything(item) for item in got["items"]]
    assert [everything(item) for item in graph.get_state(thread).values["items"]] == first
    turn()
    assert seen == [[], first]


def test_the_default_checkpointer_also_brings_items_back(make_any_store):
    store = make_any_store()
    store.put(NS, "tea", {"text": "tea"})
    graph = graph_of(
        lambda state: {"items": [get_store().get(NS, "tea"), *get_store().search(NS)]},
        store,
        checkpointer=InMemorySaver(),
    )
    thread = {"configurable": {"thread_id": "1"}}
    items = graph.invoke({"say": "x"}, thread)["items"]
    restored = graph.get_state(thread).values["items"]
    assert [everything(item) for item in restored] == [everything(item) for item in items]


def test_the_store_says_what_it_can(make_any_store):
    ttl = {"default_ttl": 5, "refresh_on_read": False}
    store = make_any_store(ttl=ttl, index=INDEX)
    assert store.supports_ttl is True
    assert store.ttl_config == ttl
    assert {name: store.index_config[name] for name in INDEX} == INDEX
    assert (make_any_store().ttl_config, make_any_store().index_config) == (None, None)
    # The server tests a store's truth, and asks whether it is a BaseStore.
    assert store
    assert isinstance(store, BaseStore)
    assert not hasattr(store, "__len__")
