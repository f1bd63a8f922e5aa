"""What held in the world at a moment, and what the store knew of it at another."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.support.memories_over_days import DAY_MINUTES, NS, Memories, chain, day

HOME = {"subject": "user", "attribute": "home"}
SETTINGS = pytest.mark.parametrize("settings", [{}, {"cache_bytes": 0}], ids=["near-cache", "scan"])


def told(lives: Memories) -> None:
    """Tell of homes: two as they come (days 10 and 30), and one (from day 20) that is told on day 40."""
    for number in (10, 30):
        lives.days.day(number)
        lives.call.remember(NS, f"home of day {number}", key=f"d{number}", **HOME)
    lives.days.day(40)
    lives.call.remember(NS, "home of day 20", key="d20", valid_from=day(20), **HOME)
    lives.days.day(50)


def asked(lives: Memories, how: str, **times: Any) -> list[str]:
    """Ask for current homes in one of the ways there are."""
    if how == "recall":
        return lives.keys(**times)
    if how == "query":
        return lives.keys("home of day", **times)
    given = {"$memory": {name: time.isoformat() for name, time in times.items()}}
    if how == "$and":
        given = {"$and": [{"$memory": {name: time}} for name, time in given["$memory"].items()]}
    query = "home of day" if how == "filter and query" else None
    return [item.key for item in lives.call.search(NS, filter=given, query=query)]


@pytest.mark.parametrize("how", ["recall", "query", "filter", "filter and query", "$and"])
@SETTINGS
def test_a_moment_in_the_world_and_a_moment_of_the_store_are_told_apart(make_store, face, how, settings):
    lives = Memories(make_store, face, **settings)
    told(lives)
    assert [asked(lives, how, as_of=day(n)) for n in (9, 10, 15, 20, 29, 30, 45)] == [
        [], ["d10"], ["d10"], ["d20"], ["d20"], ["d30"], ["d30"],
    ]  # fmt: skip
    # What holds on day 50, as it was known then.
    assert [asked(lives, how, known_at=day(n)) for n in (9, 10, 29, 30, 50)] == [[], ["d10"], ["d10"], ["d30"], ["d30"]]
    # Before day 40 nothing was known of day 20; before day 30 the home of day 10 was to last.
    assert asked(lives, how, as_of=day(25), known_at=day(39)) == ["d10"]
    assert asked(lives, how, as_of=day(25), known_at=day(40)) == ["d20"]
    assert asked(lives, how, as_of=day(35), known_at=day(15)) == ["d10"]


def test_history_tells_what_had_begun_and_what_was_known(memories):
    told(memories)
    call = memories.call
    assert [item.key for item in call.history(NS, "d10")] == ["d10", "d20", "d30"]
    assert [item.key for item in call.history(NS, "d10", as_of=day(25))] == ["d10", "d20"]
    assert [item.key for item in call.history(NS, "d10", known_at=day(35))] == ["d10", "d30"]
    assert [item.key for item in call.history(NS, "d10", as_of=day(25), known_at=day(35))] == ["d10"]
    assert call.history(NS, "d10", known_at=day(5)) == []


def test_status_is_judged_as_of_then(memories):
    told(memories)
    found = {
        status: sorted(memories.keys(as_of=day(25), status=status)) for status in ("active", "superseded", "archived")
    }
    assert found == {"active": ["d20"], "superseded": ["d10"], "archived": []}
    (item,) = memories.call.recall(NS, as_of=day(25))
    assert item.memory.status == "active"
    (item,) = memories.call.recall(NS, as_of=day(25), status="superseded")
    assert item.memory.status == "superseded"


def test_a_plain_recall_leaves_out_what_does_not_hold_yet_or_no_longer(memories):
    call = memories.call
    call.remember(NS, "later", key="later", valid_from=day(10))
    call.remember(NS, "until", key="until", valid_until=day(5))
    for number, keys in ((0, ["until"]), (4.99, ["until"]), (5, []), (9.99, []), (10, ["later"])):
        memories.days.day(number)
        assert memories.keys() == memories.keys("later until") == keys
        assert [item.key for item in call.search(NS)] == keys
    assert memories.keys(as_of=day(3)) == ["until"]


def test_archiving_happened_in_the_store_s_time(memories):
    call = memories.call
    call.remember(NS, "tea", key="k")
    memories.days.day(10)
    call.archive(NS, "k")
    memories.days.day(20)
    call.restore(NS, "k")
    memories.days.day(30)
    call.archive(NS, "k")
    memories.days.day(40)
    # `as_of` alone goes by what is archived today.
    assert memories.keys(as_of=day(5)) == []
    assert memories.keys(as_of=day(5), status="archived") == ["k"]
    known = {n: memories.keys(known_at=day(n)) for n in (0, 9, 10, 19, 20, 29, 30, 40)}
    assert known == {0: ["k"], 9: ["k"], 10: [], 19: [], 20: ["k"], 29: ["k"], 30: [], 40: []}
    assert memories.keys(known_at=day(15), status="archived") == ["k"]


def test_an_archiving_by_expiry_happened_in_the_store_s_time(memories):
    memories.call.remember(NS, "tea", key="k", memory_type="intent")
    memories.days.day(10)
    assert memories.keys() == []
    assert memories.keys(known_at=day(6)) == memories.keys("tea", known_at=day(6)) == ["k"]
    assert memories.keys(known_at=day(7)) == []
    assert memories.keys(known_at=day(7), status="archived") == ["k"]


def test_a_step_that_was_undone_is_still_what_was_known_between(memories):
    call = memories.call
    call.remember(NS, "old", key="old", **HOME)
    memories.days.day(10)
    call.supersede(NS, "old", "new", new_key="new")
    memories.days.day(20)
    call.undo_supersede(NS, "new")
    memories.days.day(30)
    assert memories.keys() == ["old"]
    assert [memories.keys(known_at=day(n)) for n in (5, 15, 25)] == [["old"], ["new"], ["old"]]


def test_a_put_over_a_superseded_memory_does_not_rewrite_what_was_known(lives):
    call = lives.call
    call.remember(NS, "old", key="old", **HOME)
    lives.days.day(10)
    call.supersede(NS, "old", "new", new_key="new")
    lives.days.day(20)
    call.put(NS, "old", {"content": "written over"})
    assert sorted(lives.keys()) == ["new", "old"]
    assert lives.keys(known_at=day(15)) == ["new"]
    assert lives.keys(known_at=day(15), status="superseded") == ["old"]
    assert lives.keys(as_of=day(15), known_at=day(5)) == ["old"]


@pytest.mark.parametrize("query", [None, "tea"])
@SETTINGS
def test_reads_of_another_time_count_no_access_and_slide_no_ttl(make_store, face, query, settings):
    lives = Memories(make_store, face, **settings)
    call = lives.call
    call.put(NS, "k", {"content": "tea"}, ttl=DAY_MINUTES)
    lives.days.day(0.5)
    for times in ({"as_of": day(0.2)}, {"known_at": day(0.2)}, {"as_of": day(0.2), "known_at": day(0.2)}):
        assert lives.keys(query, refresh_ttl=True, **times) == ["k"]
        given = {"$memory": {name: time.isoformat() for name, time in times.items()}}
        assert [item.key for item in call.search(NS, query=query, filter=given, refresh_ttl=True)] == ["k"]
        call.history(NS, "k", **times)
    call.audit(())
    call.flush()
    (item,) = call.history(NS, "k")
    assert (item.memory.access_count, item.memory.last_accessed_at, item.memory.expires_at) == (0, None, day(1))
    # A read of now does both.
    assert lives.keys("tea", refresh_ttl=True) == ["k"]
    call.flush()
    (item,) = call.history(NS, "k")
    assert (item.memory.access_count, item.memory.expires_at) == (1, day(1.5))


def test_what_has_expired_is_in_no_read_of_any_time(memories):
    memories.call.put(NS, "k", {"content": "tea"}, ttl=DAY_MINUTES)
    memories.days.day(2)
    assert memories.keys(as_of=day(0.5)) == memories.keys(known_at=day(0.5)) == memories.call.history(NS, "k") == []


def test_times_are_taken_as_texts_dates_and_datetimes_of_any_zone(lives):
    lives.call.remember(NS, "tea", key="k", valid_from=day(10))
    lives.days.day(20)
    east = timezone(timedelta(hours=8))
    same = [
        "2026-01-11", "2026-01-11T00:00:00Z", "2026-01-11T08:00:00+08:00", date(2026, 1, 11),
        datetime(2026, 1, 11, tzinfo=UTC), datetime(2026, 1, 11, 8, tzinfo=east),
    ]  # fmt: skip
    for moment in same:
        assert lives.keys(as_of=moment) == ["k"]
    for moment in ("2026-01-10T23:59:59.999Z", datetime(2026, 1, 11, 7, 59, tzinfo=east)):
        assert lives.keys(as_of=moment) == []


BAD = [
    "yesterday", "", "2026-13-01", "2026-01-01T00:00:00", datetime(2026, 1, 1),
    1_767_225_600_000, 1.5, True, ["2026-01-01"],
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_times_that_are_none_are_refused_by_name(lives, bad):
    call = lives.call
    call.remember(NS, "tea", key="k")
    calls = {
        "as_of": [
            lambda: call.recall(NS, as_of=bad), lambda: call.history(NS, "k", as_of=bad),
            lambda: call.search(NS, filter={"$memory": {"as_of": bad}}),
        ],
        "known_at": [
            lambda: call.recall(NS, "tea", known_at=bad), lambda: call.history(NS, "k", known_at=bad),
            lambda: call.search(NS, filter={"$memory": {"known_at": bad}}),
        ],
        "valid_from": [
            lambda: call.remember(NS, "x", valid_from=bad), lambda: call.supersede(NS, "k", "x", valid_from=bad),
            lambda: call.put(NS, "x", {"$memory": {"valid_from": bad}}),
        ],
        "valid_until": [
            lambda: call.remember(NS, "x", valid_until=bad), lambda: call.retire(NS, "k", valid_until=bad),
        ],
        "since": [lambda: call.audit((), since=bad)],
    }  # fmt: skip
    for name, refused in calls.items():
        for one in refused:
            with pytest.raises(ValueError, match=f"{name}.*must be an aware datetime or ISO 8601"):
                one()
    assert chain(call.recall(NS)) == [("k", "active", 0, None)]


def test_an_interval_that_ends_before_it_begins_is_refused(lives):
    call = lives.call
    for given in ({"valid_from": day(5), "valid_until": day(5)}, {"valid_until": day(-1)}):
        with pytest.raises(ValueError, match="valid_until must be after valid_from"):
            call.remember(NS, "x", key="k", **given)
    assert lives.keys(status=["active", "superseded"]) == []
