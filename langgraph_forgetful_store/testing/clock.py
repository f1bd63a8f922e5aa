"""A clock that moves only when it is told to."""

from __future__ import annotations


class Clock:
    """An injected clock, in ms since the epoch; moves only when it is told to.

    Args:
        now: The time it starts at, in ms since the epoch.
    """

    def __init__(self, now: float = 1_700_000_000_000) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time in ms."""
        return self.now

    def advance(self, *, ms: float = 0, minutes: float = 0) -> None:
        """Move the clock, back if negative.

        Args:
            ms: By how many milliseconds it moves.
            minutes: By how many minutes it moves, in addition.
        """
        self.now += ms + minutes * 60_000
