"""Changes of lives: looked at, planned in Python, and carried out by one script if nothing has changed meanwhile.

A plan names what it was made on; where any of that is no longer so, it is made again. Of several that race one gets
through each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import (
    STATUS_ARCHIVED,
    STATUS_SUPERSEDED,
    Meta,
    load_value,
    unpack_meta,
)
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import decode_text, encode_json, encode_namespace, encode_text
from langgraph_forgetful_store.errors import CorruptRecordError, MemoryNotFoundError, VersionConflictError
from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.fields import REASONS, Row
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.model.memory_types import decode_type, decode_types
from langgraph_forgetful_store.model.packing import pack_rest, unpack_rest
from langgraph_forgetful_store.model.status import closes, status_at
from langgraph_forgetful_store.operations.session import Session, check_format
from langgraph_forgetful_store.operations.sweep import beside, swept_beside

# Stands for the time at which a plan is carried out.
NOW = math.nan
ATTEMPTS = 10_000
# Rows of a chain that `look.lua` tells at once.
MOST_TOLD = 7000
Ask = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Stored:
    """A row as a look has found it.

    Attributes:
        value: As JSON; ``None`` where it was not asked for.
        gone: Whether time has taken it out.
    """

    key: str
    meta: Meta
    value: bytes | None
    rest: dict[str, Any]
    gone: bool
    memory_type: str

    def status(self, now: float) -> int:
        """Return what it counts as."""
        return status_at(self.meta, now)

    @property
    def closes(self) -> bool:
        """Whether the end of its validity closes it, be it past or to come."""
        return closes(self.meta.status, self.meta.reason)


@dataclass(frozen=True, slots=True)
class Chain:
    """What was asked for by a key or a slot.

    Attributes:
        slot: The field of the latest row's slot; ``b""`` for none.
        holder: The key in that field; ``""`` for none.
        rows: Latest first, those that are gone too.
    """

    slot: bytes
    holder: str
    rows: list[Stored]

    @property
    def living(self) -> list[Stored]:
        """The rows that are not gone."""
        return [row for row in self.rows if not row.gone]

    def held_by(self, now: float) -> Stored | None:
        """Return the row in the slot, of those that are told; for one that is gone, what still holds before it."""
        keys = [row.key for row in self.rows]
        if self.holder not in keys:
            return None
        holder, *earlier = self.rows[keys.index(self.holder) :]
        if not holder.gone:
            return holder
        return next((row for row in earlier if not row.gone and row.meta.valid_until > now), None)

    def line(self) -> list[Stored]:
        """The latest row that is not gone and those before it, without what is told because it was merged."""
        told = {row.key: row for row in self.rows}
        row = next(iter(self.living), None)
        found = []
        while row is not None:
            found.append(row)
            row = told.pop(row.rest.get("supersedes", ""), None)
        return [one for one in found if not one.gone]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look has found; `found` has one entry for each thing asked for."""

    now: float
    types: tuple[str, ...]
    found: list[Any]


def look(
    frame: scripts.Frame, namespace: bytes, asked: Sequence[Ask], *, since: float | None = None, values: bool = False
) -> Flow[Seen]:
    """Read what a change is planned on; see `look.lua`.

    Args:
        frame: The operation's.
        namespace: Encoded.
        asked: Kind, and two names each.
        since: How far back chains are told, in ms; `NOW`: to what holds now; ``None``: whole.
        values: Whether rows carry their values.
    """
    named = [(kind, encode_text(one), encode_text(other)) for kind, one, other in asked]
    back = "" if since is None else "now" if since != since else f"{since:.3f}"
    call = scripts.look(frame, namespace, named, back, values=values)
    now, stored, *found = checked((yield Send([call]))[0])
    types = decode_types(stored)
    parsed: list[Any] = []
    for (kind, _, _), reply in zip(asked, found, strict=True):
        if kind in {"l", "n"}:
            parsed.append(reply)
            continue
        slot, holder, *rows = reply
        parsed.append(Chain(slot, decode_text(holder), [_stored(row, types) for row in rows]))
    return Seen(float(now), types, parsed)


def whole_chain(frame: scripts.Frame, namespace: bytes, key: str) -> Flow[tuple[float, list[Stored]]]:
    """Read all rows of a chain with their values, latest first, however many there are, and the time."""
    seen = yield from look(frame, namespace, [("k", key, "")], values=True)
    rows: list[Stored] = list(seen.found[0].rows)
    told = {row.key for row in rows}
    # One reply holds so many rows; the rest is told from the earliest of them on.
    more = len(rows) >= MOST_TOLD
    while more:
        earlier = next((row.rest["supersedes"] for row in reversed(rows) if "supersedes" in row.rest), None)
        if earlier is None or earlier in told:
            break
        batch = (yield from look(frame, namespace, [("b", earlier, "")], values=True)).found[0].rows
        fresh = [row for row in batch if row.key not in told]
        told.update(row.key for row in fresh)
        rows += fresh
        more = len(fresh) >= MOST_TOLD
    return seen.now, rows


def _stored(row: Sequence[Any], types: tuple[str, ...]) -> Stored:
    key, packed, value, rest, gone = row
    meta = unpack_meta(packed)
    if meta.memory_type >= len(types):
        raise CorruptRecordError(
            f"the row {decode_text(key)!r} has a memory type that is not known: {meta.memory_type}"
        )
    return Stored(decode_text(key), meta, value, unpack_rest(rest), gone == b"1", types[meta.memory_type])


@dataclass(slots=True)
class Change:
    """A row to write; see `commit.lua`."""

    meta: Meta
    rest: dict[str, Any]
    value: bytes = b""
    vectors: bytes = b""
    type_name: str = ""
    letters: str = ""


@dataclass(slots=True)
class Plan:
    """A change of one namespace, and what it was planned on.

    Attributes:
        now: When it was looked at.
        wanted: Keys of the rows to return.
        doomed: Keys of the rows to remove.
        rows: What to write, by key.
        fields: What to write into ``s:`` and ``k:``; ``b""`` drops a field.
    """

    now: float
    wanted: list[str] = field(default_factory=list)
    doomed: list[str] = field(default_factory=list)
    rows: dict[str, Change] = field(default_factory=dict)
    fields: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    _expected: dict[str, Meta | None] = field(default_factory=dict)
    _expected_fields: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    _records: list[tuple[str, str, str, bytes]] = field(default_factory=list)
    _deadline: float = math.inf

    def rely_on(self, *rows: Stored) -> None:
        """Have the plan hold only as long as rows are as they were found, also by what time does to them."""
        for row in rows:
            self._expected[row.key] = row.meta
            times = (row.meta.valid_from, row.meta.valid_until, row.meta.expires_at)
            self._deadline = min([self._deadline, *(time for time in times if time > self.now)])

    def rely_on_absence(self, key: str) -> None:
        """Have it hold only as long as there is no such row."""
        self._expected[key] = None

    def rely_on_field(self, kind: str, name: bytes, value: bytes) -> None:
        """Have it hold only as long as a field of ``s:`` or ``k:`` is this; ``b""``: absent."""
        self._expected_fields[kind, name] = value

    def rely_on_slot(self, chain: Chain) -> None:
        """Have it hold only as long as a slot is held by the same row."""
        if chain.slot:
            self.rely_on_field("s", chain.slot, encode_text(chain.holder))

    def change(self, row: Stored, *, letters: str = "", **meta: Any) -> Change:
        """Change a row's meta, on top of what is planned for it already; its `rest` may be changed in place."""
        self.rely_on(row)
        change = self.rows.get(row.key)
        if change is None:
            change = self.rows[row.key] = Change(row.meta, dict(row.rest))
        change.meta = change.meta._replace(**meta)
        change.letters += letters
        return change

    def record(self, action: str, key: str = "", reason: str = "", **details: Any) -> None:
        """Have it audited."""
        known = {name: value for name, value in details.items() if value is not None}
        self._records.append((action, key, reason, encode_json(known)))

    def lists(self, actor: str) -> list[list[tuple[scripts.Arg, ...]]]:
        """Return it as the commit script reads it."""
        return [
            [
                (encode_text(key), "", "") if meta is None else (encode_text(key), f"{meta.content:.0f}", meta.revision)
                for key, meta in self._expected.items()
            ],
            [(kind, name, value) for (kind, name), value in self._expected_fields.items()],
            [
                (
                    encode_text(key),
                    change.meta.pack(),
                    pack_rest(change.rest),
                    change.value,
                    change.vectors,
                    encode_text(change.type_name),
                    change.letters,
                )
                for key, change in self.rows.items()
            ],
            [(kind, name, value) for (kind, name), value in self.fields.items()],
            [
                (encode_text(actor), action, encode_text(key), reason, details)
                for action, key, reason, details in self._records
            ],
            [(encode_text(key),) for key in self.doomed],
            [(encode_text(key),) for key in self.wanted],
        ]

    @property
    def changes(self) -> bool:
        """Whether it changes anything."""
        return bool(self.rows or self.fields or self.doomed)

    @property
    def deadline(self) -> str:
        """The time from which on it does not hold, as the script reads it."""
        return "" if self._deadline == math.inf else f"{self._deadline:.3f}"


def transact(
    session: Session,
    namespace: Namespace,
    asked: Sequence[Ask],
    make: Callable[[Seen], Plan | Flow[Plan]],
    *,
    since: float | None = None,
) -> Flow[list[MemoryItem]]:
    """Look, plan and carry out, as often as it takes.

    Args:
        session: The store's.
        namespace: Where.
        asked: What to look at.
        make: Makes the plan; it may raise, or look at more.
        since: As in `look`.

    Returns:
        The rows that the plan wanted, as they are then.

    Raises:
        VersionConflictError: Others kept changing the rows, far more often than is to be expected.
        redis.exceptions.RedisError: The server is down or refuses.
    """
    encoded = encode_namespace(namespace)
    for _ in range(ATTEMPTS):
        frame = session.frame()
        seen = yield from look(frame, encoded, asked, since=since)
        made = make(seen)
        plan = made if isinstance(made, Plan) else (yield from made)
        lists, noted = plan.lists(session.actor or ""), session.noted(encoded) if plan.changes else []
        lists[4] += noted
        call = scripts.commit(frame, session.format, encoded, plan.deadline, lists)
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


def closing_status(status: int, until: float, now: float) -> int:
    """Return how a row is stored that is to be closed at `until`: an archived one stays archived until then."""
    return STATUS_ARCHIVED if status == STATUS_ARCHIVED and until > now else STATUS_SUPERSEDED


def living(chain: Chain, namespace: Namespace, key: str) -> Stored:
    """Return the row asked for by its key.

    Raises:
        MemoryNotFoundError: It is absent or expired.
    """
    for row in chain.living:
        if row.key == key:
            return row
    raise MemoryNotFoundError(f"{namespace!r} has no memory {key!r}: it is absent or expired")


def reason_number(reason: object) -> int:
    """Return a reason as meta holds it.

    Raises:
        ValueError: It is none.
    """
    if reason not in REASONS:
        raise ValueError(f"reason must be one of {', '.join(REASONS)}, got {reason!r}")
    return REASONS.index(str(reason)) + 1
