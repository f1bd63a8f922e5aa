"""Contract 47 with the real langmem: its tools and its store manager over our store, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import uuid
import warnings

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.warnings import LangGraphDeprecatedSinceV10

from langgraph_forgetful_store import MemorySearchItem
from langgraph_forgetful_store.testing import WordEmbeddings
from tests.support.open_connections import require
from tests.support.scripted_model import script

with warnings.catch_warnings():
    # langmem and trustcall still import from where LangGraph 1.0 only keeps names for a while.
    warnings.simplefilter("ignore", LangGraphDeprecatedSinceV10)
    require("langmem")
    from langmem import create_manage_memory_tool, create_memory_store_manager, create_search_memory_tool

NS = ("memories", "{langgraph_user_id}")
ADA = ("memories", "ada")
CONFIG = {"configurable": {"langgraph_user_id": "ada"}}


def index():
    return {"dims": 16, "embed": WordEmbeddings(16)}


@pytest.fixture(params=["sync", "async"])
def invoke(request):
    """Invokes a runnable on its sync or its async side."""
    if request.param == "sync":
        yield lambda runnable, given: runnable.invoke(given, CONFIG)
    else:
        with asyncio.Runner() as runner:
            yield lambda runnable, given: runner.run(runnable.ainvoke(given, CONFIG))


def said(text):
    return {"messages": [{"role": "user", "content": text}]}


def manager(store, *replies, **settings):
    model = script(*replies)
    settings.setdefault("namespace", NS)
    return model, create_memory_store_manager(model, store=store, **settings)


def memories(*texts):
    """A model's reply that stores texts."""
    return [("Memory", {"content": text}) for text in texts]


def shown_id(item):
    """The id under which langmem shows an item to the model."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, str((*item.namespace, item.key))).hex


def contents(store):
    return sorted(item.value["content"]["content"] for item in store.search(ADA, limit=100))


def test_an_agents_tools_create_search_update_and_delete(make_any_store, invoke):
    # A score that fades and counts would not be the same in two searches.
    store = make_any_store(index=index(), scoring="similarity", track_access=False)
    tools = [create_manage_memory_tool(NS), create_search_memory_tool(NS)]
    graph = StateGraph(MessagesState).add_node("tools", ToolNode(tools)).add_edge(START, "tools").compile(store=store)

    def call(name, **args):
        request = AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1"}])
        return invoke(graph, {"messages": [request]})["messages"][-1].content

    key = call("manage_memory", content="Ada drinks green tea").split()[-1]
    call("manage_memory", content="Ada rides a red bicycle")
    assert store.get(ADA, key).value == {"content": "Ada drinks green tea"}
    first, second = json.loads(call("search_memory", query="green tea"))
    assert (first["key"], first["value"]) == (key, {"content": "Ada drinks green tea"})
    assert first["score"] > second["score"]
    assert len(json.loads(call("search_memory", query="green tea", limit=1, offset=1))) == 1
    bicycle = {"content": {"$contains": "bicycle"}}
    assert json.loads(call("search_memory", query="green tea", filter=bicycle)) == [second]
    call("manage_memory", action="update", id=key, content="Ada drinks black tea")
    assert store.get(ADA, key).value == {"content": "Ada drinks black tea"}
    call("manage_memory", action="delete", id=key)
    assert [item.value["content"] for item in store.search(ADA)] == ["Ada rides a red bicycle"]


def test_the_search_tool_hands_out_our_items(make_any_store, invoke):
    store = make_any_store(index=index())
    store.put(ADA, "k", {"content": "tea"}, ttl=5)
    tool = create_search_memory_tool(NS, store=store, response_format="content_and_artifact")
    message = invoke(tool, {"type": "tool_call", "name": tool.name, "id": "1", "args": {"query": "tea"}})
    (item,) = message.artifact
    assert type(item) is MemorySearchItem
    assert item.memory.expires_at is not None
    assert json.loads(message.content) == [item.dict()]


def test_the_manager_stores_rewrites_and_removes_memories(make_any_store, invoke):
    store = make_any_store(index=index())
    _, extract = manager(store, memories("Ada likes tea", "Ada lives in Rome"))
    assert len(invoke(extract, said("I like tea, and I live in Rome"))) == 2
    assert contents(store) == ["Ada likes tea", "Ada lives in Rome"]
    tea = next(item for item in store.search(ADA) if "tea" in item.value["content"]["content"])
    assert tea.value == {"kind": "Memory", "content": {"content": "Ada likes tea"}}
    patch = {
        "json_doc_id": shown_id(tea),
        "planned_edits": "coffee",
        "patches": [{"op": "replace", "path": "/content", "value": "Ada likes coffee"}],
    }
    model, rewrite = manager(store, [("PatchDoc", patch)])
    invoke(rewrite, said("Coffee rather than tea"))
    assert "Ada likes tea" in str(model.asked[0])
    coffee = store.get(ADA, tea.key)
    assert coffee.value == {"kind": "Memory", "content": {"content": "Ada likes coffee"}}
    assert (coffee.created_at, coffee.memory.version) == (tea.created_at, 2)
    _, remove = manager(store, [("RemoveDoc", {"json_doc_id": shown_id(tea)})], enable_deletes=True)
    invoke(remove, said("Forget what I drink"))
    assert contents(store) == ["Ada lives in Rome"]


def test_a_query_model_searches_and_a_phase_follows(make_any_store, invoke):
    store = make_any_store(index=index())
    store.put(ADA, "k", {"kind": "Memory", "content": {"content": "Ada likes green tea"}})
    queries = script([("search_memory", {"query": "green tea"}), ("search_memory", {"query": "drinks"})])
    model, extract = manager(
        store, memories("Ada has a cat"), memories("The cat is grey"), query_model=queries, phases=[{}], query_limit=3
    )
    invoke(extract, said("I have a cat; it is grey"))
    assert "Ada likes green tea" in str(model.asked[0])
    assert "Ada has a cat" in str(model.asked[1])
    assert contents(store) == ["Ada has a cat", "Ada likes green tea", "The cat is grey"]


def test_the_manager_takes_the_store_of_the_graph_it_runs_in(make_any_store, invoke):
    store = make_any_store(index=index())
    extract = create_memory_store_manager(script(memories("Ada likes tea")), namespace=NS, default="nothing yet")

    def node(state):
        return {"messages": [str(len(extract.invoke({"messages": state["messages"]})))]}

    async def anode(state):
        return {"messages": [str(len(await extract.ainvoke({"messages": state["messages"]})))]}

    builder = StateGraph(MessagesState).add_node("extract", RunnableLambda(node, anode)).add_edge(START, "extract")
    graph = builder.compile(store=store)
    assert invoke(graph, said("I like tea"))["messages"][-1].content == "1"
    assert contents(store) == ["Ada likes tea", "nothing yet"]
    assert store.get(ADA, "default") is not None


def test_the_default_ttl_holds_for_what_langmem_puts_and_expired_memories_reach_no_model(make_any_store, invoke, clock):
    store = make_any_store(index=index(), clock=clock, ttl={"default_ttl": 10, "refresh_on_read": False})
    _, first = manager(store, memories("Ada likes tea"))
    invoke(first, said("I like tea"))
    clock.advance(minutes=9)
    model, second = manager(store, memories("Ada likes cake"))
    invoke(second, said("I like cake"))
    assert "Ada likes tea" in str(model.asked)
    clock.advance(minutes=1)
    model, third = manager(store, memories("Ada likes rain"))
    invoke(third, said("I like rain"))
    assert "Ada likes cake" in str(model.asked)
    assert "Ada likes tea" not in str(model.asked)
    assert contents(store) == ["Ada likes cake", "Ada likes rain"]


def test_what_the_manager_reads_slides_its_ttl(make_any_store, invoke, clock):
    store = make_any_store(index=index(), clock=clock, ttl={"default_ttl": 10})
    invoke(manager(store, memories("Ada likes tea"))[1], said("I like tea"))
    for _ in range(3):
        clock.advance(minutes=9)
        invoke(manager(store, "nothing new")[1], said("I like tea"))
    assert contents(store) == ["Ada likes tea"]
    clock.advance(minutes=10)
    assert contents(store) == []


def test_the_managers_own_methods_reach_the_store(make_any_store):
    store = make_any_store(index=index())
    _, extract = manager(store)
    extract.put("k", {"kind": "Memory", "content": {"content": "Ada likes tea"}}, config=CONFIG)
    assert extract.get("k", config=CONFIG).value.content == "Ada likes tea"
    (found,) = extract.search(query="tea", filter={"kind": "Memory"}, config=CONFIG)
    assert (found.key, found.score is not None) == ("k", True)
    extract.delete("k", config=CONFIG)
    assert store.search(ADA) == []
