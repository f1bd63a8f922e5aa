"""Searches that go on only when they are told to."""

from __future__ import annotations

from typing import Any

from langgraph.store.base import PutOp, SearchOp
from redis.exceptions import ResponseError

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.search.scope import Scope
from tests.support.staged_orders import Stage

NS = ("notes",)
ALL = SearchOp(NS, filter={"v": {"$gte": 0}}, limit=1000)


class Paused:
    """A search that goes on only when it is told to, one pipeline at a time."""

    def __init__(self, at: Stage, op: SearchOp) -> None:
        self._at = at
        self._steps = at.interleaver.pipelines(at.batch(op))
        self._replies: list[Any] = []
        self.is_done = False
        self.items: list[Any] = []
        self.commands = next(self._steps)

    def execute(self) -> Paused:
        """Let the server execute the next pipeline."""
        for command in self.commands:
            try:
                self._replies.append(self._at.client.execute_command(*command))
            except ResponseError as error:
                self._replies.append(error)
        return self

    def deliver(self) -> Paused:
        """Deliver its replies."""
        replies, self._replies = self._replies, []
        try:
            self.commands = self._steps.send(replies)
        except StopIteration as stop:
            self.is_done, self.items = True, stop.value[0]
        return self

    def until(self, script: scripts.Script) -> Paused:
        """Go on until the next pipeline calls a script."""
        while not any(script.sha in command for command in self.commands):
            self.execute().deliver()
            assert not self.is_done
        return self

    def finish(self) -> dict[str, int]:
        """Go on to the end; returns the keys and what their values hold under ``v``."""
        if self._replies:
            self.deliver()
        while not self.is_done:
            self.execute().deliver()
        return {item.key: item.value["v"] for item in self.items}


def put(at: Stage, key: str, v: int | None, ns: tuple[str, ...] = NS, **more: Any) -> None:
    ttl = {"ttl": more.pop("ttl")} if "ttl" in more else {}
    at.store.batch([PutOp(ns, key, None if v is None else {"v": v, **more}, **ttl)])


def found(at: Stage, op: SearchOp = ALL) -> dict[str, int]:
    return {item.key: item.value["v"] for item in at.store.batch([op])[0]}


def scope_of(at: Stage) -> Scope:
    (scope,) = at.session.cache.scopes.values()
    return scope
