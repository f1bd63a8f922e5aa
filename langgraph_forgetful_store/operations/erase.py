"""Hard delete: what is erased, the proof that nothing refers to it any more, and the receipt."""

from __future__ import annotations

import re
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
from langgraph_forgetful_store.operations.audit import erase_records
from langgraph_forgetful_store.operations.closure import Rederive, closure, rederived, traces
from langgraph_forgetful_store.operations.digests import (
    content_digest,
    digest_key,
    erased_key,
    message_digests,
    note_erased,
)
from langgraph_forgetful_store.operations.history import Link
from langgraph_forgetful_store.operations.plan import OUT, Plan, Stored, alias_field, name_entry, undo_field
from langgraph_forgetful_store.operations.runs import delete_rows, every_row
from langgraph_forgetful_store.operations.session import Session, open_store, record
from langgraph_forgetful_store.operations.transact import Seen, ask_name, ask_row, look, transact
from langgraph_forgetful_store.search.table import Fetched

# Rows that one call removes: it must not keep the server for long.
AT_ONCE = 100
UNREACHABLE = (
    "snapshots and append-only files that were written before (rewrite=True renews them)",
    "replicas that are behind, and copies of the server's files",
    "LangGraph checkpoints, and values that callers hold",
)
_POLL_SECONDS = 0.02
# Of a key that holds what memories hold: their keys, values, texts and lifecycle.
_KIND_OF_ROWS = re.compile(rb"\}:[czvxm]:")
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

    digest_key: bytes
    counts: Counter[str] = field(default_factory=Counter)
    keys: dict[str, None] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    slots: set[tuple[Any, ...]] = field(default_factory=set)
    traces: set[bytes] = field(default_factory=set)
    subjects: set[str] = field(default_factory=set)

    def note(self, session: Session, namespace: bytes, rows: Iterable[Stored], *, traced: bool) -> Flow[None]:
        """Keep what rows are told by, before they go."""
        digests: dict[bytes, None] = {}
        for row in rows:
            digests |= dict.fromkeys(message_digests(self.digest_key, row.rest.get("source_refs", ())))
            if "subject" in row.rest:
                self.subjects.add(row.rest["subject"])
            if row.value is not None:
                digests[content_digest(self.digest_key, row.value)] = None
            if traced:
                self.traces.update(traces(row))
        yield from note_erased(session, namespace, list(digests))


def forget(session: Session, namespace: object, key: object, terms: Terms) -> Flow[ErasureReceipt]:
    """Erase a row's whole chain and what was made from it; see `ForgetfulStore.forget`."""
    labels, name = check_namespace(namespace), check_key(key)
    encoded = encode_namespace(labels)
    yield from open_store(session)
    erased = _Erased((yield from digest_key(session)))
    pending = [name]
    summaries: set[str] = set()
    scanned, residue = 0, list[str]()
    while pending:
        yield from _erase(session, labels, pending, summaries, terms, erased)
        scanned, residue = yield from _prove(session, encoded, erased.keys or {name: None})
        # What refers to it may be a summary that no link tells of: it goes too, and is looked for again.
        pending = yield from _scrub(session, labels, residue, erased.keys)
        summaries.update(pending)
    names = yield from _drop_names(session, labels, erased.subjects)
    if residue:
        # What merely named it does so no more.
        scanned, residue = yield from _prove(session, encoded, erased.keys or {name: None})
    session.access.drop(encoded, (encode_text(one) for one in erased.keys))
    # What was said of a memory that was deleted before goes, too.
    records = yield from erase_records(session, encoded, [*(erased.keys or {name: None}), *names])
    if records:
        erased.counts["audit_records"] = records
    if erased.keys:
        yield from _record(session, encoded, "forget", erased_key(erased.digest_key, name), terms, erased)
    return (yield from _receipt(terms, erased, scanned, residue, session))


def _drop_names(session: Session, labels: Namespace, subjects: Iterable[str]) -> Flow[set[str]]:
    """Drop the names of subjects of which nothing is known any more, and return all that such a subject was called."""
    encoded = encode_namespace(labels)
    dropped: set[str] = set()
    for subject in sorted(subjects):

        def make(seen: Seen, subject: str = subject) -> Flow[Plan]:
            plan, name = Plan(seen.now, silent=True), seen.found[0]
            goal = name.stands_for or subject
            if name.stands_for:
                name = (yield from look(session, encoded, [ask_name(goal)])).found[0]
            group = [goal, *name.names]
            plan.rely_on_field(alias_field(subject), encode_text(goal if goal != subject else ""))
            plan.rely_on_names(goal, name.names)
            if any(checked((yield Send([scripts.spoken_of(session.frame(), encoded, group)]))[0])):
                return plan
            for one in group:
                plan.rely_on_silence(one)
            dropped.update(group)
            for one in name.names:
                plan.fields |= {alias_field(one): b"", undo_field(one): b""}
                plan.less[name_entry(goal, one)] = None
            return plan

        yield from transact(session, labels, [ask_name(subject)], make)
    return dropped


def _scrub(session: Session, labels: Namespace, residue: Sequence[str], erased: Mapping[str, None]) -> Flow[list[str]]:
    """Take erased keys out of what merely names them, and return the summaries that were made from them."""
    rows = [one[2:] for one in residue if one.startswith("x ")]
    logged = [one[2:] for one in residue if one.startswith("d ")]
    if logged:
        # What was deleted before it was to be erased is still in the log of deletions.
        yield from transact(session, labels, [], lambda seen: Plan(seen.now, doomed=logged, silent=True))
    summaries: list[str] = []
    if not rows:
        return summaries

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now)
        summaries.clear()
        for row in (one.row for one in seen.found if one.row is not None):
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
        return plan

    yield from transact(session, labels, [ask_row(key) for key in rows], make)
    return summaries


def _erase(
    session: Session,
    labels: Namespace,
    keys: Sequence[str],
    made_from: set[str],
    terms: Terms,
    erased: _Erased,
) -> Flow[None]:
    """Remove rows with what was said in their lines, oldest first, the asked for ones last."""
    encoded = encode_namespace(labels)
    while True:
        found, known, summaries = yield from closure(session, encoded, keys, made_from)
        if not found:
            return
        order = sorted(found.values(), key=lambda row: (row.key in keys, row.meta.valid_from))
        kept: set[str] = set()
        if terms.rederive is not None:
            kept = yield from _rederive(session, labels, summaries, found, known, erased, terms.rederive)
        doomed = [row for row in order if row.key not in kept]
        for start in range(0, len(doomed), AT_ONCE):
            rows = doomed[start : start + AT_ONCE]
            if not (yield from _remove(session, labels, rows, found, known, summaries, terms, erased)):
                break
        if not doomed:
            return


def _rederive(
    session: Session,
    labels: Namespace,
    summaries: set[str],
    found: Mapping[str, Stored],
    known: Mapping[str, Sequence[Link]],
    erased: _Erased,
    rederive: Rederive,
) -> Flow[set[str]]:
    kept: set[str] = set()

    def make(seen: Seen) -> Flow[Plan]:
        plan = Plan(seen.now)
        kept.clear()
        kept.update((yield from rederived(session, labels, plan, summaries, found, known, erased.keys, rederive)))
        return plan

    yield from transact(session, labels, [], make)
    fresh = kept - erased.kept
    erased.kept |= kept
    erased.counts["rederived"] += len(fresh)
    return kept


def _remove(
    session: Session,
    labels: Namespace,
    rows: Sequence[Stored],
    found: Mapping[str, Stored],
    known: Mapping[str, Sequence[Link]],
    summaries: set[str],
    terms: Terms,
    erased: _Erased,
) -> Flow[bool]:
    """Remove some of the rows that were found; if one has been replaced meanwhile, return False, and remove none."""
    doomed: list[str] = []
    replaced: list[str] = []
    # Before they go: what is erased twice is noted twice, what is not noted may come back.
    yield from erased.note(session, encode_namespace(labels), rows, traced=terms.byte_scan)

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now, silent=True)
        replaced.clear()
        for row, one in zip(rows, seen.found, strict=True):
            # Another life of a key is not what was asked to be erased.
            if one.row is not None and one.row.meta.created_at == row.meta.created_at:
                plan.rely_on(one.row)
                plan.doomed.append(row.key)
                by = one.row.rest.get("superseded_by")
                if by != row.rest.get("superseded_by") and by is not None and by not in found:
                    replaced.append(row.key)
        if replaced:
            plan = Plan(seen.now, silent=True)
        doomed[:] = plan.doomed
        return plan

    yield from transact(session, labels, [ask_row(row.key) for row in rows], make)
    gone = set(doomed)
    slots = {tuple(map(row.rest.get, ("subject", "attribute"))) for row in rows if row.key in gone} - {_NO_SLOT}
    erased.counts["memories"] += len(gone)
    erased.counts["summaries"] += len(gone & summaries)
    erased.counts["links"] += sum(one[0] == OUT for key in gone for one in known.get(key, ()))
    erased.counts["slots"] += len(slots - erased.slots)
    erased.slots |= slots
    erased.keys |= dict.fromkeys(doomed)
    return not replaced


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
    erased = _Erased((yield from digest_key(session)))
    rows: list[Fetched] = []
    upto: int | None = None

    def collect(window: Sequence[Fetched]) -> Flow[None]:
        rows.extend(window)
        yield from _note_rows(session, window, erased, terms)

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
        deleted = yield from delete_rows(session, [(*name, number) for name, number in doomed.items()], silent=True)
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
        yield from _record(session, prefix, "forget_all", b"", terms, erased)
    return (yield from _receipt(terms, erased, scanned, residue, session))


def _note_rows(session: Session, rows: Sequence[Fetched], erased: _Erased, terms: Terms) -> Flow[None]:
    for namespace in {row.namespace for row in rows}:
        asked = [ask_row(decode_text(row.key)) for row in rows if row.namespace == namespace]
        seen = yield from look(session, namespace, asked, values=True)
        found = [one.row for one in seen.found if one.row is not None]
        yield from erased.note(session, namespace, found, traced=terms.byte_scan)


def _record(session: Session, prefix: bytes, action: str, key: bytes, terms: Terms, erased: _Erased) -> Flow[None]:
    details = {name: count for name, count in erased.counts.items() if count}
    yield from record(session, prefix, action, key, terms.trigger, details)


def _receipt(terms: Terms, erased: _Erased, scanned: int, residue: list[str], session: Session) -> Flow[ErasureReceipt]:
    if terms.byte_scan and erased.traces:
        more, found = yield from _scan_bytes(session, erased.traces)
        scanned += more
        residue = residue + found
    if terms.rewrite:
        yield from _rewrite()
    now = (yield from look(session, b"", [])).now
    counts = {name: count for name, count in erased.counts.items() if count}
    return ErasureReceipt(terms.trigger, counts, scanned, tuple(residue), UNREACHABLE, to_datetime(now))


def _scan_bytes(session: Session, traces: set[bytes]) -> Flow[tuple[int, list[str]]]:
    """Look for the traces of erased rows in all that lies below the store's prefix.

    What a memory that is left holds itself, or its namespace, is no trace of another.
    """
    names: set[bytes] = set()
    cursor: scripts.Arg = "0"
    while True:
        cursor, *found = checked((yield Send([scripts.dump(session.frame(), "keys", b"", cursor)]))[0])
        names.update(found)
        if cursor == b"0":
            break
    held: set[bytes] = set()
    met: dict[bytes, set[bytes]] = {}
    for name in sorted(names):
        cursor = "0"
        here = {text for text in traces if text in name}
        while True:
            cursor, *parts = checked((yield Send([scripts.dump(session.frame(), "key", name, cursor)]))[0])
            here |= {text for part in parts for text in traces if text in part}
            if cursor == b"0":
                break
        if _KIND_OF_ROWS.search(name):
            held |= here
        elif here:
            met[name] = here
    residue = [f"bytes {name.decode('utf-8', 'replace')}" for name, here in met.items() if here - held]
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
