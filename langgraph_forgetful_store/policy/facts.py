"""Facts read off a sentence by patterns: whose, what, and the value. What no pattern fits is no fact.

The patterns are few on purpose. They name slots only where one value excludes another: a home city, not a liking.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from langgraph_forgetful_store.policy import rules, wording
from langgraph_forgetful_store.policy.candidates import USER_SUBJECT


@dataclass(frozen=True, slots=True)
class Fact:
    """What a sentence says.

    Attributes:
        subject: Whom or what it is about.
        attribute: What it says of it.
        value: The value, as it was written.
        single: Whether another value of the same attribute excludes this one.
        denied: Whether it says that this holds not, or no longer.
        memory_type: What type such a fact has; ``None``: not known.
    """

    subject: str
    attribute: str
    value: str
    single: bool = True
    denied: bool = False
    memory_type: str | None = None

    @property
    def place(self) -> tuple[str, str]:
        """Subject and attribute, as they are compared."""
        return normalise(self.subject), normalise(self.attribute)

    def says_same(self, other: Fact) -> bool:
        """Whether both name the same value of the same attribute, denied or not."""
        return self.place == other.place and normalise(self.value) == normalise(other.value)


_ARTICLE = re.compile(r"^(?:the|a|an)\s+", re.IGNORECASE)


def normalise(text: str) -> str:
    """Return a text as values are compared: words in lower case, without an article."""
    return " ".join(wording.words(_ARTICLE.sub("", text.strip())))


_V = r"(?P<value>[^.!?;,，。！？；]+?)"
_END = (
    r"(?:\s*(?:now|today|yesterday|these days|(?:last|this) (?:year|month|week)|(?:in|since) (?:early |"
    r"late )?(?:\d{4}|january|february|march|april|may|june|july|august|september|october|november|"
    r"december)|(?:\w+ )?(?:years|months|weeks|days) ago|currently|instead|any ?more|already|"
    r"please))*\s*(?:[.!?;,，。！？；]|\s+(?:and|but|because|since|so|which|where)\b|$)"
)
_ZH_V = r"(?P<value>[^.!?;,，。！？；了呢吧啊]{1,30}?)"
_ZH_END = r"(?:了|呢|吧|啊)*(?:[.!?;,，。！？；]|$)"
_I = r"\b(?:i|I)(?:'m| am|'ve| have)?(?: (?:just|now|recently|currently|still|already|really|also|actually))*"


@dataclass(frozen=True, slots=True)
class _Pattern:
    expression: re.Pattern[str]
    attribute: str | None
    memory_type: str
    single: bool = True
    denied: bool = False


def _en(
    attribute: str | None, memory_type: str, *verbs: str, single: bool = True, denied: bool = False
) -> list[_Pattern]:
    return [
        _Pattern(re.compile(rf"{verb}\s+{_V}{_END}", re.IGNORECASE), attribute, memory_type, single, denied)
        for verb in verbs
    ]


def _zh(
    attribute: str | None, memory_type: str, *verbs: str, end: str = "", single: bool = True, denied: bool = False
) -> list[_Pattern]:
    value = rf"(?P<value>[^,，。！？]{{1,20}}?){end}" if end else rf"\s*{_ZH_V}{_ZH_END}"
    return [_Pattern(re.compile(f"{verb}{value}"), attribute, memory_type, single, denied) for verb in verbs]


_ZH_ALLERGIC = "(?:严重)?(?:过敏|不耐受)"
_NOT_I = r"\bI(?: am|'m)? (?:no longer|never|not(?! (?:only|just|merely)\b)|do not|don't)"
_ZH_NOT = "(?:已经不|不再|再也不|不|没)"
# The first that fits counts: what is denied stands before what is stated.
_PATTERNS = (
    *_en(
        "home_city",
        "identity",
        rf"{_NOT_I} (?:live|living) (?:in|at)",
        r"\bI used to live (?:in|at)",
        r"\bI (?:have )?moved (?:out of|away from)",
        denied=True,
    ),
    *_zh("home_city", "identity", f"我(?:现在)?{_ZH_NOT}住在", "我从(?=[^到]+搬(?:走|出来))", denied=True),
    *_en(
        "home_city",
        "identity",
        rf"{_I} (?:live|living|based|located|reside|residing) (?:in|at)",
        rf"{_I} moved (?:from [\w ]+? )?to",
        rf"{_I} relocated (?:from [\w ]+? )?to",
        r"\bmy (?:home ?town|home city|home|city) is(?: now)?",
    ),
    *_zh(
        "home_city",
        "identity",
        "我(?:现在|目前|一直|还)?(?:是)?住在",
        "我(?:已经|刚|刚刚|最近|上周|上个月|今年)?(?:从[^到,，。]+)?搬(?:到|去)了?",
        "我(?:现在|目前)?定居在?",
    ),
    *_en(
        "name",
        "identity",
        r"\bmy name(?: is|'s)(?: now)?",
        r"\b(?:please )?call me",
        r"\bI(?:'m| am) called",
        r"\bI go by",
    ),
    *_zh("name", "identity", "我(?:现在)?(?:的)?名字(?:是|叫)", "我(?:现在)?叫", "(?<![他她们人妈爸友])(?:叫|称呼)我"),
    *_en("birthday", "identity", r"\bmy birthday is(?: on)?", r"\bI was born on"),
    *_zh("birthday", "identity", "我的?生日是"),
    *_en("allergy", "identity", rf"{_NOT_I} (?:\w+ )?allergic to", single=False, denied=True),
    *_zh("allergy", "identity", "我(?:现在|已经|其实|并)*不(?:再)?对", end=_ZH_ALLERGIC, single=False, denied=True),
    *_en(
        "allergy",
        "identity",
        r"\bI(?:'m| am| may be| might be|'m probably| am probably)?(?: not (?:only|just|merely)| \w+)? allergic to",
        r"\bI have an? (?:\w+ )?allergy to",
        r"\bI(?:'m| am) intolerant (?:to|of)",
        single=False,
    ),
    *_zh("allergy", "identity", "我(?:可能|也许|大概|不仅|不但|不只|只)?对", end=_ZH_ALLERGIC, single=False),
    *_en(
        "employer",
        "fact",
        rf"{_NOT_I} (?:work|working) (?:for|at)",
        r"\bI used to work (?:for|at)",
        r"\bI (?:have )?(?:left|quit) my job at",
        denied=True,
    ),
    *_zh("employer", "fact", f"我(?:现在)?{_ZH_NOT}在(?=.+(?:工作|上班))", denied=True),
    *_en(
        "employer",
        "fact",
        rf"{_I} (?:work|working|employed) (?:for|at|by)",
        rf"{_I} (?:joined|got a job at|started (?:working )?at)",
    ),
    *_zh("employer", "fact", "我(?:现在|目前)?在", end="(?:工作|上班|任职)"),
    *_en("occupation", "fact", r"\bI work as(?: an?| the)?", r"\bmy (?:job|occupation|profession) is(?: an?| the)?"),
    *_zh("occupation", "fact", "我的?(?:工作|职业)是", "我是(?:一名|一个|一位)"),
    *_en(
        "platform",
        "fact",
        rf"{_I} (?:switched|migrated|changed)(?: from [\w ]+?)? to(?= (?:an? )?(?:android|ios|iphone|"
        rf"windows|linux|mac(?:os)?|ubuntu|chrome ?os)\b)",
        rf"{_I} (?:use|using)(?: an?)?(?= (?:android|ios|iphone|windows|linux|mac(?:os)?|ubuntu|chrome ?os)\b)",
        r"\bmy phone is(?: an?)?",
    ),
    *_zh(
        "platform",
        "fact",
        "我(?:已经|现在|刚|最近)?(?:从[^,，。]+?)?(?:换成|换到|改用|换用|转到)了?(?=(?:安卓|苹果|Android|iOS|iPhone|Windows|Linux|Mac))",
        "我(?:现在|一直|目前)?(?:在)?用(?:的是)?(?=(?:安卓|苹果|Android|iOS|iPhone|Windows|Linux|Mac))",
    ),
    *_en(
        "style",
        "preference",
        rf"{_I} (?:like|prefer|want|love)(?: an?| the)?(?=[\w ,-]{{1,30}} style\b)",
        r"\b(?:switched|changed|moved)(?: my (?:style|taste|preference))?(?: from [\w ]+?)? to(?: an?| "
        r"the)?(?=[\w -]{1,30} style\b)",
        r"\bmy (?:favou?rite |preferred )?(?:design )?style is(?: now)?",
    ),
    *_zh(
        "style",
        "preference",
        "我(?:现在|更|最)*(?:喜欢|偏好|想要)(?=[^,，。]{1,12}风格?)",
        "(?:风格)?(?:换成|改成|改为)(?:了)?(?=[^,，。]{1,12}风格?)",
    ),
    *_en(
        "likes",
        "preference",
        rf"{_NOT_I} (?:really )?(?:like|love|enjoy|prefer|eat|drink)(?: to)?",
        r"\bI(?:'ve| have)? stopped (?:liking|eating|drinking)",
        r"\bI (?:hate|dislike|can'?t stand)",
        single=False,
        denied=True,
    ),
    *_zh(
        "likes",
        "preference",
        f"我(?:现在)?{_ZH_NOT}(?:太)?(?:喜欢|爱|想)?(?:吃|喝)?",
        "我(?:讨厌|受不了)",
        single=False,
        denied=True,
    ),
    *_en(
        "likes",
        "preference",
        rf"{_I} (?:like|love|enjoy|prefer|adore)(?: to)?",
        r"\bI(?:'m| am) (?:fond of|into|a fan of)",
        single=False,
    ),
    *_zh("likes", "preference", "我(?:现在|最|更|一直|很|非常|也|还)*(?:喜欢|爱|偏好|偏爱)(?:吃|喝)?", single=False),
    *_en(
        "diet",
        "identity",
        r"\bI(?:'m| am|'ve become| have become|'ve gone| have gone|'ve turned)(?: an?)?(?= (?:vegetarian|"
        r"vegan|pescatarian|lactose intolerant|celiac|coeliac|gluten-free|halal|kosher)\b)",
    ),
    *_zh("diet", "identity", "我(?:是|现在是|开始)(?=(?:素食|吃素|纯素|清真|无麸质|乳糖不耐))"),
)
_MINE = re.compile(
    rf"\bmy (?:(?:new|current) )?(?P<attribute>[a-z][\w ]{{1,40}}?) (?:is|are|has changed to|changed "
    rf"to)(?: now)? {_V}{_END}",
    re.IGNORECASE,
)
_ZH_MINE = re.compile(
    rf"我的(?P<attribute>[^是,，。！？\s]{{1,12}}?)(?:现在)?(?:是|改成了?|变成了?|换成了?){_ZH_V}{_ZH_END}"
)
_NO_ATTRIBUTE = re.compile(
    r"^(?:point|question|problem|guess|bad|god|plan|idea|answer|next|first)\b|问题|意思|想法|天", re.IGNORECASE
)
_NO_VALUE = re.compile(
    r"^(?:it|that|this|them|him|her|you|to|so|how|what|when|if|the way|not|one"
    r"|这个|那个|这样|什么|你|他|她|它)(?:\s.*)?$",
    re.IGNORECASE,
)


def parse_user_fact(text: str) -> Fact | None:
    """Return what a sentence in the first person says of its speaker, with doubt or without."""
    found = _stated(text)
    if found is None and rules.is_hedged(text):
        found = _stated(rules.without_hedges(text))
    return found


_NOT_MEANT = re.compile(
    r"\bI (?:don'?t|don’t|do not) (?:think|believe|suppose)\b|我(?:并)?不(?:觉得|认为)", re.IGNORECASE
)


def _stated(text: str) -> Fact | None:
    plain = text.replace("’", "'")
    if _NOT_MEANT.search(plain):
        return None
    for pattern in _PATTERNS:
        found = pattern.expression.search(plain)
        attribute = pattern.attribute or ""
        if found and (value := _value(found["value"])) and _fits(attribute, value) and _asserted(plain, found.start()):
            fact = Fact(USER_SUBJECT, attribute, value, pattern.single, pattern.denied, pattern.memory_type)
            # What holds now says more than what no longer does.
            return (_instead(plain[found.end("value") :], fact) or fact) if fact.denied and fact.single else fact
    for expression in (_MINE, _ZH_MINE):
        found = expression.search(plain)
        if found is None or _NO_ATTRIBUTE.search(found["attribute"]) or not _asserted(plain, found.start()):
            continue
        attribute = "_".join(found["attribute"].lower().split())
        if (value := _value(found["value"])) and not _STATE.match(value) and _fits(attribute, value):
            plural = attribute.endswith("s") and re.search(r"\bare\b", found[0]) is not None
            return Fact(USER_SUBJECT, attribute, value, not plural, _denies(found[0]))
    return None


_LINK = re.compile(
    r"^(?:[\s,;.!，；。]+|(?:any ?(?:more|longer)|but|and|now|rather|instead|today)\b|了|而是?|但是?)+", re.IGNORECASE
)
_PLAIN_VERBS = {"home_city": "I live in", "employer": "I work at"}
_VERB = re.compile(r"\b(?:is|was|are|were|has|have|had|does|did|lives?|works?|moved)\b", re.IGNORECASE)
_NOW_AT = re.compile(r"^I(?:'m| am)(?: now)? (?:in|at) (?=[^.!?;]*\bnow\b)|^I(?:'m| am) now (?:in|at) ")


def _instead(rest: str, denied: Fact) -> Fact | None:
    """Return what the rest of a sentence states in the place of what was denied: "…, now Rome", 搬到上海了."""
    link = _LINK.match(rest)
    if link is None:
        return None
    left = rest[link.end() :]
    options = [left, f"I {left}", f"我{left}"]
    verb = _PLAIN_VERBS.get(denied.attribute)
    # "But Bob lives in Rome" names no place by itself.
    if verb is not None and re.search(r"but|now|instead|rather", link[0], re.IGNORECASE) and not _VERB.search(left):
        options.append(f"{verb} {re.sub(r'^(?:in|at|for) ', '', left)}")
    if verb is not None and _NOW_AT.match(left):
        options.append(_NOW_AT.sub(f"{verb} ", left))
    for option in options:
        fact = _stated(option)
        if fact is not None and fact.place == denied.place and not fact.denied and not fact.says_same(denied):
            return fact
    return None


_SUPPOSED = re.compile(
    r"\b(?:if|suppose|supposing|imagine|assum(?:e|ing)|pretend|unless|whether|in case|wish|false|untrue|not true|"
    r"isn't true|a lie)\b|"
    r"\b(?!(?:I|ve|already|just|always|never|doctor|allergist|nurse|tests?)\b)\w+ "
    r"(?:said|says?|told|tells|claim(?:s|ed)?|thinks?|thought|wrote|believes?|heard|asked|assumed)\b|"
    r"如果|要是|假如|假设|假装|万一|(?<![跟和对]你)(?<![我实])(?<!医生)说(?!实话|真的)|(?:你|他|她|们)(?:觉得|以为|认为)",
    re.IGNORECASE,
)


def _asserted(text: str, start: int) -> bool:
    """Whether the speaker says it of themselves, rather than supposes it or tells what others say."""
    return _SUPPOSED.search(text[:start]) is None and re.search("就好了|的话", text) is None


_STATE = re.compile(r"(?i:on|in|at|coming|going|over|about|due|next|up|down|late|broken|being|getting)\b")
_WHEN = re.compile(r"(?:\w+day|tomorrow|today|tonight|later)\b(?! \w)", re.IGNORECASE)
_PROPER = re.compile(
    r"^(?:(?:the|downtown|central|north|south|east|west|northern|southern|near|outside) )*(?:[A-Z\d]|[^\x00-\x7f])"
)
# Words that a name may begin with, such as 新 of 新加坡, count only in what is none.
_NO_VALUES = {
    "home_city": re.compile(
        "^(?:[一这那](?:个|间|座|套|栋|起|里|边)|家$|家里|新(?:家|房|公寓|地方|城市|环境)|朋友|父母|[爸妈爷奶]|学校|宿舍|附近|"
        "楼[上下]|恐惧|公寓|别墅|酒店|郊区|小(?:房|屋|镇|城|村|公寓)|大房)"
    ),
    "employer": re.compile(
        "^(?:[一这那](?:家|个|间|所|里|边)|家$|家里|晚上|夜[里间]|早上|白天|周[末一二三四五六日天]|外[地面]|国外|公司|办公|线上|"
        "努力|认真|拼命|远程|图书馆|咖啡)|[每今明整]天$|[个\\d]月$|时候$"
    ),
    "name": re.compile(
        "^(?:[明今后]天|[早晚]|起床|[去来的不别做吃喝一回看怎什开等在下上帮写买给先再他她你滚]|车$|外卖)|几"
    ),
}
_DATE = re.compile(
    r"\d|\b(?:january|february|march|april|may|june|july|august|september|october|november|december|"
    r"christmas|new year)\b|[月日号]",
    re.IGNORECASE,
)


def _fits(attribute: str, value: str) -> bool:
    """Whether a value looks like one of its attribute: a false one would take the place of a true one."""
    if attribute == "birthday":
        return _DATE.search(value) is not None
    if (wrong := _NO_VALUES.get(attribute)) is not None:
        return _PROPER.match(value) is not None and wrong.search(value) is None and not _WHEN.match(value)
    return True


def _value(found: str) -> str | None:
    value = found.strip(" '\"“”")
    return None if not value or _NO_VALUE.match(value) else value


def _denies(text: str) -> bool:
    return (
        rules.ends_something(text)
        or re.search(r"\b(?:is|are|was|were) not\b|\b(?:is|are|was)n'?t\b|不是", text) is not None
    )
