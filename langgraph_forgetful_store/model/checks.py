"""Checks of what an op carries; every message names the argument, what came and what is allowed."""

from __future__ import annotations

import threading
import time

from langgraph.store.base import InvalidNamespaceError

Namespace = tuple[str, ...]
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
    """Return whether a read slides TTLs; ``None`` is the configured default.

    Raises:
        TypeError: It is neither a bool nor ``None``.
    """
    if value is None:
        return default
    if not isinstance(value, bool):
        raise TypeError(f"refresh_ttl must be True, False or None, got {value!r}")
    return value
