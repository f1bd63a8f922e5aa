"""What each status allows, and what each step does to a memory; steps that are not allowed change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from langgraph_forgetful_store import IllegalTransitionError, MemoryNotFoundError
from tests.support.memories_over_days import DAY_MINUTES, NS, Memories, chain, day

KEY = "k"


def bring(lives: Memories, state: str) -> None:
    """Bring the memory `KEY` into a state."""
    call = lives.call
    kind = {"archived by expiry": "intent", "expired": "task"}.get(state)
    call.remember(NS, "drinks tea", key=KEY, subject="ann", attribute="drink", memory_type=kind)
    if state == "archived":
        call.archive(NS, KEY)
    elif state == "superseded":
        call.supersede(NS, KEY, "drinks coffee", new_key="next")
    elif state == "retired":
        call.retire(NS, KEY)
    elif state in {"archived by expiry", "expired"}:
        lives.days.day(8)


ILLEGAL, SAME = "illegal", "same"
STEPS: dict[str, Callable[[Any], Any]] = {
    "archive": lambda call: call.archive(NS, KEY),
    "restore": lambda call: call.restore(NS, KEY),
    "retire": lambda call: call.retire(NS, KEY),
    "pin": lambda call: call.pin(NS, KEY),
    "demote": lambda call: call.demote(NS, KEY),
    "anchor": lambda call: call.anchor(NS, KEY),
    "confirm": lambda call: call.confirm(NS, KEY),
    "set_ttl": lambda call: call.set_ttl(NS, KEY, 60),
    "undo_supersede": lambda call: call.undo_supersede(NS, KEY),
}
# What becomes of the memory in each state: its new status, nothing, or a refusal.
ALLOWED = {
    "active": ("archived", SAME, "superseded", "active", "active", "active", "active", "active", ILLEGAL),
    "archived": (SAME, "active", "superseded", "archived", "archived", "active", "active", "archived", ILLEGAL),
    "archived by expiry": (
        SAME,
        "active",
        "superseded",
        "archived",
        "archived",
        "active",
        "active",
        "archived",
        ILLEGAL,
    ),
    "superseded": (ILLEGAL, ILLEGAL, SAME, ILLEGAL, "superseded", ILLEGAL, ILLEGAL, "superseded", ILLEGAL),
    "retired": (ILLEGAL, ILLEGAL, SAME, ILLEGAL, "superseded", ILLEGAL, ILLEGAL, "superseded", ILLEGAL),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("state", ALLOWED)
def test_a_step_goes_where_the_status_allows_it_and_changes_nothing_where_not(lives, state, step):
    bring(lives, state)
    before = lives.call.history(NS, KEY)
    records = lives.actions()
    expected = ALLOWED[state][list(STEPS).index(step)]
    if expected == ILLEGAL:
        with pytest.raises(IllegalTransitionError):
            STEPS[step](lives.call)
    else:
        done = STEPS[step](lives.call)
        assert done.key == KEY
        if expected != SAME:
            assert done.memory.status == expected
            assert lives.actions() == [step, *records]
            (after,) = [item for item in lives.call.history(NS, KEY) if item.key == KEY]
            assert after.memory == done.memory
            return
        (same,) = [item for item in before if item.key == KEY]
        assert done == same
        assert done.memory == same.memory
    assert lives.actions() == records
    assert [item.memory for item in lives.call.history(NS, KEY)] == [item.memory for item in before]


@pytest.mark.parametrize("state", ["absent", "expired"])
def test_a_step_of_a_memory_that_is_not_there_says_so(lives, state):
    if state == "expired":
        bring(lives, state)
    call = lives.call
    call.remember(NS, "other", key="other")
    records = lives.actions()
    steps = [
        *STEPS.values(),
        lambda call: call.unpin(NS, KEY),
        lambda call: call.deny(NS, KEY),
        lambda call: call.supersede(NS, KEY, "more"),
        lambda call: call.link(NS, KEY, "relates", "other"),
        lambda call: call.link(NS, "other", "relates", KEY),
        lambda call: call.neighbors(NS, KEY),
    ]
    for step in steps:
        with pytest.raises(MemoryNotFoundError, match=KEY):
            step(call)
    assert call.history(NS, KEY) == []
    assert call.unlink(NS, KEY, "relates", "other") is None
    assert lives.actions() == records
    assert lives.keys() == ["other"]


def test_what_is_expired_can_be_forgotten_and_what_is_absent_gives_an_empty_receipt(lives):
    bring(lives, "expired")
    assert lives.call.forget(NS, KEY).erased["memories"] == 1
    assert lives.call.forget(NS, KEY).erased == {}
    assert lives.actions() == ["forget"]


@pytest.mark.parametrize(
    "step",
    [lambda call: call.archive(NS, KEY), lambda call: call.pin(NS, KEY), lambda call: call.retire(NS, KEY)],
    ids=["archive", "pin", "retire"],
)
def test_the_same_step_again_is_recorded_once(memories, step):
    bring(memories, "active")
    first = step(memories.call)
    memories.days.day(1)
    again = step(memories.call)
    assert again.memory == first.memory
    assert len(memories.actions()) == 2


def test_an_archived_memory_is_found_only_where_its_status_is_asked_for(memories):
    call = memories.call
    call.remember(NS, "drinks tea", key=KEY)
    call.remember(NS, "drinks coffee", key="other")
    call.archive(NS, KEY)
    assert memories.keys("drinks tea") == memories.keys() == ["other"]
    assert [item.key for item in call.search(NS, query="drinks tea")] == ["other"]
    (found,) = call.recall(NS, "drinks tea", status="archived")
    assert (found.key, found.memory.status, found.similarity) == (KEY, "archived", pytest.approx(1))
    assert set(memories.keys(status=["active", "archived"])) == {KEY, "other"}
    assert call.get(NS, KEY).memory.status == "archived"
    call.restore(NS, KEY)
    assert memories.keys("drinks tea")[0] == KEY


def test_a_similar_archived_memory_is_woken_labelled_and_restored_by_confirming_it(memories):
    call = memories.call
    call.remember(NS, "drinks green tea", key=KEY)
    call.remember(NS, "owns a boat", key="other")
    call.archive(NS, KEY)
    call.archive(NS, "other")
    assert memories.keys("drinks green tea") == []
    (woken,) = call.recall(NS, "drinks green tea", archived_above=0.9)
    assert (woken.key, woken.memory.status) == (KEY, "archived")
    assert set(memories.keys("drinks green tea", archived_above=-1)) == {KEY, "other"}
    assert call.confirm(NS, KEY).memory.status == "active"
    assert memories.keys("drinks green tea") == [KEY]


def test_pinning_suspends_a_ttl_and_unpinning_starts_it_anew(memories):
    call = memories.call
    call.put(NS, KEY, {"content": "x"}, ttl=DAY_MINUTES)
    assert call.pin(NS, KEY).memory.expires_at is None
    memories.days.day(10)
    assert call.get(NS, KEY).memory.pinned
    assert call.sweep_ttl() == 0
    assert call.unpin(NS, KEY).memory.expires_at == day(11)
    memories.days.day(11)
    assert call.get(NS, KEY) is None


def test_a_memory_that_was_pinned_and_is_superseded_can_be_unpinned_and_not_pinned(lives):
    call = lives.call
    call.remember(NS, "x", key=KEY, pinned=True)
    call.supersede(NS, KEY, "y", new_key="later")
    for again in (True, False):
        with pytest.raises(IllegalTransitionError, match="superseded: pin is not possible"):
            call.pin(NS, KEY)
        assert not again or not call.unpin(NS, KEY).memory.pinned
    assert call.pin(NS, "later").memory.pinned


def test_a_put_over_a_pinned_memory_keeps_the_pin_and_stores_its_ttl(lives):
    call = lives.call
    call.remember(NS, "x", key=KEY, pinned=True)
    call.put(NS, KEY, {"content": "y"}, ttl=DAY_MINUTES)
    assert call.get(NS, KEY).memory.expires_at is None
    lives.days.day(3)
    assert call.unpin(NS, KEY).memory.expires_at == day(4)


def test_an_extension_of_a_pinned_memory_counts_from_its_unpinning(lives):
    call = lives.call
    call.remember(NS, "x", key=KEY, pinned=True)
    assert call.set_ttl(NS, KEY, DAY_MINUTES).memory.expires_at is None
    lives.days.day(5)
    assert call.unpin(NS, KEY).memory.expires_at == day(6)


def test_extending_moves_an_absolute_expiry_that_no_read_slides(memories):
    call = memories.call
    call.remember(NS, "x", key=KEY, memory_type="task")
    memories.days.day(5)
    assert call.get(NS, KEY, refresh_ttl=True).memory.expires_at == day(7)
    assert call.set_ttl(NS, KEY, 9 * DAY_MINUTES).memory.expires_at == day(14)
    memories.days.day(13)
    assert call.get(NS, KEY, refresh_ttl=True).memory.expires_at == day(14)


def test_a_shorter_extension_is_seen_by_a_cache_that_knows_a_later_expiry(memories, face):
    call = memories.call
    call.put(NS, KEY, {"content": "x"}, ttl=DAY_MINUTES)
    other = memories.another(face)
    assert [item.key for item in other.recall(NS, "x")] == [KEY]
    call.set_ttl(NS, KEY, 1)
    memories.days.advance(minutes=1)
    assert other.recall(NS, "x") == []


def test_demoting_lowers_the_rank_and_keeps_the_status(memories):
    call = memories.call
    for key in ("one", "two"):
        call.remember(NS, "drinks tea", key=key, importance=0.5)
    call.demote(NS, "two")
    assert memories.keys("drinks tea") == ["one", "two"]
    demoted = call.demote(NS, "two", by=0.7)
    assert (demoted.memory.importance, demoted.memory.status) == (0, "active")
    assert [item.key for item in call.history(NS, "two")] == ["two"]
    with pytest.raises(ValueError, match="by"):
        call.demote(NS, "two", by=1.5)


def freshness(lives: Memories) -> float:
    (found,) = lives.call.recall(NS, "drinks tea", scoring="weighted", explain=True)
    value: float = found.score_details["terms"]["freshness"]["value"]
    return value


def test_anchoring_doubles_the_half_life_once_and_lifts_importance_to_a_half(memories):
    call = memories.call
    call.remember(NS, "drinks tea", key=KEY, importance=0.1)
    memories.days.day(90)
    assert freshness(memories) == pytest.approx(0.5, rel=0.01)
    assert call.anchor(NS, KEY).memory.importance == 0.5
    memories.store.flush()
    anchored = freshness(memories)
    # Half of it would be the freshness without an access; accesses prolong the half-life too.
    assert 0.5**0.5 <= anchored < 0.5**0.25
    call.anchor(NS, KEY)
    assert freshness(memories) < 0.5**0.25
    call.confirm(NS, KEY)
    assert call.anchor(NS, KEY).memory.importance == pytest.approx(0.55)


def test_confirming_and_denying_move_trust_and_stay_within_bounds(memories):
    call = memories.call
    call.remember(NS, "drinks tea", key=KEY, confidence=0.5, importance=0.9)
    memories.days.day(2)
    confirmed = call.confirm(NS, KEY).memory
    assert (confirmed.confidence, confirmed.importance) == pytest.approx((0.6, 0.95))
    assert confirmed.confirmed_at == day(2)
    for _ in range(5):
        confirmed = call.confirm(NS, KEY).memory
    assert (confirmed.confidence, confirmed.importance) == (1, 1)
    assert call.deny(NS, KEY).memory.confidence == pytest.approx(0.8)
    for _ in range(5):
        denied = call.deny(NS, KEY).memory
    assert (denied.confidence, denied.importance, denied.version) == (0, 1, 1)


def test_a_mere_retrieval_never_raises_confidence(lives):
    lives.call.remember(NS, "drinks tea", key=KEY, confidence=0.5, importance=0.4)
    for _ in range(5):
        lives.call.recall(NS, "drinks tea")
        lives.call.get(NS, KEY)
    lives.call.flush()
    memory = lives.call.history(NS, KEY)[0].memory
    assert (memory.confidence, memory.importance, memory.access_count) == (0.5, 0.4, 10)


def test_closing_and_archiving_keep_the_expiry_and_restoring_starts_the_ttl_anew(memories):
    call = memories.call
    for key in ("closed", "archived"):
        call.put(NS, key, {"content": key}, ttl=10 * DAY_MINUTES)
    memories.days.day(4)
    assert call.archive(NS, "archived").memory.expires_at == day(10)
    call.supersede(NS, "closed", "new", new_key="new")
    assert [item.memory.expires_at for item in call.history(NS, "new")] == [day(10), None]
    assert call.restore(NS, "archived").memory.expires_at == day(14)
    call.archive(NS, "archived")
    memories.days.day(10)
    assert [item.key for item in call.history(NS, "new")] == ["new"]
    assert memories.keys(status="archived", refresh_ttl=False) == ["archived"]
    memories.days.day(14)
    assert call.recall(NS, status=["archived", "superseded"]) == []


def test_retiring_says_until_when_and_why(memories):
    call = memories.call
    call.remember(NS, "has a dog", key=KEY, valid_from=day(-100))
    retired = call.retire(NS, KEY, reason="contradicted", valid_until=day(-10))
    assert chain([retired]) == [(KEY, "superseded", -100, -10)]
    assert (retired.memory.reason, retired.memory.superseded_by) == ("contradicted", None)
    assert memories.keys() == []
    assert memories.keys(as_of=day(-50)) == [KEY]
    call.remember(NS, "has a cat", key="cat", valid_from=day(-10))
    with pytest.raises(ValueError, match="valid_until"):
        call.retire(NS, "cat", valid_until=day(-20))
    with pytest.raises(ValueError, match="reason"):
        call.retire(NS, "cat", reason="whatever")
    assert memories.keys() == ["cat"]


def test_a_memory_that_is_retired_for_later_is_current_until_then(memories):
    call = memories.call
    call.remember(NS, "rents a flat", key=KEY)
    retired = call.retire(NS, KEY, valid_until=day(5)).memory
    assert (retired.status, retired.valid_until) == ("active", day(5))
    assert memories.keys() == memories.keys("rents a flat") == [KEY]
    assert call.get(NS, KEY).memory.status == "active"
    memories.days.day(5)
    assert memories.keys() == memories.keys("rents a flat") == []
    assert call.get(NS, KEY).memory.status == "superseded"


def test_a_run_sees_its_own_memories_and_they_end_with_it(memories):
    call = memories.call
    deeper = (*NS, "deeper")
    call.remember(NS, "common", key="common")
    call.remember(NS, "of one", key="one", run_id="run-1")
    call.remember(NS, "of two", key="two", run_id="run-2")
    call.remember(deeper, "of one too", key="deep", run_id="run-1")
    call.remember(("else",), "of one elsewhere", key="far", run_id="run-1")
    assert memories.texts() == memories.texts("of") == ["common"]
    assert memories.texts(run_id="run-1") == memories.texts("of", run_id="run-1") == ["common", "of one", "of one too"]
    assert call.end_run(NS, "run-1") == 2
    assert call.end_run(NS, "run-1") == 0
    assert memories.texts(run_id="run-1") == ["common"]
    assert memories.texts(run_id="run-2") == ["common", "of two"]
    assert call.get(("else",), "far") is not None
    assert memories.actions(limit=1) == ["end_run"]


def test_a_run_ends_with_its_archived_and_superseded_memories_too(lives):
    call = lives.call
    call.remember(NS, "first", key="first", run_id="run", subject="s", attribute="a")
    call.supersede(NS, "first", "second", new_key="second")
    call.remember(NS, "third", key="third", run_id="run")
    call.archive(NS, "third")
    assert call.get(NS, "second").memory.run_id == "run"
    assert call.end_run((), "run") == 3
    assert lives.keys(run_id="run", status=["active", "archived", "superseded"]) == []
