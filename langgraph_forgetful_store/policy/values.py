"""What may be the value of a secret that a sentence names: letters and digits mixed, a number, or something quoted."""

from __future__ import annotations

import re

from langgraph_forgetful_store.policy.spelled import spelled

# What holds digits, and says when, how much or where.
_PLACES = re.compile(
    r"https?://\S+|www\.\S+|(?<!\S)[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{2,20}){1,4}"
    r"|(?<!\d)\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:T\d\d:\d\d\S*)?(?!\d)|(?<!\d)\d{1,2}[-/.]\d{1,2}[-/.](?:19|20)\d\d(?!\d)"
    r"|(?<!\d)\d{4}年|(?<!\d)\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?(?!\d)"
    r"|[$€£¥]\s?\d[\d,.]*|(?<![\d,.])\d{1,3}(?:,\d{3}){1,4}(?![\d,])",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[A-Za-z0-9@#$%^&*_+~.!/\\|-]{4,}")
_EDGE = ".!?,;:/\\|-*_~"
_HARMLESS = re.compile(
    r"\d+(?:st|nd|rd|th|s|am|pm|h|hrs?|min|mins|ms|sec|kb|mb|gb|tb|kg|km|cm|mm|px|x|k|m|-?bits?|-?bytes?|-?chars?|"
    r"-?characters?|-?digits?|-?letters?|-?days?|-?months?|-?years?|-?hours?|-?minutes?|-?times?|-?factor|-?words?|"
    r"eur|usd|gbp|cny|rmb)"
    r"|(?:sha|md|utf|base|ipv|oauth|http|aes|rsa|tls|win|windows|ios|iphone|ipad|android|python|py|web|bcrypt|argon|"
    r"pbkdf|log|fips|iso|rfc|wpa|mp|covid|room|gate|error|version|v|q|h|x)[-_]?\d[\d.]*[a-z]?"
    r"|1password|(?:two|2)-?fa|[a-z]+-(?:19|20)\d\d",
    re.IGNORECASE,
)
_SYMBOLS = re.compile(r"[A-Za-z][@#$%^*+~!|]+[A-Za-z0-9]|[@#$%^*~!|][A-Za-z]+[@#$%^*~!|]")
_UNIT = (
    r"(?:characters?|chars?|letters?|digits?|symbols?|words?|bits?|bytes?|times?|days?|weeks?|months?|years?|hours?|"
    r"hrs?|minutes?|mins?|seconds?|secs?|users?|people|persons?|accounts?|sites?|websites?|attempts?|tries|guesses|"
    r"dollars?|euros?|pounds?|bucks|yuan|employees?|customers?|passwords?|pins?|tokens?|keys?|entries|logins?|devices?|"
    r"servers?|stores?|rounds?|iterations?|km|miles?|meters?|metres?|kg|percent|pages?|lines?|items?|rows?|files?|"
    r"million|billion|thousand|of\b)"
)
_NUMBER = re.compile(
    rf"(?<![A-Za-z0-9$€£¥.#])(?<!\d,)\d{{3,}}(?![A-Za-z0-9%]|[.,:]\d|[ -]{{0,2}}{_UNIT}(?![A-Za-z])|"
    r"\s?[个位次天年月人元块字岁条家台种秒页行万亿千百])",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"(?:error|port|line|page|room|issue|ticket|rfc|iso|nist|version|chapter|section|highway|route|bug|step|article|"
    r"status|http|windows|year|in|since|from|until|by|before|after|around|over|than|about|at least|端口|错误|房间|第)"
    r"\s{0,3}$",
    re.IGNORECASE,
)
_LOOSE = re.compile(r"(?:in|since|from|until|by|before|after|around|over|than|about|at least)\s{0,3}$", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d\d")
_QUOTED = re.compile(
    r"(?<![\w{\[,:])(?:\"[^\"]{3,100}\"|'[^'\n]{3,100}'(?!\w)|`[^`]{3,100}`)(?!\s{0,3}[:\]}])"
    r"|“[^”]{2,100}”|‘[^’]{3,100}’(?!\w)|「[^」]{2,100}」|『[^』]{2,100}』"
)


def bare(value: str) -> str:
    """Return a word in lower case without what stands around it."""
    return value.strip("\"'“”‘’`()[]{}<>.,;:!?*").lower()


def holds_value(said: str, noun: re.Pattern[str]) -> bool:
    """Whether a sentence that names a secret holds something that may be it."""
    plain = _PLACES.sub(lambda found: " " * len(found[0]), said)
    if any(_is_mixed(found[0]) for found in _TOKEN.finditer(plain)):
        return True
    if any(_may_be(plain, found) for found in _NUMBER.finditer(plain)):
        return True
    if any(not noun.search(found[0]) for found in _QUOTED.finditer(plain)):
        return True
    return next(iter(spelled(plain, 4)), None) is not None


def looks_secret(value: str, *, long: bool = False) -> bool:
    """Whether a single word may be a secret: mixed, or, unless it has to be long, a number that is no year."""
    plain = _PLACES.sub(lambda found: " " * len(found[0]), value)
    if any(_is_mixed(found[0]) for found in _TOKEN.finditer(plain)):
        return True
    number = re.fullmatch(r"\d{3,}", bare(plain))
    return number is not None and not long and _YEAR.fullmatch(number[0]) is None


def _is_mixed(token: str) -> bool:
    value = token.strip(_EDGE)
    if len(value) < 4 or _HARMLESS.fullmatch(value):
        return False
    if not any(char.isalpha() for char in value):
        return False
    return any(char.isdigit() for char in value) or _SYMBOLS.search(value) is not None


def _may_be(said: str, found: re.Match[str]) -> bool:
    before = said[max(0, found.start() - 12) : found.start()]
    year = _YEAR.fullmatch(found[0]) is not None
    return not (year or (_COUNTED.search(before) and not _LOOSE.search(before)))
