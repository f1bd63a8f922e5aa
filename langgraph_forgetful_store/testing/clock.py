"""A clock that moves only when it is told to."""

from __future__ import annotations


class Clock:
    """An injected clock, in ms since the epoch; moves only when it is told to.

    Args:
        now: Where it starts.
    """

    def __init__(self, now: float = 1_700_000_000_000) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, *, ms: float = 0, minutes: float = 0) -> None:
        """Move it, back if negative."""
        self.now += ms + minutes * 60_000
