"""Upper bounds of scores, so that only rows that can be among the best are scored in full."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.search.presets import Parts, Weighted

Array = npt.NDArray[np.float64]

# Freshness only fades, so what was reckoned earlier stays a bound; but one that grows looser.
KEEP_MS = 600_000.0


@dataclass(frozen=True, slots=True)
class Reckoned:
    """What has been reckoned of some slots.

    Attributes:
        parts: What scores are made of beside similarity, of the first slots.
        rest: The bounds of what that adds.
        first: When the first of them were reckoned, in ms.
        last: When the last of them were.
        preset: What scores.
    """

    parts: Parts
    rest: Array
    first: float = 0.0
    last: float = 0.0
    preset: Weighted | None = None

    def hold_at(self, now: float) -> bool:
        """Tell whether they are bounds at a time, and not too loose."""
        return self.last <= now <= self.first + KEEP_MS


def _joined(one: Array, more: Array) -> Array:
    return np.concatenate([one, more]) if len(one) else more


_NOTHING = Reckoned(Parts(np.zeros(0), np.zeros(0), np.zeros(0)), np.zeros(0))


class Bounds:
    """What all but similarity adds to the score of each slot at the most: reckoned once a slot, as slots never change.

    They are those of the preset that was asked for last.

    Attributes:
        known: What has been reckoned.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Replaced as a whole, so that it may be read without the lock.
        self.known = _NOTHING

    def upto(self, size: int, now: float, preset: Weighted, read: Callable[[slice], Parts]) -> Reckoned:
        """Reckon the bounds of the first slots, and perhaps of more.

        Args:
            size: How many.
            now: The server's time, in ms.
            preset: What scores.
            read: Returns the parts of some slots.
        """
        with self._lock:
            known = self.known if self.known.preset == preset else _NOTHING
            held, start = known.hold_at(now), len(known.rest)
            if held and start >= size:
                return known
            parts = known.parts
            if start < size:
                parts = Parts(*map(_joined, parts, read(slice(start, size))))
            if held:
                fresh = Parts(*(part[start:] for part in parts))
                rest = _joined(known.rest, preset.without_similarity(fresh, now))
            else:
                rest = preset.without_similarity(parts, now)
            self.known = Reckoned(parts, rest, known.first if held and start else now, now, preset)
            return self.known
