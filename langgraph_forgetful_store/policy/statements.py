"""What sentences say of anything, and not of their speaker."""

from __future__ import annotations

import re

from langgraph_forgetful_store.policy import rules
from langgraph_forgetful_store.policy.facts import Fact, parse_user_fact

_NAME = r"(?P<subject>[^,;:!?]+?)"
_OBJECT = r"(?P<value>[^,;:!?]+?)\.?$"
_STATEMENTS = (
    # The ceo of X is Y; the author of X is Y.
    re.compile(rf"^The (?P<attribute>[\w' -]+?) of {_NAME} (?:is|was) (?:now )?(?P<value>[^,;:!?]+?)\.?$"),
    # X's ceo is Y.
    re.compile(rf"^{_NAME}['’]s (?P<attribute>[\w -]+?) (?:is|was) (?:now )?{_OBJECT}"),
    # X is a citizen of Y; X was born in the city of Y; X worked in Y.
    re.compile(
        rf"^{_NAME} (?P<attribute>(?:is|was|lives|lived|works|worked|plays|played|died|moved|resides|holds|"
        rf"speaks|studied|graduated)"
        rf"(?: (?!of\b)[a-z]\w*){{0,4}}? (?:of|in|by|to|with|for|at|from|on)(?: the \w+ of)?) {_OBJECT}"
    ),
)
# Nobody is famous for one thing alone, nor member of one club.
_SEVERAL = re.compile(
    r"\b(?:famous|known|member|members|friend|friends|fan|interested|part|kind|type|example|one|some|"
    r"visited|fluent|speaks|good|allergic|"
    r"list|set|lot|number|use|mention|because|version|child|children|son|daughter|sons|daughters|"
    r"sibling|brother|sister|notable)\b",
    re.IGNORECASE,
)


def parse_statement(text: str) -> Fact | None:
    """Return what a sentence of a settled form says of anything: "The capital of X is Y", "X is married to Y".

    Only relations that hold of one value at a time are read; what such a sentence denies is not.
    """
    sentence = text.strip()
    if len(sentence) > 300 or rules.is_question(sentence) or rules.negations(sentence):
        return None
    for expression in _STATEMENTS:
        found = expression.match(sentence)
        if (
            not found
            or _SEVERAL.search(found["attribute"])
            or re.match(r"(?:I|We|You|My|It|This|That|There)\b", sentence)
        ):
            continue
        return Fact(found["subject"].strip(), found["attribute"].strip().lower(), found["value"].strip())
    return None


def parse_fact(text: str) -> Fact | None:
    """Return what a sentence says, of its speaker or of anything else; ``None``: no pattern fits."""
    return parse_user_fact(text) or parse_statement(text)
