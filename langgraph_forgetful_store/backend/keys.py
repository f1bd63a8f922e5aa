"""Names of the keys in Redis, and the encoding of namespaces inside them.

Every key of a store starts with ``<key_prefix>:{<bucket>}:``; the braces are a hash tag, so one script call never
leaves one slot. Behind that prefix stand:

======== ======= =====================================================================================
key      type    holds
======== ======= =====================================================================================
fmt      HASH    format version, buckets, dims and id of the embedder, epoch of the data, memory types by id
seq      STRING  the change number; every logged row change takes its own
ops      HASH    lane of a client -> its last operation number, time and result (exactly-once writes)
pv       HASH    encoded namespace prefix -> change number of the last change below it
nsv      ZSET    namespace -> change number of its last change
nsl      ZSET    every namespace, all with score 0, so in lexicographic order
exp      ZSET    namespace -> a lower bound of the earliest expiry in it, ms
dead     ZSET    namespace without a row -> change number at which its last row went
flr      HASH    namespace (or "" for all) -> tombstones up to this change number have been pruned
audit    HASH    id -> audit record
audit_t  ZSET    ids of audit records, all with score 0: in the order in which they were added
audit_k  ZSET    namespace, digest of a text, id: of the audit records that name a text, such as a key
c:<ns>   ZSET    key of an active row -> change number of its last put
z:<ns>   ZSET    the same for archived and superseded rows
l:<ns>   ZSET    key -> change number of its last change of meta alone
d:<ns>   ZSET    key -> change number of its deletion (tombstones)
h:<ns>   ZSET    key -> change number of its last put, of the active rows that searches leave out by default
t:<ns>   ZSET    key -> expires_at, ms, of the rows that expiry removes
m:<ns>   HASH    key -> packed meta (see codec)
x:<ns>   HASH    key -> the rest of the lifecycle as JSON, where it is not the default
e:<ns>   HASH    key -> its float32 vectors, concatenated, little-endian
v:<ns>   HASH    key -> the value as JSON
s:<ns>   HASH    aliases: "a" name -> subject, "u" name -> what `unalias` needs
o:<ns>   ZSET    lines in order, names of subjects, link pairs: one score, read by lex range (see common_life.lua)
g:<ns>   ZSET    keyed digest of a message id, a content or a key that was erased -> when, ms
r:<run>  ZSET    namespace, NUL, key of each row of a run; one score
======== ======= =====================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Sequence

SEPARATOR = b"\0\1"
_SEPARATOR = SEPARATOR.decode()
PER_NAMESPACE = tuple("czldhtmxevsog")
PER_RUN = "r"
GLOBAL = ("fmt", "seq", "ops", "pv", "nsv", "nsl", "exp", "dead", "flr", "audit", "audit_t", "audit_k")


def encode_text(text: str) -> bytes:
    """Encode a key or label; lone surrogates survive, so that any ``str`` is a usable key."""
    return text.encode("utf-8", "surrogatepass")


def encode_json(value: object) -> bytes:
    """Encode what a store keeps as JSON beside values: lifecycle fields, audit details, undo records."""
    return encode_text(json.dumps(value, ensure_ascii=False))


def decode_text(data: bytes) -> str:
    """Reverse `encode_text`."""
    return data.decode("utf-8", "surrogatepass")


def encode_namespace(namespace: Sequence[str]) -> bytes:
    """Encode labels so that byte order is tuple order and a prefix of labels is a prefix of bytes.

    Labels hold no NUL, so ending each with NUL and SOH is injective.
    """
    return encode_text(_SEPARATOR.join((*namespace, "")))


def decode_namespace(data: bytes) -> tuple[str, ...]:
    """Reverse `encode_namespace`."""
    return tuple(decode_text(data).split(_SEPARATOR)[:-1])


def split_row(data: bytes) -> tuple[bytes, bytes]:
    """Return namespace and key of an entry of ``r:``; no label begins with NUL."""
    at = 0
    while data[at : at + 1] != b"\0":
        at = data.index(SEPARATOR, at) + len(SEPARATOR)
    return data[:at], data[at + 1 :]


def store_prefix(key_prefix: str, bucket: int = 0) -> bytes:
    """Return what every key of one bucket of a store starts with."""
    return encode_text(f"{key_prefix}:{{{bucket}}}:")
