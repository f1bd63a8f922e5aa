"""How people plainly tell what is so, what has changed and what is no longer so, and how far that goes."""

from __future__ import annotations

import pytest

from tests.support.rule_conversations import ALL

pytestmark = pytest.mark.exhaustive

LEADS = [
    "Just letting you know that",
    "I wanted to let you know that",
    "I should mention that",
    "I forgot to mention that",
    "You should know that",
    "Guess what:",
    "Unfortunately,",
    "Luckily,",
    "Update my profile:",
    "Please update that",
    "Fun fact:",
    "Quick correction:",
    "Hey, quick update:",
    "Let me update you:",
    "Since January",
    "After the wedding",
    "As of last week,",
    "To be clear,",
    "My wife and",
]
TAILS = [
    "for work",
    "for my job",
    "for good",
    "permanently",
    "at the moment",
    "right now",
    "nowadays",
    "again",
    "for 3 years now",
    "by the way",
    ":)",
    "😊",
    "(not Paris)",
    "(Italy)",
    "to study",
    "to work at Google",
    "last Tuesday",
    "a month ago",
    "over the weekend",
    "earlier this year",
    "on Monday",
    "after the wedding",
    "with my two kids",
    "because of my job",
]
ZH_LEADS = [
    "更新一下：",
    "请更新：",
    "备注：",
    "个人信息：",
    "关于我：",
    "我想说，",
    "说一下，",
    "你要记住，",
    "其实",
    "去年起",
]


@pytest.mark.parametrize(
    ("known", "said"),
    [
        *(("I live in Paris.", f"{lead} I live in Rome.") for lead in LEADS),
        *(("I live in Paris.", f"I moved to Rome {tail}.") for tail in TAILS),
        *(("我住在北京。", f"{lead}我住在上海。") for lead in ZH_LEADS),
        ("I live in Paris.", "We moved to Berlin last month."),
        ("I live in Paris.", "I finally moved to Berlin last weekend, so excited!"),
        ("I live in Paris.", "I ended up moving to Berlin."),
        ("I live in Paris.", "We've settled in Berlin."),
        ("I live in Paris.", "My new home is Berlin."),
        ("My name is Ada.", "Please call me Eve from now on."),
        ("My name is Ada.", "I changed my name to Eve."),
        ("My name is Ada.", "My name is actually Eve."),
        ("I work at Google.", "I got a new job at Microsoft."),
        ("I work at Google.", "I got hired by Microsoft."),
        ("I'm vegetarian.", "I went vegan."),
        ("I'm vegetarian.", "I follow a vegan diet now."),
        ("我叫小明。", "我的名字改成小红了。"),
        ("I live in Paris.", "I've moved to Rome for work"),
        ("我住在北京。", "我们搬到上海了。"),
        ("我住在北京。", "我和老婆住在上海。"),
        ("我住在北京。", "我搬家了，现在住在上海。"),
        ("我住在北京。", "我现在住上海。"),
        ("我住在北京。", "我和老婆搬到上海了。"),
        ("我在谷歌工作。", "我换工作了，现在在微软上班。"),
        ("我在谷歌工作。", "我入职微软了。"),
        ("My birthday is May 5.", "My birthday is May 6th."),
        ("My birthday is May 5.", "My birthday is on March 3rd, 1990."),
        ("My phone number is 555-123-4567.", "My phone number is 555-987-6543."),
        ("I'm a teacher.", "I'm a nurse now."),
        ("I work as a teacher.", "I now work as a software engineer at Google."),
        ("我是一名老师。", "我现在是一名护士。"),
        ("My name is Ada.", "You can call me Eve."),
        ("我叫小明。", "以后叫我小红。"),
    ],
)
def test_what_is_so_now_replaces_what_was(talk, known, said):
    talk.say(known)
    assert talk.say(said)[0][0] == "supersede"
    assert len(talk.known()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "I'm a nurse.",
        "I'm from Canada.",
        "I have two kids.",
        "I have a dog named Max.",
        "My wife's name is Anna.",
        "I'm 34 years old.",
        "I have a peanut allergy.",
        "I've got a severe nut allergy.",
        "I speak Spanish.",
        "I'm left-handed.",
        "We live in Chicago.",
        "I live in Rome with my two kids.",
        "My wife and I live in Oslo.",
        "My birthday is on March 3rd.",
        "I now work for Siemens as a lawyer.",
        "Just so you know, I'm vegetarian.",
        "I joined Google last month.",
        "我吃素。",
        "我是护士。",
        "我家在杭州。",
        "我海鲜过敏。",
        "我有两个孩子。",
    ],
)
def test_what_is_told_first_is_kept(talk, text):
    assert [action for action, _ in talk.say(text)] == ["remember"]
    assert talk.known() == [text]


@pytest.mark.parametrize(
    "said",
    [
        "I found out I'm not allergic to penicillin.",
        "The test showed I'm not allergic to penicillin.",
        "Tests show I am not allergic to penicillin.",
        "The doctor said I'm not allergic to penicillin.",
        "The doctor told me that I'm not allergic to penicillin.",
        "I learned today that I'm not allergic to penicillin.",
        "After the test I'm not allergic to penicillin any more.",
        "Luckily, I'm not allergic to penicillin.",
        "It turns out I'm not allergic to penicillin after all.",
        "I no longer have a penicillin allergy.",
        "I outgrew my penicillin allergy.",
    ],
)
def test_an_allergy_that_is_denied_by_a_test_or_a_doctor_is_current_no_more(talk, said):
    assert talk.say("I'm allergic to penicillin.", said) == [("retire", "NEGATE")]
    assert talk.known() == []


@pytest.mark.parametrize(
    "said",
    [
        "My cousin's cat found out I'm not allergic to penicillin.",
        "I thought I was allergic to penicillin, but I'm not.",
        "I'm not very allergic to penicillin.",
        "I'm not always allergic to penicillin.",
        "I'm not allergic to penicillin with milk.",
        "I'm not allergic to penicillin as far as I know, just pollen.",
        "I'm not allergic to penicillin, my brother is.",
        "I'm not allergic to penicillin, he said.",
        "I was allergic to penicillin.",
    ],
)
def test_a_denial_that_is_none_or_only_half_of_one_leaves_the_allergy(talk, said):
    talk.say("I'm allergic to penicillin.", said)
    assert "I'm allergic to penicillin." in talk.known()
    assert [one["action"] for one in talk.decisions if one["action"] in ("merge", "retire")] == []


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("I'm allergic to cats and dogs.", "I'm no longer allergic to cats."),
        ("I'm allergic to milk and eggs.", "I'm not allergic to milk."),
        ("I'm allergic to milk, eggs and nuts.", "I'm no longer allergic to milk."),
        ("I like tea and coffee.", "I don't like tea."),
        ("I don't like tea and coffee.", "I like tea."),
        ("I like coffee.", "I don't like coffee with sugar."),
        ("I like jazz.", "I don't like jazz as much as rock."),
        ("I like coffee.", "I don't drink coffee today."),
        ("I like coffee.", "I don't like coffee, I love it!"),
        ("I love dogs.", "I don't eat dogs."),
        ("我喜欢狗。", "我不吃狗。"),
        ("I'm vegan.", "I'm not vegan today."),
        ("I'm vegan.", "I'm not a vegan because of fashion."),
        ("I'm vegan.", "I'm not vegan, I'm VEGAN!"),
        ("I live in Paris.", "I don't live in Paris with my parents."),
        ("I live in Paris.", "I don't live in Paris because I like it."),
        ("I live in Paris.", "I used to live in Paris as a child, and now again."),
        ("I live in Paris.", "I moved out of Paris and back again."),
    ],
)
def test_a_denial_of_half_of_it_ends_nothing(talk, known, said):
    talk.say(known, said)
    assert known in talk.known()


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("I'm allergic to penicillin.", "I'm allergic to penicillin and aspirin."),
        ("I'm allergic to nuts.", "I'm allergic to nuts and penicillin."),
        ("I like tea.", "I like tea and coffee."),
        ("I like tea.", "I like tea with milk."),
        ("I live in Rome.", "I live in Rome with my two kids."),
    ],
)
def test_more_than_is_known_is_not_merged_away(talk, known, said):
    talk.say(known, said)
    assert said in talk.known()


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("I work as a teacher.", "My job is a nightmare."),
        ("I work as a teacher.", "My job is a lot of fun."),
        ("I work as a teacher.", "I work as fast as I can."),
        ("I work as a teacher.", "I also work as a DJ."),
        ("I work at Acme.", "I also work for Globex."),
        ("I use Android.", "I also have an iPhone."),
        ("I use Windows.", "I also use Linux."),
        ("My budget is 500 euros.", "My budget is tight."),
        ("My deadline is May 5.", "My deadline is approaching fast."),
        ("My phone number is 555-123-4567.", "My phone number is private."),
        ("我的老板是王芳。", "我的老板是混蛋"),
        ("我的专业是物理。", "我的专业是很难"),
        ("I live in Paris.", "I live in Rome, said Bob."),
        ("I live in Paris.", "I live in Rome, my friend said."),
        ("I live in Paris.", "I live in Rome, in my dreams."),
        ("I live in Paris.", "I live in Rome, not."),
        ("I live in Paris.", "I live in Rome, Bob claims."),
        ("I live in Paris.", "I live in Rome, or so I tell people."),
        ("I live in Paris.", "I live in Rome. Just kidding."),
        ("I live in Paris.", "I don't live in Paris. Just kidding."),
        ("I live in Paris.", "Fix my grammar: I lives in Rome. I live in Rome."),
        ("I live in Paris.", "I moved to Rome in 2005."),
        ("I live in Paris.", "Ten years ago I moved to Rome."),
        ("I live in Paris.", "I live at Home."),
        ("I live in Paris.", "I moved to Verizon."),
        ("I work at Google.", "I work at Home."),
        ("I work at Google.", "I work for God."),
        ("我叫小明。", "我叫救护车"),
        ("我叫小明。", "我叫快递"),
        ("My name is Ada.", "Forget my name. No wait, don't."),
        ("My name is Ada.", "Forget my name. Just kidding!"),
        ("我住在北京。", "我住在上海。开玩笑的。"),
        ("我住在北京。", "我住院了。"),
        ("I live in Paris.", "I'm based in Rome this week."),
        ("I live in Paris.", "I moved to Marketing."),
        ("I live in Paris.", "Please proofread\n\nI live in Rome. I work at Google."),
        ("I live in Paris.", "Dear Sir,\nI live in Rome.\nYours, Bob"),
        ("I live in Paris.", "From: Bob\nI live in Rome.\nBob"),
        ("I live in Paris.", 'My friend texted me "hey, what\'s up. I live in Rome. Come visit"'),
        ("I'm allergic to nuts.", "Please translate into French\n\nI'm not allergic to nuts."),
        ("My birthday is May 5.", "Translate into French\nForget my birthday."),
        ("My birthday is May 5.", "Bob wrote me.\nPlease forget my birthday.\nWhat should I answer?"),
        ("My birthday is May 5.", "Subject: Hi\n\nPlease forget my birthday.\nBob"),
        ("My birthday is May 5.", "Forget my birthday for now."),
        ("I'm allergic to nuts.", "Forget about my allergy for now."),
        ("我住在北京。", "请翻译\n我住在上海。"),
    ],
)
def test_what_says_something_else_replaces_and_ends_nothing(talk, known, said):
    talk.say(known, said)
    assert known in talk.known()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("I live in Rome and work at Acme.", ["I live in Rome", "I work at Acme."]),
        ("I'm vegan and love cheese.", ["I love cheese.", "I'm vegan"]),
        ("I hate tea but love coffee.", ["I hate tea", "I love coffee."]),
        (
            "My name is Ada, I'm 30 years old and I work at Acme.",
            ["I work at Acme.", "I'm 30 years old", "My name is Ada"],
        ),
    ],
)
def test_each_fact_of_a_sentence_is_a_sentence_of_its_own(talk, text, kept):
    talk.say(text)
    assert talk.known(**ALL) == sorted(kept)


@pytest.mark.parametrize(
    "unit",
    [
        "I live in Rome and ",
        "I like tea, ",
        "I'm not allergic to nuts and ",
        "since last week now ",
        "please remember that ",
        "a\n",
        "I live in Rome.\n",
        "- I like tea\n",
        "```\n",
        "我住在上海，",
        '"a. ',
    ],
)
def test_a_message_that_never_ends_is_heard_in_bounded_time(talk, unit):
    talk.say(unit * (50_000 // len(unit)) + "\nI live in Oslo.")
    assert len(talk.decisions) < 10
