"""The queues of a state: what is dealt with leaves them, and what is not stays, whatever merges the updates."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

from langgraph_forgetful_store.policy import MemoryPolicy, MemoryPolicyState, PolicySettings, RulesExtractor
from langgraph_forgetful_store.policy.state import consumed, pending, queue
from tests.support.open_connections import run_script
from tests.support.policy_graphs import NS, config, current, graph, outline


def fails_once_on(word: str, store: Any = None) -> MemoryPolicy:
    """Return a policy that can decide nothing about what holds a word, the first time."""
    failures = [RuntimeError]

    def admit(draft: Any, settings: Any) -> None:
        if word in draft.candidate.text and failures:
            raise failures.pop()

    return MemoryPolicy(settings=PolicySettings(replaced={"admit": admit}), store=store)


class Plain(TypedDict, total=False):
    """A state without reducers."""

    memory_candidates: list[Any]
    memory_actions: list[Any]
    memory_decisions: list[Any]


def test_a_state_without_reducers_keeps_what_nothing_could_be_decided_about(make_any_store, invoke):
    store = make_any_store()
    compiled = graph(store, fails_once_on("sky"), InMemorySaver(), Plain)
    first = invoke(compiled, {"memory_candidates": ["The sky is blue", "Grass is green"]}, config())
    assert pending(first["memory_candidates"]) == ["The sky is blue"]
    again = invoke(compiled, {"memory_decisions": []}, config())
    assert (outline(again), pending(again["memory_candidates"])) == ([("remember", "ADD")], [])
    assert sorted(current(store)) == ["Grass is green", "The sky is blue"]


def test_a_state_without_reducers_loses_no_action_beside_those_that_are_done(make_any_store, invoke):
    store = make_any_store()
    key = store.remember(NS, "likes tea", confidence=0.9).key
    compiled = graph(store, fails_once_on("milk"), InMemorySaver(), Plain)
    actions = [{"action": "deny", "key": key}, {"action": "remember", "content": "likes milk"}]
    first = invoke(compiled, {"memory_actions": actions}, config())
    assert pending(first["memory_actions"]) == actions[1:]
    invoke(compiled, {"memory_decisions": []}, config())
    assert sorted(current(store)) == ["likes milk", "likes tea"]
    assert store.get(NS, key).memory.confidence == pytest.approx(0.7)


def test_what_was_sent_to_the_policy_stays_where_it_can_decide_nothing(make_any_store, invoke):
    store = make_any_store()
    builder = StateGraph(MemoryPolicyState).add_node("policy", fails_once_on("sky"))
    texts = ["The sky is blue", "Grass is green"]
    builder.add_conditional_edges(START, lambda state: [Send("policy", {"memory_candidates": [one]}) for one in texts])
    compiled = builder.compile(store=store, checkpointer=InMemorySaver())
    assert invoke(compiled, {"messages": []}, config())["memory_candidates"] == ["The sky is blue"]


def test_what_a_node_gives_the_policy_itself_stays_where_it_can_decide_nothing(make_any_store):
    policy = fails_once_on("sky")
    builder = StateGraph(MemoryPolicyState).add_edge(START, "node")
    builder.add_node("node", lambda state: policy.invoke({"memory_candidates": ["The sky is blue", "Milk is white"]}))
    result = builder.compile(store=make_any_store()).invoke({"memory_candidates": ["Grass is green"]}, config())
    assert result["memory_candidates"] == ["Grass is green", "The sky is blue"]


def test_of_the_same_candidate_twice_one_is_left(make_any_store, invoke):
    said = {"memory_candidates": ["The sky is blue"] * 2}
    assert (
        invoke(graph(make_any_store(), fails_once_on("sky")), said, config())["memory_candidates"]
        == said["memory_candidates"][:1]
    )


def test_an_update_given_back_as_a_state_holds_what_is_left(make_any_store, invoke):
    policy = fails_once_on("sky", make_any_store())
    update = invoke(policy, {"memory_candidates": ["The sky is blue", "Grass is green"]}, config())
    assert outline(invoke(policy, update, config())) == [("remember", "ADD")]


@pytest.mark.parametrize("odd", [{1: "one", "two": 2}, {"content": {1: "one", "two": 2}}, {"content": {1, 2}}])
def test_what_is_no_json_is_refused_and_leaves_the_state(make_any_store, invoke, odd):
    result = invoke(graph(make_any_store()), {"memory_candidates": [odd]}, config())
    assert ([one["action"] for one in result["memory_decisions"]], result["memory_candidates"]) == (["refuse"], [])


ITEMS = st.lists(st.sampled_from(["a", "b", "c", {"content": "d"}]), max_size=5)


@given(ITEMS, ITEMS, ITEMS, st.integers(0, 3), st.data())
def test_a_mark_rises_through_all_graphs_and_leaves_each_with_what_is_left(gone, left, more, level, data):
    left = [one for one in left if one not in gone and left.count(one) == 1]
    held = data.draw(st.permutations(gone + left))
    left = [one for one in held if one in left]
    queues = [queue([], held)]
    for _ in range(level):
        queues.append(queue([], queues[-1]))
    value = queue(queues.pop(), consumed(held, left, level=level, by="task"))
    assert pending(value) == left
    # What the graph adds after that rises with it.
    value = queue(value, more)
    while queues:
        value = queue(queues.pop(), value)
    assert json.loads(json.dumps(value)) == value
    assert value == left + more


@given(ITEMS, ITEMS, st.integers(1, 3))
def test_a_value_that_a_graph_below_gives_back_takes_out_nothing_that_is_new(held, more, level):
    value = queue(queue([], held), consumed(held, level=level, by="task"))
    value = queue(value, more)
    below = queue([], value)
    # It had no policy, so it adds what it was given, as any reducer that adds does; the mark does nothing again.
    assert pending(queue(value, below)) == more + more


def test_a_mark_does_not_grow_without_end():
    value: list[Any] = []
    for number in range(3000):
        value = queue(queue(value, [str(number)]), consumed([str(number)], level=1, by=str(number)))
    assert len(json.dumps(value)) < 50_000


STRICT = """
import json, logging, os, sys
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.policy import MemoryPolicy, MemoryPolicyState, RulesExtractor
def built(node, **more):
    return StateGraph(MemoryPolicyState).add_node("node", node).add_edge(START, "node").compile(**more)
with ForgetfulStore.from_conn_string(sys.argv[1], key_prefix=sys.argv[2]) as store:
    compiled = built(built(MemoryPolicy(extractor=RulesExtractor())), store=store, checkpointer=InMemorySaver())
    config = {"configurable": {"user_id": "ada", "thread_id": "1"}}
    said = {"messages": [HumanMessage("I live in Rome.")], "memory_candidates": [{"content": "The sky is blue"}]}
    compiled.invoke(said, config)
    kept = compiled.get_state(config).values
    again = compiled.invoke({"messages": [HumanMessage("My name is Ada.")]}, config)
print(json.dumps([type(kept["messages"][0]).__name__, kept["memory_candidates"], len(kept["memory_decisions"])]))
print(json.dumps([type(again["messages"][0]).__name__, again["memory_decisions"][:2] == kept["memory_decisions"]]))
"""


def test_the_state_survives_where_the_environment_asks_for_strict_checkpoints(make_any_store):
    printed = run_script(STRICT, make_any_store.server.url, make_any_store.key_prefix, flags=())
    assert [json.loads(line) for line in printed.splitlines()] == [["HumanMessage", [], 2], ["HumanMessage", True]]


def test_extracted_candidates_that_nothing_could_be_decided_about_wait_once(make_any_store, invoke):
    def fail(draft: Any, settings: Any) -> None:
        raise RuntimeError

    policy = MemoryPolicy(extractor=RulesExtractor(), settings=PolicySettings(replaced={"admit": fail}))
    builder = StateGraph(MemoryPolicyState)
    for name in ("one", "two"):
        builder.add_node(name, policy).add_edge(START, name)
    compiled = builder.compile(store=make_any_store(), checkpointer=InMemorySaver())
    result = invoke(compiled, {"messages": [{"role": "user", "content": "I live in Rome.", "id": "m"}]}, config())
    assert [one["content"] for one in result["memory_candidates"]] == ["I live in Rome."]
