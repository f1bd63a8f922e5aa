"""Where a row stands among others of its slot or chain, as it lies in records."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from langgraph_forgetful_store.backend.keys import decode_text, encode_text

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
