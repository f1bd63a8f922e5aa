"""Upper bounds of scores, so that only rows that can be among the best are scored in full."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# Freshness only fades, so what was reckoned earlier stays a bound; but one that grows looser.
KEEP_MS = 600_000.0


@dataclass(frozen=True, slots=True)
class Reckoned:
    """What has been reckoned of some slots.

    Attributes:
        rest: The bounds of the first slots.
        first: When the first of them were reckoned, in ms.
        last: When the last of them were.
    """

    rest: Array
    first: float = 0.0
    last: float = 0.0

    def hold_at(self, now: float) -> bool:
        """Tell whether they are bounds at a time, and not too loose."""
        return self.last <= now <= self.first + KEEP_MS


class Bounds:
    """What all but similarity adds to the score of each slot at the most: reckoned once a slot, as slots never change.

    One preset alone may use it.

    Attributes:
        known: What has been reckoned.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Replaced as a whole, so that it may be read without the lock.
        self.known = Reckoned(np.zeros(0))

    def upto(self, size: int, now: float, reckon: Callable[[slice], Array]) -> Array:
        """Return the bounds of the first slots.

        Args:
            size: How many.
            now: The server's time, in ms.
            reckon: Returns the exact values of some slots as of `now`.
        """
        with self._lock:
            known = self.known
            rest = known.rest if known.hold_at(now) else known.rest[:0]
            start = len(rest)
            if start < size:
                rest = np.concatenate([rest, reckon(slice(start, size))])
                self.known = Reckoned(rest, known.first if start else now, now)
            return rest[:size]
