"""Which row of a slot is shown where several hold: of the run asked for, else the latest dated one, else the other.

It is decided before any filter. Guesses stand beside, and hide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import (
    FLAG_AHEAD,
    FLAG_DATED,
    FLAG_RUN,
    STATUS_ACTIVE,
    unpack_meta,
)
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import decode_text, encode_text
from langgraph_forgetful_store.model.packing import unpack_rest
from langgraph_forgetful_store.model.places import Under, place_of, under_of
from langgraph_forgetful_store.model.status import is_under, state_at
from langgraph_forgetful_store.search.table import Mask, Snapshot

ROWS, NAMESPACES = 500, 500
# Namespace, which of its names is meant, subject and attribute.
Slot = tuple[bytes, str, str, str]
# The rank of the row that lies on top of a slot, and its key; ``b""``: a permanent word lies over it.
Covers = Mapping[Slot, tuple[tuple[bool, float], bytes]]


class Word(NamedTuple):
    """What may lie over a dated row."""

    gone: bool
    said: float
    start: float
    ahead: bool
    rest: Mapping[str, Any]


def _over(
    rest: Mapping[str, Any], word_of: Callable[[str], Word | None], known_at: float | None = None
) -> Under | None:
    """Return what lies over a dated row, as it will be when the words that have expired are swept."""
    under, said = under_of(rest), place_of(rest)[0]
    while under is not None and (word := word_of(under.key)) is not None and word.gone:
        key = word.rest.get("superseded_by")
        after = None if key is None else word_of(key)
        under = None
        number, index = place_of({} if after is None else after.rest)
        if after is not None and key is not None and index == "b" and number > said:
            under = Under(after.start, after.ahead, key)
    if known_at is not None and under is not None and (word := word_of(under.key)) and word.said > known_at:
        return None
    return under


def _slots(namespace: bytes, rest: Mapping[str, Any]) -> Iterator[Slot]:
    """Return the slot of a row by the name that it was written under, and by the one that this stands for."""
    for name in ("subject", "canonical"):
        if name in rest:
            yield namespace, name, rest[name], rest.get("attribute", "")


def _rank(rest: Mapping[str, Any], run_id: str | None) -> tuple[bool, float] | None:
    """Return how far above others a row lies; ``None``: it lies over nothing."""
    number, index = place_of(rest)
    if index == "r" and run_id is not None and rest.get("run_id") == run_id:
        return True, number
    return (False, number) if index == "d" else None


def covers(
    rows: Iterable[tuple[bytes, bytes, Mapping[str, Any], Under | None]],
    run_id: str | None,
    now: float,
    as_of: float | None,
) -> Covers:
    """Return what lies over others, given (namespace, key, fields, what lies over it) of rows that hold."""
    found: dict[Slot, tuple[tuple[bool, float], bytes]] = {}
    for namespace, key, rest, under in rows:
        shown = b"" if is_under(under, now, as_of) else key
        rank = _rank(rest, run_id)
        if rank is None:
            continue
        for slot in _slots(namespace, rest):
            if slot not in found or found[slot][0] < rank:
                found[slot] = rank, shown
    return found


def hidden(snapshot: Snapshot, holds: Mask, run_id: str | None, now: float, as_of: float | None) -> Mask | None:
    """Return which of the slots that hold are hidden by others; ``None``: none is.

    Args:
        snapshot: The rows.
        holds: Which of its slots do.
        run_id: The run whose view is asked for.
        now: The server's time, in ms.
        as_of: The moment in the world, in ms; ``None``: now.
    """
    over, table = snapshot.covers, snapshot.table
    if not over and not table.flags & (FLAG_DATED | FLAG_RUN):
        return None
    if over is None:
        slots = np.flatnonzero(holds & snapshot.live & (snapshot.flags & (FLAG_DATED | FLAG_RUN) != 0))
        over = covers(_holding(snapshot, slots.tolist()), run_id, now, as_of)
    found: Mask = np.zeros(snapshot.size, np.bool_)
    for slot in snapshot.with_rest() if over else ():
        if not holds[slot]:
            continue
        rest = unpack_rest(table.rests[slot])
        namespace, key = table.names[slot]
        index = place_of(rest)[1]
        if index in ("b", "d"):
            tops = {over[name][1] for name in _slots(namespace, rest) if name in over}
            found[slot] = bool(tops - {key} - ({b""} if index == "b" else set()))
    return found


def _holding(
    snapshot: Snapshot, slots: Iterable[int]
) -> Iterator[tuple[bytes, bytes, Mapping[str, Any], Under | None]]:
    table = snapshot.table
    known = {table.names[slot]: slot for slot in snapshot.with_rest()} if snapshot.expired else {}
    for slot in slots:
        (namespace, key), rest = table.names[slot], unpack_rest(table.rests[slot])

        def word_of(key: str, namespace: bytes = namespace) -> Word | None:
            at = known.get((namespace, encode_text(key)))
            if at is None:
                return None
            meta = table.meta[at]
            ahead = bool(meta["flags"] & FLAG_AHEAD)
            said, start = float(meta["recorded_at"]), float(meta["valid_from"])
            return Word(at in snapshot.expired, said, start, ahead, unpack_rest(table.rests[at]))

        yield namespace, key, rest, _over(rest, word_of)


def read_covers(
    frame: scripts.Frame, prefix: bytes, run_id: str | None, as_of: float | None, known_at: float | None
) -> Flow[Covers]:
    """Read what lies over others below a prefix.

    Args:
        frame: The operation's.
        prefix: Encoded.
        run_id: The run whose view is asked for.
        as_of: As in `state_at`; likewise `known_at`.
    """
    found: list[tuple[bytes, bytes, Mapping[str, Any], Under | None]] = []
    at: tuple[bytes, bytes] = (prefix, b"")
    while True:
        call = scripts.layers(frame, prefix, at, ROWS, NAMESPACES)
        namespace, entry, _, now, *groups = checked((yield Send([call]))[0])
        for group in groups:
            for key, meta, packed, told in group[1:]:
                rest = unpack_rest(packed)
                words = {decode_text(one): _word(*parts) for one, *parts in told}
                if state_at(unpack_meta(meta), rest, float(now), as_of, known_at) == STATUS_ACTIVE:
                    found.append((group[0], key, rest, _over(rest, words.get, known_at)))
        if not namespace:
            return covers(found, run_id, float(now), as_of)
        at = (namespace, entry)


def _word(packed: bytes, rest: bytes, gone: bytes) -> Word:
    meta = unpack_meta(packed)
    return Word(gone == b"1", meta.recorded_at, meta.valid_from, bool(meta.flags & FLAG_AHEAD), unpack_rest(rest))
