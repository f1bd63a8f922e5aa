"""Which memory of a slot is shown where several hold: of the run, else the dated one, else the permanent one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.memories_over_days import DAY_MINUTES, NS, Memories, day

CITY = {"subject": "ann", "attribute": "city"}
SETTINGS = pytest.mark.parametrize("settings", [{}, {"cache_bytes": 0}], ids=["near-cache", "scan"])


def shown(lives: Memories, **options: Any) -> list[str]:
    """What a listing, and a recall by meaning, show; they agree."""
    listed = lives.keys(**options)
    assert sorted(lives.keys("lives in", **options)) == sorted(listed)
    return sorted(listed)


@SETTINGS
def test_a_dated_memory_lies_over_the_permanent_one_until_it_ends(make_store, face, settings):
    lives = Memories(make_store, face, **settings)
    lives.call.remember(NS, "lives in Rome", key="rome", **CITY)
    lives.call.remember(NS, "lives in Oslo", key="oslo", valid_from=day(1), valid_until=day(3), **CITY)
    lives.call.remember(NS, "works in Rome", key="job", subject="ann", attribute="work")
    for number, key in ((0, "rome"), (1, "oslo"), (2.9, "oslo"), (3, "rome")):
        lives.days.day(number)
        assert shown(lives) == ["job", key]
    assert [shown(lives, as_of=day(n)) for n in (0.5, 2, 4)] == [["job", "rome"], ["job", "oslo"], ["job", "rome"]]
    # It is decided before any filter, and `get` reads the row.
    assert shown(lives, as_of=day(2), filter={"content": "lives in Rome"}) == []
    assert lives.call.get(NS, "rome").memory.status == "active"


@SETTINGS
def test_a_permanent_word_within_a_dated_one_lies_over_it_from_then_on(make_store, face, settings):
    lives = Memories(make_store, face, **settings)
    lives.call.remember(NS, "lives in Rome", key="rome", **CITY)
    lives.call.remember(NS, "lives in Oslo", key="oslo", valid_until=day(5), **CITY)
    lives.days.day(2)
    lives.call.remember(NS, "lives in Lima", key="lima", **CITY)
    assert shown(lives) == ["lima"]
    # Before it was said, nobody knew that it would lie over the other.
    assert lives.keys(as_of=day(3), known_at=day(1)) == ["oslo"]
    lives.call.retire(NS, "lima")
    assert shown(lives) == []
    lives.call.delete(NS, "lima")
    assert shown(lives) == ["oslo"]
    assert shown(lives, as_of=day(1)) == ["oslo"]


@SETTINGS
def test_a_run_sees_its_own_word_and_others_do_not(make_store, face, settings):
    lives = Memories(make_store, face, **settings)
    lives.call.remember(NS, "lives in Rome", key="rome", **CITY)
    lives.call.remember(NS, "lives in Oslo", key="oslo", valid_until=day(5), **CITY)
    for key in ("first", "second"):
        lives.call.remember(NS, f"lives in {key}", key=key, run_id="r", **CITY)
    assert (shown(lives), shown(lives, run_id="r"), shown(lives, run_id="s")) == (["oslo"], ["second"], ["oslo"])
    assert [item.key for item in lives.call.history(NS, "rome")] == ["rome", "oslo", "first", "second"]
    assert lives.call.end_run((), "r") == 2
    assert shown(lives, run_id="r") == ["oslo"]


@SETTINGS
def test_a_dated_memory_of_one_name_lies_over_the_other_name_s(make_store, face, settings):
    lives = Memories(make_store, face, **settings)
    lives.call.remember(NS, "lives in Rome", key="rome", **CITY)
    lives.call.remember(NS, "lives in Oslo", key="oslo", valid_until=day(5), subject="Annie", attribute="city")
    assert shown(lives) == ["oslo", "rome"]
    lives.call.alias(NS, "ann", "Annie")
    assert shown(lives) == ["oslo"]
    lives.call.unalias(NS, "Annie")
    assert shown(lives) == ["oslo", "rome"]


def test_a_guess_hides_nothing_and_is_the_latest_word_when_it_is_confirmed(lives):
    call = lives.call
    call.remember(NS, "lives in Rome", key="rome", **CITY)
    guess = {"memory_type": "hypothesis", "presumed_type": "emotion", "confidence": 0.35}
    call.remember(NS, "lives in Oslo", key="oslo", **guess, **CITY)
    lives.days.day(1)
    assert lives.keys() == ["rome"]
    assert call.confirm(NS, "oslo").memory.memory_type == "hypothesis"
    sure = call.confirm(NS, "oslo").memory
    assert (sure.memory_type, sure.presumed_type, sure.valid_from) == ("emotion", "emotion", day(1))
    assert sure.expires_at == day(1 + 10 / DAY_MINUTES)
    assert lives.keys() == ["oslo"]
    assert call.get(NS, "rome").memory.superseded_by == "oslo"


@SETTINGS
@pytest.mark.parametrize("sweeps", [False, True], ids=["unswept", "swept"])
def test_a_word_that_has_expired_lies_over_nothing(make_store, face, settings, sweeps):
    lives = Memories(make_store, face, **settings)
    lives.call.remember(NS, "lives in Oslo", key="oslo", valid_until=day(9), **CITY)
    lives.days.day(1)
    lives.call.remember(NS, "lives in Lima", key="lima", ttl=DAY_MINUTES, **CITY)
    lives.call.remember(NS, "lives in Bonn", key="bonn", valid_from=day(4), **CITY)
    assert shown(lives) == ["lima"]
    lives.days.day(2)
    if sweeps:
        lives.call.sweep_ttl()
    assert shown(lives) == shown(lives, as_of=day(1.5)) == ["oslo"]
    assert shown(lives, as_of=day(5)) == ["bonn"]
    lives.days.day(4)
    assert shown(lives) == ["bonn"]


@pytest.mark.parametrize("verb", ["put", "remember"])
def test_what_a_run_put_in_place_of_a_memory_that_is_written_anew_stands_by_itself(lives, verb):
    call = lives.call
    call.remember(NS, "lives in Rome", key="rome")
    call.supersede(NS, "rome", "lives in Oslo", new_key="oslo", run_id="r")
    if verb == "put":
        call.put(NS, "rome", {"content": "lives in Lima"})
    else:
        call.remember(NS, "lives in Lima", key="rome")
    assert call.get(NS, "oslo").memory.supersedes is None
    assert [item.key for item in call.history(NS, "oslo")] == ["oslo"]
    assert call.forget(NS, "rome").residue == ()
    assert call.get(NS, "oslo").value == {"content": "lives in Oslo"}
