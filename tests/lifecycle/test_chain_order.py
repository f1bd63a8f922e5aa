"""Chains and lines whose members expire, go, or are written over: no circle, nothing lost, no gap filled."""

from __future__ import annotations

import pytest

from tests.support.memories_over_days import DAY_MINUTES, NS, Memories, chain, day

CITY = {"subject": "ana", "attribute": "city"}
SLOTS = pytest.mark.parametrize("slot", [{}, CITY], ids=["chain", "slot"])


def said(lives: Memories, *keys: str, ttls: dict[str, float] | None = None, **slot: str) -> None:
    """Say one after the other, a day apart; each replaces the one before."""
    for number, key in enumerate(keys):
        lives.days.day(number)
        ttl = {"ttl": ttls[key]} if ttls and key in ttls else {}
        if number == 0:
            lives.call.remember(NS, key, key=key, **slot, **ttl)
        else:
            lives.call.supersede(NS, keys[number - 1], key, new_key=key, **ttl)


def family(lives: Memories, key: str) -> list[str]:
    return [item.key for item in lives.call.history(NS, key)]


@SLOTS
@pytest.mark.parametrize("sweeps", [False, True], ids=["unswept", "swept"])
@pytest.mark.parametrize("named", ["a", "b", "c"])
def test_the_key_of_an_expired_member_names_a_new_one(lives, slot, sweeps, named):
    said(lives, "a", "b", "c", "d", ttls={named: 2 * 1440 * (1 + "abc".index(named))}, **slot)
    lives.days.day(20)
    if sweeps:
        lives.call.sweep_ttl()
    left = [key for key in "abcd" if key != named]
    assert family(lives, "d") == left
    lives.call.supersede(NS, "d", "again", new_key=named)
    assert lives.keys() == [named]
    for key in [*left, named]:
        assert family(lives, key) == [*left, named]
    receipt = lives.call.forget(NS, named, byte_scan=True)
    assert (receipt.erased["memories"], receipt.residue) == (4, ())
    assert [lives.call.get(NS, key) for key in "abcd"] == [None] * 4


@SLOTS
def test_the_key_of_an_expired_head_names_a_new_one(lives, slot):
    said(lives, "a", "b", "c", ttls={"c": 10}, **slot)
    lives.days.day(9)
    assert lives.keys() == []
    lives.call.supersede(NS, "b", "again", new_key="c")
    assert (lives.keys(), family(lives, "a")) == (["c"], ["a", "b", "c"])
    assert chain(lives.call.history(NS, "a"))[-1] == ("c", "active", 9, None)


def test_remember_with_the_key_of_an_expired_member_of_its_slot(lives):
    said(lives, "a", "b", "c", ttls={"b": 2000}, **CITY)
    lives.days.day(9)
    lives.call.remember(NS, "again", key="b", **CITY)
    assert (lives.keys(), family(lives, "b")) == (["b"], ["a", "c", "b"])


@SLOTS
@pytest.mark.parametrize("how", ["delete", "expiry", "expiry, unswept"])
def test_what_goes_from_the_middle_leaves_a_gap(lives, slot, how):
    said(lives, "a", "b", "c", ttls={} if how == "delete" else {"b": 3 * 1440}, **slot)
    lives.days.day(9)
    if how == "delete":
        lives.call.delete(NS, "b")
    elif how == "expiry":
        lives.call.sweep_ttl()
    assert chain(lives.call.history(NS, "a")) == [("a", "superseded", 0, 1), ("c", "active", 2, None)]
    assert [lives.keys(as_of=day(n)) for n in (0.5, 1.5, 2.5)] == [["a"], [], ["c"]]


@SLOTS
@pytest.mark.parametrize("how", ["delete", "expiry", "expiry, unswept"])
def test_a_head_that_goes_reopens_nothing(lives, slot, how):
    said(lives, "a", "b", ttls={} if how == "delete" else {"b": 10}, **slot)
    lives.days.day(9)
    if how == "delete":
        lives.call.delete(NS, "b")
    elif how == "expiry":
        lives.call.sweep_ttl()
    assert lives.keys() == []
    assert chain(lives.call.history(NS, "a")) == [("a", "superseded", 0, 1)]
    lives.call.supersede(NS, "a", "new", new_key="n")
    assert lives.keys() == ["n"]
    assert chain(lives.call.history(NS, "a")) == [("a", "superseded", 0, 1), ("n", "active", 9, None)]


@SLOTS
def test_a_put_over_a_superseded_row_leaves_the_chain(lives, slot):
    said(lives, "a", "b", "c", **slot)
    lives.call.put(NS, "b", {"content": "apart"})
    assert sorted(lives.keys()) == ["b", "c"]
    item = lives.call.get(NS, "b")
    assert (str(item.memory.status), item.memory.subject) == ("active", None)
    assert (family(lives, "a"), family(lives, "c"), family(lives, "b")) == (["a", "c"], ["a", "c"], ["b"])


def test_a_put_over_a_retired_head_is_the_latest_word_from_now(lives):
    said(lives, "a", "b", **CITY)
    lives.days.day(2)
    lives.call.retire(NS, "b")
    assert lives.keys() == []
    lives.days.day(4)
    lives.call.put(NS, "b", {"content": "back"})
    item = lives.call.get(NS, "b")
    assert (lives.keys(), item.memory.valid_from, item.memory.subject) == (["b"], day(4), "ana")
    lives.call.remember(NS, "next", key="c", **CITY)
    assert lives.keys() == ["c"]


def test_late_facts_go_to_their_place_by_start(lives):
    said(lives, "a", "b", **CITY)
    lives.days.day(9)
    for key, start in (("x", 0.5), ("y", 0.25), ("z", -3)):
        lives.call.remember(NS, key, key=key, valid_from=day(start), **CITY)
        assert lives.keys() == ["b"]
    assert chain(lives.call.history(NS, "b")) == [
        ("z", "superseded", -3, 0),
        ("a", "superseded", 0, 0.25),
        ("y", "superseded", 0.25, 0.5),
        ("x", "superseded", 0.5, 1),
        ("b", "active", 1, None),
    ]


def test_a_late_fact_after_the_head_began_replaces_it_since_then(lives):
    said(lives, "a", "b", **CITY)
    lives.days.day(9)
    lives.call.remember(NS, "since", key="c", valid_from=day(4), **CITY)
    assert lives.keys() == ["c"]
    assert chain(lives.call.history(NS, "b"))[1:] == [("b", "superseded", 1, 4), ("c", "active", 4, None)]


@SLOTS
def test_superseding_any_member_replaces_what_holds(lives, slot):
    said(lives, "a", "b", "c", **slot)
    for number, (key, new) in enumerate([("a", "d"), ("b", "e"), ("a", "f")]):
        made = lives.call.supersede(NS, key, new, new_key=new)
        assert (lives.keys(), made.memory.version) == ([new], 4 + number)
    assert family(lives, "a") == ["a", "b", "c", "d", "e", "f"]


def test_undo_gives_back_the_end_that_there_was(lives):
    lives.call.remember(NS, "until day 5", key="a", **CITY)
    lives.call.retire(NS, "a", valid_until=day(5))
    lives.call.supersede(NS, "a", "replaces it", new_key="b")
    assert lives.keys() == ["b"]
    assert lives.call.undo_supersede(NS, "b").key == "a"
    assert lives.call.get(NS, "a").memory.valid_until == day(5)
    assert lives.keys() == ["a"]
    lives.days.day(5)
    assert lives.keys() == []


def test_a_plan_follows_the_row_that_is_written_again_before_it(lives):
    lives.call.remember(NS, "a", key="a", **CITY)
    lives.call.remember(NS, "to come", key="plan", valid_from=day(5), **CITY)
    lives.call.remember(NS, "b", key="b", ttl=DAY_MINUTES, **CITY)
    lives.days.day(1)
    lives.call.remember(NS, "b again", key="b", **CITY)
    pointers = [(one.key, one.memory.supersedes, one.memory.superseded_by) for one in lives.call.history(NS, "b")]
    assert pointers == [("a", None, "b"), ("b", "a", "plan"), ("plan", "b", None)]


@pytest.mark.parametrize("sweeps", [False, True], ids=["unswept", "swept"])
def test_a_late_fact_before_an_expired_head_holds(lives, sweeps):
    lives.call.remember(NS, "a", key="a", **CITY)
    lives.days.day(2)
    lives.call.remember(NS, "b", key="b", ttl=DAY_MINUTES, **CITY)
    lives.days.day(4)
    if sweeps:
        lives.call.sweep_ttl()
    lives.call.remember(NS, "c", key="c", valid_from=day(1), **CITY)
    assert lives.keys() == ["c"]
    assert chain(lives.call.history(NS, "a")) == [("a", "superseded", 0, 1), ("c", "active", 1, None)]


@pytest.mark.parametrize("sweeps", [False, True], ids=["unswept", "swept"])
def test_unalias_reopens_nothing_that_an_expired_row_had_replaced(lives, sweeps):
    lives.call.alias(NS, "ana", "Anita")
    lives.call.remember(NS, "a", key="a", **CITY)
    lives.call.remember(NS, "b", key="b", subject="Anita", attribute="city", ttl=DAY_MINUTES)
    lives.days.day(1)
    if sweeps:
        lives.call.sweep_ttl()
    lives.call.unalias(NS, "Anita")
    assert lives.keys() == []
