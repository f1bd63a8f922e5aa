"""Facts read off a sentence by patterns: whose, what, and the value. What no pattern fits is no fact.

The patterns are few on purpose. They name slots only where one value excludes another: a home city, not a liking.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from langgraph_forgetful_store.policy import rules, wording
from langgraph_forgetful_store.policy.candidates import USER_SUBJECT
from langgraph_forgetful_store.policy.fact_patterns import MINE, PATTERNS, ZH_MINE
from langgraph_forgetful_store.policy.fact_shapes import (
    ALSO,
    excludes_others,
    fits,
    is_asserted,
    is_plain,
    is_sure,
    is_told,
    one_way,
)


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
        loose: Whether it may not be meant so: then it replaces and ends nothing.
    """

    subject: str
    attribute: str
    value: str
    single: bool = True
    denied: bool = False
    memory_type: str | None = None
    loose: bool = False

    @property
    def place(self) -> tuple[str, str]:
        """Subject and attribute, as they are compared."""
        return normalise(self.subject), normalise(self.attribute)

    @property
    def values(self) -> frozenset[str]:
        """The value as it is compared; of what one may have several of, each that is listed."""
        parts = [self.value] if self.single else _LISTED.split(self.value)
        return frozenset(normalise(part) for part in parts if part.strip())

    def says_same(self, other: Fact) -> bool:
        """Whether both name the same values of the same attribute, denied or not."""
        return self.place == other.place and self.values == other.values


_LISTED = re.compile(r"\s*(?:,\s*(?:and|or)?|\b(?:and|or)\b|&|、|和|以及|跟|或)\s*", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|a|an)\s+", re.IGNORECASE)


def normalise(text: str) -> str:
    """Return a text as values are compared: words in lower case, without an article."""
    return " ".join(wording.words(_ARTICLE.sub("", text.strip())))


# What stands for all values.
ANYTHING = "anything"
_ANYTHING = re.compile(r"any ?thing(?: else)?|any food|nothing|什么都?|任何.*", re.IGNORECASE)
_NO_ALLERGY = re.compile(
    r"^\s*(?:(?:no|actually|well|so)\b[\s,]*)*I(?: have|'ve(?: got)?)? no (?:known |food )?allerg(?:y|ies)\b(?! to)|"
    "^我(?:现在)?(?:没有|没)(?:任何|什么)?过敏",
    re.IGNORECASE,
)
_NO_ATTRIBUTE = re.compile(
    r"^(?:point|question|problem|guess|bad|god|plan|idea|answer|next|first)\b|问题|意思|想法|天", re.IGNORECASE
)
_NO_VALUE = re.compile(
    r"^(?:it|that|this|these|those|them|him|her|you|your|to|so|how|what|when|if|the way|not|one"
    r"|the (?:first|second|third|last|other|former|latter|same|sound|idea|look)"
    r"|[这那](?:个|样|里|种|些|件|$).*|第[一二三四五\d]个.*|什么(?!都).*|[你他她它].*)(?:\s.*)?$",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def parse_user_fact(text: str) -> Fact | None:
    """Return what a sentence in the first person says of its speaker, with doubt or without."""
    found = _stated(text)
    if found is None and rules.is_hedged(text):
        found = _stated(rules.without_hedges(text))
    return found


_NOT_MEANT = re.compile(
    r"\bI (?:don'?t|don’t|do not) (?:think|believe|suppose)\b|我(?:并)?不(?:觉得|认为)", re.IGNORECASE
)
_WITHOUT_APOSTROPHE = {
    "im": "I'm",
    "ive": "I've",
    "dont": "don't",
    "doesnt": "doesn't",
    "cant": "can't",
    "isnt": "isn't",
}
_LEFT_OUT = re.compile(rf"\b(?:{'|'.join(_WITHOUT_APOSTROPHE)})\b", re.IGNORECASE)


def _stated(text: str) -> Fact | None:
    plain = _LEFT_OUT.sub(lambda found: _WITHOUT_APOSTROPHE[found[0].lower()], text.replace("’", "'"))
    if _NOT_MEANT.search(plain):
        return None
    if _NO_ALLERGY.search(plain):
        return Fact(USER_SUBJECT, "allergy", ANYTHING, single=False, denied=True, memory_type="identity")
    denied: set[str] = set()
    for pattern in PATTERNS:
        found = pattern.expression.search(plain)
        attribute, value = pattern.attribute, _value(found["value"]) if found else None
        # What a denial is read off is no statement of the same, though a part of it may look like one.
        if not found or value is None or attribute in denied:
            continue
        if not fits(attribute, value):
            continue
        if pattern.denied:
            denied.add(attribute)
        before, said = plain[: found.start()], found[0]
        after = plain[found.end("end" if "end" in found.re.groupindex else "value") :]
        if not pattern.single:
            value, after = _with_list(value, after)
        replaces = pattern.single or pattern.denied
        # An allergy must not be missed, and what takes nothing's place may be overheard.
        overheard = not replaces and is_asserted(before, plain)
        if not (overheard or is_told(before, after, plain)):
            continue
        loose = replaces and (
            pattern.loose
            or ALSO.search(said + after) is not None
            or not is_sure(attribute, value)
            or not is_plain(before, said, after, denied=pattern.denied)
        )
        value = one_way(attribute, value)
        if attribute == "allergy" and _ANYTHING.fullmatch(value):
            value = ANYTHING
        single = pattern.single and not loose
        fact = Fact(USER_SUBJECT, attribute, value, single, pattern.denied, pattern.memory_type, loose)
        # What holds now says more than what no longer does.
        return (_instead(after, fact) or fact) if pattern.denied and pattern.single else fact
    return _of_mine(plain)


_MORE = re.compile(
    r"(\s*,\s*(?:(?:and|or)\s+)?|\s+(?:and|or)\s+)(?!(?:i|i'm|my|we|you|he|she|they|it|so|then|but|also|not|am|is|"
    r"are|was|have|has|"
    r"do|don't|can|can't|hate|love|like|dislike|prefer|enjoy|live|work|want|need|use|think|know|moved?|play|go|eat|"
    r"drink|no|"
    r"please|thanks|thank|that|this|there|what|because|since|which|where|who|when|now|by|actually|too|the rest|both)\b)"
    r"([a-z][\w'-]*(?: [a-z][\w'-]*){0,2})(?=\s*[,.;!?)]|\s+(?:and|or|but)\b|\s*$)",
    re.IGNORECASE,
)


def _with_list(value: str, after: str) -> tuple[str, str]:
    """Return a value with what else is listed after it: "tea, coffee and milk"."""
    while more := _MORE.match(after):
        value, after = value + more[0], after[more.end() :]
    return value, after


def _of_mine(plain: str) -> Fact | None:
    for expression in (MINE, ZH_MINE):
        found = expression.search(plain)
        if found is None or _NO_ATTRIBUTE.search(found["attribute"]):
            continue
        value = _value(found["value"])
        named = found["attribute"].lower().replace("favourite", "favorite").removeprefix("新")
        attribute = "_".join(named.split())
        if value is None or _STATE.match(value) or not fits(attribute, value):
            continue
        plural = found["attribute"].endswith("s") and re.search(r"\bare\b", found[0]) is not None
        single = not plural and excludes_others(named, value)
        denied = _denies(found[0])
        before, after = plain[: found.start()], plain[found.end("value") :]
        if not is_told(before, after, plain):
            continue
        loose = not is_plain(before, found[0], after, denied=denied)
        return Fact(USER_SUBJECT, attribute, value, single and not loose, denied, loose=loose and (single or denied))
    return None


_LINK = re.compile(
    r"^(?:[\s,;.!，；。]+|(?:any ?(?:more|longer)|but|and|now|rather|instead|today)\b|工作|上班|任职|住|了|而是?|"
    r"但是?)+",
    re.IGNORECASE,
)
_PLAIN_VERBS = {"home_city": "I live in", "employer": "I work at"}
_ZH_PLAIN = {"home_city": "我住在{}", "employer": "我在{}工作"}
_VERB = re.compile(r"\b(?:is|was|are|were|has|have|had|does|did|lives?|works?|moved)\b", re.IGNORECASE)
_NOW_AT = re.compile(r"^I(?:'m| am)(?: now)? (?:in|at) (?=[^.!?;]*\bnow\b)|^I(?:'m| am) now (?:in|at) ")
_AM_AT = re.compile(r"^I(?:'m| am)(?: now)? (?:in|at) ")
_ZH_NOW_AT = re.compile("^我?(?:现在|目前)?在([^,，。！？\\s]{1,12}?)(?:住|工作|上班)?(?:了)?[。！]?$")


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
    if verb is not None and (_NOW_AT.match(left) or re.search("now", link[0], re.IGNORECASE)):
        options.append(_AM_AT.sub(f"{verb} ", left))
    if verb is not None and (at := _ZH_NOW_AT.match(left)):
        options.append(_ZH_PLAIN[denied.attribute].format(at[1]))
    for option in options:
        fact = _stated(option)
        if fact is not None and fact.place == denied.place and not fact.denied and not fact.says_same(denied):
            return fact
    return None


_STATE = re.compile(r"(?i:on|in|at|coming|going|over|about|due|next|up|down|late|broken|being|getting)\b")


def _value(found: str) -> str | None:
    value = found.strip(" '\"“”")
    return None if not value or _NO_VALUE.match(value) else value


def _denies(text: str) -> bool:
    return (
        rules.ends_something(text)
        or re.search(r"\b(?:is|are|was|were) not\b|\b(?:is|are|was)n'?t\b|不是", text) is not None
    )
