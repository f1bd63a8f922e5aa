"""What tests of agents with memories share: a user, an index, and a graph of one node that recalls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_forgetful_store.policy import RecalledState
from langgraph_forgetful_store.policy.recall_node import RecallMemories
from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("memories", "ada")
INDEX = {"dims": 64, "embed": WordEmbeddings(64), "fields": ["content"]}
ADA = {"configurable": {"user_id": "ada"}}


class State(MessagesState, RecalledState, total=False):
    """A graph's state with what `RecallMemories` writes."""


def recalling(node: RecallMemories, store: Any, schema: Any = None, **settings: Any) -> Any:
    """Return a graph of that node alone."""
    builder = StateGraph(State, context_schema=schema).add_node("recall", node).add_edge(START, "recall")
    return builder.compile(store=store, **settings)


def asking(invoke: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Return what runs such a graph over messages; what is no message is said by the user."""

    def ask(
        node: RecallMemories, store: Any, *messages: Any, config: Any = ADA, schema: Any = None, **more: Any
    ) -> Any:
        said = [HumanMessage(one) if isinstance(one, str) else one for one in messages]
        return invoke(recalling(node, store, schema), {"messages": said}, config, **more)

    return ask


def keys(out: dict[str, Any]) -> list[str]:
    """Return the keys of what was recalled."""
    return [one["key"] for one in out["recalled_memories"]]
