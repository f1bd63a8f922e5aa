"""A server's clock that steps back: no acknowledged write is hidden, the last word holds, nothing replaced returns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from langgraph_forgetful_store.testing import Clock, WordEmbeddings, check_keys

NS = ("team", "ann")
CITY = {"subject": "user", "attribute": "city"}
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
BACK = pytest.mark.parametrize("back", [1, 50, 999, SECOND, 5 * SECOND, 4 * MINUTE, 6 * MINUTE, HOUR, 24 * HOUR])
INDEX = {"dims": 16, "embed": WordEmbeddings(16), "fields": ["content"]}


class Clients:
    """A client whose cache is warm, one that scans, and new ones, on one clock."""

    def __init__(self, make: Any, face: Any) -> None:
        self.clock = Clock()
        self.make, self.wrap = make, face
        self.warm = self.client()
        self.call = face(self.warm)
        self.scanning = self.client(cache_bytes=0)

    def client(self, **settings: Any) -> Any:
        return self.make(clock=self.clock, index=INDEX, **settings)

    def current(self) -> list[str]:
        """Return what all of them show; the caches of the warm one are used."""
        shown = [
            [item.key for item in found]
            for client in (self.warm, self.scanning, self.client())
            for found in (
                client.recall(NS, refresh_ttl=False),
                sorted(client.search(NS, query="city", refresh_ttl=False), key=lambda item: item.key),
            )
        ]
        assert all(sorted(one) == sorted(shown[0]) for one in shown), shown
        return shown[0]


@pytest.fixture
def clients(make_any_store, face):
    return Clients(make_any_store, face)


@BACK
def test_the_last_word_is_current_and_stays_so(clients, back):
    call = clients.call
    call.remember(NS, "city Rome", key="rome", **CITY)
    assert clients.current() == ["rome"]
    clients.clock.advance(ms=-back)
    for city in ("oslo", "lima", "kyiv"):
        call.remember(NS, f"city {city}", key=city, **CITY)
        assert clients.current() == [city]
        clients.clock.advance(ms=10)
    for ms in (0, 1, back // 2, back, MINUTE, 24 * HOUR):
        clients.clock.advance(ms=ms)
        assert clients.current() == ["kyiv"]
        assert [item.key for item in call.history(NS, "rome")] == ["rome", "oslo", "lima", "kyiv"]
    call.remember(NS, "city Bonn", key="bonn", **CITY)
    assert clients.current() == ["bonn"]


@BACK
def test_a_chain_without_a_slot_keeps_its_order(clients, back):
    call = clients.call
    call.remember(NS, "city 1", key="a")
    for before, after in (("a", "b"), ("b", "c"), ("a", "d")):
        clients.clock.advance(ms=-back)
        call.supersede(NS, before, f"city {after}", new_key=after)
        assert clients.current() == [after]
    for ms in (back, back, back, 2 * back):
        clients.clock.advance(ms=ms)
        assert clients.current() == ["d"]
    assert [item.key for item in call.history(NS, "a")] == ["a", "b", "c", "d"]


@BACK
def test_another_client_that_saw_no_later_time_has_the_last_word_too(clients, back):
    clients.call.remember(NS, "city Rome", key="rome", **CITY)
    clients.clock.advance(ms=-back)
    clients.client().remember(NS, "city Oslo", key="oslo", **CITY)
    assert clients.current() == ["oslo"]
    clients.clock.advance(ms=2 * back)
    assert clients.current() == ["oslo"]


@BACK
@pytest.mark.parametrize("end", ["retire", "archive", "delete"])
def test_what_was_ended_stays_so(clients, back, end):
    clients.call.remember(NS, "city Rome", key="rome", **CITY)
    clients.call.supersede(NS, "rome", "city Oslo", new_key="oslo")
    getattr(clients.call, end)(NS, "oslo")
    assert clients.current() == []
    clients.clock.advance(ms=-back)
    assert clients.current() == []
    clients.call.remember(NS, "city Lima", key="lima", **CITY)
    assert clients.current() == ["lima"]
    getattr(clients.call, end)(NS, "lima")
    for ms in (0, back, MINUTE):
        clients.clock.advance(ms=ms)
        assert clients.current() == []


@BACK
def test_a_start_that_was_not_ahead_has_begun_for_every_reader(clients, back):
    clients.call.remember(NS, "city Rome", key="rome", valid_from="2000-01-01T00:00:00+00:00", **CITY)
    just_now = f"{_text(clients.clock.now - 1)}"
    clients.call.remember(NS, "city Oslo", key="oslo", valid_from=just_now, **CITY)
    assert clients.current() == ["oslo"]
    clients.clock.advance(ms=-back)
    assert clients.current() == ["oslo"]


@BACK
def test_a_plan_that_a_write_found_begun_has_begun_for_good(clients, back):
    clients.call.remember(NS, "city Rome", key="rome", **CITY)
    clients.call.remember(NS, "city Oslo", key="oslo", valid_from=_text(clients.clock.now + 2 * SECOND), **CITY)
    clients.clock.advance(ms=2 * SECOND)
    assert clients.current() == ["oslo"]
    clients.call.remember(NS, "city Lima", key="lima", **CITY)
    clients.call.retire(NS, "lima")
    clients.clock.advance(ms=-back)
    assert clients.current() == []
    clients.call.remember(NS, "city Kyiv", key="kyiv", **CITY)
    assert clients.current() == ["kyiv"]


@pytest.mark.parametrize("back", [1, SECOND, 4 * MINUTE])
def test_what_expired_stays_so_within_the_bound(clients, back):
    clients.call.remember(NS, "city Rome", key="rome", ttl=10, **CITY)
    clients.call.put(NS, "note", {"content": "city note"}, ttl=10)
    clients.clock.advance(minutes=10)
    for client in (clients.warm, clients.scanning):
        assert client.recall(NS) == []
    clients.clock.advance(ms=-back)
    for client in (clients.warm, clients.scanning):
        assert client.recall(NS, refresh_ttl=False) == []
        assert client.search(NS, query="city", refresh_ttl=False) == []
        assert client.get(NS, "note", refresh_ttl=False) is None


@pytest.mark.parametrize("back", [10 * MINUTE, HOUR])
def test_what_shows_again_beyond_the_bound_shows_alike_in_warm_and_cold_caches(clients, back):
    clients.call.put(NS, "note", {"content": "city note"}, ttl=1)
    clients.call.put(NS, "other", {"content": "city other"})
    assert clients.current() == ["other", "note"]
    clients.clock.advance(minutes=1)
    assert clients.current() == ["other"]
    clients.clock.advance(ms=-back)
    assert clients.current() == ["other", "note"]
    clients.clock.advance(ms=back)
    assert clients.current() == ["other"]


@pytest.mark.parametrize("back", [1, 500, 30 * SECOND])
def test_a_refresh_after_a_step_back_is_seen_by_a_warm_cache(make_any_store, back):
    clock = Clock()
    ttl = {"omit_expired": True, "refresh_on_read": True}
    warm, writer = (make_any_store(clock=clock, index=INDEX, ttl=ttl) for _ in range(2))
    writer.put(NS, "note", {"content": "city note"}, ttl=1)
    writer.put(NS, "other", {"content": "city other"})
    assert len(warm.search(NS, query="city", refresh_ttl=False)) == 2
    clock.advance(minutes=1)
    assert [item.key for item in warm.search(NS, query="city", refresh_ttl=False)] == ["other"]
    clock.advance(ms=-back)
    # For a client that saw no later time it lives, and is refreshed.
    fresh = make_any_store(clock=clock, index=INDEX, ttl=ttl)
    assert fresh.get(NS, "note") is not None
    clock.advance(ms=back)
    shown = [
        sorted(item.key for item in client.search(NS, query="city", refresh_ttl=False))
        for client in (warm, make_any_store(clock=clock, index=INDEX, ttl=ttl))
    ]
    assert shown == [["note", "other"]] * 2


def test_a_row_that_a_lenient_client_revives_is_seen_by_a_warm_cache(make_any_store):
    clock = Clock()
    strict = {"omit_expired": True, "refresh_on_read": True}
    warm = make_any_store(clock=clock, index=INDEX, ttl=strict)
    lenient = make_any_store(clock=clock, index=INDEX, ttl={"omit_expired": False, "refresh_on_read": True})
    warm.put(NS, "note", {"content": "city note"}, ttl=1)
    warm.put(NS, "other", {"content": "city other"})
    assert len(warm.search(NS, query="city")) == 2
    clock.advance(minutes=1, ms=SECOND)
    assert [item.key for item in warm.search(NS, query="city", refresh_ttl=False)] == ["other"]
    for revive in (
        lambda: lenient.get(NS, "note"),
        lambda: lenient.search(NS, query="city"),
        lambda: lenient.search(NS),
    ):
        revive()
        cold = make_any_store(clock=clock, index=INDEX, ttl=strict)
        for client in (warm, cold):
            assert client.get(NS, "note", refresh_ttl=False) is not None
            found = client.search(NS, query="city", refresh_ttl=False)
            assert sorted(item.key for item in found) == ["note", "other"]
        clock.advance(minutes=1, ms=SECOND)
        for client in (warm, cold):
            assert [item.key for item in client.search(NS, query="city", refresh_ttl=False)] == ["other"]


@BACK
def test_everything_in_redis_agrees_after_a_step(clients, back):
    call = clients.call
    call.remember(NS, "city Rome", key="rome", **CITY)
    clients.clock.advance(ms=-back)
    call.remember(NS, "city Oslo", key="oslo", valid_from=_text(clients.clock.now + back + HOUR), **CITY)
    call.remember(NS, "city Lima", key="lima", **CITY)
    call.undo_supersede(NS, "lima")
    call.delete(NS, "rome")
    with clients.make.server.client() as client:
        check_keys(client, clients.make.key_prefix)
    clients.clock.advance(ms=back + 2 * HOUR)
    assert clients.current() == ["oslo"]


def _text(ms: float) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).isoformat()
