"""Has the reference show docstrings as `help` does: with what is filled in when the package is imported.

Async twins carry their method's text, and methods that take options tell each of them (`model/documented.py`); read
from the source alone, both would be missing.
"""

import inspect
from importlib import import_module
from typing import Any

import griffe


class RuntimeDocstrings(griffe.Extension):
    """Puts the docstrings of imported objects in place of those in the source."""

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        """Take a function's docstring."""
        self._take(func)

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Take a class's docstring."""
        self._take(cls)

    def _take(self, found: griffe.Object) -> None:
        if found.docstring is None:
            return
        module = found.module.path
        thing: Any = import_module(module)
        for name in found.path.removeprefix(f"{module}.").split("."):
            thing = getattr(thing, name, None)
        if text := getattr(thing, "__doc__", None):
            found.docstring.value = inspect.cleandoc(text)
