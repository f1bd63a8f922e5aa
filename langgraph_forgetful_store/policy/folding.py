"""Texts without what hides what they say: other scripts' digits, keycaps and characters that can't be seen."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

# Marks that are put on a character, such as a keycap's frame, and characters that can't be seen.
_MARKS, _UNSEEN = frozenset({"Mn", "Me"}), "Cf"
# In JSON what parts lines is written in letters.
_ESCAPED = re.compile(r"\\([\"nrt])")
# What stands around JSON's texts: it ends sentences, but between a name and its value.
_NAMED = re.compile(r'(?<!\\)"\s{0,3}:\s{0,3}"?')
_AROUND = re.compile(r'[{\[]+\s{0,3}"|(?<!\\)"?\s{0,3}[}\]]+|(?<!\\)"\s{0,3},\s{0,3}"?')
_MEANT = {"n": "\n", "r": "\n", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Folded:
    """A text in plain characters.

    Attributes:
        text: In plain characters.
        places: Where each of them stands in the text that was folded, and at last that text's length; ``None``:
            where it stands here.
    """

    text: str
    places: tuple[int, ...] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of it begins and ends in the text that was folded."""
        if self.places is None:
            return start, end
        # What was left out behind a character goes with it.
        return self.places[start], max(self.places[end - 1] + 1, self.places[end])


def fold(text: str) -> list[Folded]:
    """Return what a text says, in plain characters: as one reading, or several.

    Characters that can't be seen are left out; as they may also part words, there is a reading in which each is a
    space, where there are such. Of JSON there is one of its texts alone.
    """
    readings = [Folded(text) if text.isascii() else _read(text, "")]
    if any(not char.isascii() and unicodedata.category(char) == _UNSEEN for char in text):
        readings.append(_read(text, " "))
    if text.lstrip()[:1] in ("{", "["):
        readings.append(_texts_of_json(readings[0]))
    return readings


def _texts_of_json(folded: Folded) -> Folded:
    named = _NAMED.sub(lambda found: ": ".ljust(len(found[0]))[: len(found[0])], folded.text)
    return _unescaped(Folded(_AROUND.sub(lambda found: "\n" * len(found[0]), named), folded.places))


def _unescaped(folded: Folded) -> Folded:
    chars: list[str] = []
    places: list[int] = []
    at = 0
    for found in [*_ESCAPED.finditer(folded.text), None]:
        end = len(folded.text) if found is None else found.start()
        chars.append(folded.text[at:end])
        places += range(at, end)
        if found is not None:
            chars.append(_MEANT.get(found[1], found[1]))
            places.append(end)
            at = found.end()
    places.append(len(folded.text))
    known = folded.places
    return Folded("".join(chars), tuple(places if known is None else (known[place] for place in places)))


def _read(text: str, unseen: str) -> Folded:
    chars: list[str] = []
    places: list[int] = []
    for at, char in enumerate(text):
        for plain in char if char.isascii() else _plain(char, unseen):
            chars.append(plain)
            places.append(at)
    return Folded("".join(chars), (*places, len(text)))


def _plain(char: str, unseen: str) -> str:
    category = unicodedata.category(char)
    if category in _MARKS:
        return ""
    if category == _UNSEEN:
        return unseen
    digit = unicodedata.digit(char, None)
    if digit is not None:
        return str(digit)
    changed = unicodedata.normalize("NFKC", char)
    return changed if len(changed) == 1 or changed.isdigit() else char
