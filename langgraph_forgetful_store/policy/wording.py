"""Texts as sentences and words, in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Sequence

# What comes later in a text says little of what kind it is, and patterns over a page take their time.
HEARD = 2000


def heard(text: str) -> str:
    """Return the beginning of a text, which is all that is listened to for its tone and its kind."""
    return text[:HEARD]


def english(*phrases: str) -> str:
    """Return a pattern of any of some phrases, as whole words."""
    return r"\b(?:" + "|".join(phrases) + r")\b"


def any_of(*patterns: str) -> re.Pattern[str]:
    """Compile a pattern that fits where any of some does, in upper or lower case."""
    return re.compile("|".join(patterns), re.IGNORECASE)


def vocabulary(*lines: str) -> frozenset[str]:
    """Return the words of some lines."""
    return frozenset(word for line in lines for word in line.split())


_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；!?])|\n+")
_ABBREVIATIONS = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|Prof|e\.g|i\.e|vs|No)\.$")


def sentences(text: str) -> list[str]:
    """Split a text into its sentences."""
    found: list[str] = []
    for part in _SENTENCE_END.split(text):
        piece = part.strip()
        if not piece:
            continue
        if found and _ABBREVIATIONS.search(found[-1]):
            found[-1] = f"{found[-1]} {piece}"
        else:
            found.append(piece)
    return found


_WORDS = re.compile(r"[a-z0-9]+(?:[.'’_-][a-z0-9]+)*|[\u4e00-\u9fff]|[^\W\d_]+|\d+", re.IGNORECASE)
_STOP = vocabulary(
    "a an the is are was were be been am i me my mine we our you your he she it they his her its their to of in",
    "on at for and or that this these those do does did have has had with as by from so very really just",
    "我 的 了 是 在 你 他 她 它 们 也 都 就 很 吧 啊 呢",
)


def words(text: str) -> list[str]:
    """Return a text's words in lower case; each Chinese character is one."""
    return [found.lower().replace("’", "'") for found in _WORDS.findall(text)]


def telling_words(text: str) -> list[str]:
    """Return the words of a text that are not on nearly every line."""
    return [word for word in words(text) if word not in _STOP]


_ENDINGS = re.compile(r"(?:ings?|ed|es|s|e)$")


def stem(word: str) -> str:
    """Return an English word without its ending, as far as a rule of thumb goes: "book" of "booking" and "booked".

    It tells that two words are forms of one, and may be no word itself: both "write" and "writing" give "writ".
    """
    if not word.isascii() or word.endswith("ss"):
        return word
    bare = _ENDINGS.sub("", word)
    if len(bare) < 3 or not re.search("[aeiouy]", bare):
        return word
    return bare[:-1] if bare[-1] == bare[-2] and bare[-1] not in "aeiouls" else bare


def overlap(text: str, others: Sequence[str]) -> float:
    """Return what share of a text's telling words others hold."""
    wanted = set(telling_words(text))
    return len(wanted & set(others)) / len(wanted) if wanted else 0.0
