"""Candidates and decisions are plain JSON, and say what is wrong with them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy.actions import check_action
from langgraph_forgetful_store.policy.admission import PRIORS, WEIGHTS, Admission
from langgraph_forgetful_store.policy.calibration import LITERAL_THRESHOLD, Calibration, calibrate
from langgraph_forgetful_store.policy.candidates import Candidate, Invalid, decision_id
from langgraph_forgetful_store.policy.state import MAX_DECISIONS, consumed, latest_decisions, pending, queue

NUMBER = "4111 1111 1111 1111"
FRACTIONS = st.none() | st.floats(0, 1)
NAMES = st.none() | st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=10)
CANDIDATES = st.builds(
    dict,
    content=st.text(min_size=1).filter(str.strip) | st.dictionaries(st.text(max_size=5), st.integers(), min_size=1),
    memory_type=NAMES,
    importance=FRACTIONS,
    confidence=FRACTIONS,
    source=NAMES,
    tags=st.lists(st.text(min_size=1, max_size=5), max_size=3),
    valid_from=st.none() | st.datetimes(timezones=st.just(UTC)),
    ttl=st.none() | st.floats(0, 1e6),
    pinned=st.none() | st.booleans(),
    source_messages=st.lists(st.text() | st.fixed_dictionaries({"content": st.text(), "id": st.text(min_size=1)})),
)


@given(CANDIDATES)
def test_a_candidate_survives_json(raw):
    candidate = Candidate.parse(raw)
    assert Candidate.parse(json.loads(json.dumps(candidate.to_json()))) == candidate


def test_a_text_is_a_candidate():
    assert Candidate.parse("I like tea") == Candidate(content="I like tea")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (7, "a candidate must be a text or a dict"),
        ({}, "needs content"),
        ("  ", "content of a candidate"),
        ({"content": {}}, "content of a candidate"),
        ({"content": {"a": float("nan")}}, "plain JSON"),
        ({"content": "x", "importanse": 1}, "unknown fields 'importanse'; known are content"),
        ({"content": "x", "importance": 2}, "importance of a candidate must be a number from 0 to 1"),
        ({"content": "x", "subject": "user"}, "needs both subject and attribute"),
        ({"content": "x", "tags": "a"}, "tags of a candidate must be a list"),
        ({"content": "x", "ttl": -1}, "ttl of a candidate"),
        ({"content": "x", "valid_from": "soon"}, "valid_from of a candidate must be an aware datetime"),
        ({"content": "x", "valid_from": datetime(2026, 1, 1)}, "valid_from of a candidate must be an aware datetime"),
        ({"content": "x", "consent": "yes"}, "consent of a candidate must be True, False or None"),
        ({"content": "x", "source_messages": [7]}, "a source message must be a text, or a dict"),
    ],
)
def test_a_bad_candidate_says_what_is_wrong(raw, message):
    with pytest.raises(ValueError, match=message):
        Candidate.parse(raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("archive", "must be a dict with action"),
        ({"action": "explode"}, "action must be one of remember, supersede, archive"),
        ({"action": "archive"}, "archive needs key, or about"),
        ({"action": "supersede", "content": "x"}, "supersede needs key"),
        ({"action": "end_run"}, "end_run needs run_id"),
        ({"action": "feedback", "value": 3}, "feedback needs value"),
        ({"action": "pin", "key": "k", "colour": "red"}, "pin has unknown fields 'colour'"),
    ],
)
def test_a_bad_action_says_what_is_wrong(raw, message):
    with pytest.raises(ValueError, match=message):
        check_action(raw)


def test_an_id_is_the_same_for_the_same_input_alone():
    one = decision_id({"content": "I like tea"}, ("m", "u"), ("1",))
    assert one == decision_id(
        {"content": "I like tea", "source_messages": [{"content": "I like tea"}]}, ("m", "u"), ("1",)
    )
    others = [
        decision_id({"content": "I like coffee"}, ("m", "u"), ("1",)),
        decision_id({"content": "I like tea"}, ("m", "v"), ("1",)),
        decision_id({"content": "I like tea"}, ("m", "u"), ("2",)),
    ]
    assert len({one, *others}) == 4


@given(st.lists(st.text()), st.lists(st.text()), st.data())
def test_what_is_consumed_leaves_the_queue_and_what_came_meanwhile_stays(held, more, data):
    taken = data.draw(st.permutations(held)) if held else []
    for update in ((consumed(taken), more), (more, consumed(taken))):
        left = held
        for part in update:
            left = queue(left, part)
        assert sorted(pending(left)) == sorted(more)


def test_the_last_decisions_are_kept_once_each():
    made = [{"id": str(number), "reason": "first"} for number in range(MAX_DECISIONS + 5)]
    merged = latest_decisions(made, [{"id": "10", "reason": "again"}])
    assert len(merged) == MAX_DECISIONS
    assert merged[-1] == {"id": "10", "reason": "again"}
    assert [one["id"] for one in merged].count("10") == 1


def test_admission_is_strictly_above_the_threshold():
    even = Admission(threshold=0.5, priors={"generic": 0.5})
    at = even.weigh("generic", utility=0.5, confidence=0.5, novelty=0.5, age_days=30)
    above = even.weigh("generic", utility=0.51, confidence=0.5, novelty=0.5, age_days=30)
    assert at["score"] == 0.5
    assert not even.admits(at)
    assert even.admits(above)


def test_admission_says_what_each_factor_gave():
    scores = Admission().weigh("conversation", utility=0.2, confidence=0.7, novelty=1, age_days=0)
    assert scores["factors"] == {
        "utility": 0.2,
        "confidence": 0.7,
        "novelty": 1,
        "recency": 1,
        "prior": PRIORS["conversation"],
    }
    assert scores["weights"] == dict(WEIGHTS)
    assert scores["score"] == pytest.approx(0.1 * (0.2 + 0.7 + 1 + 1) + 0.6 * PRIORS["conversation"])
    assert scores["threshold"] == 0.55


def test_admission_says_which_setting_is_bad():
    with pytest.raises(ConfigurationError, match="weights need utility, confidence"):
        Admission(weights={"prior": 1})
    with pytest.raises(ConfigurationError, match="threshold must be a number from 0 to 1"):
        Admission(threshold=2)


VECTORS = {"a": [1.0, 0.0], "b": [0.9, 0.1], "c": [0.7, 0.7], "d": [0.0, 1.0], "e": [0.95, 0.3]}


def embed(texts):
    return [VECTORS[text] for text in texts]


def test_calibration_finds_the_threshold_that_parts_the_pairs():
    found = calibrate(embed, [("a", "b", True), ("a", "e", True), ("a", "c", False), ("a", "d", False)])
    assert (found.precision, found.recall, found.pairs) == (1.0, 1.0, 4)
    assert 0.72 < found.threshold < 0.96


def test_calibration_keeps_to_a_precision_that_is_asked_for():
    pairs = [("a", "b", True), ("a", "e", False), ("a", "c", True), ("a", "d", False)]
    loose, strict = calibrate(embed, pairs), calibrate(embed, pairs, min_precision=1.0)
    assert (loose.precision, loose.recall) == (2 / 3, 1.0)
    assert (strict.precision, strict.recall) == (1.0, 0.5)
    assert strict.threshold > loose.threshold


def test_calibration_needs_pairs_of_both_kinds():
    with pytest.raises(ValueError, match="pairs of both kinds"):
        calibrate(embed, [("a", "b", True)])
    with pytest.raises(ValueError, match="no threshold reaches a precision of 1"):
        calibrate(embed, [("a", "b", False), ("a", "c", True)], min_precision=1.0)


def test_the_literal_threshold_is_that_of_the_literature():
    assert Calibration().threshold == LITERAL_THRESHOLD == 0.85


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"content": [NUMBER]}, "content"),
        ({"content": "x", "tags": NUMBER}, "tags"),
        ({"content": "x", NUMBER: 1}, "unknown fields"),
        ({"content": "x", "memory_type": 5}, "memory_type"),
        ({"content": "x", "source_messages": 5}, "source_messages"),
        ({"content": "x", "ttl": float("inf")}, "ttl"),
        ({"content": "x", "ttl": float("nan")}, "ttl"),
        ({"content": "x", "ttl": 1e300}, "ttl"),
        ({"content": "x", "valid_from": "2026-02-01", "valid_until": "2026-01-01"}, "valid_until"),
        (Candidate(content="x", ttl=float("inf")), "ttl"),
    ],
)
def test_what_is_wrong_with_a_candidate_is_told_by_its_field(raw, field):
    with pytest.raises(Invalid) as raised:
        Candidate.parse(raw)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (f"forget card {NUMBER}", "action"),
        ({"action": NUMBER}, "action"),
        ({"action": "feedback", "value": NUMBER}, "value"),
        ({"action": "feedback", "value": True}, "value"),
        ({"action": "feedback", "value": 1, "recall_id": "nope"}, "recall_id"),
        ({"action": "forget", "key": "k", "trigger": "whim"}, "trigger"),
        ({"action": "forget", "about": "tea", "memory_types": 5}, "memory_types"),
        ({"action": "forget", "about": "tea", "source_messages": 5}, "source_messages"),
        ({"action": "forget", "about": "tea", "run_id": 5}, "run_id"),
        ({"action": "forget", "key": ""}, "key"),
    ],
)
def test_what_is_wrong_with_an_action_is_told_by_its_field(raw, field):
    with pytest.raises(Invalid) as raised:
        check_action(raw)
    assert raised.value.field == field
    assert "1111" not in str(raised.value)
