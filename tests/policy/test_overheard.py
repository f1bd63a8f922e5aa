"""What only sounds like a fact replaces none, and what replaces a fact takes no other with it."""

from __future__ import annotations

import pytest

from tests.support.rule_conversations import ALL

pytestmark = pytest.mark.exhaustive

# What is known, and what takes its place nowhere.
LEFT_ALONE = {
    "I live in Paris.": [
        '"I live in Rome" is a song.',
        "The song goes: I live in Rome",
        "Translate: I live in Rome.",
        "Write a story that begins with I live in Rome.",
        "In my dream I moved to Rome.",
        "Sure, I live in Rome, and I'm the Pope.",
        "I moved to Rome for a week.",
        "I live in Rome for now",
        "I live in Rome during the week of the fair only.",
        "After I moved to Rome I left again.",
        "I moved to Rome and came back to Paris.",
        "I moved to Gmail.",
        "I moved to AWS",
        "I moved to Python 3",
        "I moved to Slack from Teams",
        "I moved to Row 5 at the theatre",
        "I live in Minecraft",
        "I live in Excel all day",
        "my city is Great",
        "my home is Windows 98 themed",
        "My home is My castle",
        "My hometown is Madrid.",
        "It's not like I don't live in Paris.",
        "My sister lives in Rome.",
        "I almost moved to Rome.",
    ],
    "我住在北京。": [
        "“我住在上海”用英语怎么说",
        "请翻译：我住在上海",
        "歌词是：我住在上海",
        "我梦见我住在上海",
        "有人以为我住在上海",
        "我住在上海才怪",
        "我住在上海的时候很开心",
        "我搬到二楼了",
        "我搬到沙发上睡",
        "我搬到新办公室了",
        "我住在三楼",
    ],
    "My name is Ada.": [
        "My name is Polish.",
        "Call me Crazy, but I like it.",
        "Call me Ishmael is a famous line.",
        "I'm called Mom by my kids",
    ],
    "我叫小明。": ["老板叫我加班", "我叫我儿子起床", "我的名字是三个字", "我的名字是我爸起的", "别叫我小明"],
    "I work at Acme.": [
        "I joined Discord.",
        "I joined Netflix as a subscriber.",
        "I joined Facebook in 2008 to talk to friends.",
        "I started at Harvard in 1999.",
        "I work at Starbucks most days because of the wifi.",
    ],
    "我在谷歌工作。": [
        "我在北京工作",
        "我在想下周上班的事",
        "我在2010年开始工作",
        "我在疫情期间工作很累",
        "我在星巴克工作时喜欢听歌",
    ],
    "I work as a teacher.": ["My job is stressful.", "My job is great."],
    "我是一名老师。": ["我是一个人住", "我是一个很懒的人", "我的工作是真的很累"],
    "I use an iPhone.": ["I use Windows.", "At work I use Linux.", "My phone is dead.", "My phone is 3 years old."],
    "我用苹果电脑。": ["我用安卓手机"],
    "I prefer the minimal style.": [
        "I love Gangnam style.",
        "I like the writing style of Hemingway.",
        "I like your style",
    ],
    "我喜欢极简风格。": ["我喜欢他的写作风格", "我喜欢台风天"],
    "I'm vegetarian.": [
        "I'm vegan on Mondays.",
        "I'm a vegan chef's husband.",
        "I'm celiac.",
        "I'm lactose intolerant.",
    ],
    "I'm celiac.": ["I'm vegetarian.", "I'm lactose intolerant."],
    "I'm halal.": ["I'm lactose intolerant."],
    "我是素食者。": ["我是乳糖不耐受"],
    "My dog is called Rex.": ["My dog is old."],
    "My sister is a doctor.": ["My sister is 30."],
    "My boss is Ann.": ["My boss is great."],
    "My girlfriend is Eve.": ["My girlfriend is angry."],
    "My car is red.": ["My car is electric."],
    "My friend is Tom.": ["My friend is Jim."],
    "我的猫是黑色的。": ["我的猫是公的"],
    "My birthday is May 5.": ["My birthday is in 3 weeks"],
    "I like tea.": ["It's not that I don't like tea."],
    "我喜欢茶。": ["我没喝茶"],
    "I'm allergic to peanuts.": [
        "I never said I'm not allergic to peanuts.",
        "I told the waiter I'm not allergic to peanuts, which was a lie.",
        "I dreamt that I'm not allergic to peanuts.",
        "It's not that I'm not allergic to peanuts, I just risk it.",
        "Translate to French: I'm not allergic to peanuts.",
        "Good thing I'm not allergic to peanuts, ha ha, I nearly died.",
        "I'm not allergic to anything.",
    ],
    "我对花生过敏。": ["翻译成英文：我不对花生过敏", "我不对花生过敏才怪", "我对什么都不过敏"],
}


@pytest.mark.parametrize(
    ("known", "said"), [(known, said) for known, all_said in LEFT_ALONE.items() for said in all_said]
)
def test_what_only_sounds_like_another_fact_takes_the_place_of_none(talk, known, said):
    talk.say(known)
    assert {action for action, _ in talk.say(said)} <= {"remember", "refuse", "ask", "merge"}
    assert known in talk.known()


@pytest.mark.parametrize(
    ("known", "said", "current"),
    [
        ("I live in Rome, I'm allergic to nuts.", "I moved to Paris.", ["I moved to Paris.", "I'm allergic to nuts."]),
        (
            "My name is Ada, I live in Rome and I'm allergic to nuts.",
            "I moved to Paris.",
            ["I moved to Paris.", "I'm allergic to nuts.", "My name is Ada"],
        ),
        ("I'm vegetarian and allergic to nuts.", "I'm vegan now.", ["I'm allergic to nuts.", "I'm vegan now."]),
        ("My name is Ada and I live in Rome.", "Call me Eve.", ["Call me Eve.", "I live in Rome."]),
        ("我叫小明，住在北京，对花生过敏。", "我搬到上海了。", ["我叫小明", "我对花生过敏。", "我搬到上海了。"]),
    ],
)
def test_what_replaces_one_fact_of_a_sentence_leaves_the_others(talk, known, said, current):
    talk.say(known)
    assert talk.say(said)[0][0] == "supersede"
    assert talk.known() == sorted(current)


@pytest.mark.parametrize(
    ("known", "said", "current"),
    [
        ("我住在北京。", "我不是住在北京，而是住在上海。", ["我不是住在北京，而是住在上海。"]),
        ("我住在北京。", "我不在北京住了。", []),
        ("我对花生过敏。", "我对花生不过敏。", []),
        ("我对花生过敏。", "我对花生已经不过敏了。", []),
        ("我好像对青霉素过敏。", "检查过了，我对青霉素不过敏。", []),
        ("我对花生过敏。", "我不是对花生过敏，是对虾过敏。", ["我是对虾过敏。"]),
        ("I'm allergic to peanuts.", "I'm not allergic to peanuts but to shellfish.", ["I'm allergic to shellfish."]),
        ("我在谷歌工作。", "我不在谷歌工作了，现在在微软。", ["我不在谷歌工作了，现在在微软。"]),
        (
            "My favorite color is blue.",
            "My favourite colour is red.",
            ["My favorite color is blue.", "My favourite colour is red."],
        ),
        ("My favorite team is Ajax.", "My favourite team is Inter.", ["My favourite team is Inter."]),
        ("I live in Paris.", "You misremember, I live in Rome.", ["I live in Rome."]),
        ("I live in Paris.", "That's not what I said, I live in Rome.", ["I live in Rome."]),
        ("我住在北京。", "你记错了，我住在上海。", ["我住在上海。"]),
        ("I use an Android phone.", "I have an iPhone now.", ["I have an iPhone now."]),
        ("I live in Paris.", "I moved back to Rome.", ["I moved back to Rome."]),
        ("我叫小明。", "我改名叫小红了。", ["我改名叫小红了。"]),
        ("我用安卓手机。", "我换苹果手机了。", ["我换苹果手机了。"]),
        ("我在谷歌工作。", "我跳槽到阿里了。", ["我跳槽到阿里了。"]),
        ("I'm vegetarian.", "I'm not vegetarian any more.", []),
        ("I live in Paris.", "I got a new job, so I moved to Berlin.", ["I got a new job, so I moved to Berlin."]),
        ("I live in Paris.", "I live in Rome with my wife.", ["I live in Rome with my wife."]),
        ("I work at Acme.", "I work at Globex as an engineer.", ["I work at Globex as an engineer."]),
        ("I live in Paris.", "Since last May I live in New York.", ["Since last May I live in New York."]),
        ("I'm allergic to nuts.", "im allergic to bees", ["I'm allergic to nuts.", "im allergic to bees"]),
    ],
)
def test_what_plainly_changed_is_not_left_beside_what_was(talk, known, said, current):
    talk.say(known, said)
    assert talk.known() == sorted(current)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("I'm allergic to peanuts.", "I'm not allergic to anything."),
        ("I'm allergic to peanuts.", "I have no allergies."),
        ("我对花生过敏。", "我对什么都不过敏。"),
        ("我对花生过敏。", "我没有任何过敏。"),
        ("I like tea and coffee.", "I don't like coffee."),
    ],
)
def test_a_denial_of_more_or_less_than_what_is_known_is_flagged(talk, known, said):
    talk.say(known, said)
    assert talk.known() == sorted([known, said])
    assert talk.decisions[-1]["reason"].startswith("conflict")


@pytest.mark.parametrize(
    "text",
    [
        "我不知道",
        "我没事",
        "我没问题",
        "我不明白",
        "我不懂你的意思",
        "我没时间",
        "我不在乎",
        "我没看到",
        "我不会",
        "我不是这个意思",
        "我不需要了",
        "我没带钥匙",
        "我不想说",
        "我喜欢这个答案",
        "我喜欢第二个",
        "我得想想",
        "我需要一个例子",
        "我需要更多细节",
        "I like the second option",
        "I don't like your tone",
        "I'm going to bed",
        "I need to correct you",
        "I'm going to try that",
        "Don't forget my name.",
        "请不要忘记我的名字",
    ],
)
def test_more_of_what_is_said_of_the_conversation_is_not_kept(talk, text):
    talk.say(text)
    assert talk.known(**ALL) == []


@pytest.mark.parametrize(("task", "said"), [("我打算学法语。", "我准备好了"), ("I have to get a visa.", "It's over.")])
def test_what_is_not_said_to_be_done_stays_to_be_done(talk, task, said):
    talk.say(task, said)
    assert talk.known() == [task]


def test_done_alone_is_said_of_the_only_task(talk):
    assert talk.say("I have to get a visa.", "Done!") == [("archive", None)]
