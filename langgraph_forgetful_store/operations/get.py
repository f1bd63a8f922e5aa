"""Reading rows by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from langgraph.store.base import GetOp

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import load_value, unpack_meta
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import encode_namespace, encode_text
from langgraph_forgetful_store.errors import CorruptRecord
from langgraph_forgetful_store.memory import MemoryItem, Row, to_datetime
from langgraph_forgetful_store.memory_types import decode_type
from langgraph_forgetful_store.operations.checks import Namespace, check_labels, check_refresh
from langgraph_forgetful_store.operations.context import Context


@dataclass(slots=True)
class Get:
    """A checked `GetOp`."""

    namespace: Namespace
    key: str
    refresh: bool

    @classmethod
    def prepare(cls, op: GetOp, context: Context) -> Self:
        """Check an op.

        Raises:
            InvalidNamespaceError: Its namespace is none.
            TypeError: Its `refresh_ttl` is no bool.
        """
        return cls(
            check_labels(op.namespace, "namespace"),
            str(op.key),
            check_refresh(op.refresh_ttl, context.ttl.refresh_on_read),
        )


def get(context: Context, frame: scripts.Frame, gets: Sequence[Get]) -> Flow[list[MemoryItem | None]]:
    """Read rows; absent and expired ones are ``None``."""
    calls = scripts.get(
        frame,
        [
            (
                encode_namespace(one.namespace),
                encode_text(one.key),
                scripts.WITH_VALUE + (scripts.REFRESH if one.refresh else 0),
                "",
            )
            for one in gets
        ],
    )
    replies = yield Send(calls)
    rows = [row for reply in replies for row in checked(reply)]
    return [row and _item(one, row) for one, row in zip(gets, rows, strict=True)]


def _item(one: Get, row: list[Any]) -> MemoryItem:
    meta = unpack_meta(row[0])
    if row[1] is None:
        raise CorruptRecord(f"the row {one.key!r} of {one.namespace!r} has lost its value")
    return MemoryItem(
        value=load_value(row[1]),
        key=one.key,
        namespace=one.namespace,
        created_at=to_datetime(meta.created_at),
        updated_at=to_datetime(meta.updated_at),
        memory=Row(meta, row[2], decode_type(row[3])),
    )
