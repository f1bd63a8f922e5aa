"""What a write may say of a memory's life beside its value, and how it lies in Redis.

Importance, confidence and type are part of a row's meta. The rest is packed field by field (`FIELD_IDS`), so that a
write patches just the fields it names, on the server, in one step.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Self

from langgraph_forgetful_store.backend.codec import FIELD_IDS
from langgraph_forgetful_store.errors import CorruptRecord

_NAMES = {number: name for name, number in FIELD_IDS.items()}
_HEAD = struct.Struct("<BI")
KNOWN = ("memory_type", "importance", "confidence", *FIELD_IDS)
# What a source is trusted, unless the write says so itself.
TRUST = {"user": 0.95, "tool": 0.95, "database": 0.95, "model": 0.7}


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a non-empty str, got {value!r}")
    return value


def _texts(value: object, name: str) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) and part for part in value):
        raise ValueError(f"{name} must be a list of non-empty str, got {value!r}")
    return list(dict.fromkeys(value))


def fraction(value: object, name: str) -> float:
    """Return a number from 0 to 1.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1, got {value!r}")
    return float(value)


def _type(value: object, name: str) -> str:
    text = _text(value, name)
    if "\0" in text or len(text.encode("utf-8", "surrogatepass")) > 255:
        raise ValueError(f"{name} must be a name of at most 255 bytes without NUL, got {value!r}")
    return text


_CHECKS: dict[str, Callable[[object, str], Any]] = {
    "memory_type": _type,
    "importance": fraction,
    "confidence": fraction,
    "source": _text,
    "source_refs": _texts,
    "tags": _texts,
    "preconditions": _texts,
    "run_id": _text,
}


@dataclass(frozen=True, slots=True)
class Patch:
    """What a write changes of a memory's life; what it does not name stays.

    Attributes:
        memory_type: ``None`` where it is not named; likewise `importance` and `confidence`.
        rest: The other fields, by name.
    """

    memory_type: str | None = None
    importance: float | None = None
    confidence: float | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: object, name: str) -> Self:
        """Check the fields of a write.

        Args:
            given: By name.
            name: What it is called in a message.

        Raises:
            ValueError: It is no dict, a field is unknown (the message lists the known ones), or a value is unusable.
        """
        if not isinstance(given, Mapping):
            raise ValueError(f"{name} must be a dict with any of {', '.join(KNOWN)}, got {given!r}")
        if unknown := [repr(key) for key in given if key not in KNOWN]:
            raise ValueError(f"{name} has unknown fields {', '.join(unknown)}; known are {', '.join(KNOWN)}")
        checked = {key: _CHECKS[key](value, f"{name}[{key!r}]") for key, value in given.items()}
        rest = {key: checked[key] for key in FIELD_IDS if key in checked}
        return cls(checked.get("memory_type"), checked.get("importance"), checked.get("confidence"), rest)

    def pack(self) -> bytes:
        """Return it as the put script reads it; ``b""`` where it changes nothing."""
        if self == Patch():
            return b""
        name = (self.memory_type or "").encode("utf-8", "surrogatepass")
        head = struct.pack(
            "<dddB",
            math.nan if self.importance is None else self.importance,
            math.nan if self.confidence is None else self.confidence,
            TRUST.get(self.rest.get("source", ""), math.nan),
            len(name),
        )
        return head + name + pack_rest(self.rest)


def pack_rest(rest: Mapping[str, Any]) -> bytes:
    """Pack fields: for each its id, its length and its JSON."""
    parts = []
    for name, value in rest.items():
        data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
        parts.append(_HEAD.pack(FIELD_IDS[name], len(data)) + data)
    return b"".join(parts)


def unpack_rest(data: bytes | None) -> dict[str, Any]:
    """Unpack fields; ids that this version does not know are passed over.

    Raises:
        CorruptRecord: It is not what `pack_rest` makes.
    """
    rest: dict[str, Any] = {}
    at = 0
    while data and at < len(data):
        try:
            number, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            if number in _NAMES:
                rest[_NAMES[number]] = json.loads(data[at : at + length])
        except (struct.error, ValueError) as error:
            raise CorruptRecord(f"a row's lifecycle fields can't be read: {error}") from error
        at += length
    return rest
