"""The policy, its node that recalls and its tools ask the store in Python, so no key of values is reserved for them."""

from __future__ import annotations

import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store import RecallMemories, memory_tools
from langgraph_forgetful_store.policy import MemoryPolicy, RulesExtractor
from tests.support.policy_graphs import INDEX, NS, USER, config, current, graph, outline


@pytest.fixture(params=["$memory", None], ids=["reserved", "none reserved"])
def store(make_any_store, request):
    return make_any_store(index=INDEX, reserved_key=request.param)


def test_a_slot_is_superseded_a_repetition_merged_and_a_hypothesis_replaced(store, invoke):
    compiled = graph(store, MemoryPolicy())
    told = [
        {"content": "I live in Paris", "source": "user"},
        {"content": "I live in Rome", "source": "user"},
        {"content": "likes milk", "source": "user"},
        {"content": "likes milk", "source": "tool"},
        {"content": "maybe she plays chess", "memory_type": "hypothesis"},
        {"content": "maybe she plays chess", "memory_type": "hypothesis", "source": "tool"},
    ]
    actions = [
        outline(invoke(compiled, {"memory_candidates": [one]}, config(str(at))))[0][0] for at, one in enumerate(told)
    ]
    assert actions == ["remember", "supersede", "remember", "merge", "remember", "merge"]
    # Said twice, it is no guess any more.
    assert sorted(current(store)) == ["I live in Rome", "likes milk", "maybe she plays chess"]


def test_requests_of_the_user_find_what_they_are_about(store, invoke):
    key = store.remember(NS, "My address is 5 Elm Street", subject="user", attribute="address").key
    compiled = graph(store, MemoryPolicy(extractor=RulesExtractor()))
    result = invoke(compiled, {"messages": [("user", "Please forget my address.")]}, config())
    assert outline(result) == [("forget", None)]
    assert store.get(NS, key) is None


def test_the_reserved_key_of_another_store_is_plain_data(make_any_store, invoke):
    store = make_any_store(reserved_key=None)
    compiled = graph(store, MemoryPolicy())
    result = invoke(compiled, {"memory_candidates": [{"content": {"$memory": {"pinned": True}, "a": 1}}]}, config())
    (item,) = store.recall(NS)
    assert outline(result) == [("remember", "ADD")]
    assert item.value == {"$memory": {"pinned": True}, "a": 1}
    assert not item.memory.pinned


def test_pinned_and_identity_memories_are_always_told(store, invoke):
    store.remember(NS, "allergic to nuts", memory_type="identity")
    store.remember(NS, "never call before noon", pinned=True)
    for at in range(60):
        store.remember(NS, f"note number {at}")
    node = RecallMemories(min_relevance=None, store=store, limit=1)
    state = node.invoke({"messages": [("user", "hello there")]}, {"configurable": USER})
    assert {"allergic to nuts", "never call before noon"} <= {
        item["value"]["content"] for item in state["recalled_memories"]
    }


def test_what_the_message_names_is_anchored_however_many_are_newer(store):
    key = store.remember(NS, "green tea", tags=["drinks"], importance=0.1).key
    for at in range(0, 1200, 300):
        store.batch([_put(number) for number in range(at, at + 300)])
    RecallMemories(store=store).invoke({"messages": [("user", "about drinks")]}, {"configurable": USER})
    assert store.get(NS, key).memory.importance == 0.5


def _put(number):
    return PutOp(NS, f"n{number}", {"content": f"note {number}"}, index=False)


def test_the_tools_work(store):
    remember, recall, pin = memory_tools(only=["remember", "recall", "pin"], store=store, min_relevance=None)
    at = {"configurable": USER}
    told = remember.invoke({"content": "likes tea", "subject": "user", "attribute": "drink"}, at)
    assert "remembered already" in remember.invoke(
        {"content": "likes tea", "subject": "user", "attribute": "drink"}, at
    )
    (item,) = store.recall(NS, subject="user")
    assert item.key in told
    assert "likes tea" in recall.invoke({"query": "tea"}, at)
    pin.invoke({"key": item.key}, at)
    assert [one.key for one in store.recall(NS, pinned=True)] == [item.key]


@pytest.mark.parametrize(
    ("candidate", "does"),
    [
        ({"content": "likes milk"}, "remember"),
        ({"content": "I live in Rome", "subject": "user", "attribute": "city", "source": "user"}, "supersede"),
        ({"content": "I live in Paris", "subject": "user", "attribute": "city", "source": "user"}, "confirm"),
    ],
)
def test_a_decision_is_recorded_in_the_step_that_carries_it_out(store, invoke, candidate, does):
    store.remember(NS, "I live in Paris", subject="user", attribute="city", source="user")
    invoke(graph(store, MemoryPolicy()), {"memory_candidates": [candidate]}, config())
    records = {one.action: one for one in store.audit(NS, limit=2)}
    assert set(records) == {does, "decision"}
    # One script reads the clock once.
    assert records[does].at == records["decision"].at


def test_an_action_is_recorded_in_the_step_that_carries_it_out(store, invoke):
    key = store.remember(NS, "likes milk").key
    invoke(graph(store, MemoryPolicy()), {"memory_actions": [{"action": "archive", "key": key}]}, config())
    done, decided = sorted(store.audit(NS, limit=2), key=lambda one: one.action)
    assert (done.action, decided.action, decided.reason, decided.key) == ("archive", "decision", "asked", key)
    assert done.at == decided.at


def test_what_is_carried_out_again_is_recorded_once(store):
    policy = MemoryPolicy(store=store)
    state = {"memory_candidates": [{"content": "likes milk", "key": "milk"}]}
    decisions = policy.decide(state, {"configurable": USER})
    for _ in range(3):
        policy.apply(decisions)
    assert [one.action for one in store.audit(NS, key="milk")].count("decision") == 1


def test_what_is_refused_is_recorded_too(store, invoke):
    told = {"memory_candidates": [{"content": "my card is 4111 1111 1111 1111", "source": "user"}]}
    invoke(graph(store, MemoryPolicy()), told, config())
    (record,) = store.audit(NS)
    assert (record.action, record.reason, record.details["action"]) == ("decision", "sensitive", "refuse")
