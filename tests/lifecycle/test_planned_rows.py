"""Rows whose validity is still to begin: what is done to them changes the plan, and nothing that holds now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from langgraph_forgetful_store import IllegalTransitionError
from tests.support.memories_over_days import NS, Memories, chain, day

CITY = {"subject": "ana", "attribute": "city"}
Change = Callable[[Memories], Any]


def moving(lives: Memories) -> Memories:
    """Tell on day 0 where somebody lives, and that they will move on day 5."""
    lives.call.remember(NS, "lives in Rome", key="rome", **CITY)
    lives.call.remember(NS, "will live in Oslo", key="oslo", valid_from=day(5), **CITY)
    assert now_and_then(lives) == (["rome"], ["oslo"])
    return lives


def now_and_then(lives: Memories) -> tuple[list[str], list[str]]:
    """Return what is current, and what is to be on the day of the move."""
    return lives.keys(), lives.keys(as_of=day(5))


def of_others(lives: Memories) -> None:
    """Check that clients which have cached nothing, or cache nothing, see the same."""
    for settings in ({}, {"cache_bytes": 0}):
        other = lives.make(**{**lives.settings, **settings})
        assert [item.key for item in other.recall(NS)] == lives.keys()
        assert sorted(item.key for item in other.search(NS, query="lives")) == sorted(lives.keys())


IN_PLACE: dict[str, Change] = {
    "put": lambda lives: lives.call.put(NS, "oslo", {"content": "will live in Oslo, Frogner"}),
    "remember": lambda lives: lives.call.remember(NS, "will live in Oslo, Frogner", key="oslo"),
    "remember in its slot": lambda lives: lives.call.remember(NS, "will live in Oslo, Frogner", key="oslo", **CITY),
    "a put of the same value twice": lambda lives: [
        lives.call.put(NS, "oslo", {"content": "will live in Oslo, Frogner"}) for _ in range(2)
    ],
}
WORDS: dict[str, Change] = {
    "remember": lambda lives: lives.call.remember(NS, "lives in Pisa", key="pisa", **CITY),
    "supersede": lambda lives: lives.call.supersede(NS, "rome", "lives in Pisa", new_key="pisa"),
    "two of them": lambda lives: [
        lives.call.remember(NS, "lives in Bari", key="bari", **CITY),
        lives.call.remember(NS, "lives in Pisa", key="pisa", **CITY),
    ],
    "a start at once": lambda lives: lives.call.remember(NS, "in Pisa", key="pisa", valid_from=day(0), **CITY),
}


@pytest.mark.parametrize("edit", [pytest.param(edit, id=name) for name, edit in IN_PLACE.items()])
@pytest.mark.parametrize("word", [pytest.param(word, id=name) for name, word in WORDS.items()])
def test_a_plan_that_is_edited_stays_a_plan_beside_what_is_said_now(lives, edit, word):
    moving(lives)
    edit(lives)
    assert now_and_then(lives) == (["rome"], ["oslo"])
    word(lives)
    assert now_and_then(lives) == (["pisa"], ["oslo"])
    of_others(lives)
    lives.days.day(5)
    assert lives.texts() == ["will live in Oslo, Frogner"]
    of_others(lives)
    assert lives.call.get(NS, "pisa").memory.valid_until == day(5)


@pytest.mark.parametrize("names", [("robert", "bob"), ("bob", "robert")])
@pytest.mark.parametrize("word", ["remember", "remember the other", "supersede"])
def test_names_joined_over_a_plan_leave_one_current_row(lives, names, word):
    call = lives.call
    call.remember(NS, "Bob lives in Rome", key="rome", subject="bob", attribute="city")
    call.remember(NS, "Robert will live in Oslo", key="oslo", subject="robert", attribute="city", valid_from=day(5))
    call.alias(NS, *names)
    assert now_and_then(lives) == (["rome"], ["oslo"])
    if word == "supersede":
        call.supersede(NS, "rome", "Bob lives in Pisa", new_key="pisa")
    else:
        subject = "robert" if word == "remember" else "bob"
        call.remember(NS, "Bob lives in Pisa", key="pisa", subject=subject, attribute="city")
    assert now_and_then(lives) == (["pisa"], ["oslo"])
    of_others(lives)
    lives.days.day(5)
    assert lives.keys() == ["oslo"]
    of_others(lives)


GIVEN_UP: dict[str, Change] = {
    "retired": lambda lives: lives.call.retire(NS, "oslo"),
    "archived": lambda lives: lives.call.archive(NS, "oslo"),
    "deleted": lambda lives: lives.call.delete(NS, "oslo"),
    "corrected, and that retired": lambda lives: [
        lives.call.supersede(NS, "oslo", "will live in Bergen", new_key="bergen"),
        lives.call.retire(NS, "bergen"),
    ],
    "edited, then archived": lambda lives: [
        lives.call.put(NS, "oslo", {"content": "will live in Oslo, Frogner"}),
        lives.call.archive(NS, "oslo"),
    ],
}


@pytest.mark.parametrize("give_up", [pytest.param(one, id=name) for name, one in GIVEN_UP.items()])
def test_a_plan_that_is_given_up_leaves_its_day_to_what_held(memories, give_up):
    moving(memories)
    give_up(memories)
    assert now_and_then(memories) == (["rome"], ["rome"])
    of_others(memories)
    memories.days.day(9)
    assert memories.keys() == ["rome"]
    of_others(memories)
    assert memories.call.get(NS, "rome").memory.valid_until is None


@pytest.mark.parametrize("give_up", [pytest.param(one, id=name) for name, one in GIVEN_UP.items()])
def test_a_plan_given_up_between_two_others_cuts_neither(lives, give_up):
    moving(lives)
    lives.call.remember(NS, "will live in Kyiv", key="kyiv", valid_from=day(8), **CITY)
    give_up(lives)
    assert [lives.keys(as_of=day(n)) for n in (1, 5, 7, 8, 20)] == [["rome"]] * 3 + [["kyiv"]] * 2
    lives.days.day(8)
    assert lives.keys() == ["kyiv"]
    of_others(lives)


def test_an_archived_plan_that_is_restored_is_a_plan_again(lives):
    moving(lives)
    lives.call.archive(NS, "oslo")
    lives.days.day(2)
    lives.call.restore(NS, "oslo")
    assert now_and_then(lives) == (["rome"], ["oslo"])
    lives.days.day(5)
    assert lives.keys() == ["oslo"]


def test_an_archived_plan_that_is_restored_after_its_day_holds_from_its_day_on(lives):
    moving(lives)
    lives.call.archive(NS, "oslo")
    lives.days.day(7)
    assert lives.keys() == ["rome"]
    lives.call.restore(NS, "oslo")
    assert lives.keys() == ["oslo"]
    of_others(lives)


def test_an_archived_plan_that_is_restored_after_a_later_word_is_history(lives):
    moving(lives)
    lives.call.archive(NS, "oslo")
    lives.days.day(7)
    lives.call.remember(NS, "lives in Pisa", key="pisa", **CITY)
    lives.call.restore(NS, "oslo")
    assert lives.keys() == ["pisa"]
    of_others(lives)


@pytest.mark.parametrize("reason", ["updated", "corrected"])
def test_a_corrected_plan_changes_the_plan_alone(memories, reason):
    moving(memories)
    made = memories.call.supersede(NS, "oslo", "will live in Bergen", new_key="bergen", reason=reason)
    assert made.memory.valid_from == day(5)
    assert now_and_then(memories) == (["rome"], ["bergen"])
    of_others(memories)
    memories.days.day(5)
    assert memories.keys() == ["bergen"]
    of_others(memories)
    assert memories.call.get(NS, "rome").memory.valid_until == day(5)
    assert str(memories.call.get(NS, "oslo").memory.status) == "superseded"


def test_a_plan_is_corrected_again_and_again(lives):
    moving(lives)
    for before, after in (("oslo", "bergen"), ("bergen", "bodo"), ("bodo", "molde")):
        assert lives.call.supersede(NS, before, after, new_key=after).memory.valid_from == day(5)
        assert now_and_then(lives) == (["rome"], [after])
    assert lives.call.get(NS, "molde").memory.version == lives.call.get(NS, "oslo").memory.version + 3
    lives.days.day(6)
    assert lives.keys() == ["molde"]
    of_others(lives)


def test_undo_of_a_correction_gives_the_plan_back(lives):
    moving(lives)
    lives.call.supersede(NS, "oslo", "will live in Bergen", new_key="bergen")
    assert lives.call.undo_supersede(NS, "bergen").key == "oslo"
    assert now_and_then(lives) == (["rome"], ["oslo"])
    lives.days.day(5)
    assert lives.keys() == ["oslo"]


def test_undo_refuses_a_plan_that_corrected_nothing(lives):
    moving(lives)
    with pytest.raises(IllegalTransitionError):
        lives.call.undo_supersede(NS, "oslo")
    assert now_and_then(lives) == (["rome"], ["oslo"])


@pytest.mark.parametrize("to", [2, 12])
def test_a_named_start_moves_a_plan(lives, to):
    moving(lives)
    lives.call.supersede(NS, "oslo", "will live in Bergen", new_key="bergen", valid_from=day(to))
    held = [["rome"] if n < to else ["bergen"] for n in (1, 2, 4, 5, 11, 12)]
    assert [lives.keys(as_of=day(n)) for n in (1, 2, 4, 5, 11, 12)] == held
    lives.days.day(to)
    assert lives.keys() == ["bergen"]
    of_others(lives)


def test_a_plan_moved_to_the_past_holds_since_then(lives):
    lives.days.day(3)
    moving(lives)
    lives.days.day(4)
    lives.call.supersede(NS, "oslo", "lives in Oslo", new_key="since", valid_from=day(3.5))
    assert lives.keys() == ["since"]
    assert [lives.keys(as_of=day(n)) for n in (3.2, 3.7, 6)] == [["rome"], ["since"], ["since"]]


@pytest.mark.parametrize("edit", ["put", "remember", "confirm", "pin"])
def test_what_holds_is_edited_beside_a_plan(lives, edit):
    moving(lives)
    lives.days.day(1)
    if edit == "put":
        lives.call.put(NS, "rome", {"content": "lives in Rome, Trastevere"})
    elif edit == "remember":
        lives.call.remember(NS, "lives in Rome, Trastevere", key="rome", **CITY)
    else:
        getattr(lives.call, edit)(NS, "rome")
    assert now_and_then(lives) == (["rome"], ["oslo"])
    assert (lives.call.get(NS, "rome").memory.valid_from, lives.call.get(NS, "rome").memory.valid_until) == (
        day(0),
        day(5),
    )
    lives.days.day(5)
    assert lives.keys() == ["oslo"]
    of_others(lives)


@pytest.mark.parametrize("end", ["retire", "archive", "delete"])
def test_what_holds_ends_and_the_plan_stays(lives, end):
    moving(lives)
    lives.days.day(1)
    getattr(lives.call, end)(NS, "rome")
    assert now_and_then(lives) == ([], ["oslo"])
    lives.days.day(5)
    assert lives.keys() == ["oslo"]
    of_others(lives)


def test_a_plan_is_found_by_history_and_by_its_day_and_not_by_a_recall(memories):
    moving(memories)
    call = memories.call
    assert [item.key for item in call.search(NS, query="Oslo")] == ["rome"]
    assert memories.keys(run_id="any") == ["rome"]
    assert memories.keys(status=["active", "archived", "superseded"]) == ["rome"]
    assert chain(call.history(NS, "rome")) == [("rome", "active", 0, 5), ("oslo", "active", 5, None)]
    assert chain(call.history(NS, "oslo")) == chain(call.history(NS, "rome"))
    memories.days.day(5)
    assert chain(call.history(NS, "rome")) == [("rome", "superseded", 0, 5), ("oslo", "active", 5, None)]


def test_a_start_within_a_second_is_now(lives):
    seconds = 1 / 86_400
    lives.call.remember(NS, "lives in Rome", key="rome", **CITY)
    lives.call.remember(NS, "lives in Oslo", key="oslo", valid_from=day(seconds), **CITY)
    assert lives.keys() == ["oslo"]
    lives.call.remember(NS, "will live in Pisa", key="pisa", valid_from=day(1.5 * seconds), **CITY)
    assert lives.keys() == ["oslo"]
    of_others(lives)
    lives.days.day(2 * seconds)
    assert lives.keys() == ["pisa"]
    of_others(lives)


def test_the_ttl_of_a_plan_counts_from_its_start(lives):
    lives.call.remember(NS, "lives in Rome", key="rome", **CITY)
    lives.call.remember(NS, "at a hotel in Oslo", key="oslo", valid_from=day(5), ttl=1440, **CITY)
    lives.days.day(5.9)
    assert lives.keys(refresh_ttl=False) == ["oslo"]
    lives.days.day(6)
    assert lives.keys(refresh_ttl=False) == []
    of_others(lives)


def test_a_plan_without_a_slot_follows_its_chain(lives):
    lives.call.remember(NS, "shop opens at 9", key="nine")
    lives.call.supersede(NS, "nine", "shop opens at 10", new_key="ten", valid_from=day(5))
    assert now_and_then(lives) == (["nine"], ["ten"])
    lives.call.put(NS, "ten", {"content": "shop opens at 10 sharp"})
    assert now_and_then(lives) == (["nine"], ["ten"])
    lives.call.supersede(NS, "ten", "shop opens at 11", new_key="eleven")
    assert now_and_then(lives) == (["nine"], ["eleven"])
    lives.call.supersede(NS, "nine", "shop opens at 8", new_key="eight")
    assert now_and_then(lives) == (["eight"], ["eleven"])
    of_others(lives)
    lives.days.day(5)
    assert lives.keys() == ["eleven"]
    of_others(lives)
    assert {item.key for item in lives.call.history(NS, "nine")} == {"nine", "eight", "ten", "eleven"}


def test_a_plan_of_a_run_is_a_plan_of_that_run(lives):
    lives.call.remember(NS, "budget is 10", key="all", subject="trip", attribute="budget")
    lives.call.remember(NS, "budget is 20", key="run", subject="trip", attribute="budget", run_id="r1")
    lives.call.remember(
        NS, "budget is 30", key="then", subject="trip", attribute="budget", run_id="r1", valid_from=day(5)
    )
    assert (lives.keys(), lives.keys(run_id="r1"), lives.keys(run_id="r2")) == (["all"], ["run"], ["all"])
    lives.call.retire(NS, "then")
    lives.days.day(5)
    assert (lives.keys(), lives.keys(run_id="r1")) == (["all"], ["run"])
    lives.call.end_run(NS, "r1")
    assert (lives.keys(), lives.keys(run_id="r1")) == (["all"], ["all"])
    of_others(lives)


@pytest.mark.parametrize("order", [("near", "far"), ("far", "near")])
def test_two_plans_follow_one_another(memories, order):
    days = {"near": 5, "far": 9}
    memories.call.remember(NS, "lives in Rome", key="rome", **CITY)
    for key in order:
        memories.call.remember(NS, f"will live {key}", key=key, valid_from=day(days[key]), **CITY)
    moments = (0, 4.9, 5, 8.9, 9, 20)
    held = [["rome"], ["rome"], ["near"], ["near"], ["far"], ["far"]]
    assert [memories.keys(as_of=day(n)) for n in moments] == held
    assert [until for *_, until in chain(memories.call.history(NS, "rome"))] == [5, 9, None]
    for number, keys in zip(moments, held, strict=True):
        memories.days.day(number)
        assert memories.keys() == keys
        of_others(memories)


def test_of_two_plans_for_one_day_the_last_said_holds(lives):
    moving(lives)
    lives.call.remember(NS, "will live in Bergen", key="bergen", valid_from=day(5), **CITY)
    assert now_and_then(lives) == (["rome"], ["bergen"])
    lives.days.day(5)
    assert lives.keys() == ["bergen"]
    of_others(lives)


def test_a_plan_archived_before_its_day_and_retired_after_it_has_held_nowhere(lives):
    moving(lives)
    lives.call.archive(NS, "oslo")
    lives.days.day(7)
    lives.call.retire(NS, "oslo")
    assert [lives.keys(as_of=day(n)) for n in (4, 5, 6, 8)] == [["rome"]] * 4


def test_a_plan_corrected_to_begin_now_holds_on_its_former_day_too(lives):
    moving(lives)
    lives.days.day(1)
    lives.call.supersede(NS, "oslo", "lives in Oslo", new_key="at-once", valid_from=day(1))
    assert now_and_then(lives) == (["at-once"], ["at-once"])
    lives.days.day(6)
    assert lives.keys() == ["at-once"]
    of_others(lives)


def test_forget_takes_what_holds_what_is_planned_and_what_was(memories):
    memories.call.remember(NS, "lived in Bonn", key="bonn", **CITY)
    memories.days.day(1)
    moving(memories)
    memories.call.supersede(NS, "oslo", "will live in Bergen", new_key="bergen")
    receipt = memories.call.forget(NS, "rome", byte_scan=True)
    assert (receipt.erased["memories"], receipt.residue) == (4, ())
    assert memories.keys(status=["active", "archived", "superseded"]) == []
    for key in ("bonn", "rome", "oslo", "bergen"):
        assert memories.call.get(NS, key) is None
    memories.days.day(9)
    assert memories.keys() == []
