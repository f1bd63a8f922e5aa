"""Validators: national ids, card numbers and credentials that are told by their form alone."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import product
from typing import Any

from langgraph_forgetful_store.policy.findings import SensitiveSpan

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
_ID_SAID = re.compile(
    r"\b(?:ssn|social security|national (?:id|insurance|identity)|(?:id|identity) (?:card|number)|"
    r"tax(?:payer)? (?:id|number|file)|"
    r"tfn|sin|nino|bsn|cpf|aadhaa?r|pesel|personnummer|nhs number|itin|passport|rut|dni|steuer-?id|"
    r"insurance number)\b|身份证|社保|证件号|护照|纳税",
    re.IGNORECASE,
)
_FORMATTED_SSN = re.compile(r"\b(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}\b")
_ID_LIKE = re.compile(r"(?<![\w])[A-Z]{0,6}\d[A-Z\d]*(?:[ .-]?[A-Z\d]+){0,6}(?![\w])", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9]+(?:[-./][A-Za-z0-9]+)*")
_DIGITS = re.compile(r"(?<!\d)\d(?:[ .\-\u2010-\u2015]?\d){7,18}(?!\d)")
# Whatever its digits are parted by, even what can't be seen, a card's number is the same.
_APART = r"[\s._,/:*\-\u00ad\u2010-\u2015\u200b-\u200f\u2060\ufeff]{0,6}"
_UNPARTED = re.compile(r"\S+(?:\s{1,20}\S+)*")
_DATE = re.compile(r"\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{4}")
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


@cache
def _modules(names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(importlib.import_module(f"stdnum.{name}") for name in names)


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


def validated(text: str) -> Iterable[SensitiveSpan]:
    """Return the national ids, card numbers and credentials of a text, each where exactly it stands."""
    yield from _cards(text)
    yield from _ids(text)
    yield from _credentials(text)


def _cards(text: str) -> Iterable[SensitiveSpan]:
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
                    yield SensitiveSpan("card", groups[first][1], end)


def _is_grouped(sizes: Sequence[int]) -> bool:
    """Whether digits are grouped as a card's are, rather than being a list of numbers that counts up."""
    return min(sizes) >= 3 or len(set(sizes)) == 1


def _ids(text: str) -> Iterable[SensitiveSpan]:
    for found in _FORMATTED_SSN.finditer(text):
        yield SensitiveSpan("national_id", found.start(), found.end())
    # Twenty characters are more than any id has; a text of a page is not worth trying each of its words.
    for found in _TOKEN.finditer(text):
        token = found[0]
        if 8 <= len(token) <= 24 and any(char.isdigit() for char in token) and _is_valid(_TELLING_IDS, token):
            yield SensitiveSpan("national_id", found.start(), found.end())
    if _ID_SAID.search(text):
        for found in (*_DIGITS.finditer(text), *_ID_LIKE.finditer(text)):
            if _is_valid((*_TELLING_IDS, *_PLAIN_IDS), found[0]):
                yield SensitiveSpan("national_id", found.start(), found.end())


def _is_valid(names: tuple[str, ...], number: str) -> bool:
    return _DATE.fullmatch(number) is None and any(module.is_valid(number) for module in _modules(names))


def _credentials(text: str) -> Iterable[SensitiveSpan]:
    # Some detectors try all the ways to part a long gap.
    pieces = [one.span() for one in _UNPARTED.finditer(text)]
    for plugin, (begin, end) in product(_plugins(), pieces):
        for secret in plugin.analyze_string(text[begin:end]):
            value = secret if isinstance(secret, str) else "".join(secret)
            # Some detectors return but a part of what they found, or something made of its parts.
            at = text.find(value, begin)
            if not value or at < 0 or "PRIVATE KEY" in value:
                yield SensitiveSpan("credential", max(at, 0), len(text))
            else:
                start, end = at, at + len(value)
                while start and not text[start - 1].isspace():
                    start -= 1
                while end < len(text) and not text[end].isspace():
                    end += 1
                yield SensitiveSpan("credential", start, end)
    for found in re.finditer(r"[A-Za-z0-9+/=_-]{24,}", text):
        token = found[0]
        mixed = any(char.isdigit() for char in token) and any(char.isalpha() for char in token)
        if mixed and _entropy()(token) > 4.5:
            yield SensitiveSpan("credential", found.start(), found.end())
