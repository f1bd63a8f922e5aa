"""What a sentence gives away without a model, in English and Chinese: doubt, denial, and what it is for."""

from __future__ import annotations

import re

from langgraph_forgetful_store.policy.wording import any_of, english

HEDGED_CONFIDENCE = 0.4


_MONTH_OR_DATE = r"(?:\s+\d|\s+the\s+\d|\s+of\s+\d)"
_HEDGES = any_of(
    # "May" the month, and "may I", say nothing of doubt.
    rf"\bmay\b(?!{_MONTH_OR_DATE})(?!\s+(?:i|we)\b)",
    english(
        "might",
        "maybe",
        "perhaps",
        "probably",
        "possibly",
        "presumably",
        "supposedly",
        "apparently",
        "could be",
        r"(?:i|we) (?:think|guess|suppose|believe|suspect|assume)",
        r"(?:i'm|i am|we're|we are) not (?:\w+ )?(?:sure|certain)",
        r"not (?:entirely |quite )?sure (?:if|whether|that)",
        "unsure",
        r"(?:seems?|appears?) (?:to|like|that)",
        r"(?:sort|kind) of",
        r"(?:i )?don'?t (?:quite |really )?remember (?:if|whether)",
        r"if i (?:remember|recall) correctly",
    ),
    "可能(?!性)",
    "也许|大概|或许|说不定|没准|好像|似乎|估计|应该是|恐怕|大约是|不太确定|不确定|不一定|我(?:想|觉得|猜|感觉)(?!要|吃|去|喝|买|学|做|看|说)",
)
_IN_MAY = re.compile(
    r"\b(?:in|of|since|until|by|last|next|this|every|early|late|mid|\d{1,2}(?:st|nd|rd|th)?)[ -](?:of )?May\b"
)


def is_hedged(text: str) -> bool:
    """Whether a text is said with doubt: "may", "I think", "probably", 可能, 也许, …"""
    return _HEDGES.search(_IN_MAY.sub(" ", text)) is not None


_BE_UNSURE = re.compile(r"\b(?:may|might|could) be\b", re.IGNORECASE)
_UNSURE = any_of(
    english(
        r"(?:i|we) (?:think|guess|suppose|believe|suspect|assume)(?: that)?",
        r"(?:i'm|i am) not (?:\w+ )?(?:sure|certain) (?:if|whether|that)",
        r"may|might|maybe|perhaps|probably|possibly|presumably",
    ),
    "我?(?:不太?确定|也许|大概|或许|说不定|没准|好像|似乎|估计|可能)(?:我)?会?|我(?:觉得|想|猜|感觉)(?=我|可能|也许|大概)",
)


def without_hedges(text: str) -> str:
    """Return what a text says when its doubt is taken out: "I like jazz" of "I think I might like jazz"."""
    found = _UNSURE.sub(
        lambda hedge: "我" if "我" in hedge[0] and "觉" not in hedge[0] else " ", _BE_UNSURE.sub("am", text)
    )
    return re.sub(r"(?<=[\u4e00-\u9fff]) +| +(?=[\u4e00-\u9fff])", "", " ".join(found.split()))


_NOT_ANY_MORE = any_of(
    english(
        r"no longer",
        r"not any ?more",
        r"(?:don'?t|doesn'?t|do not|does not|isn'?t|aren'?t|am not|is not)\b[^.;,]*?\bany ?more",
    ),
    english(r"(?:i|he|she|they|we)(?:'ve| have)? (?:quit|stopped|gave up|given up)"),
    english(r"used to (?!it\b|that\b|this\b)"),
    "不再|已经不|再也不|早就不|现在不|不用了|戒(?:掉|了)|放弃了",
)
_NEGATIONS = any_of(
    english(
        "not",
        "no",
        "never",
        "none",
        "nobody",
        "nothing",
        "neither",
        "nor",
        "without",
        r"cannot",
        r"no longer",
        r"\w+n['’]t",
    ),
    r"\b[a-z]{1,9}n['’]t\b",
    "不(?!过|但|仅|错|同|少)|没(?!关系|事)|无(?!论)|别(?!人|的)|未(?!来)|从未|并非|勿",
)


def ends_something(text: str) -> bool:
    """Whether a text says that something holds no longer: "I no longer …", "I don't … any more", 不再, 已经不…"""
    return _NOT_ANY_MORE.search(text) is not None


def negations(text: str) -> int:
    """Count the negations of a text."""
    return len(_NEGATIONS.findall(text))


_CORRECTIONS = any_of(
    r"^\s*(?:no|nope|actually|sorry|correction|wait)\b[,.!:—– -]",
    english(
        r"i (?:meant|misspoke)",
        r"(?:that'?s|that is|that was|you'?re|this is) (?:wrong|incorrect|not (?:right|correct|true))",
        r"let me correct",
        r"correction",
        r"instead of",
        r"rather than",
    ),
    "不对|不是.{1,20}(?:而)?是|纠正一下|更正|我说错了|说错了|其实是|应该改成|改成",
)


def is_correction(text: str) -> bool:
    """Whether a text corrects what was said or known before."""
    return _CORRECTIONS.search(text) is not None


_ZH_DONE = "(?:做|办|弄|写|交|订|买|改|修|处理|预订|预约|安排|准备)(?:完|好|妥)"
_READY = re.compile(
    r"^\s*我?(?:已经|都)?准备好了?[。！!\s]*$|\b(?:that|this|it)(?:'s| is| was) (?:all )?over\b", re.IGNORECASE
)
_DONE = any_of(
    english(
        r"(?:that|this|it|the \w[\w ]*?|my \w[\w ]*?|\w+ing [\w ]*?)(?:'s| is| was| has been) (?:now |all |already |"
        r"finally )?(?:done|finished|completed?|over|sorted|taken care of)",
        r"(?:i|we)(?:'ve| have)? (?:just |now |finally |already )?(?:finished|completed|submitted|shipped|delivered)",
        r"(?:i'm|i am|we're|we are) (?:done|finished) with",
        r"mission accomplished",
    ),
    r"^\s*(?:all )?done\b[.!\s]*$",
    f"(?:已经|都)?(?:完成|搞定|结束|{_ZH_DONE})了|已(?:经)?(?:完成|结束|搞定|提交)",
)
_NOT_DONE = any_of(
    english(
        r"not (?:yet )?(?:done|finished|complete)",
        r"(?:isn'?t|haven'?t|hasn'?t) (?:\w+ )?(?:done|finished|completed?)",
        "when .*(?:done|finished)",
    ),
    f"还没|没有?(?:完成|搞定|结束|{_ZH_DONE})|未完成|快要?(?:完成|{_ZH_DONE})|等.*(?:完成|{_ZH_DONE})",
)


def says_done(text: str) -> bool:
    """Whether a text says that a task is done: "that is done", "I finished the report", 已经完成了."""
    return _DONE.search(text) is not None and _NOT_DONE.search(text) is None and _READY.search(text) is None


_DONE_WORDS = re.compile(
    r"\b(?:that|this|it|is|was|has|have|been|now|all|already|finally|just|done|finished|completed?|"
    r"over|sorted|i|i've|we|we've|"
    r"submitted|shipped|delivered|with|i'm|am|the|my|task|thing|of|taken|care|'s)\b|"
    rf"{_ZH_DONE}(?=了)|已经|都|完成|搞定|结束|提交|那件事|这件事|的?事情?(?=已经|都|{_ZH_DONE})|那个|这个|任务|我|把|了",
    re.IGNORECASE,
)


def what_is_done(text: str) -> str:
    """Return what is left of such a text when "that", "done" and the like are taken out: what the task was about."""
    return " ".join(re.sub(r"[^\w\s]", " ", _DONE_WORDS.sub(" ", text)).split())


# What is said of the conversation itself.
_TALK = (
    r"(?:know|ask|tell|say|see|check|admit|understand|think|go|thank|be honest|explain|mention|agree|wait|talk|"
    r"leave|run|sleep|bed|you|correct|try (?:it|that|this))\b"
)
_PLANS = any_of(
    english(
        r"(?:i|we)(?:'ve| have)? (?:still |also |really )?(?:need|have|got) to (?!{_TALK})\w+",
        r"(?:i|we) must (?!{_TALK})\w+",
        r"(?:i'm|i am|we're|we are) (?:still |now |currently )*(?:going to|planning to|preparing|working on|finishing|"
        r"debugging) (?!{_TALK})\w+",
        r"(?:i|we) (?:plan|intend|promised?) to (?!{_TALK})\w+",
        r"(?:i|we)(?:'ll| will) (?!{_TALK}|be\b)\w+ (?:\w+ ){0,8}(?:by|on|at|before|tomorrow|tonight|today|next|"
        r"this)\b",
        r"(?:to-?do|remind me to)\b",
    ).replace("{_TALK}", _TALK),
    "我(?:还|也)?(?:需要|必须|得|打算|计划|准备(?!好)|答应|承诺|保证)(?!说|问|知道|了解|承认|你|走|睡|回家|回去|想想|看看|一个例子|例子|更多|帮助|解释)[^,，。？?]{2,}",
    "我(?:这周|本周|今天|明天|现在|最近|正)?(?:正)?在?(?:准备(?!好)|忙着?|处理|赶)[^,，。？?]{2,}|(?:提醒我|待办)[^,，。？?]{2,}",
)
_ASKS_YOU = any_of(english(r"(?:i|we) (?:need|want|would like) you"), "我(?:需要|想要?|希望)你")


def states_plan(text: str) -> bool:
    """Whether a text says what its speaker is to do: "I need to book the train", 我打算学法语."""
    return _PLANS.search(text) is not None and _ASKS_YOU.search(text) is None


_MISREMEMBER = any_of(
    english(
        r"you(?:'re| are)? (?:mis-?remember(?:ing|ed)?|remember(?:ed|ing)? (?:it |that |this |me "
        r")?(?:wrong|incorrectly|wrongly))",
        r"you(?:'ve| have)? got (?:it|that|this|me) wrong",
        r"i (?:never|didn['’]?t) (?:said|say|told|tell) (?:you )?(?:that|so|this)"
        r"(?!\s+(?:to (?!you\b)|about|in|at|when)\b)",
        r"(?:that'?s|that is) not what i (?:said|told|meant)",
    ),
    "你记错|你搞错|你弄错|记得不对|我(?:没|从没|没有|从来没)(?:这么|这样)?说过|我不是这么说的",
)
_DOUBTED = any_of(
    english(
        r"why (?:do|would|did|are) you (?:say(?:ing)?|think(?:ing)?|assum(?:e|ing)|believ(?:e|ing)|bring(?:ing)?)\b",
        r"what makes you (?:think|say|believe)",
        r"where did you get (?:that|this)",
        r"what (?:are you talking about|does that have to do)",
    ),
    r"你?为什么(?:你)?(?:会)?(?:这么|这样|那么)(?:说|觉得|认为|想(?=[的呢啊]?[？?。！!\s]*$))|你?怎么(?:会)?(?:这么|这样)(?:说|觉得|认为)|你在说什么|跟.{0,8}有什么关系",
)
_OTHER_TOPIC = any_of(
    english(
        r"(?:let['’]?s|can we|could we|i['’]?d rather) (?:talk|speak|discuss|chat|move on)\b[^.?!]*?\b(?:(?:some|any)"
        r"thing (?:else|different)|instead|(?:a different|another) (?:topic|subject|thing|matter))",
        r"(?:let['’]?s|can we|could we) move on",
        r"(?:change|changing|switch) (?:of |the )?(?:subject|topic)s?",
        r"never ?mind (?:that|about)",
        r"that'?s (?:not|beside) (?:relevant|the point|what i asked)",
        "that is not what i asked",
    ),
    "换个话题|聊点别的|说点别的|聊别的|先不说这个|不说这个了|跑题|答非所问|不是问这个",
)


def misremembered(text: str) -> bool:
    """Whether the user says that a memory is wrong: "you misremember", 你记错了."""
    return _MISREMEMBER.search(text) is not None


def doubts_memory(text: str) -> bool:
    """Whether what was recalled did not help: the user asks why it was said (你为什么这么说), or leaves the topic."""
    return _DOUBTED.search(text) is not None or _OTHER_TOPIC.search(text) is not None


_LONGEST_FILLER = 200
_FILLER = re.compile(
    r"(?:(?:ok(?:ay)?|yes|yeah|yep|no|nope|sure|thanks?|thank you|thx|great|good|fine|nice|cool|"
    r"perfect|right|alright|hello|hi|hey|bye|goodbye|"
    r"continue|go on|go ahead|carry on|next|stop|wait|hmm+|please|this is (?:fine|good|ok(?:ay)?|"
    r"great)|that(?:'s| is) (?:fine|good|ok(?:ay)?|great|it|all)|"
    r"it(?:'s| is) (?:fine|good|ok(?:ay)?)|looks good|sounds good|got it|i see|i understand|no problem|"
    r"you'?re welcome|well done|very|so|much|"
    r"continue please|keep going)"
    r"|继续(?:吧)?|好(?:的|吧|了|啊)?|可以(?:了)?|行(?:吧|了)?|嗯+|哦+|是的?|对的?|不是|谢谢(?:你|您)?|没问题|没关系|这样(?:就)?(?:可以|好|行)(?:了)?|"
    r"这个(?:可以|不错|还行)|挺好(?:的)?|不错|明白(?:了)?|知道了|收到|你好|您好|再见|辛苦了|下一(?:步|个)|就这样(?:吧)?)"
    r"(?:[\s,.!?;:，。！？；：、~…]+|$)",
    re.IGNORECASE,
)


def is_filler(text: str) -> bool:
    """Whether a text keeps a conversation going and says nothing worth keeping: "continue", "this is fine", 好的."""
    rest = text.strip()
    if len(rest) > _LONGEST_FILLER:
        return False
    while rest and (found := _FILLER.match(rest)):
        rest = rest[found.end() :]
    return not rest.strip(" \t\n,.!?;:，。！？；：、~…👍🙏")


_TURN = re.compile(
    r"^\s*(?:user|human|assistant|ai|system|bot|customer|agent|用户|助手|助理|客服|我|你)\s*[:：]",
    re.IGNORECASE | re.MULTILINE,
)


def is_chat_log(text: str) -> bool:
    """Whether a text is a piece of a conversation's log, not a fact."""
    return len(_TURN.findall(text)) >= 2


_QUESTION = re.compile(
    r"[?？]\s*$|^\s*(?:what|who|where|when|why|how|which|can you|could you|would you|do you|are you|is "
    r"there)\b|(?:吗|呢|么)[。！!]?\s*$",
    re.IGNORECASE,
)


def is_question(text: str) -> bool:
    """Whether a text asks, and so states nothing."""
    return _QUESTION.search(text) is not None
