"""Decisions that are carried out later, or by somebody else; and memories that are closed by then."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy import (
    Admission,
    MemoryPolicy,
    PolicySettings,
    RulesExtractor,
    TypeDefaults,
    Vault,
)
from tests.support.open_connections import require
from tests.support.policy_graphs import CARD, INDEX, NS, config, current, graph, outline


@pytest.fixture(params=["sync", "async"])
def ask(request):
    """Calls a method of a policy, sync or async."""

    def call(policy: MemoryPolicy, method: str, *args: Any, **more: Any) -> Any:
        if request.param == "sync":
            return getattr(policy, method)(*args, **more)
        return asyncio.run(getattr(policy, f"a{method}")(*args, **more))

    return call


def travelled(decisions: Any) -> Any:
    """Return decisions as a client gives them back."""
    return json.loads(json.dumps(decisions))


def status(store: Any, key: str) -> str:
    return str(store.get(NS, key).memory.status)


@pytest.mark.parametrize(
    "state",
    [
        {"memory_actions": [{"action": "supersede", "key": "plan", "content": "the standup moved to four"}]},
        {"memory_candidates": [{"content": "the standup moved to four", "relation_to": "plan"}]},
        {"memory_candidates": [{"content": "the standup moved to four", "key": "plan"}]},
    ],
    ids=["action", "relation_to", "key"],
)
def test_a_correction_of_a_memory_that_changed_since_replaces_what_it_became(make_any_store, ask, state):
    store = make_any_store(index=INDEX)
    store.remember(NS, "the meeting is at three", key="plan")
    policy = MemoryPolicy(store=store)
    planned = travelled(ask(policy, "decide", state, config()))
    new = store.supersede(NS, "plan", "the meeting is at five").key
    (done,) = ask(policy, "apply", planned)
    assert (done["action"], done["supersedes"], done["id"]) == ("supersede", new, planned[0]["id"])
    assert current(store) == ["the standup moved to four"]


def test_a_correction_of_a_memory_that_is_gone_since_is_refused_as_ever(make_any_store, ask):
    store = make_any_store()
    store.remember(NS, "the meeting is at three", key="plan")
    policy = MemoryPolicy(store=store)
    state = {"memory_actions": [{"action": "supersede", "key": "plan", "content": "it is at four"}]}
    planned = travelled(ask(policy, "decide", state, config()))
    store.forget(NS, "plan")
    (done,) = ask(policy, "apply", planned)
    assert (done["action"], done["reason"].partition(":")[0], current(store)) == ("refuse", "not_found", [])


FIELDS: list[tuple[dict[str, Any], str, str]] = [
    ({"explicit": True, "source": None}, "supersede", "UPDATE"),
    ({"corrects": True}, "supersede", "CONTRADICT"),
    ({"negates": True, "content": "No desk on any floor"}, "retire", "NEGATE"),
    ({"hedged": True}, "remember", "UPDATE"),
    ({"domain": "office", "source": None}, "supersede", "UPDATE"),
    ({"utility": 1.0, "source": None}, "supersede", "UPDATE"),
    ({"key": "mine"}, "supersede", "UPDATE"),
]


@pytest.mark.parametrize(("fields", "action", "relation"), FIELDS, ids=[next(iter(fields)) for fields, *_ in FIELDS])
def test_what_was_proposed_counts_when_a_decision_is_made_again(make_any_store, ask, fields, action, relation):
    store = make_any_store()
    slot = {"subject": "Robert", "attribute": "desk"}
    # What nobody stated is worth keeping where it is useful, and that alone.
    factors = dict.fromkeys(("confidence", "novelty", "recency", "prior"), 0.0)
    admission = Admission(weights={"utility": 1.0, **factors}, threshold=0.9)
    settings = PolicySettings(templates={("*", "office"): TypeDefaults(admit=True)}, admission=admission)
    policy = MemoryPolicy(store=store, settings=settings)
    given = {"content": "The desk is on floor 4", "source": "user", **slot, **fields}
    candidate = {name: value for name, value in given.items() if value is not None}
    first = store.remember(NS, "The desk is on floor 2", **slot)
    planned = travelled(ask(policy, "decide", {"memory_candidates": [candidate]}, config()))
    store.supersede(NS, first.key, "The desk is on floor 3")
    (fresh,) = ask(policy, "decide", {"memory_candidates": [candidate]}, config())
    (done,) = ask(policy, "apply", planned)
    assert (done["action"], done["relation"]) == (fresh["action"], fresh["relation"]) == (action, relation)
    assert (done["key"] == "mine") == (fields.get("key") == "mine")


def test_a_decision_shows_nothing_sensitive_of_what_was_proposed(make_any_store, ask):
    policy = MemoryPolicy(store=make_any_store())
    candidates = [
        {"content": CARD, "explicit": True, "domain": "shop"},
        {"content": "The sky is blue", "source": "user", "domain": CARD, "relation_to": "4111 1111 1111 1111"},
    ]
    planned = ask(policy, "decide", {"memory_candidates": candidates}, config())
    assert "4111 1" not in json.dumps(planned)


def test_what_is_encrypted_is_decided_about_once_more_without_its_text(make_any_store, ask):
    require("cryptography")
    from cryptography.fernet import Fernet

    store, vault = make_any_store(), Vault(Fernet.generate_key())
    policy = MemoryPolicy(store=store, settings=PolicySettings(vault=vault))
    candidate = {"content": CARD, "consent": True, "subject": "user", "attribute": "card", "source": "user"}
    planned = travelled(ask(policy, "decide", {"memory_candidates": [candidate]}, config()))
    taken = store.remember(NS, "none", subject="user", attribute="card").key
    (done,) = ask(policy, "apply", planned)
    assert (done["action"], done["supersedes"], "4111 1" in json.dumps(done)) == ("supersede", taken, False)
    assert vault.reveal(store, NS, done["key"], why="to pay") == CARD


def test_a_decision_that_is_made_again_tells_the_recall_before_it(make_any_store, ask):
    store = make_any_store()
    policy = MemoryPolicy(store=store)
    state = {"memory_candidates": [{"content": "I live in Rome", "source": "user"}], "memory_recall_id": "r"}
    planned = ask(policy, "decide", state, config())
    store.remember(NS, "I live in Paris", subject="user", attribute="home_city")
    assert [one["candidate"]["recall_id"] for one in ask(policy, "apply", planned)] == ["r"]


RETIRED: list[dict[str, Any]] = [
    {"memory_actions": [{"action": "supersede", "key": "plan", "content": "the meeting is at four"}]},
    {"memory_candidates": [{"content": "the meeting is at four", "key": "plan"}]},
    {"memory_candidates": [{"content": "the meeting is at three", "key": "plan"}]},
    {"memory_candidates": [{"content": "the meeting is at four", "relation_to": "plan"}]},
    {"memory_candidates": [{"content": "maybe the meeting is at four", "key": "plan"}]},
]


@pytest.mark.parametrize("state", RETIRED)
def test_what_is_said_of_a_retired_memory_opens_its_chain_again(make_any_store, invoke, state):
    store = make_any_store()
    store.remember(NS, "the meeting is at three", key="plan", source="user")
    store.retire(NS, "plan")
    result = invoke(graph(store), state, config())
    (decision,) = result["memory_decisions"]
    said = (state.get("memory_candidates") or state["memory_actions"])[0]["content"]
    assert (decision["action"], decision["supersedes"], result["memory_candidates"]) == ("supersede", "plan", [])
    old, new = store.history(NS, decision["key"])
    assert (old.key, old.memory.reason, new.value["content"]) == ("plan", "negated", said)
    # The time between stays a gap.
    assert old.memory.valid_until <= new.memory.valid_from
    assert str(new.memory.status) == "active"


def test_a_denial_of_a_retired_memory_denies_nothing(make_any_store, invoke):
    store = make_any_store()
    store.remember(NS, "the meeting is at three", key="plan")
    store.retire(NS, "plan")
    state = {"memory_candidates": [{"content": "the meeting is not at three", "key": "plan", "negates": True}]}
    assert [one["action"] for one in invoke(graph(store), state, config())["memory_decisions"]] == ["refuse"]
    assert status(store, "plan") == "superseded"


def test_a_slot_that_is_taken_counts_before_a_retired_memory_that_had_it(make_any_store, invoke):
    store = make_any_store()
    slot = {"subject": "user", "attribute": "home_city"}
    store.remember(NS, "lives in Paris", key="home", **slot)
    store.retire(NS, "home")
    taken = store.remember(NS, "lives in Rome", **slot).key
    state = {"memory_candidates": [{"content": "lives in Oslo", "key": "home", **slot}]}
    (decision,) = invoke(graph(store), state, config())["memory_decisions"]
    assert (decision["action"], decision["supersedes"]) == ("supersede", taken)
    assert current(store) == ["lives in Oslo"]


def test_the_key_of_an_earlier_row_stands_for_its_chain(make_any_store, invoke):
    store = make_any_store()
    store.remember(NS, "the meeting is at three", key="plan")
    store.supersede(NS, "plan", "the meeting is at four")
    state = {"memory_candidates": [{"content": "the meeting is at three", "key": "plan", "source": "user"}]}
    assert outline(invoke(graph(store), state, config())) == [("supersede", "UPDATE")]
    assert current(store) == ["the meeting is at three"]


@pytest.mark.parametrize("key", ["plan", None])
def test_a_guess_stands_beside_the_memory_whose_key_it_names(make_any_store, invoke, key):
    store = make_any_store()
    store.remember(NS, "the meeting is at three", key="plan", source="user")
    named = {"relation_to": "plan"} if key is None else {"key": key}
    state = {"memory_candidates": [{"content": "maybe the meeting is at four", "source": "user", **named}]}
    result = invoke(graph(store), state, config())
    (decision,) = result["memory_decisions"]
    assert (decision["action"], decision["key"], result["memory_candidates"]) == ("remember", decision["id"], [])
    assert current(store) == ["the meeting is at three"]
    assert store.get(NS, decision["key"]).memory.memory_type == "hypothesis"


@pytest.mark.parametrize("source", ["user", "model"])
def test_a_duplicate_of_a_memory_that_was_retired_since_is_kept_anew(make_any_store, ask, source):
    store = make_any_store()
    key = store.remember(NS, "I like tea", source="user").key
    policy = MemoryPolicy(store=store)
    candidate = {"content": "I like tea", "source": source, "explicit": True}
    planned = travelled(ask(policy, "decide", {"memory_candidates": [candidate]}, config()))
    assert outline({"memory_decisions": planned}) == [("merge", "DUPLICATE")]
    store.retire(NS, key)
    assert [one["action"] for one in ask(policy, "apply", planned)] == ["remember"]
    assert current(store) == ["I like tea"]


def test_a_duplicate_of_a_memory_that_was_erased_since_is_kept(make_any_store, ask):
    store = make_any_store()
    key = store.remember(NS, "I like tea", source="user").key
    policy = MemoryPolicy(store=store)
    planned = ask(policy, "decide", {"memory_candidates": [{"content": "I like tea", "source": "user"}]}, config())
    store.forget(NS, key)
    assert [one["action"] for one in ask(policy, "apply", planned)] == ["remember"]


def test_outside_of_a_graph_what_is_said_again_counts_again(make_any_store, ask):
    store = make_any_store(index=INDEX)
    policy = MemoryPolicy(store=store, extractor=RulesExtractor())
    for said, kept in (
        ("I like jazz.", ["I like jazz."]),
        ("I don't like jazz any more.", []),
        ("I like jazz.", ["I like jazz."]),
    ):
        ask(policy, "invoke", {"messages": [HumanMessage(said)]}, config())
        assert current(store) == kept


def test_outside_of_a_graph_each_request_is_one_of_its_own(make_any_store, ask):
    store = make_any_store()
    key = store.remember(NS, "likes tea", confidence=0.5).key
    policy, state = MemoryPolicy(store=store), {"memory_actions": [{"action": "confirm", "key": key}]}
    for expected in (0.6, 0.7):
        ask(policy, "invoke", state, config())
        assert store.get(NS, key).memory.confidence == pytest.approx(expected)


def test_outside_of_a_graph_the_same_message_is_the_same_request(make_any_store, ask):
    store = make_any_store()
    policy = MemoryPolicy(store=store, extractor=RulesExtractor())
    for _ in range(2):
        ask(policy, "invoke", {"messages": [HumanMessage("I live in Rome.", id="m")]}, config())
    assert [item.memory.confidence for item in store.recall(NS)] == [0.95]


def test_decisions_that_are_applied_twice_count_once(make_any_store, ask):
    store = make_any_store()
    key = store.remember(NS, "likes tea", confidence=0.5, source="user").key
    state = {
        "memory_actions": [{"action": "confirm", "key": key}],
        "memory_candidates": [{"content": "likes tea", "source": "user"}, {"content": "I live in Rome"}],
    }
    policy = MemoryPolicy(store=store)
    planned = travelled(ask(policy, "decide", state, config()))
    for _ in range(2):
        ask(policy, "apply", planned)
    assert {item.value["content"]: item.memory.version for item in store.recall(NS)} == {
        "likes tea": 1,
        "I live in Rome": 1,
    }
    # Once for the action, once as it is said again.
    assert store.get(NS, key).memory.confidence == pytest.approx(0.7)


def decided(store: Any, **change: Any) -> dict[str, Any]:
    policy = MemoryPolicy(store=store)
    return {**policy.decide({"memory_candidates": ["The sky is blue"]}, config())[0], **change}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, "got NoneType"),
        (5, "got int"),
        ("all", "got str"),
        ({}, "got dict"),
        ([5], "the one at 0 is a int"),
        ([{}], "the one at 0 lacks id, candidate"),
        ({"action": "explode"}, "the one at 0 has an unknown action; known are remember"),
        ({"action": []}, "has an unknown action"),
        ({"id": None}, "unusable id"),
        ({"key": None}, "unusable id, reason, key"),
        ({"candidate": None}, "unusable"),
        ({"candidate": {"namespace": list(NS)}}, "without content"),
        ({"action": "supersede"}, "unusable"),
        ({"action": "end_run"}, "without run_id"),
        ({"action": "feedback"}, "without recall_id or value"),
    ],
)
def test_what_is_no_decision_is_refused_before_anything_is_done(make_any_store, ask, given, problem):
    store = make_any_store()
    policy = MemoryPolicy(store=store)
    decisions = [decided(store, **given)] if isinstance(given, dict) and given else given
    good = [*decisions, decided(store)] if isinstance(decisions, list) else decisions
    with pytest.raises(ValueError, match=f"decisions must be .*{problem}"):
        ask(policy, "apply", good)
    assert current(store) == []


def test_decisions_about_another_namespace_than_the_configs_are_refused(make_any_store, ask):
    store = make_any_store()
    policy, planned = MemoryPolicy(store=store), [decided(store)]
    with pytest.raises(ValueError, match=r"decisions must be .* about another namespace"):
        ask(policy, "apply", planned, {"configurable": {"user_id": "eve"}})
    with pytest.raises(ConfigurationError, match="the namespace needs 'user_id'"):
        ask(policy, "apply", planned, {"configurable": {}})
    assert current(store) == []
    assert ask(policy, "apply", planned, config()) == planned


@pytest.mark.parametrize("given", [None, 5, "The sky is blue", ["The sky is blue"], object()])
@pytest.mark.parametrize("method", ["invoke", "decide"])
def test_what_is_no_state_is_refused(make_any_store, ask, method, given):
    with pytest.raises(ValueError, match=f"input must be a state, .* got {type(given).__name__}"):
        ask(MemoryPolicy(store=make_any_store()), method, given, config())


@pytest.mark.parametrize("given", [5, [5], [{"role": "user"}]])
def test_messages_that_are_none_are_refused(make_any_store, ask, given):
    with pytest.raises(ValueError, match="messages of the state must be a list of messages"):
        ask(MemoryPolicy(store=make_any_store()), "invoke", {"messages": given}, config())
