"""Looking at rows and their lines, and carrying out what was planned on them, as often as it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import load_value, unpack_meta
from langgraph_forgetful_store.backend.flow import Flow, Send, Turn, checked
from langgraph_forgetful_store.backend.keys import decode_text, encode_json, encode_namespace, encode_text
from langgraph_forgetful_store.errors import CorruptRecordError, MemoryNotFoundError, VersionConflictError
from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.fields import Row
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.model.memory_types import decode_type, decode_types
from langgraph_forgetful_store.model.packing import pack_rest, unpack_rest
from langgraph_forgetful_store.operations.plan import Found, Part, Plan, Stored, sortable
from langgraph_forgetful_store.operations.session import Session, check_format
from langgraph_forgetful_store.operations.sweep import beside, swept_beside

ATTEMPTS = 10_000
# Rows that one script tells of a history.
AT_ONCE = 250


class Ask(NamedTuple):
    """A thing to look at; see `look.lua`."""

    kind: str
    name: bytes
    more: bytes = b""
    start: bytes = b""


def ask_row(key: str) -> Ask:
    """Ask for a row alone."""
    return Ask("r", encode_text(key))


def ask_key(key: str, run: str | None = None, start: float | None = None) -> Ask:
    """Ask for a row with its lines, and their parts around a start."""
    return Ask("k", encode_text(key), _run(run), _start(start))


def ask_slot(subject: str, attribute: str, run: str | None = None, start: float | None = None) -> Ask:
    """Ask for the lines of a slot, and their parts around a start."""
    return Ask("s", encode_text(subject) + b"\0" + encode_text(attribute), _run(run), _start(start))


def ask_name(name: str) -> Ask:
    """Ask for what goes by a subject's name."""
    return Ask("n", encode_text(name))


def ask_link(key: str, relation: str, other: str) -> Ask:
    """Ask whether two rows are linked."""
    return Ask("l", encode_text(key), encode_text(other), relation.encode())


def _run(run: str | None) -> bytes:
    return b"" if run is None else encode_json(run)


def _start(start: float | None) -> bytes:
    return b"" if start is None else sortable(start)


class Name(NamedTuple):
    """What goes by a subject's name: what it stands for, what undoes that, the names that stand for it, its lines."""

    stands_for: str
    undo: bytes
    names: Sequence[str]
    parts: Sequence[Part]


class Seen(NamedTuple):
    """What a look has found; `found` has one entry for each thing asked for."""

    now: float
    types: tuple[str, ...]
    found: list[Any]


def look(session: Session, namespace: bytes, asked: Sequence[Ask], *, values: bool = False) -> Flow[Seen]:
    """Read what a change is planned on; see `look.lua`.

    Args:
        session: The store's.
        namespace: Encoded.
        asked: What to look at.
        values: Whether rows carry their values.
    """
    call = scripts.look(session.frame(), namespace, asked, values=values)
    time, stored, *found = checked((yield Send([call]))[0])
    now, types = session.saw(time), decode_types(stored)
    parsed: list[Any] = []
    for ask, reply in zip(asked, found, strict=True):
        if ask.kind == "l":
            parsed.append(reply == b"1")
        elif ask.kind == "r":
            parsed.append(Found(_stored(reply[0] if reply else None, types)))
        elif ask.kind == "n":
            stands_for, undo, names, parts = reply
            names = [decode_text(name) for name in names]
            parsed.append(Name(decode_text(stands_for), undo, names, _parts(parts, types)))
        else:
            row, subject, stands_for, names, parts = reply
            parsed.append(
                Found(
                    _stored(row, types),
                    decode_text(subject),
                    decode_text(stands_for),
                    [decode_text(name) for name in names],
                    _parts(parts, types),
                )
            )
    return Seen(now, types, parsed)


def _parts(parts: Iterable[Any], types: tuple[str, ...]) -> list[Part]:
    return [
        Part(first, last, entries[::2], [row for one in entries[1::2] if (row := _stored(one, types)) is not None])
        for first, last, entries in parts
    ]


def _stored(row: Sequence[Any] | None, types: tuple[str, ...]) -> Stored | None:
    if not row:
        return None
    key, packed, value, rest, gone = row
    meta = unpack_meta(packed)
    if meta.memory_type >= len(types):
        raise CorruptRecordError(
            f"the row {decode_text(key)!r} has a memory type that is not known: {meta.memory_type}"
        )
    return Stored(decode_text(key), meta, value, unpack_rest(rest), gone == b"1", types[meta.memory_type])


def told(session: Session, namespace: bytes, key: str, *, by_names: bool = True) -> Flow[tuple[float, list[Stored]]]:
    """Read all rows of a row's slot or chain, of every layer, with their values, however many there are, and the time.

    Args:
        session: The store's.
        namespace: Encoded.
        key: Of the row.
        by_names: Whether also those that are written under other names of the subject.
    """
    rows: dict[str, Stored] = {}
    at: tuple[scripts.Arg, scripts.Arg] = (0, b"")
    while True:
        call = scripts.told(session.frame(), namespace, encode_text(key), at, AT_ONCE, by_names=by_names)
        time, stored, index, entry, *found = checked((yield Send([call]))[0])
        now, types = session.saw(time), decode_types(stored)
        rows |= {row.key: row for one in found if (row := _stored(one, types)) is not None}
        if index == b"":
            return now, list(rows.values())
        at = (index, entry)


def transact(
    session: Session,
    namespace: Namespace,
    asked: Sequence[Ask],
    make: Callable[[Seen], Plan | Flow[Plan]],
    *,
    values: bool = False,
    turn: object = None,
) -> Flow[list[MemoryItem]]:
    """Look, plan and carry out, as often as it takes.

    Args:
        session: The store's.
        namespace: Where.
        asked: What to look at.
        make: Makes the plan; it may raise, or look at more.
        values: Whether it is given values, too.
        turn: What is changed by others, too, so that those which are gathered change it one after the other; ``None``:
            nothing is.

    Returns:
        The rows that the plan wanted, as they are then.

    Raises:
        VersionConflictError: Others kept changing the rows, far more often than is to be expected.
        redis.exceptions.RedisError: The server is down or refuses.
    """
    encoded = encode_namespace(namespace)
    if turn is not None:
        yield Turn((encoded, turn))
    for _ in range(ATTEMPTS):
        seen = yield from look(session, encoded, asked, values=values)
        made = make(seen)
        plan = made if isinstance(made, Plan) else (yield from made)
        noted = session.noted(encoded) if plan.changes else []
        frame = session.frame()
        call = scripts.commit(frame, session.format, encoded, plan.args(session.actor or "", noted))
        reply, *swept = yield Send([call, *beside(session, frame, len(plan.rows))])
        swept_beside(session, swept)
        status, *rows = checked(reply)
        if status == b"FORMAT":
            check_format(session, [part or None for part in rows])
            raise CorruptRecordError(f"what the stored data say of themselves (the key fmt) can't be read: {rows!r}")
        if status == b"OK":
            if noted:
                session.note = None
            return [_item(session, namespace, key, row) for key, row in zip(plan.wanted, rows, strict=True)]
    raise VersionConflictError(
        f"the rows of {namespace!r} kept being changed by others: {ATTEMPTS} attempts were in vain"
    )


def _item(session: Session, namespace: Namespace, key: str, row: Any) -> MemoryItem:
    if row is None or row[1] is None:
        raise MemoryNotFoundError(f"{namespace!r} has no memory {key!r} any more")
    return _made(session, namespace, key, row[1], Row(unpack_meta(row[0]), row[2], decode_type(row[3])))


def stored_item(
    session: Session, namespace: Namespace, row: Stored, now: float, status: int | None = None
) -> MemoryItem:
    """Return a row that was looked at, with its value, as an item; `status` is that of another time."""
    if row.value is None:
        raise CorruptRecordError(f"the row {row.key!r} of {namespace!r} has lost its value")
    meta = row.meta._replace(status=row.status(now) if status is None else status)
    return _made(session, namespace, row.key, row.value, Row(meta, pack_rest(row.rest), row.memory_type))


def _made(session: Session, namespace: Namespace, key: str, value: bytes, row: Row) -> MemoryItem:
    life = (encode_namespace(namespace), encode_text(key), row.meta.created_at)
    counted = row._replace(more_accesses=session.access.unwritten([life])[0])
    return MemoryItem.of_row(namespace, key, load_value(value), counted)
