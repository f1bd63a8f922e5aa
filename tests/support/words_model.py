"""Relevance in plain Python, row by row: what both engines have to agree with."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from langgraph_forgetful_store.search.lexical import Query, Words, pack_words

K1, B, MOST = 0.9, 0.4, 32


@dataclass
class Spoken:
    """A row by its words."""

    counts: dict[int, int]
    length: int

    @classmethod
    def of(cls, *texts: str) -> Spoken:
        words = Words.unpack(pack_words(texts))
        return cls(dict(words.counts), words.length)


def shares(query: str, rows: dict[Any, Spoken]) -> dict[Any, tuple[float, float]]:
    """Return L and coverage of each row, counted over all of them."""
    asked = Query.of(query)
    if asked is None:
        return dict.fromkeys(rows, (0.0, 0.0))
    share_of = dict(zip(asked.crcs.tolist(), asked.shares, strict=True))
    found = Counter(crc for row in rows.values() for crc in row.counts if crc in share_of)
    terms = sorted(share_of, key=lambda crc: (found[crc], crc))[:MOST]
    count, total = len(rows), sum(row.length for row in rows.values())
    average = total / count if total else 1.0
    idf = {crc: math.log(1.0 + (count - found[crc] + 0.5) / (found[crc] + 0.5)) for crc in terms}
    most = 0.0
    for crc in terms:
        most += share_of[crc] * idf[crc] * (K1 + 1.0)
    stems = sum(idf[crc] for crc in terms if share_of[crc] == 1.0)
    results = {}
    for name, row in rows.items():
        sum_of_terms = covered = 0.0
        for crc in terms:
            tf = row.counts.get(crc, 0)
            if tf:
                weight = share_of[crc] * idf[crc] * (K1 + 1.0)
                sum_of_terms += weight * tf / (tf + K1 * ((1.0 - B) + B * row.length / average))
                covered += idf[crc] if share_of[crc] == 1.0 else 0.0
        results[name] = (sum_of_terms / (sum_of_terms + min(6.0, 0.15 * most)), covered / stems if stems else 0.0)
    return results


def relevance(cosine: float | None, share: float) -> float:
    """Return R."""
    return 1.0 - (1.0 - max(cosine or 0.0, 0.0)) * (1.0 - 0.9 * share)


def lift(age: float, half_life: float, importance: float, confidence: float) -> float:
    """Return C; times in ms."""
    standing = 0.5 * 0.5 ** (max(age, 0.0) / half_life) + 0.25 * importance + 0.25 * confidence
    return 1.0 - 0.04 * (1.0 - standing)
