"""What an erasure leaves so that nothing brings back what was erased: keyed digests, and no text.

A digest is an HMAC under a key that lies with the data, so that it tells nothing to who has it alone.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import dump_value
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import encode_namespace, encode_text
from langgraph_forgetful_store.model.checks import check_namespace
from langgraph_forgetful_store.operations.session import Session, open_store

_KEY_BYTES, _DIGEST_BYTES = 32, 16
# Stands before the digest of a key in a record of its erasure.
_ERASED = b"\0erased "


def _digest(key: bytes, kind: bytes, data: bytes) -> bytes:
    return hmac.digest(key, kind + b"\0" + data, hashlib.sha256)[:_DIGEST_BYTES]


def erased_key(key: bytes, name: str) -> bytes:
    """Return what stands for the key of an erased memory in audit records; it sorts and compares as bytes alone."""
    return _ERASED + _digest(key, b"key", encode_text(name))


def is_erased_key(stored: bytes) -> bool:
    """Tell whether a record names a key that was erased."""
    return len(stored) == len(_ERASED) + _DIGEST_BYTES and stored.startswith(_ERASED)


def message_digests(key: bytes, message_ids: Iterable[str]) -> list[bytes]:
    """Return the digests of ids of messages."""
    return [_digest(key, b"message", encode_text(one)) for one in message_ids]


def content_digest(key: bytes, value: bytes) -> bytes:
    """Return the digest of a value, as JSON; the order of its fields makes no difference."""
    plain = json.dumps(json.loads(value), sort_keys=True, ensure_ascii=False)
    return _digest(key, b"content", encode_text(plain))


def digest_key(session: Session) -> Flow[bytes]:
    """Read the key of the digests, or make it."""
    key: bytes = checked((yield Send([scripts.digest_key(session.frame(), secrets.token_bytes(_KEY_BYTES))]))[0])
    return key


def known_digest_key(session: Session) -> Flow[bytes | None]:
    """Read the key of the digests; ``None`` where nothing was ever erased."""
    key: bytes | None = checked((yield Send([scripts.digest_key(session.frame(), b"")]))[0])
    return key


def note_erased(session: Session, namespace: bytes, digests: Sequence[bytes]) -> Flow[None]:
    """Keep the digests of what is about to be erased of a namespace."""
    if digests:
        for reply in (yield Send(scripts.add_digests(session.frame(), namespace, digests))):
            checked(reply)


def erased_before(
    session: Session, namespace: object, message_ids: object = (), content: str | Mapping[str, Any] | None = None
) -> Flow[bool]:
    """Tell whether something was erased; see `ForgetfulStore.erased_before`."""
    labels = check_namespace(namespace)
    if isinstance(message_ids, str) or not isinstance(message_ids, Iterable):
        raise ValueError(f"message_ids must be a list of str, got {message_ids!r}")
    ids = list(message_ids)
    if not all(isinstance(one, str) for one in ids):
        raise ValueError(f"message_ids must be a list of str, got {ids!r}")
    value = None
    if content is not None:
        value = dump_value({"content": content} if isinstance(content, str) else content)
    yield from open_store(session)
    if not ids and value is None:
        return False
    key = yield from known_digest_key(session)
    if key is None:
        return False
    # A message that was erased brings nothing back, and what another says anew is new.
    digests = message_digests(key, ids) if value is None or ids else [content_digest(key, value)]
    return bool(checked((yield Send([scripts.find_digests(session.frame(), encode_namespace(labels), digests)]))[0]))
