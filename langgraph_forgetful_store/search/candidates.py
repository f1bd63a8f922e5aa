"""Candidates: rows that may be part of a search's result, and the step that completes a page of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import FOREVER, Meta, load_value, unpack_meta
from langgraph_forgetful_store.backend.flow import Flow, Send, Work, checked
from langgraph_forgetful_store.backend.keys import decode_namespace, decode_text
from langgraph_forgetful_store.errors import CorruptRecordError
from langgraph_forgetful_store.model.fields import Row, to_datetime
from langgraph_forgetful_store.model.memory import MemorySearchItem
from langgraph_forgetful_store.model.memory_types import GENERIC, decode_type


def lost(namespace: bytes, key: bytes) -> CorruptRecordError:
    """Return the error for a row without a value."""
    return CorruptRecordError(f"the row {decode_text(key)!r} of {decode_namespace(namespace)!r} has lost its value")


# The rows of a result lie in few namespaces.
_labels = lru_cache(maxsize=1024)(decode_namespace)


@dataclass(slots=True)
class Candidate:
    """A row that may be part of the result.

    Attributes:
        value: The caller's own; ``None`` where it has not been read.
        slot: In the snapshot that it was ranked in.
        hear: Told the slot, and its row's expiry, when a refresh has moved it.
        made: What the caller gets, where it was made while the server was still to answer.
    """

    namespace: bytes
    key: bytes
    meta: Meta
    value: dict[str, Any] | None
    rest: bytes | None = None
    memory_type: str = GENERIC
    score: float | None = None
    similarity: float | None = None
    details: dict[str, Any] | None = None
    slot: int = 0
    hear: Callable[[int, float], None] | None = None
    made: MemorySearchItem | None = None

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Greater is better: scored before unscored, by score, then the latest write."""
        return self.score is not None, self.score or 0.0, self.meta.content

    @property
    def row(self) -> tuple[bytes, bytes]:
        """What names it."""
        return self.namespace, self.key

    @property
    def life(self) -> tuple[bytes, bytes, float]:
        """What tells it from rows that had, or will have, its name."""
        return self.namespace, self.key, self.meta.created_at

    def item(self, more_accesses: int = 0) -> MemorySearchItem:
        """Return what the caller gets.

        Args:
            more_accesses: What has been counted and not been written yet.
        """
        row = Row(self.meta, self.rest, self.memory_type, more_accesses)
        if self.made is not None:
            self.made._memory = row
            return self.made
        if self.value is None:
            raise lost(self.namespace, self.key)
        return MemorySearchItem.of_row(
            _labels(self.namespace),
            decode_text(self.key),
            self.value,
            to_datetime(self.meta.created_at),
            to_datetime(self.meta.updated_at),
            self.score,
            row,
            self.similarity,
            self.details,
        )

    def read_again(self, row: list[Any]) -> None:
        """Take over what `get.lua` has returned."""
        before = self.meta
        self.meta = meta = unpack_meta(row[0])
        if meta.status != before.status and meta.content == before.content:
            # It is told as it was when it was ranked.
            self.meta = meta._replace(status=before.status)
        if meta.created_at != before.created_at or meta.updated_at != before.updated_at:
            self.made = None
        self.rest, self.memory_type = row[2], decode_type(row[3])
        if self.value is None and row[1] is not None:
            self.value = load_value(row[1])
        if self.hear is not None:
            self.hear(self.slot, self.meta.expires_at)


def _make_items(page: list[Candidate]) -> None:
    for candidate in page:
        if candidate.value is not None:
            candidate.made = candidate.item()


def complete(
    frame: scripts.Frame, page: list[Candidate], *, refresh: bool, final: bool
) -> Flow[list[Candidate] | None]:
    """Read the values that a page still lacks, and slide the TTLs that it touches.

    Args:
        frame: The operation's.
        page: What is to be returned.
        refresh: Whether TTLs slide.
        final: Whether a row that has changed since it was ranked is returned as it is now.

    Returns:
        The page; ``None`` where a row whose value was not read yet has changed since it was ranked. A row whose value
        is known is returned as it was when it was ranked: what has changed since is not refreshed.
    """
    asked = [
        at
        for at, candidate in enumerate(page)
        if candidate.value is None or (refresh and candidate.meta.ttl != FOREVER)
    ]
    if not asked:
        return page
    wanted: list[tuple[bytes, bytes, int, scripts.Arg]] = []
    value_bytes: list[int] = []
    flags = scripts.REFRESH if refresh else 0
    for at in asked:
        candidate, meta = page[at], page[at].meta
        if candidate.value is None:
            expected = "" if final else f"{meta.content:.0f}"
            wanted.append((candidate.namespace, candidate.key, flags + scripts.WITH_VALUE, expected))
            value_bytes.append(meta.value_bytes)
        else:
            wanted.append((candidate.namespace, candidate.key, flags, f"{meta.content:.0f}"))
            value_bytes.append(0)
    calls = scripts.get(frame, wanted, value_bytes)
    replies = yield Send(calls, Work(partial(_make_items, page), len(page)))
    rows = [row for reply in replies for row in checked(reply)[:-1]]
    gone: set[int] = set()
    for at, row in zip(asked, rows, strict=True):
        if isinstance(row, list):
            page[at].read_again(row)
        elif page[at].value is None:
            gone.add(at)
    if gone and not final:
        return None
    return [candidate for at, candidate in enumerate(page) if at not in gone]
