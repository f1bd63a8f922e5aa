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
from langgraph_forgetful_store.lifecycle import Step, read_trail


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
    step = Step(meta.recorded_at, meta.status, meta.valid_until)
    if known_at is not None:
        trail = read_trail(rest)
        step = next((one for one in reversed(trail) if one.at <= known), trail[0] if trail else step)
    status = step.status
    if status == STATUS_ACTIVE and meta.flags & FLAG_ARCHIVE_ON_EXPIRY and meta.expires_at <= known:
        status = STATUS_ARCHIVED
    at = now if as_of is None else as_of
    # What held when it was recorded holds now, though the server's clock may have gone back since.
    if at < meta.valid_from and not (as_of is None and meta.valid_from <= meta.recorded_at):
        return None
    if status == STATUS_ARCHIVED:
        return status
    if at < step.valid_until:
        return STATUS_ACTIVE
    return STATUS_SUPERSEDED if status == STATUS_SUPERSEDED else None
