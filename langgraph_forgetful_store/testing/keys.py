"""A check of everything that a store keeps in Redis."""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from collections.abc import Iterator
from typing import Any

from langgraph_forgetful_store.backend.codec import (
    FLAG_AHEAD,
    FLAG_ARCHIVE_ON_EXPIRY,
    FOREVER,
    META_BYTES,
    Meta,
    unpack_meta,
)
from langgraph_forgetful_store.backend.keys import (
    GLOBAL,
    PER_NAMESPACE,
    PER_RUN,
    SEPARATOR,
    decode_text,
    encode_json,
    encode_text,
    split_row,
    store_prefix,
)
from langgraph_forgetful_store.model.packing import unpack_rest
from langgraph_forgetful_store.model.places import place_of
from langgraph_forgetful_store.operations.plan import OF_RUN, slot_owner, sortable


def check_keys(client: Any, key_prefix: str = "forgetful", *, empty: bool = False) -> dict[str, int]:
    """Read every key under a store's prefix and check that they agree with one another.

    Args:
        client: A redis-py client with ``decode_responses=False``.
        key_prefix: The key prefix of the store to check.
        empty: Also check that no row is left.

    Returns:
        How many rows there are, how many of them expire, and how many namespaces hold any.

    Raises:
        AssertionError: A structure holds what the others do not, or a key is of no known kind.
    """
    prefix = store_prefix(key_prefix)
    found = {key[len(prefix) :] for key in client.scan_iter(match=_literal(prefix) + b"*", count=1000)}
    spaces: set[bytes] = set()
    runs: set[bytes] = set()
    for name in found:
        kind, colon, rest = name.partition(b":")
        if colon and kind.decode() == PER_RUN:
            runs.add(rest)
        elif colon and kind.decode() in PER_NAMESPACE:
            assert rest == b"" or rest.endswith(SEPARATOR), f"not a namespace's key: {name!r}"
            # What was erased of a namespace is told of longer than there is one.
            if kind != b"g":
                spaces.add(rest)
        else:
            assert name.decode("utf-8", "replace") in GLOBAL, f"a key of no known kind: {name!r}"
    with client.pipeline(transaction=False) as pipeline:
        for name in found:
            pipeline.ttl(prefix + name)
        for name, ttl in zip(found, pipeline.execute(), strict=True):
            assert ttl == -1, f"{name!r} has a TTL of the server's own"
    _check_audit(client, prefix)
    space = _Space(client, prefix)
    bound = {(run, *split_row(entry)) for run in runs for entry in client.zrange(prefix + b"r:" + run, 0, -1)}
    number = int(client.get(prefix + b"seq") or 0)
    listed = set(client.zrange(prefix + b"nsl", 0, -1))
    changed = dict(client.zrange(prefix + b"nsv", 0, -1, withscores=True))
    assert listed == set(changed), "nsl and nsv hold different namespaces"
    assert spaces <= listed, f"namespaces that are not listed: {spaces - listed}"
    dead = dict(client.zrange(prefix + b"dead", 0, -1, withscores=True))
    prefixes = {key: int(value) for key, value in client.hgetall(prefix + b"pv").items()}
    earliest = dict(client.zrange(prefix + b"exp", 0, -1, withscores=True))
    totals = {"rows": 0, "expiring": 0, "namespaces": 0}
    for ns in listed:
        rows, expiring, head = space.check(ns, number, int(changed[ns]))
        assert (rows == 0) == (ns in dead), f"{ns!r} has {rows} rows but its death is logged: {ns in dead}"
        assert (head is None) == (ns not in earliest), f"exp is wrong about {ns!r}"
        assert head is None or earliest[ns] <= head, f"exp of {ns!r} is above its earliest expiry"
        labels = ns.split(SEPARATOR)[:-1]
        for depth in range(len(labels) + 1):
            part = b"".join(label + SEPARATOR for label in labels[:depth])
            assert prefixes.get(part, -1) >= int(changed[ns]), f"pv of {part!r} is behind {ns!r}"
        totals["rows"] += rows
        totals["expiring"] += expiring
        totals["namespaces"] += rows > 0
    assert bound == space.bound, f"rows of runs that are not listed, or the other way: {bound ^ space.bound}"
    assert set(earliest) <= listed, "exp holds unknown namespaces"
    assert not empty or totals["rows"] == 0, f"{totals['rows']} rows were left behind"
    return totals


def _check_audit(client: Any, prefix: bytes) -> None:
    records = client.hgetall(prefix + b"audit")
    records.pop(b"", None)
    ids = set(client.zrange(prefix + b"audit_t", 0, -1))
    assert set(records) == ids, f"audit records without an index or without a record: {set(records) ^ ids}"
    expected: set[bytes] = set()
    for name, packed in records.items():
        parts, at = [], 0
        while at < len(packed):
            (length,) = struct.unpack_from("<I", packed, at)
            parts.append(packed[at + 4 : at + 4 + length])
            at += 4 + length
        _, namespace, key, _, _, _, details = parts
        named = {text for text in (key, *map(encode_text, _texts(json.loads(decode_text(details))))) if text}
        expected |= {
            namespace + hashlib.sha1(text, usedforsecurity=False).hexdigest().encode() + name for text in named
        }
    found = set(client.zrange(prefix + b"audit_k", 0, -1))
    assert found == expected, f"the audit's index of what records name is wrong: {found ^ expected}"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _literal(prefix: bytes) -> bytes:
    return b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\^" else bytes([byte]) for byte in prefix)


class _Space:
    def __init__(self, client: Any, prefix: bytes) -> None:
        self._client = client
        self._prefix = prefix
        self.bound: set[tuple[bytes, bytes, bytes]] = set()

    def _read(self, ns: bytes, sorted_sets: bytes, hashes: bytes) -> list[dict[bytes, Any]]:
        with self._client.pipeline(transaction=False) as pipeline:
            for kind in sorted_sets:
                pipeline.zrange(self._prefix + bytes([kind]) + b":" + ns, 0, -1, withscores=True)
            for kind in hashes:
                pipeline.hgetall(self._prefix + bytes([kind]) + b":" + ns)
            return [dict(reply) for reply in pipeline.execute()]

    def check(self, ns: bytes, number: int, changed: int) -> tuple[int, int, float | None]:
        """Check one namespace; returns its rows, how many expire, and the earliest expiry."""
        active, others, timed, moved, deleted, order, meta, values, rest, vectors, names = self._read(
            ns, b"cztldo", b"mvxes"
        )
        rows = set(active) | set(others)
        assert len(rows) == len(active) + len(others), f"{ns!r}: a row is both active and not"
        assert set(meta) == rows, f"{ns!r}: meta without row or row without meta: {set(meta) ^ rows}"
        assert set(values) == rows, f"{ns!r}: value without row or row without value: {set(values) ^ rows}"
        for name, keys in (("rest", rest), ("vectors", vectors), ("expiry", timed), ("log", moved)):
            assert set(keys) <= rows, f"{ns!r}: {name} without row: {set(keys) - rows}"
        assert not set(deleted) & rows, f"{ns!r}: a tombstone of a living row"
        for key, data in meta.items():
            assert len(data) == META_BYTES, f"{ns!r}: {key!r} has meta of {len(data)} bytes"
            record = unpack_meta(data)
            assert record.content == (active | others)[key], f"{ns!r}: {key!r} has two content numbers"
            assert record.value_bytes == len(values[key]), f"{ns!r}: {key!r} has another size of value"
            archives = record.flags & FLAG_ARCHIVE_ON_EXPIRY
            expires_at = float("inf") if archives else record.expires_at
            assert timed.get(key, float("inf")) == expires_at, f"{ns!r}: {key!r} has two expiries"
            fields = unpack_rest(rest.get(key))
            for field in ("supersedes", "superseded_by"):
                there = field not in fields or encode_text(fields[field]) in rows
                assert there, f"{ns!r}: {key!r} {field} {fields.get(field)!r}, which is not there"
        _Lines(ns, {key: (unpack_meta(data), unpack_rest(rest.get(key))) for key, data in meta.items()}).check(
            order, names
        )
        for key in rows:
            fields = unpack_rest(rest.get(key))
            if "run_id" in fields:
                self.bound.add((encode_json(fields["run_id"]), ns, key))
        for scores in (active, others, moved, deleted):
            assert all(score <= changed <= number for score in scores.values()), f"{ns!r}: a number from the future"
        return len(rows), len(timed), min(timed.values(), default=None)


class _Lines:
    """What `o:` holds, against the rows of a namespace."""

    def __init__(self, ns: bytes, rows: dict[bytes, tuple[Meta, dict[str, Any]]]) -> None:
        self._ns, self._rows = ns, rows

    def check(self, order: dict[bytes, float], names: dict[bytes, bytes]) -> None:
        assert not any(order.values()), f"{self._ns!r}: o: has scores"
        placed = {entry: key for key, row in self._rows.items() if (entry := self._entry(key, *row)) is not None}
        listed = {entry for entry in order if entry[:1] in b"brdhw"}
        differ = listed ^ set(placed)
        assert not differ, f"{self._ns!r}: rows that are not in their lines, or the other way: {differ}"
        stands = {field[1:]: subject for field, subject in names.items() if field[:1] == b"a"}
        known = {entry for entry in order if entry[:1] == b"g"}
        wanted = {b"g" + subject + b"\0" + name for name, subject in stands.items()}
        assert known == wanted, f"{self._ns!r}: names that are not listed, or the other way: {known ^ wanted}"
        links = {entry for entry in order if entry[:1] == b"k"}
        for entry in links:
            key, direction, relation, other = _link(entry)
            assert {key, other} <= self._rows.keys(), f"{self._ns!r}: a link of what is not there: {entry!r}"
            half = _half(other, 3 - direction, relation, key)
            assert half in links, f"{self._ns!r}: half a link: {entry!r}"
        assert len(order) == len(listed) + len(known) + len(links), f"{self._ns!r}: o: holds what it should not"
        self._check_order(sorted(placed.items()))
        self._check_pointers()

    def _entry(self, key: bytes, meta: Meta, rest: dict[str, Any]) -> bytes | None:
        if "place" not in rest:
            return None
        number, index = place_of(rest)
        owner = b"\1" + rest["chain"] if "chain" in rest else slot_owner(rest["subject"], rest.get("attribute", ""))
        run = encode_json(rest["run_id"]) if index == OF_RUN else b""
        if index == OF_RUN:
            run = len(run).to_bytes(4, "big") + run
        assert number > 0, f"{self._ns!r}: {key!r} has no place number"
        return index.encode() + owner + run + sortable(meta.valid_from) + sortable(number) + key

    def _check_order(self, placed: list[tuple[bytes, bytes]]) -> None:
        for (one, key), (other, after) in itertools.pairwise(placed):
            line = len(one) - len(key) - 16
            is_line = one[:1] in b"br" and one[:line] == other[:line] and len(other) - len(after) - 16 == line
            before, later = self._rows[key][0], self._rows[after][0]
            # What has expired is no part of a plan any more.
            if is_line and before.expires_at == later.expires_at == FOREVER:
                said = f"{self._ns!r}: {key!r} and {after!r} of one line"
                assert before.valid_until <= later.valid_from, f"{said} overlap"
                assert not (before.flags & FLAG_AHEAD and not later.flags & FLAG_AHEAD), f"{said}: a plan before a word"

    def _check_pointers(self) -> None:
        for key, (meta, rest) in self._rows.items():
            # What has expired may lag behind until it is swept.
            lasts = "supersedes" in rest and meta.expires_at == FOREVER
            before = self._rows.get(encode_text(rest["supersedes"])) if lasts else None
            assert before is None or before[1].get("superseded_by") == decode_text(key), (
                f"{self._ns!r}: {key!r} supersedes {rest['supersedes']!r}, which says that"
                f" {before[1].get('superseded_by')!r} did"
            )


def _link(entry: bytes) -> tuple[bytes, int, bytes, bytes]:
    at = 5 + int.from_bytes(entry[1:5], "big")
    relation, other = entry[at + 1 :].split(b"\0", 1)
    return entry[5:at], entry[at], relation, other


def _half(key: bytes, direction: int, relation: bytes, other: bytes) -> bytes:
    return b"k" + len(key).to_bytes(4, "big") + key + bytes([direction]) + relation + b"\0" + other
