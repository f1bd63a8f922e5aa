"""Memories that are bound to a run, and end with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import META_BYTES, unpack_meta
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import encode_namespace
from langgraph_forgetful_store.model.checks import check_labels, check_text
from langgraph_forgetful_store.model.packing import unpack_rest
from langgraph_forgetful_store.operations.session import Session, open_store, record
from langgraph_forgetful_store.search.scan import WINDOW, fetched
from langgraph_forgetful_store.search.table import Fetched


def every_row(
    frame: scripts.Frame,
    prefix: bytes,
    each: Callable[[Sequence[Fetched]], Flow[Any]],
    *,
    expired: bool = False,
    upto: int | None = None,
) -> Flow[int]:
    """Read all rows below a prefix, of any status, window by window, without their values.

    Rows that are put after it began are left out: others may write faster than it reads.

    Args:
        frame: The operation's.
        prefix: Encoded.
        each: What to do with a window.
        expired: Whether expired rows that are not swept yet are read.
        upto: The change number after which rows are left out; ``None``: the last one at its beginning.

    Returns:
        That change number.
    """
    start: tuple[bytes, Any] = (prefix, 0)
    while True:
        call = scripts.scan(
            frame, prefix, start, WINDOW, vectors=False, value_bytes=0, closed=True, expired=expired, upto=upto
        )
        number, _, _, _, at_end, *cursor = checked((yield Send([call]))[0])
        upto = int(number) if upto is None else upto
        yield from each(list(fetched(cursor[2:], 1)))
        if at_end == b"1":
            return upto
        start = (cursor[0], cursor[1])


def delete_rows(frame: scripts.Frame, rows: Sequence[tuple[bytes, bytes, scripts.Arg]]) -> Flow[int]:
    """Delete (namespace, key, expected content number) rows, and return how many were there."""
    if not rows:
        return 0
    return sum(checked(reply) for reply in (yield Send(scripts.delete(frame, rows))))


def end_run(session: Session, namespace_prefix: object, run_id: object) -> Flow[int]:
    """Delete exactly the rows of a run; see `ForgetfulStore.end_run`."""
    labels, run = check_labels(namespace_prefix, "namespace_prefix"), check_text(run_id, "run_id")
    yield from open_store(session)
    frame = session.frame()
    ended = 0

    def each(rows: Sequence[Fetched]) -> Flow[None]:
        nonlocal ended
        bound = [row for row in rows if row.rest and unpack_rest(row.rest).get("run_id") == run]
        # One that is written anew meanwhile is another run's business, or another life.
        doomed = [
            (row.namespace, row.key, f"{unpack_meta(row.meta).content:.0f}")
            for row in bound
            if len(row.meta) == META_BYTES
        ]
        ended += yield from delete_rows(frame, doomed)

    yield from every_row(frame, encode_namespace(labels), each)
    if ended:
        yield from record(session, encode_namespace(labels), "end_run", b"", run, {"ended": ended})
    return ended
