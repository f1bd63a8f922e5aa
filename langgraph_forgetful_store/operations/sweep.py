"""Deleting expired rows: all of them on request, and some beside each write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.operations.session import Session, logger, open_store

# What bounds the time for which one call keeps the server: a namespace takes several times as long as a row.
ROWS, NAMESPACES = 250, 100
# The same beside a write, whose caller waits.
ROWS_BESIDE = 50
# Rows that go for each that comes, so that a pile of expired ones shrinks while others are written.
SHARE = 2


def sweep(session: Session) -> Flow[int]:
    """Delete every row whose time has come; returns how many there were."""
    yield from open_store(session)
    frame = session.frame()
    total = passed = 0
    while True:
        removed, more, broken = checked((yield Send([scripts.sweep(frame, ROWS, NAMESPACES, passed)]))[0])
        total += int(removed)
        passed += int(broken)
        if more == b"0":
            break
    if passed:
        logger.warning(
            "%s namespaces were not swept: something else wrote a key of theirs under the store's key prefix", passed
        )
    return total


def beside(session: Session, frame: scripts.Frame, written: int) -> list[scripts.Call]:
    """Return the calls that sweep beside a write of so many rows: in proportion, where expired ones have piled up.

    What they reply is for `swept_beside`.
    """
    rows = SHARE * session.take_written(written)
    return [scripts.sweep(frame, ROWS_BESIDE, ROWS_BESIDE) for _ in range(math.ceil(rows / ROWS_BESIDE))]


def swept_beside(session: Session, replies: Sequence[Any]) -> None:
    """Note what the calls of `beside` found; where one has failed, the write itself has not."""
    for reply in replies:
        if isinstance(reply, Exception):
            logger.warning("the sweep beside a write failed: %s", reply)
        else:
            session.has_expired = reply[1] == b"1"
