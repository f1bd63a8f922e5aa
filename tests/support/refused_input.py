"""What tests of bad input share: tables of cases, and the proof that nothing stored has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("users", "alice")
INDEX = {"dims": 16, "embed": WordEmbeddings()}
# What is bad, what does it, the error's type, and what its message must hold.
Case = tuple[str, Callable[..., Any], type[Exception], tuple[str, ...]]


def each(
    argument: str, values: Iterable[Any], do: Callable[..., Any], error: type[Exception], *words: str
) -> list[Case]:
    """One case a bad value of an argument: the message must hold both, and what is allowed."""
    return [
        (
            f"{argument} {value!r:.40}",
            lambda *given, value=value: do(*given, value),
            error,
            (argument, repr(value), *words),
        )
        for value in values
    ]


def one(name: str, do: Callable[..., Any], error: type[Exception], *words: str) -> list[Case]:
    """A case of its own."""
    return [(name, do, error, words)]


def refuses(do: Callable[[], Any], error: type[Exception], *words: str, case: str = "") -> None:
    """Check that a call raises an error whose message holds all words."""
    __tracebackhide__ = True
    try:
        result = do()
    except Exception as caught:
        # A bad type must not come as a bad value, nor the other way round.
        matches = isinstance(caught, error) and isinstance(caught, TypeError) == issubclass(error, TypeError)
        missing = [word for word in words if word not in str(caught)]
        if not matches or missing:
            pytest.fail(f"{case}: {error.__name__} with {missing} was expected, not {type(caught).__name__}: {caught}")
    else:
        pytest.fail(f"{case}: {error.__name__} was expected, not the result {result!r}")


def dump(maker: Any) -> dict[bytes, bytes]:
    """Everything that lies in Redis."""
    with maker.server.client() as client:
        return {key: client.dump(key) for key in client.scan_iter(count=1000)}


def fill(maker: Any) -> Any:
    """Write a few rows: with a vector, with a TTL and a vector, with neither. Returns the maker."""
    store = maker(index=INDEX)
    store.put(NS, "vector", {"text": "green tea"})
    store.put(NS, "ttl", {"text": "black tea"}, ttl=5)
    store.put(("other",), "plain", {"n": 1}, index=False)
    return maker


# One call of every operation on those rows.
EVERY_OP: dict[str, Callable[[Any], Any]] = {
    "setup": lambda side: side.setup(),
    "get": lambda side: side.get(NS, "vector"),
    "search": lambda side: side.search(NS),
    "query": lambda side: side.search(NS, query="tea"),
    "put": lambda side: side.put(NS, "k", {"text": "tea"}),
    "delete": lambda side: side.delete(NS, "vector"),
    "list": lambda side: side.list_namespaces(),
    "sweep": lambda side: side.sweep_ttl(),
}
