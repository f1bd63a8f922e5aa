"""A check of everything that a store keeps in Redis."""

from __future__ import annotations

from typing import Any

from langgraph_forgetful_store.backend.codec import FLAG_ARCHIVE_ON_EXPIRY, META_BYTES, unpack_meta
from langgraph_forgetful_store.backend.keys import GLOBAL, PER_NAMESPACE, SEPARATOR, encode_text, store_prefix
from langgraph_forgetful_store.model.packing import unpack_rest


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
    for name in found:
        kind, colon, rest = name.partition(b":")
        if colon and kind.decode() in PER_NAMESPACE:
            assert rest == b"" or rest.endswith(SEPARATOR), f"not a namespace's key: {name!r}"
            spaces.add(rest)
        else:
            assert name.decode("utf-8", "replace") in GLOBAL, f"a key of no known kind: {name!r}"
    with client.pipeline(transaction=False) as pipeline:
        for name in found:
            pipeline.ttl(prefix + name)
        for name, ttl in zip(found, pipeline.execute(), strict=True):
            assert ttl == -1, f"{name!r} has a TTL of the server's own"
    space = _Space(client, prefix)
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
    assert set(earliest) <= listed, "exp holds unknown namespaces"
    assert not empty or totals["rows"] == 0, f"{totals['rows']} rows were left behind"
    return totals


def _literal(prefix: bytes) -> bytes:
    return b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\^" else bytes([byte]) for byte in prefix)


class _Space:
    def __init__(self, client: Any, prefix: bytes) -> None:
        self._client = client
        self._prefix = prefix

    def _read(self, ns: bytes, sorted_sets: bytes, hashes: bytes) -> list[dict[bytes, Any]]:
        with self._client.pipeline(transaction=False) as pipeline:
            for kind in sorted_sets:
                pipeline.zrange(self._prefix + bytes([kind]) + b":" + ns, 0, -1, withscores=True)
            for kind in hashes:
                pipeline.hgetall(self._prefix + bytes([kind]) + b":" + ns)
            return [dict(reply) for reply in pipeline.execute()]

    def check(self, ns: bytes, number: int, changed: int) -> tuple[int, int, float | None]:
        """Check one namespace; returns its rows, how many expire, and the earliest expiry."""
        active, others, timed, moved, deleted, meta, values, rest, vectors, slots, links = self._read(
            ns, b"cztld", b"mvxesk"
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
        for slot, holder in slots.items():
            held = slot[:1] != b"s" or holder in rows
            assert held, f"{ns!r}: the slot {slot!r} is held by {holder!r}, which is not there"
        for linked in links:
            assert linked[1:] in rows, f"{ns!r}: links of {linked[1:]!r}, which is not there"
        for scores in (active, others, moved, deleted):
            assert all(score <= changed <= number for score in scores.values()), f"{ns!r}: a number from the future"
        return len(rows), len(timed), min(timed.values(), default=None)
