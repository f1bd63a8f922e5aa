"""Graphs with a policy in them, for its tests."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from langgraph.graph import END, START, StateGraph

from langgraph_forgetful_store.policy import MemoryPolicy, MemoryPolicyState
from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("memories", "ada@example%2Eorg")
USER = {"user_id": "ada@example.org"}
INDEX = {"dims": 64, "embed": WordEmbeddings(64)}
CARD = "my card is 4111 1111 1111 1111"
# Eight digits of it: four alone may stand in a random id.
_OF_CARD = re.compile("(?:4111|1111)[ -]?1111")


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


class Wrapped:
    """A store of which single methods, sync and async, are others; the rest is the real one's.

    Args:
        store: The real one.
        instead: By the method's name: a function of the real method, the method as it is awaited or not, and the
            arguments.
    """

    def __init__(self, store: Any, **instead: Any) -> None:
        self._store, self._instead = store, instead

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name == "audited":
            return self._audited
        plain = name if name in self._instead else name.removeprefix("a")
        if plain not in self._instead:
            return real
        instead = self._instead[plain]

        async def later(*args: Any, **options: Any) -> Any:
            for step in instead():
                step()
                result = await real(*args, **options)
            return result

        def now(*args: Any, **options: Any) -> Any:
            for step in instead():
                step()
                result = real(*args, **options)
            return result

        return now if name == plain else later

    def _audited(self, *args: Any, **options: Any) -> Any:
        for step in self._instead.get("audited", lambda: [lambda: None])():
            step()
            made = self._store.audited(*args, **options)
        return replace(made, store=Wrapped(made.store, **self._instead))


def outrun() -> Any:
    """Do it twice: another branch is first to do the same."""
    return [lambda: None] * 2


class CutOff(Exception):
    """The process ended here."""


def cut_off_at(number: int) -> Any:
    """Do it, but for the call of that number: the process ends there, once."""
    calls = iter(range(1, 1000))

    def step() -> None:
        if next(calls) == number:
            raise CutOff

    return lambda: [step]


def shows_card(text: str) -> bool:
    """Whether a part of `CARD`'s number stands in a text."""
    return _OF_CARD.search(text) is not None
