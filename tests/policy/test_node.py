"""The node in graphs: what it reads, writes, streams, and does once."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy import (
    LLMExtractor,
    MemoryPolicy,
    MemoryPolicyState,
    RulesExtractor,
)
from tests.support.policy_graphs import INDEX, NS, config, current, graph, outline
from tests.support.scripted_model import script


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request):
    """Runs a graph sync or async."""

    def invoke(compiled, state, settings=None):
        settings = settings or config()
        if request.param == "invoke":
            return compiled.invoke(state, settings)

        async def once():
            try:
                return await compiled.ainvoke(state, settings)
            finally:
                await compiled.store.aclose()

        return asyncio.run(once())

    return invoke


def test_candidates_become_memories_and_leave_the_state(make_any_store, run):
    store = make_any_store()
    result = run(
        graph(store), {"memory_candidates": ["Paris is nice", {"content": "I live in Paris", "source": "user"}]}
    )
    assert outline(result) == [("remember", "ADD"), ("remember", "ADD")]
    assert result["memory_candidates"] == []
    assert sorted(current(store)) == ["I live in Paris", "Paris is nice"]
    assert json.loads(json.dumps(result["memory_decisions"])) == result["memory_decisions"]


def test_a_fact_that_changed_supersedes_mid_loop(make_any_store, run):
    store = make_any_store()
    for text in ("I live in Paris", "I live in Rome"):
        result = run(graph(store), {"memory_candidates": [{"content": text, "source": "user"}]})
    assert outline(result) == [("supersede", "UPDATE")]
    assert current(store) == ["I live in Rome"]
    (decision,) = result["memory_decisions"]
    chain = store.history(NS, decision["key"])
    assert [(item.key, str(item.memory.status)) for item in chain] == [
        (decision["supersedes"], "superseded"),
        (decision["key"], "active"),
    ]


def test_of_two_candidates_for_one_slot_the_later_stays(make_any_store, run):
    store = make_any_store()
    texts = ["I live in Paris", "I moved to Rome", "I like tea", "I like tea"]
    result = run(graph(store), {"memory_candidates": [{"content": text, "source": "user"} for text in texts]})
    assert [one["action"] for one in result["memory_decisions"]] == ["remember", "supersede", "remember"]
    assert sorted(current(store)) == ["I like tea", "I moved to Rome"]


def test_a_dry_run_says_the_same_and_writes_nothing(make_any_store):
    store = make_any_store()
    store.remember(NS, "I live in Paris", subject="user", attribute="home_city", source="user")
    policy, state = MemoryPolicy(store=store), {"memory_candidates": [{"content": "I live in Rome", "source": "user"}]}
    planned = policy.decide(state, config())
    again = asyncio.run(policy.adecide(state, config()))
    # Each call is a request of its own, so the ids differ.
    assert [{**one, "id": None, "key": None} for one in again] == [{**one, "id": None, "key": None} for one in planned]
    assert current(store) == ["I live in Paris"]
    assert policy.apply(planned, config()) == planned
    assert current(store) == ["I live in Rome"]
    assert policy.apply(planned, config()) == planned
    assert len(store.history(NS, planned[0]["key"])) == 2


def test_a_decision_on_a_row_that_changed_since_is_made_again(make_any_store):
    store = make_any_store()
    old = store.remember(NS, "I live in Paris", subject="user", attribute="home_city", source="user")
    policy = MemoryPolicy(store=store)
    (planned,) = policy.decide({"memory_candidates": [{"content": "I live in Rome", "source": "user"}]}, config())
    new = store.supersede(NS, old.key, "I live in Oslo")
    (done,) = policy.apply([planned], config())
    assert (planned["supersedes"], done["supersedes"]) == (old.key, new.key)
    assert [item.value["content"] for item in store.history(NS, done["key"])] == [
        "I live in Paris",
        "I live in Oslo",
        "I live in Rome",
    ]


def test_a_decision_on_a_slot_that_was_taken_since_is_made_again(make_any_store):
    store = make_any_store()
    policy = MemoryPolicy(store=store)
    (planned,) = policy.decide({"memory_candidates": [{"content": "I live in Rome", "source": "user"}]}, config())
    taken = store.remember(NS, "I live in Rome", subject="user", attribute="home_city")
    (done,) = policy.apply([planned], config())
    assert (planned["action"], done["action"], done["key"]) == ("remember", "merge", taken.key)


@pytest.mark.parametrize(
    ("action", "status"),
    [("archive", "archived"), ("retire", "superseded"), ("pin", "active"), ("confirm", "active"), ("deny", "active")],
)
def test_actions_are_carried_out(make_any_store, run, action, status):
    store = make_any_store()
    key = store.remember(NS, "I like tea").key
    result = run(graph(store), {"memory_actions": [{"action": action, "key": key}]})
    item = store.get(NS, key)
    assert (result["memory_actions"], outline(result)) == ([], [(action, None)])
    assert str(item.memory.status) == status
    assert item.memory.pinned == (action == "pin")
    assert item.memory.confidence == pytest.approx({"confirm": 0.9, "deny": 0.6}.get(action, 0.8))


@pytest.mark.parametrize(
    ("given", "stored"), [("corrected", "corrected"), ("resolved", "resolved"), ("why not", "negated")]
)
def test_a_retirement_is_stored_with_its_reason_where_it_is_one(make_any_store, run, given, stored):
    store = make_any_store()
    key = store.remember(NS, "I like tea").key
    run(graph(store), {"memory_actions": [{"action": "retire", "key": key, "reason": given}]})
    assert store.get(NS, key).memory.reason == stored


def test_more_actions_are_carried_out(make_any_store, run):
    store = make_any_store()
    kept, gone = store.remember(NS, "I like tea").key, store.remember(NS, "I like milk").key
    store.remember(NS, "scratch", run_id="r1")
    store.archive(NS, kept)
    actions = [
        {"action": "restore", "key": kept},
        {"action": "forget", "key": gone},
        {"action": "end_run", "run_id": "r1"},
        {"action": "supersede", "key": kept, "content": "I like green tea"},
        {"action": "remember", "content": "The sky is blue"},
        {"action": "archive", "key": "nobody"},
        {"action": "explode"},
    ]
    result = run(graph(store), {"memory_actions": actions})
    assert [one["action"] for one in result["memory_decisions"]] == [
        "restore",
        "forget",
        "end_run",
        "refuse",
        "refuse",
        "supersede",
        "remember",
    ]
    assert sorted(current(store, run_id="r1")) == ["I like green tea", "The sky is blue"]
    assert store.history(NS, gone) == []


def test_what_a_user_asks_for_is_done_with_what_it_is_about(make_any_store, run):
    store = make_any_store(index=INDEX)
    for text, more in [
        ("My address is 7 Hill", {"subject": "user", "attribute": "address"}),
        ("I like tea", {}),
        ("I have to finish the report", {"memory_type": "task"}),
    ]:
        store.remember(NS, text, **more)
    said = [HumanMessage("Forget my address. I finished the report.")]
    result = run(graph(store, MemoryPolicy(extractor=RulesExtractor())), {"messages": said})
    assert [one["action"] for one in result["memory_decisions"]] == ["forget", "archive"]
    assert current(store) == ["I like tea"]
    assert "hill" not in json.dumps(result["memory_decisions"]).lower()


@pytest.mark.parametrize(
    ("said", "action"), [("forget everything", "ask"), ("忘掉吧", "ask"), ("forget my horse", "refuse")]
)
def test_an_unclear_request_to_forget_erases_nothing(make_any_store, said, action):
    store = make_any_store(index=INDEX)
    store.remember(NS, "I like tea")
    result = graph(store, MemoryPolicy(extractor=RulesExtractor())).invoke({"messages": [HumanMessage(said)]}, config())
    assert outline(result) == [(action, None)]
    assert current(store) == ["I like tea"]


def test_messages_are_looked_at_once(make_any_store):
    store, saver = make_any_store(), InMemorySaver()
    compiled = graph(store, MemoryPolicy(extractor=RulesExtractor()), saver)
    first = compiled.invoke({"messages": [HumanMessage("My name is Ada.")]}, config())
    again = compiled.invoke({"messages": [AIMessage("Hello Ada")]}, config())
    assert len(first["memory_decisions"]) == len(again["memory_decisions"]) == 1
    later = compiled.invoke({"messages": [HumanMessage("I live in Rome.")]}, config())
    assert len(later["memory_decisions"]) == 2


def test_one_event_is_streamed_for_each_decision(make_any_store):
    store = make_any_store()
    state = {"memory_candidates": ["The sky is blue", "continue"]}
    events = list(graph(store).stream(state, config(), stream_mode="custom"))
    assert [event["memory_decision"]["action"] for event in events] == ["remember", "refuse"]


def test_what_the_model_says_to_the_policy_is_not_streamed_to_the_user(make_any_store):
    fact = {"facts": [{"content": "The user lives in Rome", "message_ids": ["m"]}]}
    policy = MemoryPolicy(extractor=LLMExtractor(script([("Extracted", fact)])))
    state = {"messages": [HumanMessage("I live in Rome", id="m")]}
    assert list(graph(make_any_store(), policy).stream(state, config(), stream_mode="messages")) == []


def test_a_run_that_is_resumed_does_nothing_twice(make_any_store):
    store, saver = make_any_store(), InMemorySaver()
    tea = store.remember(NS, "I like tea").key
    policy, failures = MemoryPolicy(), [RuntimeError("cut off")]

    def flaky(state: Any, config: RunnableConfig) -> Any:
        update = policy.invoke(state, config)
        if failures:
            raise failures.pop()
        return update

    compiled = graph(store, flaky, saver)
    state = {
        "memory_candidates": [
            {"content": "I live in Rome", "source": "user"},
            {"content": "I like tea", "source": "user"},
        ],
        "memory_actions": [{"action": "confirm", "key": tea}],
    }
    with pytest.raises(RuntimeError, match="cut off"):
        compiled.invoke(state, config())
    before = store.get(NS, tea).memory.confidence
    compiled.invoke(None, config())
    assert store.get(NS, tea).memory.confidence == before
    assert sorted(current(store)) == ["I like tea", "I live in Rome"]
    assert all(item.memory.version == 1 for item in store.recall(NS))


def test_the_state_survives_checkpoints_under_the_strict_serializer(make_any_store):
    store = make_any_store()
    saver = InMemorySaver(serde=JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=None))
    compiled = graph(store, MemoryPolicy(extractor=RulesExtractor()), saver)
    said = {"messages": [HumanMessage("I live in Rome. Forget my horse.")], "memory_candidates": ["The sky is blue"]}
    result = compiled.invoke(said, config())
    kept = compiled.get_state(config()).values
    assert kept["memory_decisions"] == result["memory_decisions"]
    assert len(kept["memory_decisions"]) == 3
    assert kept["memory_candidates"] == []


def test_an_interrupt_beside_the_policy_applies_nothing_twice(make_any_store):
    store, saver = make_any_store(), InMemorySaver()
    builder = StateGraph(MemoryPolicyState)
    builder.add_node("policy", MemoryPolicy())
    builder.add_node("human", lambda state: {"memory_candidates": [interrupt("more?")]})
    builder.add_edge(START, "policy")
    builder.add_edge("policy", "human")
    builder.add_conditional_edges("human", lambda state: "policy" if len(state["memory_decisions"]) < 2 else END)
    compiled = builder.compile(store=store, checkpointer=saver)
    compiled.invoke({"memory_candidates": ["The sky is blue"]}, config())
    compiled.invoke(Command(resume="Grass is green"), config())
    assert sorted(current(store)) == ["Grass is green", "The sky is blue"]
    assert len([one for one in store.audit(NS) if one.action == "remember"]) == 2


def test_said_again_after_something_else_it_is_current_again(make_any_store):
    store, saver = make_any_store(), InMemorySaver()
    compiled = graph(store, saver=saver)
    for city in ("Paris", "Rome", "Paris"):
        compiled.invoke({"memory_candidates": [{"content": f"I live in {city}", "source": "user"}]}, config())
    assert current(store) == ["I live in Paris"]
    policy = MemoryPolicy(store=store)
    for city in ("Rome", "Paris"):
        policy.invoke({"memory_candidates": [{"content": f"I live in {city}", "source": "user"}]}, config())
    assert current(store) == ["I live in Paris"]


def test_what_a_parallel_branch_adds_is_not_lost(make_any_store):
    store = make_any_store()
    builder = StateGraph(MemoryPolicyState)
    builder.add_node("policy", MemoryPolicy())
    builder.add_node("other", lambda state: {"memory_candidates": ["Grass is green"]})
    builder.add_node("join", MemoryPolicy())
    builder.add_edge(START, "policy")
    builder.add_edge(START, "other")
    builder.add_edge(["policy", "other"], "join")
    result = builder.compile(store=store).invoke({"memory_candidates": ["The sky is blue"]}, config())
    assert sorted(current(store)) == ["Grass is green", "The sky is blue"]
    assert result["memory_candidates"] == []


def test_it_works_in_the_functional_api_and_in_a_subgraph(make_any_store):
    store = make_any_store()
    policy = MemoryPolicy()

    @entrypoint(store=store)
    def work(text: str) -> Any:
        return policy.invoke({"memory_candidates": [text]})

    assert [one["action"] for one in work.invoke("The sky is blue", config())["memory_decisions"]] == ["remember"]
    outer = StateGraph(MemoryPolicyState)
    outer.add_node("inner", graph(None))
    outer.add_edge(START, "inner")
    outer.compile(store=store).invoke({"memory_candidates": ["Grass is green"]}, config())
    assert sorted(current(store)) == ["Grass is green", "The sky is blue"]


def test_the_namespace_is_filled_from_the_context_before_the_config(make_any_store):
    class Context(TypedDict):
        user_id: str

    store = make_any_store()
    builder = StateGraph(MemoryPolicyState, context_schema=Context)
    builder.add_node("policy", MemoryPolicy())
    builder.add_edge(START, "policy")
    compiled = builder.compile(store=store)
    compiled.invoke({"memory_candidates": ["The sky is blue"]}, config(), context={"user_id": "bob"})
    assert current(store, ("memories", "bob")) == ["The sky is blue"]
    with pytest.raises(ConfigurationError, match="the namespace needs 'user_id'"):
        compiled.invoke({"memory_candidates": ["The sky is blue"]}, {"configurable": {}})


def test_without_a_store_or_with_another_it_says_so():
    state = {"memory_candidates": ["The sky is blue"]}
    with pytest.raises(ConfigurationError, match="there is no store: compile the graph"):
        MemoryPolicy().invoke(state, config())
    with pytest.raises(ConfigurationError, match="must be a ForgetfulStore, got InMemoryStore"):
        graph(InMemoryStore()).invoke(state, config())


def test_looking_counts_no_access(make_any_store):
    store = make_any_store(index=INDEX)
    key = store.remember(NS, "The office opens at nine", memory_type="fact").key
    graph(store).invoke({"memory_candidates": ["The office opens at ten"]}, config())
    store.flush()
    assert {item.key: item.memory.access_count for item in store.recall(NS)}[key] == 0


def test_users_and_namespaces_below_do_not_mix(make_any_store):
    store = make_any_store()
    store.remember(("memories", "bob"), "I live in Paris", subject="user", attribute="home_city")
    store.remember((*NS, "work"), "I live in Paris", subject="user", attribute="home_city")
    result = graph(store).invoke({"memory_candidates": [{"content": "I live in Rome", "source": "user"}]}, config())
    assert outline(result) == [("remember", "ADD")]


def test_a_plain_state_works_too(make_any_store):
    class Plain(TypedDict):
        memory_candidates: list[Any]
        memory_decisions: Annotated[list[Any], lambda left, right: right]

    store = make_any_store()
    compiled = graph(store, saver=InMemorySaver(), schema=Plain)
    compiled.invoke({"memory_candidates": ["The sky is blue"]}, config())
    result = compiled.invoke({"memory_decisions": []}, config())
    assert result["memory_decisions"] == []


@pytest.mark.parametrize("loops", [3])
def test_it_runs_from_several_event_loops(make_any_store, loops):
    store = make_any_store()
    compiled = graph(store)

    async def once(number):
        return await compiled.ainvoke({"memory_candidates": [f"Number {number} is fine wine"]}, config(str(number)))

    for number in range(loops):
        asyncio.run(once(number))
    assert len(current(store)) == loops


@pytest.mark.parametrize("message", [("user", "I live in Rome"), {"role": "user", "content": "I live in Rome"}])
def test_messages_may_be_tuples_or_dicts(make_any_store, message):
    store = make_any_store()
    policy = MemoryPolicy(extractor=RulesExtractor(), store=store)
    done = policy.invoke({"messages": [message]}, config())
    assert outline(done) == [("remember", "ADD")]
    assert current(store) == ["I live in Rome"]
