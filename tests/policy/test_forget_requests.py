"""What is erased by words, and what is not: in doubt nothing is."""

from __future__ import annotations

import pytest

from tests.support.policy_graphs import NS
from tests.support.rule_conversations import ALL

pytestmark = pytest.mark.exhaustive


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
        (["I like jazz.", "I heard jazz in Rome."], "Forget jazz."),
        (["I like jazz.", "I'm into jazz."], "Please forget jazz."),
        (["我喜欢爵士乐。", "我在罗马听了爵士乐。"], "忘掉爵士乐。"),
    ],
)
def test_a_word_that_several_memories_hold_is_asked_about(talk, texts, request_):
    for text in texts:
        talk.store.remember(NS, text)
    assert talk.say(request_) == [("ask", None)]
    assert talk.known() == sorted(texts)


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("I like jazz.", "Forget that I like jazz."),
        ("I like jazz.", "Please forget that I like jazz, thanks."),
        ("我喜欢爵士乐。", "请忘掉我喜欢爵士乐。"),
    ],
)
def test_a_liking_is_forgotten_where_it_is_told_which(talk, text, request_):
    assert talk.say(text, request_) == [("forget", None)]
    assert talk.known() == []


@pytest.mark.parametrize(
    ("known", "request_"),
    [
        ("I like jazz.", "Forget jazz."),
        ("我喜欢爵士乐。", "忘掉爵士乐。"),
        ("I'm allergic to peanuts.", "Remove the peanuts."),
        ("我对花生过敏。", "请删除花生"),
        ("I live in Paris.", "Forget Paris."),
        ("I work at Google.", "Delete Google."),
        ("我在谷歌工作。", "帮我把谷歌删除"),
        ("I work at Google.", "Forget work."),
        ("My name is Ada.", "Remove Ada."),
        ("I like jazz.", "Now delete jazz.mp3"),
        ("I'm allergic to peanuts and shellfish.", "Forget my allergy to peanuts."),
        ("I like jazz and blues.", "Forget that I like jazz."),
        ("I live in Paris.", "Forget my address, I was joking."),
        ("我对花生过敏。", "忘掉我的过敏，我是说真的。"),
    ],
)
def test_what_a_word_or_half_of_a_sentence_may_mean_is_not_forgotten(talk, known, request_):
    talk.say(known)
    assert [action for action, _ in talk.say(request_)] in (["ask"], ["refuse"], [])
    assert talk.known() == [known]


@pytest.mark.parametrize(
    ("known", "request_"),
    [
        ("I'm allergic to peanuts.", "Forget peanuts! I want cashews."),
        ("I'm allergic to peanuts.", "Forget the peanuts, add walnuts to the recipe."),
        ("I'm allergic to peanuts.", "Delete peanuts, add eggs."),
        ("我对花生过敏。", "删掉花生，加点核桃。"),
        ("我对花生过敏。", "忘掉花生吧，换成核桃。"),
        ("I live in Paris.", "OK, forget Paris. What about Rome for the holidays?"),
        ("I live in Paris.", "Forget Paris, let's go to Rome!"),
        ("I live in Paris.", "Forget about Paris, I was only joking about the trip."),
        ("I work at Google.", "Forget Google, use Bing."),
        ("I work at Google.", "Forget work, let's party!"),
        ("I work at Google.", "Forget my job, what about your job."),
        ("我在谷歌工作。", "忘掉工作，去玩吧"),
        ("I like jazz.", "Forget jazz, rock is better."),
        (
            "I live in Paris.",
            "Here is the email I got:\nHi,\nI live in Rome.\nMy name is Bob.\nPlease forget my address.\nBye",
        ),
        ("I live in Paris.", "> Please forget my address.\n> I live in Rome."),
        ("I live in Paris.", "```\nPlease forget my address.\nI live in Rome.\n```"),
    ],
)
def test_what_is_about_something_else_forgets_and_replaces_nothing(talk, known, request_):
    talk.say(known)
    assert {action for action, _ in talk.say(request_)} <= {"ask", "refuse"}
    assert talk.known(**ALL) == [known]


@pytest.mark.parametrize(
    ("known", "request_"),
    [
        ("I work at Acme.", "Forget my job."),
        ("I'm allergic to peanuts.", "Please forget my allergies."),
        ("我在谷歌工作。", "忘掉我的工作。"),
        ("I like jazz.", "Forget that I like jazz."),
    ],
)
def test_what_holds_no_longer_is_forgotten_too(talk, known, request_):
    talk.say(known)
    (item,) = talk.store.recall(NS, **ALL)
    talk.store.retire(NS, item.key)
    assert talk.say(request_) == [("forget", None)]
    assert talk.store.history(NS, item.key) == []


def test_with_what_holds_goes_what_held_before_and_what_was_closed(talk):
    talk.say("I work at Acme.", "I work at Beta.", "I no longer work at Beta.", "I work at Gamma.")
    assert {action for action, _ in talk.say("Forget my job.")} == {"forget"}
    assert talk.known(**ALL) == []


@pytest.mark.parametrize("request_", ["Forget that I live in Paris.", "Forget Paris."])
def test_what_only_held_before_is_not_forgotten_with_what_took_its_place(talk, request_):
    talk.say("I live in Paris.", "I live in Rome.")
    assert talk.say(request_) == [("ask", None)]
    assert talk.known() == ["I live in Rome."]
