"""Runs several flows against a real server in every order that concurrency allows.

A pipeline is no transaction: other clients' commands run between its own, and its reply arrives later still, when the
server has moved on. So each command that the server executes is one event, and the delivery of a pipeline's replies is
another. `explore` enumerates the orders of these events, running the flows anew for each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import ResponseError

from langgraph_forgetful_store.backend.embedding import NO_VECTORS, Embedder
from langgraph_forgetful_store.backend.flow import Embed, Flow, Info, Outcome, Request, Work
from langgraph_forgetful_store.backend.lanes import Command, Lane, transmit

Actor = Flow[Any] | Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Attributes:
        actor: Whose.
        kind: ``"execute"``: the server ran one command; ``"deliver"``: the replies arrived; ``"call"``: a plain
            function ran.
        command: The command that was executed.
    """

    actor: str
    kind: str
    command: Command = ()


@dataclass(slots=True)
class Run:
    """One order of events, and what came of it.

    Attributes:
        events: What happened, in order.
        outcomes: What each actor returned or raised.
    """

    events: list[Event] = field(default_factory=list)
    outcomes: dict[str, Outcome[Any]] = field(default_factory=dict)

    def result(self, actor: str) -> Any:
        """Return what an actor returned, or raise what it raised."""
        return self.outcomes[actor].unwrap()

    def at(self, actor: str, kind: str, nth: int = 0) -> int:
        """Return the place in `events` of an actor's nth event of a kind; negative counts from its last."""
        return [at for at, event in enumerate(self.events) if (event.actor, event.kind) == (actor, kind)][nth]


@dataclass(slots=True)
class _Acting:
    name: str
    steps: Generator[list[Command], list[Any], Any] | None
    call: Callable[[], Any] | None = None
    commands: list[Command] = field(default_factory=list)
    replies: list[Any] = field(default_factory=list)

    @property
    def next_kind(self) -> str:
        if self.call is not None:
            return "call"
        return "execute" if len(self.replies) < len(self.commands) else "deliver"


class Interleaver:
    """Steps actors, one event at a time.

    Args:
        client: A redis-py client of the server, with ``decode_responses=False``.
        prefix: The store's key prefix, as `store_prefix` makes it.
        embedder: What answers a flow's embeddings; an embedding is no event.

    Attributes:
        prefix: As given.
    """

    def __init__(self, client: Any, prefix: bytes, embedder: Embedder | None = None) -> None:
        self._client = client
        self.prefix = prefix
        self._embedder = embedder
        self._lanes = 0

    def run(self, actors: Mapping[str, Actor], choose: Callable[[int], int]) -> Run:
        """Run actors to their end.

        Args:
            actors: Flows that have not started, or functions, each of which is one event.
            choose: Given how many events are possible, returns which is next.

        Returns:
            The events in their order, and every actor's outcome.
        """
        run = Run()
        acting: list[_Acting] = []
        for name, actor in actors.items():
            if callable(actor):
                acting.append(_Acting(name, None, actor))
            else:
                one = _Acting(name, self.pipelines(actor))
                if self._advance(one, run, None):
                    acting.append(one)
        while acting:
            one = acting[choose(len(acting)) if len(acting) > 1 else 0]
            if not self._step(one, run):
                acting.remove(one)
        return run

    def explore(self, make: Callable[[], Mapping[str, Actor]], *, most: int = 5000, seed: int = 0) -> Iterator[Run]:
        """Run actors in every order; where there are more than `most`, in the first of them and as many random ones.

        Args:
            make: Resets the server, and returns fresh actors.
            most: How many orders to enumerate.
            seed: Of the random orders.

        Yields:
            One run an order.
        """
        path: list[int] = []
        for _ in range(most):
            options: list[int] = []
            yield self.run(make(), _following(path, options))
            if len(options) < len(path):
                raise RuntimeError("the same choices led to fewer events than before: `make` must reset all state")
            path += [0] * (len(options) - len(path))
            while path and path[-1] == options[len(path) - 1] - 1:
                path.pop()
            if not path:
                return
            path[-1] += 1
        # Depth first, the orders so far all begin alike; random ones begin in every way.
        dice = random.Random(seed)
        for _ in range(most):
            yield self.run(make(), dice.randrange)

    def pipelines(self, flow: Flow[Any]) -> Generator[list[Command], list[Any], Any]:
        """Run a flow by hand: yields the commands of each of its pipelines, and is sent their replies.

        Returns:
            What the flow returns.
        """
        self._lanes += 1
        lane = Lane(f"interleaved-{id(self)}-{self._lanes}")
        try:
            request = next(flow)
            while True:
                try:
                    reply = yield from self._answer(request, lane)
                except Exception as error:
                    request = flow.throw(error)
                else:
                    request = flow.send(reply)
        except StopIteration as stop:
            return stop.value

    def _answer(self, request: Request, lane: Lane) -> Generator[list[Command], list[Any], Any]:
        if isinstance(request, Embed):
            if self._embedder is None:
                return NO_VECTORS, NO_VECTORS
            return self._embedder.embed(request.texts, request.queries)
        if isinstance(request, Info):
            return {}
        if isinstance(request, Work):
            return request.compute()
        if request.meanwhile is not None:
            request.meanwhile.compute()
        return (yield from transmit(self.prefix, request.calls, lane))

    def _step(self, one: _Acting, run: Run) -> bool:
        kind = one.next_kind
        if one.call is not None:
            run.events.append(Event(one.name, kind))
            run.outcomes[one.name] = Outcome(one.call())
            return False
        if kind == "execute":
            command = one.commands[len(one.replies)]
            run.events.append(Event(one.name, kind, command))
            try:
                one.replies.append(self._client.execute_command(*command))
            except ResponseError as error:
                one.replies.append(error)
            return True
        run.events.append(Event(one.name, kind))
        return self._advance(one, run, one.replies)

    def _advance(self, one: _Acting, run: Run, replies: list[Any] | None) -> bool:
        assert one.steps is not None
        try:
            one.commands, one.replies = one.steps.send(replies), []  # type: ignore[arg-type]  # None starts it
        except StopIteration as stop:
            run.outcomes[one.name] = Outcome(stop.value)
            return False
        except Exception as error:
            run.outcomes[one.name] = Outcome(error=error)
            return False
        return True


def _following(path: list[int], options: list[int]) -> Callable[[int], int]:
    def choose(count: int) -> int:
        options.append(count)
        return path[len(options) - 1] if len(options) <= len(path) else 0

    return choose
