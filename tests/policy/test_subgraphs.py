"""A policy in a graph below another: what it has dealt with is gone from the queues of all graphs around it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from langgraph_forgetful_store.policy import MemoryPolicy, MemoryPolicyState, PolicySettings, RulesExtractor, pending
from tests.support.open_connections import require
from tests.support.policy_graphs import INDEX, NS, config, current, graph
from tests.support.scripted_model import script

DEPTHS = [1, 2, 3]


def around(inner: Any, store: Any = None, saver: Any = None, name: str = "inner") -> Any:
    """Return a graph around another."""
    return StateGraph(MemoryPolicyState).add_node(name, inner).add_edge(START, name).compile(saver, store=store)


def nested(store: Any, policy: Any = None, saver: Any = None, depth: int = 1) -> Any:
    """Return a graph with a policy so many graphs below it."""
    inner = graph(None, policy)
    for level in range(depth - 1):
        inner = around(inner, name=f"inner{level}")
    return around(inner, store, saver)


def failing(*words: str) -> MemoryPolicy:
    """Return a policy that can decide nothing about what holds one of these words."""

    def admit(draft: Any, settings: Any) -> None:
        if any(word in draft.candidate.text for word in words):
            raise RuntimeError

    return MemoryPolicy(settings=PolicySettings(replaced={"admit": admit}))


def confidence(store: Any, key: str) -> float:
    return store.get(NS, key).memory.confidence


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_action_sent_once_is_done_once_however_many_turns_follow(make_any_store, invoke, depth):
    store = make_any_store()
    key = store.remember(NS, "likes tea", confidence=0.9).key
    compiled = nested(store, saver=InMemorySaver(), depth=depth)
    result = invoke(compiled, {"memory_actions": [{"action": "deny", "key": key}]}, config())
    assert result["memory_actions"] == []
    for _ in range(2):
        result = invoke(compiled, {"messages": [HumanMessage("hello")]}, config())
    assert (result["memory_actions"], len(result["memory_decisions"])) == ([], 1)
    assert confidence(store, key) == pytest.approx(0.7)


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_nothing_could_be_decided_about_stays_once_each_turn(make_any_store, invoke, depth):
    store = make_any_store()
    compiled = nested(store, failing("sky"), InMemorySaver(), depth)
    said = {"memory_candidates": ["The sky is blue", "Grass is green"]}
    assert invoke(compiled, said, config())["memory_candidates"] == ["The sky is blue"]
    for _ in range(3):
        result = invoke(compiled, {"messages": [HumanMessage("hello")]}, config())
        assert result["memory_candidates"] == ["The sky is blue"]
    assert current(store) == ["Grass is green"]


def test_the_same_action_sent_again_is_done_again(make_any_store, invoke):
    store = make_any_store()
    key = store.remember(NS, "likes tea", confidence=0.9).key
    compiled = nested(store, saver=InMemorySaver())
    for expected in (0.7, 0.5):
        invoke(compiled, {"memory_actions": [{"action": "deny", "key": key}]}, config())
        assert confidence(store, key) == pytest.approx(expected)


def test_without_a_checkpointer_nothing_is_left_either(make_any_store, invoke):
    result = invoke(nested(make_any_store(), depth=2), {"memory_candidates": ["The sky is blue"]}, config())
    assert result["memory_candidates"] == []


def test_what_the_inner_graph_adds_after_its_policy_reaches_the_outer_one(make_any_store, invoke):
    store = make_any_store()
    inner = StateGraph(MemoryPolicyState)
    inner.add_node("policy", failing("sky")).add_node("more", lambda state: {"memory_candidates": ["Grass is green"]})
    inner.add_edge(START, "policy").add_edge("policy", "more")
    result = invoke(
        around(inner.compile(), store), {"memory_candidates": ["The sky is blue", "Milk is white"]}, config()
    )
    assert result["memory_candidates"] == ["The sky is blue", "Grass is green"]


def test_a_second_policy_of_the_inner_graph_settles_what_the_first_left(make_any_store, invoke):
    store = make_any_store()
    inner = StateGraph(MemoryPolicyState)
    inner.add_node("first", failing("sky")).add_node("second", MemoryPolicy())
    inner.add_node("more", lambda state: {"memory_candidates": ["Grass is green"]})
    inner.add_edge(START, "first").add_edge("first", "more").add_edge("more", "second")
    result = invoke(around(inner.compile(), store), {"memory_candidates": ["The sky is blue"]}, config())
    assert result["memory_candidates"] == []
    assert sorted(current(store)) == ["Grass is green", "The sky is blue"]


def test_an_edge_of_the_inner_graph_can_ask_whether_anything_waits(make_any_store, invoke):
    inner = StateGraph(MemoryPolicyState).add_node("policy", MemoryPolicy()).add_edge(START, "policy")
    inner.add_conditional_edges("policy", lambda state: "policy" if pending(state["memory_candidates"]) else "__end__")
    result = invoke(around(inner.compile(), make_any_store()), {"memory_candidates": ["The sky is blue"]}, config())
    assert (len(result["memory_decisions"]), result["memory_candidates"]) == (1, [])


def test_a_graph_without_a_policy_below_gives_back_nothing_that_is_done(make_any_store, invoke):
    store = make_any_store()
    idle = StateGraph(MemoryPolicyState).add_node("idle", lambda state: {}).add_edge(START, "idle").compile()
    middle = StateGraph(MemoryPolicyState).add_node("policy", graph(None)).add_node("idle", around(idle))
    middle.add_edge(START, "policy").add_edge("policy", "idle")
    compiled = around(around(middle.compile()), store, InMemorySaver())
    key = store.remember(NS, "likes tea", confidence=0.9).key
    for _ in range(2):
        result = invoke(compiled, {"memory_actions": [{"action": "deny", "key": key}]}, config())
    assert result["memory_actions"] == []
    assert confidence(store, key) == pytest.approx(0.5)


def test_inner_graphs_side_by_side_leave_nothing_and_lose_nothing(make_any_store, invoke):
    store = make_any_store()
    builder = StateGraph(MemoryPolicyState)
    for name in ("one", "two"):
        builder.add_node(name, graph(None, failing("sky"))).add_edge(START, name)
    builder.add_node("other", lambda state: {"memory_candidates": ["Milk is white"]}).add_edge(START, "other")
    said = {"memory_candidates": ["The sky is blue", "Grass is green"]}
    result = invoke(builder.compile(store=store), said, config())
    assert sorted(result["memory_candidates"]) == ["Milk is white", "The sky is blue"]
    assert current(store) == ["Grass is green"]


def test_a_graph_that_keeps_its_own_state_does_nothing_twice(make_any_store, invoke):
    store = make_any_store()
    key = store.remember(NS, "likes tea", confidence=0.9).key
    inner = StateGraph(MemoryPolicyState).add_node("policy", failing("sky")).add_edge(START, "policy")
    compiled = around(inner.compile(checkpointer=True), store, InMemorySaver())
    said = {"memory_actions": [{"action": "deny", "key": key}], "memory_candidates": ["The sky is blue"]}
    invoke(compiled, said, config())
    for _ in range(3):
        result = invoke(compiled, {"messages": [HumanMessage("hello")]}, config())
        assert (result["memory_actions"], result["memory_candidates"]) == ([], ["The sky is blue"])
    assert confidence(store, key) == pytest.approx(0.7)


def test_what_is_sent_to_an_inner_graph_and_not_decided_reaches_the_outer_one(make_any_store, invoke):
    builder = StateGraph(MemoryPolicyState).add_node("inner", graph(None, failing("sky", "grass")))
    texts = ["The sky is blue", "green grass", "Milk is white"]
    builder.add_conditional_edges(START, lambda state: [Send("inner", {"memory_candidates": [one]}) for one in texts])
    result = invoke(builder.compile(store=make_any_store()), {"messages": []}, config())
    assert sorted(result["memory_candidates"]) == texts[:2]


def test_a_graph_that_a_node_calls_takes_out_of_the_state_what_it_dealt_with(make_any_store):
    store = make_any_store()
    inner = graph(None, failing("sky"))
    outer = around(lambda state: inner.invoke(state), store, InMemorySaver())
    result = outer.invoke({"memory_candidates": ["The sky is blue", "Grass is green"]}, config())
    assert result["memory_candidates"] == ["The sky is blue"]


def test_an_agent_as_a_node_does_what_the_caller_asks_once(make_any_store, invoke):
    require("langchain")
    from langchain.agents import create_agent

    from langgraph_forgetful_store.policy.middleware import MemoryMiddleware

    store = make_any_store(index=INDEX)
    key = store.remember(NS, "likes tea", confidence=0.9).key
    middleware = MemoryMiddleware(policy=MemoryPolicy(extractor=RulesExtractor()))
    agent = create_agent(script("hello", "hello", "hello"), middleware=[middleware])
    compiled = around(agent, store, InMemorySaver())
    said = {"messages": [HumanMessage("I live in Rome.")], "memory_actions": [{"action": "deny", "key": key}]}
    invoke(compiled, said, config())
    for _ in range(2):
        result = invoke(compiled, {"messages": [HumanMessage("thanks")]}, config())
    assert result["memory_actions"] == []
    assert isinstance(result["messages"][-1], AIMessage)
    assert confidence(store, key) == pytest.approx(0.7)
    assert "I live in Rome." in current(store)


def test_the_states_of_all_graphs_are_plain_json_under_the_strict_serializer(make_any_store, invoke):
    saver = InMemorySaver(serde=JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=None))
    compiled = nested(make_any_store(), failing("sky"), saver, 2)
    said = {"memory_candidates": ["The sky is blue", {"content": "Grass is green"}], "memory_actions": []}
    expected = invoke(compiled, said, config())
    states = [one.checkpoint["channel_values"] for one in saver.list({"configurable": {"thread_id": "1"}})]
    queues = [state["memory_candidates"] for state in states if "memory_candidates" in state]
    assert expected["memory_candidates"] in queues
    assert any("$kept" in one for held in queues for one in held if isinstance(one, dict))
    assert json.loads(json.dumps(queues)) == queues
