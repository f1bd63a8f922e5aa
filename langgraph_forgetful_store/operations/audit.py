"""The record of what was done to memories: one entry for each lifecycle action, capped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import decode_namespace, decode_text, encode_namespace, encode_text
from langgraph_forgetful_store.model.checks import check_count, check_labels, moment
from langgraph_forgetful_store.model.fields import to_datetime
from langgraph_forgetful_store.operations.digests import erased_key, is_erased_key, known_digest_key
from langgraph_forgetful_store.operations.session import Session, open_store

# Keys whose records are looked for in one pass.
_KEYS = 5000


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """The record of one action on memories.

    Attributes:
        at: When it was done, by the server's time.
        actor: Who did it, as the store was told; ``""`` where it was not.
        action: What was done, in a word.
        namespace: The namespace of the memory; of an action on a prefix, that prefix.
        key: The key of the memory; ``None`` for an action on many, and for an erasure, unless it
            was asked for by that key.
        reason: Why it was done, as a word or a code.
        details: What else there is to know, as plain JSON.
    """

    at: datetime
    actor: str
    action: str
    namespace: tuple[str, ...]
    key: str | None
    reason: str
    details: dict[str, Any]


def audit(
    session: Session, namespace_prefix: object, key: object, since: object, limit: object
) -> Flow[list[AuditRecord]]:
    """Read audit records; see `ForgetfulStore.audit`."""
    labels, most = check_labels(namespace_prefix, "namespace_prefix"), check_count(limit, "limit")
    if key is not None and not isinstance(key, str):
        raise ValueError(f"key must be a str or None, got {key!r}")
    from_ = 0.0 if since is None else moment(since, "since")
    yield from open_store(session)
    encoded = encode_namespace(labels)
    secret = None if key is None else (yield from known_digest_key(session))
    erased = b"" if key is None or secret is None else erased_key(secret, key)
    found: list[AuditRecord] = []
    before: scripts.Arg = "+"
    while len(found) < most:
        call = scripts.audit(
            session.frame(),
            encoded,
            None if key is None else encode_text(key),
            erased,
            from_,
            before,
            min(most - len(found), scripts.AUDIT_LOOK),
        )
        before, *records = checked((yield Send([call]))[0])
        found += [_record(record, key) for record in records]
        if not before:
            break
    return found


def _record(parts: list[bytes], asked: str | None) -> AuditRecord:
    at, namespace, key, actor, action, reason, details = parts
    named = asked if is_erased_key(key) else decode_text(key) or None
    return AuditRecord(
        to_datetime(float(at)),
        decode_text(actor),
        decode_text(action),
        decode_namespace(namespace),
        named,
        decode_text(reason),
        json.loads(decode_text(details) or "{}"),
    )


def erase_records(session: Session, prefix: bytes, keys: Iterable[str] | None) -> Flow[int]:
    """Erase what was recorded, but that memories were erased.

    Args:
        session: The store's.
        prefix: A namespace, encoded; without `keys`, what namespaces begin with.
        keys: Of which rows; ``None``: of all below the prefix.

    Returns:
        How many records there were.
    """
    erased = 0
    named = None if keys is None else list(keys)
    parts = [None] if named is None else [named[at : at + _KEYS] for at in range(0, len(named), _KEYS)]
    for part in parts:
        before: scripts.Arg = "+"
        while before:
            reply = (yield Send([scripts.erase_audit(session.frame(), prefix, part, before)]))[0]
            before, count, *_ = checked(reply)
            erased += count
    return erased
