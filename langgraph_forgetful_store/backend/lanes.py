"""Lanes: channels to the server whose pipelines are numbered, so that none is carried out twice."""

from __future__ import annotations

import base64
import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import hiredis
import redis
import redis.asyncio
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, NoScriptError, ReadOnlyError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from langgraph_forgetful_store.backend.flow import Info, as_client_error
from langgraph_forgetful_store.backend.refusals import Refusals
from langgraph_forgetful_store.backend.scripts import GET, PAGE, Call, unrefreshing

Command = tuple[Any, ...]
Meanwhile = Callable[[], object] | None
SCRIPT_ATTEMPTS = 5
# Scripts that write nothing but refreshed TTLs.
_READS = (GET, PAGE)
KEEP_CONNECTIONS = 32
_BLOCKING = (redis.BlockingConnectionPool, redis.asyncio.BlockingConnectionPool)


@dataclass(slots=True)
class Lane:
    """One channel to the server: its pipelines are numbered and never overlap.

    A script that runs once compares the number of its pipeline with the last that was carried out at its place in one,
    so that a command which was sent again after its reply had been lost is not carried out twice. Each place has a
    record of its own: others of the same pipeline may have failed, or have another result.

    Attributes:
        connection: One of redis-py's, which a driver leaves with the lane: taking it out of a pool for each command
            takes longer than a Redis on the same machine needs to answer.
        pool: Where the connection was taken from.
    """

    id: str
    number: int = 0
    connection: Any = None
    pool: Any = None


class Lanes:
    """The lanes that no one is using at the moment.

    A lane whose pipeline has failed is not given back: its calls may be sent again under their numbers, which a later
    pipeline of the lane would have outrun.

    Attributes:
        free: The lanes, the last one that was given back at the end.
    """

    def __init__(self) -> None:
        self.free: deque[Lane] = deque()

    @property
    def have_room(self) -> bool:
        """Whether one more may keep its connection; beyond that, so many were needed for a moment only."""
        return len(self.free) < KEEP_CONNECTIONS

    def take(self) -> Lane:
        """Lend a lane for one pipeline and its repetitions; it is to be given back."""
        try:
            return self.free.pop()
        except IndexError:
            return Lane(base64.b85encode(os.urandom(10)).decode())

    def give(self, lane: Lane) -> None:
        """Take a lane back."""
        self.free.append(lane)


def _command(prefix: bytes, call: Call, lane: Lane, at: int, *, load: bool = False) -> Command:
    if call.script.once and call.once is None:
        # It stays with the call, which may be sent again after it has failed on a connection.
        call.once = f"{lane.id}.{at}", lane.number
    once = call.once or ()
    if load:
        return "EVAL", call.script.source, 1, prefix, *call.args, *once
    return "EVALSHA", call.script.sha, 1, prefix, *call.args, *once


def transmit(
    prefix: bytes, calls: Sequence[Call], lane: Lane, refusals: Refusals | None = None
) -> Generator[list[Command], list[Any], list[Any]]:
    """Turn calls into commands, and send again those whose script the server had lost, all in their order.

    Args:
        prefix: The store's key prefix.
        calls: What is sent.
        lane: On which.
        refusals: Reads that the server refuses to refresh are sent again without that where it says so.

    Yields:
        Pipelines of commands; to be sent the replies, errors among them.

    Returns:
        One reply a call.
    """
    # One number for all attempts: a call whose script is lost now may have been carried out before its reply was lost.
    lane.number += 1
    if refusals is not None and refusals.are_known:
        calls = [unrefreshing(call) for call in calls]
    replies = yield [_command(prefix, call, lane, at) for at, call in enumerate(calls)]
    for attempt in range(1, SCRIPT_ATTEMPTS):
        waiting = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if not waiting:
            break
        # EVAL runs a script and leaves it cached, so that the rest of the pipeline finds it; the last attempt does
        # not rely on that, since another client may empty the cache all the time.
        last = attempt == SCRIPT_ATTEMPTS - 1
        loaded: set[str] = set()
        commands: list[Command] = []
        for at in waiting:
            sha = calls[at].script.sha
            commands.append(_command(prefix, calls[at], lane, at, load=last or sha not in loaded))
            loaded.add(sha)
        for at, answer in zip(waiting, (yield commands), strict=True):
            replies[at] = answer
    refused = [
        at
        for at, reply in enumerate(replies)
        if isinstance(reply, ResponseError) and calls[at].script in _READS and refusals and refusals.allow(reply)
    ]
    if refused:
        commands = [_command(prefix, unrefreshing(calls[at]), lane, at, load=True) for at in refused]
        for at, answer in zip(refused, (yield commands), strict=True):
            replies[at] = answer
    return replies


def make_ready(connection: Any) -> None:
    """Connect a connection, anew where the server has closed it or a reply was left in it, as redis-py's pools do.

    Raises:
        redis.exceptions.RedisError: The server can't be reached.
    """
    connection.connect()
    try:
        unusable = connection.can_read()
    except (RedisConnectionError, RedisTimeoutError, OSError):
        unusable = True
    if unusable:
        connection.disconnect()
        connection.connect()


def exchange(connection: Any, commands: Sequence[Command], meanwhile: Meanwhile = None) -> list[Any]:
    """Send commands at once and read their replies, with the retries that the connection is set to.

    Args:
        connection: One of redis-py's.
        commands: What is sent.
        meanwhile: Called when they have been sent.

    Returns:
        One reply a command; what the server answers with an error is an entry, not raised.

    Raises:
        redis.exceptions.RedisError: The connection broke, or the time for a reply is over.
    """

    def send() -> list[Any]:
        # Packed one by one, so that the server has the first while the next is packed.
        connection.send_packed_command(map(hiredis.pack_command, commands))
        if meanwhile is not None:
            meanwhile()
        return [read_reply(connection) for _ in commands]

    def attempt() -> list[Any]:
        replies = send()
        if (demoted := _demoted(replies)) is not None:
            connection.disconnect()
            _retry_elsewhere(connection, demoted)
            connection.connect()
            replies = send()
            if _demoted(replies) is not None:
                connection.disconnect()
        return replies

    try:
        replies: list[Any] = connection.retry.call_with_retry(attempt, lambda _: connection.disconnect())
    except BaseException:
        # Whatever interrupted it, replies may be on their way, and are not those of the next command.
        connection.disconnect()
        raise
    return replies


def read_reply(connection: Any) -> Any:
    """Read one reply; an error of the server is returned."""
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


def _demoted(replies: Sequence[Any]) -> ReadOnlyError | None:
    """Return the error of a server that has become a replica, if it is among the replies."""
    for reply in replies:
        if isinstance(reply, ResponseError) and isinstance(error := as_client_error(reply), ReadOnlyError):
            return error
    return None


def _retry_elsewhere(connection: Any, error: ReadOnlyError) -> None:
    """Raise what is retried on another server: a Sentinel names the new primary, or the user has asked for it.

    Anywhere else one new connection is tried, as the server's name may stand for the new primary by now. The commands
    that were carried out are known by their lane and number, and so not repeated.
    """
    if getattr(getattr(connection, "connection_pool", None), "is_master", False):
        raise RedisConnectionError("the primary has become a replica") from error
    # redis-py keeps the errors that the user has chosen to retry there.
    if isinstance(error, connection.retry._supported_errors):
        raise error


async def aexchange(connection: Any, commands: Sequence[Command], meanwhile: Meanwhile = None) -> list[Any]:
    """Do as `exchange` does, on an async connection."""

    async def send() -> list[Any]:
        # redis-py packs an async connection's commands in Python, which takes several times as long.
        await connection.send_packed_command([hiredis.pack_command(command) for command in commands])
        if meanwhile is not None:
            meanwhile()
        replies: list[Any] = []
        for _ in commands:
            try:
                replies.append(await connection.read_response())
            except ResponseError as error:
                replies.append(error)
        return replies

    async def attempt() -> list[Any]:
        replies = await send()
        if (demoted := _demoted(replies)) is not None:
            await connection.disconnect()
            _retry_elsewhere(connection, demoted)
            await connection.connect()
            replies = await send()
            if _demoted(replies) is not None:
                await connection.disconnect()
        return replies

    try:
        replies: list[Any] = await connection.retry.call_with_retry(attempt, lambda _: connection.disconnect())
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return replies


def keeps_connections(pool: Any) -> bool:
    """Tell whether connections may stay with lanes.

    Not where the user has limited them, so that they wait for whoever needs one next; nor behind a Sentinel, where
    redis-py drops a pool's idle ones when the primary changes, and looks at each that is taken out.
    """
    return not isinstance(pool, _BLOCKING) and not hasattr(pool, "sentinel_manager")


def ask_for_info(request: Info) -> list[Command]:
    """Return the commands that ask what the server says of itself."""
    return [*([request.after] if request.after else []), ("INFO",)]


def read_info(client: Any, replies: list[Any]) -> dict[str, Any]:
    """Read their replies; empty where the user may not ask."""
    *before, reply = replies
    for one in before:
        if isinstance(one, Exception):
            raise one
    if isinstance(reply, NoPermissionError | ResponseError):
        return {}
    if isinstance(reply, Exception):
        raise reply
    return dict(client.response_callbacks["INFO"](reply))
