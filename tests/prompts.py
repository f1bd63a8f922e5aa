"""What tests of contexts share: memories without a store, and a reader of what a context says."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from langgraph_forgetful_store import MemoryItem, MemorySearchItem
from langgraph_forgetful_store.rendering import CLOSING, HEADER, OPENING

NS = ("memories", "ada")
DAY = datetime(2026, 5, 1, 12, tzinfo=UTC)


def found(
    key: str, content: str = "", *, score: Any = None, similarity: Any = 0.9, value: Any = None, **memory: Any
) -> MemorySearchItem:
    """Return what a recall found."""
    value = {"content": content or f"memory {key}"} if value is None else value
    score = similarity if score is None else score
    return MemorySearchItem(NS, key, value, DAY, DAY, score, memory, similarity)


def got(key: str, content: str = "", **memory: Any) -> MemoryItem:
    """Return what a get returned."""
    return MemoryItem(
        value={"content": content or f"memory {key}"},
        key=key,
        namespace=NS,
        created_at=DAY,
        updated_at=DAY,
        memory=memory,
    )


def told(text: str) -> list[dict[str, Any]]:
    """Return what a context says: the parsed lines between its delimiters."""
    head, *lines, last = text.split("\n")[1:]
    assert text.split("\n")[0] == HEADER
    assert (head, last) == (OPENING, CLOSING)
    return [json.loads(line) for line in lines]


def keys_of(text: str) -> list[str]:
    """Return the keys that a context tells."""
    return [line["key"] for line in told(text)]
