"""What tests of memories' lives share: days on an injected clock, and short views of what reads return."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph_forgetful_store.testing import Clock, Face, WordEmbeddings

NS = ("team", "ann")
DAY_MINUTES = 1440
START = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: float) -> datetime:
    """Return a moment, so many days after the start."""
    return START + timedelta(days=number)


class Days(Clock):
    """A clock that is set by the day; it starts at day 0."""

    def __init__(self) -> None:
        super().__init__(START.timestamp() * 1000)

    def day(self, number: float) -> None:
        """Set it, so many days after the start."""
        self.now = day(number).timestamp() * 1000


class Memories:
    """A store with a clock by the day, called by one of its two sides.

    Args:
        make: A maker of stores.
        face: Wraps a store.
        settings: For the store.
    """

    def __init__(self, make: Any, face: Callable[[Any], Face], **settings: Any) -> None:
        self.days = Days()
        self.make = make
        index = {"dims": 64, "embed": WordEmbeddings(64), "fields": ["content"]}
        self.settings: dict[str, Any] = {"clock": self.days, "index": index, **settings}
        self.store = make(**self.settings)
        self.call = face(self.store)

    def another(self, face: Callable[[Any], Face], **settings: Any) -> Face:
        """Return the side of another store on the same data."""
        return face(self.make(**{**self.settings, **settings}))

    def texts(self, *args: Any, **options: Any) -> list[str]:
        """Return the contents of what a recall in `NS` finds, sorted."""
        return sorted(item.value["content"] for item in self.call.recall(NS, *args, **options))

    def keys(self, *args: Any, **options: Any) -> list[str]:
        """Return the keys of what a recall in `NS` finds, in its order."""
        return [item.key for item in self.call.recall(NS, *args, **options)]

    def actions(self, **options: Any) -> list[str]:
        """Return what the audit holds, latest first."""
        return [record.action for record in self.call.audit((), **options)]


def chain(items: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return key, status, and the days from and until which each holds."""
    return [
        (item.key, str(item.memory.status), _days(item.memory.valid_from), _days(item.memory.valid_until))
        for item in items
    ]


def is_linear(items: Iterable[Any]) -> bool:
    """Whether a whole history, oldest first, is one chain whose rows point at their neighbours."""
    rows = list(items)
    names = [None, *(row.key for row in rows), None]
    return all(
        (row.memory.supersedes, row.memory.superseded_by) == (before, after)
        for before, row, after in zip(names, rows, names[2:], strict=False)
    )


def _days(moment: datetime | None) -> float | None:
    return None if moment is None else (moment - START) / timedelta(days=1)
