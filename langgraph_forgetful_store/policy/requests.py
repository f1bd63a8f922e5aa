"""What a user asks to forget, or to remember, in English and Chinese."""

from __future__ import annotations

import re

from langgraph_forgetful_store.policy.wording import any_of, english

# Erasing cannot be undone: only what the user tells the one they talk to, at the head of a sentence, is a request.
_LEAD = (
    r"^\s*(?:(?:ok(?:ay)?|well|so|now|and|then|also|actually|no|yes|sorry|hey|hi)\b[\s,!-]*)*"
    r"(?P<polite>please[,\s]+)?(?P<asks>(?:can|could|would) you\s+)?(?:i(?:'d| would) like you to\s+|"
    r"i (?:want|need) you to\s+)?(?P<kindly>(?:please|kindly)\s+)?(?:just\s+)?"
)
_ZH_LEAD = (
    r"^\s*(?:好的?|嗯|那么?|哦|算了)?[，,\s]*(?P<polite>请|麻烦|劳驾|拜托)?(?:你|您)?"
    r"(?P<asks>可不可以|能不能|可以|能)?(?P<kindly>请|帮我|替我|给我)?"
)
_ZH_ERASE = "忘掉|删掉|删除|清除|抹掉"
_WHAT, _ZH_WHAT = "(?P<what>[^.!?;,]+)", "(?P<what>[^。！？；，,.!?]*)"
_FORGET = (
    re.compile(
        rf"{_LEAD}(?:forget|erase|delete|remove|wipe)\s+(?:about\s+)?(?:what i (?:said|told you) about\s+)?{_WHAT}",
        re.IGNORECASE,
    ),
    re.compile(
        rf"{_LEAD}(?:don't|do not|stop)\s+(?:remember|keep|stor|sav)(?:e|ing)?\s+{_WHAT}",
        re.IGNORECASE,
    ),
    re.compile(rf"{_ZH_LEAD}(?:{_ZH_ERASE}|(?P<bare>忘了|忘记))(?!了|过)(?:关于)?{_ZH_WHAT}"),
    re.compile(
        rf"{_ZH_LEAD}(?:别|不要|不用|不必)(?:再)?(?:记住|记得|记着|记(?!错|恨)|保存|存)(?:下来)?{_ZH_WHAT}",
    ),
    re.compile(
        rf"{_ZH_LEAD}(?:把|将)(?P<what>[^。！？；，,.!?]+?)(?:从记忆里|从记忆中)?(?:{_ZH_ERASE}|(?P<bare>忘了|忘记))"
        r"(?:吧|一下|好吗|可以吗|行吗)?[。！!？?\s]*$"
    ),
)
_NO_FORGET = any_of(
    english(
        r"forget (?:it|to)",
        r"(?:delete|remove|erase|wipe) (?:the |a |this |that )?(?:files?|lines?|functions?|columns?|rows?|"
        r"branch|code|tests?|table|comma)",
        # What holds on a condition, or for a while, or is not meant for what is remembered here, is no order.
        r"(?:if|unless|until|when|whenever|before|after)",
        r"for (?:now|today|tonight|the moment|the time being|a (?:while|moment|bit|second|sec|minute))|right now|"
        r"for once",
    ),
    r"如果|要是|除非|的时候|之前|以后|(?<!忘)了[。！!\s]*$",
)
_POLITE = re.compile(
    r"(?:(?:please|thanks|thank you|thx|now|ok(?:ay)?|will you|for good|for me)[\s,.!]*)+|(?:谢谢(?:你|您)?|吧|好吗|"
    r"麻烦了|拜托了?)+",
    re.IGNORECASE,
)
_ASKED = re.compile(r"[?？]\s*$|(?:吗|呢|么)[。！!]?\s*$")
_FILL_WORDS = re.compile(r"^(?:(?:that|about|my|the|our|all|any|everything)\b|了|我的|关于|一下)\s*", re.IGNORECASE)
_MY = re.compile(r"^(?:(?:that|about|the|all|any|of|everything)\s+)*(?:my|our)\b|^(?:关于)?我们?的", re.IGNORECASE)


def forget_request(text: str) -> str | None:
    """Return what a user asks to forget, without "my" and 我的: "address" of "forget my address"; ``None``: nothing.

    What is asked for but not named (忘掉吧), or may be no more than a question (Can you forget my name?), is ``""``.
    """
    what = _to_forget(text)
    return what if what is None else _stripped(what)


def forget_words(text: str) -> str | None:
    """Return the same with "my" before it, where the user said so: whose it is matters where others have one too."""
    what = _to_forget(text)
    if what is None:
        return None
    bare = _stripped(what)
    if not bare or not _MY.match(what.strip()):
        return bare
    return f"我的{bare}" if "我" in what else f"my {bare}"


def _to_forget(text: str) -> str | None:
    plain = text.replace("’", "'").replace("‘", "'")
    if _NO_FORGET.search(plain):
        return None
    # 把…忘掉 names before the verb what other forms name after it.
    for pattern in reversed(_FORGET):
        if found := pattern.search(plain):
            named = found.groupdict()
            kind = named["polite"] or named["kindly"]
            more = plain[found.end() :].strip(" .!?。！？,，")
            if more and not _POLITE.fullmatch(more):
                # "Forget Paris, let's go to Rome" is about no memory; in doubt nothing is erased.
                return "" if _MY.match(named["what"].strip()) else None
            asked = _ASKED.search(plain) is not None
            # 忘记带钥匙 tells of oneself as well; "Forget my name?" repeats what another said.
            if (named.get("bare") and not kind and "吧" not in plain) or (asked and not kind and not named["asks"]):
                return None
            return "" if (named["asks"] or asked) and not (kind and plain.isascii()) else found["what"]
    return None


def _stripped(what: str) -> str:
    what = what.strip().strip("吧了的。 \"'“”")
    while (shorter := _FILL_WORDS.sub("", what)) != what:
        what = shorter
    return re.sub(r"\s+(?:please|now|any ?more|for me|from (?:your )?memory)$", "", what, flags=re.IGNORECASE).strip()


_REMEMBER = (
    re.compile(
        r"^\s*(?:please,?\s+|can you\s+|could you\s+)*(?:remember|note|keep in mind|"
        r"(?:don['’]?t|do not|never) (?:ever )?forget|make a "
        r"note)\b(?:\s+(?:that|down that)|\s*[:,])?\s*(?P<what>.+)$",
        re.IGNORECASE | re.DOTALL,
    ),
    re.compile(
        r"^\s*(?:请|帮我|麻烦)*(?:你|您)?(?:记住|记下|记一下|记得|(?:千万)?(?:别|不要|不能|请勿)(?:忘了|忘记|"
        r"忘掉))[:：,，]?\s*(?P<what>.+)$",
        re.DOTALL,
    ),
)
_TO_REMEMBER_NOT = re.compile(r"^(?:me|when|how|the time|if|whether|what|who|where|why)\b", re.IGNORECASE)


# "Don't forget my name" says nothing of the name.
_NAMES_ONLY = re.compile(r"^(?:my|our|the) [^\W\d]+(?: [^\W\d]+)?[.!]*$|^我的[^是叫为\d]{1,8}[。！]*$", re.IGNORECASE)


def remember_request(text: str) -> str | None:
    """Return what a user asks to remember, or ``None``: "remember that I'm left-handed", 记住…"""
    for pattern in _REMEMBER:
        if (found := pattern.match(text)) and not text.rstrip().endswith(("?", "？")):
            what = found["what"].strip()
            return None if _TO_REMEMBER_NOT.match(what) or _NAMES_ONLY.match(what) else what
    return None
