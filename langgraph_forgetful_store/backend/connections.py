"""Connection pools of the store's own, made from the settings of a client that the user passed in."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.connection
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

from langgraph_forgetful_store.errors import ConfigurationError, UnsupportedServerError
from langgraph_forgetful_store.version import LIBRARY, VERSION

SyncClient = redis.Redis
AsyncClient = redis.asyncio.Redis

_SYNC_OF: dict[type, type] = {
    redis.asyncio.connection.Connection: redis.Connection,
    redis.asyncio.connection.SSLConnection: redis.SSLConnection,
    redis.asyncio.connection.UnixDomainSocketConnection: redis.UnixDomainSocketConnection,
    redis.asyncio.sentinel.SentinelManagedConnection: redis.sentinel.SentinelManagedConnection,
    redis.asyncio.sentinel.SentinelManagedSSLConnection: redis.sentinel.SentinelManagedSSLConnection,
}
_WITH_TLS = (redis.SSLConnection, redis.asyncio.connection.SSLConnection)
_ASYNC_OF: dict[type, type] = {sync: asynchronous for asynchronous, sync in _SYNC_OF.items()}

# Objects that belong to one pool or one colour, and what redis-py works out again for each pool.
_NOT_SHARED = {
    "connection_pool", "retry", "parser_class", "command_packer", "redis_connect_func", "event_dispatcher",
    "himport_registry", "maint_notifications_config", "maint_notifications_pool_handler",
    "oss_cluster_maint_notifications_handler", "orig_host_address", "orig_socket_timeout",
    "orig_socket_connect_timeout", "cache", "cache_config",
}  # fmt: skip
# What redis-py allows by itself, by version.
_DEFAULT_POOL_LIMIT, _NO_LIMIT = 100, 2**31
# redis-py's default costs a call of the kernel for every 32 kB, and a window of vectors has some 2 MB.
_DEFAULT_READ, _LARGE_READ = 32_768, 262_144


def _accepted(connection_class: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    known: set[str] = set()
    for base in connection_class.__mro__:
        known.update(inspect.signature(base.__init__).parameters if "__init__" in vars(base) else ())  # type: ignore[misc]
    return {name: value for name, value in settings.items() if name in known and name not in _NOT_SHARED}


def _own_info() -> dict[str, Any]:
    """Return what a template of the store's own tells of redis-py.

    Without it redis-py, since it has this class, reads its version from the disk for each connection: that blocks an
    event loop.
    """
    return {"driver_info": redis.DriverInfo(lib_version=redis.__version__)} if hasattr(redis, "DriverInfo") else {}


def _named(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by which connections tell the server this library and its version, beside redis-py's.

    Redis before 7.2 refuses to be told, which redis-py passes over.
    """
    named = dict(settings)
    if "driver_info" in named and named["driver_info"] is None:
        return named  # the user wants the server to be told nothing
    if hasattr(redis, "DriverInfo"):
        given: Any = named.pop("driver_info", None) or redis.DriverInfo(
            name=named.pop("lib_name", "redis-py"), lib_version=named.pop("lib_version", redis.__version__)
        )
        info: Any = redis.DriverInfo(name=given.name, lib_version=given.lib_version)
        # redis-py puts the last one first.
        for one in reversed(given.upstream_drivers):
            info.add_upstream_driver(*one.rsplit("_v", 1))
        named["driver_info"] = info.add_upstream_driver(LIBRARY, VERSION)
    elif (base := named.get("lib_name", "redis-py")) is not None:
        named["lib_name"] = f"{base.removesuffix(')')}{';' if base.endswith(')') else '('}{LIBRARY}_v{VERSION})"
    return named


def _refuse_cluster(client: object) -> None:
    if isinstance(client, redis.RedisCluster | redis.asyncio.cluster.RedisCluster):
        raise UnsupportedServerError(
            "Redis Cluster is not supported yet: pass the client of a single Redis or Valkey server, or of a Sentinel"
        )


class Connections:
    """Makes pools and clients from a template client; never touches the template's own pool.

    Args:
        template: A redis-py client, sync or async. Any `decode_responses`; its host, database, credentials, TLS,
            timeouts, retries and Sentinel are taken over.
        name: The argument the template came in as, for messages.

    Raises:
        UnsupportedServerError: It is a cluster client.
        ConfigurationError: It is no redis-py client.
    """

    def __init__(self, template: object, name: str) -> None:
        _refuse_cluster(template)
        if isinstance(template, str | bytes):
            # It may hold a password.
            raise ConfigurationError(
                f"{name} must be a redis.Redis or redis.asyncio.Redis client, not a {type(template).__name__}: make a"
                " store from a URL with ForgetfulStore.from_conn_string(url)"
            )
        if not isinstance(template, SyncClient | AsyncClient):
            raise ConfigurationError(
                f"{name} must be a redis.Redis or redis.asyncio.Redis client, not {type(template).__name__}"
            )
        self._is_async = isinstance(template, AsyncClient)
        self._name = name
        self._pool: Any = template.connection_pool
        self._class: type = self._pool.connection_class
        self._settings = _named(self._pool.connection_kwargs)

    @property
    def place(self) -> str:
        """Where the connections lead to, as a URL without credentials."""
        database = self._settings.get("db") or 0
        if service := getattr(self._pool, "service_name", None):
            return f"redis+sentinel://{service}/{database}"
        if path := self._settings.get("path"):
            return f"unix://{path}?db={database}"
        host, port = str(self._settings.get("host", "localhost")), self._settings.get("port", 6379)
        scheme = "rediss" if issubclass(self._class, _WITH_TLS) else "redis"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/{database}"

    def sync_client(self) -> redis.Redis:
        """Return a new sync client with a pool of its own.

        Raises:
            ConfigurationError: It can't be derived from an async template.
        """
        return redis.Redis(connection_pool=self._make_pool(to_async=False))

    def async_client(self) -> redis.asyncio.Redis:
        """Return a new async client with a pool of its own; to be used on one event loop.

        Raises:
            ConfigurationError: It can't be derived from a sync template.
        """
        return redis.asyncio.Redis(connection_pool=self._make_pool(to_async=True))

    def _make_pool(self, *, to_async: bool) -> Any:
        module: Any = redis.asyncio.connection if to_async else redis.connection
        connection_class = self._class
        settings = {name: value for name, value in self._settings.items() if name not in _NOT_SHARED}
        if to_async != self._is_async:
            table = _ASYNC_OF if to_async else _SYNC_OF
            if connection_class not in table:
                raise ConfigurationError(
                    f"can't derive {'an async' if to_async else 'a sync'} client from {self._name}, whose connections"
                    f" are of the class {connection_class.__name__}: pass a redis.Redis as client= and a"
                    " redis.asyncio.Redis as async_client="
                )
            connection_class = table[connection_class]
            settings = _accepted(connection_class, settings)
        settings["decode_responses"] = False
        settings["encoding"] = "utf-8"
        # RESP3 adds a handshake and nothing that the scripts use.
        settings["protocol"] = settings.get("protocol") or 2
        if settings.get("socket_read_size", _DEFAULT_READ) == _DEFAULT_READ:
            settings["socket_read_size"] = _LARGE_READ
        settings["retry"] = self._retry(to_async)
        if not settings["retry"]:
            del settings["retry"]
        if hasattr(self._pool, "sentinel_manager"):
            return self._sentinel_pool(to_async, connection_class, settings)
        limit = self._limit()
        if limit is None:
            return module.ConnectionPool(max_connections=_NO_LIMIT, connection_class=connection_class, **settings)
        # Callers wait for a connection where redis-py's plain pool would raise.
        timeout = getattr(self._pool, "timeout", None)
        return module.BlockingConnectionPool(
            max_connections=limit, timeout=timeout, connection_class=connection_class, **settings
        )

    def _limit(self) -> int | None:
        """How many connections the user allows, where that is not what redis-py allows by itself."""
        limit: int = self._pool.max_connections
        by_default = limit in (_DEFAULT_POOL_LIMIT, _NO_LIMIT) and not hasattr(self._pool, "timeout")
        return None if by_default else limit

    def _retry(self, to_async: bool) -> Any:
        retry = self._settings.get("retry")
        if not isinstance(retry, Retry | redis.asyncio.retry.Retry):
            return None
        kind: Any = redis.asyncio.retry.Retry if to_async else Retry
        # redis-py's classes differ in the errors they take by default, so a user's own choice can't be told from it.
        return kind(retry._backoff, retry._retries)

    def _sentinel_pool(self, to_async: bool, connection_class: type, settings: dict[str, Any]) -> Any:
        module: Any = redis.asyncio.sentinel if to_async else redis.sentinel
        kind: Any = AsyncSentinelPool if to_async else SentinelPool
        manager = self._pool.sentinel_manager
        nodes = [
            (node.connection_pool.connection_kwargs["host"], node.connection_pool.connection_kwargs["port"])
            for node in manager.sentinels
        ]
        own = module.Sentinel(
            nodes,
            min_other_sentinels=manager.min_other_sentinels,
            sentinel_kwargs=_named(manager.sentinel_kwargs),
        )
        return kind(
            self._pool.service_name,
            own,
            connection_class=connection_class,
            is_master=self._pool.is_master,
            check_connection=self._pool.check_connection if not to_async or self._is_async else True,
            max_connections=self._limit() or _NO_LIMIT,
            **{name: value for name, value in settings.items() if name not in {"host", "port"}},
        )


class SentinelPool(redis.sentinel.SentinelConnectionPool):
    """Also closes the connections to the Sentinels themselves, which are the store's own."""

    def disconnect(self, inuse_connections: bool = True) -> None:
        """Close the pool's connections; with those in use, the ones to the Sentinels too."""
        super().disconnect(inuse_connections)
        # Not when redis-py closes just the idle ones, since the primary has changed: others may be asking just now.
        if inuse_connections:
            for node in self.sentinel_manager.sentinels:
                node.connection_pool.disconnect()


class AsyncSentinelPool(redis.asyncio.sentinel.SentinelConnectionPool):
    """The async twin."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        """Do as the sync pool's `disconnect` does."""
        await super().disconnect(inuse_connections)
        if inuse_connections:
            for node in self.sentinel_manager.sentinels:
                await node.connection_pool.disconnect()


_SCHEMES = "redis://, rediss://, valkey://, valkeys:// or unix://"
_SCHEME = re.compile(r"(rediss?|valkeys?|unix)://")
# Their servers speak the same protocol, but redis-py does not know their scheme.
_VALKEY = re.compile(r"^valkey(?=s?://)")


def from_url(conn_string: object) -> redis.Redis:
    """Return a template from a URL.

    Raises:
        ConfigurationError: It is no URL of a server, or redis-py does not know one of its options.
    """
    if not isinstance(conn_string, str):
        client = isinstance(conn_string, SyncClient | AsyncClient)
        raise ConfigurationError(
            f"conn_string must be a str, a Redis URL that begins with {_SCHEMES}; got {type(conn_string).__name__}"
            + (": pass a client as ForgetfulStore(client)" if client else "")
        )
    try:
        found: redis.Redis = redis.Redis.from_url(_VALKEY.sub("redis", conn_string))
        pool = found.connection_pool
        if not pool.connection_kwargs.keys() & {"lib_name", "lib_version"}:
            pool.connection_kwargs = {**_own_info(), **pool.connection_kwargs}
        # An unknown option would show only when the first connection is made.
        pool.make_connection()
    except (ValueError, TypeError, redis.RedisError) as error:
        # Credentials must not show up in logs, nor what is cut out of them by a URL that was not quoted.
        secret = _may_hold_credentials(conn_string)
        hidden = (
            "one whose credentials or port can't be parsed" if _SCHEME.match(conn_string) else "one with another scheme"
        )
        raise ConfigurationError(
            f"conn_string must be a Redis URL that begins with {_SCHEMES}, got "
            + (hidden if secret else f"{conn_string!r}: {error}")
        ) from (None if secret else error)
    return found


def _may_hold_credentials(url: str) -> bool:
    authority = re.split(r"[/?]", url.split("://", 1)[-1], maxsplit=1)[0]
    # What is no port may be a password whose host is missing.
    is_place = re.fullmatch(r"[^:]*(:\d*)?|\[[^\]]*(\](:\d*)?)?", authority)
    return "@" in url or "%40" in url or "pass" in url.lower() or "username" in url.lower() or not is_place


def unix_socket(path: str) -> redis.Redis:
    """Return a template for the embedded server, whose restarts the driver handles itself."""
    return redis.Redis(unix_socket_path=path, retry=Retry(NoBackoff(), 0), socket_timeout=None, **_own_info())
