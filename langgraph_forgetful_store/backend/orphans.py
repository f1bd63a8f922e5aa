"""Async connections that no event loop will close: theirs is closed itself, or is the parent's of a forked child."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import MutableMapping
from typing import Any, Protocol

import redis.asyncio


class Holder(Protocol):
    """What a driver keeps for one event loop."""

    client: redis.asyncio.Redis


# What a child has of its parent's loops is never collected: finalizers would act on what both processes share.
_inherited: list[object] = []


def abandon_closed(loops: MutableMapping[asyncio.AbstractEventLoop, Any]) -> None:
    """Take out the loops that are closed, and close the sockets they have left.

    Args:
        loops: The loops of a driver, and a `Holder` for each.
    """
    for loop in [loop for loop in loops if loop.is_closed()]:
        for writer in _release(loops.pop(loop)):
            under = _socket_transport(writer.transport)
            # A closed loop refuses the callback by which the transport would have closed its socket: it is called here.
            with contextlib.suppress(RuntimeError):
                writer.transport.abort()
            if hasattr(under, "_call_connection_lost"):
                with contextlib.suppress(RuntimeError):
                    under._call_connection_lost(None)


def abandon_inherited(loops: MutableMapping[asyncio.AbstractEventLoop, Any]) -> None:
    """Close a forked child's copies of its parent's sockets, without a trace for the parent.

    Args:
        loops: The parent's loops of a driver, and a `Holder` for each.
    """
    _inherited.append(loops)
    for holder in loops.values():
        for writer in _release(holder):
            _inherited.append(writer)
            under = _socket_transport(writer.transport)
            # Closing the transport would take its socket out of the epoll set that the parent goes on using.
            if (own := getattr(under, "_sock", None)) is not None:
                under._closing, under._sock = True, None
                own.close()


def _release(holder: Holder) -> list[asyncio.StreamWriter]:
    pool: Any = holder.client.connection_pool
    connections = [*getattr(pool, "_available_connections", ()), *getattr(pool, "_in_use_connections", ())]
    writers = [writer for one in connections if (writer := getattr(one, "_writer", None)) is not None]
    for connection in connections:
        connection._reader = connection._writer = None
    holder.client.auto_close_connection_pool = False
    return writers


def _socket_transport(transport: Any) -> Any:
    """Return the transport that has the socket, which under TLS is another one."""
    return getattr(getattr(transport, "_ssl_protocol", None), "_transport", None) or transport
