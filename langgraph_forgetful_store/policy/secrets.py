"""What a sentence names: secrets by their nouns, and numbers said to be those of a card, an account or an id.

A secret looks like nothing in particular, so it is not looked for where it might stand: the whole sentence is found,
as soon as it names a secret and holds something that may be its value. In doubt it is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from langgraph_forgetful_store.policy import clauses, numbers, values
from langgraph_forgetful_store.policy.findings import SensitiveSpan
from langgraph_forgetful_store.policy.wording import vocabulary

# Something else is spoken of: "password manager", "密码学".
_NO_COMPOUND = (
    r"(?![ -](?:manage\w*|polic(?:y|ies)|rules?|requirements?|fields?|box|prompt|page|form|hygiene|strength|security|"
    r"generat\w+|protect\w*|shar(?:ing|ed)|expir\w+|rotation|hints?|vault|apps?|tools?|books?|crack\w+|based|less|"
    r"free|length|authentication|complexity|audit\w*|spray\w*|reuse|leaks?|breach\w*|check\w*|storage|store|"
    r"to (?:happiness|success|a|good|great|life))\b)"
)
_STRONG = (
    r"(?:p[a4@][s5$]{1,2}w?[o0]?r?d(?<=[wr]d|od)|pass[ _-]?(?:word|phrase|code)|passwd|passwort|pwd|pw|"
    r"cvv2?|cvc2?|cvn2?|card verification (?:value|code)|"
    r"(?:security|verification|recovery|reset|backup|access|login|sign-?in|entry|door|gate|alarm|safe|lock|unlock|"
    r"auth|authentication|authorization|one[ -]time|2fa|mfa|sms|otp|activation|invite)[ _-]code|otp|"
    r"(?:api|secret|private|access|encryption|signing|ssh|license|licence|client|master|service|account)[ _-]?"
    r"(?:key|secret)|(?:api|auth|authentication|access|refresh|session|bot|personal access|bearer)[ _-]?token|"
    r"client[ _-]secret|security (?:answer|question)|code (?:for|to|of) (?:the|my|our) "
    r"(?:front door|door|gate|alarm|safe|lock|house|garage|building|phone|luggage|locker))"
)
_NOUN = rf"(?<![A-Za-z]){_STRONG}(?:s|es)?(?![A-Za-z]){_NO_COMPOUND}"
_COUNTED_NOUN = _NOUN.replace("(?:s|es)?", "(?P<many>s|es)?")
_ONE_NOUN = _NOUN.replace("(?:s|es)?", "")
_ZH_NOUN = (
    r"(?<!达芬奇)(?<!达·芬奇)(?<!遗传)(?<!基因)(?<!生命)(?<!摩斯)(?<!莫尔斯)"
    r"(?:密码|口令|密钥|秘钥|验证码|校验码|动态码|安全码|支付码|解锁码|开锁码|门禁码|取件码|激活码|恢复码|私钥|"
    r"助记词|PIN码)(?!管理|学|本(?!身)|箱|保护|政策|策略|规则|强度|长度|要求|输入|框|页|错误|技术)"
)
_ANY_NOUN = re.compile(rf"{_NOUN}|{_ZH_NOUN}|(?<![A-Za-z])credentials?(?![A-Za-z])", re.IGNORECASE)
_WEAK_HINT = re.compile(r"pin|pass|key|token|bearer|authori[sz]ation|phrase|words|mnemonic|助记词|sk-", re.IGNORECASE)

_LINK = (
    r"(?:\s{0,5}[\"'”’`*]{0,2}\s{0,3}(?:[:=]|=>|->)\s{0,5}|['’]s\s{1,5}|"
    r"\s{1,5}(?:(?:is|are|was|were|be|been|remains?|equals?|becomes?|became|reads?|has|have|will|would|should|got|gets?|"
    r"now|just|recently|today|yesterday)\s{1,5}){0,4}"
    r"(?:is|are|was|were|be|remains?|equals?|becomes?|became|reads?|"
    r"(?:set|changed|reset|updated|switched|called)\s{1,5}(?:to|as|into))[ :]{0,2}\s{0,5})"
)
_ADVERBS = (
    r"(?:(?:now|still|currently|just|actually|really|simply|always|probably|again|also|only|basically|literally|"
    r"exactly|indeed|set to|changed to|called)[\s:]{1,5}){0,3}"
)
_QUOTE = r"[\"'“‘`(\[*]{0,2}"
_FOR = (
    r"(?:\s{1,5}(?:for|to|of|on|at|in)\s{1,5}[\w .'’&@-]{1,40}?|"
    r"\s{1,5}(?:(?:that|which)\s)?(?:i|we|he|she|they|you)\s[\w ]{1,30}?)?"
)
_LINKED = re.compile(
    rf"(?P<whose>(?:my|our)\s(?:\w+\s)?)?{_COUNTED_NOUN}{_FOR}(?P<link>{_LINK}){_ADVERBS}{_QUOTE}"
    r"(?P<value>[^\s\"'”]{3,64}|\d+|"
    r"(?:a|an|my|on|in|to|no|ok|up|by|of|so|at|as|it)\b)(?P<more>(?:\s{1,3}[a-z]+){0,8})",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"(?<!\S)(?P<value>[^\s,;:]{3,64})\s{1,3}(?:is|was|are|=)\s{1,3}(?:(?:my|our|the|his|her|their|your|user['’]s)\s{1,3})"
    rf"(?:[\w'’-]{{1,20}}\s{{1,3}}){{0,3}}?{_NOUN}(?=\s*(?:[.,;!]|$|for\b|now\b|and\b|to\b|on\b))"
    r"|(?<!\S)(?:with|use|uses|using|used|enter|entered|type|typed|try|tried)\s{1,3}"
    r"(?P<as>[^\s,;:]{3,64})\s{1,3}(?:as|for)\s{1,3}"
    rf"(?:(?:my|our|the|a|your|his|her|their)\s{{1,3}})?(?:[\w'’-]{{1,20}}\s{{1,3}}){{0,2}}?{_NOUN}",
    re.IGNORECASE,
)
_CHANGED = re.compile(
    rf"(?:chang|updat|reset|switch|set)\w{{0,4}}\s{{1,3}}(?:[\w'’-]{{1,20}}\s{{1,3}}){{0,4}}?{_NOUN}{_FOR}\s{{1,3}}"
    r"(?:(?:back\s)?(?:to|as)\s{1,3}(?P<to>[^\s,;:]{3,64})(?=\s*(?:[.,;!]|$|and\b|today\b|yesterday\b|now\b|last\b))|"
    r"from\s{1,3}(?P<from>[^\s,;:]{3,64})\s{1,3}to\s)",
    re.IGNORECASE,
)
_BESIDE = re.compile(
    rf"(?:with|use|uses|using|used|enter|type)\s{{1,3}}(?:(?:my|our|the|his|her)\s{{1,3}})?(?:[\w'’-]{{1,20}}\s{{1,3}})?{_ONE_NOUN}\s{{1,3}}"
    r"(?P<value>[^\s,;:]{3,64})"
    rf"|(?:^|:\s{{1,5}})(?:(?:my|our|the)\s{{1,3}})?(?:[\w'’-]{{1,20}}\s{{1,3}})?{_ONE_NOUN}\s{{1,3}}(?P<only>[^\s,;:]{{3,64}})$",
    re.IGNORECASE,
)
# With one of these begins what is said of a secret, rather than the secret.
_TOLD = vocabulary(
    "not never no a an the in on at to of for from by with under over about above below behind inside within into as "
    "if when while until since because after before once and or but than then so up it its",
    "what which who whom whose where why how that this these those there here it he she they we you i something "
    "anything nothing everything someone anyone everyone",
    "safe unsafe secure insecure strong stronger weak weaker wrong right correct incorrect valid invalid expired "
    "required missing mandatory optional needed necessary too very pretty quite rather extremely incredibly stupidly "
    "super way more most less least all both same different similar identical new newer old older long longer short "
    "shorter great good better bad worse fine okay easy easier hard harder simple simpler complicated complex unique "
    "random shared saved known unknown hidden secret public common default blank empty case-sensitive case lost gone "
    "stolen leaked compromised forgotten hacked broken working outdated stale due going getting being having stored "
    "written kept handled managed generated created sent set reset changed updated rotated encrypted hashed salted "
    "masked rejected accepted refused denied blocked locked disabled enabled revoked checked verified printed shown "
    "displayed given asked used reused useless important sensitive confidential personal private ready temporary "
    "permanent impossible annoying confusing tricky tough awful terrible horrible boring funny silly "
    "ridiculous already yet almost nearly often sometimes usually generally normally typically maybe perhaps "
    "supposed meant made based limited allowed considered yours mine ours likely unlikely able unable up-to-date out",
    "time home scratch memory please help thanks again today yesterday now soon later provided works worked "
    "fails failed expires doesn't didn't can't won't isn't wasn't must should will would can could may might has had "
    "does did only every each wherever everywhere anywhere trouble problem problems issue issues questions",
)
_TOLD_BEFORE = vocabulary(
    "what which who this that these those it here there where how why when everything nothing something anything such "
    "whatever one and or but them him her"
)
_HOW_LONG = re.compile(
    r"(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen)\s(?:digits?|characters?|chars?|letters?|words?|"
    r"numbers?|symbols?|bits?|days?|months?|years?|times?|minutes?|hours?)(?![a-z])"
)
_IS_THE = re.compile(
    r"\s(?:word|phrase|string|number|name|combination|date|year|digits|letters|title|first|last)", re.I
)
_ZH_LINKED = re.compile(
    rf"{_ZH_NOUN}(?:现在|目前|已经|刚刚?|刚才|还|仍然?|依然|就|都|也|又|一直|被我?|我|给|已|今天|最近|已被|号){{0,4}}\s{{0,3}}"
    r"(?:是|为|叫|等于|(?:更改|修改|改|换|设置|设|变|更新|重置|重设|定|写|调)(?:成|为|到|作|回)|[:：=])(?:了|我的)?\s{0,3}[“\"'‘「『]?"
    r"(?P<value>[^\s，。！？,!?]{2,})",
    re.IGNORECASE,
)
_ZH_BEFORE = re.compile(
    r"(?P<value>[^\s，。！？,!?]{2,20}?)(?:就|才|都)?(?:是|为)(?:我|咱|他|她|用户|家)们?的?[^，。！？,!?]{0,6}"
    rf"{_ZH_NOUN}\s*(?:$|[，。！；,!;])|(?:用|拿|以)(?P<as>[^\s，。！？,!?]{{2,20}}?)(?:作为|当作|当成|当|做|作)(?:我|他|她)?的?.{{0,4}}{_ZH_NOUN}"
)
_ZH_TOLD = re.compile(
    r"什么|怎么|不[对是能会用行好安够同]|对的?|错|多少|几|哪|谁|否|必须|必填|需要|需|应该|安全|很|太|最|非常|比较|正确|无效|有效|过期|失效|一样|"
    r"相同|为了|用来|用于|由|在|随机|默认|空|弱|强|简单|复杂|一[串个种组样]|这|那|保密|加密|唯一|共享|通用|同一|自动|系统|别人|新的|旧的|"
    r"\d{1,3}[位个]|以前|原来|临时|永久|大小写|区分|没|有|可以|要|能|会"
)
_ZH_TOLD_BEFORE = re.compile(r"(?:这|那|它|什么|哪个|下面|以下|上面|这个|那个|这里|那里|哪一个|谁|不|这才)$")

_PHRASE = re.compile(
    r"(?<![A-Za-z])(?:(?:recovery|seed|mnemonic|backup|secret|wallet)[ _-](?:phrase|words?)|mnemonic)(?![A-Za-z])"
    r"(?:(?:\s{0,3}(?:[:=]|->)|\s{1,3}(?:is|are|was|reads))\s{0,3}[\"'“]?(?P<linked>[^\s\"'”]{3,})|"
    r"\s{0,3}[-,(]?\s{0,3}(?P<bare>(?:[a-z]{3,8}[\s,]{1,2}){4,}[a-z]{3,8}))"
    r"|助记词[^\w]{0,3}(?:[\u4e00-\u9fff]{1,3}[\s,，、]{1,2}){3,}",
    re.IGNORECASE,
)
_FUNCTION = vocabulary(
    "the and for with has have had was were are can could should would must will shall may might helps help lets "
    "that this these those from into onto your you our their his her its she they who what when where why how not "
    "never always only also than then but because before after about over under without within any all each every "
    "does did been being them there here let get got needs need make makes to too of on in at a an is it so as by or "
    "if my me we i again today now still enough yesterday even really just very more most"
)
_OWN = r"(?<![A-Za-z])(?:my|our|the|his|her|user|login|wi-?fi|e-?mail|phone|bank)\s{1,3}"
_PIN_NUMBER = r"(?:\d(?:[ -]?\d){2,11}(?![\d-]))"
_PIN = re.compile(
    rf"(?<![A-Za-z-])pin(?:[ _-](?:codes?|numbers?|no\.?))?(?![A-Za-z]){_FOR}"
    rf"(?:{_LINK}{_ADVERBS}|\s{{0,3}}[#,(-]?\s{{0,3}}){_QUOTE}{_PIN_NUMBER}"
    rf"|(?<!\d){_PIN_NUMBER}\s{{1,3}}(?:is|was|as|for)\s{{1,3}}(?:[\w'’-]{{1,20}}\s{{1,3}}){{0,4}}?pin(?![A-Za-z])",
    re.IGNORECASE,
)
_OWN_PIN = re.compile(
    r"(?:(?<![A-Za-z])(?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Uu]ser)\s(?:\w{1,20}\s){0,2}pin|(?<![A-Za-z])PIN)(?![A-Za-z])"
)
_PASS_HINT = re.compile(
    rf"{_OWN}pass(?:{_LINK}{_ADVERBS}|\s{{1,3}}){_QUOTE}(?P<value>\S{{4,}})"
    r"|(?<![A-Za-z])pass\s{0,3}[:=]\s{0,3}(?P<after>\S{3,})"
    r"|(?<!\S)(?P<before>\S{4,64})\s{1,3}(?:is|was|as)\s{1,3}(?:my|the|our)\s{1,3}pass(?![A-Za-z])",
    re.IGNORECASE,
)
_KEY = re.compile(
    rf"(?<![A-Za-z])keys?(?:{_LINK}{_ADVERBS}|\s{{1,3}}){_QUOTE}(?P<value>[^\s\"'”]{{8,}})|(?<![A-Za-z])(?:sk|pk|rk)-(?:\S{{3,}}|$)"
    r"|(?<!\S)(?P<before>\S{8,64})\s{1,3}(?:is|was|as)\s{1,3}(?:my|the|our)\s{1,3}(?:\w{1,20}\s){0,2}key(?![A-Za-z])",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    rf"(?<![A-Za-z])(?<!max[ _])token(?![A-Za-z]){_FOR}(?:{_LINK}{_ADVERBS}|\s{{1,3}}){_QUOTE}"
    r"(?P<value>[^\s\"'”]{4,})"
    r"|(?<!\S)(?P<before>\S{6,64})\s{1,3}(?:is|was|as)\s{1,3}(?:my|the|our)\s{1,3}(?:\w{1,20}\s){0,2}token(?![A-Za-z])",
    re.IGNORECASE,
)
_TOKEN_SET = re.compile(r"(?<![A-Za-z])(?<!max[ _])token\s{0,3}[:=]\s{0,3}(?P<value>[^\s\"'”]{8,})", re.IGNORECASE)
_BEARER = re.compile(
    r"(?<![A-Za-z])(?:bearer\s{1,3}(?=\S*\d)[\w.~+/=-]{8,}|bearer\s{1,3}[\w.~+/=-]{20,}|authori[sz]ation\s{0,3}[:=]\s{0,3}\S{3,})",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"\s*(?:(?:it|that)(?:['’]s|\s(?:is|was))\s{1,3}|is\s|就?是)?[\"'“‘`]?(?P<value>[^\s\"'”]{3,64})[\"'”’`]?\s*",
    re.IGNORECASE,
)


# These words are mostly used of something else, so a value has to look like one.
_ACCESS = re.compile(
    r"(?<![A-Za-z])(?:log-?in|sign-?in|wi-?fi|combination|unlock pattern)"
    r"(?:\s(?:is|was)\s|\s?[:=]\s?)(?P<rest>.{1,200})",
    re.IGNORECASE,
)
_GROUPS = re.compile(r"\d{1,4}(?:-\d{1,4}){1,4}")


def named(text: str, exact: Sequence[SensitiveSpan] = ()) -> Iterator[SensitiveSpan]:
    """Return the sentences that name a secret, or a card's, an account's or an id's number, and hold it.

    Args:
        text: In plain characters.
        exact: What is found already: it can be taken out where it stands, if a sentence holds nothing else.
    """
    plain = _without(text, exact)
    places = list(clauses.spans(plain))
    for at, (start, end) in enumerate(places):
        said = plain[start:end]
        following = places[at + 1] if at + 1 < len(places) else None
        if _tells_secret(said):
            yield SensitiveSpan("credential", start, end)
        elif following is not None and _ANY_NOUN.search(said) and _goes_on(said, plain[slice(*following)]):
            yield SensitiveSpan("credential", start, following[1])
        beside = any(one.kind == "card" and start <= one.start < end for one in exact)
        for kind in numbers.kinds(said, beside_card=beside):
            yield SensitiveSpan(kind, start, end)


def _without(text: str, exact: Iterable[SensitiveSpan]) -> str:
    for one in exact:
        text = text[: one.start] + " " * (one.end - one.start) + text[one.end :]
    return text


def _goes_on(said: str, following: str) -> bool:
    """Whether a sentence that names a secret is followed by nothing but the secret."""
    if said.rstrip()[-1] in ":=：":
        return _tells_secret(f"{said} {following}")
    bare = _BARE.fullmatch(following)
    return bare is not None and values.looks_secret(bare["value"])


def _tells_secret(said: str) -> bool:
    noun = _ANY_NOUN.search(said)
    if noun is not None and (values.holds_value(said, _ANY_NOUN) or _is_linked(said)):
        return True
    for found in _ACCESS.finditer(said):
        words = [values.bare(word) for word in re.split(r"[\s,/]+", found["rest"])]
        if any(values.looks_secret(word) or _GROUPS.fullmatch(word) for word in words):
            return True
    return _WEAK_HINT.search(said) is not None and _is_weakly_linked(said)


def _is_linked(said: str) -> bool:
    for found in _LINKED.finditer(said):
        value = values.bare(found["value"])
        # "Passwords are evil" speaks of all of them.
        if found["many"] and not found["whose"] and ":" not in found["link"] and "=" not in found["link"]:
            continue
        more = found["more"].lower()
        if _HOW_LONG.match(f"{value} {more.strip()}"):
            continue
        if not _is_told(value) or (value in ("the", "a", "an") and _IS_THE.match(more)):
            return True
        # "Correct horse battery staple" is said of nothing.
        words = [value, *more.split()]
        if len(words) >= 4 and not any(word in _FUNCTION for word in words):
            return True
    before = ((one["value"] or one["as"]) for one in _BEFORE.finditer(said))
    if any(values.bare(value) not in _TOLD_BEFORE and not _is_told(values.bare(value)) for value in before):
        return True
    if any(not _is_told(values.bare(one["value"] or one["only"])) for one in _BESIDE.finditer(said)):
        return True
    if any(not _is_told(values.bare(one["to"] or one["from"])) for one in _CHANGED.finditer(said)):
        return True
    if any(not _ZH_TOLD.match(one["value"]) for one in _ZH_LINKED.finditer(said)):
        return True
    return any(not _ZH_TOLD_BEFORE.search(one["value"] or one["as"]) for one in _ZH_BEFORE.finditer(said))


def _is_told(value: str) -> bool:
    return not value or value in _TOLD or re.fullmatch(r"[a-z]+(?:able|ible|less)", value) is not None


def _is_weakly_linked(said: str) -> bool:
    """Whether a secret follows a noun that has other meanings too."""
    if _BEARER.search(said) or _PIN.search(said):
        return True
    pin = _OWN_PIN.search(said)
    if pin is not None and values.holds_value(said[pin.end() : pin.end() + 80], _ANY_NOUN):
        return True
    if any(not _is_told(values.bare(one["value"])) for one in _TOKEN_SET.finditer(said)):
        return True
    for pattern, least in ((_PASS_HINT, 4), (_KEY, 8), (_TOKEN, 4)):
        for found in pattern.finditer(said):
            given = found.groupdict()
            value = given.get("value") or given.get("before")
            if value is None:
                after = given.get("after")
                if after is None or not _is_told(values.bare(after)):
                    return True
            elif len(value) >= least and values.looks_secret(value, long=least == 8):
                return True
    return any(
        not _is_told(values.bare(one["linked"]))
        if one["linked"]
        else one["bare"] is None or not any(word in _FUNCTION for word in re.split(r"[\s,]+", one["bare"].lower()))
        for one in _PHRASE.finditer(said)
    )
