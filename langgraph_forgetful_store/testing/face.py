"""One way to call a store's sync or async side, so that a test is written once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Face:
    """Calls a store's methods by their sync names, on its sync or its async side.

    ``Face(store, asynchronous=True).get(...)`` runs ``store.aget(...)`` to its end on an event loop of its own.

    Args:
        store: The store to call, any `BaseStore`.
        asynchronous: Whether the async side is called.
    """

    def __init__(self, store: Any, *, asynchronous: bool) -> None:
        self.store = store
        self.asynchronous = asynchronous
        self._runner = asyncio.Runner() if asynchronous else None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if self._runner is None:
            method: Callable[..., Any] = getattr(self.store, name)
            return method
        twin, runner = getattr(self.store, f"a{name}"), self._runner

        def call(*args: Any, **kwargs: Any) -> Any:
            return runner.run(twin(*args, **kwargs))

        return call

    def end(self) -> None:
        """Close the event loop, if there is one; the store is left open."""
        if self._runner is not None:
            self._runner.close()


@contextmanager
def faces(*, asynchronous: bool) -> Iterator[Callable[[Any], Face]]:
    """Yield a function that wraps stores; their event loops are closed at the end.

    Args:
        asynchronous: Whether the async side is called.
    """
    wrapped: list[Face] = []

    def wrap(store: Any) -> Face:
        wrapped.append(Face(store, asynchronous=asynchronous))
        return wrapped[-1]

    yield wrap
    for one in wrapped:
        one.end()
