"""What a sentence gives away without a model, in English and Chinese."""

from __future__ import annotations

import pytest

from langgraph_forgetful_store.policy import requests, rules, wording
from langgraph_forgetful_store.policy.classify import (
    classify,
    fuse_confidence,
    rate_importance,
    rule_confidence,
    shortened_ttl,
)

pytestmark = pytest.mark.exhaustive


@pytest.mark.parametrize(
    "text",
    [
        "I may be allergic to penicillin",
        "She might move to Oslo",
        "I think it was Tuesday",
        "It's probably the blue one",
        "Maybe I'll take the train",
        "I'm not sure whether he is vegan",
        "我可能对青霉素过敏",
        "也许他住在上海",
        "大概是周三",
        "好像是蓝色的",
        "我觉得他是医生",
    ],
)
def test_doubt_is_heard(text):
    assert rules.is_hedged(text)


@pytest.mark.parametrize(
    "text",
    [
        "I am allergic to penicillin",
        "May 5 is my birthday",
        "I was born in May",
        "May I ask something?",
        "我对青霉素过敏",
        "我想吃苹果",
        "我想去北京",
    ],
)
def test_what_is_said_plainly_is_no_doubt(text):
    assert not rules.is_hedged(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("forget my address", "address"),
        ("Please forget my home address now.", "home address"),
        ("Delete my phone number please", "phone number"),
        ("stop remembering my diet", "diet"),
        ("Don't remember my birthday", "birthday"),
        ("forget about the trip", "trip"),
        ("Please forget my allergy.", "allergy"),
        ("forget the theory", "theory"),
        ("Forget all my allergies", "allergies"),
        ("忘掉我的地址", "地址"),
        ("别记我的电话", "电话"),
        ("请把我的生日忘掉", "生日"),
        ("不要记住我的工资", "工资"),
        ("Can you please forget my address?", "address"),
        ("帮我删除我的地址", "地址"),
        ("麻烦把我的生日忘了", "生日"),
    ],
)
def test_a_request_to_forget_says_what(text, what):
    assert requests.forget_request(text) == what


@pytest.mark.parametrize(
    "text",
    [
        "Don't forget my birthday",
        "I forgot my keys",
        "I always forget names",
        "forget it",
        "Delete the file",
        "别忘了买牛奶",
        "我忘了带钥匙",
        "我不会忘记你",
        "Don’t ever forget my name",
        "别记错了我的生日",
        "忘记带钥匙了",
        "他把我的生日忘了",
    ],
)
def test_forgetting_that_is_only_spoken_of_is_no_request(text):
    assert requests.forget_request(text) is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("that is done", ""),
        ("I finished the report", "report"),
        ("The app review is finished.", "app review"),
        ("那件事做完了", ""),
        ("已经完成", ""),
        ("报告已经写完了", "报告"),
        ("去北京的火车票订好了。", "去北京的火车票"),
        ("Booking the train to Beijing is done.", "Booking train to Beijing"),
    ],
)
def test_a_task_that_is_done_is_named(text, what):
    assert rules.says_done(text)
    assert rules.what_is_done(text) == what


@pytest.mark.parametrize("text", ["it's not done yet", "I haven't finished the report", "还没完成", "快要完成了"])
def test_a_task_that_goes_on_is_not_done(text):
    assert not rules.says_done(text)


@pytest.mark.parametrize("text", ["I no longer eat meat", "I don't drive any more", "我不再吃肉", "我已经不住在北京了"])
def test_an_end_is_heard(text):
    assert rules.ends_something(text)
    assert rules.negations(text) == 1


@pytest.mark.parametrize("text", ["you misremember", "You got it wrong", "I never said that", "你记错了", "我没说过"])
def test_the_user_says_that_a_memory_is_wrong(text):
    assert rules.misremembered(text)


@pytest.mark.parametrize(
    "text",
    [
        "why do you say that?",
        "What makes you think so?",
        "Let's talk about something else",
        "你为什么这么说",
        "换个话题",
    ],
)
def test_the_user_shows_that_a_recall_did_not_help(text):
    assert rules.doubts_memory(text)
    assert not rules.misremembered(text)


@pytest.mark.parametrize(
    "text",
    [
        "Let's discuss how to fix it",
        "Can we talk to my mother",
        "Let's discuss different options",
        "I never said that to him",
        "你为什么这么想去北京",
    ],
)
def test_a_conversation_that_goes_on_doubts_no_memory(text):
    assert not rules.doubts_memory(text)
    assert not rules.misremembered(text)


@pytest.mark.parametrize(
    "text", ["continue", "this is fine", "OK, thanks!", "Yes.", "继续", "好的，谢谢", "这样就可以了", "👍"]
)
def test_what_keeps_a_conversation_going_is_filler(text):
    assert rules.is_filler(text)


@pytest.mark.parametrize(
    "text", ["Good morning, I live in Rome", "this is fine art", "I like it", "好的，我住在北京", "no milk"]
)
def test_what_says_something_is_no_filler(text):
    assert not rules.is_filler(text)


def test_a_request_to_remember_says_what():
    assert requests.remember_request("Please remember that I'm left-handed") == "I'm left-handed"
    assert requests.remember_request("记住我对花生过敏") == "我对花生过敏"
    assert requests.remember_request("remember me") is None
    assert requests.remember_request("Remember when we met?") is None


@pytest.mark.parametrize(
    "text",
    [
        "I need to book the train to Beijing.",
        "I've got to finish the report",
        "I'll send the report by Friday",
        "I'm planning to learn Go",
        "Remind me to water the plants",
        "我需要订去北京的火车票。",
        "我打算学法语",
        "我这周在准备应用评审",
        "提醒我给植物浇水",
    ],
)
def test_a_plan_is_heard(text):
    assert rules.states_plan(text)


@pytest.mark.parametrize(
    "text",
    [
        "I need to know",
        "I need you to go",
        "I have to say so",
        "I will be there",
        "I'll see",
        "我需要你帮忙",
        "我得走了",
    ],
)
def test_what_is_said_of_the_conversation_is_no_plan(text):
    assert not rules.states_plan(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I think I might like jazz.", "I like jazz."),
        ("I may be vegetarian", "I am vegetarian"),
        ("Maybe I live in Rome", "I live in Rome"),
        ("I'm not sure if I like jazz", "I like jazz"),
        ("我可能喜欢爵士乐", "我喜欢爵士乐"),
        ("我觉得我可能会喜欢爵士乐", "我喜欢爵士乐"),
        ("也许我住在上海", "我住在上海"),
        ("我可能对青霉素过敏", "我对青霉素过敏"),
    ],
)
def test_what_is_said_with_doubt_is_read_without_it(text, said):
    assert rules.without_hedges(text) == said


@pytest.mark.parametrize(
    "forms",
    [
        "book books booked booking",
        "write writes writing",
        "plan plans planned planning",
        "call calls called calling",
        "move moves moved moving",
        "report reports",
        "add adds added adding",
    ],
)
def test_forms_of_one_word_have_one_stem(forms):
    assert len({wording.stem(word) for word in forms.split()}) == 1


@pytest.mark.parametrize(
    "pair", ["string stre", "need ne", "bed b", "king k", "allergy all", "glass glas", "police policy"]
)
def test_words_that_only_end_alike_have_stems_of_their_own(pair):
    one, other = pair.split()
    assert wording.stem(one) != wording.stem(other)


def test_texts_split_into_sentences():
    assert wording.sentences("I met Dr. Smith. He lives in Rome! 我住在北京。我喜欢茶") == [
        "I met Dr. Smith.",
        "He lives in Rome!",
        "我住在北京。",
        "我喜欢茶",
    ]


@pytest.mark.parametrize(
    ("text", "memory_type"),
    [
        ("I'm preparing the app review this week", "task"),
        ("我这周在准备应用评审", "task"),
        ("I prefer the minimal style", "preference"),
        ("我喜欢极简风格", "preference"),
        ("I'm allergic to peanuts", "identity"),
        ("I am lactose intolerant", "identity"),
        ("我对花生过敏", "identity"),
        ("我是素食者", "identity"),
        ("My name is Ada", "identity"),
        ("我叫小明", "identity"),
        ("I feel so tired", "emotion"),
        ("我今天很累", "emotion"),
        ("I think Python is great", "opinion"),
        ("我觉得这个太贵", "opinion"),
        ("I went to Rome last summer", "episodic"),
        ("去年我去了罗马", "episodic"),
        ("Summary: we talked about the trip", "summary"),
        ("总结：我们讨论了行程", "summary"),
        ("To deploy, first run make then push", "procedural"),
        ("先运行测试再部署", "procedural"),
        ("The search API returns JSON", "tool"),
        ("搜索接口返回JSON", "tool"),
        ("I will send the report by Friday", "commitment"),
        ("我答应周五交报告", "commitment"),
        ("I'm planning to learn Go", "intent"),
        ("我打算学Go", "intent"),
        ("Paris is the capital of France", "fact"),
        ("北京是中国的首都", "fact"),
        ("User: hello\nAssistant: hi", "conversation"),
        ("用户：你好\n助手：你好", "conversation"),
        ("lorem ipsum", "generic"),
    ],
)
def test_a_text_has_the_type_it_sounds_like(text, memory_type):
    assert classify(text) == memory_type


def test_what_must_not_be_overlooked_is_important_enough_to_be_spared():
    assert rate_importance("I'm allergic to peanuts", "identity") >= 0.8
    assert rate_importance("我可能对青霉素过敏", "hypothesis") >= 0.8
    assert rate_importance("I like tea", "preference") < 0.8


def test_confidence_is_fused_of_the_terms_that_are_there():
    assert fuse_confidence(0.9, 0.95, 0.5) == pytest.approx(0.4 * 0.9 + 0.3 * 0.95 + 0.3 * 0.5)
    assert fuse_confidence(0.9, 0.7) == pytest.approx((0.4 * 0.9 + 0.3 * 0.7) / 0.7, abs=1e-6)
    assert fuse_confidence(rule=0.95) == 0.95
    assert fuse_confidence(0.99, 0.99, hedged=True) == 0.4
    assert fuse_confidence(0.2, 0.2, hedged=True) == 0.2
    with pytest.raises(ValueError, match="at least one term"):
        fuse_confidence()


@pytest.mark.parametrize(
    ("text", "source", "confidence"),
    [
        ("My name is Ada", "user", 0.99),
        ("我叫小明", "user", 0.99),
        ("I like tea", "user", 0.95),
        ("stock is 4", "tool", 0.95),
        ("stock is 4", "database", 0.95),
        ("My name is Ada", "model", 0.7),
    ],
)
def test_the_rules_are_as_sure_as_the_source_allows(text, source, confidence):
    assert rule_confidence(text, source) == confidence


def test_little_confidence_shortens_a_ttl_monotonically():
    shortened = [shortened_ttl(100, step / 100) for step in range(101)]
    assert shortened == sorted(shortened)
    assert shortened[50:] == [100] * 51
    assert 0 < shortened[0] < shortened[25] < shortened[49] < 100
