"""The Lua scripts, and one typed builder for each.

A script is ``common.lua``, what more it shares with others, and its own file, under the layout of the meta record.
Every key it touches starts with the store's prefix, which is its one KEYS argument.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import repeat
from typing import NamedTuple

from langgraph_forgetful_store.backend.codec import FORMAT_VERSION, lua_layout

Arg = bytes | str | int | float


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua script as the server knows it.

    Attributes:
        name: The name of its file.
        source: What is loaded.
        sha: The SHA1 digest by which it is called.
        once: Whether a repeated call must not be carried out again; such a call gets a lane and a number.
    """

    name: str
    source: str
    sha: str
    once: bool

    @classmethod
    def load(cls, name: str, *shared: str, once: bool = False) -> Script:
        """Read a script, and what it shares with others beyond ``common.lua``, from the package's resources."""
        folder = resources.files(__name__)
        # Every call runs all of its source, so a script gets no more of it than it uses.
        parts = (folder / f"{part}.lua" for part in ("common", *shared, name))
        body = "\n".join(part.read_text("utf-8") for part in parts)
        layout = [line for line in lua_layout().splitlines() if line.split()[1].rstrip(",") in body]
        source = "\n".join([*layout, body])
        return cls(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest(), once)


@dataclass(slots=True)
class Call:
    """A call of a script, not yet sent.

    Attributes:
        script: What is called.
        args: ARGV, without the lane and number that the driver adds to scripts that run once.
        rows: How many of the caller's rows it carries.
        once: A lane and number of its own, for a call that may be sent again long after it has failed.
    """

    script: Script
    args: Sequence[Arg]
    rows: int = 0
    once: tuple[str, int] | None = None


PUT = Script.load("put", "common_write", once=True)
DELETE = Script.load("delete", "common_write", once=True)
SWEEP = Script.load("sweep", "common_write", once=True)
TOUCH = Script.load("touch", "common_write", once=True)
GET = Script.load("get", "common_read")
PAGE = Script.load("page", "common_read")
NAMESPACES = Script.load("namespaces")
SCAN = Script.load("scan")
SYNC = Script.load("sync")
FORMAT = Script.load("format")

MAX_ROWS = 500
MAX_BYTES = 2_000_000
REFRESH = 1
WITH_VALUE = 2


@dataclass(slots=True)
class Frame:
    """What every call of one operation carries.

    Attributes:
        now: The time in ms since the epoch, or ``""`` for server time.
        omit: Whether expired rows are absent.
    """

    now: Arg
    omit: bool

    def args(self, *more: Arg) -> list[Arg]:
        """Return the leading ARGV, followed by `more`."""
        return [self.now, "1" if self.omit else "0", *more]


def _chunked(script: Script, rows: Iterable[tuple[bytes, int, Sequence[Arg]]], *head: Arg) -> list[Call]:
    """Spread (namespace, bytes, ARGV) rows over calls that are bounded in rows and bytes; each has `head` in front."""
    calls: list[Call] = []
    spaces: dict[bytes, int] = {}
    args: list[Arg] = []
    count = total = 0
    for namespace, size, more in rows:
        if count and (count >= MAX_ROWS or total + size > MAX_BYTES):
            calls.append(Call(script, [*head, len(spaces), *spaces, *args], count))
            spaces, args, count, total = {}, [], 0, 0
        args.append(spaces.setdefault(namespace, len(spaces) + 1))
        args += more
        count += 1
        total += size
    if count:
        calls.append(Call(script, [*head, len(spaces), *spaces, *args], count))
    return calls


@dataclass(frozen=True, slots=True)
class Format:
    """What the stored data must fit; see ``fmt`` in `keys`."""

    buckets: int = 1
    dims: int | None = None
    embedder: str = ""

    def args(self) -> list[Arg]:
        """Return the ARGV that `put` compares with the stored format."""
        return [str(FORMAT_VERSION), str(self.buckets), "" if self.dims is None else str(self.dims), self.embedder]


class PutRow(NamedTuple):
    """A row to write: encoded namespace and key, JSON, float32 vectors (``b""`` for none), TTL in ms, patch."""

    namespace: bytes
    key: bytes
    value: bytes
    vectors: bytes
    ttl: int | None
    patch: bytes = b""


def put(frame: Frame, fmt: Format, rows: Iterable[PutRow]) -> list[Call]:
    """Build the calls that write `rows`, in order."""
    sized = (
        (namespace, len(key) + len(value) + len(vectors), (key, value, vectors, "" if ttl is None else ttl, patch))
        for namespace, key, value, vectors, ttl, patch in rows
    )
    return _chunked(PUT, sized, *frame.args(*fmt.args()))


def delete(frame: Frame, rows: Iterable[tuple[bytes, bytes]]) -> list[Call]:
    """Build the calls that delete (namespace, key) rows."""
    return _chunked(DELETE, ((namespace, len(key), (key,)) for namespace, key in rows), *frame.args())


def get(
    frame: Frame, rows: Iterable[tuple[bytes, bytes, int, Arg]], value_bytes: Iterable[int] = repeat(0)
) -> list[Call]:
    """Build the calls that read rows.

    Args:
        frame: The operation's.
        rows: (namespace, key, flags, expected content number or ``""``) each.
        value_bytes: Of the values asked for, where that is known, so that no reply is too large.
    """
    sized = ((row[0], len(row[1]) + size, row[1:]) for row, size in zip(rows, value_bytes, strict=False))
    return _chunked(GET, sized, *frame.args())


def touch(frame: Frame, rows: Iterable[tuple[bytes, bytes, int, int, float]]) -> list[Call]:
    """Build the calls that count accesses: (namespace, key, accesses, ms since the last, created_at) rows."""
    sized = (
        (namespace, len(key), (key, accesses, since, created)) for namespace, key, accesses, since, created in rows
    )
    return _chunked(TOUCH, sized, *frame.args())


def page(frame: Frame, prefix: bytes, offset: int, limit: int, refresh: bool, allowed: int) -> Call:
    """Build the call that reads the newest rows below a prefix, if they are all in one namespace."""
    return Call(PAGE, frame.args(prefix, offset, limit, int(refresh), allowed, MAX_BYTES))


def stored_format(frame: Frame) -> Call:
    """Build the call that reads what is stored under ``fmt``."""
    return Call(FORMAT, frame.args())


def namespaces(frame: Frame, prefix: bytes, start: bytes, want: int, look: int, depth: int) -> Call:
    """Build the call that lists living namespaces."""
    return Call(NAMESPACES, frame.args(prefix, start, want, look, depth))


def sweep(frame: Frame, rows: int, look: int) -> Call:
    """Build the call that deletes up to `rows` expired rows."""
    return Call(SWEEP, frame.args(rows, look))


def scan(frame: Frame, prefix: bytes, start: tuple[bytes, Arg], rows: int, *, vectors: bool, value_bytes: int) -> Call:
    """Build the call that reads one window of the active rows below `prefix`."""
    return Call(SCAN, frame.args(prefix, *start, rows, MAX_BYTES, 2000, int(vectors), value_bytes))


def sync(
    frame: Frame, prefix: bytes, since: Arg, most: int, page_from: Arg, *, vectors: bool, value_bytes: int
) -> Call:
    """Build the call that reads a page of what has changed below `prefix` since a change number."""
    return Call(SYNC, frame.args(prefix, since, most, int(vectors), value_bytes, page_from, MAX_BYTES))
