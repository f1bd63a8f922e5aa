"""Another search brings a scope its first rows of new types while one is about to rank what it has synced."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from langgraph_forgetful_store.operations import search as search_operation
from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("notes",)
INDEX = {"dims": 8, "embed": WordEmbeddings(8), "fields": ["text"]}
TEXT = {"text": "tea"}
BEFORE: dict[str, tuple[dict[str, Any], ...]] = {
    "an empty scope": (),
    "a generic row": ({"$memory": {}},),
    "a typed row": ({"$memory": {"memory_type": "fact"}},),
    "a row that is gone": ({"gone": True},),
}


@pytest.fixture
def beside(monkeypatch):
    """Has something done, once, between a search's sync and its ranking."""

    def arrange(interfere: Any) -> None:
        rank = search_operation.rank
        todo = [interfere]

        def late(*args: Any, **more: Any) -> Any:
            while todo:
                todo.pop()()
            return rank(*args, **more)

        monkeypatch.setattr(search_operation, "rank", late)

    return arrange


def bring(store: Any, writer: Any, kinds: list[str]) -> None:
    """Write a row of each type, and have another caller of `store` bring them into the cache that both share."""
    for kind in kinds:
        writer.put(NS, kind, {**TEXT, "$memory": {"memory_type": kind}})
    other = threading.Thread(target=store.search, args=(NS,), kwargs={"query": "tea"})
    other.start()
    other.join()


@pytest.mark.parametrize("kinds", [["task"], ["task", "opinion"], ["made up"]], ids="+".join)
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("scoring", ["weighted", "similarity", "generative_agents", "multiplicative"])
def test_a_search_finds_what_it_synced_though_rows_of_new_types_come(
    make_any_store, face, beside, scoring, before, kinds
):
    store, writer = make_any_store(index=INDEX, scoring=scoring), make_any_store(index=INDEX)
    writer.put(("elsewhere",), "k", TEXT)
    for at, more in enumerate(before):
        writer.put(NS, f"old{at}", {**TEXT, **more})
    store.search(NS, query="tea")
    for at, more in enumerate(before):
        if "gone" in more:
            writer.delete(NS, f"old{at}")
    expected = {item.key for item in store.search(NS, query="tea")}

    beside(lambda: bring(store, writer, kinds))
    assert {item.key for item in face(store).search(NS, query="tea")} == expected
    assert {item.key for item in face(store).search(NS, query="tea")} == expected | set(kinds)


def test_an_explained_recall_and_a_goal_do_so_too(make_any_store, face, beside):
    store, writer = make_any_store(index=INDEX), make_any_store(index=INDEX)
    writer.put(("elsewhere",), "k", TEXT)
    store.search(NS, query="tea")

    beside(lambda: bring(store, writer, ["task"]))
    found = face(store).recall(NS, "tea", goal="coffee", in_contexts=["s"], explain=True)
    assert found == []
