"""Deleting expired rows."""

from __future__ import annotations

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.operations.session import Session, open_store

ROWS = 500
NAMESPACES = 500


def sweep(session: Session) -> Flow[int]:
    """Delete every row whose time has come; returns how many there were."""
    yield from open_store(session)
    frame = session.frame()
    total: int = 0
    while True:
        removed, more = checked((yield Send([scripts.sweep(frame, ROWS, NAMESPACES)]))[0])
        total += int(removed)
        if more == b"0":
            return total
