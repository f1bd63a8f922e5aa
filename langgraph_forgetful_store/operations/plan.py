"""Plans of changes: made in Python from what was looked at, and carried out whole or not at all by `transact`.

A slot, or a chain without one, has a line of permanent rows, and one for each run, in order of start and place number.
What holds is the last row of a line that has begun, unless it has ended, is archived or has expired. A row that stands
before another ends where that one starts, at the latest; it keeps what its own end was, for when the other goes before
it has begun. Dated rows, guesses and withdrawn plans stand beside the lines, in indexes of their own.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import (
    FLAG_AHEAD,
    FLAG_DATED,
    FLAG_END_AHEAD,
    FOREVER,
    STATUS_ACTIVE,
    STATUS_ARCHIVED,
    STATUS_SUPERSEDED,
    Meta,
)
from langgraph_forgetful_store.backend.keys import encode_json, encode_text
from langgraph_forgetful_store.errors import MemoryNotFoundError
from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.fields import REASONS
from langgraph_forgetful_store.model.memory_types import HYPOTHESIS
from langgraph_forgetful_store.model.packing import pack_rest
from langgraph_forgetful_store.model.places import pack_place, place_of
from langgraph_forgetful_store.model.status import closes, has_begun, has_ended, status_at

# A start that is no further ahead is the latest word.
SOON_MS = 1000
PERMANENT, OF_RUN, DATED, GUESS, WITHDRAWN = "b", "r", "d", "h", "w"
LINES = (PERMANENT, OF_RUN)
OUT, IN = 1, 2
# The relation of a row to the one it was merged into: no other link is named so.
MERGED = "merged"
# That of a dated row to the permanent word that lies over it.
UNDER = "under"
_UNTIL = struct.Struct("<dBBd")
POINTERS = ("supersedes", "superseded_by")


def reason_number(reason: object) -> int:
    """Return a reason as meta holds it.

    Raises:
        ValueError: It is none.
    """
    if reason not in REASONS:
        raise ValueError(f"reason must be one of {', '.join(REASONS)}, got {reason!r}")
    return REASONS.index(str(reason)) + 1


UPDATED, MERGED_REASON = reason_number("updated"), reason_number("merged")


class End(NamedTuple):
    """How the validity of a row ends: when, whether that was ahead of the clock, why, and when the store closed it."""

    at: float
    ahead: bool
    reason: int
    retired_at: float


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

    @property
    def index(self) -> str:
        """The index of `o:` that it is in; ``""`` for none."""
        return place_of(self.rest)[1]


class Part(NamedTuple):
    """A part of an index, as a look has found it: what bounds it, its entries, and the rows of these."""

    first: bytes
    last: bytes
    entries: Sequence[bytes]
    rows: Sequence[Stored]

    @property
    def letter(self) -> str:
        """What tells the index."""
        return self.first[:1].decode()


@dataclass(frozen=True, slots=True)
class Found:
    """A row, or a slot, with what stands in its lines and beside them.

    Attributes:
        row: What was asked for by its key.
        subject: Of the slot; ``""``: there is none.
        stands_for: What that is an alias of; ``""``: nothing.
        names: All aliases of the same subject.
    """

    row: Stored | None
    subject: str = ""
    stands_for: str = ""
    names: Sequence[str] = ()
    parts: Sequence[Part] = ()

    @property
    def canonical(self) -> str:
        """The subject that all names of it stand for."""
        return self.stands_for or self.subject

    def living(self, namespace: Namespace, key: str) -> Stored:
        """Return the row asked for by its key.

        Raises:
            MemoryNotFoundError: It is absent or expired.
        """
        if self.row is None or self.row.gone:
            raise MemoryNotFoundError(f"{namespace!r} has no memory {key!r}: it is absent or expired")
        return self.row

    def rows(self, index: str, run: str | None = None) -> list[Stored]:
        """Return the rows of an index that were told, living or gone, in their order."""
        found = {
            row.key: row
            for part in self.parts
            if part.letter == index
            for row in part.rows
            if index != OF_RUN or row.rest.get("run_id") == run
        }
        return sorted(found.values(), key=lambda row: (row.meta.valid_from, place_of(row.rest)[0]))


@dataclass(slots=True)
class Change:
    """A row to write; see `commit.lua`.

    Attributes:
        was: The row that is changed; ``None``: it is new.
        is_touched: Whether `commit.lua` changes it by itself, so that it is written also where it is as it was.
    """

    key: str
    meta: Meta
    rest: dict[str, Any]
    was: Stored | None = None
    value: bytes = b""
    search_index: bytes = b""
    type_name: str = ""
    sets_expiry: bool = False
    is_touched: bool = False

    def set(self, **meta: Any) -> None:
        """Change meta."""
        self.meta = self.meta._replace(**meta)

    def flag(self, flag: int, on: bool) -> None:
        """Set a flag, or take it away."""
        self.set(flags=self.meta.flags | flag if on else self.meta.flags & ~flag)

    @property
    def memory_type(self) -> str:
        """The type that it will have."""
        return self.type_name or (self.was.memory_type if self.was else "")

    @property
    def index(self) -> str:
        """The index that it belongs into by what it is."""
        if self.memory_type == HYPOTHESIS:
            return GUESS
        if "run_id" in self.rest:
            return OF_RUN
        return DATED if self.meta.flags & FLAG_DATED else PERMANENT

    @property
    def owner(self) -> tuple[Any, ...] | None:
        """What its line is of: a slot or a chain; ``None``: it stands alone."""
        if "chain" in self.rest:
            return (self.rest["chain"],)
        return (self.rest["subject"], self.rest.get("attribute", "")) if "subject" in self.rest else None

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to write."""
        if self.was is None or self.is_touched or self.value:
            return True
        return self.meta != self.was.meta or self.rest != self.was.rest

    def place(self, index: str, number: float = 0.0) -> None:
        """Put it into an index; the number 0: of this write."""
        self.rest["place"] = pack_place(number, index)

    def begun(self, now: float) -> bool:
        """Tell whether its validity has begun."""
        return has_begun(self.meta, now)

    def ended(self, now: float) -> bool:
        """Tell whether its validity has ended."""
        return has_ended(self.meta, now)

    def holds(self, now: float) -> bool:
        """Tell whether it has begun and neither ended nor been archived."""
        return self.begun(now) and not self.ended(now) and status_at(self.meta, now) == STATUS_ACTIVE

    @property
    def end(self) -> End:
        """Its own end, whatever cuts it before."""
        if "until" in self.rest:
            at, ahead, reason, retired = _UNTIL.unpack(self.rest["until"])
            return End(at, bool(ahead), reason, retired)
        meta = self.meta
        return End(meta.valid_until, bool(meta.flags & FLAG_END_AHEAD), meta.reason, meta.retired_at)

    def _end(self, end: End) -> None:
        archived = self.meta.status == STATUS_ARCHIVED
        status = STATUS_ARCHIVED if archived else STATUS_SUPERSEDED if end.reason else STATUS_ACTIVE
        self.set(valid_until=end.at, reason=end.reason, retired_at=end.retired_at, status=status)
        self.flag(FLAG_END_AHEAD, end.ahead)

    def end_itself(self, end: End) -> None:
        """Give it an end of its own; what cuts it has to cut it again."""
        self.rest.pop("until", None)
        self._end(end)

    def cut(self, at: float, ahead: bool, reason: int, now: float) -> None:
        """End it where another starts, unless it ends before."""
        own = self.end
        if own.at <= at or (ahead and own.at < FOREVER and not own.ahead):
            # It ends, or has ended, before.
            return self.end_itself(own)
        self._end(End(at, ahead, reason, now))
        self.rest["until"] = _UNTIL.pack(own.at, own.ahead, own.reason, own.retired_at)

    def cut_by(self, after: Change, reason: int, now: float) -> None:
        """End it where a row that follows it begins, unless it ends before."""
        self.cut(after.meta.valid_from, not after.begun(now), reason, now)

    def uncut(self) -> None:
        """Give it its own end back."""
        self.end_itself(self.end)

    def freeze(self, now: float) -> None:
        """Have it end for good where it is cut."""
        self.rest.pop("until", None)
        self.stamp(now)

    def stamp(self, now: float) -> None:
        """Note what has begun, or ended, by now."""
        if self.begun(now):
            self.flag(FLAG_AHEAD, False)
        if self.ended(now):
            self.flag(FLAG_END_AHEAD, False)


@dataclass(slots=True)
class Plan:
    """A change of one namespace, and what it was planned on.

    Attributes:
        now: When it was looked at.
        wanted: Keys of the rows to return.
        doomed: Keys of the rows to remove.
        silent: Whether these leave no tombstone, and nothing is added, so that it works at maxmemory.
        rows: What to write, by key.
        fields: What to write into ``s:``; ``b""`` drops a field.
        more: Entries of ``o:`` to add.
        less: Entries of ``o:`` to take away.
    """

    now: float
    wanted: list[str] = field(default_factory=list)
    doomed: list[str] = field(default_factory=list)
    silent: bool = False
    rows: dict[str, Change] = field(default_factory=dict)
    fields: dict[bytes, bytes] = field(default_factory=dict)
    more: dict[bytes, None] = field(default_factory=dict)
    less: dict[bytes, None] = field(default_factory=dict)
    _expected: dict[str, Meta | None] = field(default_factory=dict)
    _expected_fields: dict[bytes, bytes] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)
    _parts: dict[tuple[bytes, bytes], Sequence[bytes]] = field(default_factory=dict)
    _records: list[tuple[str, str, str, bytes]] = field(default_factory=list)
    _deadline: float = math.inf

    def rely_on(self, *rows: Stored) -> None:
        """Have the plan hold only as long as rows are as they were found, also by what time does to them."""
        for row in rows:
            self._expected[row.key] = row.meta
            if row.gone:
                self._gone.add(row.key)
                continue
            times = (row.meta.valid_from, row.meta.valid_until, row.meta.expires_at)
            self._deadline = min([self._deadline, *(time for time in times if time > self.now)])

    def rely_on_absence(self, key: str) -> None:
        """Have it hold only as long as there is no such row."""
        self._expected[key] = None

    def rely_on_field(self, name: bytes, value: bytes) -> None:
        """Have it hold only as long as a field of ``s:`` is this; ``b""``: absent."""
        self._expected_fields[name] = value

    def rely_on_part(self, first: bytes, last: bytes, entries: Sequence[bytes]) -> None:
        """Have it hold only as long as a part of ``o:`` holds exactly these entries."""
        self._parts[first, last] = entries

    def rely_on_found(self, found: Found) -> None:
        """Have it hold only as long as lines, and what stands beside them, are as they were found."""
        for part in found.parts:
            self.rely_on_part(part.first, part.last, part.entries)
            self.rely_on(*(row for row in part.rows if not row.gone))
        if found.subject:
            self.rely_on_field(alias_field(found.subject), encode_text(found.stands_for))
            self.rely_on_names(found.canonical, found.names)

    def rely_on_silence(self, subject: str) -> None:
        """Have it hold only as long as nothing stands in the lines of a subject, or beside them."""
        for index in (PERMANENT, OF_RUN, DATED, GUESS, WITHDRAWN):
            start = index.encode() + b"\0" + encode_text(subject) + b"\0"
            self.rely_on_part(start, start + b"\xff" * 9, ())

    def rely_on_names(self, subject: str, names: Iterable[str]) -> None:
        """Have it hold only as long as these names stand for a subject."""
        start = name_entry(subject, "")
        self.rely_on_part(start, start + b"\xff" * 9, [name_entry(subject, name) for name in names])

    def change(self, row: Stored, **meta: Any) -> Change:
        """Change a row, on top of what is planned for it already; its `rest` may be changed in place."""
        self.rely_on(row)
        change = self.rows.get(row.key)
        if change is None:
            change = self.rows[row.key] = Change(row.key, row.meta, dict(row.rest), row)
        if meta:
            change.set(**meta)
        return change

    def record(self, action: str, key: str = "", reason: str = "", **details: Any) -> None:
        """Have it audited."""
        known = {name: value for name, value in details.items() if value is not None}
        self._records.append((action, key, reason, encode_json(known)))

    def link(self, key: str, relation: str, other: str) -> None:
        """Link a row to another."""
        self.more |= dict.fromkeys(link_entries(key, relation, other))

    def unlink(self, key: str, relation: str, other: str) -> None:
        """Take a link away."""
        self.less |= dict.fromkeys(link_entries(key, relation, other))

    @property
    def changes(self) -> bool:
        """Whether it changes anything."""
        return bool(self.fields or self.doomed or self.more or self.less) or any(
            change.is_changed for change in self.rows.values()
        )

    def args(self, actor: str, noted: Sequence[Sequence[scripts.Arg]] = ()) -> list[scripts.Arg]:
        """Return it as the commit script reads it; `noted` are records that it carries beside its own."""
        args: list[scripts.Arg] = ["" if self._deadline == math.inf else f"{self._deadline:.3f}"]

        def add(rows: Sequence[Sequence[scripts.Arg]]) -> None:
            args.append(len(rows))
            for row in rows:
                args.extend(row)

        add(
            [
                (encode_text(key), "", "")
                if meta is None
                # What has expired, and is not swept yet, may be told from what lives.
                else (encode_text(key), f"{'x' if key in self._gone else ''}{meta.content:.0f}", meta.revision)
                for key, meta in self._expected.items()
            ]
        )
        add(list(self._expected_fields.items()))
        add([(first, last, len(entries), *entries) for (first, last), entries in self._parts.items()])
        add(
            [
                (
                    encode_text(change.key),
                    change.meta.pack(),
                    pack_rest(change.rest),
                    change.value,
                    change.search_index,
                    encode_text(change.type_name),
                    ("e" if change.sets_expiry else "") + ("x" if change.was is not None and change.was.gone else ""),
                )
                for change in self.rows.values()
                if change.is_changed
            ]
        )
        add(list(self.fields.items()))
        add([(entry,) for entry in self.more])
        add([(entry,) for entry in self.less])
        add(
            [
                (encode_text(actor), action, encode_text(key), reason, details)
                for action, key, reason, details in self._records
            ]
            + list(noted)
        )
        add([(encode_text(key),) for key in self.doomed])
        args.append(int(self.silent))
        add([(encode_text(key),) for key in self.wanted])
        return args


def alias_field(name: str) -> bytes:
    """Return the field of ``s:`` that says what a name stands for."""
    return b"a" + encode_text(name)


def undo_field(name: str) -> bytes:
    """Return the field of ``s:`` that holds what `unalias` needs to undo a merge."""
    return b"u" + encode_text(name)


def name_entry(subject: str, name: str) -> bytes:
    """Return the entry of ``o:`` for a name of a subject."""
    return b"g" + encode_text(subject) + b"\0" + encode_text(name)


def slot_owner(subject: str, attribute: str) -> bytes:
    """Return what the entries of a slot's indexes have behind their letter."""
    return b"\0" + encode_text(subject) + b"\0" + encode_text(attribute) + b"\0"


def links_of(key: str) -> bytes:
    """Return what the entries of a row's links begin with."""
    name = encode_text(key)
    return b"k" + struct.pack(">I", len(name)) + name


def link_entries(key: str, relation: str, other: str) -> list[bytes]:
    """Return the two halves of a link, as they lie in ``o:``."""
    return [
        links_of(one) + bytes([direction]) + relation.encode() + b"\0" + encode_text(far)
        for direction, one, far in ((OUT, key, other), (IN, other, key))
    ]


def sortable(number: float) -> bytes:
    """Return a number as bytes that sort as it does."""
    packed = struct.pack(">d", number)
    if packed[0] < 128:
        return bytes([packed[0] + 128]) + packed[1:]
    return bytes(255 - byte for byte in packed)
