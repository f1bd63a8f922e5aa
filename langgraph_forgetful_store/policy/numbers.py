"""Numbers that a sentence says to be those of a card, an account or an id, whatever their check digits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from langgraph_forgetful_store.policy.spelled import spelled

_CARD = re.compile(
    r"(?<![A-Za-z])(?:(?:credit|debit|bank|payment|atm|prepaid|visa|master)[ -]?cards?|"
    r"cards?[ _-]?(?:numbers?|no|num|nr|#)|visa|amex|american express|mastercard)(?![A-Za-z])"
    r"|信用卡|银行卡|卡号|借记卡|储蓄卡|工资卡|我的卡",
    re.IGNORECASE,
)
_CARD_IS = re.compile(
    r"(?<![A-Za-z])(?<!business )(?<!graphics )(?<!sim )(?<!sd )cards?(?![A-Za-z])[^\d\n]{0,24}$", re.IGNORECASE
)
_REST = re.compile(
    r"(?<![A-Za-z])(?:rest|remainder|remaining(?: digits)?|other half|second half|"
    r"(?:last|first) (?:six|eight|6|8|digits))"
    r"(?![A-Za-z])[^\d\n]{0,24}$|(?:剩下|其余|后面|后半|前半|后[八四]位|前[八六]位)[^\d\n]{0,12}$",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(
    r"(?<![A-Za-z])(?:(?:bank|checking|savings|current|deposit|brokerage|giro)[ -](?:account|acct)s?|"
    r"(?:account|acct|a/c)\.?[ _-]?(?:numbers?|no|num|nr|#)|iban|routing (?:number|no))(?![A-Za-z])"
    r"|银行[账帐][号户]|(?<!微信)(?<!QQ)(?<!游戏)(?<!微博)(?<!抖音)(?<!邮箱)(?:[账帐]号|[账帐]户)|开户行",
    re.IGNORECASE,
)
_ACCOUNT_IS = re.compile(r"(?<![A-Za-z])account\s{0,3}(?:is|was|:|=|['’]s)\s{0,3}$", re.IGNORECASE)
_ID = re.compile(
    r"(?<![A-Za-z])(?:ssn|social security|national (?:id|insurance|identity)|"
    r"(?<!order )(?<!employee )(?<!student )(?<!customer )(?<!ticket )(?<!invoice )"
    r"(?:id|identity|identification)[ -](?:card|number|no)s?|"
    r"tax(?:payer)? (?:id|number|file)|passports?|driv(?:er['’]?s?|ing)['’]? licen[cs]e|"
    r"aadhaa?r|nhs number|personnummer|pesel|bsn|"
    r"cpf|tfn|itin|nino|dni)(?![A-Za-z])|护照|身份证|身分证|证件号|社保|社会保障|驾照|驾驶证|通行证|纳税人",
    re.IGNORECASE,
)
_APART = r"[\s._,/:*-]{0,3}"
_RUN = re.compile(rf"(?<![\d$€£¥])\d(?:{_APART}\d){{5,}}(?!\d)")
# A card's groups with letters that look like digits among them.
_LOOKALIKE = re.compile(r"(?<![A-Za-z\d])(?=[lIOoSB|]*\d)[\dlIOoSB|]{4}(?:[ -][\dlIOoSB|]{4}){1,4}(?![A-Za-z\d])")
_CODED = re.compile(r"(?<![A-Za-z\d])(?=[A-Z]*\d)(?=(?:[A-Z]*\d){4})[A-Z\d]{7,14}(?![A-Za-z\d])", re.IGNORECASE)
_DATE = re.compile(
    r"(?<!\d)\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d\d:\d\d(?::\d\d)?)?(?!\d)"
    r"|(?<!\d)\d{1,2}[-/.]\d{1,2}[-/.](?:19|20)\d\d(?!\d)"
    r"|(?<![\d,])\d{1,3}(?:,\d{3}){1,4}(?![\d,])|(?<!\d)(?:19|20)\d\d(?:\s?(?:-|to|until|and)\s?)(?:19|20)\d\d(?!\d)"
)
_CALLED = re.compile(
    r"(?<![A-Za-z])(?:call|phone|tel|telephone|mobile|cell|reach|text|ring|dial|whatsapp|fax)(?![A-Za-z])[^\d\n]{0,20}$"
    r"|(?:电话|手机|致电|拨打|热线|联系)[^\d\n]{0,10}$",
    re.IGNORECASE,
)
_UNIT_AFTER = re.compile(
    r"\s{0,3}(?:dollars?|euros?|users?|people|followers?|times|reasons?|miles|points|元|块|人|个|次)", re.IGNORECASE
)
_EXPIRY = re.compile(r"(?<![\d/])(?:0?[1-9]|1[0-2])\s?[/-]\s?(?:20)?\d\d(?![\d/])|(?<!\d)\d{3}(?!\d)")
# Fewer words are somebody counting, or a year.
_SPELLED = 8


def kinds(said: str, *, beside_card: bool = False) -> Iterator[str]:
    """Return what kinds of numbers a sentence names and holds.

    Args:
        said: The sentence.
        beside_card: Whether a card's number was taken out of it, whose date and code may be left.
    """
    plain = _DATE.sub(lambda found: " " * len(found[0]), said)
    runs = [(one.start(), one.end(), sum(map(str.isdigit, one[0]))) for one in _RUN.finditer(plain)]
    runs = [one for one in runs if not _CALLED.search(plain[max(0, one[0] - 40) : one[0]])]
    runs = [one for one in runs if not _UNIT_AFTER.match(plain[one[1] : one[1] + 16])]
    longest = max((size for *_, size in runs), default=0)
    card = _CARD.search(plain) is not None
    before = [plain[max(0, start - 40) : start] for start, _, size in runs if size >= 8]
    if (
        (longest >= 8 and card)
        or any(_CARD_IS.search(one) or _REST.search(one) for one in before)
        or ((card or "card" in plain.lower()) and _LOOKALIKE.search(plain))
        or (beside_card and _EXPIRY.search(plain))
        or _is_spelled(plain, named=card)
    ):
        yield "card"
    if (longest >= 8 and _ACCOUNT.search(plain)) or any(_ACCOUNT_IS.search(one) for one in before):
        yield "finance"
    if _ID.search(plain) and (longest >= 8 or _CODED.search(plain)):
        yield "national_id"


def _is_spelled(said: str, *, named: bool) -> bool:
    return any(named or not _CALLED.search(said[max(0, start - 40) : start]) for start, _ in spelled(said, _SPELLED))
