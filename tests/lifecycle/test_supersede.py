"""Slots and chains: what takes whose place, what a late fact does, how a step is undone, and what plain writes do."""

from __future__ import annotations

from typing import Any

import pytest

from langgraph_forgetful_store import IllegalTransitionError, VersionConflictError
from tests.support.memories_over_days import DAY_MINUTES, NS, Memories, chain, day, is_linear

HOME = {"subject": "user", "attribute": "home"}


def move(lives: Memories, *days: float) -> None:
    """Remember homes, one a day, by keys that say the day."""
    for number in days:
        lives.days.day(number)
        lives.call.remember(NS, f"home of day {number}", key=f"d{number}", **HOME)


def history(lives: Memories, key: str) -> list[Any]:
    items: list[Any] = lives.call.history(NS, key)
    assert is_linear(items)
    return items


def test_writing_to_an_occupied_slot_supersedes_and_joins_the_chain(memories):
    move(memories, 0, 5, 9)
    for key in ("d0", "d5", "d9"):
        assert chain(history(memories, key)) == [
            ("d0", "superseded", 0, 5), ("d5", "superseded", 5, 9), ("d9", "active", 9, None),
        ]  # fmt: skip
    first, *_, last = history(memories, "d5")
    assert (first.memory.reason, first.memory.retired_at, first.memory.version) == ("updated", day(5), 1)
    assert (last.memory.reason, last.memory.retired_at, last.memory.version) == (None, None, 3)
    assert memories.keys() == memories.keys("home of day") == ["d9"]
    assert sorted(memories.keys(status="superseded")) == ["d0", "d5"]
    assert memories.call.get(NS, "d0").memory.status == "superseded"


def test_slots_of_other_subjects_attributes_and_namespaces_are_others(lives):
    call = lives.call
    call.remember(NS, "one", key="one", **HOME)
    call.remember(NS, "two", key="two", subject="user", attribute="work")
    call.remember(NS, "three", key="three", subject="friend", attribute="home")
    call.remember((*NS, "deep"), "four", key="four", **HOME)
    # Joined, both would read alike.
    call.remember(NS, "five", key="five", subject="a", attribute="bc")
    call.remember(NS, "six", key="six", subject="ab", attribute="c")
    assert sorted(lives.keys()) == sorted(["one", "two", "three", "four", "five", "six"])


def test_the_same_key_is_written_over_in_place_also_where_it_holds_the_slot(memories):
    move(memories, 0)
    memories.days.day(3)
    again = memories.call.remember(NS, "corrected", key="d0", **HOME)
    assert (again.value, again.memory.version, again.created_at) == ({"content": "corrected"}, 2, day(0))
    assert chain(history(memories, "d0")) == [("d0", "active", 0, None)]


def test_naming_another_slot_frees_the_old_one(lives):
    call = lives.call
    move(lives, 0)
    call.remember(NS, "moved", key="d0", subject="user", attribute="office")
    call.remember(NS, "new home", key="new", **HOME)
    assert sorted(lives.keys()) == ["d0", "new"]
    call.remember(NS, "new office", key="office", subject="user", attribute="office")
    assert sorted(lives.keys()) == ["new", "office"]


def test_a_key_moves_from_its_own_slot_to_an_occupied_one(lives):
    call = lives.call
    call.remember(NS, "office", key="office", subject="user", attribute="office")
    move(lives, 1)
    lives.days.day(2)
    call.remember(NS, "works from home", key="office", valid_from=day(2), **HOME)
    assert chain(history(lives, "office")) == [("d1", "superseded", 1, 2), ("office", "active", 2, None)]
    call.remember(NS, "another office", key="other", subject="user", attribute="office")
    assert sorted(lives.keys()) == ["office", "other"]


def test_a_predecessor_that_is_written_anew_takes_the_head_s_place(lives):
    move(lives, 0, 5, 9)
    lives.days.day(20)
    lives.call.remember(NS, "back again", key="d5", valid_from=day(20), **HOME)
    assert chain(history(lives, "d0")) == [
        ("d0", "superseded", 0, 5), ("d9", "superseded", 9, 20), ("d5", "active", 20, None),
    ]  # fmt: skip


def test_a_successor_inherits_what_it_is_about_and_not_how_far_it_is_trusted(memories):
    call = memories.call
    old = {"memory_type": "intent", "tags": ["t"], "run_id": "run", "pinned": True, **HOME}
    call.remember(NS, "old", key="old", confidence=0.3, importance=0.9, source="user", preconditions=["p"], **old)
    new = call.supersede(NS, "old", "new", new_key="new").memory
    assert (new.memory_type, new.tags, new.run_id, new.pinned, new.subject, new.attribute) == (
        "intent", ("t",), "run", True, "user", "home",
    )  # fmt: skip
    assert (new.confidence, new.importance, new.source, new.preconditions) == (0.8, 0.5, None, ())
    assert new.version == 2
    again = call.supersede(NS, "old", "newer", source="database", tags=["u"], pinned=False, importance=0.7).memory
    assert (again.confidence, again.importance, again.tags, again.pinned) == (0.95, 0.7, ("u",), False)
    # Of the inherited type.
    assert again.expires_at == day(7)


def test_a_correction_keeps_its_source(lives):
    lives.call.remember(NS, "born in 1979", key="old")
    new = lives.call.supersede(
        NS, "old", "born in 1980", new_key="new", reason="corrected", source="user", source_refs=["message-7"]
    )
    assert (new.memory.source, new.memory.source_refs) == ("user", ("message-7",))
    assert lives.call.get(NS, "old").memory.reason == "corrected"


def test_superseding_a_superseded_memory_goes_on_from_the_head(memories):
    call = memories.call
    call.remember(NS, "one", key="one")
    call.supersede(NS, "one", "two", new_key="two")
    call.supersede(NS, "one", "three", new_key="three")
    assert [item.key for item in history(memories, "two")] == ["one", "two", "three"]
    assert memories.keys() == ["three"]


def test_an_expected_version_is_that_of_the_head(memories):
    call = memories.call
    call.remember(NS, "one", key="one")
    call.supersede(NS, "one", "two", new_key="two", expected_version=1)
    before = history(memories, "one")
    for wrong in (1, 3):
        with pytest.raises(VersionConflictError, match=r"expected_version.*'two'.*version 2"):
            call.supersede(NS, "one", "three", new_key="three", expected_version=wrong)
    with pytest.raises(ValueError, match="expected_version"):
        call.supersede(NS, "one", "three", expected_version=True)
    assert [item.memory for item in history(memories, "one")] == [item.memory for item in before]
    assert call.get(NS, "three") is None
    assert call.supersede(NS, "one", "three", new_key="three", expected_version=2).memory.version == 3


def test_a_new_key_that_exists_is_refused(memories):
    call = memories.call
    for key in ("one", "other"):
        call.remember(NS, key, key=key)
    for key in ("one", "other"):
        with pytest.raises(ValueError, match="new_key"):
            call.supersede(NS, "one", "two", new_key=key)
    assert sorted(memories.texts()) == ["one", "other"]


def test_a_late_fact_is_inserted_where_it_belongs_and_the_head_stays(memories):
    call = memories.call
    move(memories, 10, 20)
    memories.days.day(30)
    late = call.remember(NS, "between", key="late", valid_from=day(15), **HOME)
    assert (late.memory.status, late.memory.reason, late.memory.recorded_at) == ("superseded", "updated", day(30))
    call.supersede(NS, "d10", "first", new_key="first", valid_from=day(1))
    assert chain(history(memories, "d20")) == [
        ("first", "superseded", 1, 10), ("d10", "superseded", 10, 15), ("late", "superseded", 15, 20),
        ("d20", "active", 20, None),
    ]  # fmt: skip
    assert memories.keys() == memories.keys("home") == ["d20"]
    assert [memories.keys(as_of=day(n)) for n in (0, 1, 10, 15, 20)] == [[], ["first"], ["d10"], ["late"], ["d20"]]


def test_a_fact_that_ended_before_what_holds_began_leaves_a_gap(lives):
    move(lives, 10)
    lives.call.remember(NS, "short", key="short", valid_from=day(1), valid_until=day(2), **HOME)
    # It is dated, and in no line.
    assert chain(lives.call.history(NS, "d10")) == [("short", "active", 1, 2), ("d10", "active", 10, None)]
    assert lives.keys() == ["d10"]
    assert lives.keys(as_of=day(1.5)) == ["short"]
    assert lives.keys(as_of=day(5)) == []


@pytest.mark.parametrize("settings", [{}, {"cache_bytes": 0}], ids=["near-cache", "scan"])
def test_a_future_fact_leaves_the_old_one_current_until_then(make_store, face, settings):
    memories = Memories(make_store, face, **settings)
    move(memories, 0)
    assert memories.keys("home") == ["d0"]
    new = memories.call.supersede(NS, "d0", "home of day 50", new_key="new", valid_from=day(50))
    assert new.memory.valid_from == day(50)
    for number, current in ((1, "d0"), (49.999, "d0"), (50, "new"), (60, "new")):
        memories.days.day(number)
        assert memories.keys() == memories.keys("home of day") == [current]
        assert [item.key for item in memories.call.search(NS)] == [current]
        assert memories.call.get(NS, current).memory.status == "active"
        other = {"d0": "new", "new": "d0"}[current]
        if number >= 50:
            assert memories.keys(status="superseded") == [other]
            assert memories.call.get(NS, other).memory.status == "superseded"


def test_an_archived_head_keeps_its_slot_and_is_superseded_by_a_write_to_it(memories):
    move(memories, 0)
    memories.call.archive(NS, "d0")
    move(memories, 7)
    assert chain(history(memories, "d0")) == [("d0", "superseded", 0, 7), ("d7", "active", 7, None)]
    assert memories.keys(status="archived") == []


def test_a_retired_head_leaves_a_gap_before_its_successor(memories):
    move(memories, 0)
    memories.call.retire(NS, "d0", valid_until=day(3))
    memories.days.day(8)
    memories.call.supersede(NS, "d0", "new", new_key="new")
    assert chain(history(memories, "new")) == [("d0", "superseded", 0, 3), ("new", "active", 8, None)]
    assert memories.call.get(NS, "d0").memory.reason == "negated"
    assert memories.keys(as_of=day(5)) == []


def test_undoing_a_step_in_a_slot_reopens_the_old_row_and_archives_the_new_one(memories):
    call = memories.call
    move(memories, 0, 5)
    memories.days.day(6)
    with pytest.raises(IllegalTransitionError, match="d5"):
        call.undo_supersede(NS, "d0")
    reopened = call.undo_supersede(NS, "d5")
    assert chain([reopened]) == [("d0", "active", 0, None)]
    assert (reopened.memory.reason, reopened.memory.retired_at) == (None, None)
    assert memories.keys() == ["d0"]
    assert call.get(NS, "d5").memory.status == "archived"
    assert [item.key for item in history(memories, "d0")] == ["d0"]
    with pytest.raises(IllegalTransitionError):
        call.undo_supersede(NS, "d5")
    move(memories, 9)
    assert chain(history(memories, "d0")) == [("d0", "superseded", 0, 9), ("d9", "active", 9, None)]


def test_undoing_a_step_without_a_slot_leaves_both_current(memories):
    memories.call.remember(NS, "one", key="one", valid_until=day(100))
    memories.call.supersede(NS, "one", "two", new_key="two", valid_from=day(3))
    assert memories.call.undo_supersede(NS, "two").memory.valid_until == day(100)
    memories.days.day(4)
    assert sorted(memories.keys()) == ["one", "two"]
    for key in ("one", "two"):
        assert [item.key for item in history(memories, key)] == [key]


def test_a_put_over_a_memory_keeps_what_it_does_not_name(memories):
    call = memories.call
    call.remember(
        NS, "old", key="k", memory_type="opinion", importance=0.9, confidence=0.4, source="user", tags=["t"],
        run_id="run", ttl=None, **HOME,
    )  # fmt: skip
    call.get(NS, "k")
    call.flush()
    memories.days.day(2)
    call.put(NS, "k", {"content": "new", "$memory": {"importance": 0.2}})
    item = call.history(NS, "k")[0]
    memory = item.memory
    assert (item.value, item.created_at, item.updated_at) == ({"content": "new"}, day(0), day(2))
    assert (memory.memory_type, memory.importance, memory.confidence, memory.source) == ("opinion", 0.2, 0.4, "user")
    assert (memory.tags, memory.run_id, memory.subject, memory.attribute) == (("t",), "run", "user", "home")
    assert (memory.recorded_at, memory.valid_from, memory.access_count, memory.version) == (day(0), day(0), 1, 2)


@pytest.mark.parametrize("patch", [{}, {"$memory": {"pinned": False}}], ids=["put script", "plan"])
def test_a_put_over_a_chain_s_member_takes_it_out_and_joins_its_neighbours(memories, patch):
    move(memories, 0, 5, 9)
    memories.days.day(12)
    memories.call.put(NS, "d5", {"content": "something else", **patch})
    assert chain(history(memories, "d9")) == [("d0", "superseded", 0, 5), ("d9", "active", 9, None)]
    (alone,) = history(memories, "d5")
    # Its slot is another's now.
    assert (alone.memory.status, alone.memory.subject, alone.memory.valid_until) == ("active", None, None)
    assert sorted(memories.keys()) == ["d5", "d9"]
    memories.call.put(NS, "d9", {"content": "the head", **patch})
    # What holds keeps its place.
    assert chain(history(memories, "d9")) == [("d0", "superseded", 0, 5), ("d9", "active", 9, None)]
    move(memories, 20)
    assert [item.key for item in history(memories, "d20")] == ["d0", "d9", "d20"]


@pytest.mark.parametrize("patch", [{}, {"$memory": {"pinned": False}}], ids=["put script", "plan"])
def test_a_put_over_an_archived_or_retired_memory_opens_it_again(memories, patch):
    call = memories.call
    for key in ("archived", "retired"):
        call.remember(NS, "old", key=key, subject=key, attribute="a")
    call.archive(NS, "archived")
    call.retire(NS, "retired")
    memories.days.day(1)
    for key in ("archived", "retired"):
        call.put(NS, key, {"content": "new", **patch})
        (item,) = history(memories, key)
        assert (item.memory.status, item.memory.reason, item.memory.retired_at) == ("active", None, None)
        assert (item.memory.valid_until, item.memory.subject) == (None, key)
    assert sorted(memories.keys()) == ["archived", "retired"]


def test_a_put_over_an_expired_memory_is_a_new_one(memories):
    call = memories.call
    call.remember(NS, "old", key="k", importance=0.9, tags=["t"], ttl=DAY_MINUTES, **HOME)
    memories.days.day(1)
    call.put(NS, "k", {"content": "new"})
    (item,) = history(memories, "k")
    assert (item.created_at, item.memory.version, item.memory.importance) == (day(1), 1, 0.5)
    assert (item.memory.tags, item.memory.subject) == ((), None)
    move(memories, 2)
    assert sorted(memories.keys()) == ["d2", "k"]


def test_deleting_a_middle_row_joins_its_neighbours_and_leaves_a_gap(memories):
    move(memories, 0, 5, 9)
    memories.call.delete(NS, "d5")
    assert chain(history(memories, "d0")) == [("d0", "superseded", 0, 5), ("d9", "active", 9, None)]
    assert memories.keys(as_of=day(7)) == []


def test_deleting_the_head_frees_the_slot_and_reopens_nothing(memories):
    move(memories, 0, 5)
    memories.call.delete(NS, "d5")
    assert chain(history(memories, "d0")) == [("d0", "superseded", 0, 5)]
    assert memories.keys() == []
    move(memories, 8)
    assert chain(history(memories, "d8")) == [("d0", "superseded", 0, 5), ("d8", "active", 8, None)]
    assert memories.keys(as_of=day(6)) == []


def test_a_slot_whose_holder_has_expired_is_free(memories):
    memories.call.remember(NS, "old", key="old", ttl=DAY_MINUTES, **HOME)
    memories.days.day(1)
    assert memories.keys() == []
    move(memories, 2)
    assert chain(history(memories, "d2")) == [("d2", "active", 2, None)]
    memories.call.sweep_ttl()
    move(memories, 3)
    assert memories.keys() == ["d3"]


@pytest.mark.parametrize("names_slot", [False, True])
def test_a_row_that_is_written_over_with_another_start_finds_its_place_in_its_slot(memories, names_slot):
    call = memories.call
    call.remember(NS, "to come", key="a", valid_from=day(1), **HOME)
    call.remember(NS, "now", key="d", **HOME)
    call.remember(NS, "long ago", key="a", valid_from=day(-8), **(HOME if names_slot else {}))
    assert memories.keys() == ["d"]
    assert [item.key for item in call.history(NS, "d")] == ["a", "d"]
    assert call.remember(NS, "later", key="n", **HOME).memory.supersedes == "d"
    assert memories.keys() == ["n"]


@pytest.mark.parametrize("to_come", ["Bob", "Robert"])
def test_names_that_become_one_have_one_current_row_also_where_one_is_to_come(memories, to_come):
    call, days = memories.call, memories.days
    names = {name: {"subject": name, "attribute": "desk"} for name in ("Bob", "Robert")}
    (other,) = set(names) - {to_come}
    call.remember(NS, "second floor", key="now", **names[to_come])
    call.remember(NS, "third floor", key="to come", valid_from=day(2), **names[to_come])
    days.day(1)
    call.remember(NS, "fourth floor", key="other", **names[other])
    before = {key: call.get(NS, key).memory.valid_until for key in ("now", "to come", "other")}
    assert sorted(memories.keys()) == ["now", "other"]
    call.alias(NS, "Robert", "Bob")
    for moment in (1, 1.5, 2, 3):
        days.day(moment)
        assert len(memories.keys()) == 1, moment
    days.day(1.5)
    call.unalias(NS, "Bob")
    assert {key: call.get(NS, key).memory.valid_until for key in before} == before
    assert sorted(memories.keys()) == ["now", "other"]


def test_what_is_said_again_in_its_slot_counts_on_from_what_it_follows(memories):
    versions = []
    for number, key in enumerate("abab"):
        memories.days.day(number)
        versions.append(memories.call.remember(NS, f"home of day {number}", key=key, **HOME).memory.version)
    assert versions == [1, 2, 3, 4]
