"""The two time axes: what a row counts as at a moment in the world, as the store knew it at another.

Validity is of the world (`as_of`), knowledge and archiving are of the store (`known_at`). A start or an end that was
not ahead of the clock when it was written has passed for every reader.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.backend.codec import (
    FLAG_AHEAD,
    FLAG_ARCHIVE_ON_EXPIRY,
    FLAG_END_AHEAD,
    FOREVER,
    STATUS_ACTIVE,
    STATUS_ARCHIVED,
    STATUS_CLOSING,
    STATUS_SUPERSEDED,
    Meta,
)
from langgraph_forgetful_store.model.places import Under

_STEP = struct.Struct("<dBdd")


class MemoryStatus(StrEnum):
    """What a memory counts as."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    SUPERSEDED = "superseded"


# In the order of the numbers that meta holds.
STATUSES = tuple(MemoryStatus)


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


def closes(status: int, reason: int) -> bool:
    """Tell whether the end of a row's validity closes it: one that is archived may still be to be closed."""
    return status == STATUS_SUPERSEDED or reason != 0


def has_begun(meta: Meta, now: float) -> bool:
    """Tell whether a row's validity has begun."""
    return not meta.flags & FLAG_AHEAD or meta.valid_from <= now


def has_ended(meta: Meta, now: float) -> bool:
    """Tell whether a row's validity has ended."""
    return meta.valid_until < FOREVER and (not meta.flags & FLAG_END_AHEAD or meta.valid_until <= now)


def status_at(meta: Meta, now: float) -> int:
    """Return what a row counts as: one to be closed later is not superseded until then, and expiry may archive."""
    if closes(meta.status, meta.reason) and has_ended(meta, now):
        return STATUS_SUPERSEDED
    if meta.status == STATUS_ARCHIVED or (meta.flags & FLAG_ARCHIVE_ON_EXPIRY and meta.expires_at <= now):
        return STATUS_ARCHIVED
    return STATUS_ACTIVE


def state_at(
    meta: Meta, rest: Mapping[str, Any], now: float, as_of: float | None, known_at: float | None
) -> int | None:
    """Return what a row counted as.

    Args:
        meta: The row's.
        rest: Its other fields.
        now: The server's time, in ms.
        as_of: A moment in the world, in ms; ``None``: now.
        known_at: A moment of the store, in ms; ``None``: now.

    Returns:
        A status; ``None`` where it was not known yet, did not hold yet, or held no longer.
    """
    known = now if known_at is None else known_at
    if meta.recorded_at > known and known_at is not None:
        return None
    step = Step(meta.recorded_at, meta.status, meta.valid_until, meta.valid_from, closes(meta.status, meta.reason))
    if known_at is not None:
        trail = read_trail(rest)
        step = next((one for one in reversed(trail) if one.at <= known), trail[0] if trail else step)
    lapsed = meta.flags & FLAG_ARCHIVE_ON_EXPIRY and meta.expires_at <= known
    at = now if as_of is None else as_of
    # A moment that is not past counts as begun, and as ended, what a plain recall does.
    started = step.valid_from == meta.valid_from and has_begun(meta, now)
    if at < step.valid_from and not (at >= now and started):
        return None
    over = at >= step.valid_until or (at >= now and known_at is None and has_ended(meta, now))
    if over and step.closes:
        return STATUS_SUPERSEDED
    if step.status == STATUS_ARCHIVED or lapsed:
        return STATUS_ARCHIVED
    return None if over else STATUS_ACTIVE


def is_under(under: Under | None, now: float, as_of: float | None) -> bool:
    """Tell whether what may lie over a dated row does so at a moment; ``None``: now."""
    at = now if as_of is None else as_of
    return under is not None and (under.start <= at or (at >= now and not under.ahead))


def states_at(
    meta: npt.NDArray[Any], expires_at: npt.NDArray[np.float64], now: float, as_of: float | None
) -> npt.NDArray[np.int8]:
    """Do as `state_at` does, for many rows at once and as known now; -1 is nothing."""
    at = now if as_of is None else as_of
    until, stored, flags = meta["valid_until"], meta["status"], meta["flags"]
    closing = (stored == STATUS_SUPERSEDED) | (meta["reason"] != 0)
    passed = (until < FOREVER) & ((flags & FLAG_END_AHEAD == 0) | (until <= now))
    over, begun = until <= at, meta["valid_from"] <= at
    if at >= now:
        over |= passed
        begun |= flags & FLAG_AHEAD == 0
    lapsed = (flags & FLAG_ARCHIVE_ON_EXPIRY != 0) & (expires_at <= now)
    archived = (stored == STATUS_ARCHIVED) | lapsed
    status = np.where(archived, STATUS_ARCHIVED, STATUS_ACTIVE).astype(np.int8)
    status[over & closing] = STATUS_SUPERSEDED
    status[over & ~closing & ~archived] = -1
    status[~begun] = -1
    return status


def settled_span(meta: npt.NDArray[Any]) -> tuple[float, float]:
    """Return from when on, and until when, exclusive, all of some rows count as active, whatever the time."""
    # What was not ahead of the clock has begun, or ended, wherever the clock stands.
    ended = (meta["valid_until"] < FOREVER) & (meta["flags"] & FLAG_END_AHEAD == 0)
    if (meta["status"] != STATUS_ACTIVE).any() or ended.any():
        return -np.inf, -np.inf
    to_come = meta["valid_from"][meta["flags"] & FLAG_AHEAD != 0]
    archives = meta["expires_at"][meta["flags"] & FLAG_ARCHIVE_ON_EXPIRY != 0]
    start = float(to_come.max(initial=-np.inf))
    return start, float(min(meta["valid_until"].min(initial=np.inf), archives.min(initial=np.inf)))
