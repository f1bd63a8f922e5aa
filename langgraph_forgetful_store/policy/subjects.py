"""What a user speaks of, "my address" or 我的过敏, and which memories are about it: by words, never by likeness."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from langgraph_forgetful_store.policy import wording
from langgraph_forgetful_store.policy.candidates import USER_SUBJECT
from langgraph_forgetful_store.policy.decide import Known
from langgraph_forgetful_store.policy.facts import Fact, normalise
from langgraph_forgetful_store.policy.lookup import Names
from langgraph_forgetful_store.policy.statements import parse_fact

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
        said: Its text, in lower case; ``""``: it is encrypted.
        says: The same, without signs.
        fact: What a pattern reads off it.
        mine: Whether it is about the user.
        persons: Whose it is instead: "wife" of "my wife's birthday".
        owners: The names of whom else it is about.
    """

    words: frozenset[str]
    text: str
    about_words: frozenset[str]
    about: str
    said: str
    says: str
    fact: Fact | None
    mine: bool
    persons: frozenset[str]
    owners: tuple[frozenset[str], ...]


def described(known: Known, names: Names) -> Described:
    """Return by which words a memory may be spoken of; of what is encrypted its slot and its tags alone."""
    parts, slots = list(known.tags), [known.slot]
    heard = "" if known.sealed else wording.heard(known.text)
    fact = parse_fact(heard)
    if fact is not None:
        slots.append((fact.subject, fact.attribute))
    for slot in slots:
        if slot is not None:
            parts += [*names.of(slot[0]), slot[1]]
    about = "\n".join(one for part in parts for one in (part, part.replace("_", " "))).lower()
    text = about if known.sealed else f"{known.text}\n{about}".lower()
    persons = _persons(heard) | _persons(known.slot[0] if known.slot else "")
    # A slot tells whose it is; without one the words have to.
    mine = (USER_SUBJECT in names.of(known.slot[0])) if known.slot else _FIRST_PERSON.search(heard) is not None
    subject = known.slot[0] if known.slot else fact.subject if fact else USER_SUBJECT
    called = names.of(subject)
    owners = () if USER_SUBJECT in called else tuple(_told(one.lower()) for one in called)
    return Described(
        _stems(text), text, _stems(about), about, heard.lower(), normalise(heard), fact, mine, persons, owners
    )


_RELATIVES = (
    "wife|husband|spouse|partner|girlfriend|boyfriend|fianc[eé]e?|mother|mom|mum|father|dad|parents?|son|daughter|"
    "kids?|child|children|baby|brother|sister|siblings?|uncle|aunt|cousin|nephew|niece|grand(?:mother|father|ma|pa|son|"
    "daughter)|friends?|boss|colleague|neighbou?r|roommate|flatmate|dog|cat|team|manager|doctor|teacher"
)
_ZH_RELATIVES = (
    "妈妈|母亲|爸爸|父亲|父母|老婆|妻子|太太|老公|丈夫|儿子|女儿|孩子|哥哥|弟弟|姐姐|妹妹|爷爷|奶奶|外公|外婆|女朋友|男朋友|"
    "朋友|同事|老板|邻居|室友|老师|狗|猫|妈|爸"
)
_FIRST_PERSON = re.compile(r"\bI\b|\b(?i:my|our|mine|user)\b|我|用户")
# "I live with my wife" is about the one who says so.
_PERSONS = re.compile(
    rf"(?<!with )(?<!and )\b(?:my|our|user's) (?:\w+ )?({_RELATIVES})\b(?=['’]|\s+(?!and\b|in\b|at\b|with\b)\w)|"
    rf"(?<![和跟与])(?:我|我的|我们的)({_ZH_RELATIVES})",
    re.IGNORECASE,
)
_PERSON = re.compile(rf"\b({_RELATIVES})\b|({_ZH_RELATIVES})", re.IGNORECASE)


def _persons(text: str, pattern: re.Pattern[str] = _PERSONS) -> frozenset[str]:
    return frozenset((found[1] or found[2]).lower() for found in pattern.finditer(text))


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(wording.stem, wording.words(_POSSESSIVE.sub("", text))))


@dataclass(frozen=True, slots=True)
class Subject:
    """What someone speaks of.

    Attributes:
        words: All of its words, without their endings.
        rest: Those that are of no family.
        families: The words for each thing that it names.
        persons: Whose it is, where that is told: "wife" of "my wife's birthday".
        mine: Whether it is the user's own.
        owned: Whether it was said to be: "my job", and not "work".
        says: A whole sentence, where it is one: it means a memory that says the same and no other.
        fact: What a pattern reads off that.
    """

    words: frozenset[str]
    rest: frozenset[str]
    families: tuple[_Family, ...]
    persons: frozenset[str] = frozenset()
    mine: bool = False
    owned: bool = False
    says: str = ""
    fact: Fact | None = None

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
        persons = _persons(text, _PERSON)
        # "The address", of nobody, is the user's.
        mine = not persons and (_OWN.match(text) is not None or (bool(said) and not _told(left)))
        whole = sentence[1] if (sentence := _SENTENCE.match(text)) else ""
        return cls(
            _told(folded),
            _told(left),
            tuple(said),
            persons,
            mine,
            _OWN.match(text) is not None,
            normalise(whole),
            parse_fact(whole) if whole else None,
        )

    @property
    def is_vague(self) -> bool:
        """Whether it has words that may stand in a text about something else."""
        return bool(self.says) or not self.families or not all(family.anywhere for family in self.families)

    @property
    def is_plain(self) -> bool:
        """Whether it names whose it is, and what of theirs, or says a whole sentence: no word alone does."""
        return bool(self.says) or (bool(self.families) and (self.owned or bool(self.persons)))

    def is_all_of(self, memory: Described) -> bool:
        """Whether a memory says nothing beside it, where it names more than a thing by its general name."""
        if not self.says and not self.rest - _stems(" ".join(self.persons)):
            return True
        known = set(self.words).union(*(map(wording.stem, family.words) for family in self.families))
        return _told(memory.said) <= known

    def names(self, memory: Described) -> bool:
        """Whether a memory is called by all of its words."""
        return not self.says and self._is_whose(memory) and self.words <= memory.about_words

    def occurs_in(self, memory: Described) -> bool:
        """Whether a memory has all of its words."""
        return self._is_whose(memory) and self.words <= memory.words

    def means(self, memory: Described) -> bool:
        """Whether a memory has all of its words, or others for the same things."""
        if not self._is_whose(memory):
            return False
        if self.says:
            one, other = self.fact, memory.fact
            same = one is not None and other is not None and one.says_same(other) and one.denied == other.denied
            return same or self.says == memory.says
        if not self.families:
            # A word is not yet what a memory is about: of "jazz" a liking of just that, not of a jazz club.
            return memory.fact is not None and self.words == _told(memory.fact.value.lower())
        return self.rest <= memory.words and all(family.fits(memory) for family in self.families)

    def _is_whose(self, memory: Described) -> bool:
        if not memory.persons <= self.persons or (self.mine and not memory.mine):
            return False
        return not memory.owners or any(owner <= self.words for owner in memory.owners)


_OWN = re.compile(r"\s*(?:(?:that|about|all|everything)\s+)*(?:my|our|I)\b|\s*(?:关于)?我", re.IGNORECASE)
_SENTENCE = re.compile(r"\s*(?:that\s+)?(I(?:['’]\w+)?\s.+|我(?!的).{2,})$", re.IGNORECASE | re.DOTALL)


def _told(text: str) -> frozenset[str]:
    return frozenset(map(wording.stem, wording.telling_words(text)))
