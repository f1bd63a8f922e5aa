"""What the reference shows, beyond what the source says: docstrings as they are when the package runs.

Some are put together from tables then. Async twins are left out: what a method says holds for the method with an `a` in
front, too.
"""

import inspect
from typing import Any

import griffe

PACKAGE = "langgraph_forgetful_store"


class Reference(griffe.Extension):
    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        for name in list(cls.members):
            if name.startswith("a") and name[1:] in cls.members:
                del cls.members[name]

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is None or not (obj.is_class or obj.is_function) or not obj.path.startswith(f"{PACKAGE}."):
            return
        try:
            told = griffe.dynamic_import(obj.path).__doc__
        except ImportError:
            # It needs an extra that is not installed here.
            return
        if told:
            obj.docstring.value = inspect.cleandoc(told)
