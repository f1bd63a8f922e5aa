"""Links between memories, and what they do to the importance of both ends: once for each link."""

from __future__ import annotations

import pytest

from langgraph_forgetful_store import IllegalTransitionError
from tests.support.memories_over_days import NS, Memories, day

RELATIONS = (
    "triggers", "responds", "relates", "resolves", "closes", "causes", "updates", "negates", "completes", "summarizes",
    "same_session",
)  # fmt: skip
# What a link makes of an importance of 0.5 at either end.
MOVED = {
    "updates": (0.8, 0.1), "negates": (0.7, 0.0), "completes": (0.5, 0.3), "resolves": (0.5, 0.3), "closes": (0.5, 0.3),
}  # fmt: skip


def pair(lives: Memories, importance: float = 0.5) -> None:
    for key in ("a", "b"):
        lives.call.remember(NS, key, key=key, importance=importance)


def importances(lives: Memories, *keys: str) -> list[float]:
    return [lives.call.history(NS, key)[0].memory.importance for key in keys or ("a", "b")]


def neighbors(lives: Memories, key: str, *args: str, **options: str) -> list[tuple[str, str]]:
    return sorted((relation, item.key) for relation, item in lives.call.neighbors(NS, key, *args, **options))


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_link_moves_importance_as_its_relation_says_and_once(memories, relation):
    pair(memories)
    for _ in range(3):
        assert memories.call.link(NS, "a", relation, "b").key == "a"
    assert importances(memories) == pytest.approx(MOVED.get(relation, (0.5, 0.5)))
    assert memories.actions() == ["link", "remember", "remember"]
    leaves = relation in {"resolves", "closes"}
    assert sorted(memories.keys()) == (["a"] if leaves else ["a", "b"])
    target = memories.call.history(NS, "b")[0].memory
    assert (target.status, target.reason) == (("superseded", "resolved") if leaves else ("active", None))


@pytest.mark.parametrize("relation", MOVED)
def test_importance_stays_between_0_and_1(lives, relation):
    pair(lives, 0.9)
    lives.call.link(NS, "a", relation, "b")
    assert importances(lives)[0] == (1.0 if relation in {"updates", "negates"} else 0.9)
    pair(lives, 0.1)
    lives.call.unlink(NS, "a", relation, "b")
    lives.call.link(NS, "a", relation, "b")
    assert importances(lives)[1] == pytest.approx(0.0 if relation in {"updates", "negates"} else 0.06)


@pytest.mark.parametrize("relation", ["completes", "resolves", "closes"])
def test_what_is_over_falls_with_what_holds_or_is_to_come_in_its_line(memories, relation):
    call = memories.call
    call.remember(NS, "plan", key="one", importance=0.5)
    for number, key in enumerate(("two", "three")):
        memories.days.day(number + 1)
        call.supersede(NS, "one", "plan", new_key=key, importance=1.0)
    call.supersede(NS, "one", "plan", new_key="four", importance=1.0, valid_from=day(20))
    call.remember(NS, "done", key="done", importance=0.4)
    memories.days.day(5)
    call.link(NS, "done", relation, "two")
    found = {item.key: item.memory.importance for item in call.history(NS, "one")}
    assert found == pytest.approx({"one": 0.5, "two": 0.6, "three": 0.6, "four": 0.6})
    assert importances(memories, "done") == [0.4]


def test_a_resolved_memory_is_closed_from_now_on_and_was_current_before(memories):
    pair(memories)
    memories.days.day(10)
    memories.call.link(NS, "a", "resolves", "b")
    (target,) = memories.call.history(NS, "b")
    assert (target.memory.valid_until, target.memory.retired_at) == (day(10), day(10))
    memories.days.day(20)
    assert sorted(memories.keys(as_of=day(5))) == ["a", "b"]
    with pytest.raises(IllegalTransitionError):
        memories.call.restore(NS, "b")


def test_neighbors_are_told_by_relation_and_direction(memories):
    call = memories.call
    for key in ("a", "b", "c", "d"):
        call.remember(NS, key, key=key)
    call.link(NS, "a", "causes", "b")
    call.link(NS, "a", "relates", "c")
    call.link(NS, "c", "relates", "a")
    call.link(NS, "d", "triggers", "a")
    both = [("causes", "b"), ("relates", "c"), ("relates", "c"), ("triggers", "d")]
    assert neighbors(memories, "a") == neighbors(memories, "a", direction="both") == both
    assert neighbors(memories, "a", direction="out") == [("causes", "b"), ("relates", "c")]
    assert neighbors(memories, "a", direction="in") == [("relates", "c"), ("triggers", "d")]
    assert neighbors(memories, "a", "causes") == [("causes", "b")]
    assert neighbors(memories, "a", "causes", direction="in") == []
    assert neighbors(memories, "b") == [("causes", "a")]
    call.unlink(NS, "a", "relates", "c")
    call.unlink(NS, "a", "relates", "c")
    call.unlink(NS, "b", "causes", "a")
    assert neighbors(memories, "a") == [("causes", "b"), ("relates", "c"), ("triggers", "d")]
    assert memories.actions(limit=2) == ["unlink", "link"]


def test_neighbors_count_no_access_and_carry_values_of_any_status(lives):
    pair(lives)
    lives.call.link(NS, "a", "relates", "b")
    lives.call.archive(NS, "b")
    ((relation, item),) = lives.call.neighbors(NS, "a")
    assert (relation, item.value, item.memory.status) == ("relates", {"content": "b"}, "archived")
    lives.call.flush()
    assert lives.call.history(NS, "b")[0].memory.access_count == 0


def test_a_link_ends_with_either_memory(memories):
    for gone in ("a", "b"):
        pair(memories)
        memories.call.link(NS, "a", "relates", "b")
        memories.call.delete(NS, gone)
        left = "b" if gone == "a" else "a"
        assert neighbors(memories, left) == []
        pair(memories)
        assert neighbors(memories, left) == []


def test_a_link_outlives_a_put_over_its_memory_and_a_lapse_is_not_told(memories):
    pair(memories)
    memories.call.link(NS, "a", "relates", "b")
    memories.call.put(NS, "b", {"content": "new"}, ttl=1)
    assert neighbors(memories, "a") == [("relates", "b")]
    memories.days.advance(minutes=1)
    assert neighbors(memories, "a") == []
    memories.call.sweep_ttl()
    assert neighbors(memories, "a") == []


def test_links_that_are_none_are_refused(lives):
    pair(lives)
    call = lives.call
    for refused in (
        lambda: call.link(NS, "a", "loves", "b"), lambda: call.link(NS, "a", "merged", "b"),
        lambda: call.unlink(NS, "a", "loves", "b"), lambda: call.neighbors(NS, "a", "loves"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="relation must be one of triggers"):
            refused()
    with pytest.raises(ValueError, match="direction"):
        call.neighbors(NS, "a", direction="up")
    with pytest.raises(ValueError, match="other"):
        call.link(NS, "a", "relates", "a")
    assert neighbors(lives, "a") == []
