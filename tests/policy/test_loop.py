"""The policy in an agent's loop: its state, what feedback is about, and the way from a recall to what is saved."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_forgetful_store import memory_tools
from langgraph_forgetful_store.policy import (
    LLMExtractor,
    MemoryPolicy,
    MemoryPolicyState,
    RecalledState,
    RulesExtractor,
)
from langgraph_forgetful_store.policy.recall_node import RecallMemories
from tests.support.policy_graphs import outline
from tests.support.recalling_graph import ADA, INDEX, NS
from tests.support.scripted_model import script


class Mixed(RecalledState, MemoryPolicyState):
    """What both nodes write, by inheritance."""


class Turned(MemoryPolicyState, RecalledState):
    """The same, the other way round."""


def loop(store: Any, *replies: Any, policy: Any = None, schema: Any = MemoryPolicyState, **recall: Any) -> Any:
    """Return a graph of an agent: recall, model, tools, policy."""
    model, tools = script(*replies), memory_tools()
    builder = StateGraph(schema)
    builder.add_node("recall", RecallMemories(**{"min_relevance": 0.3, **recall}))
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_node("tools", ToolNode(tools))
    builder.add_node("policy", policy or MemoryPolicy(extractor=RulesExtractor()))
    builder.add_edge(START, "recall").add_edge("recall", "model").add_edge("tools", "recall")
    builder.add_conditional_edges("model", tools_condition, {"tools": "tools", "__end__": "policy"})
    return builder.compile(store=store, checkpointer=InMemorySaver())


def config(thread: str = "1") -> Any:
    return {"configurable": {**ADA["configurable"], "thread_id": thread}}


def say(compiled: Any, text: str) -> Any:
    return compiled.invoke({"messages": [HumanMessage(text)]}, config())


@pytest.fixture
def store(make_any_store: Any) -> Any:
    return make_any_store(index=INDEX)


@pytest.mark.parametrize("schema", [MemoryPolicyState, Mixed, Turned])
def test_one_state_holds_what_recall_and_policy_write(store, schema):
    store.remember(NS, "green tea")
    compiled = loop(store, "ok", "ok", schema=schema)
    say(compiled, "green tea")
    say(compiled, "green tea. I live in Rome.")
    kept = compiled.get_state(config()).values
    assert [one["value"]["content"] for one in kept["recalled_memories"]] == ["green tea"]
    assert "green tea" in kept["memory_context"]
    assert kept["memory_answered_recall_id"] is not None
    assert kept["memory_recall_id"] is not None
    assert outline(kept) == [("remember", "ADD")]
    assert len(kept["messages"]) == 4


def confidences(store: Any, *keys: str) -> list[float]:
    return [round(store.get(NS, key).memory.confidence, 6) for key in keys]


@pytest.mark.parametrize(
    "complaint", ["You misremember. And the red bike?", "你记错了。 red bike", "Why do you say that? red bike"]
)
def test_feedback_is_about_what_the_answer_before_it_was_made_of(store, complaint):
    tea, bike = (store.remember(NS, text, confidence=0.5).key for text in ("green tea", "red bike"))
    compiled = loop(store, "You like green tea.", "Sorry.")
    first = say(compiled, "green tea")
    second = say(compiled, complaint)
    assert [one["key"] for one in second["recalled_memories"]] == [bike]
    (decision,) = second["memory_decisions"]
    assert (decision["action"], decision["candidate"]["recall_id"]) == ("feedback", first["memory_recall_id"])
    assert confidences(store, tea, bike) == [0.3, 0.5]


def test_where_nothing_was_recalled_there_is_nothing_to_complain_of(store):
    tea, bike = (store.remember(NS, text, confidence=0.5).key for text in ("green tea", "red bike"))
    compiled = loop(store, "tea", "ok", "sorry")
    say(compiled, "green tea")
    assert say(compiled, "zebra crossing")["memory_recall_id"] is None
    result = say(compiled, "You misremember. The red bike!")
    (decision,) = result["memory_decisions"]
    assert (decision["action"], decision["reason"].partition(":")[0]) == ("refuse", "no_recall")
    assert confidences(store, tea, bike) == [0.5, 0.5]


def test_feedback_that_names_its_recall_is_about_that_one(store):
    tea, bike = (store.remember(NS, text, confidence=0.5).key for text in ("green tea", "red bike"))
    compiled = loop(store, "tea", "bike")
    first = say(compiled, "green tea")
    praise = {"action": "feedback", "value": 1, "recall_id": first["memory_recall_id"]}
    compiled.invoke({"messages": [HumanMessage("red bike")], "memory_actions": [praise]}, config())
    assert confidences(store, tea, bike) == [0.6, 0.5]


def test_a_state_that_tells_of_one_recall_alone_has_feedback_about_that(store):
    tea = store.remember(NS, "green tea", confidence=0.5).key
    recall_id = store.recall(NS, "green tea")[0].recall_id
    state = {"memory_recall_id": recall_id, "memory_actions": [{"action": "feedback", "value": -1}]}
    MemoryPolicy(store=store).invoke(state, ADA)
    assert confidences(store, tea) == [0.3]


def test_a_decision_can_be_traced_to_the_recall_before_it(store):
    store.remember(NS, "I live in Paris", subject="user", attribute="home_city")
    result = say(loop(store, "ok"), "I live in Rome.")
    (decision,) = result["memory_decisions"]
    assert decision["action"] == "supersede"
    assert decision["candidate"]["recall_id"] == result["memory_recall_id"]
    (record,) = [one for one in store.audit(NS) if one.action == "decision"]
    assert record.details["recall_id"] == result["memory_recall_id"]


def test_the_trace_shows_recall_model_tools_policy_and_what_is_saved(store):
    key = store.remember(NS, "Ada works at Acme", subject="user", attribute="employer").key
    supersede = [("supersede", {"key": key, "content": "Ada works at Initech"})]
    compiled = loop(store, supersede, "Noted.", with_keys=True)
    state = {"messages": [HumanMessage("Ada works at Initech now. I live in Rome.")]}
    trace, events, contexts = [], [], []
    for mode, part in compiled.stream(state, config(), stream_mode=["updates", "custom"]):
        if mode == "custom":
            events.append(part["memory_decision"]["action"])
            continue
        trace += part
        contexts += [update["memory_context"] for update in part.values() if "memory_context" in update]
    assert trace == ["recall", "model", "tools", "recall", "model", "policy"]
    assert events == ["remember"]
    # What a tool has superseded in the loop is told no more in the same turn.
    assert ["Acme" in told for told in contexts] == [True, False]
    assert ["Initech" in told for told in contexts] == [False, True]
    assert sorted(item.value["content"] for item in store.recall(NS)) == ["Ada works at Initech", "I live in Rome."]
    kept = compiled.get_state(config()).values
    assert [type(message) for message in kept["messages"]] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert outline(kept) == [("remember", "ADD")]
    actions = [record.action for record in reversed(store.audit(NS))]
    assert [one for one in actions if one in ("supersede", "decision")] == ["supersede", "decision"]


def test_parallel_recalls_may_write_the_same_state(store):
    store.remember(NS, "green tea")
    builder = StateGraph(MemoryPolicyState)
    for name in ("one", "two"):
        builder.add_node(name, RecallMemories()).add_edge(START, name)
    result = builder.compile(store=store).invoke({"messages": [HumanMessage("green tea")]}, ADA)
    assert "green tea" in result["memory_context"]


@pytest.mark.parametrize(("held", "named"), [("Robert", "Bobby"), ("Bobby", "Robert"), ("Bobby", "Bob")])
@pytest.mark.parametrize(
    ("text", "relation"),
    [("Their desk is on floor 4", "UPDATE"), ("Actually, their desk is on floor 4", "CONTRADICT")],
)
def test_a_slot_is_found_by_any_name_of_its_subject(store, held, named, text, relation):
    old = store.remember(NS, "The desk is on floor 2", subject=held, attribute="desk").key
    store.alias(NS, "Robert", "Bobby", "Bob")
    candidate = {"content": text, "subject": named, "attribute": "desk", "source": "user"}
    policy = MemoryPolicy(store=store)
    (planned,) = policy.decide({"memory_candidates": [candidate]}, ADA)
    assert (planned["action"], planned["relation"], planned["supersedes"]) == ("supersede", relation, old)
    (done,) = policy.apply([planned])
    assert done == planned
    assert [item.value["content"] for item in store.recall(NS)] == [text]


def test_two_names_in_one_go_are_one_slot(store):
    store.alias(NS, "Robert", "Bobby")
    slots = [{"subject": name, "attribute": "desk", "source": "user"} for name in ("Robert", "Bobby")]
    candidates = [{"content": f"floor {at}", **slot} for at, slot in enumerate(slots)]
    result = MemoryPolicy(store=store).invoke({"memory_candidates": candidates}, ADA)
    assert outline(result) == [("remember", "ADD"), ("supersede", "UPDATE")]
    # Each keeps the name that it was given, so that a wrong merge can be undone.
    assert [item.memory.subject for item in store.history(NS, result["memory_decisions"][1]["key"])] == [
        "Robert",
        "Bobby",
    ]


def test_a_slot_that_an_alias_took_since_is_looked_at_again(store):
    store.alias(NS, "Robert", "Bobby")
    candidate = {"content": "floor 4", "subject": "Bobby", "attribute": "desk", "source": "user"}
    policy = MemoryPolicy(store=store)
    (planned,) = policy.decide({"memory_candidates": [candidate]}, ADA)
    taken = store.remember(NS, "floor 2", subject="Robert", attribute="desk").key
    (done,) = policy.apply([planned])
    assert (planned["action"], done["action"], done["supersedes"]) == ("remember", "supersede", taken)


def test_names_that_are_apart_are_two_slots(store):
    store.remember(NS, "floor 2", subject="Robert", attribute="desk")
    candidate = {"content": "floor 4", "subject": "Bobby", "attribute": "desk", "source": "user"}
    result = MemoryPolicy(store=store).invoke({"memory_candidates": [candidate]}, ADA)
    assert outline(result) == [("remember", "ADD")]


@pytest.mark.parametrize("replies", [("?", "?"), ([("Extracted", {"facts": 7})],) * 2])
def test_a_model_that_extracts_garbage_does_not_end_the_loop(store, replies):
    policy = MemoryPolicy(extractor=LLMExtractor(script(*replies)))
    compiled = loop(store, "Hello!", policy=policy)
    result = compiled.invoke(
        {"messages": [HumanMessage("I live in Rome.")], "memory_candidates": ["The sky is blue"]}, config()
    )
    assert [one["action"] for one in result["memory_decisions"]] == ["remember", "abstain"]
    assert result["messages"][-1].text == "Hello!"
