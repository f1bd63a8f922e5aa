"""The patterns by which facts are read off sentences in the first person, in English and Chinese."""

from __future__ import annotations

import re
from dataclasses import dataclass

_V = r"(?P<value>[^.!?;,，。！？；]+?)"
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_NUMBER = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|many|several|a few|\d+)"
# What says when, for how long or why, and nothing of the value.
_ADVERBIALS = (
    r"now|right now|today|yesterday|these days|nowadays|at the moment|(?:earlier )?(?:last|this) (?:year|month|week|"
    rf"spring|summer|autumn|fall|winter|weekend|night|\w+day)|(?:in|since) (?:early |late )?(?:\d{{4}}|{_MONTHS})|"
    rf"on \w+day|over the "
    rf"weekend|{_NUMBER} (?:years?|months?|weeks?|days?) ago|for {_NUMBER} years?(?: now)?|for (?:work|good|love|ever|"
    r"school|college|university|(?:my|a|the|our) (?:new )?(?:job|work|studies|family|husband|wife|partner))|"
    r"permanently|"
    r"currently|recently|finally|instead|any ?(?:more|longer)|already|again|too|as well|full[- ]time|part[- ]time|"
    r"remotely|from now on|after all|at all|either|anyway|by the way|btw|though|please|after (?:the|my|our) \w+"
)
_END = (
    rf"(?:\s*(?:{_ADVERBIALS})\b)*\s*(?:[.!?;:,(，。！？；：（\u2600-\u27bf\U0001f300-\U0001faff]|\s+(?:and|or|but|"
    rf"because|since|so|which|where|with|"
    r"near|as|together|to (?:study|work|be|live))\b|$)"
)
_ZH_V = r"(?P<value>[^.!?;,，。！？；了呢吧啊]{1,30}?)"
_ZH_END = r"(?:了|呢|吧|啊)*(?:[.!?;,，。！？；]|$)"
_I = r"\b(?:i|I)(?:'m| am|'ve| have)?(?: (?:just|now|recently|currently|still|already|really|also|actually|finally))*"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A form of sentences.

    Attributes:
        expression: With a group ``value``, and perhaps one of what ends the statement, ``end``.
        attribute: What the value is of.
        memory_type: What type such a fact has.
        single: Whether another value of the same attribute excludes this one.
        denied: Whether it says that this holds not, or no longer.
        loose: Whether it may mean something else as well, so that it replaces nothing.
    """

    expression: re.Pattern[str]
    attribute: str
    memory_type: str
    single: bool = True
    denied: bool = False
    loose: bool = False


def _en(
    attribute: str, memory_type: str, *verbs: str, single: bool = True, denied: bool = False, loose: bool = False
) -> list[Pattern]:
    return [
        Pattern(re.compile(rf"{verb}\s+{_V}{_END}", re.IGNORECASE), attribute, memory_type, single, denied, loose)
        for verb in verbs
    ]


def _zh(
    attribute: str, memory_type: str, *verbs: str, end: str = "", single: bool = True, denied: bool = False
) -> list[Pattern]:
    value = rf"(?P<value>[^,，。！？]{{1,20}}?)(?P<end>{end}){_ZH_END}" if end else rf"\s*{_ZH_V}{_ZH_END}"
    return [Pattern(re.compile(f"{verb}{value}"), attribute, memory_type, single, denied) for verb in verbs]


_WE = (
    r"\b(?:i|we)(?:'m| am|'re| are|'ve| have)?(?: (?:just|now|recently|currently|still|already|really|also|actually|"
    r"finally|both|been))*"
)
_LY = r"(?: (?:\w+ly|very|also|still|quite|now|so|just))*"
_ZH_ALLERGIC = "(?:严重)?(?:过敏|不耐受)"
_ZH_AT_WORK = "(?:工作|上班|任职)"
_NOT_I = r"\bI(?: am|'m)? (?:no longer|never|not(?! (?:only|just|merely)\b)|do not|don't)"
_ZH_NOT = "(?:已经不|不再|再也不|不是|不|没)"
_ZH_NOW = "(?:现在|目前|已经|其实|并|也)*"
PHONES = "android|ios|iphone|pixel|galaxy|samsung|huawei|xiaomi|oneplus"
COMPUTERS = "windows|linux|mac(?:os|book)?|ubuntu|chrome ?os"
ZH_PHONES = "(?:安卓|苹果(?!电脑|笔记本)|鸿蒙|小米|华为|Android|iOS|iPhone)"
ZH_COMPUTERS = "(?:Windows|Linux|Mac|Ubuntu|苹果电脑|苹果笔记本)"
DIETS = "vegetarian|vegan|pescatarian"
INTOLERANCES = r"lactose[- ]intolerant|celiac|coeliac|gluten[- ](?:free|intolerant)"
_SWITCHED = rf"{_I} (?:switched|migrated|changed)(?: from [\w ]+?)? to(?: an?| the)?"
_ZH_SWITCHED = "我(?:已经|现在|刚|刚刚|最近)?(?:从[^,，。]+?)?(?:换成|换到|改用|换用|转到|换)了?"
_ZH_USE = "我(?:现在|一直|目前)?(?:在)?用(?:的是)?"
_ALLERGY_TO = re.compile(
    r"\bI(?: have|'ve| have got|'ve got)(?: got)? an? (?:(?:severe|bad|serious|mild|"
    r"slight) )?(?P<value>[a-z][\w -]{1,30}?) allergy\b",
    re.IGNORECASE,
)
_NO_ALLERGY_TO = re.compile(
    r"\b(?:I (?:no longer|don't) have an?|I(?:'ve| have)? outgr(?:ew|own) my|"
    r"I lost my) (?P<value>[a-z][\w -]{1,30}?) (?P<end>allergy)\b",
    re.IGNORECASE,
)
# The first that fits counts: what is denied stands before what is stated.
PATTERNS = (
    *_en(
        "home_city",
        "identity",
        rf"{_NOT_I} (?:live|living) (?:in|at)",
        r"\bI used to live (?:in|at)",
        r"\bI (?:have )?moved (?:out of|away from)",
        denied=True,
    ),
    *_zh("home_city", "identity", f"我(?:现在)?{_ZH_NOT}住(?!院|校|宿)在?", "我从(?=[^到]+搬(?:走|出来))", denied=True),
    *_zh("home_city", "identity", f"我{_ZH_NOW}不(?:再)?在", end="住", denied=True),
    *_en(
        "home_city",
        "identity",
        rf"{_WE} (?:live|living|based|located|reside|residing) (?:in|at)",
        rf"{_WE} (?:moved|relocated)(?: back)? (?:from [\w ]+? )?to",
        rf"{_WE} (?:ended up moving|settled|settled down) (?:to|in)",
        r"\bmy (?:new )?(?:home|home ?city|location) is(?: now)?",
    ),
    *_zh(
        "home_city",
        "identity",
        "我们?(?:一家)?(?:现在|目前|一直|还)*(?:是)?住(?!院|校|宿|的|得|过|了)在?",
        "我(?:和|跟)[^,，。]{1,6}(?:住在|搬(?:到|去)了?)",
        "我因为[^,，。]{1,8}搬(?:到|去)了?",
        "我搬家了[，,]\\s*我?(?:现在)?住在?",
        "我家(?:现在)?(?:就)?在",
        "我们?(?:一家)?(?:已经|刚|刚刚|最近|上周|上个月|今年|现在)*(?:从[^到,，。]+)?搬(?:到|去)了?",
        "我(?:现在|目前)?定居在?",
    ),
    *_en(
        "name",
        "identity",
        r"\bmy name(?: is|'s)(?: now| actually)?",
        r"\bI(?:'ve| have)? changed my name to",
        r"\bI prefer to be called",
        r"\b(?:please )?call me",
        r"\bI(?:'m| am) called",
        r"\bI go by",
    ),
    *_zh(
        "name",
        "identity",
        "我(?:现在)?(?:的)?(?:新)?名字(?:是|叫|改成|改为)",
        "我(?:已经)?改名(?:叫|为|成)了?",
        "我(?:现在)?叫",
        "(?<![他她们人妈爸友])(?:叫|称呼)我",
    ),
    *_en("birthday", "identity", r"\bmy birthday is(?: on)?", r"\bI was born on"),
    *_zh("birthday", "identity", "我的?生日是"),
    *_en("allergy", "identity", rf"{_NOT_I} (?:actually |even )?allergic to", single=False, denied=True),
    *_zh("allergy", "identity", f"我{_ZH_NOW}不(?:再|是)?对", end=_ZH_ALLERGIC, single=False, denied=True),
    *_zh("allergy", "identity", "我对", end=f"{_ZH_NOW}不(?:再)?{_ZH_ALLERGIC}", single=False, denied=True),
    *_en(
        "allergy",
        "identity",
        rf"\bI(?:'m| am| may be| might be)?(?: not (?:only|just|merely)|{_LY}) allergic to",
        r"\bI have an? (?:\w+ )?allergy to",
        r"\bI(?:'m| am) intolerant (?:to|of)",
        rf"\bI(?:'m| am|'ve become| have become|'ve gone| have gone)(?: an?)?(?= (?:{INTOLERANCES})\b)",
        single=False,
    ),
    *_zh("allergy", "identity", "我(?:可能|也许|大概|不仅|不但|不只|只|其?实?是)?对", end=_ZH_ALLERGIC, single=False),
    *_zh("allergy", "identity", "我(?:现在)?(?:是|有)?(?=(?:无麸质|乳糖不耐))", single=False),
    *_zh("allergy", "identity", "我(?!对|没|不)", end="过敏", single=False),
    Pattern(_NO_ALLERGY_TO, "allergy", "identity", single=False, denied=True),
    Pattern(_ALLERGY_TO, "allergy", "identity", single=False),
    *_en(
        "employer",
        "fact",
        rf"{_NOT_I} (?:work|working) (?:for|at)",
        r"\bI used to work (?:for|at)",
        r"\bI (?:have )?(?:left|quit) my job at",
        denied=True,
    ),
    *_zh("employer", "fact", f"我(?:现在)?{_ZH_NOT}在", end=_ZH_AT_WORK, denied=True),
    *_en(
        "employer",
        "fact",
        rf"{_I} (?:work|working|employed) (?:for|at|by)",
        rf"{_I} (?:(?:got|started|found|took) a (?:new )?job (?:at|with)|started working (?:at|for)|got hired (?:at|"
        rf"by))",
    ),
    # One may join a club, and leave a party.
    *_en("employer", "fact", rf"{_I} (?:joined|started at)", loose=True),
    *_en("employer", "fact", r"\bI(?:'ve| have)? (?:just )?(?:left|quit)", denied=True, loose=True),
    *_zh("employer", "fact", "我(?:现在|目前)?在", "我换工作了[，,]\\s*我?(?:现在)?在", end=_ZH_AT_WORK),
    *_zh("employer", "fact", "我(?:已经|刚|刚刚|最近)?(?:跳槽(?:到|去)|入职)了?"),
    *_en(
        "occupation",
        "fact",
        rf"{_I} (?:work|working) as(?: an?| the)?",
        r"\bmy (?:job|occupation|profession) is (?:being )?an?",
        rf"{_I} (?:an?|now an?|become an?)",
    ),
    *_zh("occupation", "fact", "我的?(?:工作|职业)是", "我(?:现在)?是(?:一名|一个|一位)?"),
    *_en(
        "platform",
        "fact",
        rf"{_SWITCHED}(?= (?:{PHONES})\b)",
        rf"{_I} (?:use|using|have|got)(?: an?)?(?= (?:{PHONES})\b)",
        r"\bmy phone is(?: now)?(?: an?)?",
    ),
    *_zh("platform", "fact", f"{_ZH_SWITCHED}(?={ZH_PHONES})", f"{_ZH_USE}(?={ZH_PHONES})"),
    *_en(
        "computer",
        "fact",
        rf"{_SWITCHED}(?= (?:{COMPUTERS})\b)",
        rf"{_I} (?:use|using)(?: an?)?(?= (?:{COMPUTERS})\b)",
    ),
    *_zh("computer", "fact", f"{_ZH_SWITCHED}(?={ZH_COMPUTERS})", f"{_ZH_USE}(?={ZH_COMPUTERS})"),
    *_en(
        "style",
        "preference",
        rf"{_I} (?:like|prefer|want|love)(?: an?| the)?(?=[\w ,-]{{1,30}} style\b)",
        r"\bI(?:'ve| have)? (?:switched|changed|moved)(?: my (?:style|taste|preference))?(?: from [\w ]+?)? to(?: an?| "
        r"the)?(?=[\w -]{1,30} style\b)",
        r"\bmy (?:favou?rite |preferred )?(?:design )?style is(?: now)?",
    ),
    *_zh(
        "style",
        "preference",
        "我(?:现在|更|最|又|改|重新)*(?:喜欢|偏好|想要)(?=[^,，。]{1,12}风格?)",
        "我?(?:的?风格)?(?:换成|改成|改为)(?:了)?(?=[^,，。]{1,12}风格?)",
    ),
    *_en(
        "likes",
        "preference",
        rf"{_NOT_I} (?:really )?(?:like|love|enjoy|prefer)(?: to)?",
        r"\bI(?:'ve| have)? stopped liking",
        r"\bI (?:hate|dislike|can'?t stand)",
        single=False,
        denied=True,
    ),
    # Without its verb it would be 我不知道, and all that is said of the conversation.
    *_zh(
        "likes",
        "preference",
        "我(?:现在|已经)?(?:不再|再也不|不太|不怎么|不)(?:喜欢|爱)(?:吃|喝)?",
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
    # One may love what one does not eat.
    *_en(
        "eats",
        "preference",
        rf"{_NOT_I} (?:eat|drink)",
        r"\bI(?:'ve| have)? (?:stopped|quit|given up|gave up) (?:eating|drinking)",
        single=False,
        denied=True,
    ),
    *_zh("eats", "preference", "我(?:现在|已经)?(?:不再|再也不|不)(?:吃(?!素)|喝)", single=False, denied=True),
    *_en("diet", "identity", rf"{_NOT_I}(?: an?)?(?= (?:{DIETS})\b)", denied=True),
    *_zh("diet", "identity", f"我{_ZH_NOW}不(?:再)?(?:是)?(?=(?:素食|吃素|纯素))", denied=True),
    *_en(
        "diet",
        "identity",
        r"\bI(?:'m| am|'ve become| have become| became| went|'ve gone| have gone|'ve turned| follow)(?: now)?(?: an?)?"
        rf"(?= (?:(?:strict|lifelong) )?(?:{DIETS})\b)",
    ),
    *_zh("diet", "identity", "我(?:是|现在是|现在|开始)?(?=(?:素食|吃素|纯素))"),
    # Such a rule does not exclude another.
    *_en(
        "food_rules", "identity", r"\bI(?:'m| am|'ve gone| have gone| eat| keep)(?= (?:halal|kosher)\b)", single=False
    ),
    *_en("origin", "identity", rf"{_WE} (?:come )?from"),
    *_en("age", "identity", r"\bI(?:'m| am)(?: now)?(?= \d{1,3} years? old\b)"),
    *_en("spoken_language", "identity", rf"{_I} speak", single=False),
    *_en("trait", "identity", r"\bI(?:'m| am)(?= (?:left|right)-handed\b)", single=False),
    *_en(
        "family",
        "identity",
        r"\bI have(?= (?:\w+ )?(?:kids?|children|sons?|daughters?|brothers?|sisters?|dogs?|cats?)\b)",
        single=False,
    ),
    *_zh(
        "family",
        "identity",
        "我有(?=[一二两三四五六七八九十\\d](?:个|只|条)(?:孩子|儿子|女儿|哥哥|弟弟|姐姐|妹妹|狗|猫))",
        single=False,
    ),
    *_zh("food_rules", "identity", "我(?:是|现在是|开始|只)(?:吃)?(?=清真)", single=False),
)
# "My … is …", of anything.
MINE = re.compile(
    rf"\bmy (?:(?:new|current) )?(?P<attribute>[a-z][\w' ]{{1,40}}?) (?:is|are|has changed to|changed "
    rf"to)(?: now)? {_V}{_END}",
    re.IGNORECASE,
)
ZH_MINE = re.compile(
    rf"我的(?P<attribute>[^是,，。！？\s]{{1,12}}?)(?:现在)?(?:是|改成了?|变成了?|换成了?){_ZH_V}{_ZH_END}"
)
