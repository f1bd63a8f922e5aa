"""`ForgetfulStore`: the public face. It checks, builds flows and hands them to a driver."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypedDict, TypeVar, Unpack, cast

import redis
import redis.asyncio
from langgraph.store import base
from langgraph.store.base import Op, Result

from langgraph_forgetful_store.backend.connections import Connections, from_url, unix_socket
from langgraph_forgetful_store.backend.drivers import WORK_ON_LOOP, AsyncDriver, SyncDriver
from langgraph_forgetful_store.backend.embedding import MAX_TEXT
from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.backend.keys import store_prefix
from langgraph_forgetful_store.backend.refusals import Refusals
from langgraph_forgetful_store.backend.ticker import AwaitableBool, AwaitableFuture, Ticker
from langgraph_forgetful_store.config import IndexConfig, IndexSettings, TTLConfig, TTLSettings
from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.model.checks import check_seconds, ttl_to_ms
from langgraph_forgetful_store.model.documented import section_of, takes_options, twin_of, with_section
from langgraph_forgetful_store.model.memory_types import MemoryType, MemoryTypes
from langgraph_forgetful_store.operations.access import FLUSH_SECONDS, AccessBuffer
from langgraph_forgetful_store.operations.batch import Batch
from langgraph_forgetful_store.operations.session import Session, flush, noting, open_store, try_flush
from langgraph_forgetful_store.operations.sweep import sweep
from langgraph_forgetful_store.search.near_cache import DEFAULT_CACHE_BYTES, NearCache
from langgraph_forgetful_store.search.presets import ScoringPreset, find_preset
from langgraph_forgetful_store.store.erasure import ErasureMethods
from langgraph_forgetful_store.store.habits import refusing_habits
from langgraph_forgetful_store.store.policy import PolicyMethods
from langgraph_forgetful_store.store.reads import ReadMethods
from langgraph_forgetful_store.store.relations import RelationMethods
from langgraph_forgetful_store.store.transitions import TransitionMethods
from langgraph_forgetful_store.store.writes import WriteMethods

if TYPE_CHECKING:
    from langgraph_forgetful_store.backend.embedded import EmbeddedServer

T = TypeVar("T")
Client: TypeAlias = redis.Redis | redis.asyncio.Redis
_stores: weakref.WeakSet[ForgetfulStore] = weakref.WeakSet()


def _renew_in_child() -> None:
    for store in list(_stores):
        store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)


class StoreSettings(TypedDict, total=False):
    """The keyword arguments that every way to make a `ForgetfulStore` takes; they are explained there."""

    index: IndexConfig | Mapping[str, Any] | None
    ttl: TTLConfig | Mapping[str, Any] | None
    scoring: str | ScoringPreset
    memory_types: str | Mapping[str, MemoryType]
    actor: str | None
    key_prefix: str
    reserved_key: str | None
    cache_bytes: int
    track_access: bool
    max_text: int
    read_from_replica: bool
    clock: Callable[[], float] | None


class ForgetfulStore(ReadMethods, WriteMethods, TransitionMethods, RelationMethods, ErasureMethods, PolicyMethods):
    """A LangGraph `BaseStore` on any Redis 6.2+ or Valkey, without modules, that forgets on the read path.

    One object serves sync and async callers, any number of threads and event loops, and forked children. Each method
    has an async twin: `get` and `aget`. Reads return `MemoryItem` and `MemorySearchItem`: LangGraph's items with a
    ``.memory``, the lifecycle. The methods by content:

    - making a store: `from_conn_string`, `embedded`; `setup`, `flush`, `close`
    - reading: `get`, `search`, `recall`, `history`, `list_namespaces`, `batch`
    - writing: `put`, `remember`, `supersede`, `undo_supersede`, `delete`
    - transitions: `retire`, `archive`, `restore`, `pin`, `unpin`, `demote`, `anchor`, `confirm`, `deny`, `set_ttl`,
      `feedback`
    - relations: `alias`, `unalias`, `aliases`, `link`, `unlink`, `neighbors`
    - erasing: `forget`, `forget_all`, `erased_before`, `end_run`; what was done: `audit`, `audited`
    - expiry: `sweep_ttl`, `start_ttl_sweeper`, `stop_ttl_sweeper`

    Args:
        client: A redis-py client, sync or async, as a template of settings: host, database, credentials, TLS, timeouts,
            retries, Sentinel. The store opens connections of its own.
        async_client: The template for the async side, where it can't be derived from `client`.
        index: How values become vectors: LangGraph's `IndexConfig`, or ours, which also takes ``embedder_id``.
            ``None``: nothing is embedded.
        ttl: How memories expire: LangGraph's `TTLConfig`, in minutes. One difference from upstream: ``omit_expired`` is
            ``True`` unless it is given.
        scoring: How a search with a query ranks: a preset's name (``relevance``, ``weighted``, ``similarity``,
            ``generative_agents``, ``multiplicative``) or an object with the method of `ScoringPreset`.
        memory_types: What each type of memory means: the preset ``lifecycle`` or ``strict``, or a dict of `MemoryType`
            objects by name, beside those of ``lifecycle``.
        actor: Who is named in audit records; ``None``: nobody is.
        key_prefix: What the names of all keys in Redis begin with.
        reserved_key: The key by which values and filters speak of the lifecycle, for clients that know only
            `BaseStore`; ``None`` switches it off, for values that are not to be trusted.
        cache_bytes: About how many bytes the near-cache may take in this process; 0 switches it off.
        track_access: Whether gets, and searches with a query, count as accesses of what they return.
        max_text: How many characters of a text or query are embedded; what is longer is cut, and a warning says so
            once. Words are taken from all of it.
        read_from_replica: Whether reads may be answered by a replica: they refresh no TTL and count no access there.
            Otherwise what a replica refuses is an error, after one new connection has been tried.
        clock: A function that returns the time in ms since the epoch, in place of the server's; for tests and demos.

    Raises:
        ConfigurationError: An argument is unusable, or one of another store; then it says what to write instead.
        UnsupportedServerError: `client` is one of a Redis Cluster.
    """

    supports_ttl = True

    @refusing_habits
    def __init__(
        self,
        client: Client,
        *,
        async_client: Client | None = None,
        index: IndexConfig | Mapping[str, Any] | None = None,
        ttl: TTLConfig | Mapping[str, Any] | None = None,
        scoring: str | ScoringPreset = "relevance",
        memory_types: str | Mapping[str, MemoryType] = "lifecycle",
        actor: str | None = None,
        key_prefix: str = "forgetful",
        reserved_key: str | None = "$memory",
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        track_access: bool = True,
        max_text: int = MAX_TEXT,
        read_from_replica: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(key_prefix, str) or not key_prefix or set(key_prefix) & set("{}"):
            raise ConfigurationError(f"key_prefix must be a non-empty str without braces, got {key_prefix!r}")
        if reserved_key is not None and not (isinstance(reserved_key, str) and reserved_key):
            raise ConfigurationError(f"reserved_key must be a non-empty str or None, got {reserved_key!r}")
        if isinstance(cache_bytes, bool) or not isinstance(cache_bytes, int) or cache_bytes < 0:
            raise ConfigurationError(f"cache_bytes must be a whole number from 0, got {cache_bytes!r}")
        if isinstance(max_text, bool) or not isinstance(max_text, int) or max_text < 1:
            raise ConfigurationError(f"max_text must be a whole number from 1, got {max_text!r}")
        if not isinstance(track_access, bool):
            raise ConfigurationError(f"track_access must be True or False, got {track_access!r}")
        if not isinstance(read_from_replica, bool):
            raise ConfigurationError(f"read_from_replica must be True or False, got {read_from_replica!r}")
        if clock is not None and not callable(clock):
            raise ConfigurationError(f"clock must be a function that returns ms, or None, got {clock!r}")
        if actor is not None and not (isinstance(actor, str) and actor):
            raise ConfigurationError(f"actor must be a non-empty str or None, got {actor!r}")
        settings = TTLSettings.parse(ttl)
        parsed = None if index is None else IndexSettings.parse(index, max_text)
        connections = Connections(client, "client")
        async_connections = connections if async_client is None else Connections(async_client, "async_client")
        prefix = store_prefix(key_prefix)
        embedder = None if parsed is None else parsed.embedder
        self.ttl_config: base.TTLConfig | None = None if ttl is None else cast(base.TTLConfig, dict(ttl))
        self.index_config: base.IndexConfig | None = None if index is None else cast(base.IndexConfig, dict(index))
        refusals = Refusals(read_from_replica=read_from_replica)
        self._session = Session(
            ttl=settings,
            index=parsed,
            clock=clock,
            preset=find_preset(scoring),
            cache=NearCache(0 if parsed is None else parsed.dims, cache_bytes, omit_expired=settings.omit_expired),
            access=AccessBuffer(track_access, refusals),
            reserved_key=reserved_key,
            types=MemoryTypes(memory_types),
            actor=actor,
        )
        self._server: EmbeddedServer | None = None
        self._place, self._key_prefix = connections.place, key_prefix
        self._sync = SyncDriver(connections, prefix, embedder, refusals)
        self._async = AsyncDriver(async_connections, prefix, embedder, refusals)
        reference = weakref.ref(self)
        self._sweeper = Ticker("sweep of expired memories", lambda: _method_of(reference, "sweep_ttl"))
        self._flusher = Ticker("flush of counted accesses", lambda: _method_of(reference, "flush"))
        _stores.add(self)

    def __repr__(self) -> str:
        index, ttl = self._session.index, self._session.ttl
        told = {
            "key_prefix": repr(self._key_prefix),
            "index": "None" if index is None else f"{index.embedder_id!r} of {index.dims} dimensions",
            "default_ttl": "None" if ttl.default_ttl is None else f"{ttl.default_ttl / 60_000:g} minutes",
            "scoring": repr(self._session.preset),
        }
        place = self._place if self._server is None else f"embedded: {self._server.path or 'temporary'}"
        return f"ForgetfulStore({place}, {', '.join(f'{name}={value}' for name, value in told.items())})"

    @classmethod
    @refusing_habits
    def from_conn_string(cls, conn_string: str, **same: Unpack[StoreSettings]) -> Self:
        """Make a store from a URL; it is a store, and a context manager, sync and async, that closes it.

        Args:
            conn_string: A URL that begins with ``redis://``, ``rediss://``, ``valkey://``, ``valkeys://`` or
                ``unix://``, with redis-py's query options.
            **same: Any of the keys of `StoreSettings`, as keyword arguments.

        Returns:
            The store, which connects with the first operation.

        Raises:
            ConfigurationError: The URL, or another argument, is unusable.
        """
        return cls(from_url(conn_string), **same)

    @classmethod
    @refusing_habits
    def embedded(cls, path: str | os.PathLike[str] | None = None, **same: Unpack[StoreSettings]) -> Self:
        """Make a store on a real Valkey server of its own, a child process reached by a unix socket.

        The server starts with the first operation. Needs the extra ``embedded``; Linux and macOS.

        Args:
            path: The folder that keeps the data, which several processes may share; ``None``: the data are gone when
                the store closes.
            **same: Any of the keys of `StoreSettings`, as keyword arguments.

        Returns:
            The store, whose server starts with the first operation.

        Raises:
            ConfigurationError: An argument is unusable, the extra is missing, or the server can't start.
            UnsupportedServerError: There is no embedded server for this platform.
        """
        from langgraph_forgetful_store.backend.embedded import EmbeddedServer

        server = EmbeddedServer(path)
        store = cls(unix_socket(server.socket_path), **same)
        store._server = store._sync.server = store._async.server = server
        return store

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out several operations at once: all reads see the state before the writes.

        Args:
            ops: LangGraph's ``GetOp``, ``SearchOp``, ``PutOp`` and ``ListNamespacesOp``, in any iterable.

        Returns:
            One result for each op, in their order; ``None`` for a put or a delete.

        Raises:
            ValueError, TypeError, InvalidNamespaceError: An op is unusable; nothing has been written.
            ConfigurationError: The stored vectors are of another embedder or number of dimensions.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._run(Batch.prepare(ops, self._session).run(self._session))

    @twin_of(batch)
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The async twin of `batch`. Batches started in one turn of the event loop share their round trips."""
        given = list(ops) if isinstance(ops, Iterable) else ops
        large = isinstance(given, list) and len(given) > WORK_ON_LOOP
        if large:
            batch = await asyncio.to_thread(Batch.prepare, given, self._session)
        else:
            batch = Batch.prepare(given, self._session)
        results = await self._async.run(batch.run(self._session), embeds=batch.embeds, alone=large)
        self._flush_soon()
        return results

    def _run(self, flow: Flow[T]) -> T:
        self._async.reap()
        result = self._sync.run(noting(self._session, flow) if self._session.note else flow)
        self._flush_soon()
        return result

    async def _arun(self, flow: Flow[T], *, embeds: bool = False) -> T:
        carried = noting(self._session, flow) if self._session.note else flow
        result = await self._async.run(carried, embeds=embeds)
        self._flush_soon()
        return result

    def _flush_soon(self) -> None:
        # Under an injected clock nothing happens by itself.
        if self._session.clock is None and not self._session.access.is_empty:
            self._flusher.start(FLUSH_SECONDS / 60)

    def setup(self) -> Awaitable[None]:
        """Look at the server and the stored data, as the first operation would otherwise.

        Returns:
            Something that may be awaited, and need not be; on a running event loop the looking is done by awaiting.

        Raises:
            UnsupportedServerError: The server is too old, or a node of a cluster.
            ConfigurationError: The stored data have another format, embedder or number of dimensions.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._sync.run(open_store(self._session))
        return _Deferred(self.asetup)

    @twin_of(setup)
    async def asetup(self) -> None:
        """The async twin of `setup`."""
        await self._async.run(open_store(self._session))

    def flush(self) -> None:
        """Write the accesses that this process has counted; happens by itself every second, and on closing.

        Raises:
            redis.exceptions.RedisError: The server is down or refuses; nothing is lost, the next flush tries again.
        """
        self._sync.run(flush(self._session))

    @twin_of(flush)
    async def aflush(self) -> None:
        """The async twin of `flush`."""
        await self._async.run(flush(self._session))

    def sweep_ttl(self) -> int:
        """Delete every expired memory from the server. Reads do not need it: it frees memory.

        Returns:
            How many there were.

        Raises:
            redis.exceptions.RedisError: The server is down or refuses.
        """
        return self._sync.run(sweep(self._session))

    @twin_of(sweep_ttl)
    async def asweep_ttl(self) -> int:
        """The async twin of `sweep_ttl`."""
        return await self._async.run(sweep(self._session))

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> AwaitableFuture:
        """Start a thread that sweeps at intervals; without a ttl config there is nothing to start.

        Args:
            sweep_interval_minutes: Minutes between two sweeps; ``None``: what the ttl config says, else 5.

        Returns:
            A future that is done when the thread has ended; cancelling it ends the thread, and awaiting it gives it
            back at once. Where a sweeper runs already, that one's.

        Raises:
            TypeError, ValueError: The interval is no number of minutes above 0.
        """
        if sweep_interval_minutes is not None and ttl_to_ms(sweep_interval_minutes, "sweep_interval_minutes") == 0:
            raise ValueError("sweep_interval_minutes must be above 0, got 0")
        if self.ttl_config is None:
            nothing = AwaitableFuture()
            nothing.set_result(None)
            return nothing
        return self._sweeper.start(sweep_interval_minutes or self._session.ttl.sweep_interval_minutes)

    @twin_of(start_ttl_sweeper)
    async def astart_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> AwaitableFuture:
        """The async twin of `start_ttl_sweeper`."""
        return self.start_ttl_sweeper(sweep_interval_minutes)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> AwaitableBool:
        """Stop the sweeper's thread and wait for it.

        Args:
            timeout: How many seconds to wait at most; ``None``: as long as it takes.

        Returns:
            Whether no sweeper is left; it may also be awaited. On a running event loop the waiting is done by awaiting.

        Raises:
            TypeError, ValueError: The timeout is no number of seconds.
        """
        seconds = check_seconds(timeout, "timeout")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return AwaitableBool(self._sweeper.stop(seconds))
        # Waiting here would block the event loop: that is done by awaiting.
        return AwaitableBool(self._sweeper.stop(0), lambda: self.astop_ttl_sweeper(timeout))

    @twin_of(stop_ttl_sweeper)
    async def astop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 (the twin's signature)
        """The async twin of `stop_ttl_sweeper`, which does not block the event loop."""
        return await asyncio.to_thread(self._sweeper.stop, check_seconds(timeout, "timeout"))

    def close(self) -> None:
        """Close the store's connections, its sweeper and, if it is the owner, its embedded server.

        A store on a server that was not started by it may be used again: it opens new connections.
        """
        self._stop_threads()
        try_flush(self.flush)
        self._sync.close()
        self._async.close()
        if self._server is not None:
            self._server.close()

    @twin_of(close)
    async def aclose(self) -> None:
        """The async twin of `close`, which does not block the event loop."""
        await asyncio.to_thread(self._stop_threads)
        await asyncio.to_thread(try_flush, self.flush)
        await self._async.aclose()
        await asyncio.to_thread(self._close_rest)

    def _stop_threads(self) -> None:
        self._sweeper.stop(None)
        self._flusher.stop(None)

    def _close_rest(self) -> None:
        self._sync.close()
        if self._server is not None:
            self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _after_fork(self) -> None:
        self._sync.after_fork()
        self._async.after_fork()
        self._sweeper.after_fork()
        self._flusher.after_fork()
        self._session.cache.after_fork()
        self._session.access.after_fork()


def _document_settings() -> None:
    """Say of the settings, which the class explains, wherever they are taken by name."""
    told = "\n".join(_entries(section_of(ForgetfulStore.__doc__, "Args"), StoreSettings.__annotations__))
    if told:
        StoreSettings.__doc__ = with_section(str(StoreSettings.__doc__), "Attributes", told)
        makers: list[Any] = [ForgetfulStore.from_conn_string, ForgetfulStore.embedded]
        for maker in makers:
            takes_options(StoreSettings)(maker.__func__)


def _entries(section: str, names: Iterable[str]) -> list[str]:
    """Return the lines of a section that are about these names."""
    kept: list[str] = []
    wanted = False
    for line in section.splitlines():
        if not line.startswith(" "):
            wanted = line.split(":")[0] in names
        if wanted:
            kept.append(line)
    return kept


_document_settings()


def _method_of(store: weakref.ref[ForgetfulStore], name: str) -> Callable[[], Any] | None:
    alive = store()
    return None if alive is None else getattr(alive, name)


class _Deferred:
    """Something done already, or to be done by awaiting it; unlike a coroutine it does not mind neither."""

    def __init__(self, todo: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._todo = todo

    def __await__(self) -> Generator[Any, None, None]:
        return self._todo().__await__()
