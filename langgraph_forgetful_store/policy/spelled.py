"""Numbers that are written in words, digit by digit: "four one one one", "六二二二"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

_LINES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen",
    "seventeen eighteen nineteen",
)
_ENGLISH = [word for line in _LINES for word in line.split()]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_VALUES = {
    **{word: value for value, word in enumerate(_ENGLISH)},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
    **dict.fromkeys(("oh", "o", "nil", "nought", "naught"), 0),
    **{char: value for value, char in enumerate("零一二三四五六七八九")},
    **{char: value for value, char in enumerate("〇壹贰叁肆伍陆柒捌玖")},
    **{"○": 0, "幺": 1, "两": 2},
}
_WORD = "(?:" + "|".join(word for word in _VALUES if word.isascii()) + "|double|triple)"
_CHAR = "[" + "".join(char for char in _VALUES if not char.isascii()) + "]"
_APART = r"[\s,.\-_/]{1,3}(?:and\s)?"
_RUN = re.compile(
    rf"(?<![A-Za-z\d])(?:{_WORD}|\d{{1,4}})(?:{_APART}(?:{_WORD}|\d{{1,4}}))+(?![A-Za-z\d])"
    rf"|{_CHAR}(?:[\s,，、\-]{{0,2}}{_CHAR})+",
    re.IGNORECASE,
)
_PART = re.compile(rf"[A-Za-z]+|\d+|{_CHAR}")


def spelled(text: str, least: int) -> Iterable[tuple[int, int]]:
    """Return where numbers of at least some digits are spelled out; counting is none of it."""
    for run in _RUN.finditer(text):
        parts = [part for part in _PART.findall(run[0].lower()) if part != "and"]
        words = [part for part in parts if not part.isdigit() or not part.isascii()]
        if len(words) >= min(least, 4) and sum(map(_length, parts)) >= least and not _counts(parts):
            yield run.span()


def _length(part: str) -> int:
    return len(part) if part.isascii() and part.isdigit() else 1


def _counts(parts: Sequence[str]) -> bool:
    """Whether numbers go up or down in even steps."""
    values = [int(part) if part.isdecimal() else _VALUES.get(part, -1) for part in parts]
    steps = {second - first for first, second in pairwise(values)}
    return len(steps) == 1 and steps != {0}
