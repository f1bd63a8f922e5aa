"""What the flows of one store share: its settings, its clock, and whether the server has been looked at."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeVar

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import FORMAT_VERSION
from langgraph_forgetful_store.backend.flow import Flow, Info, Send, checked
from langgraph_forgetful_store.backend.keys import encode_json, encode_text
from langgraph_forgetful_store.config import IndexSettings, TTLSettings
from langgraph_forgetful_store.errors import ConfigurationError, UnsupportedServerError
from langgraph_forgetful_store.model.checks import check_end
from langgraph_forgetful_store.model.memory_types import MemoryTypes
from langgraph_forgetful_store.operations.access import AccessBuffer
from langgraph_forgetful_store.search.near_cache import NearCache
from langgraph_forgetful_store.search.presets import ScoringPreset

T = TypeVar("T")
logger = logging.getLogger("langgraph_forgetful_store")

SWEEP_EVERY_SECONDS = 1.0
# How far ahead of the server's clock the latest time that was seen may be, to be taken for the time: as in common.lua.
BOUND_MS = 300_000
# Writes sweep so often, whichever comes first.
SWEEP_EVERY_SECONDS, SWEEP_EVERY_ROWS = 1.0, 100
MINIMUM_VERSION = (6, 2)


@dataclass(frozen=True, slots=True)
class Note:
    """An audit record that a caller adds to what a call does, in the same step.

    Attributes:
        namespace: The namespace that it is about, encoded; a change elsewhere does not carry it.
        action: A word for what was decided or done.
        key: The memory that it is about, encoded; ``b""``: none.
        reason: Why.
        details: What else there is to know, as plain JSON.
    """

    namespace: bytes
    action: str
    key: bytes
    reason: str
    details: Mapping[str, Any]


@dataclass(slots=True)
class Session:
    """Settings, and the little state that flows keep between calls.

    Attributes:
        ttl: How rows expire.
        index: How values become vectors; ``None``: they don't.
        clock: Returns ms since the epoch in place of server time.
        preset: What scores.
        cache: What searches are answered from.
        access: Where accesses are counted.
        reserved_key: The key of values and filters that speaks of the lifecycle.
        types: The memory types.
        actor: Who is named in audit records.
        opened: Whether the server has been looked at.
        secret: The key by which names of rows are made of what they say, once it is known.
        seen: The latest time of the server that was seen, in ms: a clock that steps back does not undo it.
        note: A record that the next change in its namespace carries; ``None``: none.
        opened: Whether the server has been looked at.
        has_expired: Whether the last sweep beside a write left expired rows.
    """

    ttl: TTLSettings
    index: IndexSettings | None
    clock: Callable[[], float] | None
    preset: ScoringPreset
    cache: NearCache
    access: AccessBuffer
    reserved_key: str | None = None
    types: MemoryTypes = field(default_factory=MemoryTypes)
    actor: str | None = None
    note: Note | None = None
    opened: bool = False
    seen: float = 0.0
    secret: bytes | None = None
    has_expired: bool = False
    _written: int = 0
    _swept_at: float = field(default=float("-inf"))

    def frame(self) -> scripts.Frame:
        """Return what the calls of an operation that starts now carry.

        Raises:
            ConfigurationError: The injected clock returned no number of ms.
        """
        if self.clock is None:
            seen = f">{self.seen:.0f}" if self.seen > 0 else ""
            return scripts.Frame(seen, self.ttl.omit_expired)
        now: Any = self.clock()
        if isinstance(now, bool) or not isinstance(now, Real) or not math.isfinite(now):
            raise ConfigurationError(f"clock must return the time in ms since the epoch, it returned {now!r}")
        return scripts.Frame(round(self.saw(now)), self.ttl.omit_expired)

    def saw(self, time: Any) -> float:
        """Note a time of the server, in ms; returns it, or the latest that was seen, where that is not far ahead."""
        now = float(time)
        if not now < self.seen <= now + BOUND_MS:
            self.seen = now
        return self.seen

    def check_ttl(self, ttl: float | None) -> None:
        """Check that what is written now with a ttl in ms ends by the year 9999.

        Raises:
            ValueError: It does not.
        """
        if ttl is not None:
            check_end(ttl, now=None if self.clock is None else float(self.frame().now))

    @property
    def format(self) -> scripts.Format:
        """What stored data must fit."""
        if self.index is None:
            return scripts.Format()
        return scripts.Format(dims=self.index.dims, embedder=self.index.embedder_id)

    def noted(self, namespace: bytes) -> list[tuple[scripts.Arg, ...]]:
        """Return the record that a change of a namespace carries beside its own, as the commit script reads it."""
        note = self.note
        if note is None or note.namespace != namespace:
            return []
        details = encode_json(dict(note.details))
        return [(encode_text(self.actor or ""), note.action, note.key, note.reason, details)]

    def take_written(self, rows: int) -> int:
        """Count written rows, and return for how many of them a sweep is due.

        None where expired rows stay visible until they are swept on purpose, nor under an injected clock; one where
        nothing is known to have piled up, so that a sweep looks whether it has.
        """
        if self.clock is not None or not self.ttl.omit_expired:
            return 0
        self._written += rows
        now = time.monotonic()
        if self._written < SWEEP_EVERY_ROWS and now - self._swept_at < SWEEP_EVERY_SECONDS:
            return 0
        written, self._written, self._swept_at = self._written, 0, now
        return written if self.has_expired else 1


def open_store(session: Session) -> Flow[None]:
    """Look at the server and at what is stored, once.

    Raises:
        UnsupportedServerError: The server is older than Redis 6.2, or a node of a cluster.
        ConfigurationError: The stored data have another format, embedder or number of dimensions.
    """
    if session.opened:
        return
    info = yield Info()
    version = tuple(int(part) for part in str(info.get("redis_version", "")).split(".")[:2] if part.isdigit())
    if version and version < MINIMUM_VERSION:
        raise UnsupportedServerError(
            f"the server is Redis {info['redis_version']}; the store needs Redis 6.2 or newer, or Valkey"
        )
    if info.get("redis_mode") == "cluster" or info.get("server_mode") == "cluster":
        raise UnsupportedServerError(
            "the server is a node of a cluster, which is not supported yet: use a single server"
        )
    if info.get("role") == "slave" and session.access.refusals.read_from_replica:
        session.access.refusals.note_replica()
    stored = checked((yield Send([scripts.stored_format(session.frame())]))[0])
    check_format(session, stored)
    policy = str(info.get("maxmemory_policy", ""))
    if policy.startswith("allkeys"):
        logger.warning(
            "the server's maxmemory-policy is %s: when it is full it evicts whole keys, and so parts of memories;"
            " use noeviction or a volatile policy, which leaves the store's keys alone",
            policy,
        )
    session.opened = True


def check_format(session: Session, stored: list[bytes | None]) -> None:
    """Compare what is stored under ``fmt`` with what this store is configured for.

    Raises:
        ConfigurationError: They differ; the message says both.
    """
    version, buckets, dims, embedder = (None if part is None else part.decode() for part in stored)
    fmt = session.format
    if version and version != str(FORMAT_VERSION):
        raise ConfigurationError(
            f"the stored data have format {version}; this version reads format {FORMAT_VERSION}, and converts no other:"
            " use another key_prefix, or the version of the library that wrote them"
        )
    if buckets and buckets != str(fmt.buckets):
        raise ConfigurationError(f"the stored data are spread over {buckets} buckets, this store over {fmt.buckets}")
    if fmt.dims is None or not dims:
        return
    if dims != str(fmt.dims):
        raise ConfigurationError(
            f"the stored vectors have {dims} dimensions, but index['dims'] is {fmt.dims}: use the embedder they were"
            " made with, or another key_prefix"
        )
    if embedder != fmt.embedder:
        raise ConfigurationError(
            f"the stored vectors were made by the embedder {embedder!r}, but index['embed'] is {fmt.embedder!r}: use"
            f" that one or another key_prefix; if it gives the same vectors, say so by"
            f" index['embedder_id'] = {embedder!r}"
        )


def flush(session: Session) -> Flow[None]:
    """Write the accesses that were counted; see `AccessBuffer`."""
    if not session.access.is_empty:
        yield from open_store(session)
        yield from session.access.flush(session.frame())


def record(
    session: Session, namespace: bytes, action: str, key: bytes, reason: str, details: Mapping[str, Any]
) -> Flow[None]:
    """Add an audit record that belongs to no single change; `namespace`, or a prefix of some, is encoded."""
    call = scripts.record(session.frame(), namespace, session.actor or "", action, key, reason, details)
    checked((yield Send([call]))[0])


def write_note(session: Session) -> Flow[None]:
    """Add the record that the session carries, where no change has carried it."""
    note = session.note
    if note is not None:
        yield from open_store(session)
        yield from record(session, note.namespace, note.action, note.key, note.reason, note.details)
        session.note = None


def noting(session: Session, flow: Flow[T]) -> Flow[T]:
    """Run a flow, and add the record that the session carries where the flow has not."""
    result = yield from flow
    yield from write_note(session)
    return result


def try_flush(flush: Callable[[], object]) -> None:
    """Flush on closing, when the server may be gone already."""
    try:
        flush()
    except Exception as error:
        logger.warning("counted accesses were lost on closing: %s", error)
