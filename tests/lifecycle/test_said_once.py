"""`remember` where something must be absent, and under a key of its request: what is there is returned as it is."""

from __future__ import annotations

import pytest

from tests.support.memories_over_days import NS

CITY = {"subject": "ann", "attribute": "city"}


def test_the_same_content_of_a_slot_is_written_once_until_another_came_between(lives):
    first = lives.call.remember(NS, "Rome", if_absent="content", **CITY)
    assert lives.call.remember(NS, "Rome", if_absent="content", **CITY).dict() == first.dict()
    second = lives.call.remember(NS, "Oslo", if_absent="content", **CITY)
    third = lives.call.remember(NS, "Rome", if_absent="content", **CITY)
    assert lives.call.remember(NS, "Rome", if_absent="content", **CITY).key == third.key
    assert [item.memory.version for item in (first, second, third)] == [1, 2, 3]
    assert [item.key for item in lives.call.history(NS, first.key)] == [first.key, second.key, third.key]
    assert lives.keys() == [third.key]


def test_the_same_content_without_a_slot_is_written_once_until_it_is_over(lives):
    first = lives.call.remember(NS, {"n": 1, "a": True}, if_absent="content")
    assert lives.call.remember(NS, {"a": True, "n": 1}, if_absent="content").key == first.key
    # 1 and true are not the same JSON.
    assert lives.call.remember(NS, {"a": 1, "n": 1}, if_absent="content").key != first.key
    lives.call.retire(NS, first.key)
    again = lives.call.remember(NS, {"n": 1, "a": True}, if_absent="content")
    assert again.key != first.key
    assert lives.call.remember(NS, {"n": 1, "a": True}, if_absent="content").key == again.key


def test_runs_and_layers_say_the_same_for_themselves(lives):
    plain = lives.call.remember(NS, "Rome", if_absent="content", **CITY).key
    of_run = lives.call.remember(NS, "Rome", if_absent="content", run_id="r", **CITY).key
    assert lives.call.remember(NS, "Rome", if_absent="content", run_id="r", **CITY).key == of_run != plain


def test_an_occupied_slot_or_key_is_left_as_it_is(lives):
    held = lives.call.remember(NS, "Rome", key="held", **CITY)
    records = lives.actions()
    assert lives.call.remember(NS, "Oslo", if_absent="slot", **CITY).dict() == held.dict()
    assert lives.call.remember(NS, "Oslo", key="held", if_absent="key").dict() == held.dict()
    assert lives.actions() == records
    lives.call.retire(NS, "held")
    assert lives.call.remember(NS, "Oslo", if_absent="slot", **CITY).value == {"content": "Oslo"}


@pytest.mark.parametrize("key", [None, "k"], ids=["made", "given"])
def test_a_request_is_carried_out_once(lives, key):
    first = lives.call.remember(NS, "one", key=key, idempotency_key="request")
    assert lives.call.remember(NS, "other", key=key, idempotency_key="request").dict() == first.dict()
    second = lives.call.remember(NS, "two", key=key, idempotency_key="another")
    assert (second.value, second.key == first.key) == ({"content": "two"}, key is not None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"if_absent": "row"}, "if_absent must be one of key, slot, content"),
        ({"if_absent": "key"}, "needs key"),
        ({"if_absent": "slot"}, "needs subject and attribute"),
        ({"idempotency_key": ""}, "idempotency_key"),
    ],
)
def test_an_absence_of_what_is_not_named_is_refused(lives, options, message):
    with pytest.raises(ValueError, match=message):
        lives.call.remember(NS, "x", **options)
    assert lives.keys() == []
