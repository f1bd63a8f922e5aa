"""The two time axes: what a row counts as at a moment in the world, as the store knew it at another.

Validity is of the world (`as_of`), knowledge and archiving are of the store (`known_at`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.backend.codec import (
    FLAG_ARCHIVE_ON_EXPIRY,
    STATUS_ACTIVE,
    STATUS_ARCHIVED,
    STATUS_CLOSING,
    STATUS_SUPERSEDED,
    Meta,
)

_STEP = struct.Struct("<dBd")


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
        closes: Whether that end closed it.
    """

    at: float
    status: int
    valid_until: float
    closes: bool


def read_trail(rest: Mapping[str, Any]) -> list[Step]:
    """Return what the store has thought of a row, earliest first; empty where it never changed its mind."""
    trail: bytes = rest.get("trail", b"")
    return [
        Step(at, STATUS_ARCHIVED if status == STATUS_CLOSING else status, until, status >= STATUS_SUPERSEDED)
        for at, status, until in _STEP.iter_unpack(trail[: len(trail) // _STEP.size * _STEP.size])
    ]


def closes(status: int, reason: int) -> bool:
    """Tell whether the end of a row's validity closes it: one that is archived may still be to be closed."""
    return status == STATUS_SUPERSEDED or reason != 0


def status_at(meta: Meta, now: float) -> int:
    """Return what a row counts as: one to be closed later is not superseded until then, and expiry may archive."""
    if closes(meta.status, meta.reason) and meta.valid_until <= now:
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
    if meta.recorded_at > known:
        return None
    step = Step(meta.recorded_at, meta.status, meta.valid_until, closes(meta.status, meta.reason))
    if known_at is not None:
        trail = read_trail(rest)
        step = next((one for one in reversed(trail) if one.at <= known), trail[0] if trail else step)
    lapsed = meta.flags & FLAG_ARCHIVE_ON_EXPIRY and meta.expires_at <= known
    at = now if as_of is None else as_of
    # What held when it was recorded holds now, though the server's clock may have gone back since.
    if at < meta.valid_from and not (as_of is None and meta.valid_from <= meta.recorded_at):
        return None
    ended = STATUS_SUPERSEDED if step.closes else None
    is_over = step.closes and step.valid_until <= known
    if (step.status == STATUS_ARCHIVED or lapsed) and not is_over:
        return ended if step.closes and at >= step.valid_until else STATUS_ARCHIVED
    return STATUS_ACTIVE if at < step.valid_until else ended


def states_at(
    meta: npt.NDArray[Any], expires_at: npt.NDArray[np.float64], now: float, as_of: float | None
) -> npt.NDArray[np.int8]:
    """Do as `state_at` does, for many rows at once and as known now; -1 is nothing.

    Args:
        meta: Of the rows, by columns.
        expires_at: Of the rows, in ms, as far as it is known.
        now: The server's time, in ms.
        as_of: As in `state_at`.
    """
    at = now if as_of is None else as_of
    until, stored = meta["valid_until"], meta["status"]
    closing = (stored == STATUS_SUPERSEDED) | (meta["reason"] != 0)
    lapsed = (meta["flags"] & FLAG_ARCHIVE_ON_EXPIRY != 0) & (expires_at <= now)
    archived = ((stored == STATUS_ARCHIVED) | lapsed) & ~(closing & (until <= now))
    status = np.where(archived, STATUS_ARCHIVED, STATUS_ACTIVE).astype(np.int8)
    over = until <= at
    status[over & closing] = STATUS_SUPERSEDED
    status[over & ~closing & ~archived] = -1
    begun = meta["valid_from"] <= at
    if as_of is None:
        begun |= meta["valid_from"] <= meta["recorded_at"]
    status[~begun] = -1
    return status


def settled_span(meta: npt.NDArray[Any]) -> tuple[float, float]:
    """Return from when on, and until when, exclusive, all of some rows count as active, whatever the time."""
    if (meta["status"] != STATUS_ACTIVE).any():
        return -np.inf, -np.inf
    # What held when it was recorded has begun, though the server's clock may have gone back since.
    to_come = meta["valid_from"][meta["valid_from"] > meta["recorded_at"]]
    archives = meta["expires_at"][meta["flags"] & FLAG_ARCHIVE_ON_EXPIRY != 0]
    start = float(to_come.max(initial=-np.inf))
    return start, float(min(meta["valid_until"].min(initial=np.inf), archives.min(initial=np.inf)))
