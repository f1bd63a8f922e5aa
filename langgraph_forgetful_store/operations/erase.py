"""Hard delete: what is erased, the proof that nothing refers to it any more, and the receipt."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from redis.exceptions import ResponseError

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import META_BYTES, unpack_meta
from langgraph_forgetful_store.backend.drivers import WORK_ON_LOOP
from langgraph_forgetful_store.backend.flow import Flow, Info, Send, Work, checked
from langgraph_forgetful_store.backend.keys import (
    decode_namespace,
    decode_text,
    encode_json,
    encode_namespace,
    encode_text,
)
from langgraph_forgetful_store.model.checks import Namespace, check_key, check_labels, check_namespace
from langgraph_forgetful_store.model.fields import to_datetime
from langgraph_forgetful_store.model.options import TRIGGERS
from langgraph_forgetful_store.operations.aliases import undo_field
from langgraph_forgetful_store.operations.audit import erase_records
from langgraph_forgetful_store.operations.closure import Rederive, closure, rederived, texts
from langgraph_forgetful_store.operations.commit import (
    Ask,
    Plan,
    Seen,
    look,
    transact,
)
from langgraph_forgetful_store.operations.history import OUT, links_field, unpack_links
from langgraph_forgetful_store.operations.runs import delete_rows, every_row
from langgraph_forgetful_store.operations.session import Session, open_store, record
from langgraph_forgetful_store.search.table import Fetched

# Rows that one call removes: it must not keep the server for long.
AT_ONCE = 500
UNREACHABLE = (
    "snapshots and append-only files that were written before (rewrite=True renews them)",
    "replicas that are behind, and copies of the server's files",
    "LangGraph checkpoints, and values that callers hold",
    "names of keys in the log of deletions, until it is pruned",
)
_POLL_SECONDS = 0.02
_NO_SLOT = (None, None)


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """What a hard delete did.

    Attributes:
        trigger: Why the erasure was asked for.
        erased: How many there were, by what they were: ``memories``, of which ``summaries``; ``rederived`` summaries,
            ``links``, ``slots`` and ``audit_records``.
        scanned_keys: How many entries the proof looked at.
        residue: What still refers to it; empty where nothing does.
        unreachable: What the store can't reach, and may still hold it.
        at: When it was done, by the server's time.
    """

    trigger: str
    erased: dict[str, int]
    scanned_keys: int
    residue: tuple[str, ...]
    unreachable: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class Terms:
    """How to erase; see `ForgetfulStore.forget`."""

    trigger: str
    byte_scan: bool
    rewrite: bool
    rederive: Rederive | None

    @classmethod
    def parse(cls, trigger: object, byte_scan: object, rewrite: object, rederive: object) -> Self:
        """Check what a call was given.

        Raises:
            ValueError: It is unusable.
        """
        if trigger not in TRIGGERS:
            raise ValueError(f"trigger must be one of {', '.join(TRIGGERS)}, got {trigger!r}")
        if not isinstance(byte_scan, bool) or not isinstance(rewrite, bool):
            raise ValueError(f"byte_scan and rewrite must be True or False, got {byte_scan!r} and {rewrite!r}")
        if rederive is not None and not callable(rederive):
            raise ValueError(f"rederive must be a function or None, got {rederive!r}")
        return cls(str(trigger), byte_scan, rewrite, rederive)


@dataclass(slots=True)
class _Erased:
    """What has been erased so far."""

    counts: Counter[str] = field(default_factory=Counter)
    keys: dict[str, None] = field(default_factory=dict)
    contents: set[bytes] = field(default_factory=set)


def forget(session: Session, namespace: object, key: object, terms: Terms) -> Flow[ErasureReceipt]:
    """Erase a row's whole chain and what was made from it; see `ForgetfulStore.forget`."""
    labels, name = check_namespace(namespace), check_key(key)
    encoded = encode_namespace(labels)
    yield from open_store(session)
    erased = _Erased()
    pending = [name]
    summaries: set[str] = set()
    scanned, residue = 0, list[str]()
    while pending:
        yield from _erase(session, labels, pending, summaries, terms, erased)
        scanned, residue = yield from _prove(session, encoded, erased.keys or {name: None})
        # What refers to it may be a summary that no link tells of: it goes too, and is looked for again.
        pending = yield from _scrub(session, labels, residue, erased.keys)
        summaries.update(pending)
    if residue:
        # What merely named it does so no more.
        scanned, residue = yield from _prove(session, encoded, erased.keys or {name: None})
    session.access.drop(encoded, (encode_text(one) for one in erased.keys))
    if erased.keys:
        erased.counts["audit_records"] = yield from erase_records(session, encoded, erased.keys)
        yield from _record(session, encoded, "forget", name, terms, erased)
    return (yield from _receipt(terms, erased, scanned, residue, session))


def _scrub(session: Session, labels: Namespace, residue: Sequence[str], erased: Mapping[str, None]) -> Flow[list[str]]:
    """Take erased keys out of what merely names them, and return the summaries that were made from them."""
    rows = [one[2:] for one in residue if one.startswith("x ")]
    names = [one[3:] for one in residue if one.startswith("s u")]
    summaries: list[str] = []
    if not rows and not names:
        return summaries

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now)
        summaries.clear()
        for row in (row for chain in seen.found[: len(rows)] for row in chain.rows):
            refs = row.rest.get("source_refs", [])
            if row.gone or all(ref not in erased for ref in refs):
                continue
            if row.memory_type == "summary":
                summaries.append(row.key)
                continue
            rest = plan.change(row).rest
            rest["source_refs"] = [ref for ref in refs if ref not in erased]
            if not rest["source_refs"]:
                del rest["source_refs"]
        for name, (_, undo, _, _) in zip(names, seen.found[len(rows) :], strict=True):
            field = undo_field(name)
            kept = json.loads(undo or b"{}")
            kept["closed"] = [
                one
                for one in kept.get("closed", ())
                if not {one["key"], one["survivor"], *(cut[0] for cut in one.get("cut", ()))} & erased.keys()
            ]
            plan.rely_on_field("s", field, undo)
            plan.fields["s", field] = encode_json(kept)
        return plan

    asked: list[Ask] = [("r", key, "") for key in rows] + [("n", name, "") for name in names]
    yield from transact(session, labels, asked, make)
    return summaries


def _erase(
    session: Session,
    labels: Namespace,
    keys: Sequence[str],
    made_from: set[str],
    terms: Terms,
    erased: _Erased,
) -> Flow[None]:
    """Remove rows with their chains in one step, or, where they are very many, in several, the asked for ones last."""
    encoded = encode_namespace(labels)
    again = True

    def make(seen: Seen) -> Flow[Plan]:
        nonlocal again
        plan = Plan(seen.now)
        found, links, summaries = yield from closure(session, encoded, keys, made_from)
        doomed = [key for key in found if key not in keys] + [key for key in keys if key in found]
        again = len(doomed) > AT_ONCE
        doomed = doomed[:AT_ONCE]
        kept = yield from rederived(session, labels, plan, summaries, found, links, erased.keys, terms.rederive)
        for key in doomed:
            if key in kept:
                continue
            row = found[key]
            plan.doomed.append(key)
            if not row.gone:
                plan.rely_on(row)
            plan.rely_on_field("k", links_field(key), links.get(key) or b"")
        counts.clear()
        counts["memories"] = len(plan.doomed)
        counts["summaries"] = sum(key in summaries for key in plan.doomed)
        counts["rederived"] = len(kept)
        counts["links"] = sum(one[0] == OUT for key in plan.doomed for one in unpack_links(links.get(key)))
        counts["slots"] = len(
            {tuple(map(found[key].rest.get, ("subject", "attribute"))) for key in plan.doomed} - {_NO_SLOT}
        )
        contents.clear()
        if terms.byte_scan:
            contents.update(text for key in plan.doomed for text in texts(found[key].value))
        last.clear()
        last.extend(plan.doomed)
        return plan

    counts: Counter[str] = Counter()
    contents: set[bytes] = set()
    last: list[str] = []
    while again:
        yield from transact(session, labels, [], make)
        erased.counts.update(counts)
        erased.contents |= contents
        erased.keys |= dict.fromkeys(last)
        if not last:
            break


def _prove(session: Session, encoded: bytes, keys: Iterable[str]) -> Flow[tuple[int, list[str]]]:
    names = list(keys)
    scanned, residue = 0, []
    for start in range(0, len(names), AT_ONCE):
        part = names[start : start + AT_ONCE]
        plain = [encode_text(name) for name in part]
        quoted = [encode_json(name) for name in part]
        at: tuple[scripts.Arg, scripts.Arg] = ("", "0")
        while True:
            reply = (yield Send([scripts.proof(session.frame(), encoded, at, plain, quoted)]))[0]
            structure, cursor, count, *found = checked(reply)
            scanned += count
            residue += [decode_text(one) for one in found]
            if not structure:
                break
            at = (structure, cursor)
    return scanned, residue


def forget_all(session: Session, namespace_prefix: object, terms: Terms) -> Flow[ErasureReceipt]:
    """Erase a subtree; see `ForgetfulStore.forget_all`."""
    labels = check_labels(namespace_prefix, "namespace_prefix")
    prefix = encode_namespace(labels)
    yield from open_store(session)
    erased = _Erased()
    rows: list[Fetched] = []
    upto: int | None = None

    def collect(window: Sequence[Fetched]) -> Flow[None]:
        rows.extend(window)
        if terms.byte_scan:
            yield from _keep_contents(session, window, erased)

    while True:
        rows.clear()
        # One that changes its status meanwhile may be passed by, so that there is another look; only a row that is put
        # anew meanwhile is not what was to be erased.
        upto = yield from every_row(session.frame(), prefix, collect, expired=True, upto=upto)
        if not rows:
            break
        # One that was archived meanwhile is met twice. What is no meta record is deleted whatever its number.
        doomed = {
            (row.namespace, row.key): f"{unpack_meta(row.meta).content:.0f}" if len(row.meta) == META_BYTES else ""
            for row in rows
        }
        deleted = yield from delete_rows(session.frame(), [(*name, number) for name, number in doomed.items()])
        erased.counts["memories"] += deleted
    scanned, residue = 0, list[str]()
    start = b""
    while True:
        start, looked, *found = checked((yield Send([scripts.left(session.frame(), prefix, start, upto)]))[0])
        scanned += looked
        for one in found:
            name, namespace = one.split(b" ", 1)
            residue.append(f"{name.decode()} {decode_namespace(namespace)!r}")
        if not start:
            break
    session.access.drop(prefix, None)
    erased.counts["audit_records"] = yield from erase_records(session, prefix, None)
    if erased.counts["memories"]:
        yield from _record(session, prefix, "forget_all", "", terms, erased)
    return (yield from _receipt(terms, erased, scanned, residue, session))


def _keep_contents(session: Session, rows: Sequence[Fetched], erased: _Erased) -> Flow[None]:
    for namespace in {row.namespace for row in rows}:
        asked: list[Ask] = [("r", decode_text(row.key), "") for row in rows if row.namespace == namespace]
        seen = yield from look(session.frame(), namespace, asked, values=True)
        erased.contents |= {text for chain in seen.found for row in chain.rows for text in texts(row.value)}


def _record(session: Session, prefix: bytes, action: str, key: str, terms: Terms, erased: _Erased) -> Flow[None]:
    details = {name: count for name, count in erased.counts.items() if count}
    yield from record(session, prefix, action, encode_text(key), terms.trigger, details)


def _receipt(terms: Terms, erased: _Erased, scanned: int, residue: list[str], session: Session) -> Flow[ErasureReceipt]:
    if terms.byte_scan and erased.contents:
        more, found = yield from _scan_bytes(session, erased.contents)
        scanned += more
        residue = residue + found
    if terms.rewrite:
        yield from _rewrite()
    now = (yield from look(session.frame(), b"", [])).now
    counts = {name: count for name, count in erased.counts.items() if count}
    return ErasureReceipt(terms.trigger, counts, scanned, tuple(residue), UNREACHABLE, to_datetime(now))


def _scan_bytes(session: Session, contents: set[bytes]) -> Flow[tuple[int, list[str]]]:
    names: set[bytes] = set()
    cursor: scripts.Arg = "0"
    while True:
        cursor, *found = checked((yield Send([scripts.dump(session.frame(), "keys", b"", cursor)]))[0])
        names.update(found)
        if cursor == b"0":
            break
    residue = []
    for name in sorted(names):
        cursor = "0"
        met = False
        while True:
            cursor, *parts = checked((yield Send([scripts.dump(session.frame(), "key", name, cursor)]))[0])
            met = met or any(text in part for part in parts for text in contents)
            if cursor == b"0":
                break
        if met:
            residue.append(f"bytes {name.decode('utf-8', 'replace')}")
    return len(names), residue


def _rewrite() -> Flow[None]:
    """Have the server write its files anew, and wait for it."""
    before = yield Info()
    running = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
    # One that runs already began before the erasure.
    yield from _wait_until_idle(before, running)
    # An old snapshot may lie beside an append-only file.
    for command, status in (("BGREWRITEAOF", "aof_last_bgrewrite_status"), ("BGSAVE", "rdb_last_bgsave_status")):
        if command == "BGREWRITEAOF" and not before.get("aof_enabled"):
            continue
        info = yield from _wait_until_idle((yield Info((command,))), running)
        if info.get(status, "ok") != "ok":
            raise ResponseError(
                f"the memories are erased, but the server's {command} failed: its old file may hold them"
            )


def _wait_until_idle(info: Mapping[str, Any], running: Sequence[str]) -> Flow[Mapping[str, Any]]:
    while any(info.get(name) for name in running):
        yield Work(lambda: time.sleep(_POLL_SECONDS), WORK_ON_LOOP + 1)
        info = yield Info()
    return info
