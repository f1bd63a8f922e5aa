"""Screening: national ids, card numbers, credentials and other things that a memory should not hold unasked."""

from __future__ import annotations

import importlib
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy import wording
from langgraph_forgetful_store.policy.classify import HEALTH_IDENTITY

INSTALL = "install langgraph-forgetful-store[screening]"
KINDS = ("national_id", "card", "credential", "address", "health", "finance", "relationship")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something sensitive in a text.

    Attributes:
        kind: One of `KINDS`, or a label that an extractor gave.
        start: Where it begins.
        end: Where it ends; the whole text, where only its subject is sensitive.
    """

    kind: str
    start: int
    end: int


Screener = Callable[[str], Sequence[Finding]]


class ScreeningIncomplete(UserWarning):
    """National ids, card numbers and credentials can't be recognised, as the extra ``screening`` is missing."""


def has_validators() -> bool:
    """Whether the extra ``screening`` is installed."""
    try:
        importlib.import_module("stdnum.luhn")
        importlib.import_module("detect_secrets.plugins.aws")
    except ImportError:
        return False
    return True


_told: set[str] = set()


def warn_if_incomplete() -> None:
    """Warn, once a process, where screening can't see what it should; load the validators where it can.

    Loading reads files, which must not happen on an event loop later on.
    """
    if has_validators():
        screen(f"id numbers {' '.join(_SAMPLE_IDS)}")
    elif not _told:
        _told.add("incomplete")
        warnings.warn(
            f"screening can't recognise national ids, card numbers and credentials: {INSTALL}; until then only "
            "what extractors label, addresses and the like are held back",
            ScreeningIncomplete,
            stacklevel=3,
        )


def require_validators() -> None:
    """Insist on complete screening.

    Raises:
        ConfigurationError: The extra is missing.
    """
    if not has_validators():
        raise ConfigurationError(f"screening needs validators of national ids, cards and credentials: {INSTALL}")


# Formats that hardly anything else has, so a valid check digit is proof enough.
_TELLING_IDS = (
    "cn.ric",
    "it.codicefiscale",
    "mx.curp",
    "es.dni",
    "es.nie",
    "kr.rrn",
    "fr.nir",
    "in_.pan",
    "fi.hetu",
    "ie.pps",
    "sg.nric",
    "th.pin",
)
# One in ten of all order numbers has a valid check digit too: these only where the text says what they are.
_PLAIN_IDS = (
    "us.ssn",
    "us.itin",
    "ca.sin",
    "au.tfn",
    "de.idnr",
    "nl.bsn",
    "be.nn",
    "br.cpf",
    "in_.aadhaar",
    "pl.pesel",
    "se.personnummer",
    "no.fodselsnummer",
    "dk.cpr",
    "za.idnr",
    "tr.tckimlik",
    "cl.rut",
    "ch.ssn",
    "cz.rc",
    "ro.cnp",
    "bg.egn",
    "il.idnr",
    "gb.nhs",
    "my.nric",
    "ee.ik",
    "lt.asmens",
    "hr.oib",
    "pt.cc",
    "gr.amka",
)
# Long texts are looked at in parts, so that no pattern takes more than its time; none of what is found is longer than
# what the parts have in common, but a private key, of which every part is one.
_WINDOW, _OVERLAP = 4000, 500
# Checking these reads the tables of regions.
_SAMPLE_IDS = ("11010519491231002X", "770305-02-1234")
_ID_SAID = re.compile(
    r"\b(?:ssn|social security|national (?:id|insurance|identity)|(?:id|identity) (?:card|number)|"
    r"tax(?:payer)? (?:id|number|file)|"
    r"tfn|sin|nino|bsn|cpf|aadhaa?r|pesel|personnummer|nhs number|itin|passport|rut|dni|steuer-?id|"
    r"insurance number)\b|身份证|社保|证件号|护照|纳税",
    re.IGNORECASE,
)
_FORMATTED_SSN = re.compile(r"\b(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}\b")
_ID_LIKE = re.compile(r"(?<![\w])(?=[A-Z\d .-]*\d)[A-Z]{0,6}\d[A-Z\d]*(?:[ .-]?[A-Z\d]+){0,6}(?![\w])", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9]+(?:[-./][A-Za-z0-9]+)*")
_DIGITS = re.compile(r"(?<!\d)\d(?:[ .\-\u2010-\u2015]?\d){7,18}(?!\d)")
# Whatever its digits are parted by, even what can't be seen, a card's number is the same.
_APART = r"[\s._,/:*\-\u00ad\u2010-\u2015\u200b-\u200f\u2060\ufeff]{0,6}"
_GROUP = re.compile(r"\d+")
_NUMBERS = re.compile(rf"(?<!\d)\d(?:{_APART}\d){{12,}}")
_CARD = re.compile(
    r"(?:4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|"
    r"3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11}|"
    r"35\d{14}|6\d{15,18}|5[06-9]\d{14}|9\d{15})"
)
_CARD_SAID = re.compile(
    r"\b(?:credit|debit|bank|visa|mastercard|amex)\b|\bcard (?:number|no)\b|信用卡|银行卡|卡号|借记卡", re.IGNORECASE
)
# A secret that a sentence names is one whatever it looks like.
_SECRET_SAID = re.compile(
    r"\b(?:pass ?(?:word|phrase|code)|passwd|pwd|pin(?: code)?|cvv2?|cvc|security code|api[ _-]?key|"
    r"secret(?: key)?|access[ _-]?token|"
    r"auth(?:entication)? token|private key|otp|recovery code)\b"
    r"(?:\s+(?:for|to|of|on)\s+[\w .'-]{1,40}?)?\s*(?:is|are|was|[:=]|is:)\s*[\"'“]?(?P<secret>[^\s\"'”]{3,})",
    re.IGNORECASE,
)
_PHRASE_SAID = re.compile(
    r"\b(?:recovery|seed|mnemonic) phrase\b\s*(?:is|[:=])\s*(?P<secret>[^.\n]{3,})", re.IGNORECASE
)
_ZH_SECRET_SAID = re.compile(
    r"(?:密码|口令|密钥|验证码|安全码|支付码|私钥|助记词)(?:是|为|[:：=])\s*(?P<secret>[^\s，。！？]{3,})"
)
_NO_SECRET = re.compile(
    r"^(?:not|safe|wrong|correct|strong|weak|secure|expired|required|missing|too|a|an|the|in|on|stored|"
    r"invalid|reset|changed)\b|^(?:什么|不|对|错)",
    re.IGNORECASE,
)


@cache
def _modules(names: tuple[str, ...]) -> tuple[Any, ...]:
    found = []
    for name in names:
        try:
            found.append(importlib.import_module(f"stdnum.{name}"))
        except ImportError:
            # Which countries there are differs by the version of python-stdnum.
            continue
    return tuple(found)


@cache
def _luhn() -> Callable[[str], bool]:
    valid: Callable[[str], bool] = importlib.import_module("stdnum.luhn").is_valid
    return valid


@cache
def _plugins() -> tuple[Any, ...]:
    """Return detectors of credentials by their form, without those that guess by entropy or read code."""
    mapping = importlib.import_module("detect_secrets.core.plugins.util").get_mapping_from_secret_type_to_class()
    guessing = {"Base64 High Entropy String", "Hex High Entropy String", "Secret Keyword", "Public IP (ipv4)"}
    return tuple(kind() for name, kind in mapping.items() if name not in guessing)


@cache
def _entropy() -> Callable[[str], float]:
    detector = importlib.import_module("detect_secrets.plugins.high_entropy_strings").Base64HighEntropyString(4.5)
    measure: Callable[[str], float] = detector.calculate_shannon_entropy
    return measure


def screen(text: str) -> list[Finding]:
    """Return what is sensitive in a text.

    Validators find national ids, card numbers and credentials, where the extra ``screening`` is installed. Patterns
    find precise addresses, health, money and private relationships. Allergies, intolerances and diets are none of it.
    """
    # Digits of another script, or full-width ones, are the same number; characters keep their places.
    plain = text if text.isascii() else "".join(_plain(char) for char in text)
    validates = has_validators()
    found: set[Finding] = set()
    for at in range(0, max(1, len(plain) - _OVERLAP), _WINDOW - _OVERLAP):
        part = plain[at : at + _WINDOW]
        found |= {Finding(one.kind, one.start + at, one.end + at) for one in _screened(part, validates)}
    return sorted(found, key=lambda one: (one.start, one.end, one.kind))


def _screened(text: str, validates: bool) -> Iterable[Finding]:
    yield from _soft(text)
    yield from _said_secrets(text)
    if validates:
        yield from _cards(text)
        yield from _ids(text)
        yield from _credentials(text)


def _plain(char: str) -> str:
    if char.isascii():
        return char
    changed = unicodedata.normalize("NFKC", char)
    if len(changed) != 1:
        return char
    digit = unicodedata.digit(changed, None)
    return changed if digit is None else str(digit)


def _said_secrets(text: str) -> Iterable[Finding]:
    for pattern in (_SECRET_SAID, _PHRASE_SAID, _ZH_SECRET_SAID):
        for found in pattern.finditer(text):
            if not _NO_SECRET.match(found["secret"]):
                yield Finding("credential", found.start("secret"), found.end("secret"))


def _cards(text: str) -> Iterable[Finding]:
    said = _CARD_SAID.search(text) is not None
    for found in _NUMBERS.finditer(text):
        # Other numbers may stand beside it, so each run of whole groups is tried.
        groups = [(one[0], found.start() + one.start(), found.start() + one.end()) for one in _GROUP.finditer(found[0])]
        for first in range(len(groups)):
            digits = ""
            for at, (group, _, end) in enumerate(groups[first:], first):
                digits += group
                if len(digits) > 19:
                    break
                whole = first == 0 and at == len(groups) - 1
                looks = _CARD.fullmatch(digits) and (
                    whole or _is_grouped([len(one[0]) for one in groups[first : at + 1]])
                )
                if len(digits) >= 13 and (looks or (said and whole)) and _luhn()(digits):
                    yield Finding("card", groups[first][1], end)


def _is_grouped(sizes: Sequence[int]) -> bool:
    """Whether digits are grouped as a card's are, rather than being a list of numbers that counts up."""
    return min(sizes) >= 3 or len(set(sizes)) == 1


def _ids(text: str) -> Iterable[Finding]:
    for found in _FORMATTED_SSN.finditer(text):
        yield Finding("national_id", found.start(), found.end())
    # Twenty characters are more than any id has; a text of a page is not worth trying each of its words.
    for found in _TOKEN.finditer(text):
        token = found[0]
        if 8 <= len(token) <= 24 and any(char.isdigit() for char in token) and _is_valid(_TELLING_IDS, token):
            yield Finding("national_id", found.start(), found.end())
    if _ID_SAID.search(text):
        for found in (*_DIGITS.finditer(text), *_ID_LIKE.finditer(text)):
            if _is_valid((*_TELLING_IDS, *_PLAIN_IDS), found[0]):
                yield Finding("national_id", found.start(), found.end())


def _is_valid(names: tuple[str, ...], number: str) -> bool:
    return any(module.is_valid(number) for module in _modules(names))


def _credentials(text: str) -> Iterable[Finding]:
    for plugin in _plugins():
        for secret in plugin.analyze_string(text):
            value = secret if isinstance(secret, str) else "".join(secret)
            # Some detectors return but a part of what they found, or something made of its parts.
            at = text.find(value)
            if not value or at < 0 or "PRIVATE KEY" in value:
                yield Finding("credential", max(at, 0), len(text))
            else:
                start, end = at, at + len(value)
                while start and not text[start - 1].isspace():
                    start -= 1
                while end < len(text) and not text[end].isspace():
                    end += 1
                yield Finding("credential", start, end)
    for found in re.finditer(r"[A-Za-z0-9+/=_-]{24,}", text):
        token = found[0]
        mixed = any(char.isdigit() for char in token) and any(char.isalpha() for char in token)
        if mixed and _entropy()(token) > 4.5:
            yield Finding("credential", found.start(), found.end())


_SOFT: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "address",
        re.compile(
            r"\b\d{1,5}[a-z]?,?\s+(?:[A-Z][\w'.-]*\s+){1,4}(?:street|st|avenue|ave|road|rd|lane|ln|drive|dr|"
            r"boulevard|blvd|court|ct|place|pl|square|way|terrace)\b\.?"
            r"|\b[A-Z]\w+(?:stra(?:ß|ss)e|weg|platz|gasse)\s+\d+"
            r"|[\u4e00-\u9fff]{1,10}(?:路|街|巷|弄|大道|胡同)\s*\d+\s*号?|(?<!\d)\d{1,5}\s{0,3}(?:号楼|栋|单元|室)",
            re.IGNORECASE,
        ),
    ),
    (
        "health",
        re.compile(
            r"\b(?:diagnos(?:ed|is)|cancer|tumou?r|hiv|aids|hepatitis|diabet(?:es|ic)|epilep\w+|depression|"
            r"bipolar|schizophreni\w+|ptsd|"
            r"anxiety disorder|chemotherapy|antidepressants?|pregnan(?:t|cy)|miscarriage|abortion|my "
            r"(?:medication|prescription|blood pressure|illness|disease))\b"
            r"|确诊|癌|肿瘤|艾滋|乙肝|糖尿病|癫痫|抑郁症|精神分裂|双相|化疗|怀孕|流产|病史|服用.{0,8}药",
            re.IGNORECASE,
        ),
    ),
    (
        "finance",
        re.compile(
            r"\b(?:my|our|his|her|their) (?:salary|income|net worth|debts?|mortgage|savings|bank balance|"
            r"account balance|credit score)\b|"
            r"\b(?:i|we) (?:earn|make|owe)\s+[$€£¥]?\s?\d|\biban\b|bankrupt"
            r"|(?:我的?|月|年)(?:工资|薪水|收入|存款|负债|房贷|欠款|余额)|年薪|月薪|破产",
            re.IGNORECASE,
        ),
    ),
    (
        "relationship",
        re.compile(
            r"\b(?:having an affair|an affair with|cheating on|my (?:divorce|mistress|ex-(?:wife|husband))|"
            r"getting (?:a )?divorced?|domestic (?:abuse|violence)|"
            r"sexual orientation|(?:came|come|coming) out (?:as|to))\b|外遇|出轨|离婚|情人|小三|家暴|性取向",
            re.IGNORECASE,
        ),
    ),
)


_LIVES = re.compile(
    r"\b(?:i|my|we|our|his|her|their|user'?s?|lives?|living|address|home|resid\w+|moved|deliver\w*|ship\w*)\b|我|他|她|住|家|地址|收货",
    re.IGNORECASE,
)


def _soft(text: str) -> Iterable[Finding]:
    for kind, pattern in _SOFT:
        for found in pattern.finditer(text):
            if kind == "address" and not _LIVES.search(text):
                # 666 Park Avenue is a film, until somebody lives there.
                continue
            if kind == "health" and HEALTH_IDENTITY.search(text) and not _hard_health(text):
                continue
            whole = kind != "address"
            yield Finding(kind, 0 if whole else found.start(), len(text) if whole else found.end())


def _hard_health(text: str) -> bool:
    """Whether a text with an allergy or a diet in it speaks of an illness in another sentence."""
    return any(_SOFT[1][1].search(part) and not HEALTH_IDENTITY.search(part) for part in wording.sentences(text))


def redact(text: str, findings: Iterable[Finding]) -> str:
    """Return a text with the name of its kind in place of each finding."""
    parts: list[str] = []
    at = 0
    for one in sorted(findings, key=lambda one: (one.start, -one.end)):
        if one.end <= at:
            continue
        parts += [text[at : max(at, one.start)], f"[{one.kind}]"]
        at = one.end
    return "".join([*parts, text[at:]])
