"""A message as the sentences that its writer says, and a sentence as the facts that it states."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langgraph_forgetful_store.policy import rules, wording
from langgraph_forgetful_store.policy.facts import parse_user_fact

_PASTED = re.compile(r"```.*?(?:```|\Z)|^\s*>.*$", re.DOTALL | re.MULTILINE)
_ANNOUNCED = re.compile(r"[:：][ \t]*\n")
_TOLD_TO_KEEP = re.compile(
    r"\b(?:remember|note|keep in mind|don['’]?t forget|about me)\b|记住|记得|记下|别忘", re.IGNORECASE
)


def _own_words(text: str) -> str:
    """Return a message without what its writer only passes on: quoted lines, code, and what follows "the email I "
    "got:"."""
    own = _PASTED.sub("\n", text)
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


def facts_apart(sentence: str) -> list[str]:
    """Split a sentence of several facts, so that what replaces one of them takes none of the others with it.

    "I'm not allergic to X but to Y" has two facts as well; of one thing that was and another that is now, the sentence
    is one.
    """
    for cut in CLAUSE_END.finditer(sentence):
        first, rest = sentence[: cut.start()], sentence[cut.end() :]
        one = parse_user_fact(first)
        if one is None:
            continue
        options = [rest, f"I'm {rest}", f"I {rest}"] if first.isascii() else [rest, f"我{rest}", f"我是{rest}"]
        if one.attribute == "allergy" and rest.startswith("to "):
            options.append(f"I'm allergic {rest}")
        for option in options:
            parts = facts_apart(option)
            other = parse_user_fact(parts[0])
            if other is None or (other.place == one.place and (one.single or one.denied == other.denied)):
                continue
            # What a clause alone says may be undone by the next.
            if parse_user_fact(sentence) is not None or one.denied:
                return [first, *parts]
    return [sentence]
