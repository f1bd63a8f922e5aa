"""Screening: national ids, card numbers, credentials and other things that a memory should not hold unasked."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterable

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy import wording
from langgraph_forgetful_store.policy.classify import HEALTH_IDENTITY
from langgraph_forgetful_store.policy.extras import is_missing
from langgraph_forgetful_store.policy.findings import SensitiveSpan
from langgraph_forgetful_store.policy.folding import fold
from langgraph_forgetful_store.policy.secrets import named
from langgraph_forgetful_store.policy.validated import validated

INSTALL = "install langgraph-forgetful-store[screening]"


class ScreeningIncomplete(UserWarning):
    """National ids, card numbers and credentials can't be recognised, as the extra ``screening`` is missing."""


def has_validators() -> bool:
    """Whether the extra ``screening`` is installed."""
    try:
        importlib.import_module("stdnum.luhn")
        importlib.import_module("detect_secrets.plugins.aws")
    except ImportError as error:
        if not is_missing(error, "stdnum", "detect_secrets"):
            raise
        return False
    return True


warned: set[str] = set()


def warn_if_incomplete() -> None:
    """Warn, once a process, where screening can't see what it should; load the validators where it can.

    Loading reads files, which must not happen on an event loop later on.
    """
    if has_validators():
        find_sensitive(f"id number {' '.join(_SAMPLE_IDS)}")
    elif not warned:
        warned.add("incomplete")
        warnings.warn(
            f"screening can't recognise national ids, card numbers and credentials: {INSTALL}; until then only "
            "what extractors label or a sentence names, addresses and the like are held back",
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


# Long texts are looked at in parts, so that no pattern takes more than its time; none of what is found is longer than
# what the parts have in common, but a private key, of which every part is one.
_WINDOW, _OVERLAP = 4000, 500
# Checking these reads the tables of regions.
_SAMPLE_IDS = ("11010519491231002X", "770305-02-1234")


def find_sensitive(text: str) -> list[SensitiveSpan]:
    """Return what is sensitive in a text.

    Validators find national ids, card numbers and credentials, where the extra ``screening`` is installed. Patterns
    find secrets and numbers that a sentence names, precise addresses, health, money and private relationships.
    Allergies, intolerances and diets are none of it.

    Args:
        text: The text to look at.

    Returns:
        What was found, in the order of the text.
    """
    validates = has_validators()
    found: set[SensitiveSpan] = set()
    for folded in fold(text):
        for at in range(0, max(1, len(folded.text) - _OVERLAP), _WINDOW - _OVERLAP):
            part = folded.text[at : at + _WINDOW]
            found |= {
                SensitiveSpan(one.kind, *folded.span(one.start + at, one.end + at))
                for one in _screened(part, validates)
            }
    return sorted(found, key=lambda one: (one.start, one.end, one.kind))


def _screened(text: str, validates: bool) -> Iterable[SensitiveSpan]:
    yield from _soft(text)
    exact = list(validated(text)) if validates else []
    yield from exact
    yield from named(text, exact)


_SOFT: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "address",
        re.compile(
            r"\b\d{1,5}[a-z]?,?\s+(?:(?!(?:on|in|my|your|our|his|her|their|along|by|every)\s)[A-Z][\w'.-]*\s+){1,4}(?:street|st|avenue|ave|road|rd|lane|ln|drive|dr|"
            r"boulevard|blvd|court|ct|place|pl|square|way|terrace)\b\.?"
            r"|\b[A-Z][\w-]{0,40}?(?:stra(?:ß|ss)e|str\.?|weg|platz|gasse|allee|straat|gatan|vej)\s+\d+"
            r"|\b(?:via|viale|piazza|calle|avenida|rua|ulica|ul\.)\s(?:[A-Z][\w'.-]*\s|d\w{1,3}\s){1,4}\d+"
            r"|\b\d{1,4},?\s(?:bis\s)?(?:rue|avenue|boulevard|place|allée|chemin)\s(?:d\w{1,2}\s|d['’])?[A-Z]"
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


def _soft(text: str) -> Iterable[SensitiveSpan]:
    for kind, pattern in _SOFT:
        for found in pattern.finditer(text):
            if kind == "address" and not _LIVES.search(text):
                # 666 Park Avenue is a film, until somebody lives there.
                continue
            if kind == "health" and HEALTH_IDENTITY.search(text) and not _hard_health(text):
                continue
            whole = kind != "address"
            yield SensitiveSpan(kind, 0 if whole else found.start(), len(text) if whole else found.end())


def _hard_health(text: str) -> bool:
    """Whether a text with an allergy or a diet in it speaks of an illness in another sentence."""
    return any(_SOFT[1][1].search(part) and not HEALTH_IDENTITY.search(part) for part in wording.sentences(text))
