"""Memories that are bound to a run, and end with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import encode_json, encode_namespace, split_row
from langgraph_forgetful_store.model.checks import check_labels, check_text
from langgraph_forgetful_store.operations.session import Session, open_store, record
from langgraph_forgetful_store.search.scan import WINDOW, fetched
from langgraph_forgetful_store.search.table import Fetched

AT_ONCE = 500


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


def delete_rows(
    session: Session, rows: Sequence[tuple[bytes, bytes, scripts.Arg]], *, silent: bool = False
) -> Flow[int]:
    """Delete (namespace, key, expected content number) rows, and return how many were there.

    Args:
        session: The store's.
        rows: Which.
        silent: Whether they leave no tombstone.
    """
    if not rows:
        return 0
    return sum(checked(reply) for reply in (yield Send(scripts.delete(session.frame(), rows, silent=silent))))


def end_run(session: Session, ns_prefix: object, run_id: object) -> Flow[int]:
    """Delete exactly the rows of a run; see `ForgetfulStore.end_run`."""
    labels, run = check_labels(ns_prefix, "namespace_prefix"), check_text(run_id, "run_id")
    yield from open_store(session)
    prefix = encode_namespace(labels)
    ended: int = 0
    after = b""
    # Others may go on with the run, and write faster than it is ended.
    upto: scripts.Arg = ""
    while True:
        call = scripts.run(session.frame(), encode_json(run), prefix, after, min(WINDOW, AT_ONCE), upto)
        after, upto, expired, *found = checked((yield Send([call]))[0])
        # One that is written anew meanwhile is another run's business, or another life.
        ended -= expired
        ended += yield from delete_rows(session, [(*split_row(entry), content) for entry, content in pairs(found)])
        if not after:
            break
    if ended:
        yield from record(session, prefix, "end_run", b"", run, {"ended": ended})
    return ended


def pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Return what stands in pairs, one behind the other."""
    return zip(flat[::2], flat[1::2], strict=True)
