"""Writes sweep in proportion to what they write, so that memory is bounded with no sweeper running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store import MemoryType
from langgraph_forgetful_store.testing.internals import watch_scripts

NS = ("users", "alice")
# Expired when the next call comes, at the latest.
BLINK = {"blink": MemoryType(ttl=1e-9)}
TYPED = {"$memory": {"memory_type": "blink"}}


def batches(side: Any, rows: int, spaces: int, size: int) -> None:
    for start in range(0, rows, size):
        side.batch([PutOp((*NS, str(at % spaces)), str(at), {"n": at}, ttl=0) for at in range(start, start + size)])


# What brings rows that have expired already, so many a call, and how many may be left of them at the most.
WAYS: dict[str, tuple[Callable[[Any, int], Any], int]] = {
    "single puts": (lambda side, at: side.put(NS, str(at), {"n": at}, ttl=0), 1),
    "batches": (lambda side, at: batches(side, 100, 1, 100), 100),
    "batches over namespaces": (lambda side, at: batches(side, 100, 100, 100), 100),
    "large batches": (lambda side, at: batches(side, 1500, 7, 1500), 1500),
    "memories of a type": (lambda side, at: side.remember(NS, "x", key=str(at), memory_type="blink"), 1),
    "puts of a slot": (
        lambda side, at: side.put(NS, str(at), {"$memory": {**TYPED["$memory"], "subject": str(at), "attribute": "a"}}),
        1,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_expire_as_fast_as_others_come_do_not_pile_up(make_store, face, way):
    """Contract 40."""
    write, size = WAYS[way]
    side = face(make_store(memory_types=BLINK))
    most = 0
    for at in range(0, 20 * max(100, size), size):
        write(side, at)
        if at % max(100, size) == 0:
            most = max(most, make_store.keys()["rows"])
    # What a few sweeps' worth of writes bring, of twenty.
    assert most <= 4 * max(100, size)


@pytest.mark.parametrize("spaces", [1, 500])
def test_a_pile_of_expired_rows_shrinks_while_others_are_written(make_any_store, face, spaces):
    """Contract 40: what comes is less than what goes, also where no row that comes expires."""
    # Nothing is swept on behalf of a store that shows expired rows until then.
    piling = face(make_any_store(ttl={"omit_expired": False}))
    batches(piling, 5000, spaces, 500)
    side = face(make_any_store())
    held = [make_any_store.keys()["rows"]]
    for start in range(0, 3000, 300):
        side.batch([PutOp(("kept",), str(at), {"n": at}) for at in range(start, start + 300)])
        held.append(make_any_store.keys()["rows"])
    assert held[0] == 5000
    # The first write only finds out that there is a pile.
    assert max(held) <= 5000 + 300
    assert held[-1] == 3000


def test_a_write_sweeps_beside_others_of_its_second_only_when_many_rows_were_written(make_any_store):
    store = make_any_store()
    sent = watch_scripts(store)
    for at in range(90):
        store.put(NS, str(at), {})
    assert sent.count("sweep") == 1
    store.batch([PutOp(NS, str(at), {}) for at in range(100)])
    assert sent.count("sweep") == 2
