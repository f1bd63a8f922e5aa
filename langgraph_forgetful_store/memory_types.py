"""Memory types: how fast each fades in the score. The order of the half-lives is the field's, their values are ours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

DAY_MS = 86_400_000.0
GENERIC = "generic"
HYPOTHESIS = "hypothesis"

_HALF_LIVES_MS: dict[str, float] = {
    GENERIC: 90 * DAY_MS,
    "identity": float("inf"),
    "preference": 90 * DAY_MS,
    "fact": 90 * DAY_MS,
    "procedural": 90 * DAY_MS,
    "tool": 90 * DAY_MS,
    "episodic": 30 * DAY_MS,
    "summary": 30 * DAY_MS,
    "intent": 7 * DAY_MS,
    "commitment": 7 * DAY_MS,
    "task": 2 * DAY_MS,
    HYPOTHESIS: 2 * DAY_MS,
    "opinion": 3 * DAY_MS,
    "conversation": DAY_MS / 24,
    "emotion": DAY_MS / 144,
    "sensitive": DAY_MS,
}
KNOWN_TYPES = tuple(_HALF_LIVES_MS)


def half_lives(names: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the half-life of each type, in ms; that of `GENERIC` where a name is not known."""
    return _half_lives(tuple(names))


@lru_cache(maxsize=64)
def _half_lives(names: tuple[str, ...]) -> npt.NDArray[np.float64]:
    found = np.array([_HALF_LIVES_MS.get(name, _HALF_LIVES_MS[GENERIC]) for name in names])
    found.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def decode_types(stored: bytes | None) -> tuple[str, ...]:
    """Return the names of the types by their ids, from what lies under ``types`` in ``fmt``."""
    names = (stored or b"").decode("utf-8", "surrogatepass").split("\0")
    return (GENERIC, *(name for name in names if name))


def decode_type(name: bytes | None) -> str:
    """Return a type's name as scripts return it: nothing for a generic one."""
    return GENERIC if name is None else name.decode("utf-8", "surrogatepass")
