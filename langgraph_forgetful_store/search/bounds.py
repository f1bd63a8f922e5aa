"""Upper bounds of scores, so that only rows that can be among the best are scored in full."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# Freshness only fades, so what was reckoned earlier stays a bound; but one that grows looser.
KEEP_MS = 600_000.0


class Bounds:
    """What all but similarity adds to the score of each slot at the most: reckoned once a slot, as slots never change.

    One preset alone may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rest: Array = np.zeros(0)
        self._first = self._last = 0.0

    def upto(self, size: int, now: float, reckon: Callable[[slice], Array]) -> Array:
        """Return the bounds of the first slots.

        Args:
            size: How many.
            now: The server's time, in ms.
            reckon: Returns the exact values of some slots as of `now`.
        """
        with self._lock:
            if now < self._last or now - self._first > KEEP_MS:
                self._rest = np.zeros(0)
            start = len(self._rest)
            if start < size:
                self._rest = np.concatenate([self._rest, reckon(slice(start, size))])
                self._last = now
                self._first = self._first if start else now
            return self._rest[:size]
