"""Leaves async twins out of the reference: what a method says holds for the method with an `a` in front, too."""

from typing import Any

import griffe


class HideTwins(griffe.Extension):
    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        for name in list(cls.members):
            if name.startswith("a") and name[1:] in cls.members:
                del cls.members[name]
