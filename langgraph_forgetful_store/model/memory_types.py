"""Memory types: how long each lives, what its expiry does, and how fast it fades in the score.

The order of the half-lives is the field's, their values are ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from langgraph.store.base import NOT_PROVIDED

from langgraph_forgetful_store.backend.codec import FLAG_ABSOLUTE_TTL, FLAG_ARCHIVE_ON_EXPIRY
from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.model.checks import check_end

DAY_MS = 86_400_000.0
DAY_MINUTES = 1440.0
GENERIC = "generic"
HYPOTHESIS = "hypothesis"
SENSITIVE = "sensitive"
EXPIRY_ACTIONS = ("delete", "archive")


@dataclass(frozen=True, slots=True)
class MemoryType:
    """What a memory type says of its memories.

    Attributes:
        ttl: Minutes that a memory lives when a write names the type and no ttl of its own; reads never refresh it.
            ``None``: for ever.
        on_expiry: ``"delete"``, or ``"archive"``: from that millisecond on the memory counts as archived.
        half_life_days: Days after which its freshness is halved; ``math.inf``: never.
        protected: Whether maintenance spares it.

    Raises:
        ConfigurationError: A value is unusable.
    """

    ttl: float | None = None
    on_expiry: str = "delete"
    half_life_days: float = 90.0
    protected: bool = False

    def __post_init__(self) -> None:
        if self.ttl is not None and not (_is_number(self.ttl) and 0 < self.ttl < math.inf):
            raise ConfigurationError(f"ttl of a memory type must be minutes above 0, or None, got {self.ttl!r}")
        if self.ttl is not None:
            try:
                check_end(self.ttl * 60_000, "ttl of a memory type")
            except ValueError as error:
                raise ConfigurationError(str(error)) from error
        if self.on_expiry not in EXPIRY_ACTIONS:
            raise ConfigurationError(f"on_expiry must be one of {', '.join(EXPIRY_ACTIONS)}, got {self.on_expiry!r}")
        if not (_is_number(self.half_life_days) and self.half_life_days > 0):
            raise ConfigurationError(f"half_life_days must be a number above 0, got {self.half_life_days!r}")
        if not isinstance(self.protected, bool):
            raise ConfigurationError(f"protected must be True or False, got {self.protected!r}")

    @property
    def ttl_ms(self) -> int | None:
        """The ttl in ms, 1 at the least."""
        return None if self.ttl is None else max(round(self.ttl * 60_000), 1)

    @property
    def archives(self) -> bool:
        """Whether its expiry archives."""
        return self.on_expiry == "archive"


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and value == value


_KEPT = MemoryType(protected=True)
_FADING = MemoryType(half_life_days=30)
_PROMISED = MemoryType(7 * DAY_MINUTES, "archive", 7)
_SHORT = MemoryType(7 * DAY_MINUTES, "delete", 2)
LIFECYCLE: Mapping[str, MemoryType] = MappingProxyType(
    {
        GENERIC: _KEPT,
        "identity": replace(_KEPT, half_life_days=math.inf),
        "preference": _KEPT,
        "fact": _KEPT,
        "procedural": _KEPT,
        "tool": _KEPT,
        "episodic": _FADING,
        "summary": _FADING,
        "intent": _PROMISED,
        "commitment": _PROMISED,
        "task": _SHORT,
        HYPOTHESIS: _SHORT,
        "opinion": MemoryType(3 * DAY_MINUTES, "archive", 3),
        "conversation": MemoryType(60, "archive", 1 / 24),
        "emotion": MemoryType(10, "delete", 1 / 144),
        SENSITIVE: MemoryType(DAY_MINUTES, "delete", 1),
    }
)
_STRICT_DAYS = {"fact": 30.0, "preference": 7.0, "task": 2.0, "conversation": 1 / 24}
STRICT: Mapping[str, MemoryType] = MappingProxyType(
    {
        name: replace(
            known,
            ttl=None if name == "identity" else _STRICT_DAYS.get(name, 30.0) * DAY_MINUTES,
            on_expiry="archive",
            protected=name == "identity",
        )
        for name, known in LIFECYCLE.items()
    }
)
_PRESETS = {"lifecycle": LIFECYCLE, "strict": STRICT}


class MemoryTypes:
    """The memory types of a store.

    Args:
        given: The name of a preset, or types of the user's own by their names, which stand beside, or in place of,
            those of the preset ``lifecycle``.

    Raises:
        ConfigurationError: It is neither.
    """

    def __init__(self, given: object = "lifecycle") -> None:
        if isinstance(given, str) and given in _PRESETS:
            self._known = dict(_PRESETS[given])
        elif isinstance(given, Mapping):
            for name, one in given.items():
                if not isinstance(name, str) or not name or "\0" in name or not isinstance(one, MemoryType):
                    raise ConfigurationError(f"memory_types must map names to MemoryType, got {name!r}: {one!r}")
            self._known = {**LIFECYCLE, **given}
        else:
            raise ConfigurationError(f"memory_types must be one of {', '.join(_PRESETS)}, or a dict, got {given!r}")
        self._half_lives: dict[tuple[str, ...], npt.NDArray[np.float64]] = {}

    def __getitem__(self, name: str) -> MemoryType:
        """Return a type; a name that is not known is as a generic one."""
        return self._known.get(name) or self._known[GENERIC]

    def __iter__(self) -> Iterator[str]:
        # Without it, what iterates would ask for the types 0, 1, 2 and so on, for ever.
        return iter(self._known)

    def half_lives(self, names: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the half-life of each, in ms."""
        key = tuple(names)
        found = self._half_lives.get(key)
        if found is None:
            found = np.array([self[name].half_life_days * DAY_MS for name in key])
            found.flags.writeable = False
            if len(self._half_lives) > 64:
                self._half_lives.clear()
            self._half_lives[key] = found
        return found


@lru_cache(maxsize=64)
def decode_types(stored: bytes | None) -> tuple[str, ...]:
    """Return the names of the types by their ids, from what lies under ``types`` in ``fmt``."""
    names = (stored or b"").decode("utf-8", "surrogatepass").split("\0")
    return (GENERIC, *(name for name in names if name))


def decode_type(name: bytes | None) -> str:
    """Return a type's name as scripts return it: nothing for a generic one."""
    return GENERIC if name is None else name.decode("utf-8", "surrogatepass")


def lifetime(
    given: Any, memory_type: str | None, kind: MemoryType | None, default: int | None
) -> tuple[int | None, bool]:
    """Return how long a write lets a memory live, in ms, and whether that is its type's ttl, which reads don't refresh.

    Args:
        given: In ms; ``None``: for ever; `NOT_PROVIDED`: what the type says, else the default.
        memory_type: What the write names, or takes over.
        kind: That type.
        default: The store's, in ms.

    Raises:
        ValueError: Sensitive memories would be kept longer than their type says.
    """
    ttl, absolute = given, False
    if given is NOT_PROVIDED:
        ttl = default if kind is None else kind.ttl_ms
        absolute = kind is not None and kind.ttl_ms is not None
    most = None if kind is None else kind.ttl_ms
    if memory_type == SENSITIVE and most is not None and (ttl is None or ttl > most):
        minutes = None if ttl is None else ttl / 60_000
        raise ValueError(f"ttl of a sensitive memory must be at most {most / 60_000:g} minutes, got {minutes!r}")
    return ttl, absolute


def expiry_flags(kind: MemoryType | None, absolute: bool) -> int:
    """Return what a named type says of a row's expiry, as flags of meta."""
    if kind is None:
        return 0
    return (FLAG_ABSOLUTE_TTL if absolute else 0) | (FLAG_ARCHIVE_ON_EXPIRY if kind.archives else 0)
