"""What a recall returned is trusted more, or less, for how it was received."""

from __future__ import annotations

import pytest

from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("memories", "alice")
INDEX = {"dims": 16, "embed": WordEmbeddings(16), "fields": ["content"]}


@pytest.fixture
def recalled(make_store, face, clock):
    store = face(make_store(clock=clock, index=INDEX))
    for key, text in (("a", "green tea"), ("b", "black tea"), ("c", "a bicycle")):
        store.remember(NS, text, key=key)
    return store, store.recall(NS, "tea", limit=2)


def trust(store, key="a"):
    memory = store.get(NS, key).memory
    return round(memory.confidence, 9), round(memory.importance, 9)


def test_the_items_of_one_recall_share_an_id_and_another_recall_has_another(recalled):
    store, items = recalled
    assert len({item.recall_id for item in items}) == 1
    assert store.recall(NS, "tea")[0].recall_id != items[0].recall_id
    assert store.search(NS, query="tea")[0].recall_id


def test_what_was_only_listed_can_be_given_feedback_too(make_store, face, clock):
    store = face(make_store(clock=clock))
    store.remember(NS, "green tea", key="a")
    (item,) = store.recall(NS)
    assert item.memory.access_count == 0
    store.feedback(item.recall_id, 1)
    assert trust(store) == (0.9, 0.55)
    assert store.search(NS)[0].recall_id


@pytest.mark.parametrize(("value", "confidence", "importance"), [(1, 0.9, 0.55), (-1, 0.6, 0.45)])
def test_feedback_moves_all_that_was_recalled_and_nothing_else(recalled, value, confidence, importance):
    store, items = recalled
    changed = store.feedback(items[0].recall_id, value)
    assert sorted(item.key for item in changed) == ["a", "b"]
    assert trust(store, "a") == trust(store, "b") == (confidence, importance)
    assert trust(store, "c") == (0.8, 0.5)


def test_feedback_may_be_for_some_of_it_and_is_clamped(recalled):
    store, items = recalled
    for _ in range(6):
        store.feedback(items[0].recall_id, -1, keys=["a"])
    assert store.get(NS, "a").memory.confidence == 0
    assert trust(store, "b") == (0.8, 0.5)


def test_feedback_is_audited_and_its_records_name_the_recall(recalled):
    store, items = recalled
    store.feedback(items[0].recall_id, -1)
    records = [record for record in store.audit(NS) if record.action == "feedback"]
    assert {record.key for record in records} == {"a", "b"}
    assert {record.reason for record in records} == {"negative"}
    assert all(items[0].recall_id.startswith(record.details["recall"]) for record in records)


def test_what_was_forgotten_and_written_anew_was_not_recalled(recalled, clock):
    store, items = recalled
    store.delete(NS, "a")
    store.delete(NS, "b")
    clock.advance(ms=1)
    store.remember(NS, "green tea again", key="a")
    assert store.feedback(items[0].recall_id, -1) == []
    assert trust(store) == (0.8, 0.5)


@pytest.mark.parametrize("recall_id", ["", "x", "AAAA", 3, None])
def test_what_is_no_recall_id_is_refused_by_its_name(make_store, face, recall_id):
    with pytest.raises(ValueError, match="recall_id must be"):
        face(make_store()).feedback(recall_id, 1)


@pytest.mark.parametrize("value", [0, 2, True, 0.5, None, "1"])
def test_a_value_is_one_or_minus_one(recalled, value):
    store, items = recalled
    with pytest.raises(ValueError, match="value must be 1 or -1"):
        store.feedback(items[0].recall_id, value)
