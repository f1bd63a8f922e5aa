"""An embedder that fails is nobody's bad argument: its error comes out as it is, and nothing is consumed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.base import GetOp, PutOp, SearchOp

from langgraph_forgetful_store import MemoryPolicy, memory_tools
from langgraph_forgetful_store.policy import RulesExtractor
from langgraph_forgetful_store.testing import WordEmbeddings
from tests.support.policy_graphs import NS, USER, config, current, graph, outline
from tests.support.refused_input import dump

ERRORS = {
    "ValueError": ValueError("quota exceeded"),
    "TypeError": TypeError("unexpected keyword"),
    "UnicodeError": UnicodeError("no such text"),
    "RuntimeError": RuntimeError("down"),
    "LookupError": KeyError("model"),
}
WRONG = {
    "a wrong number of dimensions": lambda vectors: [vector[1:] for vector in vectors],
    "no numbers": lambda vectors: [["x"] * 64 for _ in vectors],
    "one vector less": lambda vectors: vectors[1:] or [[]],
}


class Failing(WordEmbeddings):
    """Fails, or returns what it must not, while it is told to."""

    def __init__(self) -> None:
        super().__init__(64)
        self.error: Exception | None = None
        self.spoil: Any = None
        self.only: str | None = None

    def embed_documents(self, texts: list[str]) -> Any:
        if self.error is not None and (self.only is None or any(self.only in text for text in texts)):
            raise self.error
        vectors = super().embed_documents(texts)
        return self.spoil(vectors) if self.spoil else vectors

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]


@pytest.fixture
def embedder():
    return Failing()


@pytest.fixture
def store(make_any_store, embedder):
    made = make_any_store(index={"dims": 64, "embed": embedder, "fields": ["content"]})
    made.remember(NS, "drinks tea", key="old", ttl=60)
    return made


OPS = {
    "put": lambda side: side.put(NS, "k", {"content": "x"}),
    "put over": lambda side: side.put(NS, "old", {"content": "x"}),
    "put of a slot": lambda side: side.put(NS, "k", {"content": "x", "$memory": {"subject": "a", "attribute": "b"}}),
    "remember": lambda side: side.remember(NS, "x", key="k", subject="a", attribute="b", memory_type="made up"),
    "supersede": lambda side: side.supersede(NS, "old", "x"),
    "search": lambda side: side.search(NS, query="tea"),
    "recall": lambda side: side.recall(NS, "tea", negative=["coffee"], goal="sleep"),
    "a batch": lambda side: side.batch([GetOp(NS, "old"), SearchOp(NS), PutOp(NS, "k", {"content": "x"})]),
}


@pytest.mark.parametrize("what", OPS)
@pytest.mark.parametrize("kind", ERRORS)
def test_its_error_comes_out_as_it_is_and_nothing_is_stored_counted_or_numbered(
    make_any_store, store, embedder, face, what, kind
):
    store.flush()
    before = dump(make_any_store)
    embedder.error = ERRORS[kind]
    with pytest.raises(type(ERRORS[kind])) as raised:
        OPS[what](face(store))
    assert raised.value is ERRORS[kind]
    store.flush()
    assert dump(make_any_store) == before
    embedder.error = None
    OPS[what](face(store))


@pytest.mark.parametrize("kind", ERRORS)
async def test_it_reaches_its_own_caller_alone(store, embedder, kind):
    embedder.error, embedder.only = ERRORS[kind], "poison"
    outcomes = await asyncio.gather(
        store.aput(NS, "a", {"content": "one"}),
        store.aput(NS, "bad", {"content": "poison"}),
        store.aremember(NS, "two", key="b"),
        store.aremember(NS, "poison", key="worse"),
        store.asearch(NS, query="poison"),
        store.aget(NS, "old"),
        return_exceptions=True,
    )
    assert [outcome is ERRORS[kind] for outcome in outcomes] == [False, True, False, True, True, False]
    embedder.error = None
    assert sorted(item.key for item in await store.asearch(NS)) == ["a", "b", "old"]


CALLS = {
    "remember": {"content": "I live in Oslo", "source": "user"},
    "supersede": {"key": "old", "content": "drinks coffee"},
    "recall": {"query": "tea"},
}


def fail(embedder: Failing, how: str) -> type[Exception]:
    """Have it fail in a way; returns the type of the error."""
    if how in ERRORS:
        embedder.error = ERRORS[how]
        return type(ERRORS[how])
    embedder.spoil = WRONG[how]
    return TypeError if how == "no numbers" else ValueError


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("how", [*ERRORS, *WRONG])
def test_a_tool_does_not_tell_the_model_that_its_argument_was_bad(store, embedder, invoke, tool, how):
    tools = StateGraph(MessagesState).add_node("tools", ToolNode(memory_tools(), handle_tool_errors=False))
    said = AIMessage("", tool_calls=[{"name": tool, "args": CALLS[tool], "id": "1"}])
    using = tools.add_edge(START, "tools").compile(store=store)
    with pytest.raises(fail(embedder, how)):
        invoke(using, {"messages": [said]}, {"configurable": USER})
    embedder.error = embedder.spoil = None
    assert current(store) == ["drinks tea"]
    assert invoke(using, {"messages": [said]}, {"configurable": USER})["messages"][-1].status == "success"


STATES = {
    "a candidate": {"memory_candidates": [{"content": "I live in Oslo"}]},
    "an action": {"memory_actions": [{"action": "remember", "content": "I live in Oslo"}]},
    "a supersede": {"memory_actions": [{"action": "supersede", "key": "old", "content": "drinks coffee"}]},
    "a request to forget": {"memory_actions": [{"action": "forget", "about": "tea"}]},
}


@pytest.mark.parametrize("what", STATES)
@pytest.mark.parametrize("how", ["ValueError", "TypeError", "a wrong number of dimensions"])
def test_a_policy_refuses_nothing_for_it_and_decides_when_it_works_again(store, embedder, invoke, what, how):
    app = graph(store, MemoryPolicy(extractor=RulesExtractor()), InMemorySaver())
    error = fail(embedder, how)
    with pytest.raises(error):
        invoke(app, STATES[what], config())
    embedder.error = embedder.spoil = None
    assert current(store) == ["drinks tea"]
    # The same thread goes on where it stopped.
    result = outline(invoke(app, None, config()))
    assert result
    assert not [one for one in result if one[0] in ("refuse", "abstain")]
    assert what == "a request to forget" or len(current(store)) == (1 if "supersede" in what else 2)


@pytest.mark.parametrize("how", ["ValueError", "TypeError"])
def test_decisions_whose_writing_fails_are_carried_out_later(store, embedder, invoke, how):
    policy = MemoryPolicy(extractor=RulesExtractor(), store=store)
    decisions = policy.decide({"messages": [HumanMessage("I live in Oslo and I work as a nurse.")]}, config())
    assert decisions
    error = fail(embedder, how)
    with pytest.raises(error):
        policy.apply(decisions, config())
    embedder.error = None
    applied = policy.apply(decisions, config())
    assert [one["action"] for one in applied] == [one["action"] for one in decisions]
    assert len(current(store)) == 1 + len(decisions)
