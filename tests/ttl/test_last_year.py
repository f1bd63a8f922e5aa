"""A TTL that would end after the year 9999 is refused wherever it is said; one that ends in time can be read back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store import ConfigurationError, MemoryType
from langgraph_forgetful_store.policy import TypeDefaults
from langgraph_forgetful_store.testing import Clock
from tests.support.refused_input import dump, refuses

NS = ("users", "alice")
LAST = datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)
TOO_LONG = "that ends by the year 9999"
WRITES: dict[str, Callable[[Any, float], Any]] = {
    "put": lambda side, ttl: side.put(NS, "k", {"n": 1}, ttl=ttl),
    "a batch": lambda side, ttl: side.batch([PutOp(NS, "a", {"n": 1}), PutOp(NS, "k", {"n": 1}, ttl=ttl)]),
    "put of a pin": lambda side, ttl: side.put(NS, "k", {"$memory": {"pinned": True}}, ttl=ttl),
    "put of a type": lambda side, ttl: side.put(NS, "k", {"$memory": {"memory_type": "fact"}}, ttl=ttl),
    "remember": lambda side, ttl: side.remember(NS, "x", key="k", ttl=ttl),
    "supersede": lambda side, ttl: side.supersede(NS, "old", "x", new_key="k", ttl=ttl),
    "set_ttl": lambda side, ttl: side.set_ttl(NS, "old", ttl),
}


@pytest.mark.parametrize("what", WRITES)
@pytest.mark.parametrize("ttl", [4.2e9, 1e10, 1e11])
def test_a_ttl_that_ends_too_late_is_refused_and_nothing_changes(make_any_store, face, what, ttl):
    store = make_any_store()
    store.put(NS, "old", {"n": 0}, ttl=5)
    before = dump(make_any_store)
    refuses(lambda: WRITES[what](face(store), ttl), ValueError, "ttl", TOO_LONG, f"{ttl:.0f}")
    assert dump(make_any_store) == before


@pytest.mark.parametrize("what", WRITES)
def test_the_last_millisecond_is_the_clocks(make_any_store, face, what):
    clock = Clock(LAST.timestamp() * 1000 - 2 * 60_000)
    store = make_any_store(clock=clock)
    store.put(NS, "old", {"n": 0}, ttl=None)
    WRITES[what](face(store), 1)
    refuses(lambda: WRITES[what](face(store), 2.001), ValueError, "ttl", TOO_LONG, "2.001")
    WRITES[what](face(store), 2) if what != "supersede" else store.supersede(NS, "old", "y", new_key="l", ttl=2)
    expiries = [item.memory.expires_at for item in store.search(NS, refresh_ttl=False)]
    assert LAST in expiries or what == "put of a pin"


@pytest.mark.parametrize("write", [lambda s: s.put(NS, "k", {"n": 1}), lambda s: s.remember(NS, "x")])
def test_a_default_ttl_or_a_types_own_may_end_too_late_too(make_any_store, face, write):
    clock = Clock(LAST.timestamp() * 1000 - 60_000)
    side = face(make_any_store(clock=clock, ttl={"default_ttl": 2}))
    refuses(lambda: write(side), ValueError, "ttl", TOO_LONG, "got 2")
    kind = {"memory_type": "task"}
    for typed in (
        lambda: side.put(NS, "k", {"$memory": kind}),
        lambda: side.put(NS, "k", {"$memory": {**kind, "subject": "a", "attribute": "b"}}),
        lambda: side.remember(NS, "x", **kind),
    ):
        refuses(typed, ValueError, "ttl", TOO_LONG, "got 10080")
    assert dump(make_any_store) == {}


@pytest.mark.parametrize("ttl", [4.2e9, 1e10, 1e300])
def test_settings_that_no_write_could_keep_are_refused(make_any_store, ttl):
    refuses(lambda: MemoryType(ttl=ttl), ConfigurationError, "ttl of a memory type", TOO_LONG)
    if ttl < 1e11:
        refuses(lambda: make_any_store(ttl={"default_ttl": ttl}), ConfigurationError, "ttl['default_ttl']", TOO_LONG)
        refuses(lambda: TypeDefaults(ttl=ttl), ConfigurationError, "ttl", TOO_LONG)


def test_a_refresh_may_move_an_expiry_to_the_end_of_time_and_it_is_read_as_the_last_moment(make_any_store, face):
    clock = Clock(LAST.timestamp() * 1000 - 2 * 60_000)
    side = face(make_any_store(clock=clock))
    side.put(NS, "k", {"n": 1}, ttl=2)
    clock.advance(minutes=1)
    item = side.get(NS, "k")
    assert item.memory.expires_at == datetime.max.replace(tzinfo=UTC)
    assert item.dict()["memory"]["expires_at"] == item.memory.expires_at.isoformat()


def test_a_type_that_lives_for_less_than_a_millisecond_lives_for_one(make_any_store, face, clock):
    side = face(make_any_store(clock=clock, memory_types={"blink": MemoryType(ttl=1e-9)}))
    side.remember(NS, "x", key="k", memory_type="blink")
    assert side.get(NS, "k").value == {"content": "x"}
    clock.advance(ms=1)
    assert side.get(NS, "k") is None
