"""Lanes: channels to the server whose pipelines are numbered, so that none is carried out twice."""

from __future__ import annotations

import base64
import os
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from langgraph_forgetful_store.backend.scripts import Call

Command = tuple[Any, ...]
SCRIPT_ATTEMPTS = 5


@dataclass(slots=True)
class Lane:
    """One channel to the server: its pipelines are numbered and never overlap.

    A script that runs once compares the number of its pipeline with the last that was carried out at its place in one,
    so that a command which was sent again after its reply had been lost is not carried out twice. Each place has a
    record of its own: others of the same pipeline may have failed, or have another result.

    Attributes:
        connection: One of redis-py's, which a driver leaves with the lane: taking it out of a pool for each command
            takes longer than a Redis on the same machine needs to answer.
    """

    id: str
    number: int = 0
    connection: Any = None


class Lanes:
    """The lanes that no one is using at the moment."""

    def __init__(self) -> None:
        self._free: deque[Lane] = deque()

    def take(self) -> Lane:
        """Lend a lane for one pipeline and its repetitions; it is to be given back."""
        try:
            return self._free.pop()
        except IndexError:
            return Lane(base64.b85encode(os.urandom(10)).decode())

    def give(self, lane: Lane) -> None:
        """Take a lane back."""
        self._free.append(lane)


def _command(prefix: bytes, call: Call, lane: Lane, at: int, *, load: bool = False) -> Command:
    once = (call.once or (f"{lane.id}.{at}", lane.number)) if call.script.once else ()
    if load:
        return "EVAL", call.script.source, 1, prefix, *call.args, *once
    return "EVALSHA", call.script.sha, 1, prefix, *call.args, *once


def transmit(prefix: bytes, calls: Sequence[Call], lane: Lane) -> Generator[list[Command], list[Any], list[Any]]:
    """Turn calls into commands, and send again those whose script the server had lost, all in their order.

    Yields:
        Pipelines of commands; to be sent the replies, errors among them.

    Returns:
        One reply a call.
    """
    # One number for all attempts: a call whose script is lost now may have been carried out before its reply was lost.
    lane.number += 1
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


def exchange(connection: Any, commands: Sequence[Command]) -> list[Any]:
    """Send commands at once and read their replies, with the retries that the connection is set to.

    Returns:
        One reply a command; what the server answers with an error is an entry, not raised.

    Raises:
        redis.exceptions.RedisError: The connection broke, or the time for a reply is over.
    """

    def attempt() -> list[Any]:
        # Packed one by one, so that the server has the first while the next is packed.
        connection.send_packed_command(map(hiredis.pack_command, commands))
        return [_read(connection) for _ in commands]

    try:
        replies: list[Any] = connection.retry.call_with_retry(attempt, lambda _: connection.disconnect())
    except BaseException:
        # Whatever interrupted it, replies may be on their way, and are not those of the next command.
        connection.disconnect()
        raise
    return replies


def _read(connection: Any) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


async def aexchange(connection: Any, commands: Sequence[Command]) -> list[Any]:
    """Do as `exchange` does, on an async connection."""

    async def attempt() -> list[Any]:
        # redis-py packs an async connection's commands in Python, which takes several times as long.
        await connection.send_packed_command([hiredis.pack_command(command) for command in commands])
        replies: list[Any] = []
        for _ in commands:
            try:
                replies.append(await connection.read_response())
            except ResponseError as error:
                replies.append(error)
        return replies

    try:
        replies: list[Any] = await connection.retry.call_with_retry(attempt, lambda _: connection.disconnect())
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return replies
