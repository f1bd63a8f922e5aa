"""What a user speaks of, "my address" or 我的过敏, and which memories are about it: by words, never by likeness."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from langgraph_forgetful_store.policy import wording
from langgraph_forgetful_store.policy.decide import Known
from langgraph_forgetful_store.policy.facts import parse_fact
from langgraph_forgetful_store.policy.lookup import Names

# A possessive is no part of a name.
_POSSESSIVE = re.compile(r"['’]s\b")


@dataclass(frozen=True, slots=True)
class _Family:
    """Words for one thing.

    Attributes:
        words: In Chinese they stand anywhere in a text.
        anywhere: Whether they tell what a memory is about wherever they occur in it. Those that do not, such as "live",
            count only in its slot, its tags, and what its sentence plainly says of someone.
    """

    words: frozenset[str]
    anywhere: bool = False

    def said_in(self, words: frozenset[str], text: str) -> list[str]:
        """Return which of them a text holds, given its words too."""
        return [one for one in self.words if (one in words if one.isascii() else one in text)]

    def fits(self, memory: Described) -> bool:
        """Whether a memory is about it."""
        text, words = (memory.text, memory.words) if self.anywhere else (memory.about, memory.about_words)
        return any(wording.stem(one) in words if one.isascii() else one in text for one in self.words)


_FAMILIES = tuple(
    _Family(frozenset(words.split()), anywhere)
    for anywhere, words in (
        (True, "allergy allergies allergic allergen intolerance intolerant 过敏 不耐受"),
        (True, "birthday born 生日 出生"),
        (True, "diet vegetarian vegan pescatarian halal kosher 饮食 忌口 素食 吃素"),
        (True, "email e-mail 邮箱"),
        (False, "address home city live living lives reside home_city 住址 地址 住在 家庭住址"),
        (False, "job work working works employer employed occupation profession 工作 职业 上班 任职"),
        (False, "name called 名字 姓名"),
        (False, "phone telephone mobile cellphone 电话 手机"),
    )
)


@dataclass(frozen=True, slots=True)
class Described:
    """A memory's words, all without their endings.

    Attributes:
        words: All.
        text: All of it, in lower case.
        about_words: Those of its slot, by all names, of its tags, and of what its sentence plainly says.
        about: These as a text.
    """

    words: frozenset[str]
    text: str
    about_words: frozenset[str]
    about: str


def described(known: Known, names: Names) -> Described:
    """Return by which words a memory may be spoken of; of what is encrypted its slot and its tags alone."""
    parts, slots = list(known.tags), [known.slot]
    if not known.sealed and (fact := parse_fact(wording.heard(known.text))) is not None:
        slots.append((fact.subject, fact.attribute))
    for slot in slots:
        if slot is not None:
            parts += [*names.of(slot[0]), slot[1]]
    about = "\n".join(one for part in parts for one in (part, part.replace("_", " "))).lower()
    text = about if known.sealed else f"{known.text}\n{about}".lower()
    return Described(_stems(text), text, _stems(about), about)


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(wording.stem, wording.words(_POSSESSIVE.sub("", text))))


@dataclass(frozen=True, slots=True)
class Subject:
    """What someone speaks of.

    Attributes:
        words: All of its words, without their endings.
        rest: Those that are of no family.
        families: The words for each thing that it names.
    """

    words: frozenset[str]
    rest: frozenset[str]
    families: tuple[_Family, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """Read it."""
        folded = _POSSESSIVE.sub("", text.lower())
        spoken = frozenset(wording.words(folded))
        said = {family: found for family in _FAMILIES if (found := family.said_in(spoken, folded))}
        named = {one for found in said.values() for one in found}
        # A longer word may hold a shorter one.
        left = folded
        for one in sorted(named, key=len, reverse=True):
            left = re.sub(rf"\b{re.escape(one)}\b" if one.isascii() else re.escape(one), " ", left)
        return cls(_told(folded), _told(left), tuple(said))

    @property
    def is_vague(self) -> bool:
        """Whether it has words that may stand in a text about something else."""
        return not all(family.anywhere for family in self.families)

    def names(self, memory: Described) -> bool:
        """Whether a memory is called by all of its words."""
        return self.words <= memory.about_words

    def occurs_in(self, memory: Described) -> bool:
        """Whether a memory has all of its words."""
        return self.words <= memory.words

    def means(self, memory: Described) -> bool:
        """Whether a memory has all of its words, or others for the same things."""
        return self.rest <= memory.words and all(family.fits(memory) for family in self.families)


def _told(text: str) -> frozenset[str]:
    return frozenset(map(wording.stem, wording.telling_words(text)))
