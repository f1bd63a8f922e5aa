"""A message as the sentences that its writer says, and a sentence as the facts that it states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from langgraph_forgetful_store.policy import rules, wording
from langgraph_forgetful_store.policy.facts import parse_user_fact

_PASTED = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
# What is quoted at length is another's.
_QUOTED = re.compile(r"[\"“][^\"“”]*[.!?;]\s[^\"“”]*[\"”]")
_ANNOUNCED = re.compile(r"[:：][ \t]*\n")
# What a user has done with a text that may be anybody's.
_WORK = "translate|proofread|rewrite|rephrase|summari[sz]e|paraphrase|edit|fix|improve|shorten|polish"
_ZH_WORK = "翻译|校对|润色|改写|总结|概括"
_TO_WORK_ON = re.compile(
    r"^[ \t]*(?:(?:ok|okay|hi|hey|so|now)[ \t,]+)*(?:(?:please|kindly|can you|could you|would you|help me)[ \t]+)*"
    rf"(?:{_WORK}|correct|check|review|reply|respond|answer|draft|format|analy[sz]e|explain|write|compose|continue)\b.*\n|"
    r"^[ \t]*(?:from|to|subject|cc|bcc|date|sent)\s*:|^[ \t]*dear\b|"
    r"\b(?:wrote|texted|emailed|messaged|sent|said|says)(?: to)?(?: me| us)?[.:!]?\s*\n|"
    rf"^[ \t]*(?:请|帮我|麻烦)*(?:{_ZH_WORK}|检查|修改|回复|回答|写).*\n",
    re.IGNORECASE | re.MULTILINE,
)
_WORK_AHEAD = re.compile(
    r"\s*(?:(?:please|can you|could you|help me)\s+)*"
    rf"(?:{_WORK}|correct (?:my|this|the) (?:grammar|text|english|spelling))\b[^.!?\n:：]{{0,60}}[:：]|"
    rf"\s*(?:请|帮我|麻烦)*(?:{_ZH_WORK})[^。！？\n:：]{{0,20}}[:：]",
    re.IGNORECASE,
)
_TOLD_TO_KEEP = re.compile(
    r"\b(?:remember|note|keep in mind|don['’]?t forget|about me|save|store|update)\b|记住|记得|记下|别忘|更新|保存",
    re.IGNORECASE,
)


def _own_words(text: str) -> str:
    """Return a message without what its writer only passes on: quotes, code, what follows "the email I got:"."""
    own = _QUOTED.sub(" ", _PASTED.sub("\n", text))
    if (passed_on := _TO_WORK_ON.search(own)) is not None and "\n" in own:
        own = own[: passed_on.start()]
    if (passed_on := _WORK_AHEAD.match(own)) is not None:
        own = own[: passed_on.end()]
    announced = _ANNOUNCED.search(own)
    return own if announced is None or _TOLD_TO_KEEP.search(own[: announced.start()]) else own[: announced.start()]


def sentences_of(text: str) -> list[str]:
    """Return what a message says in its writer's own words; a denial with what holds instead is one sentence."""
    return with_what_holds(wording.sentences(_own_words(text)))


def with_what_holds(sentences: Sequence[str]) -> list[str]:
    """Join a denial with the sentence after it, where that tells what holds instead and no pattern fits it alone."""
    joined: list[str] = []
    for sentence in sentences:
        if joined and _is_denial(joined[-1]) and parse_user_fact(sentence) is None:
            both = f"{joined[-1]} {sentence}"
            if not rules.is_question(both) and parse_user_fact(both) is not None and not _is_denial(both):
                joined[-1] = both
                continue
        joined.append(sentence)
    return joined


def _is_denial(sentence: str) -> bool:
    fact = parse_user_fact(sentence)
    return fact is not None and fact.denied and fact.single


CLAUSE_END = re.compile(
    r"\s*[,;，；]\s*(?:and (?:also )?|but (?:also )?|also |而是?|而且|但是?|并且|也)?|\s+(?:and|but)\s+(?:also )?|"
    r"而且|并且|、",
    re.IGNORECASE,
)


_VERB = re.compile(
    r"(?:also |now |still |really |just |currently )*(?:live|work|love|like|hate|prefer|enjoy|use|moved|am|have|had|"
    r"don't|do|can|"
    r"can't|speak|eat|drink|play|want|need|go|switched|changed|started|joined|got|dislike|adore|was|used|quit|"
    r"stopped)\b",
    re.IGNORECASE,
)


# A sentence of more than that is a list of something, or none.
_LONGEST, _MOST_CLAUSES = 400, 8


def facts_apart(sentence: str) -> list[str]:
    """Split a sentence of several facts, so that what replaces one of them takes none of the others with it.

    "I'm not allergic to X but to Y" has two facts as well; of one thing that was and another that is now, the sentence
    is one.
    """
    parts: list[str] = []
    rest = sentence if len(sentence) <= _LONGEST else ""
    while (split := _first_apart(rest)) is not None:
        first, rest = split
        parts.append(first)
    return [*parts, rest or sentence]


def _first_apart(sentence: str) -> tuple[str, str] | None:
    """Return the first fact of a sentence, and the rest as a sentence of its own; ``None``: it has no two."""
    for cut in islice(CLAUSE_END.finditer(sentence), _MOST_CLAUSES):
        first, rest = sentence[: cut.start()], sentence[cut.end() :]
        one = parse_user_fact(first)
        if one is None:
            continue
        if first.isascii():
            options = [rest, f"I {rest}" if _VERB.match(rest) else f"I'm {rest}"]
        else:
            options = [rest, f"我{rest}", f"我是{rest}"]
        if one.attribute == "allergy" and rest.startswith("to "):
            options.append(f"I'm allergic {rest}")
        for option in options:
            head = CLAUSE_END.split(option, maxsplit=1)[0]
            other = parse_user_fact(head) or parse_user_fact(option)
            if other is None or (other.place == one.place and (one.single or one.denied == other.denied)):
                continue
            # What a clause alone says may be undone by the next.
            if parse_user_fact(sentence) is not None or one.denied:
                return first, option
    return None
