"""Checks of values and arguments; every message names the argument, what came and what is allowed."""

from __future__ import annotations

import inspect
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from numbers import Real
from typing import Any

from langchain_core.runnables import Runnable
from langgraph.store.base import InvalidNamespaceError

from langgraph_forgetful_store.backend.keys import encode_text
from langgraph_forgetful_store.errors import ConfigurationError

Namespace = tuple[str, ...]
MS_PER_MINUTE = 60_000
# Beyond this a double no longer tells one millisecond from the next.
MAX_TTL_MINUTES = 1e11
# The server counts in 64 bits, and Lua in doubles.
_MOST = 2**53
# The last millisecond of the year 9999: what ends later is no datetime.
LAST_MS = 253_402_300_799_999
# Every write notes its number for each prefix of its namespace.
_DEEPEST = 128


def check_labels(labels: object, name: str, *, text: bool = False) -> Namespace:
    """Return labels as a tuple.

    Args:
        labels: A tuple or list.
        name: The argument, for messages.
        text: Whether a ``str`` stands for its characters.

    Raises:
        InvalidNamespaceError: It is no tuple, or a label is no ``str``, is empty, or holds a "." or a NUL.
    """
    if not isinstance(labels, tuple | list | str if text else tuple | list):
        raise InvalidNamespaceError(f"{name} must be a tuple of labels, got {labels!r}")
    for label in labels:
        if not isinstance(label, str):
            raise InvalidNamespaceError(
                f"{name} {labels!r} holds a {type(label).__name__}, {label!r}: labels must be strings"
            )
        if not label:
            raise InvalidNamespaceError(f"{name} {labels!r} holds an empty label: labels must not be empty")
        if "." in label or "\0" in label:
            raise InvalidNamespaceError(f"{name} {labels!r} holds the label {label!r}: '.' and NUL are not allowed")
    return tuple(labels)


def check_depth(namespace: Namespace) -> None:
    """Check that a namespace may hold rows; a deeper one can be read, listed and deleted from, and is always empty.

    Raises:
        InvalidNamespaceError: It has too many labels.
    """
    if len(namespace) > _DEEPEST:
        raise InvalidNamespaceError(
            f"namespace has {len(namespace)} labels, at most {_DEEPEST} are allowed: {namespace[:3]!r} and so on"
        )


def check_namespace(namespace: object) -> Namespace:
    """Return a namespace that may hold memories.

    Raises:
        InvalidNamespaceError: It is none, is empty, too deep, or begins with "langgraph".
    """
    labels = check_labels(namespace, "namespace")
    check_depth(labels)
    if not labels:
        raise InvalidNamespaceError("namespace must not be empty, got ()")
    if labels[0] == "langgraph":
        raise InvalidNamespaceError(f'namespace must not begin with "langgraph", got {labels!r}')
    return labels


def check_key(key: object) -> str:
    """Return a key.

    Raises:
        ValueError: It is no str.
    """
    if not isinstance(key, str):
        raise ValueError(f"key must be a str, got {key!r}")
    return key


def check_count(value: object, name: str, *, least: int = 0) -> int:
    """Return a whole number; one beyond what the server can count as the greatest that it can.

    Raises:
        TypeError: It is no int.
        ValueError: It is below `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number from {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be a whole number from {least}, got {value!r}")
    return min(value, _MOST)


def check_seconds(value: object, name: str) -> float | None:
    """Return a number of seconds; ``None`` is no limit.

    Raises:
        TypeError: It is no number.
        ValueError: It is negative or not a number.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds from 0, or None, got {value!r}")
    if not value >= 0:
        raise ValueError(f"{name} must be a number of seconds from 0, or None, got {value!r}")
    return min(float(value), threading.TIMEOUT_MAX)


def check_end(ttl: float, name: str = "ttl", now: float | None = None) -> None:
    """Check that what lives so many ms from now on ends by the year 9999.

    Args:
        ttl: In ms.
        name: The argument, for messages.
        now: In ms since the epoch; ``None``: this machine's time.

    Raises:
        ValueError: It ends later.
    """
    if ttl > LAST_MS - (time.time() * 1000 if now is None else now):
        raise ValueError(f"{name} must be a number of minutes that ends by the year 9999, got {ttl / 60_000:.15g}")


def check_refresh(value: object, default: bool) -> bool:
    """Return whether a read refreshes TTLs; ``None`` is the configured default.

    Raises:
        TypeError: It is neither a bool nor ``None``.
    """
    if value is None:
        return default
    if not isinstance(value, bool):
        raise TypeError(f"refresh_ttl must be True, False or None, got {value!r}")
    return value


class UnusableValueError(ValueError):
    """A field of a memory has an unusable value.

    Attributes:
        allowed: What is allowed, for messages that must not repeat the value.
    """

    def __init__(self, message: str, allowed: str = "") -> None:
        super().__init__(message)
        self.allowed = allowed


def _refused(name: str, allowed: str, came: object) -> UnusableValueError:
    return UnusableValueError(f"{name} must be {allowed}, got {came!r}", allowed)


def check_text(value: object, name: str) -> str:
    """Return a non-empty str.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, str) or not value:
        raise _refused(name, "a non-empty str", value)
    return value


def check_label(value: object, name: str) -> str:
    """Return a non-empty str without NUL, as names are that are joined by it.

    Raises:
        ValueError: It is none.
    """
    text = check_text(value, name)
    if "\0" in text:
        raise _refused(name, "a non-empty str without NUL", value)
    return text


def check_texts(value: object, name: str) -> list[str]:
    """Return texts without repetitions; those of a set in order.

    Raises:
        ValueError: They are no list, tuple or set of non-empty str.
    """
    if not isinstance(value, list | tuple | set | frozenset) or not all(
        isinstance(part, str) and part for part in value
    ):
        raise _refused(name, "a list of non-empty str", value)
    return list(dict.fromkeys(sorted(value) if isinstance(value, set | frozenset) else value))


def _within(value: object, name: str, least: int, most: int) -> float:
    try:
        if not isinstance(value, bool) and isinstance(value, Real) and least <= (found := float(value)) <= most:
            return found
    except OverflowError:
        # An int that no float can hold.
        pass
    raise _refused(name, f"a number from {least} to {most}", value)


def fraction(value: object, name: str) -> float:
    """Return a number from 0 to 1.

    Raises:
        ValueError: It is none.
    """
    return _within(value, name, 0, 1)


def cosine(value: object, name: str) -> float:
    """Return a number from -1 to 1.

    Raises:
        ValueError: It is none.
    """
    return _within(value, name, -1, 1)


def read_moment(value: object) -> datetime | None:
    """Return an aware datetime, or what ISO 8601 text says; ``None`` where it is neither, or has no offset."""
    if isinstance(value, str):
        try:
            # A date alone is its midnight in UTC.
            found = datetime.fromisoformat(value)
            value = found.replace(tzinfo=UTC) if len(value) <= 10 else found
        except ValueError:
            return None
    return value if isinstance(value, datetime) and value.tzinfo is not None else None


def check_moment(value: object, name: str) -> datetime:
    """Return a point in time.

    Args:
        value: An aware datetime, or ISO 8601 text: with an offset, or a date alone, which is its midnight in UTC.
        name: The argument, for messages.

    Raises:
        ValueError: It is neither; a time without an offset could be any of many.
    """
    if isinstance(value, date) and not isinstance(value, datetime):
        value = value.isoformat()
    found = read_moment(value)
    if found is None:
        raise _refused(name, "an aware datetime or ISO 8601 text with an offset", value)
    return found


def moment(value: object, name: str) -> float:
    """Return a point in time, given as to `check_moment`, as ms since the epoch.

    Raises:
        ValueError: It is none.
    """
    return round(check_moment(value, name).timestamp() * 1000, 3)


def check_type_name(value: object, name: str) -> str:
    """Return the name of a memory type.

    Raises:
        ValueError: It is no str, empty, too long, or holds a NUL.
    """
    text = check_label(value, name)
    if len(encode_text(text)) > 255:
        raise _refused(name, "a name of at most 255 bytes", value)
    return text


def check_bool(value: object, name: str) -> bool:
    """Return a bool.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, bool):
        raise _refused(name, "True or False", value)
    return value


def ttl_to_ms(ttl: object, name: str = "ttl") -> int:
    """Turn minutes into whole ms.

    Args:
        ttl: Minutes, 0 or more; 0 is expired at once, anything above lasts 1 ms at the least.
        name: What to call it in a message.

    Raises:
        TypeError: It is no number.
        ValueError: It is negative, NaN, infinite or above 1e11.
    """
    if isinstance(ttl, bool) or not isinstance(ttl, Real):
        raise TypeError(f"{name} must be a number of minutes or None, got {ttl!r}")
    try:
        minutes = float(ttl)
    except OverflowError:
        minutes = math.inf
    if not (math.isfinite(minutes) and 0 <= minutes <= MAX_TTL_MINUTES):
        raise ValueError(f"{name} must be a number of minutes from 0 to {MAX_TTL_MINUTES:g}, got {ttl!r}")
    return max(round(minutes * MS_PER_MINUTE), 1) if minutes else 0


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
