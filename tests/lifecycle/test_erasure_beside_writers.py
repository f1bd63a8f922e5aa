"""`forget_all` and `end_run` beside others that go on writing: what was there before goes, and they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.operations import runs

NS = ("users", "bob")
STATUSES = ["active", "archived", "superseded"]
BEFORE = 35


@pytest.fixture
def beside(make_store, monkeypatch):
    """Has another store do something, numbered from 0, before each window is read."""
    monkeypatch.setattr(runs, "WINDOW", 10)
    other = make_store()

    def arrange(act: Callable[[Any, int], Any], script: str = "scan") -> None:
        build, count, acting = getattr(scripts, script), iter(range(10_000)), []

        def late(*args: Any, **more: Any) -> Any:
            if not acting:
                acting.append(True)
                act(other, next(count))
                acting.clear()
            return build(*args, **more)

        monkeypatch.setattr(scripts, script, late)

    return arrange


def fill(store: Any, spaces: int = 1) -> None:
    store.batch([PutOp((*NS, str(at % spaces)), f"k{at}", {"n": at}) for at in range(BEFORE)])


# As many as a window holds, before each window: who reads to the end never gets there.
WRITERS: dict[str, Callable[[Any, int], Any]] = {
    "new rows in one namespace": lambda other, turn: other.batch(
        [PutOp((*NS, "0"), f"new{turn}/{at}", {}) for at in range(10)]
    ),
    "new rows in namespaces behind": lambda other, turn: other.batch(
        [PutOp((*NS, "9", f"{turn:04}"), str(at), {}) for at in range(10)]
    ),
    "a namespace a window": lambda other, turn: other.batch([PutOp((*NS, f"{turn:04}/{at}"), "k", {}) for at in "abc"]),
    "a slot that moves on": lambda other, turn: [
        other.remember((*NS, "0"), f"{turn}/{at}", subject="bob", attribute="city") for at in range(3)
    ],
}


@pytest.mark.parametrize("spaces", [1, 5])
@pytest.mark.parametrize("writer", WRITERS)
def test_forget_all_erases_what_was_written_before_it_began_and_returns(make_store, face, beside, writer, spaces):
    side = face(make_store())
    fill(side, spaces)
    began: list[int] = []

    def act(other: Any, turn: int) -> None:
        assert turn < 100, "it does not return"
        WRITERS[writer](other, turn)
        if turn == 0:
            # Written before the first window, so before it began.
            began.append(make_store.keys()["rows"])

    beside(act)
    receipt = side.forget_all(NS)
    assert (receipt.erased["memories"], receipt.residue) == (began[0], ())
    left = side.recall(NS, status=STATUSES, limit=1000)
    assert left
    assert not {item.key for item in left} & {f"k{at}" for at in range(BEFORE)}


@pytest.mark.parametrize("act", ["archive", "restore", "pin"])
def test_a_row_whose_status_changes_meanwhile_is_erased_all_the_same(make_store, face, beside, act):
    side = face(make_store())
    fill(side)
    for at in range(0, BEFORE, 2):
        side.archive((*NS, "0"), f"k{at}")

    def change(other: Any, turn: int) -> None:
        for at in range(turn % 3, BEFORE, 3):
            if other.get((*NS, "0"), f"k{at}") is not None:
                getattr(other, act)((*NS, "0"), f"k{at}")

    beside(change)
    receipt = side.forget_all(NS)
    assert (receipt.erased["memories"], receipt.residue) == (BEFORE, ())
    assert side.recall(NS, status=STATUSES) == []


def test_a_row_that_is_put_anew_meanwhile_is_a_new_one(make_store, face, beside):
    side = face(make_store())
    fill(side)
    beside(lambda other, turn: other.put((*NS, "0"), f"k{turn}", {"by": "other"}), "delete")
    receipt = side.forget_all(NS)
    assert (receipt.erased["memories"], receipt.residue) == (BEFORE - 1, ())
    assert [(item.key, item.value) for item in side.search(NS)] == [("k0", {"by": "other"})]


def test_names_are_told_as_residue_where_newer_memories_may_need_them(make_store, face, beside):
    side = face(make_store())
    fill(side)
    side.alias((*NS, "0"), "Robert", "Bob")
    beside(lambda other, turn: other.put((*NS, "0"), "new", {}), "delete")
    assert side.forget_all(NS).residue == (f"s {(*NS, '0')!r}",)
    assert side.forget_all(NS).residue == (f"s {(*NS, '0')!r}",)


def test_end_run_returns_beside_a_run_that_goes_on(make_store, face, beside):
    side = face(make_store())
    for at in range(25):
        side.remember(NS, "x", key=f"k{at}", run_id="r")

    def go_on(other: Any, turn: int) -> None:
        assert turn < 100, "it does not return"
        for at in range(10 if turn else 0):
            other.remember(NS, "y", key=f"{turn}/{at}", run_id="r")

    beside(go_on, "run")
    assert side.end_run(NS, "r") == 25
    assert side.recall(NS, run_id="r", limit=100)
