"""From memories to a part of a prompt: never over budget, deterministic, the best at both ends."""

from __future__ import annotations

import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages.utils import count_tokens_approximately

from langgraph_forgetful_store import MemorySearchItem
from langgraph_forgetful_store.prompt.context import MemoryContext, assemble_context, build_context
from langgraph_forgetful_store.prompt.rendering import estimate_tokens, frame
from tests.support.prompt_memories import DAY, NS, found, got, keys_of, lines_of, told


def by_letters(text):
    return len(text)


COUNTERS = {
    "estimate": estimate_tokens,
    "letters": by_letters,
    "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
    # The parts of a text cost less than the whole, or more.
    "rounding down": lambda text: len(text) // 4,
    "with overhead": lambda text: len(text) // 3 + 7,
    "superlinear": lambda text: int((len(text) / 10) ** 1.3),
    "lines": lambda text: text.count("\n") + 1,
}

memories = st.fixed_dictionaries(
    {},
    optional={
        "memory_type": st.sampled_from(["generic", "identity", "fact", "procedural", "hypothesis"]),
        "pinned": st.booleans(),
        "status": st.sampled_from(["active", "archived", "superseded"]),
        "confidence": st.floats(0, 1),
        "preconditions": st.lists(st.text(st.characters()), max_size=2),
        "source": st.text(st.characters(), min_size=1),
    },
)


@st.composite
def rows(draw, max_size=12):
    made = []
    for at in range(draw(st.integers(0, max_size))):
        content = draw(
            st.text(st.characters(), max_size=80) | st.sampled_from(["我喜欢喝茶，不喝咖啡。" * 5, "x" * 500])
        )
        similarity = draw(st.none() | st.floats(-1, 1))
        made.append(found(f"k{at}", content, similarity=similarity, **draw(memories)))
    return made


@given(rows(), st.integers(0, 1500), st.sampled_from(sorted(COUNTERS)), st.sampled_from(["edges", "best_first"]))
def test_the_budget_is_never_exceeded(items, max_tokens, counter, order):
    context = build_context(items, max_tokens=max_tokens, count_tokens=COUNTERS[counter], order=order)
    if context.items:
        assert COUNTERS[counter](context.text) == context.tokens <= max_tokens
        assert len(told(context.text)) == len(context.items)
    else:
        assert context == MemoryContext(left_out=context.left_out)
    assert len(context.items) + context.left_out <= len(items)


@pytest.mark.parametrize("counter", ["rounding down", "superlinear"])
def test_a_whole_that_costs_more_than_its_parts_keeps_to_the_budget_and_the_fifth(counter):
    count = COUNTERS[counter]
    items = [found(f"k{at}", "tea" * at, score=1 - at / 100) for at in range(20)]
    always = [found(f"i{at}", "an allergy" + "!" * at, similarity=0.0, memory_type="identity") for at in range(20)]
    for max_tokens in range(100, 1600, 7):
        context = build_context(items, max_tokens=max_tokens, count_tokens=count)
        assert count(context.text) <= max_tokens
        told_always = lines_of(build_context(always, max_tokens=max_tokens, count_tokens=count).text or frame(()))
        assert count("\n".join(told_always)) <= max_tokens / 5


def test_what_a_counter_adds_to_every_text_is_not_counted_for_each_memory():
    items = [found(f"k{at}", score=1 - at / 100) for at in range(20)]
    plain = build_context(items, max_tokens=600, count_tokens=len)
    added = build_context(items, max_tokens=700, count_tokens=lambda text: len(text) + 100)
    assert 5 < len(plain.items) < 20
    assert added.text == plain.text


@given(rows(), st.integers(0, 1500), st.randoms(use_true_random=False))
def test_the_same_memories_give_the_same_text(items, max_tokens, chance):
    text = assemble_context(items, max_tokens=max_tokens)
    assert assemble_context(iter(items), max_tokens=max_tokens) == text
    scores = [item.score for item in items]
    if None not in scores and len(set(scores)) == len(scores):
        shuffled = chance.sample(items, len(items))
        assert assemble_context(shuffled, max_tokens=max_tokens) == text


@given(st.integers(1, 12), st.integers(200, 3000), st.sampled_from(sorted(COUNTERS)))
def test_what_is_always_told_takes_a_fifth_at_the_most(pinned, max_tokens, counter):
    count = COUNTERS[counter]
    # Nothing here is similar to the query, so whatever is told is told for what it is.
    items = [
        found(f"p{at}", "an allergy " * 3, similarity=0.0, pinned=at % 2 == 0, memory_type="identity")
        for at in range(pinned)
    ]
    context = build_context(items, max_tokens=max_tokens, count_tokens=count)
    assert not context.items or count("\n".join(lines_of(context.text))) <= max_tokens / 5


def test_what_is_always_told_comes_first_and_the_rest_competes():
    identity = [found(f"i{at}", f"allergy {at}", score=0.3, similarity=0.1, memory_type="identity") for at in range(9)]
    facts = [found(f"f{at}", score=0.9 - at / 100) for at in range(9)]
    context = build_context([*facts, *identity], max_tokens=190, with_keys=True)
    keys = [item.key for item in context.items]
    first = [key for key in keys if key.startswith("i")]
    assert first == ["i0", "i1"] == keys[:2]
    assert keys[2:] == [f"f{at}" for at in range(len(keys) - 2)]
    close = build_context([*identity[:8], found("i8", score=2, memory_type="identity"), *facts], max_tokens=900)
    assert close.items[0].key == "i8"


def test_a_pinned_memory_that_the_query_asks_for_is_told_beyond_the_fifth():
    pinned = [found(f"p{at}", similarity=0.9 - at / 100, pinned=True) for at in range(6)]
    context = build_context(pinned, max_tokens=600)
    assert len(context.items) == 6


def test_a_superseded_pinned_memory_is_not_always_told():
    assert assemble_context([found("a", similarity=0.0, pinned=True, status="superseded")], max_tokens=500) == ""


def test_below_the_floor_nothing_is_added_even_with_room():
    items = [found("near", similarity=0.2), found("far", similarity=0.19, score=0.99)]
    assert keys_of(assemble_context(items, max_tokens=10_000, with_keys=True)) == ["near"]
    assert assemble_context([items[1]], max_tokens=10_000) == ""
    assert keys_of(assemble_context(items, max_tokens=10_000, with_keys=True, min_similarity=0.1)) == ["far", "near"]


def test_what_could_not_be_compared_is_told_only_where_nothing_could():
    blind = MemorySearchItem(NS, "blind", {"content": "no vector"}, DAY, DAY)
    args = {"max_tokens": 10_000, "with_keys": True, "order": "best_first"}
    assert keys_of(assemble_context([blind, found("seen")], **args)) == ["seen"]
    assert keys_of(assemble_context([blind], **args)) == ["blind"]
    assert keys_of(assemble_context([blind, found("seen")], min_similarity=None, **args)) == ["seen", "blind"]
    assert keys_of(assemble_context([got("got"), found("seen")], **args)) == ["seen", "got"]


@given(st.integers(1, 9))
def test_the_best_stand_at_both_ends(count):
    items = [found(str(at), score=1 - at / 100) for at in range(count)]
    edges = [int(key) for key in keys_of(assemble_context(items, max_tokens=10_000, with_keys=True))]
    first = [
        int(key) for key in keys_of(assemble_context(items, max_tokens=10_000, with_keys=True, order="best_first"))
    ]
    assert first == list(range(count))
    assert sorted(edges) == first
    # From either end towards the middle it gets worse.
    worst = edges.index(count - 1)
    assert edges[: worst + 1] == sorted(edges[: worst + 1])
    assert edges[worst:] == sorted(edges[worst:], reverse=True)
    assert {edges[0], edges[-1]} == {0, min(1, count - 1)}


def test_a_rerank_is_kept_where_it_is_asked_for():
    items = [found("low", score=0.1), found("high", score=0.9)]
    args = {"max_tokens": 1000, "with_keys": True, "order": "best_first"}
    assert keys_of(assemble_context(items, **args)) == ["high", "low"]
    assert keys_of(assemble_context(items, rank="given", **args)) == ["low", "high"]


def test_one_that_is_huge_takes_a_quarter_at_the_most_and_hides_no_other():
    items = [found("huge", "word " * 20_000, score=0.9), found("small", score=0.5)]
    context = build_context(items, max_tokens=400, with_keys=True)
    assert [item.key for item in context.items] == ["huge", "small"]
    assert estimate_tokens(lines_of(context.text)[0]) <= 100


def test_a_memory_found_twice_is_told_once_with_its_score():
    listed = MemorySearchItem(NS, "a", {"content": "a"}, DAY, DAY)
    context = build_context([listed, found("a"), found("b", score=0.95), found("a")], max_tokens=1000)
    assert [item.key for item in context.items] == ["b", "a"]
    elsewhere = MemorySearchItem(("other",), "a", {"content": "a"}, DAY, DAY, 0.5, {}, 0.5)
    assert len(build_context([found("a"), elsewhere], max_tokens=1000).items) == 2


def test_what_is_linked_follows_what_is_in():
    related = {
        (NS, "seed"): [
            ("causes", got("effect")),
            ("relates", got("gone", status="superseded")),
            ("relates", got("away", status="archived")),
            ("relates", got("guess", memory_type="hypothesis")),
            ("relates", got("elsewhere", run_id="r2")),
            ("relates", got("other")),
        ],
        (NS, "far"): [("causes", got("unseen"))],
    }
    items = [found("seed", run_id="r1"), found("other"), found("far", similarity=0.0)]
    text = assemble_context(items, max_tokens=2000, related=related, with_keys=True, order="best_first")
    assert keys_of(text) == ["seed", "other", "effect"]
    assert ["linked: causes" in line["notes"] for line in told(text)] == [False, False, True]
    without = assemble_context(
        items, max_tokens=2000, related=related, allow=lambda row: row.key != "effect", with_keys=True
    )
    assert keys_of(without) == ["seed", "other"]


def test_chinese_fills_a_budget_with_fewer_memories_than_letters_would():
    items = [found(str(at), "我喜欢在周末和朋友去公园散步" * 2, score=1 - at / 100) for at in range(40)]
    honest = build_context(items, max_tokens=1000)
    quarter = build_context(items, max_tokens=1000, count_tokens=lambda text: len(text) // 4)
    assert 0 < len(honest.items) < len(quarter.items)


def test_counters_of_messages_and_models_are_told_apart():
    items = [found(str(at), score=1 - at / 100) for at in range(30)]
    by_messages = build_context(items, max_tokens=200, count_tokens=count_tokens_approximately)
    assert 3 < len(by_messages.items) < 30
    assert by_messages.tokens == count_tokens_approximately([("user", by_messages.text)]) <= 200
    tuned = partial(count_tokens_approximately, chars_per_token=2.0)
    assert 0 < len(build_context(items, max_tokens=200, count_tokens=tuned).items) < len(by_messages.items)

    class Counting(FakeListChatModel):
        def get_num_tokens(self, text):
            return len(text)

    context = build_context(items, max_tokens=1000, count_tokens=Counting(responses=[]))
    assert context.tokens == len(context.text) <= 1000
    assert build_context(items, max_tokens=1000, count_tokens=len).text == context.text


def test_the_text_is_a_plain_str():
    assert type(assemble_context([found("a")], max_tokens=500)) is str
    assert assemble_context([], max_tokens=500) == ""
    assert assemble_context([found("a")], max_tokens=0) == ""


@pytest.mark.parametrize(
    "bad",
    [
        {"max_tokens": -1}, {"max_tokens": 1.5}, {"max_tokens": True}, {"max_tokens": None}, {"order": "worst"},
        {"rank": "luck"}, {"min_similarity": 2}, {"min_similarity": "0.5"}, {"min_similarity": True},
        {"count_tokens": "tiktoken"},
    ],
)  # fmt: skip
def test_unusable_arguments_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        assemble_context([], **{"max_tokens": 100, **bad})


def test_ties_keep_the_order_they_came_in():
    items = [found(str(at), score=0.5) for at in range(6)]
    random.Random(1).shuffle(items)
    text = assemble_context(items, max_tokens=2000, with_keys=True, order="best_first")
    assert keys_of(text) == [item.key for item in items]
