"""The record of what was done to memories: one entry an action, and none for plain reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.memories_over_days import NS, Memories, day

DEEP = (*NS, "deep")
HOME = {"subject": "user", "attribute": "home"}


@pytest.fixture
def memories(make_store, face) -> Memories:
    return Memories(make_store, face, actor="tester")


STEPS: dict[str, tuple[Callable[[Any], Any], str, dict[str, Any]]] = {
    "remember": (lambda call: call.remember(NS, "x", key="k"), "", {}),
    "supersede": (lambda call: call.supersede(NS, "old", "x", new_key="k"), "updated", {"superseded": "old"}),
    "retire": (lambda call: call.retire(NS, "k", reason="contradicted"), "contradicted", {}),
    "archive": (lambda call: call.archive(NS, "k"), "", {}),
    "restore": (lambda call: (call.archive(NS, "k"), call.restore(NS, "k")), "", {}),
    "pin": (lambda call: call.pin(NS, "k"), "", {}),
    "unpin": (lambda call: (call.pin(NS, "k"), call.unpin(NS, "k")), "", {}),
    "demote": (lambda call: call.demote(NS, "k", by=0.1), "", {"by": 0.1}),
    "anchor": (lambda call: call.anchor(NS, "k"), "", {}),
    "confirm": (lambda call: call.confirm(NS, "k"), "", {}),
    "deny": (lambda call: call.deny(NS, "k"), "", {}),
    "set_ttl": (lambda call: call.set_ttl(NS, "k", 5), "", {"ttl": 5}),
    "link": (lambda call: call.link(NS, "k", "relates", "old"), "", {"relation": "relates", "other": "old"}),
    "forget": (lambda call: call.forget(NS, "k", trigger="wrong"), "wrong", {"memories": 1, "audit_records": 1}),
}


@pytest.mark.parametrize("action", STEPS)
def test_a_step_is_recorded_with_who_what_when_where_and_why(memories, action):
    step, reason, details = STEPS[action]
    call = memories.call
    call.put(NS, "old", {"content": "old"})
    if action not in {"remember", "supersede"}:
        call.remember(NS, "x", key="k")
    memories.days.day(3)
    step(call)
    record = call.audit(NS)[0]
    assert (record.at, record.actor, record.action) == (day(3), "tester", action)
    # What is erased is named by nothing but its digest.
    key = None if action == "forget" else "k"
    assert (record.namespace, record.key, record.reason, record.details) == (NS, key, reason, details)


def test_names_runs_and_undone_steps_are_recorded(memories):
    call = memories.call
    call.remember(NS, "one", key="one", run_id="run", **HOME)
    call.supersede(NS, "one", "two", new_key="two")
    call.undo_supersede(NS, "two")
    call.alias(NS, "user", "me")
    call.unalias(NS, "me")
    call.end_run((), "run")
    call.forget_all(("none",))
    assert memories.actions() == ["end_run", "unalias", "alias", "undo_supersede", "supersede", "remember"]
    ended, unalias, alias, undone, *_ = call.audit(())
    assert (ended.key, ended.namespace, ended.reason, ended.details) == (None, (), "run", {"ended": 2})
    assert unalias.details == {"canonical": "user", "name": "me"}
    assert (alias.key, alias.details["name"], alias.details["merged"]) == (None, "me", [])
    assert (undone.key, undone.details) == ("two", {"reopened": "one"})


def test_plain_reads_and_writes_are_not_recorded(memories):
    call = memories.call
    call.put(NS, "k", {"content": "x"})
    call.put(NS, "k", {"content": "x", "$memory": {"importance": 0.9, **HOME}})
    call.get(NS, "k")
    call.search(NS, query="x")
    call.recall(NS, as_of=day(1))
    call.history(NS, "k")
    call.list_namespaces()
    call.audit(())
    call.delete(NS, "k")
    assert memories.actions() == []


def test_what_was_refused_is_not_recorded(lives):
    call = lives.call
    call.put(NS, "k", {"content": "x"})
    for refused in (
        lambda: call.archive(NS, "absent"), lambda: call.undo_supersede(NS, "k"),
        lambda: call.supersede(NS, "k", "x", expected_version=5), lambda: call.demote(NS, "k", by=2),
    ):  # fmt: skip
        with pytest.raises(Exception, match=r"absent|undo|version|by"):
            refused()
    assert lives.actions() == []


def test_records_are_found_by_prefix_key_and_time(memories):
    call = memories.call
    places = [NS, DEEP, (NS[0], "anna"), (NS[0],), ("else",)]
    for number, ns in enumerate(places):
        memories.days.day(number)
        call.remember(ns, "x", key="k")
        call.remember(ns, "y", key="other")
    spaces = [record.namespace for record in call.audit(NS)]
    # Whole labels alone, latest first.
    assert spaces == [DEEP, DEEP, NS, NS]
    assert {record.namespace for record in call.audit((NS[0],))} == set(places[:4])
    assert len(call.audit(())) == 10
    assert [(record.namespace, record.key) for record in call.audit(NS, key="k")] == [(DEEP, "k"), (NS, "k")]
    assert [record.at for record in call.audit((), key="other", since=day(3))] == [day(4), day(3)]
    assert [record.at for record in call.audit((), limit=3)] == [day(4), day(4), day(3)]
    assert call.audit((), limit=0) == call.audit(("none",)) == call.audit(NS, key="none") == []
    with pytest.raises(ValueError, match="key"):
        call.audit((), key=5)
    with pytest.raises((TypeError, ValueError), match="limit"):
        call.audit((), limit=-1)


def test_many_records_are_read_through_though_few_are_wanted(lives):
    call = lives.call
    call.remember(NS, "x", key="first")
    call.remember(NS, "x", key="k")
    for number in range(1500):
        call.demote(NS, "k", by=number / 1500)
    assert [record.key for record in call.audit(NS, key="first")] == ["first"]
    assert len(call.audit(NS, key="k", limit=2000)) == 1501


def test_an_erasure_is_found_by_the_key_that_was_erased(memories):
    call = memories.call
    for ns in (NS, DEEP):
        for key in ("secret-key", "other"):
            call.remember(ns, "x", key=key)
        call.forget(ns, "secret-key")
    found = call.audit(NS, key="secret-key")
    assert [(one.action, one.namespace, one.key) for one in found] == [
        ("forget", DEEP, "secret-key"),
        ("forget", NS, "secret-key"),
    ]
    assert [one.action for one in call.audit(NS, key="other")] == ["remember", "remember"]
    assert call.audit(NS, key="never-known") == []


def test_records_keep_their_order_where_the_clock_goes_back(lives):
    call = lives.call
    for number, at in enumerate((5, 3, 4, 1)):
        lives.days.day(at)
        call.remember(NS, "x", key=f"k{number}")
    assert [record.key for record in call.audit(NS)] == ["k3", "k2", "k1", "k0"]
    assert [record.key for record in call.audit(NS, since=day(3))] == ["k2", "k1", "k0"]


def test_what_records_name_is_erased_without_reading_the_others(lives):
    call = lives.call
    call.remember(NS, "x", key="k")
    call.remember(NS, "y", key="y")
    call.link(NS, "y", "relates", "k")
    for number in range(3000):
        call.demote(NS, "y", by=number / 3000)
    with lives.make.server.client() as client:
        client.config_set("slowlog-log-slower-than", 0)
        client.config_set("slowlog-max-len", 1000)
        client.slowlog_reset()
        assert call.forget(NS, "k").erased == {"memories": 1, "audit_records": 2}
        scripts = [entry for entry in client.slowlog_get(1000) if entry["command"].startswith(b"EVALSHA")]
        client.config_set("slowlog-log-slower-than", 10_000)
    assert len(scripts) < 20
    assert len(call.audit(NS, limit=5000)) == 3002


def test_any_text_is_recorded_as_it_is(lives):
    key = 'ключ 汉字 "quoted" \0 \\ \t \x1f1234 \ud800'
    call = lives.call
    call.remember(NS, "x", key=key)
    call.remember(NS, "y", key="y")
    call.link(NS, "y", "relates", key)
    linked, _, first = call.audit(())
    assert (first.key, linked.details["other"]) == (key, key)
    assert call.forget(NS, key).erased["audit_records"] == 2
