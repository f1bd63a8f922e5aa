"""Near-cache, scan and a model in plain Python rank alike, by words to the bit."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import PutOp

from langgraph_forgetful_store.search import postings
from langgraph_forgetful_store.testing import WordEmbeddings
from tests.support.words_model import Spoken, lift, relevance, shares

NS = ("words",)
VOCABULARY = [
    "tea", "teas", "house", "houses", "housing", "green", "Lisbon", "ab-12", "a.b@c.org", "猫", "小猫", "年买了", "the",
    "O'Brien", "walked", "walking", "walk", "r\u00e9sum\u00e9", "resume", "2024", "x_y/z", "दिल्ली",
]  # fmt: skip
DIMS = 16
texts = st.lists(st.sampled_from(VOCABULARY), max_size=12).map(" ".join)
queries = st.lists(st.sampled_from([*VOCABULARY, "unseen", "never"]), min_size=1, max_size=60).map(" ".join)
numbers = st.floats(0, 1).map(lambda number: round(number, 3))
writes = st.tuples(
    st.integers(0, 30),
    st.one_of(
        st.none(),
        st.fixed_dictionaries(
            {"text": texts, "kind": st.integers(0, 2), "importance": numbers, "confidence": numbers},
            optional={"more": texts, "silent": st.just(True), "hypothesis": st.just(True)},
        ),
    ),
)


def put(key: str, row: dict[str, Any]) -> PutOp:
    value = {name: row[name] for name in ("text", "more", "kind") if name in row}
    memory = {name: row[name] for name in ("importance", "confidence")}
    # What a user is does not fade, so that a score does not depend on when the row was written.
    memory["memory_type"] = "hypothesis" if "hypothesis" in row else "identity"
    return PutOp(NS, key, {**value, "$memory": memory}, index=False if "silent" in row else None)


def spoken(row: dict[str, Any]) -> Spoken:
    return Spoken.of(*([] if "silent" in row else [row[name] for name in ("text", "more") if name in row]))


class Rows:
    """What should be there, with the order in which it was written."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[int, dict[str, Any]]] = {}
        self.written = 0

    def write(self, batch: list[Any]) -> list[PutOp]:
        ops: dict[str, PutOp] = {}
        for number, row in batch:
            key = f"k{number}"
            ops.pop(key, None)
            ops[key] = PutOp(NS, key, None) if row is None else put(key, row)
            self.rows.pop(key, None)
            if row is not None:
                self.written += 1
                self.rows[key] = self.written, row
        return list(ops.values())

    def ranked(self, query: str, kind: int | None, cosines: dict[str, float | None]) -> list[tuple[Any, ...]]:
        """Return key, score, L and coverage of what a search returns, in its order."""
        found = {
            key: (at, row)
            for key, (at, row) in self.rows.items()
            if "hypothesis" not in row and kind in (None, row["kind"])
        }
        by_words = shares(query, {key: spoken(row) for key, (_, row) in found.items()})
        told = []
        for key, (at, row) in found.items():
            share, coverage = by_words[key]
            score = None
            if cosines[key] is not None or share > 0:
                score = relevance(cosines[key], share) * lift(0.0, math.inf, row["importance"], row["confidence"])
            told.append((key, score, share, coverage, at))
        told.sort(key=lambda one: (one[1] is not None, one[1] or 0.0, one[4]), reverse=True)
        return [one[:4] for one in told]


def check(items: list[Any], expected: list[tuple[Any, ...]], *, has_words: bool) -> None:
    by_key = {key: (score, share, coverage) for key, score, share, coverage in expected}
    assert {item.key for item in items} == set(by_key)
    for item in items:
        score, share, coverage = by_key[item.key]
        assert (item.score is None) == (score is None)
        if score is not None:
            assert item.score == pytest.approx(score, abs=1e-6)
        if has_words:
            told = item.score_details["words"]
            assert told["share"] == share
            assert told["coverage"] == pytest.approx(coverage, abs=1e-9)
            assert bool(told["matched"]) == (share > 0)
    order = [by_key[item.key][0] for item in items]
    assert all(later is None or (one is not None and one >= later - 1e-9) for one, later in itertools.pairwise(order))


@pytest.mark.exhaustive
@pytest.mark.parametrize("embeds", [True, False])
def test_engines_and_model_agree_whatever_was_written(make_any_store, clock, monkeypatch, embeds):
    # Tails are sorted in after a few rows, so that each search meets blocks and tails.
    monkeypatch.setattr(postings, "TAIL", 8)
    index = {"dims": DIMS, "embed": WordEmbeddings(DIMS), "fields": ["text", "more"]} if embeds else None
    near = make_any_store(index=index, clock=clock, track_access=False)
    scan = make_any_store(index=index, clock=clock, cache_bytes=0, track_access=False)

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(st.lists(writes, max_size=25), queries, st.sampled_from([None, 0, 1])), max_size=5))
    def run(steps: list[Any]) -> None:
        rows = Rows()
        near.forget_all(NS)
        for batch, query, kind in steps:
            near.batch(rows.write(batch))
            clock.advance(minutes=24 * 60)
            filters = None if kind is None else {"kind": kind}
            asked: dict[str, Any] = {"filter": filters, "limit": 100, "explain": True}
            one, two = (store.recall(NS, query, **asked) for store in (near, scan))
            facts = [
                [(item.key, item.score, item.similarity, item.value, _told(item)) for item in items]
                for items in (one, two)
            ]
            assert facts[0] == facts[1]
            cosines = {item.key: item.similarity for item in one}
            has_words = any("words" in item.score_details for item in one)
            check(one, rows.ranked(query, kind, cosines), has_words=has_words)
            for limit, offset in ((1, 0), (3, 2)):
                page = near.recall(NS, query, filter=filters, limit=limit, offset=offset)
                assert [(item.key, item.score) for item in page] == [
                    (item.key, item.score) for item in one[offset : offset + limit]
                ]
                paged = scan.recall(NS, query, filter=filters, limit=limit, offset=offset)
                assert [(item.key, item.score) for item in paged] == [(item.key, item.score) for item in page]

    run()


def _told(item: Any) -> dict[str, Any]:
    return {name: part for name, part in item.score_details.items() if name != "engine"}


@pytest.mark.parametrize("embeds", [True, False])
def test_a_scope_that_grows_row_by_row_scores_as_one_that_was_loaded(make_any_store, clock, embeds):
    index = {"dims": DIMS, "embed": WordEmbeddings(DIMS), "fields": ["text"]} if embeds else None
    grown = make_any_store(index=index, clock=clock, track_access=False)
    scan = make_any_store(index=index, clock=clock, track_access=False, cache_bytes=0)
    spoken_rows = {}
    for at in range(1300):
        text = " ".join(VOCABULARY[(at * step + step) % len(VOCABULARY)] for step in (1, 3, 7)) + f" n{at % 97}"
        grown.put(NS, f"{at}", {"text": text})
        if at % 13 == 5:
            grown.delete(NS, f"{at - 3}")
            spoken_rows.pop(f"{at - 3}")
        spoken_rows[f"{at}"] = Spoken.of(text)
        if at % 100 == 0:
            grown.search(NS, query="tea")
    query = "walking green houses of n7 in Lisbon"
    fresh = make_any_store(index=index, clock=clock, track_access=False)
    found = [
        [
            (item.key, item.score, item.score_details["words"])
            for item in store.recall(NS, query, limit=2000, explain=True)
        ]
        for store in (grown, fresh, scan)
    ]
    assert found[0] == found[1] == found[2]
    expected = shares(query, spoken_rows)
    assert {key: told["share"] for key, _, told in found[0]} == {key: share for key, (share, _) in expected.items()}
    assert math.isclose(
        max(told["coverage"] for *_, told in found[0]), max(covered for _, covered in expected.values())
    )
