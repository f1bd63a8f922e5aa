"""What a write says of a memory beside its value, and how fields lie in records beside meta.

Importance, confidence, type and times are part of a row's meta. The rest is packed field by field, each by its id, so
that a write patches just the fields it names, on the server, in one step.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from langgraph_forgetful_store.backend.keys import decode_text, encode_json, encode_text
from langgraph_forgetful_store.errors import CorruptRecordError
from langgraph_forgetful_store.model.fields import (
    FIELDS,
    HIDDEN,
    HIDDEN_TEXTS,
    NUMBERS,
    PATCHED,
    SOURCE_CONFIDENCE,
    WRITABLE,
)
from langgraph_forgetful_store.model.memory_types import MemoryType, expiry_flags

_NAMES = {number: name for name, number in (*NUMBERS.items(), *HIDDEN.items())}
_HEAD = struct.Struct("<BI")
_DIGEST_BYTES = 9
# How many idempotency keys a row remembers.
KEEP_DONE = 8


def _checked(field_name: str, value: object, name: str) -> Any:
    kind = WRITABLE[field_name].kind
    assert kind is not None
    return kind.check(value, name)


@dataclass(frozen=True, slots=True)
class Patch:
    """What a write says of a memory's life; what it does not name stays.

    Attributes:
        given: The checked fields, by name; times in ms.
    """

    given: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: object, name: str) -> Self:
        """Check the fields of a write; `name` is what it is called in a message.

        Raises:
            ValueError: It is no dict, a field is unknown (the message lists the known ones), or a value is unusable.
        """
        if not isinstance(given, Mapping):
            raise ValueError(f"{name} must be a dict with any of {', '.join(WRITABLE)}, got {given!r}")
        if unknown := [repr(key) for key in given if key not in WRITABLE]:
            raise ValueError(f"{name} has unknown fields {', '.join(unknown)}; known are {', '.join(WRITABLE)}")
        return cls.of({key: _checked(key, value, f"{name}[{key!r}]") for key, value in given.items()}, name)

    @classmethod
    def arguments(cls, given: Mapping[str, Any]) -> Self:
        """Check the fields of a write as arguments of a call; ``None`` is not given.

        Raises:
            ValueError: A value is unusable.
        """
        return cls.of({key: _checked(key, value, key) for key, value in given.items() if value is not None}, "")

    @classmethod
    def of(cls, checked: dict[str, Any], name: str) -> Self:
        """Check fields against each other."""
        if ("subject" in checked) != ("attribute" in checked):
            where = f"{name}: " if name else ""
            raise ValueError(f"{where}a slot needs subject and attribute, got {sorted(checked)}")
        start, end = checked.get("valid_from"), checked.get("valid_until")
        if start is not None and end is not None and end <= start:
            raise ValueError(f"{name or 'valid_until'}: valid_until must be after valid_from, got {end} and {start} ms")
        return cls(checked)

    @property
    def memory_type(self) -> str | None:
        """The type that is named."""
        found: str | None = self.given.get("memory_type")
        return found

    @property
    def slot(self) -> tuple[str, str] | None:
        """Subject and attribute, where a slot is named."""
        return (self.given["subject"], self.given["attribute"]) if "subject" in self.given else None

    @property
    def is_simple(self) -> bool:
        """Whether the put script can carry it out."""
        return self.given.keys() <= PATCHED

    @property
    def trust(self) -> float | None:
        """The confidence of a new row that names none."""
        return SOURCE_CONFIDENCE.get(self.given.get("source", ""))

    @property
    def rest(self) -> dict[str, Any]:
        """The fields that lie beside meta."""
        return {name: self.given[name] for name in NUMBERS if name in self.given}

    def pack(self, kind: MemoryType | None, absolute: bool) -> bytes:
        """Return it as the put script reads it; ``b""`` where it changes nothing.

        Args:
            kind: The type that is named.
            absolute: Whether the row's TTL is that of its type.
        """
        if not self.given:
            return b""
        name = encode_text(self.memory_type or "")

        def number(value: float | None) -> float:
            return math.nan if value is None else value

        head = struct.pack(
            "<dddBB",
            number(self.given.get("importance")),
            number(self.given.get("confidence")),
            number(self.trust),
            expiry_flags(kind, absolute),
            len(name),
        )
        return head + name + pack_rest(self.rest)


def pack_rest(rest: Mapping[str, Any]) -> bytes:
    """Pack fields: for each its id, its length and its JSON, or what scripts follow as text."""
    parts: list[tuple[int, bytes]] = []
    for name, value in rest.items():
        if name in HIDDEN:
            parts.append((HIDDEN[name], encode_text(value) if name in HIDDEN_TEXTS else value))
        else:
            data = encode_text(value) if FIELDS[name].as_text else encode_json(value)
            parts.append((NUMBERS[name], data))
    return b"".join(_HEAD.pack(number, len(data)) + data for number, data in sorted(parts))


def unpack_rest(data: bytes | None) -> dict[str, Any]:
    """Unpack fields; ids that this version does not know are passed over.

    Raises:
        CorruptRecordError: It is not what `pack_rest` makes.
    """
    rest: dict[str, Any] = {}
    at = 0
    while data and at < len(data):
        try:
            number, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            part = data[at : at + length]
            name = _NAMES.get(number, "")
            if name in HIDDEN:
                rest[name] = decode_text(part) if name in HIDDEN_TEXTS else part
            elif name:
                rest[name] = decode_text(part) if FIELDS[name].as_text else json.loads(part)
        except (struct.error, ValueError) as error:
            raise CorruptRecordError(f"a row's lifecycle fields can't be read: {error}") from error
        at += length
    return rest


def _digest(idempotency_key: str) -> bytes:
    return hashlib.blake2b(encode_text(idempotency_key), digest_size=_DIGEST_BYTES).digest()


def was_done(rest: Mapping[str, Any], idempotency_key: str | None) -> bool:
    """Tell from a row's fields whether it has been changed under a key, and must not be again."""
    done: bytes = rest.get("done", b"")
    return idempotency_key is not None and _digest(idempotency_key) in (
        done[at : at + _DIGEST_BYTES] for at in range(0, len(done), _DIGEST_BYTES)
    )


def note_done(rest: dict[str, Any], idempotency_key: str | None) -> None:
    """Note in a row's fields that it is changed under a key."""
    if idempotency_key is not None:
        rest["done"] = (rest.get("done", b"") + _digest(idempotency_key))[-KEEP_DONE * _DIGEST_BYTES :]
