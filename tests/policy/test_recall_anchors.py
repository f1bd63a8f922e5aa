"""What a message names is anchored: it matters again, and is restored."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage

from langgraph_forgetful_store.model.status import MemoryStatus
from langgraph_forgetful_store.policy.mentions import mentions
from langgraph_forgetful_store.policy.recall_node import RecallMemories
from tests.support.recalling_graph import INDEX, NS, asking, keys


@pytest.fixture
def ask(invoke):
    """Runs a graph of the node alone."""
    return asking(invoke)


@pytest.fixture
def store(make_store, clock):
    return make_store(index=INDEX, clock=clock)


@pytest.fixture
def one_store(make_any_store, clock):
    return make_any_store(index=INDEX, clock=clock)


def test_naming_a_subject_anchors_and_restores_what_is_about_it(store, ask):
    key = store.remember(NS, "allergic to nuts", subject="Bob", attribute="allergy", importance=0.2).key
    store.archive(NS, key)
    store.remember(NS, "plays chess", subject="Bobby", attribute="hobby", importance=0.2, key="bobby")
    ask(RecallMemories(), store, "Is bob, my son, allowed to eat this?")
    memory = store.get(NS, key).memory
    assert (memory.status, memory.importance) == (MemoryStatus.ACTIVE, 0.5)
    assert store.get(NS, "bobby").memory.importance == 0.2


def test_naming_a_tag_anchors_in_chinese_too(store, ask):
    key = store.remember(NS, "每年夏天去海边", tags=["旅行"], importance=0.1).key
    store.archive(NS, key)
    other = store.remember(NS, "喜欢下棋", tags=["下棋"], importance=0.1).key
    out = ask(RecallMemories(min_relevance=None), store, "今年的旅行去哪里好？")
    assert store.get(NS, key).memory.status is MemoryStatus.ACTIVE
    assert store.get(NS, other).memory.importance == 0.1
    assert key in keys(out)


def test_naming_an_alias_anchors_what_goes_by_another_name(store, ask):
    about = {"attribute": "allergy", "importance": 0.1}
    key = store.remember(NS, "allergic to nuts", subject="Robert", **about).key
    other = store.remember(NS, "allergic to fish", subject="Eve", **about).key
    ask(RecallMemories(), store, "what may Bobby eat?")
    assert store.get(NS, key).memory.importance == 0.1
    store.alias(NS, "Robert", "Bobby", "鲍勃")
    ask(RecallMemories(), store, "鲍勃能吃什么？")
    assert store.get(NS, key).memory.importance == 0.5
    assert store.get(NS, other).memory.importance == 0.1


def test_a_store_tells_its_aliases(store, face):
    calls = face(store)
    assert calls.aliases(NS) == {}
    calls.alias(NS, "Robert", "Bobby", "Bob")
    calls.remember(NS, "x", subject="Robert", attribute="age")
    calls.alias(("memories", "eve"), "Ann", "Anna")
    assert calls.aliases(NS) == {"Bob": "Robert", "Bobby": "Robert"}
    calls.unalias(NS, "Bob")
    assert calls.aliases(NS) == {"Bobby": "Robert"}


def test_an_anchored_memory_is_recalled_in_the_same_turn(one_store, ask):
    key = one_store.remember(NS, "green tea", tags=["drinks"]).key
    one_store.archive(NS, key)
    assert keys(ask(RecallMemories(), one_store, "green tea")) == []
    assert keys(ask(RecallMemories(), one_store, "green tea and other drinks")) == [key]


@pytest.mark.parametrize(
    ("node", "messages"),
    [
        (RecallMemories(anchor=False), ["about drinks"]),
        (RecallMemories(as_of="2020-01-01"), ["about drinks"]),
        (RecallMemories(), ["about drinks", AIMessage("let me see")]),
        (RecallMemories(in_contexts=["work"]), ["the user wants _only_in_context_work"]),
    ],
)  # fmt: skip
def test_nothing_is_anchored_otherwise(one_store, ask, node, messages):
    rows = [
        one_store.remember(NS, "green tea", tags=["drinks"], importance=0.1, valid_from="2019-01-01").key,
        one_store.remember(NS, "white tea", tags=["_only_in_context_work"], importance=0.1).key,
        one_store.remember(NS, "black tea", subject="User", attribute="tea", importance=0.1).key,
    ]
    ask(node, one_store, *messages)
    assert [one_store.get(NS, key).memory.importance for key in rows] == [0.1, 0.1, 0.1]


def test_anchoring_keeps_to_the_run_and_the_user(one_store, ask):
    theirs = one_store.remember(("memories", "eve"), "x", tags=["drinks"], importance=0.1).key
    other = one_store.remember(NS, "x", tags=["drinks"], importance=0.1, run_id="r2").key
    own = one_store.remember(NS, "x", tags=["drinks"], importance=0.1, run_id="r1").key
    ask(RecallMemories(), one_store, "about drinks", config={"configurable": {"user_id": "ada", "run_id": "r1"}})
    assert one_store.get(("memories", "eve"), theirs).memory.importance == 0.1
    assert one_store.get(NS, other).memory.importance == 0.1
    assert one_store.get(NS, own).memory.importance == 0.5


def test_without_the_reserved_key_subjects_are_found_too(make_any_store, ask):
    store = make_any_store(index=INDEX, reserved_key=None)
    key = store.remember(NS, "green tea", tags=["drinks"], importance=0.1).key
    ask(RecallMemories(), store, "about drinks")
    assert store.get(NS, key).memory.importance == 0.5


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("Ask Bob.", "bob", True), ("Bobby knows", "Bob", False), ("abob", "bob", False), ("bob_x", "bob", False),
        ("Bob's car", "Bob", True), ("我用iOS手机", "iOS", True), ("去旅行吧", "旅行", True), ("x", "", False),
        ("안나는 서울에", "안나", True), ("Анна тут", "Ан", False), ("Анна тут", "анна", True), ("x", " ", False),
        ("C++ rocks", "C++", True), ("what a.b is", "a.b", True), ("axb", "a.b", False), ("STRASSE", "Straße", True),
        ("v2 of project X-1", "project x-1", True),
    ],
)  # fmt: skip
def test_a_name_is_mentioned_as_a_word_of_its_own(text, name, expected):
    assert mentions(text, [name]) is expected
