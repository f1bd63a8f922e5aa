"""What a write may say of a memory's life beside its value, and how it lies in Redis.

Importance, confidence, type and times are part of a row's meta. The rest is packed field by field (`FIELD_IDS`,
`TEXT_IDS`), so that a write patches just the fields it names, on the server, in one step.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from numbers import Real
from typing import Any, NamedTuple, Self

from langgraph.store.base import NOT_PROVIDED

from langgraph_forgetful_store.backend.codec import (
    CHAIN_ID,
    DONE_ID,
    FIELD_IDS,
    FLAG_ABSOLUTE_TTL,
    FLAG_ARCHIVE_ON_EXPIRY,
    PLACE_ID,
    STATUS_ARCHIVED,
    STATUS_CLOSING,
    STATUS_SUPERSEDED,
    TEXT_IDS,
    TRAIL_ID,
    UNDER_ID,
    UNTIL_ID,
)
from langgraph_forgetful_store.backend.keys import decode_text, encode_json, encode_text
from langgraph_forgetful_store.errors import CorruptRecordError
from langgraph_forgetful_store.model.memory_types import SENSITIVE, MemoryType

_NAMES = {number: name for name, number in FIELD_IDS.items()}
_TEXTS = {number: name for name, number in TEXT_IDS.items()}
# What only this library reads, as it is.
_BYTES = {"trail": TRAIL_ID, "done": DONE_ID, "place": PLACE_ID, "chain": CHAIN_ID, "until": UNTIL_ID, "under": UNDER_ID}
_KINDS_OF_BYTES = {number: name for name, number in _BYTES.items()}
_HEAD = struct.Struct("<BI")
_STEP = struct.Struct("<dBdd")
_DIGEST_BYTES = 9
# How many idempotency keys a row remembers.
KEEP_DONE = 8
# What a source is trusted, unless the write says so itself.
TRUST = {"user": 0.95, "tool": 0.95, "database": 0.95, "model": 0.7}
REASONS = ("updated", "corrected", "contradicted", "negated", "merged", "resolved")


def check_text(value: object, name: str) -> str:
    """Return a non-empty str.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a non-empty str, got {value!r}")
    return value


def check_label(value: object, name: str) -> str:
    """Return a non-empty str without NUL, as names are that are joined by it.

    Raises:
        ValueError: It is none.
    """
    text = check_text(value, name)
    if "\0" in text:
        raise ValueError(f"{name} must be a non-empty str without NUL, got {value!r}")
    return text


def _texts(value: object, name: str) -> list[str]:
    if not isinstance(value, list | tuple | set | frozenset) or not all(
        isinstance(part, str) and part for part in value
    ):
        raise ValueError(f"{name} must be a list of non-empty str, got {value!r}")
    return list(dict.fromkeys(sorted(value) if isinstance(value, set | frozenset) else value))


def _within(value: object, name: str, least: int, most: int) -> float:
    try:
        if not isinstance(value, bool) and isinstance(value, Real) and least <= (found := float(value)) <= most:
            return found
    except OverflowError:
        # An int that no float can hold.
        pass
    raise ValueError(f"{name} must be a number from {least} to {most}, got {value!r}")


def fraction(value: object, name: str) -> float:
    """Return a number from 0 to 1.

    Raises:
        ValueError: It is none.
    """
    return _within(value, name, 0, 1)


def cosine(value: object, name: str) -> float:
    """Return a number from -1 to 1.

    Raises:
        ValueError: It is none.
    """
    return _within(value, name, -1, 1)


def read_moment(value: object) -> datetime | None:
    """Return an aware datetime, or what ISO 8601 text says; ``None`` where it is neither, or has no offset."""
    if isinstance(value, str):
        try:
            # A date alone is its midnight in UTC.
            found = datetime.fromisoformat(value)
            value = found.replace(tzinfo=UTC) if len(value) <= 10 else found
        except ValueError:
            return None
    return value if isinstance(value, datetime) and value.tzinfo is not None else None


def moment(value: object, name: str) -> float:
    """Return a point in time as ms since the epoch.

    Args:
        value: An aware datetime, or ISO 8601 text: with an offset, or a date alone, which is its midnight in UTC.
        name: The argument, for messages.

    Raises:
        ValueError: It is neither; a time without an offset could be any of many.
    """
    if isinstance(value, date) and not isinstance(value, datetime):
        value = value.isoformat()
    found = read_moment(value)
    if found is None:
        raise ValueError(f"{name} must be an aware datetime or ISO 8601 text with an offset, got {value!r}")
    return round(found.timestamp() * 1000, 3)


def _type(value: object, name: str) -> str:
    text = check_label(value, name)
    if len(encode_text(text)) > 255:
        raise ValueError(f"{name} must be a name of at most 255 bytes, got {value!r}")
    return text


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return value


_CHECKS: dict[str, Callable[[object, str], Any]] = {
    "memory_type": _type,
    "importance": fraction,
    "confidence": fraction,
    "source": check_text,
    "source_refs": _texts,
    "tags": _texts,
    "preconditions": _texts,
    "run_id": check_text,
    "subject": check_label,
    "attribute": check_label,
    "valid_from": moment,
    "valid_until": moment,
    "pinned": _flag,
    "presumed_type": _type,
}
KNOWN = tuple(_CHECKS)
# What the put script itself patches; the rest needs a look at what is there.
_SIMPLE = {"memory_type", "importance", "confidence", *FIELD_IDS} - {"run_id"}


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
            raise ValueError(f"{name} must be a dict with any of {', '.join(KNOWN)}, got {given!r}")
        if unknown := [repr(key) for key in given if key not in _CHECKS]:
            raise ValueError(f"{name} has unknown fields {', '.join(unknown)}; known are {', '.join(KNOWN)}")
        return cls.of({key: _CHECKS[key](value, f"{name}[{key!r}]") for key, value in given.items()}, name)

    @classmethod
    def arguments(cls, given: Mapping[str, Any]) -> Self:
        """Check the fields of a write as arguments of a call; ``None`` is not given.

        Raises:
            ValueError: A value is unusable.
        """
        return cls.of({key: _CHECKS[key](value, key) for key, value in given.items() if value is not None}, "")

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
        return self.given.keys() <= _SIMPLE

    @property
    def trust(self) -> float | None:
        """The confidence of a new row that names none."""
        return TRUST.get(self.given.get("source", ""))

    @property
    def rest(self) -> dict[str, Any]:
        """The fields that lie beside meta."""
        return {name: self.given[name] for name in (*FIELD_IDS, "subject", "attribute") if name in self.given}

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


def lifetime(
    given: Any, memory_type: str | None, kind: MemoryType | None, default: int | None
) -> tuple[int | None, bool]:
    """Return how long a write lets a memory live, in ms, and whether that is its type's ttl, which reads don't slide.

    Args:
        given: In ms; ``None``: for ever; `NOT_PROVIDED`: what the type says, else the default.
        memory_type: What the write names, or takes over.
        kind: That type.
        default: The store's, in ms.

    Raises:
        ValueError: Sensitive memories would be kept longer than their type says.
    """
    ttl, absolute = given, False
    if given is NOT_PROVIDED:
        ttl = default if kind is None else kind.ttl_ms
        absolute = kind is not None and kind.ttl_ms is not None
    most = None if kind is None else kind.ttl_ms
    if memory_type == SENSITIVE and most is not None and (ttl is None or ttl > most):
        minutes = None if ttl is None else ttl / 60_000
        raise ValueError(f"ttl of a sensitive memory must be at most {most / 60_000:g} minutes, got {minutes!r}")
    return ttl, absolute


def expiry_flags(kind: MemoryType | None, absolute: bool) -> int:
    """Return what a named type says of a row's expiry, as flags of meta."""
    if kind is None:
        return 0
    return (FLAG_ABSOLUTE_TTL if absolute else 0) | (FLAG_ARCHIVE_ON_EXPIRY if kind.archives else 0)


def pack_rest(rest: Mapping[str, Any]) -> bytes:
    """Pack fields: for each its id, its length and its JSON, or text where scripts read it."""
    parts: list[tuple[int, bytes]] = []
    for name, value in rest.items():
        if name in TEXT_IDS:
            parts.append((TEXT_IDS[name], encode_text(value)))
        elif name in _BYTES:
            parts.append((_BYTES[name], value))
        else:
            parts.append((FIELD_IDS[name], encode_json(value)))
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
            if number in _NAMES:
                rest[_NAMES[number]] = json.loads(part)
            elif number in _TEXTS:
                rest[_TEXTS[number]] = decode_text(part)
            elif number in _KINDS_OF_BYTES:
                rest[_KINDS_OF_BYTES[number]] = part
        except (struct.error, ValueError) as error:
            raise CorruptRecordError(f"a row's lifecycle fields can't be read: {error}") from error
        at += length
    return rest


_PLACE = struct.Struct("<dc")


def place_of(rest: Mapping[str, Any]) -> tuple[float, str]:
    """Return a row's place number, and the index of `o:` that it is in; ``""`` for none."""
    if "place" not in rest:
        return 0.0, ""
    number, index = _PLACE.unpack(rest["place"])
    return number, index.decode()


def pack_place(number: float, index: str) -> bytes:
    """Return what `place_of` reads."""
    return _PLACE.pack(number, index.encode())


class Under(NamedTuple):
    """What lies over a dated row: from when on, whether that was ahead of the clock, and its key."""

    start: float
    ahead: bool
    key: str


_UNDER = struct.Struct("<dB")


def under_of(rest: Mapping[str, Any]) -> Under | None:
    """Return the permanent word that lies over a dated row."""
    if "under" not in rest:
        return None
    start, ahead = _UNDER.unpack_from(rest["under"])
    return Under(start, bool(ahead), decode_text(rest["under"][_UNDER.size :]))


def pack_under(under: Under) -> bytes:
    """Return what `under_of` reads."""
    return _UNDER.pack(under.start, under.ahead) + encode_text(under.key)


class Step(NamedTuple):
    """What the store thought of a row from `at` on, in ms.

    Attributes:
        status: As it was stored.
        valid_until: Where its validity ended.
        valid_from: Where it began.
        closes: Whether that end closed it.
    """

    at: float
    status: int
    valid_until: float
    valid_from: float
    closes: bool


def read_trail(rest: Mapping[str, Any]) -> list[Step]:
    """Return what the store has thought of a row, earliest first; empty where it never changed its mind."""
    trail: bytes = rest.get("trail", b"")
    return [
        Step(at, STATUS_ARCHIVED if status == STATUS_CLOSING else status, until, start, status >= STATUS_SUPERSEDED)
        for at, status, until, start in _STEP.iter_unpack(trail[: len(trail) // _STEP.size * _STEP.size])
    ]


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
