"""Facts read off sentences, the relations of two texts, and what a candidate's messages support."""

from __future__ import annotations

import pytest

from langgraph_forgetful_store.policy.facts import Fact
from langgraph_forgetful_store.policy.judges import Pair, Relation, RulesJudge, compare
from langgraph_forgetful_store.policy.statements import parse_fact
from langgraph_forgetful_store.policy.verification import unsupported

pytestmark = pytest.mark.exhaustive


@pytest.mark.parametrize(
    ("text", "slot", "value"),
    [
        ("I live in Paris", "home_city", "Paris"),
        ("I moved to Rome last year.", "home_city", "Rome"),
        ("I have just moved from Paris to Rome", "home_city", "Rome"),
        ("我住在北京", "home_city", "北京"),
        ("我搬到上海了", "home_city", "上海"),
        ("我住在新加坡", "home_city", "新加坡"),
        ("我住在那不勒斯", "home_city", "那不勒斯"),
        ("我在外交部工作", "employer", "外交部"),
        ("I already told you I live in Rome", "home_city", "Rome"),
        ("老实说，我住在上海", "home_city", "上海"),
        ("My name is Ada Lovelace", "name", "Ada Lovelace"),
        ("我叫小明", "name", "小明"),
        ("I switched from Android to iOS", "platform", "iOS"),
        ("我从安卓换成了苹果", "platform", "苹果"),
        ("I now prefer a retro style", "style", "retro style"),
        ("我现在喜欢复古风", "style", "复古风"),
        ("I work at Acme", "employer", "Acme"),
        ("我在谷歌工作", "employer", "谷歌"),
        ("My favourite color is blue", "favorite_color", "blue"),
        ("The capital of Freedonia is Fredville.", "capital", "Fredville"),
        ("Ada is married to William.", "is married to", "William"),
    ],
)
def test_a_sentence_names_a_slot_and_its_value(text, slot, value):
    fact = parse_fact(text)
    assert fact is not None
    assert (fact.attribute, fact.value, fact.single, fact.denied) == (slot, value, True, False)


@pytest.mark.parametrize(
    ("text", "attribute", "value"),
    [
        ("I don't like tea any more", "likes", "tea"),
        ("我不再喜欢咖啡", "likes", "咖啡"),
        ("I no longer live in Paris", "home_city", "Paris"),
        ("我不再住在北京了", "home_city", "北京"),
    ],
)
def test_a_denial_is_read_as_one(text, attribute, value):
    fact = parse_fact(text)
    assert fact is not None
    assert (fact.attribute, fact.value, fact.denied) == (attribute, value, True)


@pytest.mark.parametrize(
    "text",
    [
        "continue",
        "this is fine",
        "Where do you live?",
        "I like it",
        "Ada is famous for her notes.",
        "Bob is a member of the club",
    ],
)
def test_what_no_pattern_fits_is_no_fact(text):
    assert parse_fact(text) is None


def test_likings_do_not_exclude_each_other():
    assert parse_fact("I like tea") == Fact("user", "likes", "tea", single=False, memory_type="preference")


@pytest.mark.parametrize(
    ("new", "old", "relation"),
    [
        ("I live in Rome", "I live in Paris", Relation.UPDATE),
        ("我搬到上海了", "我住在北京", Relation.UPDATE),
        ("I switched to iOS", "I use Android", Relation.UPDATE),
        ("我换成苹果了", "我用安卓", Relation.UPDATE),
        ("I prefer a retro style", "I like the minimal style", Relation.UPDATE),
        ("我现在喜欢复古风", "我喜欢极简风格", Relation.UPDATE),
        ("The capital of Freedonia is Newtown.", "The capital of Freedonia is Fredville.", Relation.UPDATE),
        ("Actually, I live in Rome", "I live in Paris", Relation.CONTRADICT),
        ("不对，我住在上海", "我住在北京", Relation.CONTRADICT),
        ("I no longer live in Paris", "I live in Paris", Relation.NEGATE),
        ("I don't like tea any more", "I like tea", Relation.NEGATE),
        ("我不再喜欢咖啡", "我喜欢咖啡", Relation.NEGATE),
        ("I like tea", "I like coffee", Relation.SUPPLEMENT),
        ("I live in Paris, France", "I live in Paris", Relation.SUPPLEMENT),
        ("我喜欢茶", "我喜欢咖啡", Relation.SUPPLEMENT),
        ("I live in Paris.", "i live in paris", Relation.DUPLICATE),
        ("The office opens at nine", "office opens at nine", Relation.DUPLICATE),
        ("我住在北京。", "我住在北京", Relation.DUPLICATE),
        ("I like tea", "I live in Paris", Relation.ADD),
        ("The capital of Sylvania is Newtown.", "The capital of Freedonia is Fredville.", Relation.ADD),
        ("Dogs bite men", "Men bite dogs", None),
        ("The office opens at nine", "The office does not open at nine", None),
    ],
)
def test_the_rules_judge_what_is_plain_to_see(new, old, relation):
    assert compare(new, old).relation is relation
    assert RulesJudge().judge([Pair(new, old)]) == [compare(new, old)]


@pytest.mark.parametrize(
    ("claim", "message", "missing"),
    [
        ("User lives in Berlin", "I live in Paris", "Berlin"),
        ("Berlin is the user's home", "I live in Paris", "Berlin"),
        ("User has 4 cats", "I have three cats", "4"),
        ("User pays 1500 a month", "I pay 1,000 a month", "1500"),
        ("User likes tea", "I don't like tea", "negation"),
        ("User does not like tea", "I like tea", "negation"),
        ("用户不喜欢咖啡", "我喜欢咖啡", "negation"),
        ("我住在上海", "我住在北京", "上海"),
    ],
)
def test_what_no_message_holds_is_unsupported(claim, message, missing):
    found = unsupported(claim, [message])
    assert any(missing in one for one in found), found


@pytest.mark.parametrize(
    ("claim", "messages"),
    [
        ("User lives in Paris", ["I live in Paris"]),
        ("User has 3 cats", ["I have three cats"]),
        ("User pays 1000 a month", ["I pay 1,000 a month"]),
        ("The user lives in Rome", ["No, I live in Rome, not Paris"]),
        ("No, I live in Rome.", ["No, I live in Rome."]),
        ("不对，我住在上海。", ["不对，我住在上海。"]),
        ("I no longer live in Paris", ["I no longer live in Paris. I moved to Rome."]),
        ("User moved to Rome", ["I no longer live in Paris. I moved to Rome."]),
        ("The meeting is on 2026-05-02", ["The meeting is tomorrow"]),
        ("User met Ada in Rome", ["I met Ada", "It was in Rome"]),
        ("我喜欢咖啡", ["我不喜欢茶，我喜欢咖啡"]),
        ("我住在上海", ["不是北京，我住在上海"]),
        ("I'm allergic to nuts", ["Don't forget that I'm allergic to nuts"]),
        ("我对花生过敏", ["别忘了我对花生过敏"]),
    ],
)
def test_what_the_messages_hold_is_supported(claim, messages):
    assert unsupported(claim, messages) == []


@pytest.mark.parametrize(
    "text",
    [
        "Call me tomorrow",
        "Call me later",
        "My name is on the list",
        "I moved to dark mode",
        "I moved to a new team",
        "I live in fear",
        "I live in a small flat",
        "I joined a gym",
        "I work at night",
        "My birthday is coming up",
        "You said I live in Rome",
        "Suppose I live in Rome",
        "If I live in Rome, I need a car",
        "She said: I live in Rome",
        "I wish my name was Ada",
        "It's false that I am not allergic to peanuts",
        "It is not true that I'm not allergic to peanuts",
        "我在家工作",
        "我住在一个小房子里",
        "叫我起床",
        "如果我住在上海就好了",
        "我朋友说我住在上海",
        "他叫我小明",
    ],
)
def test_what_only_sounds_like_a_fact_takes_no_place_of_one(text):
    assert parse_fact(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("I don't live in Paris any more, I live in Rome", "Rome"),
        ("I no longer live in Paris but in Rome", "Rome"),
        ("I used to live in Paris, but now I live in Rome", "Rome"),
        ("I don't live in Paris any more; I'm in Rome now", "Rome"),
        ("I no longer live in Paris. I'm now in Rome.", "Rome"),
        ("我不住在北京了，我现在住在上海", "上海"),
        ("我已经不住在北京，搬到上海了", "上海"),
    ],
)
def test_what_holds_now_counts_before_what_holds_no_longer(text, value):
    assert parse_fact(text) == Fact("user", "home_city", value, memory_type="identity")


@pytest.mark.parametrize(
    "text",
    [
        "I'm not only allergic to peanuts",
        "My doctor said I'm allergic to peanuts",
        "我不仅对花生过敏",
        "医生说我对花生过敏",
    ],
)
def test_an_allergy_is_not_overheard(text):
    fact = parse_fact(text)
    assert fact is not None
    assert (fact.attribute, fact.denied) == ("allergy", False)
