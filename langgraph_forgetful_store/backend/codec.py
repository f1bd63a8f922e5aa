"""Records as they lie in Redis: packed meta, vectors and values.

The meta of a row is a fixed-width little-endian record. `FIELDS` is the one table of its layout: Python's `struct`
and the Lua prelude of every script are derived from it.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.errors import CorruptRecordError

FORMAT_VERSION = 2

# (name, struct code, width in bytes). Times are ms since the epoch; -inf is "never yet", +inf "no end".
FIELDS: tuple[tuple[str, str, int], ...] = (
    ("created_at", "d", 8),
    ("updated_at", "d", 8),
    ("expires_at", "d", 8),
    ("ttl", "d", 8),
    ("content", "d", 8),
    ("recorded_at", "d", 8),
    ("retired_at", "d", 8),
    ("valid_from", "d", 8),
    ("valid_until", "d", 8),
    ("accessed_at", "d", 8),
    ("confirmed_at", "d", 8),
    ("importance", "d", 8),
    ("confidence", "d", 8),
    ("boosted_at", "d", 8),
    ("access_count", "I", 4),
    ("version", "I", 4),
    ("value_bytes", "I", 4),
    ("memory_type", "H", 2),
    ("flags", "H", 2),
    ("status", "B", 1),
    ("reason", "B", 1),
    ("revision", "H", 2),
)

# Ids, beside meta, of the fields that scripts read; all others stand in `model.fields` alone.
SCRIPT_FIELDS = {
    "source_refs": 2,
    "run_id": 5,
    "subject": 6,
    "attribute": 7,
    "supersedes": 8,
    "superseded_by": 9,
    "trail": 10,
    "place": 12,
    "chain": 13,
    "until": 15,
    "took": 16,
    "under": 18,
}

FLAG_PINNED = 1
FLAG_ABSOLUTE_TTL = 2
FLAG_ARCHIVE_ON_EXPIRY = 4
FLAG_RUN = 8
FLAG_ANCHORED = 16
# The start, or the end, of validity was ahead of the clock when it was written, and no call has found it passed since.
FLAG_AHEAD, FLAG_END_AHEAD = 32, 64
# The end of validity was named by the write.
FLAG_DATED = 128

STATUS_ACTIVE, STATUS_ARCHIVED, STATUS_SUPERSEDED = range(3)
LAST_STATUS = STATUS_SUPERSEDED
# In trails alone: archived, and to be closed by the end of its validity.
STATUS_CLOSING = 3

FOREVER = math.inf

META_DTYPE = np.dtype([(name, {"d": "<f8", "I": "<u4", "H": "<u2", "B": "u1"}[code]) for name, code, _ in FIELDS])
_META = struct.Struct("<" + "".join(code for _, code, _ in FIELDS))
META_BYTES = _META.size


class Meta(NamedTuple):
    """The unpacked meta of a row; times in ms, ``inf`` and ``-inf`` as in `FIELDS`."""

    created_at: float
    updated_at: float
    expires_at: float
    ttl: float
    content: float
    recorded_at: float
    retired_at: float
    valid_from: float
    valid_until: float
    accessed_at: float
    confirmed_at: float
    importance: float
    confidence: float
    boosted_at: float
    access_count: int
    version: int
    value_bytes: int
    memory_type: int
    flags: int
    status: int
    reason: int
    revision: int = 0

    def pack(self) -> bytes:
        """Return it as it lies in Redis."""
        return _META.pack(*self)


def unpack_meta(data: bytes) -> Meta:
    """Unpack a row's meta.

    Raises:
        CorruptRecordError: `data` is not a meta record of this format.
    """
    if len(data) != META_BYTES:
        raise CorruptRecordError(f"a row's meta has {len(data)} bytes, not {META_BYTES}: written by something else?")
    meta = Meta._make(_META.unpack(data))
    if meta.created_at != meta.created_at:
        raise CorruptRecordError("a row's meta has times that are no numbers: written by something else?")
    if meta.status > LAST_STATUS:
        raise CorruptRecordError(f"a row's meta has the unknown status {meta.status}: written by something else?")
    return meta


def unpack_many(data: bytes) -> list[Meta]:
    """Unpack meta records that were checked before and stand one behind the other."""
    return list(map(Meta._make, _META.iter_unpack(data)))


_LUA_CONSTANTS = {
    "PINNED": FLAG_PINNED,
    "ABSOLUTE": FLAG_ABSOLUTE_TTL,
    "ARCHIVES": FLAG_ARCHIVE_ON_EXPIRY,
    "RUN": FLAG_RUN,
    "AHEAD": FLAG_AHEAD,
    "END_AHEAD": FLAG_END_AHEAD,
    "DATED": FLAG_DATED,
    "ACTIVE": STATUS_ACTIVE,
    "ARCHIVED": STATUS_ARCHIVED,
    "SUPERSEDED": STATUS_SUPERSEDED,
    "CLOSING": STATUS_CLOSING,
}


def lua_layout() -> str:
    """Return the Lua that declares the layout: offsets, the pack format and the flags."""
    lines = []
    offset = 1
    fmt = "<"
    for name, code, width in FIELDS:
        lines.append(f"local AT_{name.upper()} = {offset}")
        fmt += code if code in "dBH" else f"I{width}"
        offset += width
    lines.append(f"local META = '{fmt}'")
    lines.append(f"local META_BYTES = {META_BYTES}")
    for name, number in _LUA_CONSTANTS.items():
        lines.append(f"local {name} = {number}")
    for name, number in SCRIPT_FIELDS.items():
        lines.append(f"local FIELD_{name.upper()} = {number}")
    return "\n".join(lines) + "\n"


_DEEPEST = 200
_LEAVES = frozenset({str, int, float, bool, type(None)})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it holds a {type(value).__name__}: use dict, list, str, int, float, bool or None")


def _check_keys(value: Any, depth: int) -> None:
    # JSON would turn a key 1 into "1", and so lose one of two items.
    if depth > _DEEPEST:
        raise ValueError(f"it is nested too deeply: at most {_DEEPEST} levels are allowed")
    # Types are looked at first: an isinstance of an abstract class costs more than all the rest.
    parts: Iterable[Any] = value
    if type(value) is dict or isinstance(value, Mapping):
        for key in value:
            if type(key) is not str and not isinstance(key, str):
                raise TypeError(f"keys must be str, got the {type(key).__name__} {key!r}")
        parts = value.values()
    for part in parts:
        if type(part) not in _LEAVES and isinstance(part, (dict, list, tuple, Mapping)):
            _check_keys(part, depth + 1)


# Not loads: what dump_value made has no spaces around it and no other encoding to be found out.
_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode


def dump_value(value: Mapping[str, Any]) -> bytes:
    """Encode a value as JSON.

    Raises:
        TypeError: It holds something that is not JSON (a set, bytes, a datetime, ...), or a key that is no str.
        ValueError: It holds a NaN or an infinity, or refers to itself, or is nested too deeply.
    """
    try:
        _check_keys(value, 1)
        text = _encode(dict(value))
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"value can't be stored as JSON: {error}") from error
    return text.encode("utf-8", "surrogatepass")


def load_value(data: bytes) -> dict[str, Any]:
    """Decode a value that `dump_value` made.

    Raises:
        CorruptRecordError: `data` is no JSON object.
    """
    try:
        text = data.decode("utf-8", "surrogatepass")
        value, end = _decode(text)
        if end != len(text):
            raise ValueError("more follows it")
    except ValueError as error:
        raise CorruptRecordError(f"a row's value is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise CorruptRecordError(f"a row's value is a JSON {type(value).__name__}, not an object")
    return value


Matrix = npt.NDArray[np.float32]
_NOT_FINITE = "the embedder returned a vector that holds a NaN, an infinity or a number beyond float32"


def _pack(vector: Any) -> bytes:
    with np.errstate(over="ignore"):
        row = np.asarray(vector, np.float32)
    if row.ndim != 1:
        raise ValueError(f"it has {row.ndim} axes")
    return row.tobytes()


@lru_cache(maxsize=16)
def _floats(count: int) -> struct.Struct:
    return struct.Struct(f"{count}f")


def to_matrix(vectors: Sequence[Any], dims: int) -> Matrix:
    """Check what an embedder returned, and turn it into rows of float32.

    Args:
        vectors: One vector a text: lists of numbers or arrays.
        dims: The number of dimensions that the index is configured for.

    Returns:
        An array of shape (len(vectors), dims).

    Raises:
        TypeError: A vector is no sequence of numbers.
        ValueError: A vector has another number of dimensions (the message says both), or is not finite.
    """
    # struct is several times faster than numpy at reading a list of Python floats.
    pack_list = _floats(dims).pack
    rows: list[bytes] = []
    for vector in vectors:
        try:
            found = len(vector)
            if found == dims:
                rows.append(pack_list(*vector) if type(vector) is list else _pack(vector))
        except OverflowError as error:
            raise ValueError(_NOT_FINITE) from error
        except (TypeError, ValueError, struct.error) as error:
            raise TypeError(
                f"the embedder must return lists of numbers, got a {type(vector).__name__}: {error}"
            ) from error
        if found != dims:
            raise ValueError(f"index dims is {dims}, but the embedder returned a vector of {found} dimensions")
    matrix = np.frombuffer(b"".join(rows), np.float32).reshape(len(vectors), dims)
    if not np.isfinite(matrix).all():
        raise ValueError(_NOT_FINITE)
    return matrix


# A union would be built anew for each part.
_BRANCHES = (dict, list)


def copy_json(value: Any) -> Any:
    """Copy what JSON was parsed to, so that a caller may change it; several times faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        copy = value.copy()
        # Most values are flat, and most parts are no branches.
        for name, part in value.items():
            if isinstance(part, _BRANCHES):
                copy[name] = copy_json(part)
        return copy
    if isinstance(value, list):
        return [copy_json(part) if isinstance(part, _BRANCHES) else part for part in value]
    return value
