"""What the policy makes of conversations, in English and in Chinese, with no model at all."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage

from langgraph_forgetful_store.model.memory_types import LIFECYCLE
from langgraph_forgetful_store.policy import MemoryPolicy
from langgraph_forgetful_store.policy.recall_node import RecallMemories
from tests.support.policy_graphs import NS, config
from tests.support.rule_conversations import ALL

DAY = 24 * 60


@pytest.mark.parametrize("text", ["I'm preparing the app review this week.", "我这周在准备应用评审。"])
def test_what_is_of_this_week_is_gone_after_it(talk, clock, text):
    assert talk.say(text) == [("remember", "ADD")]
    assert talk.only().memory_type == "task"
    clock.advance(minutes=7 * DAY - 1)
    assert talk.known() == [text]
    clock.advance(minutes=2)
    assert talk.known(**ALL) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I like the minimal style.", "I now prefer a retro style."),
        ("我喜欢极简风格。", "我现在喜欢复古风。"),
        ("I use Android.", "I switched to iOS."),
        ("我用安卓。", "我换成苹果了。"),
        ("I live in Paris.", "I moved to Rome."),
        ("我住在北京。", "我搬到上海了。"),
    ],
)
def test_what_changed_replaces_what_was_and_does_not_stand_beside_it(talk, old, new):
    assert talk.say(old, new) == [("supersede", "UPDATE")]
    assert talk.known() == [new]
    assert talk.known(**ALL) == sorted([old, new])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I live in Paris.", "Actually, I live in Rome."),
        ("I live in Paris.", "No, I live in Rome."),
        ("我住在北京。", "不对，我住在上海。"),
    ],
)
def test_a_correction_does_not_only_add(talk, old, new):
    assert talk.say(old, new) == [("supersede", "CONTRADICT")]
    assert talk.known() == [new]


@pytest.mark.parametrize(
    ("old", "new"), [("I live in Paris.", "I no longer live in Paris."), ("我住在北京。", "我不再住在北京了。")]
)
def test_what_is_denied_is_current_no_more(talk, old, new):
    assert talk.say(old, new) == [("retire", "NEGATE")]
    assert talk.known() == []


@pytest.mark.parametrize(
    ("maybe", "sure"),
    [
        ("I may be allergic to penicillin.", "I am allergic to penicillin."),
        ("我可能对青霉素过敏。", "我对青霉素过敏。"),
    ],
)
def test_an_allergy_in_doubt_is_told_with_the_doubt_until_it_is_sure(talk, clock, maybe, sure):
    assert talk.say(maybe) == [("remember", "ADD")]
    clock.advance(minutes=365 * DAY)
    told = RecallMemories(store=talk.store).invoke({"messages": [HumanMessage("zebra")]}, config())["memory_context"]
    assert maybe in told
    assert "ask the user to confirm" in told
    assert talk.say(sure) == [("supersede", "UPDATE")]
    assert talk.known() == [sure]
    told = RecallMemories(store=talk.store).invoke({"messages": [HumanMessage("zebra")]}, config())["memory_context"]
    assert "ask the user to confirm" not in told
    assert talk.say(maybe) == [("refuse", "DUPLICATE")]


@pytest.mark.parametrize("text", ["I think I might like jazz.", "我觉得我可能喜欢爵士乐。"])
def test_a_liking_in_doubt_is_a_hypothesis_of_a_week_at_most(talk, clock, text):
    assert talk.say(text) == [("remember", "ADD")]
    assert (talk.only().memory_type, talk.only().confidence) == ("hypothesis", 0.4)
    assert talk.known() == []
    assert talk.known(memory_types=["hypothesis"]) == [text]
    clock.advance(minutes=7 * DAY)
    assert talk.known(**ALL) == []


@pytest.mark.parametrize(
    ("task", "done"),
    [
        ("I need to book the train to Beijing.", "Booking the train to Beijing is done."),
        ("I have to finish the report.", "I finished the report."),
        ("I'm going to paint the fence.", "Painting the fence is finally done!"),
        ("I have to write the minutes.", "That is done."),
        ("我需要订去北京的火车票。", "去北京的火车票订好了。"),
        ("我得写报告。", "报告已经写完了。"),
        ("我打算修自行车。", "修自行车的事已经办完了。"),
    ],
)
def test_a_task_is_kept_until_it_is_done(talk, task, done):
    assert talk.say(task) == [("remember", "ADD")]
    assert talk.only().memory_type in ("task", "intent")
    assert talk.known() == [task]
    assert talk.say(done) == [("archive", None)]
    assert talk.known() == []


def test_of_two_tasks_the_one_that_is_named_is_ended(talk):
    talk.say("I need to book the train to Beijing. I need to call the plumber.")
    assert talk.say("That is done.") == [("ask", None)]
    assert talk.say("Calling the plumber is done.") == [("archive", None)]
    assert talk.known() == ["I need to book the train to Beijing."]
    assert talk.say("Watering the plants is done.") == [("refuse", None)]


@pytest.mark.parametrize("text", ["continue", "this is fine", "OK, thanks!", "继续", "这样就可以了", "好的，谢谢"])
def test_what_keeps_the_conversation_going_is_not_kept(talk, text):
    assert talk.say(text) == []
    assert talk.known(**ALL) == []


@pytest.mark.parametrize(
    "text",
    [
        "I need to know the time.",
        "I need you to stop.",
        "I have to say this is nice.",
        "I'm going to think about it.",
        "I don't think I like jazz.",
        "我需要你帮忙。",
        "我得走了。",
        "Do I live in Rome?",
        "我住在北京吗？",
    ],
)
def test_what_is_said_of_the_conversation_or_asked_is_no_fact(talk, text):
    assert talk.say(text) == []


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kind in LIFECYCLE.items() if name != "sensitive"])
def test_a_memory_of_any_type_lives_as_long_as_its_type_says(make_any_store, clock, name, kind):
    store = make_any_store(clock=clock)
    candidate = {"content": "Something worth its place", "memory_type": name, "source": "user", "confidence": 0.9}
    (decision,) = MemoryPolicy(store=store).invoke({"memory_candidates": [candidate]}, config())["memory_decisions"]
    assert (decision["action"], decision["answers"]["expiry"]) == ("remember", kind.ttl)
    assert decision["answers"]["profile"] == (name in ("identity", "preference"))
    assert decision["answers"]["short_task"] == (name in ("task", "conversation", "emotion"))
    (item,) = store.recall(NS, memory_types=[name])
    assert item.memory.memory_type == name
    if kind.ttl is None:
        assert item.memory.expires_at is None
        return
    clock.advance(minutes=kind.ttl)
    gone = store.recall(NS, memory_types=[name], status=("active", "archived"))
    assert [str(item.memory.status) for item in gone] == (["archived"] if kind.on_expiry == "archive" else [])


def test_a_sensitive_memory_is_refused(make_any_store):
    candidate = {"content": "Something private", "memory_type": "sensitive", "source": "user"}
    policy = MemoryPolicy(store=make_any_store())
    (decision,) = policy.invoke({"memory_candidates": [candidate]}, config())["memory_decisions"]
    assert (decision["action"], decision["reason"]) == ("refuse", "sensitive: sensitive")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I live in Paris.", "I don't live in Paris any more, I live in Rome."),
        ("I live in Paris.", "I no longer live in Paris but in Rome."),
        ("I live in Paris.", "I used to live in Paris, now Rome."),
        ("I live in Paris.", "I don't live in Paris any more; I'm in Rome now."),
        ("I live in Paris.", "I no longer live in Paris. I'm now in Rome."),
        ("I work at Acme.", "I no longer work at Acme. Now I'm at Globex."),
        ("I work at Acme.", "I don’t work at Acme any more, I work at Globex."),
        ("我住在北京。", "我不住在北京了，我现在住在上海。"),
        ("我住在北京。", "我已经不住在北京，搬到上海了。"),
        ("我在谷歌工作。", "我不再在谷歌工作，现在在苹果工作。"),
    ],
)
def test_what_ends_and_what_begins_in_one_sentence_replaces_what_was(talk, old, new):
    ((action, _),) = talk.say(old, new)
    assert action == "supersede"
    assert talk.known() == [new]


@pytest.mark.parametrize(
    ("old", "said", "kept"),
    [
        (
            "I'm allergic to peanuts.",
            "I'm not allergic to peanuts, I'm allergic to shellfish.",
            "I'm allergic to shellfish.",
        ),
        ("我对花生过敏。", "我不对花生过敏，我对虾过敏。", "我对虾过敏。"),
    ],
)
def test_a_denial_does_not_take_what_is_stated_beside_it(talk, old, said, kept):
    talk.say(old, said)
    assert talk.known() == [kept]
