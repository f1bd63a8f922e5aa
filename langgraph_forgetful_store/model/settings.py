"""Checks of settings: every message names the argument, what came and what is allowed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.runnables import Runnable

from langgraph_forgetful_store.errors import ConfigurationError


@contextmanager
def as_settings() -> Iterator[None]:
    """Report what checks of calls say of unusable values as a `ConfigurationError`."""
    try:
        yield
    except ConfigurationError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(str(error)) from error


def unusable(name: str, allowed: str, came: object) -> ConfigurationError:
    """Return the error about a setting."""
    return ConfigurationError(f"{name} must be {allowed}, got {came!r}")


def check_flag(value: object, name: str, *, optional: bool = False) -> None:
    """Check that a value is a bool.

    Raises:
        ConfigurationError: It is none.
    """
    if not (isinstance(value, bool) or (optional and value is None)):
        raise unusable(name, "True, False or None" if optional else "True or False", value)


def check_kind(value: object, name: str, kind: type[Any], *, optional: bool = False, hint: str = "") -> None:
    """Check that a value is an instance of a class.

    Raises:
        ConfigurationError: It is none.
    """
    if not (isinstance(value, kind) or (optional and value is None)):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise unusable(name, f"{article} {kind.__name__}{hint}{' or None' if optional else ''}", value)


def is_sync_function(value: object) -> bool:
    """Whether calling a value gives its result; what calls a class, or something async, gets another thing."""
    return (
        callable(value)
        and not isinstance(value, type)
        and not inspect.iscoroutinefunction(value)
        and not inspect.iscoroutinefunction(type(value).__call__)
    )


def check_function(value: object, name: str, what: str, *, optional: bool = False) -> None:
    """Check that a value is a function that is not async.

    Args:
        value: It.
        name: The argument, for messages.
        what: What it is a function of.
        optional: Whether it may be ``None``.

    Raises:
        ConfigurationError: It is none.
    """
    if not (is_sync_function(value) or (optional and value is None)):
        sync = ", not an async one" if callable(value) else ""
        raise unusable(name, f"a function {what}{' or None' if optional else ''}{sync}", value)


def check_stage(value: object, name: str, method: str, wrapper: str) -> None:
    """Check that a value is what a policy can consult: an object with a method, or a function, sync or async.

    Args:
        value: It; ``None`` will do.
        name: The argument, for messages.
        method: The method's name.
        wrapper: What makes such an object of a chat model.

    Raises:
        ConfigurationError: It is none.
    """
    if value is None:
        return
    allowed = f"an object with a method {method}, a function, or None"
    if isinstance(value, type):
        raise unusable(name, allowed, value)
    if callable(getattr(value, method, None)) or callable(getattr(value, f"a{method}", None)):
        return
    if isinstance(value, Runnable):
        # Its repr may fill a page.
        raise ConfigurationError(
            f"{name} must be {allowed}, got a {type(value).__name__}; wrap a chat model: {name}={wrapper}(model)"
        )
    if not callable(value):
        raise unusable(name, allowed, value)
