"""Facts read off sentences, the relations of two texts, and what a candidate's messages support."""

from __future__ import annotations

import pytest

from langgraph_forgetful_store.policy.facts import Fact, parse_fact
from langgraph_forgetful_store.policy.judges import Pair, Relation, RulesJudge, compare
from langgraph_forgetful_store.policy.verification import unsupported


@pytest.mark.parametrize(
    ("text", "slot", "value"),
    [
        ("I live in Paris", "home_city", "Paris"),
        ("I moved to Rome last year.", "home_city", "Rome"),
        ("I have just moved from Paris to Rome", "home_city", "Rome"),
        ("我住在北京", "home_city", "北京"),
        ("我搬到上海了", "home_city", "上海"),
        ("My name is Ada Lovelace", "name", "Ada Lovelace"),
        ("我叫小明", "name", "小明"),
        ("I switched from Android to iOS", "platform", "iOS"),
        ("我从安卓换成了苹果", "platform", "苹果"),
        ("I now prefer a retro style", "style", "retro style"),
        ("我现在喜欢复古风", "style", "复古风"),
        ("I work at Acme", "employer", "Acme"),
        ("我在谷歌工作", "employer", "谷歌"),
        ("My favourite color is blue", "favourite_color", "blue"),
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
    ],
)
def test_what_the_messages_hold_is_supported(claim, messages):
    assert unsupported(claim, messages) == []
