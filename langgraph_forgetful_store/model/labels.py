"""Names of people and things as labels of a namespace, reversibly."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph_forgetful_store.errors import ConfigurationError

_EMPTY = "%"
# The store refuses the root label "langgraph", and matches of namespaces take "*" for any label.
_WHOLE = {"langgraph": "%6Canggraph", "*": "%2A", "": _EMPTY}
_WHOLE_BACK = {encoded: name for name, encoded in _WHOLE.items()}
_ENCODED = {"%": "%25", ".": "%2E", "\0": "%00"}
_DECODED = {encoded: char for char, encoded in _ENCODED.items()}
_ESCAPE = re.compile("%(?:25|2E|00)?")


def namespace_label(name: str) -> str:
    """Encode any text as a label, since a label may not be empty, nor hold a dot or a NUL.

    Different names give different labels, and most names stay as they are.

    Args:
        name: Any text, such as a user's e-mail address.

    Raises:
        TypeError: The name is no str.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, got {name!r}")
    return _WHOLE.get(name) or "".join(_ENCODED.get(char, char) for char in name)


def namespace_unlabel(label: str) -> str:
    """Return the name that `namespace_label` encoded.

    Raises:
        TypeError: It is no str.
        ValueError: `namespace_label` never returns such a label.
    """
    if not isinstance(label, str):
        raise TypeError(f"label must be a str, got {label!r}")
    name = _WHOLE_BACK.get(label)
    if name is None:
        name = _ESCAPE.sub(lambda found: _DECODED.get(found[0], found[0]), label)
    if namespace_label(name) != label:
        raise ValueError(f"{label!r} is no label that namespace_label returns")
    return name


def _field_names(part: str) -> list[str]:
    try:
        parsed = list(string.Formatter().parse(part))
    except ValueError as error:
        raise ConfigurationError(f"namespace holds {part!r}, which is no template: {error}") from error
    names = []
    for _, name, form, conversion in parsed:
        if name is None:
            continue
        if not name.isidentifier() or form or conversion:
            raise ConfigurationError(f"namespace holds {part!r}; between braces it may hold plain names only")
        names.append(name)
    return names


def check_template(template: Sequence[str]) -> tuple[str, ...]:
    """Return a namespace's template as a tuple.

    Raises:
        ConfigurationError: It is empty, holds what is no str, or a name between braces is none.
    """
    if isinstance(template, str) or not isinstance(template, Sequence) or not template:
        raise ConfigurationError(f"namespace must be a non-empty tuple of str, got {template!r}")
    for part in template:
        if not isinstance(part, str) or not part:
            raise ConfigurationError(f"namespace must be a non-empty tuple of non-empty str, got {template!r}")
        _field_names(part)
    return tuple(template)


def fill_namespace(template: Sequence[str], *sources: Mapping[str, Any] | object | None) -> tuple[str, ...]:
    """Fill a namespace's template, such as ``("memories", "{user_id}")``.

    What is filled in is encoded by `namespace_label`, so that no value can reach another's namespace.

    Args:
        template: Its parts; names stand between braces.
        *sources: Mappings or objects that have the values, the first that has one counts.

    Raises:
        ConfigurationError: A name is in none of the sources, or its value is no text or number.
    """
    return tuple(_fill(part, sources) for part in check_template(template))


def _fill(part: str, sources: Sequence[Mapping[str, Any] | object | None]) -> str:
    return part.format(**{name: namespace_label(_value(name, sources)) for name in _field_names(part)})


def _value(name: str, sources: Sequence[Mapping[str, Any] | object | None]) -> str:
    for source in sources:
        value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ConfigurationError(f"{name} of the namespace must be a str or an int, got {value!r}")
        return str(value)
    raise ConfigurationError(
        f"the namespace needs {name!r}, which is neither in the runtime's context nor in config['configurable']"
    )
