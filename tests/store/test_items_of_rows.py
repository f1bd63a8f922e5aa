"""An item that is made of a row the short way is what the constructor makes."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from langgraph.store.base import Item, SearchItem

from langgraph_forgetful_store import MemorySearchItem
from langgraph_forgetful_store.backend.codec import Meta
from langgraph_forgetful_store.model.fields import Row

AT = datetime(2026, 1, 2, tzinfo=UTC)
TIMES = (0, 0, math.inf, math.inf, 1, 0, math.inf, 0, math.inf, -math.inf, -math.inf)
META = Meta(*TIMES, 0.5, 0.8, 0, 3, 1, 2, 0, 0, 0, 0)


def test_both_ways_set_the_same_attributes():
    parts = (("a", "b"), "k", {"n": 1}, AT, AT, 0.5, Row(META), 0.25, {"score": 0.5})
    short, long = MemorySearchItem.of_row(*parts), MemorySearchItem(*parts)
    slots = [name for kind in MemorySearchItem.__mro__ for name in getattr(kind, "__slots__", ())]
    assert {*Item.__slots__, *SearchItem.__slots__} <= set(slots)
    for name in slots:
        assert getattr(short, name) == getattr(long, name), name
    assert (short, short.dict(), repr(short)) == (long, long.dict(), repr(long))
    assert vars(long) == vars(short) if hasattr(long, "__dict__") else True
