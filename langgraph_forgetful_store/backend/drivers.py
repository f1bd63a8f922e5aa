"""The two drivers: they run flows, sync on the caller's thread or async on the caller's event loop.

What they have in common (how calls become commands, how a lost script is sent again: see `lanes`) is a generator too,
so each driver only knows how to execute one pipeline and how to embed.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import redis
import redis.asyncio
from redis.exceptions import ConnectionError as RedisConnectionError

from langgraph_forgetful_store.backend.connections import Connections
from langgraph_forgetful_store.backend.embedding import NO_VECTORS, Embedder
from langgraph_forgetful_store.backend.flow import Embed, Flow, Info, Outcome, Request, Send, Work, gather
from langgraph_forgetful_store.backend.lanes import (
    Command,
    Lane,
    Lanes,
    Meanwhile,
    aexchange,
    ask_for_info,
    exchange,
    keeps_connections,
    make_ready,
    read_info,
    transmit,
)
from langgraph_forgetful_store.backend.orphans import abandon_closed, abandon_inherited
from langgraph_forgetful_store.backend.refusals import Refusals

T = TypeVar("T")

WORK_ON_LOOP = 5000
# Pipelines that one event loop has under way at once; as many connections at the most.
MAX_PIPELINES = 32


class Server(Protocol):
    """A server that the store starts itself (see `embedded`)."""

    def ensure(self) -> None:
        """Make sure that it answers; blocks."""


class SyncDriver:
    """Runs flows on the calling thread; safe to share among threads.

    Args:
        connections: Where its client comes from.
        prefix: The store's key prefix.
        embedder: The index's embedder, if there is an index.
        refusals: What is known of the server's refusals to write; ``None``: each is an error.

    Attributes:
        server: A server to start first, and again when it has gone.
        lanes: The channels to the server that no call is using at the moment.
        client: What the connections come from; ``None`` before the first call.
    """

    def __init__(
        self, connections: Connections, prefix: bytes, embedder: Embedder | None, refusals: Refusals | None = None
    ) -> None:
        self._connections = connections
        self._refusals = refusals
        self._prefix = prefix
        self._embedder = embedder
        self.server: Server | None = None
        self.client: redis.Redis | None = None
        self.after_fork()

    def after_fork(self) -> None:
        """Start anew in a forked child: the parent goes on using its lanes, and their connections."""
        self.lanes = Lanes()
        self._lock = threading.Lock()

    def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end.

        Raises:
            Exception: Whatever the flow raises, redis-py's errors among it.
        """
        try:
            request = next(flow)
            while True:
                try:
                    reply = self._answer(request)
                except Exception as error:
                    request = flow.throw(error)
                else:
                    request = flow.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def close(self) -> None:
        """Close every connection; a later call opens new ones."""
        self.lanes = Lanes()
        client, self.client = self.client, None
        if client is not None:
            client.connection_pool.disconnect()

    def _answer(self, request: Request) -> Any:
        if isinstance(request, Work):
            return request.compute()
        if isinstance(request, Embed):
            return self._embedder.embed(request.texts, request.queries) if self._embedder else (NO_VECTORS, NO_VECTORS)
        lanes = self.lanes
        lane = lanes.take()
        try:
            reply = self._converse(lane, request)
        except BaseException:
            self._release(lane)
            raise
        if lane.pool is not None and not (keeps_connections(lane.pool) and lanes.have_room):
            self._release(lane)
        lanes.give(lane)
        return reply

    def _converse(self, lane: Lane, request: Send | Info) -> Any:
        if isinstance(request, Info):
            return read_info(self.client or self._open(), self._execute(lane, ask_for_info(request)))
        sending = transmit(self._prefix, request.calls, lane, self._refusals)
        commands, meanwhile = next(sending), request.aside()
        try:
            while True:
                commands = sending.send(self._execute(lane, commands, meanwhile))
        except StopIteration as stop:
            return stop.value

    @staticmethod
    def _release(lane: Lane) -> None:
        if lane.connection is not None:
            if keeps_connections(lane.pool):
                lane.connection.disconnect()
            lane.pool.release(lane.connection)
            lane.connection = None

    def _execute(self, lane: Lane, commands: list[Command], meanwhile: Meanwhile = None) -> list[Any]:
        try:
            return self._exchange(lane, commands, meanwhile)
        except RedisConnectionError:
            if self.server is None:
                raise
            self.server.ensure()
            return self._exchange(lane, commands, None)

    def _exchange(self, lane: Lane, commands: list[Command], meanwhile: Meanwhile) -> list[Any]:
        if lane.connection is None:
            lane.pool = (self.client or self._open()).connection_pool
            lane.connection = lane.pool.get_connection()
        else:
            make_ready(lane.connection)
        return exchange(lane.connection, commands, meanwhile)

    def _open(self) -> redis.Redis:
        if self.server is not None:
            self.server.ensure()
        with self._lock:
            self.client = client = self.client or self._connections.sync_client()
            return client


_Group = list[tuple[Flow[Any], "asyncio.Future[Any]"]]


@dataclass(eq=False, slots=True)
class _Loop:
    """What the driver keeps for one event loop."""

    client: redis.asyncio.Redis
    holder: AsyncGenerator[None, None] | None = None
    waiting: dict[bool, _Group] = field(default_factory=lambda: {False: [], True: []})
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    lanes: Lanes = field(default_factory=Lanes)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_PIPELINES))


class AsyncDriver:
    """Runs flows on the running event loop, each loop with a client of its own.

    Flows that are started in one turn of a loop are run together: one pipeline a step. Those that begin with an
    embedding are a group of their own, so that a read does not wait for another caller's embedder.

    Args:
        connections: Where its clients come from.
        prefix: The store's key prefix.
        embedder: The index's embedder, if there is an index.
        refusals: What is known of the server's refusals to write; ``None``: each is an error.

    Attributes:
        server: A server to start first, and again when it has gone.
        loops: What is kept for each event loop.
    """

    def __init__(
        self, connections: Connections, prefix: bytes, embedder: Embedder | None, refusals: Refusals | None = None
    ) -> None:
        self._connections = connections
        self._refusals = refusals
        self._prefix = prefix
        self._embedder = embedder
        self.server: Server | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        self.loops: dict[asyncio.AbstractEventLoop, _Loop] = {}
        # For loops that are closed when no call comes any more that would notice.
        self._finalizer = weakref.finalize(self, abandon_closed, self.loops)
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """Start anew in a forked child."""
        self._finalizer.detach()
        abandon_inherited(self.loops)
        self._start_anew()

    async def run(self, flow: Flow[T], *, embeds: bool = False, alone: bool = False) -> T:
        """Run a flow to its end, together with the others of this turn of the loop.

        Args:
            flow: A flow that has not started.
            embeds: Whether it begins with an embedding.
            alone: Whether it is so large that others should not wait for it.

        Raises:
            Exception: Whatever the flow raises, redis-py's errors among it.
        """
        loop = asyncio.get_running_loop()
        state = self.loops.get(loop) or await self._open(loop)
        future: asyncio.Future[T] = loop.create_future()
        if alone:
            self._start(loop, state, [(flow, future)])
            return await future
        group = state.waiting[embeds]
        group.append((flow, future))
        if len(group) == 1:
            loop.call_soon(self._start_waiting, loop, state, embeds)
        return await future

    def reap(self) -> None:
        """Let go of loops that were closed without a chance to close their connections."""
        if self.loops and any(loop.is_closed() for loop in list(self.loops)):
            with self._lock:
                abandon_closed(self.loops)

    async def aclose(self) -> None:
        """Close the connections of the running loop, and let go of those of closed loops.

        Connections of other loops that still run close when those loops end.
        """
        self.reap()
        with self._lock:
            state = self.loops.pop(asyncio.get_running_loop(), None)
        if state is not None and state.holder is not None:
            if state.tasks:
                # What is under way would open its connection again.
                await asyncio.wait(state.tasks)
            await state.holder.aclose()

    def close(self) -> None:
        """Close the connections of every loop that is not running; a running one closes its own when it ends."""
        self.reap()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            for loop, state in list(self.loops.items()):
                if not loop.is_running() and state.holder is not None:
                    loop.run_until_complete(state.holder.aclose())

    async def _open(self, loop: asyncio.AbstractEventLoop) -> _Loop:
        self.reap()
        if self.server is not None:
            await asyncio.to_thread(self.server.ensure)
        state = self.loops.get(loop)
        if state is None:
            state = _Loop(self._connections.async_client())
            with self._lock:
                self.loops[loop] = state
            # asyncio.run and its like close every async generator that was started on their loop.
            state.holder = _hold(weakref.ref(self), loop, state.client)
            await anext(state.holder)
        return state

    def forget(self, loop: asyncio.AbstractEventLoop) -> None:
        """Drop what is kept for a loop."""
        with self._lock:
            self.loops.pop(loop, None)

    def _start_waiting(self, loop: asyncio.AbstractEventLoop, state: _Loop, embeds: bool) -> None:
        group, state.waiting[embeds] = state.waiting[embeds], []
        self._start(loop, state, group)

    def _start(self, loop: asyncio.AbstractEventLoop, state: _Loop, group: _Group) -> None:
        task = loop.create_task(self._run_together(state, group))
        state.tasks.add(task)
        task.add_done_callback(state.tasks.discard)

    async def _run_together(self, state: _Loop, group: _Group) -> None:
        group = [(flow, future) for flow, future in group if not future.done()]

        def finished(at: int, outcome: Outcome[Any]) -> None:
            future = group[at][1]
            if not future.done():
                if outcome.error is not None:
                    future.set_exception(outcome.error)
                else:
                    future.set_result(outcome.value)

        try:
            flow = gather([flow for flow, _ in group], finished)
            try:
                request = next(flow)
                while True:
                    try:
                        reply = await self._answer(state, request)
                    except Exception as error:
                        request = flow.throw(error)
                    else:
                        request = flow.send(reply)
            except StopIteration:
                pass
        finally:
            for _, future in group:
                future.cancel()

    async def _answer(self, state: _Loop, request: Request) -> Any:
        if isinstance(request, Work):
            # Work of this size would keep the loop from its other tasks; numpy lets go of the interpreter's lock.
            return await asyncio.to_thread(request.compute) if request.rows > WORK_ON_LOOP else request.compute()
        if isinstance(request, Embed):
            if self._embedder is None:
                return NO_VECTORS, NO_VECTORS
            return await self._embedder.aembed(request.texts, request.queries)
        # A burst of turns waits here rather than open a connection each.
        async with state.slots:
            lane = state.lanes.take()
            try:
                reply = await self._converse(state, lane, request)
            except BaseException:
                await self._release(lane)
                raise
            if not (keeps_connections(lane.pool) and state.lanes.have_room):
                await self._release(lane)
            state.lanes.give(lane)
            return reply

    async def _converse(self, state: _Loop, lane: Lane, request: Send | Info) -> Any:
        if isinstance(request, Info):
            return read_info(state.client, await self._execute(state, lane, ask_for_info(request)))
        sending = transmit(self._prefix, request.calls, lane, self._refusals)
        commands, meanwhile = next(sending), request.aside(WORK_ON_LOOP)
        try:
            while True:
                commands = sending.send(await self._execute(state, lane, commands, meanwhile))
        except StopIteration as stop:
            return stop.value

    @staticmethod
    async def _release(lane: Lane) -> None:
        if lane.connection is not None:
            connection, lane.connection = lane.connection, None
            if keeps_connections(lane.pool):
                await connection.disconnect(nowait=True)
            await lane.pool.release(connection)

    async def _execute(
        self, state: _Loop, lane: Lane, commands: list[Command], meanwhile: Meanwhile = None
    ) -> list[Any]:
        try:
            return await self._exchange(state, lane, commands, meanwhile)
        except RedisConnectionError:
            if self.server is None:
                raise
            await asyncio.to_thread(self.server.ensure)
            return await self._exchange(state, lane, commands, None)

    async def _exchange(self, state: _Loop, lane: Lane, commands: list[Command], meanwhile: Meanwhile) -> list[Any]:
        if lane.connection is None:
            lane.pool = state.client.connection_pool
            lane.connection = await lane.pool.get_connection()
        else:
            await lane.pool.ensure_connection(lane.connection)
        return await aexchange(lane.connection, commands, meanwhile)


async def _hold(
    driver: weakref.ref[AsyncDriver], loop: asyncio.AbstractEventLoop, client: redis.asyncio.Redis
) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        if (owner := driver()) is not None:
            owner.forget(loop)
        await client.aclose()
        await client.connection_pool.disconnect()
