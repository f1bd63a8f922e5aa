"""What type a memory has, how much it matters, how sure it is and how long it may live: the rules' answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from langgraph_forgetful_store.model.fields import SOURCE_CONFIDENCE
from langgraph_forgetful_store.model.memory_types import GENERIC
from langgraph_forgetful_store.policy import rules
from langgraph_forgetful_store.policy.facts import parse_user_fact

MODEL_WEIGHT, RULE_WEIGHT, FEEDBACK_WEIGHT = 0.4, 0.3, 0.3
FEEDBACK_START = 0.5


def _words(english: str, chinese: str = "") -> re.Pattern[str]:
    return re.compile(rf"\b(?:{english})\b" + (f"|{chinese}" if chinese else ""), re.IGNORECASE)


HEALTH_IDENTITY: Final = _words(
    r"allerg(?:y|ies|ic)|anaphyla\w+|intoleran(?:t|ce)|c(?:o)?eliac|vegetarian|vegan|pescatarian|halal|"
    r"kosher|gluten[- ]free|"
    r"lactose[- ]free|diabetic diet|(?:can(?:no|')t|must not|don't|do not) eat",
    "过敏|不耐受|素食|吃素|纯素|清真|忌口|不能吃|不吃",
)
# What can do harm when it is overlooked.
CRITICAL: Final = _words(r"allerg\w+|anaphyla\w+|intoleran\w+|c(?:o)?eliac", "过敏|不耐受")
# The first that fits counts, so what is narrow stands before what is wide.
_TYPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("identity", HEALTH_IDENTITY),
    (
        "summary",
        re.compile(
            r"^\s*(?:in )?(?:summary|to sum up|tl;?dr|recap|overview of|so far)\b"
            r"|^\s*(?:总结|小结|摘要|综上|概括|总的来说)"
            r"|\bsummary of\b",
            re.IGNORECASE,
        ),
    ),
    (
        "tool",
        _words(
            r"(?:the )?\w+ (?:api|tool|endpoint|cli|function) (?:returns?|takes?|needs?|requires?|accepts?|"
            r"fails?|expects?|is called)|"
            r"api (?:returns?|requires?|rate limit)|tool version",
            "(?:接口|工具|API)(?:返回|需要|要求|限制|版本)",
        ),
    ),
    (
        "procedural",
        _words(
            r"how to|to (?:deploy|install|build|fix|reset|restart|run|release)\b.{0,60}\b(?:first|then|run|"
            r"use)|step \d|first\b.{1,80}\bthen|"
            r"procedure|the steps (?:are|to)|workflow is|whenever .{1,60}(?:always|first|run)",
            "步骤|流程是|先.{1,40}(?:再|然后)|操作方法|怎么(?:做|部署|安装)",
        ),
    ),
    (
        "identity",
        _words(
            r"my name is|my name's|call me|i am called|i go by|my birthday|i was born|my pronouns|i am \d+ "
            r"years old|i'm \d+ years old|"
            r"my native language|i (?:live|moved|relocated)\b|(?:i'm|i am) (?:left|right)-handed|my nationality",
            "我叫|我的?名字|我的?生日|我今年\\d+岁|我是.{1,6}人$|我(?:现在)?住在|我搬到|我的?母语|我的?国籍",
        ),
    ),
    (
        "emotion",
        _words(
            r"(?:i am|i'm|i feel|feeling)(?: so| very| really| a bit| a little)? (?:happy|sad|angry|tired|"
            r"upset|anxious|stressed|excited|"
            r"frustrated|annoyed|bored|depressed|worried|lonely|hungry|in a (?:good|bad) mood|exhausted|nervous)",
            "我(?:现在|今天)?(?:很|好|有点|非常|太|真的?)(?:开心|难过|生气|累|烦|焦虑|高兴|伤心|沮丧|兴奋|郁闷|饿|困|紧张|孤独)|心情(?:很)?(?:好|差|不好|糟)",
        ),
    ),
    (
        "commitment",
        _words(
            r"(?:i|we|you|assistant)(?:'ll| will| shall| promise(?:d)? to| agreed to| committed to) "
            r"(?!be\b)\w+|promise|"
            r"deadline|due (?:on|by|date)|appointment|(?:have|has) (?:a |an )?(?:meeting|call|interview|exam|flight)",
            "我(?:会|答应|承诺|保证)|截止|约好了?|约定|预约|(?:要|有)(?:个|一个)?(?:会议|面试|考试|航班)",
        ),
    ),
    (
        "task",
        _words(
            r"(?:todo|to-do|task)|(?:this|today's|current) (?:task|ticket|sprint|pr)|(?:i|we)(?:'m| am|'re| "
            r"are)? (?:currently |now )?"
            r"(?:working on|need(?:s)? to|have to|must|preparing|debugging|fixing|writing|finishing|reviewing)|"
            r"(?:this|next) (?:week|afternoon|morning|evening)|today|tonight|tomorrow|right now|for now|"
            r"temporar(?:y|ily)",
            "待办|任务|正在(?:做|写|改|准备|处理|修|弄|忙)|(?:这|本|下)(?:周|星期|个?礼拜)|今天|今晚|明天|暂时|临时|需要(?:先)?(?:做|写|改|完成|提交|准备|订|买|交|办|预订|预约|处理|安排)",
        ),
    ),
    (
        "intent",
        _words(
            r"(?:i|we)(?:'m| am|'re| are)? (?:plan(?:ning)? to|going to|intend(?:ing)? to|want(?:ing)? to|"
            r"hop(?:e|ing) to|thinking (?:of|about)|"
            r"considering|looking (?:for|to)|would like to)|i'd like to|my goal is",
            "我(?:打算|计划|准备|想要|想|希望|考虑)(?!起|到)|我的?目标是|我要(?!求)",
        ),
    ),
    (
        "preference",
        _words(
            r"(?:i|he|she|they|the user|user) (?:really |also |now |still |always |usually |no longer |don't |"
            r"do not |doesn't |does not |never )*"
            r"(?:prefers?|likes?|loves?|enjoys?|hates?|dislikes?|favou?rs?)|favou?rite|(?:i'm|i am) (?:fond of|"
            r"a fan of)|rather have|preferred",
            "喜欢|偏好|偏爱|讨厌|更愿意|最爱|不爱|爱(?:吃|喝|看|听|玩)|受不了|习惯",
        ),
    ),
    (
        "opinion",
        _words(
            r"(?:i think|i believe|in my opinion|i feel (?:that|like)|i find|imo|imho|i suppose)|(?:is|was|are|"
            r"were) (?:overrated|underrated|boring|awful|"
            r"terrible|amazing|great|the best|the worst|too (?:expensive|slow|long|hard))",
            "我(?:觉得|认为)|在我看来|依我看|(?:太|很)(?:贵|无聊|难用|好用|好看|难看|糟糕)",
        ),
    ),
    (
        "episodic",
        _words(
            r"(?:yesterday|last (?:night|week|month|year|summer|winter|spring|autumn|fall|weekend|time)|\w+ "
            r"(?:days?|weeks?|months?|years?) ago|"
            r"(?:on|in) (?:\d{4}|january|february|march|april|june|july|august|september|october|november|december))|"
            r"(?:i|we) (?:went|visited|met|saw|attended|had|travell?ed|bought)",
            "昨天|前天|上(?:周|个?月|次|星期)|去年|前年|以前去过|我(?:去了|去过|见了|参加了|买了)",
        ),
    ),
    (
        "fact",
        _words(
            r"(?:is|are|was|were|has|have|works?|worked|uses?|used|lives?|owns?|born|located|contains?|became|"
            r"joined|switched|moved|consists?)",
            "是|有|在|用|位于|属于|工作|换成|换到|改用",
        ),
    ),
)
SHORT_TASKS = frozenset({"task", "conversation", "emotion"})
PROFILE = frozenset({"identity", "preference"})


def classify(text: str) -> str:
    """Return the memory type that a text sounds like; ``generic`` where it sounds like none."""
    if rules.is_chat_log(text):
        return "conversation"
    for name, pattern in _TYPES:
        if pattern.search(text):
            return name
    known = parse_user_fact(text)
    return (known.memory_type if known else None) or GENERIC


_IMPORTANCE: Mapping[str, float] = {
    "identity": 0.8,
    "commitment": 0.7,
    "preference": 0.6,
    "procedural": 0.6,
    "fact": 0.55,
    "tool": 0.5,
    "task": 0.5,
    "intent": 0.5,
    "summary": 0.4,
    "episodic": 0.4,
    "opinion": 0.35,
    "conversation": 0.2,
    "emotion": 0.2,
}
_URGENT = _words(
    r"important|critical|crucial|essential|urgent|never|always|must|emergency|life-threatening|"
    r"severe(?:ly)?|fatal|anaphyla\w+",
    "重要|关键|紧急|务必|千万|一定要|必须|永远|严重|致命",
)


def rate_importance(text: str, memory_type: str) -> float:
    """Return how much a memory matters, from 0 to 1."""
    base = _IMPORTANCE.get(memory_type, 0.5)
    # What must not be overlooked stays over .8, below which maintenance may archive what is rarely read.
    if HEALTH_IDENTITY.search(text):
        base = max(base, 0.9)
    return round(min(1.0, base + (0.1 if _URGENT.search(text) else 0.0)), 6)


_IDENTIFIERS = _words(
    r"my (?:name|birthday|e-?mail(?: address)?|phone(?: number)?|user ?name|address|date of birth|"
    r"(?:employee|customer|account|order) (?:id|number))(?: is|'s)|"
    r"call me|i was born",
    "我叫|我的?(?:名字|生日|邮箱|电话|手机号?|地址|用户名|工号)(?:是|叫)",
)
_STATED_IDENTIFIER = 0.99


def rule_confidence(text: str, source: str | None) -> float:
    """Return how sure the rules are: by who says it, and whether it is an identifier that the user states."""
    if source == "user" and _IDENTIFIERS.search(text):
        return _STATED_IDENTIFIER
    return SOURCE_CONFIDENCE.get(source or "", SOURCE_CONFIDENCE["model"])


def fuse_confidence(
    model: float | None = None, rule: float | None = None, feedback: float | None = None, *, hedged: bool = False
) -> float:
    """Return ``.4 model + .3 rule + .3 feedback``; a term that is absent drops out, the others share its weight.

    Args:
        model: How sure the model is.
        rule: How sure the rules are.
        feedback: What the user made of it; it starts at `FEEDBACK_START`.
        hedged: Whether it was said with doubt: then it is .4 at the most.

    Raises:
        ValueError: No term is given.
    """
    terms = [
        (weight, value)
        for weight, value in ((MODEL_WEIGHT, model), (RULE_WEIGHT, rule), (FEEDBACK_WEIGHT, feedback))
        if value is not None
    ]
    if not terms:
        raise ValueError("at least one term is needed")
    fused = sum(weight * value for weight, value in terms) / sum(weight for weight, _ in terms)
    return round(min(fused, rules.HEDGED_CONFIDENCE) if hedged else fused, 6)


def shortened_ttl(ttl: float, confidence: float, below: float = 0.5) -> float:
    """Return a type's TTL for a memory of some confidence: the full one from `below` on, else less, monotonically.

    A quarter of it is left even to what is not believed at all, so that it can still be asked about.
    """
    if confidence >= below:
        return ttl
    return ttl * (0.25 + 0.75 * max(confidence, 0.0) / below)
