"""What was made from a memory goes with it, or is made anew from what is left."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lifecycle.test_erasure import HOME, SECRET
from tests.support.memories_over_days import NS


def test_summaries_of_summaries_go_and_what_they_tell_of_others_stays(memories):
    call = memories.call
    for key in ("source", "other"):
        call.remember(NS, f"{SECRET} {key}", key=key)
    for key, source in (("summary", "source"), ("summary 2", "summary")):
        call.remember(NS, f"in short: {SECRET}", key=key)
        call.link(NS, key, "summarizes", source)
    call.link(NS, "summary", "summarizes", "other")
    call.link(NS, "other", "relates", "source")
    receipt = call.forget(NS, "source")
    assert receipt.erased["memories"] == 3
    assert receipt.erased["summaries"] == 2
    assert memories.keys() == ["other"]
    assert call.neighbors(NS, "other") == []


@pytest.mark.parametrize("key", ["plain", 'with "quotes" \\ and 汉字'])
def test_a_summary_that_names_it_among_its_sources_alone_goes_too(memories, key):
    call = memories.call
    call.remember(NS, SECRET, key=key)
    call.remember(NS, f"in short: {SECRET}", key="summary", memory_type="summary", source_refs=[key])
    call.remember(NS, f"shorter: {SECRET}", key="shorter", memory_type="summary", source_refs=["summary"])
    call.remember(NS, "stays", key="stays", source_refs=["else"])
    receipt = call.forget(NS, key, byte_scan=True)
    assert (receipt.erased["memories"], receipt.residue) == (3, ())
    assert memories.keys() == ["stays"]


def test_summaries_that_are_made_anew_keep_their_place_and_lose_what_they_told(lives):
    call = lives.call
    for key in ("bad", "good"):
        call.remember(NS, f"{SECRET} {key}", key=key)
    call.remember(NS, f"{SECRET} bad; {SECRET} good", key="summary", source_refs=["bad", "good"], **HOME)
    for key in ("bad", "good"):
        call.link(NS, "summary", "summarizes", key)
    seen: list[Any] = []

    def rederive(summary, sources):
        seen.append((summary.key, [item.key for item in sources]))
        return {"content": "a good one", "of": 1}

    receipt = call.forget(NS, "bad", rederive=rederive)
    assert seen == [("summary", ["good"])]
    assert (receipt.erased["memories"], receipt.erased["rederived"], receipt.residue) == (1, 1, ())
    item = call.history(NS, "summary")[0]
    assert (item.value, item.memory.source_refs, item.memory.version) == (
        {"content": "a good one", "of": 1},
        ("good",),
        2,
    )
    assert lives.keys("a good one")[0] == "summary"
    # Nothing is left of what the second is made of.
    assert call.forget(NS, "good", rederive=lambda summary, sources: None).erased["memories"] == 2
    assert lives.keys() == []


def test_what_merely_names_the_erased_among_its_sources_stays_and_names_it_no_more(memories):
    call = memories.call
    call.remember(NS, "source", key="1")
    call.remember(NS, "allergic to nuts", key="id", memory_type="identity", pinned=True, source_refs=["1", "2"])
    call.remember(NS, "of others", key="of others", source_refs=["a", "b"])
    assert call.forget(NS, "1").erased["memories"] == 1
    assert call.get(NS, "id").memory.source_refs == ("2",)
    call.remember(NS, "an odd key", key=", ")
    receipt = call.forget(NS, ", ")
    assert (receipt.erased["memories"], receipt.residue) == (1, ())
    assert call.get(NS, "of others").memory.source_refs == ("a", "b")


@pytest.mark.parametrize("linked", ["v1", "v2", None])
def test_a_summary_with_a_history_is_made_anew_once_and_what_it_said_before_goes(memories, linked):
    call = memories.call
    for key in ("source", "other"):
        call.remember(NS, key, key=key)
    refs = {} if linked else {"source_refs": ["source", "other"]}
    call.remember(NS, f"{SECRET} 1", key="v1", memory_type="summary")
    call.supersede(NS, "v1", f"{SECRET} 2", new_key="v2", **refs)
    if linked:
        call.link(NS, linked, "summarizes", "source")
        call.link(NS, linked, "summarizes", "other")
    asked = []

    def rederive(summary, left):
        asked.append((summary.key, [item.key for item in left]))
        return "of what is left"

    receipt = call.forget(NS, "source", rederive=rederive, byte_scan=True)
    assert (asked[-1], receipt.residue) == (("v2", ["other"]), ())
    assert (receipt.erased["memories"], receipt.erased["rederived"]) == (2, 1)
    assert call.get(NS, "v1") is None
    anew = call.get(NS, "v2")
    assert (anew.value, anew.memory.supersedes) == ({"content": "of what is left"}, None)


def test_what_rederive_returns_is_checked_by_its_name(memories):
    call = memories.call
    call.remember(NS, "source", key="source")
    call.remember(NS, SECRET, key="summary", memory_type="summary", source_refs=["source"])
    with pytest.raises(TypeError, match="rederive must return"):
        call.forget(NS, "source", rederive=lambda summary, left: 3)
