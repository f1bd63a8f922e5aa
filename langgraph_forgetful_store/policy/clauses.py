"""Where the sentences of a text stand."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ABBREVIATED = "".join(
    rf"(?<!\b{short})" for short in ("no", "nr", "num", "acct", r"e\.g", r"i\.e", "mr", "mrs", "ms", "dr", "st", "vs")
)
_END = re.compile(rf"{_ABBREVIATED}[.!?]+(?=\s|$)|[。！？]+|\n+", re.IGNORECASE)
# What is quoted may hold the end of a sentence.
_QUOTED = re.compile(r"\"[^\"\n]{1,100}\"|“[^”\n]{1,100}”|「[^」\n]{1,100}」|『[^』\n]{1,100}』|`[^`\n]{1,100}`")


def spans(text: str) -> Iterable[tuple[int, int]]:
    """Return where each sentence begins and ends, what ends it being left out."""
    quoted = iter([one.span() for one in _QUOTED.finditer(text)])
    inside = next(quoted, None)
    at = 0
    for end in _END.finditer(text):
        while inside is not None and inside[1] <= end.start():
            inside = next(quoted, None)
        if inside is not None and inside[0] < end.start() and end.end() < inside[1]:
            continue
        if text[at : end.start()].strip():
            yield _bare(text, at, end.start())
        at = end.end()
    if text[at:].strip():
        yield _bare(text, at, len(text))


def _bare(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())
