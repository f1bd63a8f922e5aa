"""What a text is made of for a search by words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_forgetful_store import CorruptRecordError
from langgraph_forgetful_store.search.lexical import (
    MOST_COUNT,
    MOST_LENGTH,
    Query,
    Words,
    fold,
    pack_words,
    split_packed,
    stem,
    string_leaves,
    terms_of,
    tokens,
)


def words(text: str, *, asked: bool = True) -> list[str]:
    """Return what a text's terms are called, without surfaces."""
    terms = [term for token in tokens(text) for term in terms_of(token)]
    return [term.word for term in terms if term.share == 1.0 and (term.asked or not asked)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CAFÉ", "cafe"),
        ("Ｆｕｌｌ ｗｉｄｔｈ", "full width"),
        ("ﬁne", "fine"),
        ("Straße", "strasse"),
        ("İstanbul", "istanbul"),
        ("Ёлка", "елка"),
        ("ΆΛΦΑ", "αλφα"),
        ("Nguyễn", "nguyen"),
        ("ｶﾞｽ", "ガス"),
        ("O’Brien", "O'Brien"),
    ],
)
def test_spellings_of_one_word_are_folded_together(one, other):
    assert fold(one) == fold(other)


@pytest.mark.parametrize("text", ["कि", "ที่", "ガ", "שָׁלוֹם", "தமிழ்"])
def test_marks_of_other_scripts_stay(text):
    assert fold(text) == text
    assert "".join(tokens(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat, and the dog!", ["cat", "dog"]),
        ("O'Brien’s house isn't rock'n'roll", ["obrien", "house", "rocknroll"]),
        ("the 'best' one's 'own'", ["best", "one"]),
        ("mail john.smith@example.com.", ["mail", "john.smith@example.com", "john", "smith", "example", "com"]),
        ("order AB-1234/5", ["order", "ab-1234/5", "ab", "1234", "5"]),
        ("see /usr/local/lib_x", ["see", "usr/local/lib_x", "usr", "local", "lib", "x"]),
        ("at 10:30 -- or 3.14", ["10:30", "10", "30", "3.14", "3", "14"]),
        ("state-of-the-art", ["state-of-the-art", "state", "art"]),
        ("x...y --- _z_", ["x", "y", "z"]),
        ("दिल्ली किताब", ["दिल्ली", "किताब"]),
        ("我在2024年买了iPhone", ["我在", "2024", "年买", "买了", "iphone"]),
        ("猫", ["猫"]),
        ("东京 Tokyo タワー", ["东京", "tokyo", "タワ", "ワー"]),
        ("한국어", ["한국", "국어"]),
        ("ที่บ้าน", ["ที่บ้", "บ้า", "าน"]),
        ("", []),
        ("!?", []),
    ],
)
def test_a_query_is_split_into_words(text, expected):
    assert words(text) == expected


def test_rows_also_hold_each_character_that_stands_without_spaces():
    assert words("年买了", asked=False) == ["年", "买", "了", "年买", "买了"]
    assert words("猫", asked=False) == ["猫"]
    assert words("ที่บ้าน", asked=False)[:4] == ["ที่", "บ้", "า", "น"]


@pytest.mark.parametrize(
    ("expected", "several"),
    {
        "move": ["moves", "moved", "moving", "move"],
        "hop": ["hops", "hopped", "hopping"],
        "hope": ["hopes", "hoped", "hoping", "hope"],
        "hous": ["house", "houses", "housed", "housing"],
        "poni": ["pony", "ponies"],
        "caress": ["caresses", "caress"],
        "agre": ["agree", "agreed", "agrees"],
        "fall": ["falling", "falls"],
        "conflat": ["conflated", "conflate"],
        "size": ["sized", "size"],
        "sky": ["sky"],
        "sing": ["sing", "sings"],
        "us": ["us"],
        "2nds": ["2nds"],
        "кошки": ["кошки"],
    }.items(),
)
def test_a_stem_has_no_endings_of_number_and_time(expected, several):
    assert {stem(word) for word in several} == {expected}


def test_a_surface_that_differs_from_its_stem_counts_half_and_adds_no_length():
    assert [(term.share, term.length) for term in terms_of("dogs")] == [(1.0, 1), (0.5, 0)]
    assert [(term.share, term.length) for term in terms_of("dog")] == [(1.0, 1)]
    assert Words.unpack(pack_words(["dogs dog 2.5 年买了 the"])).length == 1 + 1 + 2 + 3


def test_what_is_packed_is_what_was_said():
    packed = pack_words(["tea tea teas", "green tea"], ["text", "more[*]"])
    kept = Words.unpack(packed)
    assert sorted(kept.counts.values()) == [1, 1, 4]
    assert (kept.length, kept.paths) == (5, ["text", "more[*]"])
    assert Words.unpack(pack_words([])) == Words({}, 0, None)


def test_long_texts_are_counted_up_to_a_bound():
    kept = Words.unpack(pack_words(["tea " * 70_000, " ".join(f"w{n}" for n in range(100))]))
    assert max(kept.counts.values()) == MOST_COUNT
    assert (len(kept.counts), kept.length) == (101, MOST_LENGTH)
    with pytest.raises(ValueError, match="index names too many paths"):
        pack_words([], ["a" * 70_000])


@pytest.mark.parametrize("data", [b"", b"12345", b"\xff" * 6, pack_words(["tea"]) + b"1", pack_words(["tea"])[:-2]])
def test_what_the_store_does_not_write_is_corrupt(data):
    with pytest.raises(CorruptRecordError, match="a row's words"):
        split_packed(data)


def test_the_strings_of_a_value_are_told_at_any_depth_and_no_names():
    value = {"a": "one", "b": [{"c": "two"}, 3, None, True, ["three"]], "d": {"e": {"f": "four"}}, "g": 5.0}
    assert list(string_leaves(value)) == ["one", "two", "three", "four"]


@given(st.text())
def test_any_text_can_be_kept_and_asked_for(text):
    kept = Words.unpack(pack_words([text]))
    query = Query.of(text)
    asked = set() if query is None else set(query.crcs.tolist())
    assert asked <= set(kept.counts)
    assert (kept.length == 0) == (not any(term.length for token in tokens(text) for term in terms_of(token)))
