"""What the sections of the contract share: fixtures, and the names of what a store is known to break."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import pytest

from langgraph_forgetful_store.testing.clock import Clock
from langgraph_forgetful_store.testing.face import Face, faces

Make = Callable[..., Face]
NS = ("contract", "ns")


class Section:
    """A part of the contract.

    A subclass needs a fixture `make_store` that returns a function: it takes the settings that a test asks for
    (``index=``, ``ttl=``, ``clock=``) and returns a new, empty store, or one more on the same data.

    Attributes:
        expected_failures: Names of tests that the store is known to fail, and why: they are run as strict xfails, so
            one that passes is an error. A name is a test's, or, for one of its cases, ``"test_name[case]"``.
        left_out: Names of tests that are not run at all, and why.
        plain_cosine: Settings of `make_store` under which a score is the plain cosine, for a store whose score is
            another by default; lines of the contract that need it use them.
    """

    expected_failures: ClassVar[Mapping[str, str]] = {}
    left_out: ClassVar[Mapping[str, str]] = {}
    plain_cosine: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in (*cls.expected_failures, *cls.left_out):
            if not hasattr(cls, name.partition("[")[0]):
                raise TypeError(f"{cls.__name__} has no test {name}")
        for name in cls.left_out:
            # pytest collects only what can be called.
            setattr(cls, name, None)

    @pytest.fixture(autouse=True)
    def _expect_failure(self, request: pytest.FixtureRequest) -> None:
        function: str = request.node.originalname
        cases = [case for case in request.node.name[len(function) + 1 : -1].split("-") if case not in _SIDES]
        for name in (function, f"{function}[{'-'.join(cases)}]"):
            if name in self.expected_failures:
                request.node.add_marker(pytest.mark.xfail(reason=self.expected_failures[name], strict=True))

    @pytest.fixture(params=["sync", "async"])
    def face(self, request: pytest.FixtureRequest) -> Iterator[Callable[[Any], Face]]:
        """Wrap a store so that the same test calls its sync or its async side."""
        with faces(asynchronous=request.param == "async") as wrap:
            yield wrap

    @pytest.fixture
    def make(self, make_store: Callable[..., Any], face: Callable[[Any], Face]) -> Make:
        """Make a store and wrap it."""
        return lambda **settings: face(make_store(**settings))

    @pytest.fixture
    def store(self, make: Make) -> Face:
        """Make a store without settings."""
        return make()


_SIDES = ("sync", "async")


class ClockSection(Section):
    """A part of the contract that moves a clock: ``make_store(clock=...)`` must make the store live by it."""

    @pytest.fixture
    def clock(self) -> Clock:
        """Return an injected clock."""
        return Clock()


def refuses(error: type[Exception], call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Check that a call raises; return the message."""
    __tracebackhide__ = True
    try:
        result = call(*args, **kwargs)
    except error as raised:
        message = str(raised)
        assert message, "an error without a message helps nobody"
        return message
    except Exception as raised:
        pytest.fail(f"{args!r} {kwargs!r}: raised {raised!r}, not a {error.__name__}")
    pytest.fail(f"{args!r} {kwargs!r}: accepted, with the result {result!r}")


def as_json(value: object) -> str:
    """Write a value so that 1, 1.0, True and -0.0 stay different."""
    return json.dumps(value, sort_keys=True)


def keys(items: Iterable[Any]) -> list[str]:
    """Return the keys of items, in order."""
    return [item.key for item in items]


def snapshot(store: Face, prefix: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    """Return all that can be read below a prefix, without sliding a TTL."""
    found = store.search(prefix, limit=10_000, refresh_ttl=False)
    return [(item.namespace, item.key, as_json(item.value), item.created_at, item.updated_at) for item in found]
