"""What screening finds in a text, and how it is taken out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

KINDS = ("national_id", "card", "credential", "address", "health", "finance", "relationship")


@dataclass(frozen=True, slots=True)
class SensitiveSpan:
    """Something sensitive in a text.

    Attributes:
        kind: One of `KINDS`, or a label that an extractor gave.
        start: The index of its first character.
        end: The index after its last character; it spans the whole text where only the subject is sensitive.
    """

    kind: str
    start: int
    end: int


Screener = Callable[[str], Sequence[SensitiveSpan]]


def redact(text: str, findings: Iterable[SensitiveSpan]) -> str:
    """Return a text with the name of its kind in place of each finding."""
    parts: list[str] = []
    at = 0
    for one in sorted(findings, key=lambda one: (one.start, -one.end)):
        if one.end <= at:
            continue
        parts += [text[at : max(at, one.start)], f"[{one.kind}]"]
        at = one.end
    return "".join([*parts, text[at:]])
