"""What the policy makes of conversations, in English and in Chinese, with no model at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_forgetful_store.memory_types import LIFECYCLE
from langgraph_forgetful_store.policy import MemoryPolicy, RulesExtractor
from langgraph_forgetful_store.policy.recall_node import RecallMemories
from tests.policy_graphs import INDEX, NS, config, current, graph

DAY = 24 * 60
ALL = {"status": ("active", "archived", "superseded"), "memory_types": list(LIFECYCLE)}


class Conversation:
    """A user who says one thing after the other.

    Attributes:
        store: The memory.
        decisions: What was decided about the last message.
    """

    def __init__(self, store: Any, asynchronous: bool) -> None:
        self.store = store
        self.decisions: list[dict[str, Any]] = []
        self._graph = graph(store, MemoryPolicy(extractor=RulesExtractor()), InMemorySaver())
        self._asynchronous = asynchronous

    def say(self, *texts: str) -> list[tuple[str, str | None]]:
        """Say something, and return what was decided about the last of it."""
        for text in texts:
            known = {one["id"] for one in self.decisions}
            state = {"messages": [HumanMessage(text), AIMessage("ok")]}
            made = self._run(state)["memory_decisions"]
            fresh = [one for one in made if one["id"] not in known]
            self.decisions = made
        return [(one["action"], one["relation"]) for one in fresh]

    def _run(self, state: Any) -> Any:
        if not self._asynchronous:
            return self._graph.invoke(state, config())

        async def once() -> Any:
            try:
                return await self._graph.ainvoke(state, config())
            finally:
                await self.store.aclose()

        return asyncio.run(once())

    def known(self, **options: Any) -> list[str]:
        """What is current, or what is asked for."""
        return sorted(current(self.store, **options))

    def only(self, **options: Any) -> Any:
        """The lifecycle of the only memory there is."""
        (item,) = self.store.recall(NS, **{**ALL, **options})
        return item.memory


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def talk(request: pytest.FixtureRequest, make_any_store: Any, clock: Any) -> Conversation:
    """A conversation."""
    return Conversation(make_any_store(index=INDEX, clock=clock), request.param)


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


@pytest.mark.parametrize(
    ("known", "request_"),
    [
        ("I'm allergic to peanuts.", "Please forget my allergy."),
        ("I'm allergic to peanuts.", "Forget my allergies!"),
        ("我对花生过敏。", "请忘掉我的过敏。"),
        ("I live in Rome.", "Please forget my address."),
        ("I live in Rome.", "forget my home"),
        ("我住在北京。", "请把我的住址忘掉。"),
        ("I work at Acme.", "Forget my job."),
        ("我在谷歌工作。", "忘掉我的工作。"),
        ("My name is Ada.", "Delete my name."),
        ("我叫小明。", "删掉我的名字。"),
        ("I'm vegetarian.", "Stop remembering my diet."),
    ],
)
def test_a_request_to_forget_finds_what_it_is_about(talk, known, request_):
    talk.say(known, "I like tea. 我喜欢茶。")
    assert talk.say(request_) == [("forget", None)]
    assert talk.known(**ALL) == ["I like tea.", "我喜欢茶。"]


def test_what_is_to_be_forgotten_is_found_among_many(talk):
    home = talk.store.remember(NS, "I live in Rome", memory_type="identity").key
    for at in range(40):
        talk.store.remember(NS, f"my home made soup number {at}")
    assert talk.say("Forget my home.") == [("forget", None)]
    assert talk.store.get(NS, home) is None
    assert len(talk.known()) == 40


def test_what_is_called_so_is_forgotten_before_what_is_alike(talk):
    talk.say("My address is a secret. I live in Rome.")
    assert talk.say("Forget my address.") == [("forget", None)]
    assert talk.known() == ["I live in Rome."]


def test_a_request_to_forget_names_a_subject_by_its_alias(talk):
    talk.store.remember(NS, "sits on the second floor", subject="Robert", attribute="desk")
    talk.store.alias(NS, "Robert", "Bobby")
    talk.store.remember(NS, "sits on the third floor", subject="Eve", attribute="desk")
    assert talk.say("Forget Bobby's desk.") == [("forget", None)]
    assert talk.known() == ["sits on the third floor"]


def test_words_that_only_occur_in_a_memory_do_not_make_it_what_is_forgotten(talk):
    texts = ["I like people who live for music.", "I like work that is called play.", "我喜欢工作。"]
    talk.say(*texts)
    for text in ("Forget my address.", "Forget my job.", "Forget my name.", "忘掉我的住址。"):
        assert talk.say(text) == [("refuse", None)]
    for text in ("Forget my work.", "忘掉我的工作。"):
        assert talk.say(text) == [("ask", None)]
    assert talk.known() == sorted(texts)


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
    "text",
    [
        "Did you forget my name?",
        "Why did you delete my name?",
        "You must not forget my name.",
        "You shouldn’t forget my name.",
        "I don’t want you to forget my name.",
        "Please never delete my name.",
        "People always forget my name.",
        "My mom will forget my name.",
        "I had to delete my name.",
        "I want to delete my name.",
        "Forget my name?",
        "If I say so, forget my name.",
        "你是不是忘了我的名字",
        "你怎么忘了我的名字？",
        "我妈妈忘了我的名字。",
        "我差点忘了我的名字。",
        "他们总忘记我的名字。",
        "请勿删除我的名字。",
        "你不能删除我的名字。",
        "请永远不要忘记我的名字。",
        "忘了我的名字。",
    ],
)
def test_talk_of_forgetting_erases_nothing(talk, text):
    talk.say("My name is Ada.")
    assert "forget" not in [action for action, _ in talk.say(text)]
    assert "My name is Ada." in talk.known()


@pytest.mark.parametrize("text", ["Can you forget my name?", "可以忘掉我的名字吗？", "忘掉吧。"])
def test_what_may_be_no_more_than_a_question_is_asked_about(talk, text):
    talk.say("My name is Ada.")
    assert talk.say(text) == [("ask", None)]


@pytest.mark.parametrize(
    ("mine", "theirs", "request_"),
    [
        ("I'm allergic to peanuts.", "My wife is allergic to shellfish.", "Forget my allergy."),
        ("I live in Rome.", "My mother lives in Paris.", "Forget my address."),
        ("My birthday is May 5.", "My son's birthday is June 6.", "Please delete my birthday."),
        ("我对花生过敏。", "我妈妈对青霉素过敏。", "请忘掉我的过敏。"),
        ("我的生日是五月五日。", "我妈妈的生日是六月六日。", "忘掉我的生日。"),
    ],
)
def test_what_is_mine_is_not_what_is_of_those_i_know(talk, mine, theirs, request_):
    talk.store.remember(NS, theirs)
    talk.store.remember(NS, mine)
    assert talk.say(request_) == [("forget", None)]
    assert talk.known() == [theirs]


def test_what_is_of_another_is_forgotten_where_they_are_named(talk):
    talk.store.remember(NS, "My birthday is May 5.")
    talk.store.remember(NS, "My son's birthday is June 6.")
    talk.store.remember(NS, "sits on the third floor", subject="Eve", attribute="desk")
    assert talk.say("Forget my desk.") == [("refuse", None)]
    assert talk.say("Forget my son's birthday.") == [("forget", None)]
    assert talk.known() == ["My birthday is May 5.", "sits on the third floor"]


@pytest.mark.parametrize(
    ("exact", "longer", "request_"),
    [
        ("I like tea.", "I like green tea with milk.", "Forget that I like tea."),
        ("我喜欢茶。", "我喜欢加奶的绿茶。", "请忘掉我喜欢茶。"),
    ],
)
def test_a_sentence_to_be_forgotten_means_what_says_the_same(talk, exact, longer, request_):
    talk.store.remember(NS, longer)
    assert "forget" not in [action for action, _ in talk.say(request_)]
    talk.store.remember(NS, exact)
    assert talk.say(request_) == [("forget", None)]
    assert talk.known() == [longer]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I live in Paris.", "I don't live in Paris any more, I live in Rome."),
        ("I live in Paris.", "I no longer live in Paris but in Rome."),
        ("I live in Paris.", "I used to live in Paris, now Rome."),
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


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Don't forget that I'm allergic to penicillin.", "I'm allergic to penicillin."),
        ("Please don’t forget: I live in Rome.", "I live in Rome."),
        ("Do not forget that I'm vegetarian.", "I'm vegetarian."),
        ("别忘了我对青霉素过敏。", "我对青霉素过敏。"),
        ("不要忘了我住在上海。", "我住在上海。"),
        ("请不要忘记我住在上海。", "我住在上海。"),
    ],
)
def test_what_must_not_be_forgotten_is_remembered(talk, text, kept):
    assert talk.say(text) == [("remember", "ADD")]
    assert talk.known() == [kept]


@pytest.mark.parametrize(
    ("texts", "request_"),
    [
        (["I saw a jazz concert in Rome.", "Jazz makes my son sleep."], "Forget jazz."),
        (["我在罗马听了爵士乐。", "爵士乐让我儿子睡觉。"], "忘掉爵士乐。"),
    ],
)
def test_a_word_that_several_memories_hold_is_asked_about(talk, texts, request_):
    for text in texts:
        talk.store.remember(NS, text)
    assert talk.say(request_) == [("ask", None)]
    assert talk.known() == sorted(texts)


@pytest.mark.parametrize(("text", "request_"), [("I like jazz.", "Forget jazz."), ("我喜欢爵士乐。", "忘掉爵士乐。")])
def test_a_liking_is_forgotten_by_what_is_liked(talk, text, request_):
    assert talk.say(text, request_) == [("forget", None)]
    assert talk.known() == []
