"""Whether a candidate stands in the messages it was taken from: its names, its numbers and its negations."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langgraph_forgetful_store.policy import requests, rules, wording
from langgraph_forgetful_store.policy.sentences import with_what_holds
from langgraph_forgetful_store.policy.statements import parse_fact

_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_DIGITS = re.compile(r"\d+")
_NAME = re.compile(r"\b[A-Z][\w'’-]*(?:\s+[A-Z][\w'’-]*)*")
_NUMBER_WORDS = {
    word: str(number)
    for names in (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen",
        "零一二三四五六七八九十",
    )
    for number, word in enumerate(names.split() if " " in names else names)
}
# Words that extractors put at the head of what they rephrase, and that name nobody.
_NO_NAMES = wording.vocabulary(
    "the a an user users i i'm i've i'd i'll my he she they it we you his her their our this that these those there",
    "has have is are was were likes lives prefers wants works and or but not no never may might on in at for to of",
    "with from assistant customer",
)
_VERB = re.compile(r"\s+(?:is|was|has|had|lives|works|likes|prefers|will|owns|loves|hates|said|says)\b|['’]s\b")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_ZH_NEGATED = re.compile(r"不|没|无|未|别|勿|非")
# Resolved dates are the extractor's own: "tomorrow" is right to come out as a date that no message holds.
_RELATIVE = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|(?:this|next|last) \w+|in \w+ (?:days?|weeks?|months?|"
    r"years?)|\w+ ago|monday|tuesday|wednesday|"
    r"thursday|friday|saturday|sunday|noon|midnight)\b|今天|今晚|明天|后天|昨天|前天|(?:这|下|上|本)(?:周|个?月|星期|年)|周[一二三四五六日天]|年前|天后",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:T[\d:.+Z-]+)?|\d{4}年\d{1,2}月(?:\d{1,2}日)?")


def unsupported(text: str, sources: Sequence[str]) -> list[str]:
    """Return what a text names that its sources do not: names, numbers, and negations that came or went.

    Args:
        text: What is claimed.
        sources: The texts of the messages that it was taken from.
    """
    said = "\n".join(sources)
    claimed = _DATE.sub(" ", text) if _RELATIVE.search(said) else text
    missing = [*_missing_numbers(claimed, said), *_missing_names(text, said)]
    if problem := _turned_around(text, sources):
        missing.append(problem)
    return missing


def _numbers(text: str) -> set[str]:
    found = set(_DIGITS.findall(text))
    found |= {_NUMBER_WORDS[word] for word in wording.words(text) if word in _NUMBER_WORDS}
    return {number.lstrip("0") or "0" for number in found}


def _missing_numbers(text: str, said: str) -> list[str]:
    known = _numbers(said)
    # 1,000 is 1000, and a card number may be written in groups.
    joined = re.sub(r"(?<=\d)[ ,.-](?=\d)", "", said)
    return [
        number
        for number in _NUMBER.findall(text)
        if not _numbers(number) <= known and re.sub(r"\D", "", number) not in joined
    ]


def _missing_names(text: str, said: str) -> list[str]:
    known = set(wording.words(said))
    missing = []
    for found in _NAME.finditer(text):
        at_start = found.start() == 0 or text[: found.start()].rstrip().endswith((".", "!", "?", ":", "\n"))
        for position, name in enumerate(found[0].split()):
            bare = re.sub(r"['’]s$", "", name).lower().replace("’", "'")
            # The first word of a sentence has a capital anyway; it is a name where it is what a verb speaks of.
            alone = at_start and position == 0 and len(found[0].split()) == 1 and not name.isupper()
            if bare in _NO_NAMES or (alone and not _VERB.match(text[found.end() :])):
                continue
            if not set(wording.words(bare)) <= known:
                missing.append(name)
    # Chinese names have no capitals: where a pattern tells what the value is, that has to have been said.
    fact = parse_fact(wording.heard(text))
    if fact is not None and _CHINESE.search(fact.value) and not set(_CHINESE.findall(fact.value)) <= set(said):
        missing.append(fact.value)
    return missing


def _turned_around(text: str, sources: Sequence[str]) -> str | None:
    """Say what is wrong where a text denies what the sentence nearest to it states, or the other way round."""
    claimed = set(wording.telling_words(text))
    nearest, best = "", 0.0
    for source in sources:
        for said in with_what_holds(wording.sentences(source)):
            # "Don't forget that …" denies nothing of what follows.
            sentence = requests.remember_request(said) or said
            words = set(wording.telling_words(sentence))
            share = len(words & claimed) / max(1, len(words | claimed))
            if share > best:
                nearest, best = sentence, share
    if not nearest:
        return None
    here, there = _is_negated(text, text), _is_negated(nearest, text)
    if here == there:
        return None
    return f"a negation that {'no message holds' if here else 'the message holds'} ({nearest[:80]!r})"


def _is_negated(sentence: str, claim: str) -> bool:
    if not rules.negations(sentence):
        return False
    # Of "no, I live in Rome" and 不是北京，是上海 only the part that the claim takes up counts.
    parts = [part for part in re.split(r"[,;，；、]|\bbut\b|但|而", sentence) if part.strip()]
    claimed = set(wording.telling_words(claim))
    # Of "not to X but to Y" the value tells which part is meant, and not what both have.
    fact = parse_fact(wording.heard(claim))
    value = set(wording.telling_words(fact.value)) if fact else set()
    words = [set(wording.telling_words(part)) for part in parts]
    scored = [(len(one & claimed) + 3 * len(one & value), part) for one, part in zip(words, parts, strict=True)]
    best = max((score for score, _ in scored), default=0)
    return any(
        rules.negations(part) > 0 or _ZH_NEGATED.search(part) is not None for score, part in scored if score == best
    )
