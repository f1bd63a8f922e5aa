"""The Lua scripts, and one typed builder for each.

A script is ``common.lua``, what more it shares with others, and its own file, under the layout of the meta record.
Every key it touches starts with the store's prefix, which is its one KEYS argument.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import repeat
from typing import Any, NamedTuple

from langgraph_forgetful_store.backend.codec import FORMAT_VERSION, lua_layout
from langgraph_forgetful_store.backend.keys import encode_json, encode_text

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


PUT = Script.load("put", "common_write", "common_life", "common_types", once=True)
COMMIT = Script.load("commit", "common_write", "common_life", "common_types", "common_audit", once=True)
DELETE = Script.load("delete", "common_write", "common_life", once=True)
SWEEP = Script.load("sweep", "common_write", "common_life", "common_audit", once=True)
RECORD = Script.load("record", "common_write", "common_audit", once=True)
AUDIT = Script.load("audit", "common_audit")
ERASE_AUDIT = Script.load("erase_audit", "common_audit")
DIGEST_KEY = Script.load("digest_key")
ADD_DIGESTS = Script.load("add_digests")
FIND_DIGESTS = Script.load("find_digests")
SPOKEN_OF = Script.load("spoken_of")
PROOF = Script.load("proof")
LEFT = Script.load("left")
DUMP = Script.load("dump")
TOUCH = Script.load("touch", "common_write", once=True)
LOOK = Script.load("look")
TOLD = Script.load("told")
LINKS = Script.load("links")
RUN = Script.load("run")
LAYERS = Script.load("layers")
ALIASES = Script.load("aliases")
GET = Script.load("get", "common_read")
PAGE = Script.load("page", "common_read")
NAMESPACES = Script.load("namespaces")
SCAN = Script.load("scan")
SYNC = Script.load("sync")
FORMAT = Script.load("format")

MAX_ROWS = 500
AUDIT_LOOK = 1000
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


def delete(frame: Frame, rows: Iterable[tuple[bytes, bytes, Arg]], *, silent: bool = False) -> list[Call]:
    """Build the calls that delete (namespace, key, expected content number or ``""`` for any) rows.

    Args:
        frame: The operation's.
        rows: Which.
        silent: Whether they leave no tombstone.
    """
    return _chunked(DELETE, ((row[0], len(row[1]), row[1:]) for row in rows), *frame.args(int(silent)))


def run(frame: Frame, run_id: bytes, prefix: bytes, after: bytes, most: int, upto: Arg) -> Call:
    """Build the call that reads the rows of a run below a prefix, from behind an entry on; `upto` as in `run.lua`."""
    return Call(RUN, frame.args(run_id, prefix, after, most, upto))


def look(frame: Frame, namespace: bytes, asked: Iterable[Sequence[Arg]], *, values: bool = False) -> Call:
    """Build the call that reads rows, lines, aliases and links; see `look.lua`."""
    return Call(LOOK, frame.args(namespace, int(values), *(part for one in asked for part in one)))


def told(frame: Frame, namespace: bytes, key: bytes, at: tuple[Arg, Arg], most: int, *, by_names: bool) -> Call:
    """Build the call that reads rows of a row's slot or chain, from where the call before has stopped."""
    return Call(TOLD, frame.args(namespace, key, *at, most, MAX_BYTES, int(by_names)))


def links(frame: Frame, namespace: bytes, most: int, asked: Iterable[tuple[bytes, bytes]]) -> Call:
    """Build the call that reads links of rows: (key, entry to go on behind, or ``b""``) each."""
    return Call(LINKS, frame.args(namespace, most, *(part for one in asked for part in one)))


def digest_key(frame: Frame, proposal: bytes) -> Call:
    """Build the call that reads the key of erasures' digests; a proposal, if any, becomes it where there is none."""
    return Call(DIGEST_KEY, frame.args(proposal))


def layers(frame: Frame, prefix: bytes, at: tuple[bytes, bytes], rows: int, look: int) -> Call:
    """Build the call that reads rows which may lie over others, from where the call before has stopped."""
    return Call(LAYERS, frame.args(prefix, *at, rows, look))


def aliases(frame: Frame, namespace: bytes) -> Call:
    """Build the call that reads which names stand for which subjects."""
    return Call(ALIASES, frame.args(namespace))


def commit(frame: Frame, fmt: Format, namespace: bytes, plan: Iterable[Arg]) -> Call:
    """Build the call that carries out a planned change; see `commit.lua` for its lists."""
    return Call(COMMIT, frame.args(*fmt.args(), namespace, *plan), 1)


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


def unrefreshing(call: Call) -> Call:
    """Return the same read without what it writes: refreshed TTLs; any other call as it is."""
    args = list(call.args)
    if call.script is GET:
        # Behind the frame, the namespaces and their number: four a row, the third of them flags.
        for at in range(5 + int(args[2]), len(args), 4):
            args[at] = int(args[at]) & ~REFRESH
    elif call.script is PAGE:
        args[5] = 0
    else:
        return call
    return Call(call.script, args, call.rows)


def touch(frame: Frame, rows: Iterable[tuple[bytes, bytes, int, int, float]]) -> list[Call]:
    """Build the calls that count accesses: (namespace, key, accesses, ms since the last, created_at) rows."""
    sized = (
        (namespace, len(key), (key, accesses, since, created)) for namespace, key, accesses, since, created in rows
    )
    return _chunked(TOUCH, sized, *frame.args())


def namespace_of(call: Call, number: int) -> bytes:
    """Return the namespace that a call of `touch.lua` names at a place, from 1."""
    named = call.args[2 + number]
    assert isinstance(named, bytes)
    return named


def page(frame: Frame, prefix: bytes, offset: int, limit: int, refresh: bool, allowed: int) -> Call:
    """Build the call that reads the newest rows below a prefix, if they are all in one namespace."""
    return Call(PAGE, frame.args(prefix, offset, limit, int(refresh), allowed, MAX_BYTES))


def stored_format(frame: Frame) -> Call:
    """Build the call that reads what is stored under ``fmt``."""
    return Call(FORMAT, frame.args())


def namespaces(frame: Frame, prefix: bytes, start: bytes, want: int, look: int, depth: int) -> Call:
    """Build the call that lists living namespaces."""
    return Call(NAMESPACES, frame.args(prefix, start, want, look, depth))


def sweep(frame: Frame, rows: int, look: int, passed: int = 0) -> Call:
    """Build the call that deletes up to `rows` expired rows; it passes over so many namespaces that can't be swept."""
    return Call(SWEEP, frame.args(rows, look, passed))


def scan(
    frame: Frame,
    prefix: bytes,
    start: tuple[bytes, Arg],
    rows: int,
    *,
    vectors: bool,
    value_bytes: int,
    closed: bool = False,
    expired: bool = False,
    upto: int | None = None,
) -> Call:
    """Build the call that reads one window of the rows below `prefix`.

    Args:
        frame: The operation's.
        prefix: Encoded.
        start: Namespace and change number, as the window before has told.
        rows: At the most.
        vectors: Whether rows come with their vectors.
        value_bytes: Of the largest value that comes along.
        closed: Whether archived and superseded rows are read.
        expired: Whether expired rows that are not swept yet are read.
        upto: The change number after which rows are left out; ``None``: none are.
    """
    more = ("x" if closed else "e") if expired else int(closed)
    last = "+inf" if upto is None else upto
    return Call(SCAN, frame.args(prefix, *start, rows, MAX_BYTES, 2000, int(vectors), value_bytes, more, last))


def sync(
    frame: Frame,
    prefix: bytes,
    since: Arg,
    most: int,
    page_from: Arg,
    *,
    vectors: bool,
    value_bytes: int,
    closed: bool = False,
    expired: bool = False,
) -> Call:
    """Build the call that reads a page of what has changed below `prefix` since a change number."""
    more = "e" if expired else int(closed)
    return Call(SYNC, frame.args(prefix, since, most, int(vectors), value_bytes, page_from, MAX_BYTES, more))


def record(
    frame: Frame, namespace: bytes, actor: str, action: str, key: bytes, reason: str, details: Mapping[str, Any]
) -> Call:
    """Build the call that adds an audit record."""
    names = (encode_text(part) for part in (actor, action))
    return Call(RECORD, frame.args(namespace, *names, key, encode_text(reason), encode_json(details)), 1)


def audit(frame: Frame, prefix: bytes, key: bytes | None, erased: bytes, since: float, before: Arg, most: int) -> Call:
    """Build the call that reads audit records; see `audit.lua`."""
    wanted = b"" if key is None else b"k" + key
    return Call(AUDIT, frame.args(prefix, wanted, erased, f"{since:.3f}", before, AUDIT_LOOK, most))


def erase_audit(frame: Frame, prefix: bytes, keys: Sequence[str] | None, before: Arg) -> Call:
    """Build the call that erases audit records: of keys in this very namespace, or of all below a prefix."""
    named: list[Arg] = [""] if keys is None else [len(keys), *map(encode_text, keys)]
    return Call(ERASE_AUDIT, frame.args(prefix, before, AUDIT_LOOK, *named))


def add_digests(frame: Frame, namespace: bytes, digests: Sequence[bytes]) -> list[Call]:
    """Build the calls that note what is erased by its digests."""
    parts = (digests[at : at + MAX_ROWS] for at in range(0, len(digests), MAX_ROWS))
    return [Call(ADD_DIGESTS, frame.args(namespace, *part)) for part in parts]


def spoken_of(frame: Frame, namespace: bytes, subjects: Sequence[str]) -> Call:
    """Build the call that tells of which subjects anything stands in lines or beside them."""
    return Call(SPOKEN_OF, frame.args(namespace, *map(encode_text, subjects)))


def find_digests(frame: Frame, namespace: bytes, digests: Sequence[bytes]) -> Call:
    """Build the call that counts how many of some digests are known."""
    return Call(FIND_DIGESTS, frame.args(namespace, *digests))


def proof(frame: Frame, namespace: bytes, at: tuple[Arg, Arg], keys: Iterable[bytes], names: Iterable[bytes]) -> Call:
    """Build the call that looks for what still refers to erased rows; see `proof.lua`."""
    listed, quoted = list(keys), list(names)
    return Call(PROOF, frame.args(namespace, *at, len(listed), *listed, *quoted))


def left(frame: Frame, prefix: bytes, start: bytes, upto: int) -> Call:
    """Build the call that clears what namespaces without rows leave behind, and tells what is left of others."""
    return Call(LEFT, frame.args(prefix, start, upto))


def dump(frame: Frame, at: Arg, key: bytes, cursor: Arg) -> Call:
    """Build the call that reads stored bytes; see `dump.lua`."""
    return Call(DUMP, frame.args(at, key, cursor))
