"""Runs that are cut off, paused and resumed, also in several branches: each decision is carried out once."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Annotated, Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from langgraph_forgetful_store.policy import (
    Extraction,
    LLMExtractor,
    LLMJudge,
    MemoryPolicy,
    MemoryPolicyState,
    PolicySettings,
    Relation,
    RulesExtractor,
    Verdict,
)
from tests.support.policy_graphs import INDEX, NS, CutOff, Wrapped, config, current, cut_off_at, graph, outline, outrun
from tests.support.scripted_model import script


def seeded(store: Any) -> dict[str, Any]:
    """Return a state with a bit of everything about what a store is given first."""
    store.remember(NS, "I live in Paris", key="home", subject="user", attribute="home_city", source="user")
    for key in ("milk", "tea", "jazz"):
        store.remember(NS, f"likes {key}", key=key, confidence=0.6)
    return {
        "memory_candidates": [
            {"content": "I live in Rome", "source": "user"},
            {"content": "The desk is on floor 4", "subject": "Robert", "attribute": "desk", "source": "user"},
            {"content": "likes milk", "source": "user"},
            {"content": "plays chess", "key": "hobby", "source": "user"},
            {"content": "moved on to Oslo", "subject": "user", "attribute": "home_city", "source": "user"},
        ],
        "memory_actions": [
            {"action": "confirm", "key": "tea"},
            {"action": "deny", "key": "jazz"},
            {"action": "supersede", "key": "tea", "content": "likes green tea", "new_key": "green"},
        ],
    }


def rows(store: Any) -> list[tuple[Any, ...]]:
    """Return what is in the memory, without what is made up."""
    items = store.recall(NS, limit=50, status=("active", "archived", "superseded"))
    return sorted(
        (one.value["content"], str(one.memory.status), round(one.memory.confidence, 6), one.memory.version)
        for one in items
    )


@pytest.fixture
def whole(make_any_store):
    """What is in the memory after a run that nothing cuts off."""
    store = make_any_store(index=INDEX)
    graph(store).invoke(seeded(store), config())
    done = rows(store)
    store.forget_all(NS)
    assert len(done) == 9
    return done


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("method", ["audited", "confirm", "deny", "supersede", "remember"])
@pytest.mark.parametrize("number", [1, 2, 4, 8])
def test_a_go_that_is_cut_off_between_two_decisions_is_done_once(make_any_store, invoke, whole, method, number, depth):
    store = make_any_store(index=INDEX)
    inner = graph(None, MemoryPolicy(store=Wrapped(store, **{method: cut_off_at(number)})))
    compiled = graph(store, inner if depth else MemoryPolicy(store=Wrapped(store, **{method: cut_off_at(number)})))
    compiled.checkpointer = InMemorySaver()
    try:
        invoke(compiled, seeded(store), config())
    except CutOff:
        result = invoke(compiled, None, config())
        assert "refuse" not in [one["action"] for one in result["memory_decisions"]]
    assert rows(store) == whole


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_action_on_several_memories_that_is_cut_off_is_done_once_to_each(make_any_store, invoke, number):
    store = make_any_store(index=INDEX)
    for at, text in enumerate(("likes jazz records", "goes to jazz concerts", "plays jazz")):
        store.remember(NS, text, confidence=0.9 - at / 100, tags=["jazz"])
    policy = MemoryPolicy(store=Wrapped(store, deny=cut_off_at(number)))
    compiled = graph(store, policy, InMemorySaver())
    with pytest.raises(CutOff):
        invoke(compiled, {"memory_actions": [{"action": "deny", "about": "jazz"}]}, config())
    assert outline(invoke(compiled, None, config())) == [("deny", None)] * 3
    # The order in which they are found is another by now.
    assert sorted(round(item.memory.confidence, 6) for item in store.recall(NS)) == [0.68, 0.69, 0.7]


def test_what_is_resumed_is_told_as_it_was_decided(make_any_store, invoke):
    store = make_any_store()
    policy = MemoryPolicy(store=Wrapped(store, audited=cut_off_at(2)))
    compiled = graph(store, policy, InMemorySaver())
    texts = ["I live in Paris", "I moved to Rome"]
    with pytest.raises(CutOff):
        invoke(compiled, {"memory_candidates": [{"content": text, "source": "user"} for text in texts]}, config())
    first, second = invoke(compiled, None, config())["memory_decisions"]
    assert [first["action"], second["action"]] == ["remember", "supersede"]
    assert (second["supersedes"], second["candidate"]["content"]) == (first["key"], "I moved to Rome")
    assert [item.memory.confidence for item in store.history(NS, second["key"])] == [0.95, 0.95]


def test_a_graph_below_without_a_checkpoint_of_its_own_does_nothing_twice(make_any_store, invoke):
    store, failures = make_any_store(), [CutOff()]
    key = store.remember(NS, "likes tea", confidence=0.9).key

    def fail(state: Any) -> Any:
        if failures:
            raise failures.pop()
        return {}

    inner = StateGraph(MemoryPolicyState).add_node("policy", MemoryPolicy()).add_node("fail", fail)
    inner.add_edge(START, "policy").add_edge("policy", "fail")
    compiled = graph(store, inner.compile(checkpointer=False), InMemorySaver())
    with pytest.raises(CutOff):
        invoke(compiled, {"memory_actions": [{"action": "deny", "key": key}]}, config())
    invoke(compiled, None, config())
    assert store.get(NS, key).memory.confidence == pytest.approx(0.7)


def test_an_interrupt_in_a_branch_beside_it_does_nothing_twice(make_any_store, invoke):
    store = make_any_store()
    key = store.remember(NS, "likes tea", confidence=0.9).key
    builder = StateGraph(MemoryPolicyState).add_node("policy", MemoryPolicy()).add_edge(START, "policy")
    builder.add_node("human", lambda state: {"memory_candidates": [interrupt("more?")]}).add_edge(START, "human")
    compiled = builder.compile(store=store, checkpointer=InMemorySaver())
    said = {"memory_actions": [{"action": "deny", "key": key}], "memory_candidates": ["The sky is blue"]}
    invoke(compiled, said, config())
    result = invoke(compiled, Command(resume="Grass is green"), config())
    assert (result["memory_actions"], result["memory_candidates"]) == ([], ["Grass is green"])
    assert store.get(NS, key).memory.confidence == pytest.approx(0.7)
    assert Counter(one.action for one in store.audit(NS) if one.action != "decision") == {"remember": 2, "deny": 1}


@pytest.mark.parametrize("as_task", [False, True])
def test_a_functional_workflow_that_pauses_after_the_policy_does_nothing_twice(make_any_store, invoke, as_task):
    store = make_any_store()
    key = store.remember(NS, "likes tea", confidence=0.9).key
    policy = MemoryPolicy(extractor=RulesExtractor())
    in_task = task(lambda state: policy.invoke(state), name="in_task")

    @entrypoint(store=store, checkpointer=InMemorySaver())
    def work(state: Any) -> Any:
        done = in_task(state).result() if as_task else policy.invoke(state)
        return [interrupt("go on?"), outline(done)]

    said = {
        "messages": [HumanMessage("I live in Rome.", id="m")],
        "memory_candidates": [{"content": "The sky is blue", "source": "user"}],
        "memory_actions": [{"action": "deny", "key": key}],
    }
    invoke(work, said, config())
    answer, done = invoke(work, Command(resume="yes"), config())
    assert (answer, Counter(done)) == ("yes", {("deny", None): 1, ("remember", "ADD"): 2})
    assert store.get(NS, key).memory.confidence == pytest.approx(0.7)
    kept = {item.value["content"]: item.memory.confidence for item in store.recall(NS)}
    assert kept == {"likes tea": pytest.approx(0.7), "I live in Rome.": 0.95, "The sky is blue": 0.95}


def consenting(draft: Any, settings: Any) -> None:
    """Ask the user whether to keep a candidate."""
    if not interrupt({"keep?": draft.candidate.text}):
        draft.settle("refuse", "refused: the user said no")


@pytest.mark.parametrize("stage", ["verify", "admit"])
@pytest.mark.parametrize(("answer", "kept"), [(True, ["The sky is blue"]), (False, [])])
def test_a_stage_may_ask_the_user(make_any_store, invoke, stage, answer, kept):
    store = make_any_store()
    policy = MemoryPolicy(settings=PolicySettings(replaced={stage: consenting}))
    compiled = graph(store, policy, InMemorySaver())
    paused = invoke(compiled, {"memory_candidates": ["The sky is blue"]}, config())
    assert [one.value for one in paused["__interrupt__"]] == [{"keep?": "The sky is blue"}]
    assert (current(store), paused.get("memory_decisions", [])) == ([], [])
    result = invoke(compiled, Command(resume=answer), config())
    assert [one["action"] for one in result["memory_decisions"]] == ["remember" if answer else "refuse"]
    assert (current(store), result["memory_candidates"]) == (kept, [])
    assert len([one for one in store.audit(NS) if one.action == "decision"]) == 1


def test_the_users_answers_go_to_the_candidates_they_are_about(make_any_store, invoke):
    store = make_any_store()
    compiled = graph(store, MemoryPolicy(settings=PolicySettings(replaced={"admit": consenting})), InMemorySaver())
    result = invoke(compiled, {"memory_candidates": ["The sky is blue", "Grass is green"]}, config())
    for answer in (False, True):
        assert "__interrupt__" in result
        result = invoke(compiled, Command(resume=answer), config())
    assert (len(result["memory_decisions"]), current(store)) == (2, ["Grass is green"])


def asking_model(reply: dict[str, Any]) -> Any:
    """Return a model that asks the user before it answers."""

    class Asking:
        def with_structured_output(self, schema: Any) -> Any:
            return RunnableLambda(lambda prompt: interrupt("may I?") and schema.model_validate(reply))

    return Asking()


def asking_extractor(exchange: Any) -> Extraction:
    return Extraction((interrupt("may I?"),))


async def asking_extractor_on_a_loop(exchange: Any) -> Extraction:
    return Extraction((interrupt("may I?"),))


def asking_judge(pairs: Any) -> list[Verdict]:
    return [Verdict(Relation(interrupt("may I?")))] * len(pairs)


FACT = {"facts": [{"content": "The sky is blue", "message_ids": ["m"]}]}
SUPPLEMENT = {"pairs": [{"index": 0, "relation": "SUPPLEMENT"}]}


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (MemoryPolicy(extractor=asking_extractor), "The sky is blue"),
        (MemoryPolicy(extractor=LLMExtractor(asking_model(FACT))), True),
        (MemoryPolicy(extractor=RulesExtractor(), judge=asking_judge), "SUPPLEMENT"),
        (MemoryPolicy(extractor=RulesExtractor(), judge=LLMJudge(asking_model(SUPPLEMENT))), True),
    ],
    ids=["extractor", "LLMExtractor", "judge", "LLMJudge"],
)
def test_extractors_judges_and_models_may_ask_the_user(make_any_store, invoke, policy, answer):
    store = make_any_store(index=INDEX)
    store.remember(NS, "remember that the sky is wide")
    compiled = graph(store, policy, InMemorySaver())
    said = {"messages": [HumanMessage("Remember that the sky is blue.", id="m")]}
    paused = invoke(compiled, said, config())
    assert [one.value for one in paused["__interrupt__"]] == ["may I?"]
    assert paused.get("memory_decisions", []) == []
    result = invoke(compiled, Command(resume=answer), config())
    assert [one["action"] for one in result["memory_decisions"]] == ["remember"]
    assert len(current(store)) == 2


async def test_an_extractor_on_a_loop_may_ask_the_user(make_any_store):
    store = make_any_store()
    compiled = graph(store, MemoryPolicy(extractor=asking_extractor_on_a_loop), InMemorySaver())
    paused = await compiled.ainvoke({"messages": [HumanMessage("hello")]}, config())
    assert "__interrupt__" in paused
    await compiled.ainvoke(Command(resume="The sky is blue"), config())
    assert [item.value["content"] for item in await store.arecall(NS)] == ["The sky is blue"]
    await store.aclose()


def test_a_model_that_fails_is_still_no_interrupt(make_any_store, invoke):
    policy = MemoryPolicy(extractor=LLMExtractor(script("?", "?")))
    result = invoke(graph(make_any_store(), policy), {"messages": [HumanMessage("hello")]}, config())
    assert [one["action"] for one in result["memory_decisions"]] == ["abstain"]


class Branched(MemoryPolicyState):
    """A state that shows what each branch says."""

    said: Annotated[list[str], operator.add]


def in_branches(store: Any, count: int, policy: Any = None) -> Any:
    """Return a graph of as many branches, each with a policy."""
    builder = StateGraph(Branched)
    for number in range(count):
        builder.add_node(str(number), policy or MemoryPolicy()).add_edge(START, str(number))
    return builder.compile(store=store, checkpointer=InMemorySaver())


@pytest.mark.parametrize("below", [False, True])
def test_branches_that_decide_the_same_say_so_and_do_it_once(make_any_store, invoke, below):
    store = make_any_store()
    store.remember(NS, "I live in City", subject="user", attribute="home_city", source="user")
    compiled = in_branches(store, 6, graph(None) if below else None)
    for number in range(6):
        candidates = [
            {"content": f"I live in City{number}", "subject": "user", "attribute": "home_city", "source": "user"},
            {"content": f"The number is {number}", "source": "user"},
        ]
        result = invoke(compiled, {"memory_candidates": candidates}, config(str(number)))
        assert outline(result) == [("supersede", "UPDATE"), ("remember", "ADD")]
    decided = [one for one in store.audit(NS, limit=1000) if one.action == "decision"]
    assert {one.details["action"] for one in decided} == {"supersede", "remember"}
    items = store.recall(NS, limit=50, status=("active", "superseded"))
    assert sorted(item.value["content"] for item in items if item.memory.status == "active") == sorted(
        ["I live in City5", *(f"The number is {number}" for number in range(6))]
    )
    assert (len(items), {item.memory.confidence for item in items}) == (13, {0.95})


@pytest.mark.parametrize(
    ("state", "done"),
    [
        ({"memory_candidates": [{"content": "I live in Rome", "source": "user"}]}, ("supersede", "UPDATE")),
        ({"memory_candidates": [{"content": "likes tea", "key": "drink"}]}, ("remember", "ADD")),
        ({"memory_actions": [{"action": "supersede", "key": "home", "content": "lives in Rome"}]}, None),
        ({"memory_actions": [{"action": "supersede", "key": "home", "content": "Rome", "new_key": "rome"}]}, None),
    ],
)
def test_a_branch_that_another_outruns_says_what_was_done(make_any_store, invoke, state, done):
    store = make_any_store()
    store.remember(NS, "I live in Paris", key="home", subject="user", attribute="home_city", source="user")
    outrunning = Wrapped(store, supersede=outrun, remember=outrun)
    result = invoke(graph(store, MemoryPolicy(store=outrunning)), state, config())
    assert outline(result) == [done or ("supersede", "UPDATE")]
    assert {one.details["action"] for one in store.audit(NS) if one.action == "decision"} == {outline(result)[0][0]}


def test_a_new_key_that_is_another_memorys_is_refused(make_any_store, invoke):
    store = make_any_store()
    for key in ("one", "two"):
        store.remember(NS, f"memory {key}", key=key)
    actions = [{"action": "supersede", "key": "one", "content": "memory three", "new_key": "two"}]
    result = invoke(graph(store), {"memory_actions": actions}, config())
    assert [one["action"] for one in result["memory_decisions"]] == ["refuse"]
    assert sorted(current(store)) == ["memory one", "memory two"]
