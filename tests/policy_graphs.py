"""Graphs with a policy in them, for its tests."""

from __future__ import annotations

from langgraph.graph import END, START, StateGraph

from langgraph_forgetful_store.policy import MemoryPolicy, MemoryPolicyState
from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("memories", "ada@example%2Eorg")
USER = {"user_id": "ada@example.org"}
INDEX = {"dims": 64, "embed": WordEmbeddings(64)}
CARD = "my card is 4111 1111 1111 1111"


def config(thread="1", **more):
    return {"configurable": {**USER, "thread_id": thread, **more}}


def graph(store, policy=None, saver=None, schema=MemoryPolicyState):
    builder = StateGraph(schema)
    builder.add_node("policy", policy or MemoryPolicy())
    builder.add_edge(START, "policy")
    builder.add_edge("policy", END)
    return builder.compile(store=store, checkpointer=saver)


def outline(result):
    return [(one["action"], one["relation"]) for one in result["memory_decisions"]]


def current(store, ns=NS, **options):
    return [item.value["content"] for item in store.recall(ns, limit=50, **options)]
