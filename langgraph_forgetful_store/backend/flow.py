"""Flows: operations written once, as generators, and run by a sync or an async driver.

A flow yields a request (`Send` or `Embed`) and is sent the reply; what it returns is the operation's result. So it
holds no I/O and no colour. `gather` steps several flows together, so that what they ask for at the same step goes
out as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, OutOfMemoryError, ReadOnlyError, ResponseError

from langgraph_forgetful_store.backend.scripts import Call
from langgraph_forgetful_store.errors import CorruptRecordError

T = TypeVar("T")


@dataclass(slots=True)
class Info:
    """Ask what the server says of itself. The reply is a dict, empty where the user may not ask.

    Attributes:
        after: A command that is carried out first, outside of any script; its error is raised.
    """

    after: tuple[str, ...] = ()


@dataclass(slots=True)
class Embed:
    """Ask for embeddings.

    The reply is a pair of arrays of float32, of shapes (len(texts), dims) and (len(queries), dims).
    """

    texts: Sequence[str] = ()
    queries: Sequence[str] = ()


# Below so many rows it is not worth asking whether a computation should leave the event loop.
MANY = 1000


@dataclass(slots=True)
class Work:
    """Ask for a computation, on another thread where it is long and the caller is an event loop.

    The reply is what it returns.
    """

    compute: Callable[[], Any]
    rows: int


class Turn(Work):
    """Ask to go on when those that are gathered with the flow, and asked for the same before, have ended.

    Of several that change the same, one gets through at a time: to try all at once would take time by their square.
    Alone, a flow goes on at once.

    Args:
        name: What is to be changed.
    """

    def __init__(self, name: object) -> None:
        super().__init__(lambda: None, 0)
        self.name = name


@dataclass(slots=True)
class Send:
    """Ask for script calls. The reply is a list, one entry a call; a server's error is an entry, not raised.

    Attributes:
        calls: What is sent.
        meanwhile: What may be computed while the server answers: not at all, or again where calls are sent again.
    """

    calls: Sequence[Call]
    meanwhile: Work | None = None

    def aside(self, most: float = math.inf) -> Callable[[], Any] | None:
        """Return what to compute meanwhile, if it is over no more than so many rows."""
        work = self.meanwhile
        return None if work is None or work.rows > most else work.compute


Request = Send | Embed | Info | Work
Flow = Generator[Request, Any, T]


@dataclass(slots=True)
class Outcome(Generic[T]):
    """What became of one flow: a value, or the error it raised."""

    value: T | None = None
    error: BaseException | None = None

    def unwrap(self) -> T:
        """Return the value.

        Raises:
            BaseException: The error the flow ended with.
        """
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # a flow that ended without error has its value


_INSIDE_SCRIPTS: tuple[tuple[str, type[ResponseError]], ...] = (
    ("OOM command not allowed", OutOfMemoryError),
    ("READONLY You can't write", ReadOnlyError),
    ("ACL failure in script", NoPermissionError),
    ("The user executing the script can't", NoPermissionError),
)


def checked(reply: Any) -> Any:
    """Return a reply, or raise it where it is a server's error."""
    if isinstance(reply, BaseException):
        error = as_client_error(reply)
        raise error from (None if error is reply else reply)
    return reply


def as_client_error(error: BaseException) -> BaseException:
    """Give an error from inside a script the type it has outside of one, or say what it means.

    Servers put words of their own before some errors of a script, so redis-py can't tell the kind.
    """
    if type(error) is ResponseError:
        message = str(error)
        if "WRONGTYPE" in message:
            return CorruptRecordError(f"something else wrote a key under the store's key prefix: {message}")
        for part, kind in _INSIDE_SCRIPTS:
            if part in message:
                return kind(message)
    return error


Finished = Callable[[int, Outcome[Any]], None]


@dataclass(slots=True)
class _Running(Generic[T]):
    at: int
    flow: Flow[T]
    finished: Finished | None
    outcome: Outcome[T] = field(default_factory=Outcome)
    request: Request | None = None

    def step(self, reply: Any = None, error: BaseException | None = None) -> None:
        try:
            self.request = self.flow.send(reply) if error is None else self.flow.throw(error)
            return
        except StopIteration as stop:
            self.request, self.outcome.value = None, stop.value
        except Exception as raised:
            self.request, self.outcome.error = None, raised
        if self.finished is not None:
            self.finished(self.at, self.outcome)


def gather(flows: Sequence[Flow[T]], finished: Finished | None = None) -> Flow[list[Outcome[T]]]:
    """Step flows together; at each step, what they send is one pipeline and what they embed is one request.

    Args:
        flows: Flows that have not started.
        finished: Called with a flow's index and outcome as soon as it has ended, while others go on.

    Returns:
        A flow whose result is one outcome a flow, in order: an error ends only the flow that it belongs to.
    """
    if len(flows) == 1:
        return [(yield from _alone(flows[0], finished))]
    running = [_Running(at, flow, finished) for at, flow in enumerate(flows)]
    for one in running:
        one.step()
    turns: dict[object, _Running[T]] = {}
    while pending := [one for one in running if one.request is not None]:
        for one in pending:
            _give_turn(one, turns)
        pending = [one for one in pending if not isinstance(one.request, Turn)]
        embeds = [one for one in pending if isinstance(one.request, Embed)]
        sends = [one for one in pending if isinstance(one.request, Send)]
        asks = [one for one in pending if isinstance(one.request, Info)]
        for one in pending:
            if isinstance(one.request, Work):
                yield from _work(one)
        if asks:
            yield from _ask_together(asks)
        if sends:
            yield from _send_together(sends)
        if embeds:
            yield from _embed_together(embeds)
    return [one.outcome for one in running]


def _give_turn(one: _Running[Any], turns: dict[object, _Running[Any]]) -> None:
    while isinstance(one.request, Turn):
        name = one.request.name
        holder = turns.get(name)
        if holder is not None and holder.request is not None and holder is not one:
            return
        # A flow has one turn at a time, so that none waits for one that waits for it.
        for other in [other for other, held in turns.items() if held is one]:
            del turns[other]
        turns[name] = one
        one.step()


def _alone(flow: Flow[T], finished: Finished | None) -> Flow[Outcome[T]]:
    outcome: Outcome[T] = Outcome()
    try:
        outcome.value = yield from flow
    except Exception as error:
        outcome.error = error
    if finished is not None:
        finished(0, outcome)
    return outcome


def _step_all(several: Sequence[_Running[Any]], reply: Any = None, error: BaseException | None = None) -> None:
    for one in several:
        one.step(reply, error)


def _work(one: _Running[Any]) -> Flow[None]:
    while isinstance(one.request, Work):
        try:
            result = yield one.request
        except Exception as error:
            one.step(error=error)
        else:
            one.step(result)


def _ask_together(asks: Sequence[_Running[Any]]) -> Flow[None]:
    try:
        info = yield Info()
    except Exception as error:
        _step_all(asks, error=error)
    else:
        _step_all(asks, info)


def _is_up() -> Flow[bool]:
    try:
        yield Info()
    except Exception:
        return False
    return True


def _send_together(sends: list[_Running[Any]]) -> Flow[None]:
    wanted = [one.request.calls for one in sends if isinstance(one.request, Send)]
    try:
        replies = yield Send([call for calls in wanted for call in calls])
    except RedisConnectionError as error:
        if len(sends) == 1 or not (yield from _is_up()):
            _step_all(sends, error=error)
            return
        # The server has dropped a connection, not gone: what one caller sent may be why, and is only its own affair.
        # What was carried out is not repeated: the calls keep their numbers.
        for one in sends:
            yield from _send_together([one])
        return
    except Exception as error:
        _step_all(sends, error=error)
        return
    at = 0
    for one, calls in zip(sends, wanted, strict=True):
        one.step(replies[at : at + len(calls)])
        at += len(calls)


def _embed_together(embeds: list[_Running[Any]]) -> Flow[None]:
    wanted = [one.request for one in embeds if isinstance(one.request, Embed)]
    texts = [text for request in wanted for text in request.texts]
    queries = [query for request in wanted for query in request.queries]
    try:
        reply = yield Embed(texts, queries)
    except Exception as error:
        if len(embeds) == 1:
            embeds[0].step(error=error)
            return
        # One caller's text may be what failed: each asks alone, and only its own error reaches it.
        for one in embeds:
            yield from _embed_together([one])
        return
    text, query = 0, 0
    for one, request in zip(embeds, wanted, strict=True):
        until_text, until_query = text + len(request.texts), query + len(request.queries)
        one.step((reply[0][text:until_text], reply[1][query:until_query]))
        text, query = until_text, until_query
