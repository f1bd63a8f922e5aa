"""Conversations with a policy that works by rules alone."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_forgetful_store.model.memory_types import LIFECYCLE
from langgraph_forgetful_store.policy import MemoryPolicy, RulesExtractor
from tests.support.policy_graphs import NS, config, current, graph

ALL = {"status": ("active", "archived", "superseded"), "memory_types": list(LIFECYCLE)}


class Conversation:
    """A user who says one thing after the other.

    Attributes:
        store: The memory.
        decisions: What was decided about the last message.
    """

    def __init__(self, store: Any, asynchronous: bool) -> None:
        self.store = store
        self.decisions: list[dict[str, Any]] = []
        self._graph = graph(store, MemoryPolicy(extractor=RulesExtractor()), InMemorySaver())
        self._asynchronous = asynchronous

    def say(self, *texts: str) -> list[tuple[str, str | None]]:
        """Say something, and return what was decided about the last of it."""
        for text in texts:
            known = {one["id"] for one in self.decisions}
            state = {"messages": [HumanMessage(text), AIMessage("ok")]}
            made = self._run(state)["memory_decisions"]
            fresh = [one for one in made if one["id"] not in known]
            self.decisions = made
        return [(one["action"], one["relation"]) for one in fresh]

    def _run(self, state: Any) -> Any:
        if not self._asynchronous:
            return self._graph.invoke(state, config())

        async def once() -> Any:
            try:
                return await self._graph.ainvoke(state, config())
            finally:
                await self.store.aclose()

        return asyncio.run(once())

    def known(self, **options: Any) -> list[str]:
        """What is current, or what is asked for."""
        return sorted(current(self.store, **options))

    def only(self, **options: Any) -> Any:
        """The lifecycle of the only memory there is."""
        (item,) = self.store.recall(NS, **{**ALL, **options})
        return item.memory
