"""Whether a text mentions a name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from langgraph_forgetful_store.prompt.rendering import WORD_CHAR

_EDGE = re.compile(WORD_CHAR)


def mentions(text: str, names: Iterable[str]) -> bool:
    """Whether one of the names occurs in a text, in any case and as a word of its own.

    In Chinese, Japanese and Korean, which put no blanks between words or join particles to them, it may stand anywhere.
    """
    folded = text.casefold()
    return any(_occurs(name.strip().casefold(), folded) for name in names)


def _occurs(name: str, text: str) -> bool:
    if not name or name not in text:
        return False
    before = rf"(?<!{WORD_CHAR})" if _EDGE.match(name[0]) else ""
    after = rf"(?!{WORD_CHAR})" if _EDGE.match(name[-1]) else ""
    return re.search(before + re.escape(name) + after, text) is not None
