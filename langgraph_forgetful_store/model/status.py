"""The two time axes: what a row counts as at a moment in the world, as the store knew it at another.

Validity is of the world (`as_of`), knowledge and archiving are of the store (`known_at`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph_forgetful_store.backend.codec import (
    FLAG_ARCHIVE_ON_EXPIRY,
    STATUS_ACTIVE,
    STATUS_ARCHIVED,
    STATUS_SUPERSEDED,
    Meta,
)
from langgraph_forgetful_store.model.lifecycle import Step, read_trail


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
