"""What tells a fact from what only sounds like one: how its value looks, and what stands before and after it.

A false fact would take the place of a true one, so whatever is not plain is no fact.
"""

from __future__ import annotations

import re

from langgraph_forgetful_store.policy import wording
from langgraph_forgetful_store.policy.fact_patterns import COMPUTERS, DIETS, PHONES, ZH_COMPUTERS, ZH_PHONES


def _listed(*lines: str) -> frozenset[str]:
    return wording.vocabulary(*(line.lower() for line in lines))


# What the speaker says of what follows, and which leaves it as it is.
_LEADS = (
    "hi|hey|hello|there|ok|okay|well|so|and|but|also|oh|ah|yes|yeah|no|nope|actually|sorry|wait|correction|right|"
    "please|"
    "thanks|thank you|by the way|btw|in fact|to be (?:clear|honest|precise|exact)|honestly|for the record|fyi|heads up|"
    "ps|guess what|(?:un)?fortunately|luckily|sadly|apparently|seemingly|"
    "(?:good |big |great |bad )?news|(?:a |one |just a )?(?:fun|quick|small|minor|little|important)? ?(?:fact|"
    "correction|update|"
    "note|thing|reminder)|(?:just |only )?so you know|(?:just )?letting you know(?: that)?|as (?:i said|you (?:may "
    ")?know)|"
    "i (?:just )?want(?:ed)? to (?:let you know|tell you|mention|say|add|update you)(?: that)?|i (?:should|must|"
    "have to|"
    "forgot to|need to) (?:mention|say|add|tell you|correct)(?: that| this| myself)?|you should know(?: that)?|let "
    "me update "
    "you|about me|(?:some )?background|profile|answer|info(?:rmation)?|now|today|nowadays|these days|recently|lately|"
    r"currently|finally|since [\w ]{1,20}|as of [\w ]{1,20}|(?:last|this) \w+|(?:a |an |\w+ )?(?:few )?(?:days?|weeks?|"
    r"months?|years?) ago|in \d{4}|after (?:the|my|our|a) [\w ]{1,20}|(?:it )?turns out(?: that)?|it (?:seems|"
    r"appears|looks "
    r"like)(?: that)?|i (?:have )?(?:already |just )?(?:told|tell|said to) you(?: that)?|i (?:have |"
    r"'ve )?(?:just )?(?:found out|"
    r"learned|learnt|discovered|realized|realised|noticed)(?: today| yesterday| recently| that)*|i was tested|"
    r"i (?:meant|"
    "mean|misspoke)|my mistake|let me correct (?:that|this|you|it|myself)|(?:that|this)(?:'s| is| was) (?:wrong|"
    "incorrect|"
    "not (?:right|correct|true))|you(?:'re| are) wrong|you got (?:it|that|me) wrong|you misremember|not quite|i "
    "(?:think|guess|"
    "believe|suppose|am|'m)(?: that)?|maybe|perhaps|probably|possibly|(?:please )?(?:remember|note|don't forget|"
    "keep in mind|"
    "update|save|store|add|record|write down|note down)(?: (?:that|this|to memory|(?:to )?my (?:profile|memory|info|"
    "data)))*|"
    "(?:my|the|our) (?:doctor|allergist|nurse|specialist|gp)(?: (?:says|said|told me|confirmed|confirms))?(?: "
    "today)?(?: that)?|"
    r"(?:the |my |a |an )?(?:new |latest )?(?:allergy |blood |skin )?tests?(?: results?)? (?:shows?|showed|says?|said|"
    "confirms?|confirmed)(?: that)?|i'm sorry|from now on|you (?:can|may|should)|because|since|although|january|"
    "february|march|april|may|june|july|august|september|october|november|december|though|"
    "while|then|do|just"
)
_LEAD = re.compile(rf"(?:(?:{_LEADS})\b[\s:]*)*", re.IGNORECASE)
_ZH_LEAD = re.compile(
    "(?:(?:其实|对了|不对|不是|错了|哦|嗯|好的?|老实说|说实话|实话说|顺便(?:说一下)?|另外|还有|现在|目前|最近|今年|"
    "去年|上个?月|"
    "上周|昨天|今天|我?(?:已经|刚刚?|早就)?(?:跟|和|对)你说过|我告诉过你|请?记住|请?记得|你?记错了?|你错了|更正|"
    "纠正一下|因为|虽然|"
    "那么?|就是|确实|真的|我(?:觉得|想|猜)|可能|也许|大概|检查过了|医生(?:说|告诉我)|检查(?:结果)?(?:显示|说)?|"
    "从?去年(?:起|开始)?|"
    "别忘了|不要忘了|请|用户|千万|一定要|麻烦|更新一下|更新|备注|保存一下|保存|补充一下|补充|个人信息|关于我|"
    "我想说(?:的是)?|说一下|"
    "你要记住|提醒你?|以后|今后|你可以|请你|大家都?知道|好消息|通知你?|告诉你)[:：，, ]*)*"
)
_BREAK = re.compile(
    r"[,;.!?–—，；。！？、\n]|\b(?:and|so|but|then|because|since)\b|而且|但是?|所以|不过|然后|并且|因为", re.IGNORECASE
)
_UNREAL = re.compile(
    r"\b(?:dream(?:t|ed|s)?|nightmare|pretend\w*|story|song|lyrics?|poem|novel|movie|translat\w+|write|sentence|"
    r"example|"
    r"phrase|line|quotes?|quoted|jok(?:e|ed|ing)|lie|lied|yeah right|as if|hypothetically|theoretically|in theory|"
    r"almost|"
    r"nearly|would|could|never said|not (?:that|like)|good thing|subject|title|email|letter)\b|^\W*"
    r"(?:oh |yeah |yes )?sure\b|梦见|梦到|梦里|以为|翻译|歌词|差点|假装|小说|故事|句子|例如|比如|多亏|幸好|有人",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:if|suppose|supposing|imagine|assum(?:e|ing)|unless|whether|in case|wish|false|untrue|not true|"
    r"isn't true)\b|"
    r"\b(?!(?:I|ve|already|just|always|never|doctor|allergist|nurse|tests?)\b)\w+ "
    r"(?:said|says?|told|tells|claim(?:s|ed)?|thinks?|thought|wrote|believes?|heard|asked|assumed)\b|"
    r"如果|要是|假如|假设|万一|(?<![跟和对]你)(?<![我实])(?<!医生)(?<!想)说(?!实话|真的|一下)|(?:你|他|她|"
    r"们)(?:觉得|以为|认为)",
    re.IGNORECASE,
)
# What takes it back, or says that it holds for a while only.
_UNDONE = re.compile(
    r"^\s*[\"”’」』]|^\s*(?:is|was|goes)\b|\b(?:for (?:now|fun|a (?:while|bit|few|couple|day|week|weekend|month|"
    r"semester)|"
    r"the (?:week|weekend|summer|winter|moment|time being|day|holidays?|season)|(?:one|two|three|four|five|six|"
    r"several|some|"
    r"\d+) (?:days?|weeks?|months?))|temporarily|during|until|only|kidding|joking|not really|a lie|lol|ha ?ha\w*|pope|"
    r"in my dreams?|my ass|(?:and|but|then) (?:i )?(?:then )?(?:came|went|left|returned|moved|changed my mind)|"
    r"then to|came back|"
    r"but (?:i'm|i am) back|if|when|while|as a (?:child|kid|student|teenager))\b|[,;]\s*(?:said|says|claims?|"
    r"according to)\b|"
    r"[,;]\s*(?:\w+ )?\w+ (?:said|says|claims?|thinks?)\b|\bor so\b|[,;]\s*not\W*$|才怪|的时候|的话|就好了|开玩笑|"
    r"骗你的|暂时|临时",
    re.IGNORECASE,
)
# A denial that is more than this denies only some of it.
_ALL_DENIED = re.compile(
    r"\s*(?:(?:any ?(?:more|longer)|now|either|at all|after all|these days|nowadays|though|anyway|too|了|呢|吧|"
    r"啊)\b[\s,]*)*"
    r"(?:[.!。！;；\s]*$|[,;，；.。]\s*(?:(?:so|and|but|since|because|as)\s+)?(?:i|we)(?:'ve| have)?\s+(?:just |"
    r"recently )?(?:moved|"
    r"left|quit|sold|got|found|switched|changed|stopped|tested)\b.*$)",
    re.IGNORECASE | re.DOTALL,
)
_FOR_A_WHILE = re.compile(
    r"^\s*(?:this (?:week|month|weekend|summer|winter|semester)|today|tonight|these days)\b", re.IGNORECASE
)
# What has changed since is not told.
_LONG_AGO = re.compile(r"\bin (?:19|20)\d\d\b|\b(?:years|decades) ago\b|多年前|年前", re.IGNORECASE)
_CHANGE = re.compile(r"moved|relocated|switched|changed|migrated|became|become|joined|got|搬|换|改", re.IGNORECASE)
_QUOTES = re.compile(r"[\"“”「」『』]")


def is_asserted(before: str, whole: str) -> bool:
    """Whether a speaker says something of themselves, rather than supposes it or tells what others say."""
    return _SUPPOSED.search(before) is None and re.search("就好了|的话", whole) is None


def is_told(before: str, after: str, whole: str) -> bool:
    """Whether a speaker says something of themselves, and nothing around it takes it back.

    Args:
        before: What stands before it in its sentence.
        after: What stands after its value.
        whole: The sentence.
    """
    if not is_asserted(before, whole) or _UNREAL.search(before) or _UNDONE.search(after):
        return False
    return len(_QUOTES.findall(before)) % 2 == 0


def is_plain(before: str, said: str, after: str, *, denied: bool) -> bool:
    """Whether what is told is all that is said, so that it may replace what was known, or end it.

    Args:
        before: What stands before it in its sentence.
        said: The statement, up to its value.
        after: What stands after its value.
        denied: Whether it denies something.
    """
    if denied and _ALL_DENIED.fullmatch(after) is None:
        return False
    if _FOR_A_WHILE.search(after) and _CHANGE.search(said) is None:
        return False
    if _LONG_AGO.search(before + after) and _CHANGE.search(said):
        return False
    last = _BREAK.split(before)[-1].strip()
    return (_LEAD if last.isascii() else _ZH_LEAD).fullmatch(last) is not None


def is_sure(attribute: str, value: str) -> bool:
    """Whether a value is surely one of its attribute: one may call an ambulance (我叫救护车)."""
    return attribute != "name" or not _ZH.search(value) or _ZH_PERSON.fullmatch(value) is not None


def one_way(attribute: str, value: str) -> str:
    """Return a value in the one way in which it is compared."""
    return "素" if attribute == "diet" and "素" in value else value


# Beside what is known, and not in its place.
ALSO = re.compile(r"\balso\b|\btoo\b|\bas well\b|[也还](?=[住在用是叫])", re.IGNORECASE)


_CAPITAL = r"[A-Z\d][\w'’.&-]*"
_LINK = r"(?:of|de|del|della|di|la|le|les|du|da|do|dos|das|van|von|am|an|der|den|the|upon|sur|el|al|bin|ibn|&)"
_PROPER = re.compile(
    r"(?:(?:the|downtown|central|north|south|east|west|northern|southern|eastern|western|near|outside|greater|upstate|"
    rf"suburban) )*{_CAPITAL}(?:[ -](?:{_LINK}|{_CAPITAL}))*"
)
_OTHER_SCRIPT = re.compile(r"[^\x00-\x7f]")
_ZH = re.compile(r"[\u3400-\u9fff]")


def is_proper(value: str) -> bool:
    """Whether a value is written like a name: with capitals, or in a script that has none."""
    return _OTHER_SCRIPT.match(value) is not None or _PROPER.fullmatch(value) is not None


_WHEN = re.compile(r"(?:\w+day|tomorrow|today|tonight|later)\b(?! \w)", re.IGNORECASE)
# Products that one moves to, and may live in, all day.
_NO_PLACES = _listed(
    "Gmail Outlook AWS Azure GCP Slack Teams Notion Jira GitHub GitLab Bitbucket Python Java JavaScript TypeScript",
    "Rust",
    "Go Kotlin Linux Windows Mac macOS Android iOS Ubuntu Chrome Firefox Safari Edge Minecraft Roblox Fortnite",
    "Excel Word",
    "PowerPoint Discord Netflix Spotify Facebook Instagram Twitter WhatsApp Telegram Signal Zoom Dropbox Postgres",
    "PostgreSQL MySQL MongoDB Redis Valkey Kubernetes Docker Terraform React Vue Angular Django Flask FastAPI Emacs",
    "Vim",
    "VSCode Obsidian Trello Asana Monday Salesforce Shopify WordPress Figma Photoshop Kindle Vegas-style Plan Row Seat",
    "Marketing Accounting Sales Engineering Finance HR Support ChatGPT Claude Gemini Table Unit Fear Hell Peace "
    "Pain Free",
    "Verizon Vodafone T-Mobile Chase Jeans Leggings Pyjamas Sneakers VS Home Gate Team Block Building Apartment "
    "Suite First Second Third Hope Airbnbs Group Channel Server Branch",
    "Room Floor Level Phase Step Chapter Section Tier Version",
)
_NO_EMPLOYERS = _listed("Home God Gate Night Free Fun Table Room Floor Office Starbucks")
_NO_NAMES = _listed(
    "Paranoid Train Sad Happy Tired",
    "Polish Irish English French German Spanish Italian Chinese Japanese Korean Russian Greek Turkish Arabic Indian",
    "Dutch",
    "Swedish Danish Finnish Czech Hebrew Latin Portuguese Vietnamese Thai Welsh Scottish Crazy Mom Mum Dad Sir",
    "Madam Boss",
    "ASAP OK Okay Naive Uber Old-fashioned Later Tomorrow Back When If Maybe Anytime Anything Whatever",
)
_ZH_NO_PLACES = re.compile(
    "^(?:[一这那](?:个|间|座|套|栋|起|里|边)|家$|家里|新(?:家|房|公寓|地方|城市|环境|办公)|朋友|父母|[爸妈爷奶]|"
    "学校|宿舍|附近|"
    "楼[上下]|恐惧|公寓|别墅|酒店|郊区|小(?:房|屋|镇|城|村|公寓)|大房|沙发|会议|下周|云|谷歌云|宾馆|老家|市中心|男朋友|"
    "女朋友|办公|公司|对面|隔壁|"
    "[一二三四五六七八九十\\d]+[楼层号])|"
    "[的才很说想吗得们]|时候|以前|觉得|[楼层]$"
)
_ZH_CITIES = (
    "北京|上海|广州|深圳|杭州|南京|成都|重庆|武汉|西安|苏州|天津|香港|澳门|台北|台湾|青岛|厦门|长沙|郑州|宁波|东莞|"
    "佛山|合肥|"
    "大连|沈阳|济南|无锡|福州|昆明|东京|大阪|首尔|纽约|伦敦|巴黎|柏林|罗马|悉尼|新加坡|中国|美国|日本|英国|德国|"
    "法国|国外|海外"
)
_ZH_NO_EMPLOYERS = re.compile(
    f"^(?:{_ZH_CITIES})(?:市|省)?$|^(?:[一这那](?:家|个|间|所|里|边)|家$|家里|晚上|夜[里间]|早上|白天|"
    f"周[末一二三四五六日天]|"
    "外[地面]|国外|公司|办公|线上|深夜|电脑|帮|努力|认真|拼命|远程|图书馆|咖啡|疫情|想|学校$)|[每今明整]天$|"
    "[个\\d]月$|时候?$|"
    "[年期]间?$|[市省县区国州]$|"
    "[\\d想说的]|开始"
)
_ZH_NO_NAMES = re.compile(
    "^(?:[明今后]天|[早晚]|起床|[去来的不别做吃喝一回看怎什开等在下上帮写买给先再加出陪]|车$|外卖)|"
    "[几我你您他她它的个是了不很都起]|加班"
)
_ZH_JOB = re.compile(
    "[\u4e00-\u9fff]{0,8}(?:师|医生|老师|学生|员|作家|画家|专家|科学家|艺术家|歌手|助手|选手|官|队长|校长|店长|院长|"
    "处长|科长|工人|"
    "商人|军人|记者|作者|学者|编辑|经理|总监|教授|护士|律师|司机|警察|程序员|导演|演员|农民|翻译|顾问|秘书|会计)"
)
_JOB = re.compile(
    r"[\w' /&-]{0,40}?\b(?:\w+(?:er|or|ist|ian|eer|yst|man|woman|ant)|nurse|chef|cook|pilot|judge|coach|clerk|guard|"
    r"agent|vet|"
    r"doctor|lawyer|student|artist|president|[A-Z]{2,4}|assistant|professor|monk|priest|broker|baker|dentist|"
    r"surgeon|scientist|"
    r"intern|expert|tutor|mechanic|plumber|barista|librarian|paramedic|architect|athlete|diplomat|detective|therapist)"
    r"(?: (?:at|for|in) [A-Z][\w &.-]*)?",
)
_NO_JOB = re.compile(
    r"\b(?:disaster|killer|bummer|teaser|matter|player|lover|eater|sleeper|person|human|believer|member|follower|"
    r"reader|user|"
    r"beginner|newcomer|customer|fighter|dreamer|sucker|loser|winner|number|letter|corner|wonder|hater|thinker|"
    r"vegetarian|pescatarian|christian|muslim|native|mother|father|brother|sister|daughter|giant|instant|constant|"
    r"important|pleasant|foreigner|stranger|outsider|grandmother|grandfather|\w+'s|early riser|favor|color|error|"
    r"horror)\b",
    re.IGNORECASE,
)
_STYLE = re.compile(
    r"(?!.*\b(?:your|his|her|their|its|this|that|writing|life|hair|of)\b)[a-z][\w, -]* style|"
    r"(?!.*[他她你它的])[\u4e00-\u9fff]{1,8}(?<![台刮大])风格?"
)
_PHONE = re.compile(
    rf"(?:google |the )?(?:{PHONES})(?: (?:phone|\d+\w*|pro|max|plus|ultra|mini|se|xl))*|{ZH_PHONES}(?:手机|"
    rf"系统)?(?: ?\d+)?",
    re.IGNORECASE,
)
_COMPUTER = re.compile(
    rf"(?:{COMPUTERS})(?: (?:\d+|laptop|computer|pc|pro|air))*|{ZH_COMPUTERS}(?:电脑|系统)?(?: ?\d+)?", re.IGNORECASE
)
_DIET = re.compile(rf"(?:(?:strict|lifelong) )?(?:{DIETS})(?: diet)?|(?:纯|吃)?素(?:食者?|的)?", re.IGNORECASE)
_DATE = re.compile(
    r"^(?!in\b).*(?:\d|\b(?:january|february|march|april|may|june|july|august|september|october|november|december|"
    r"christmas|new year)\b|[月日号]).*",
    re.IGNORECASE | re.DOTALL,
)


def _is_place(value: str) -> bool:
    if _ZH.search(value):
        return len(value) <= 12 and _ZH_NO_PLACES.search(value) is None
    return is_proper(value) and not _WHEN.match(value) and value.split()[0].lower() not in _NO_PLACES


def _is_employer(value: str) -> bool:
    if _ZH.search(value):
        return _ZH_NO_EMPLOYERS.search(value) is None
    return is_proper(value) and not _WHEN.match(value) and value.split()[0].lower() not in _NO_EMPLOYERS


def _is_name(value: str) -> bool:
    if _ZH.search(value):
        return len(value) <= 6 and _ZH_NO_NAMES.search(value) is None
    words = value.split()
    return is_proper(value) and len(words) <= 5 and words[0].lower() not in _NO_NAMES and not _WHEN.match(value)


def _is_job(value: str) -> bool:
    if _ZH.search(value):
        return _ZH_JOB.fullmatch(value) is not None
    return _JOB.fullmatch(value) is not None and _NO_JOB.search(value) is None


def fits(attribute: str, value: str) -> bool:
    """Whether a value looks like one of its attribute."""
    if attribute == "allergy":
        return re.search("[不没]$|不再|已经|对|好像|可能|也许|大概|[是会的]", value) is None
    if attribute in _PATTERNS:
        return _PATTERNS[attribute].fullmatch(value) is not None
    return _CHECKS[attribute](value) if attribute in _CHECKS else True


_PATTERNS = {"platform": _PHONE, "computer": _COMPUTER, "style": _STYLE, "diet": _DIET, "birthday": _DATE}
_CHECKS = {
    "origin": _is_place,
    "home_city": _is_place,
    "employer": _is_employer,
    "name": _is_name,
    "occupation": _is_job,
}

# Of these one has one at a time, where the value is one of theirs; of others "my … is …" tells one property of many.
_ONE_OF_EACH = (
    (re.compile(r"(?:favou?rite|preferred|primary|main) [\w ]+"), None),
    (
        re.compile(r"(?:[\w' ]+ )?(?:phone|mobile|cell|number|phone number|zip|postal code)"),
        re.compile(r"[+\d][\d ()/.-]{2,}\d"),
    ),
    (re.compile(r"(?:[\w' ]+ )?e-?mail(?: address)?"), re.compile(r"\S+@\S+")),
    (re.compile(r"(?:[\w' ]+ )?(?:height|weight|age|size|budget|salary)"), re.compile(r".*\d.*")),
    (re.compile(r"(?:[\w' ]+ )?(?:deadline|birthday)"), re.compile(r".*\d.*|\w+day", re.IGNORECASE)),
    (
        re.compile(
            r"(?:[\w' ]+ )?(?:name|nickname|home ?town|nationality|religion|(?:native )?language|mother tongue)"
        ),
        _PROPER,
    ),
    (re.compile(r"(?:[\w' ]+ )?(?:user ?name|time ?zone|blood type)"), re.compile(r"[\w+/:.@-]{1,40}")),
    (re.compile(r"(?:[\w' ]+ )?goals?"), re.compile(r"to \w.*")),
    (
        re.compile(r"(?:[\w' ]+ )?(?:major|degree|title)"),
        re.compile(r"(?:an? )?[A-Z]?\w+(?: (?:of|in|and|&|[A-Z]?\w+)){0,4}"),
    ),
)
_PRAISE = re.compile(
    r"^(?:too|so|very|really|quite|rather|pretty|still|not|no|hard|easy|difficult|great|good|bad|nice|awful|useless|"
    r"useful|secret|"
    r"private|tight|limited|unclear|clear|long|short|stressful|boring|important|public|empty|full|average|fine|"
    r"broken|dead|a "
    r"(?:problem|secret|joke|nightmare|mess|lot|pain|disaster|mystery)|approaching|coming|due|unknown|missing|wrong)\b",
    re.IGNORECASE,
)
_SEVERAL = _listed(
    "friend friends sister brother sibling son daughter child children kid kids cat dog pet horse cousin uncle aunt",
    "colleague coworker neighbor neighbour roommate flatmate nephew niece grandson granddaughter hobby hobbies problem",
    "code query variable answer question",
)
_ZH_ONE_OF_EACH = (
    (
        re.compile("最(?:喜欢|爱)的.*|昵称|用户名|血型|时区|国籍|学历|母语|专业|家乡|老家"),
        re.compile("(?!很|太|满|真|不|没|有点).{1,12}"),
    ),
    (re.compile(".*(?:号码?|电话|手机)"), re.compile(r"[+\d][\d -]{2,}\d")),
    (re.compile(".*(?:邮箱|邮件)"), re.compile(r"\S+@\S+")),
    (re.compile("身高|体重|年龄|.*地址|生日"), re.compile(r".*[\d一二三四五六七八九十号路].*")),
)
_ZH_ONE_PERSON = re.compile("(?:老板|经理|导师|老公|老婆|丈夫|妻子|太太|女朋友|男朋友|班主任|医生)")
_ZH_PERSON = re.compile(
    "(?:[小老阿大][\u4e00-\u9fff]|"
    "[王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢"
    "姜崔钟谭陆汪范金石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严][\u4e00-\u9fff]{1,2})"
)


def excludes_others(attribute: str, value: str) -> bool:
    """Whether "my … is …" names what one has one of, so that another value takes its place."""
    if _PRAISE.match(value) or value.endswith("的"):
        return False
    if _ZH.search(attribute):
        if _ZH_ONE_PERSON.fullmatch(attribute):
            return _ZH_PERSON.fullmatch(value) is not None
        return any(name.fullmatch(attribute) and like.fullmatch(value) for name, like in _ZH_ONE_OF_EACH)
    plain = attribute.lower().strip()
    for name, like in _ONE_OF_EACH:
        if name.fullmatch(plain):
            return like is None or like.fullmatch(value) is not None
    bare = re.sub(r"^an? ", "", value)
    last = plain.split()[-1]
    return last not in _SEVERAL and not last.endswith("ing") and is_proper(bare) and bare.lower() not in _NO_NAMES
