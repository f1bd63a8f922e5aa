"""Docstrings are written once: an async twin carries its method's text, and a method that of its options.

`help` and documentation that is made by importing (mkdocstrings: ``force_inspection: true``) show the whole text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_HEADING = re.compile(r"^(Args|Keyword Args|Attributes|Returns|Yields|Raises):$", re.MULTILINE)


def section_of(text: str | None, heading: str) -> str:
    """Return the lines below a heading of a docstring, without their indentation.

    Args:
        text: The docstring; ``None`` where Python strips docstrings.
        heading: The heading without its colon.
    """
    parts = _HEADING.split(inspect.cleandoc(text or ""))
    found = dict(zip(parts[1::2], parts[2::2], strict=True)).get(heading, "")
    return inspect.cleandoc("\n" + found.strip("\n"))


def twin_of(method: Callable[..., Any]) -> Callable[[F], F]:
    """Give an async twin the text of its method; what the twin says itself stands below the summary.

    Args:
        method: The sync method that the twin belongs to.
    """

    def carry(twin: F) -> F:
        if method.__doc__ and twin.__doc__:
            summary, *rest = inspect.cleandoc(method.__doc__).split("\n\n", 1)
            twin.__doc__ = "\n\n".join([summary, inspect.cleandoc(twin.__doc__), *rest])
        return twin

    return carry


def takes_options(options: type[Any]) -> Callable[[F], F]:
    """Add what a TypedDict says of its keys to a method that takes them as ``**options``.

    Args:
        options: The TypedDict, whose docstring has the section ``Attributes``.
    """

    def add(method: F) -> F:
        if method.__doc__ and options.__doc__:
            method.__doc__ = with_section(method.__doc__, "Keyword Args", options_of(options))
        return method

    return add


def options_of(options: type[Any]) -> str:
    """Return what a TypedDict says of its keys, each with its type, as lines of a docstring's section.

    Args:
        options: The TypedDict, whose docstring has the section ``Attributes``.
    """
    told = "\n" + section_of(options.__doc__, "Attributes")
    for name, kind in options.__annotations__.items():
        written = getattr(kind, "__forward_arg__", None) or getattr(kind, "__name__", str(kind))
        told = told.replace(f"\n{name}: ", f"\n{name} ({written}): ")
    return told.removeprefix("\n")


def with_section(text: str, heading: str, lines: str) -> str:
    """Return a docstring with one more section, before what it returns and raises.

    Args:
        text: The docstring to add to.
        heading: The new section's heading, without its colon.
        lines: What stands below the heading, not indented.
    """
    clean = inspect.cleandoc(text)
    indented = "\n".join(f"    {line}" if line else "" for line in lines.splitlines())
    following = re.search(r"^(Returns|Yields|Raises):$", clean, re.MULTILINE)
    at = following.start() if following else len(clean)
    return f"{clean[:at].rstrip()}\n\n{heading}:\n{indented}\n\n{clean[at:]}".rstrip()
