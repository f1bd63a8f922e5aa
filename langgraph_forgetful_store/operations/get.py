"""Reading rows by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from langgraph.store.base import GetOp

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import Meta, load_value, unpack_meta
from langgraph_forgetful_store.backend.flow import MANY, Flow, Send, Work, checked
from langgraph_forgetful_store.backend.keys import encode_namespace, encode_text
from langgraph_forgetful_store.errors import CorruptRecordError
from langgraph_forgetful_store.model.checks import Namespace, check_labels, check_refresh
from langgraph_forgetful_store.model.fields import Row
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.model.memory_types import decode_type
from langgraph_forgetful_store.operations.session import Session, open_store


@dataclass(slots=True)
class Get:
    """A checked `GetOp`.

    Attributes:
        counts: Whether what is read counts as accessed.
    """

    namespace: Namespace
    key: str
    refresh: bool
    counts: bool = True

    @classmethod
    def prepare(cls, op: GetOp, session: Session) -> Self:
        """Check an op.

        Raises:
            InvalidNamespaceError: Its namespace is none.
            TypeError: Its `refresh_ttl` is no bool.
        """
        return cls(
            check_labels(op.namespace, "namespace"),
            str(op.key),
            check_refresh(op.refresh_ttl, session.ttl.refresh_on_read),
        )


def get_untracked(session: Session, namespace: object, key: object, refresh_ttl: object) -> Flow[MemoryItem | None]:
    """Read a row without counting an access; its TTL is refreshed only where that is asked for."""
    refresh = check_refresh(refresh_ttl, False)
    one = Get(check_labels(namespace, "namespace"), str(key), refresh, counts=False)
    yield from open_store(session)
    return (yield from get(session, session.frame(), [one]))[0]


def get(session: Session, frame: scripts.Frame, gets: Sequence[Get]) -> Flow[list[MemoryItem | None]]:
    """Read rows; absent and expired ones are ``None``."""
    names = [(encode_namespace(one.namespace), encode_text(one.key)) for one in gets]
    calls = scripts.get(
        frame,
        [
            (*name, scripts.WITH_VALUE + (scripts.REFRESH if one.refresh else 0), "")
            for name, one in zip(names, gets, strict=True)
        ],
    )
    replies = yield Send(calls)
    rows: list[Any] = []
    for reply in replies:
        *told, now = checked(reply)
        session.saw(now)
        rows += told
    found = partial(_items, session, gets, names, rows)
    items: list[MemoryItem | None] = found() if len(rows) < MANY else (yield Work(found, len(rows)))
    return items


def _items(
    session: Session, gets: Sequence[Get], names: Sequence[tuple[bytes, bytes]], rows: Sequence[Any]
) -> list[MemoryItem | None]:
    found = [at for at, row in enumerate(rows) if row is not None]
    metas = [unpack_meta(rows[at][0]) for at in found]
    lives = [(*names[at], meta.created_at) for at, meta in zip(found, metas, strict=True)]
    items: list[MemoryItem | None] = [None] * len(rows)
    counts = all(one.counts for one in gets)
    for at, meta, more in zip(found, metas, session.access.unwritten(lives, count=counts), strict=True):
        items[at] = _item(gets[at], meta, rows[at], more)
    return items


def _item(one: Get, meta: Meta, row: list[Any], more_accesses: int) -> MemoryItem:
    if row[1] is None:
        raise CorruptRecordError(f"the row {one.key!r} of {one.namespace!r} has lost its value")
    life = Row(meta, row[2], decode_type(row[3]), more_accesses)
    return MemoryItem.of_row(one.namespace, one.key, load_value(row[1]), life)
