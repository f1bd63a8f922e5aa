"""Words: what a text is made of for a search by words, and how rows that hold words of a query score.

A row's words are made when it is written and kept packed beside it. Each word gives its stem and, where that differs,
its surface, which counts half. Terms are kept as CRC32 and count; two that share a CRC32 count as one. Where these
rules change, so does `codec.TOKENIZER`, which stored data name.
"""

from __future__ import annotations

import json
import re
import struct
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.errors import CorruptRecordError

SURFACE_SHARE = 0.5
# Lengths and counts beyond are counted as so many.
MOST_LENGTH, MOST_COUNT = 65_535, 255
# A pronoun, a preposition or an auxiliary verb tells nothing of what a text is about. Contractions stand here as they
# are once their apostrophe is gone.
_STOP = """
a about after again all also am an and any are arent as at be because been before being both but by can cannot cant
could couldnt d did didnt do does doesnt doing dont down during each few for from further had hadnt has hasnt have
havent having he hed hell her here heres hers herself hes him himself his how hows i id if ill im in into is isnt it
itd itll its itself ive just let lets ll me more most mustnt my myself no nor not of off on once only or other our
ours ourselves out over own re s same shant she shed shell shes should shouldnt so some such t than that thatll
thats the their theirs them themselves then there theres these they theyd theyll theyre theyve this those through to
too under until up us ve very was wasnt we wed well were werent weve what whats when whens where wheres which while
who whom whos why whys will with wont would wouldnt you youd youll your youre yours yourself yourselves youve
"""
STOP_WORDS = frozenset(_STOP.split())

_HEADER = struct.Struct("<HHH")
_APOSTROPHES = str.maketrans("\u2018\u2019\u02bc\uff07", "''''")
_JOINTS = "._@/:-"
_ASCII_TOKENS = re.compile(r"[a-z0-9]+(?:['._@/:\-][a-z0-9]+)*")
_POSSESSIVE = re.compile(r"'s(?=['._@/:\-]|$)")
_SPLIT = re.compile(r"[._@/:\-]+")
_STEMMABLE = re.compile(r"[a-z]{3,}")
# Writing without spaces: Han, kana, Hangul and Thai.
_UNSPACED = (
    "\u0e01-\u0e4e\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u30fa"
    "\u30fc-\u30ff\u3105-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7fb"
    "\uf900-\ufaff\U0001aff0-\U0001b16f\U00020000-\U000323af"
)
_RUNS = re.compile(f"(?P<unspaced>[{_UNSPACED}]+)|[^{_UNSPACED}]+")
# Accents are taken off these alone: in other scripts a mark is most of a vowel, or of a consonant.
_FOLDED = "a-z\u00df-\u024f\u0250-\u02af\u0370-\u03ff\u0400-\u052f\u1c80-\u1c88\u1d00-\u1dbf\u1e00-\u1fff\ua640-\ua69f"
_ACCENTS = re.compile(f"(?<=[{_FOLDED}])[\u0300-\u036f\u0483-\u0487\u1ab0-\u1ace\u1dc0-\u1dff]+")


@cache
def _tokens() -> re.Pattern[str]:
    # Only texts that are not plain ASCII need it, and to look at every character takes some time.
    letters = map(chr, (*range(0x20000), *range(0xE0100, 0xE01F0)))
    marks = [letter for letter in letters if unicodedata.category(letter)[0] == "M"]
    one = rf"(?:[^\W_]|[{''.join(marks)}])+"
    return re.compile(rf"{one}(?:['._@/:\-]{one})*")


def fold(text: str) -> str:
    """Return a text without what two spellings of one word differ in: width, case, accents, kind of apostrophe."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", plain))
    return unicodedata.normalize("NFC", plain).translate(_APOSTROPHES)


def tokens(text: str) -> list[str]:
    """Return the words of a text, folded; what one of ``. _ @ / : -`` joins is one token."""
    folded = fold(text)
    return (_ASCII_TOKENS if folded.isascii() else _tokens()).findall(folded)


def _is_consonant(word: str, at: int) -> bool:
    letter = word[at]
    return letter not in "aeiou" and not (letter == "y" and at > 0 and _is_consonant(word, at - 1))


def _measure(stem: str) -> int:
    """Return how often a vowel is followed by a consonant."""
    kinds = [_is_consonant(stem, at) for at in range(len(stem))]
    return sum(not before and after for before, after in pairwise(kinds))


def _has_vowel(stem: str) -> bool:
    return not all(_is_consonant(stem, at) for at in range(len(stem)))


def _ends_short(stem: str) -> bool:
    """Tell whether it ends consonant, vowel, consonant, and the last is none of w, x, y."""
    end = len(stem) - 1
    return (
        end >= 2
        and [_is_consonant(stem, at) for at in (end - 2, end - 1, end)] == [True, False, True]
        and stem[end] not in "wxy"
    )


def stem(word: str) -> str:
    """Return a word without plural, past and progressive endings, and without a final e.

    Steps 1a, 1b, 1c and 5a of M. F. Porter, "An algorithm for suffix stripping" (1980).
    """
    if not _STEMMABLE.fullmatch(word):
        return word
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    word = _without_past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word


def _without_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = next((one for one in ("ed", "ing") if word.endswith(one)), None)
    if ending is None or not _has_vowel(word.removesuffix(ending)):
        return word
    word = word.removesuffix(ending)
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if len(word) > 1 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1) and word[-1] not in "lsz":
        return word[:-1]
    return word + "e" if _measure(word) == 1 and _ends_short(word) else word


class Term(NamedTuple):
    """One term of a token.

    Attributes:
        crc: Of the term.
        share: What it counts, beside a stem's 1.
        word: What it is called in an explanation.
        asked: Whether a query holds it too: of a run without spaces, rows alone hold each single character.
        length: How much of a row's length it is.
    """

    crc: int
    share: float
    word: str
    asked: bool = True
    length: int = 1


def _crc(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def terms_of(token: str) -> tuple[Term, ...]:
    """Return the terms of a token."""
    if "'" in token:
        token = _POSSESSIVE.sub("", token).replace("'", "")
    found = []
    if any(joint in token for joint in _JOINTS):
        # As a whole it is no more of the text than its parts.
        found.append(Term(_crc(token), 1.0, token, length=0))
    for part in _SPLIT.split(token):
        for run in _RUNS.finditer(part):
            found += _unspaced(run[0]) if run["unspaced"] else _spaced(run[0])
    return tuple(found)


def _spaced(word: str) -> Iterator[Term]:
    if word in STOP_WORDS:
        return
    short = stem(word)
    yield Term(_crc(short), 1.0, word)
    if short != word:
        yield Term(_crc("=" + word), SURFACE_SHARE, word, length=0)


def _unspaced(run: str) -> Iterator[Term]:
    # A vowel sign or tone mark belongs to the letter before it.
    letters: list[str] = []
    for letter in run:
        if letters and unicodedata.category(letter)[0] == "M":
            letters[-1] += letter
        else:
            letters.append(letter)
    for letter in letters:
        yield Term(_crc(letter), 1.0, letter, asked=len(letters) == 1)
    for one, other in pairwise(letters):
        yield Term(_crc(one + other), 1.0, one + other, length=0)


@lru_cache(maxsize=32_768)
def _kept(token: str) -> tuple[int, ...]:
    return tuple(term.crc for term in terms_of(token))


@lru_cache(maxsize=32_768)
def _length(token: str) -> int:
    return sum(term.length for term in terms_of(token))


@lru_cache(maxsize=256)
def _integers(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I")


@lru_cache(maxsize=32_768)
def _asked(token: str) -> tuple[tuple[int, float, str], ...]:
    return tuple((term.crc, term.share, term.word) for term in terms_of(token) if term.asked)


def string_leaves(value: Any) -> Iterator[str]:
    """Return the strings that a value holds, at any depth; keys are none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from string_leaves(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from string_leaves(part)


def pack_words(texts: Sequence[str], paths: Sequence[str] | None = None) -> bytes:
    """Return the words of a row as they lie in Redis.

    Args:
        texts: Where they stand.
        paths: The field paths that name the texts; ``None``: the store's own.

    Raises:
        ValueError: There are too many paths.
    """
    kept = b"" if paths is None else json.dumps(list(paths)).encode()
    if len(kept) > MOST_LENGTH:
        raise ValueError(f"index names too many paths: as JSON they take {len(kept)} bytes, at most {MOST_LENGTH}")
    found = [token for text in texts for token in tokens(text)]
    listed = list(chain.from_iterable(map(_kept, found)))
    repeats = b""
    if len(distinct := dict.fromkeys(listed)) < len(listed):
        # Most terms stand once; their counts are left out.
        counts = Counter(listed)
        often = [crc for crc in distinct if counts[crc] > 1][:MOST_LENGTH]
        repeats = bytes(min(counts[crc], MOST_COUNT) for crc in often)
        often_ones = set(often)
        listed = [*(crc for crc in distinct if crc not in often_ones), *often]
    length = min(sum(map(_length, found)), MOST_LENGTH)
    return _HEADER.pack(length, len(kept), len(repeats)) + _integers(len(listed)).pack(*listed) + repeats + kept


def split_packed(data: bytes) -> tuple[int, bytes, bytes]:
    """Return the length that packed words tell, the CRC32s of the terms, and one byte each: their counts.

    Raises:
        CorruptRecordError: They are no packed words.
    """
    if len(data) >= _HEADER.size:
        length, paths, often = _HEADER.unpack_from(data)
        end = len(data) - paths - often
        size, odd = divmod(end - _HEADER.size, 4)
        if not odd and size >= often:
            return length, data[_HEADER.size : end], b"\1" * (size - often) + data[end : end + often]
    raise CorruptRecordError(f"a row's words have {len(data)} bytes, as no record has: written by something else?")


class Words(NamedTuple):
    """The words of a row.

    Attributes:
        counts: How often it holds each term, by CRC32.
        length: How many words it has.
        paths: The field paths that they were taken from; ``None``: the store's own.
    """

    counts: Mapping[int, int]
    length: int
    paths: Sequence[str] | None = None

    @classmethod
    def unpack(cls, data: bytes) -> Words:
        """Read what `pack_words` made.

        Raises:
            CorruptRecordError: It is nothing of the kind.
        """
        length, crcs, counts = split_packed(data)
        kept = data[len(data) - _HEADER.unpack_from(data)[1] :]
        terms = dict(zip(np.frombuffer(crcs, "<u4").tolist(), counts, strict=True))
        return cls(terms, length, json.loads(kept) if kept else None)


class Query(NamedTuple):
    """The terms of a query.

    Attributes:
        crcs: In ascending order, shape (n,).
        shares: What each counts.
        words: What each is called; a stem and its surface are called alike.
    """

    crcs: npt.NDArray[np.uint32]
    shares: tuple[float, ...]
    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Query | None:
        """Take the terms out of a query; ``None`` where it has none."""
        terms: dict[int, tuple[float, str]] = {}
        for token in tokens(text):
            for crc, share, word in _asked(token):
                if crc not in terms or terms[crc][0] < share:
                    terms[crc] = share, word
        if not terms:
            return None
        crcs = sorted(terms)
        shares, words = zip(*map(terms.__getitem__, crcs), strict=True)
        return cls(np.array(crcs, np.uint32), shares, words)
