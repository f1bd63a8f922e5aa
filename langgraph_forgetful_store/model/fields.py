"""The fields of a memory: one table.

A field is one line: of `WritableFields` where a write may name it, of `Lifecycle` where the store keeps it by itself.
Whatever reads, writes, filters, proposes, asks for or shows fields goes by this table.
"""

# ruff: noqa: RUF009 (what declares a field returns dataclasses.field)
from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self, TypedDict, cast

from langgraph_forgetful_store.backend.codec import FLAG_PINNED, SCRIPT_FIELDS, Meta
from langgraph_forgetful_store.errors import CorruptRecordError
from langgraph_forgetful_store.model.checks import (
    check_bool,
    check_label,
    check_moment,
    check_text,
    check_texts,
    check_type_name,
    fraction,
    moment,
)
from langgraph_forgetful_store.model.memory_types import GENERIC
from langgraph_forgetful_store.model.status import STATUSES, MemoryStatus

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC)
# What a source is trusted, where a write does not say it; and what any other is.
SOURCE_CONFIDENCE: Mapping[str, float] = MappingProxyType({"user": 0.95, "tool": 0.95, "database": 0.95, "model": 0.7})
DEFAULT_CONFIDENCE = 0.8


class Reason(StrEnum):
    """Why a memory was closed; meta holds the place in this order, from 1 on."""

    UPDATED = "updated"
    CORRECTED = "corrected"
    CONTRADICTED = "contradicted"
    NEGATED = "negated"
    MERGED = "merged"
    RESOLVED = "resolved"


REASONS = tuple(Reason)


# Most memories were last written when they were made, and the same ones are read again and again.
@lru_cache(maxsize=16_384)
def to_datetime(ms: float) -> datetime:
    """Turn ms since the epoch into an aware UTC datetime, the last one possible for what lies beyond.

    Raises:
        CorruptRecordError: It is NaN.
    """
    try:
        return _EPOCH + ms * _MILLISECOND
    except OverflowError:
        return _LAST
    except ValueError as error:
        raise CorruptRecordError("a row's meta holds a time that is NaN: written by something else?") from error


class Row(NamedTuple):
    """What a row holds beside its value, as it was read.

    Attributes:
        meta: Unpacked.
        rest: The other fields, packed.
        memory_type: The name of its type.
        more_accesses: What is counted in this process and not written yet.
    """

    meta: Meta
    rest: bytes | None = None
    memory_type: str = GENERIC
    more_accesses: int = 0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value.

    Attributes:
        check: Returns what a write names as it is stored, given it and what it is called in a message.
        read: Returns it as Python holds it.
        asked: How a model is asked for it, as a type.
    """

    check: Callable[[object, str], Any]
    read: Callable[[object, str], Any]
    asked: Any


TEXT = Kind(check_text, check_text, str | None)
LABEL = Kind(check_label, check_label, str | None)
TYPE_NAME = Kind(check_type_name, check_type_name, str | None)
TEXTS = Kind(check_texts, lambda value, name: tuple(check_texts(value, name)), list[str] | None)
FRACTION = Kind(fraction, fraction, float | None)
MOMENT = Kind(moment, check_moment, str | None)
FLAG = Kind(check_bool, check_bool, bool | None)


@dataclass(frozen=True, slots=True)
class ToolArgument:
    """How a field is an argument of the tool that remembers.

    Attributes:
        description: What the model is told of it.
        default: What it is where the model says nothing; ``None``: not given.
        asked: What kind of value it may give, where not any of the field's kind.
    """

    description: str
    default: Any = None
    asked: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """What there is to know of a field.

    Attributes:
        name: Its name.
        doc: What it says of a memory.
        default: What it is where nothing is stored.
        kind: Of the values that a write may name; ``None``: a write names none.
        number: The id it is stored under beside meta, which was given once and is never given again; ``None``: it is
            part of meta.
        as_text: Whether it is stored as plain text, since scripts follow it; else as JSON.
        of_meta: Returns it, where it is part of meta.
        is_time: Whether it is a point in time.
        filtered: Whether a filter may ask for it.
        inherited: Whether a successor takes it over from its predecessor, where the call says nothing else.
        patched: Whether the script of a put can write it without a look at what is there.
        tool: How it is an argument of the tool that remembers; ``None``: it is none.
        told: What a prompt calls it, where it is told whenever it is not the default; ``None``: it isn't, or is told in
            words of its own (see `prompt.rendering`).
    """

    name: str = ""
    doc: str
    default: Any = None
    kind: Kind | None = None
    number: int | None = None
    as_text: bool = False
    of_meta: Callable[[Row], Any] | None = None
    is_time: bool = False
    filtered: bool = False
    inherited: bool = False
    patched: bool = False
    tool: ToolArgument | None = None
    told: str | None = None


def _written(doc: str, kind: Kind, number: int | None = None, *, default: Any = None, **more: Any) -> Any:
    """Declare a field that a write may name; all but `default` is as in `FieldSpec`."""
    more.setdefault("filtered", number is not None)
    more.setdefault("patched", number is not None and not more.get("as_text"))
    return field(default=default, metadata={"spec": FieldSpec(doc=doc, kind=kind, number=number, **more)})


def _kept(doc: str, default: Any = None, **more: Any) -> Any:
    """Declare a field that the store keeps by itself."""
    return field(default=default, metadata={"spec": FieldSpec(doc=doc, **more)})


def _time(name: str) -> dict[str, Any]:
    def of_meta(row: Row) -> datetime | None:
        ms = getattr(row.meta, name)
        return to_datetime(ms) if math.isfinite(ms) else None

    return {"of_meta": of_meta, "is_time": True}


DATE = "a date such as 2026-05-01, or a time with its offset such as 2026-05-01T10:00:00+02:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableFields:
    """The fields that a write may name; ``None`` and ``()``: it does not."""

    memory_type: str | None = _written(
        "The name of its type, which says how long it lives and how fast it fades.",
        TYPE_NAME,
        of_meta=lambda row: row.memory_type,
        filtered=True,
        patched=True,
        told="type",
        tool=ToolArgument(
            "identity (who the user is, allergies), preference, fact, procedural (how to do something), episodic (what"
            " happened), intent, commitment, task, opinion, emotion, or generic. No other name, unless you were told of"
            " it.",
            GENERIC,
            str,
        ),
    )
    importance: float | None = _written(
        "How much it matters, from 0 to 1.",
        FRACTION,
        of_meta=lambda row: row.meta.importance,
        filtered=True,
        patched=True,
        tool=ToolArgument("From 0 to 1; 0.5 is usual, 0.8 and more critical."),
    )
    confidence: float | None = _written(
        "How sure it is, from 0 to 1.",
        FRACTION,
        of_meta=lambda row: row.meta.confidence,
        filtered=True,
        patched=True,
        tool=ToolArgument("From 0 to 1; below 0.5 where it was said with doubt. Leave out otherwise."),
    )
    source: str | None = _written(
        "Where it comes from: ``user``, ``tool``, ``database``, ``model``, or any other name.",
        TEXT,
        1,
        tool=ToolArgument(
            "Who says so: the user in so many words, a tool's result, or you (model), by inference.",
            "model",
            Literal["user", "tool", "model"],
        ),
    )
    source_refs: tuple[str, ...] = _written(
        "Names of what it was taken from, such as ids of messages.", TEXTS, SCRIPT_FIELDS["source_refs"], default=()
    )
    tags: tuple[str, ...] = _written(
        "Labels by which it is found again.",
        TEXTS,
        3,
        default=(),
        inherited=True,
        tool=ToolArgument("Names by which it is found again."),
    )
    preconditions: tuple[str, ...] = _written(
        "What has to hold before it is acted on.",
        TEXTS,
        4,
        default=(),
        tool=ToolArgument("For memory_type procedural: what has to hold before it is followed."),
    )
    run_id: str | None = _written(
        "The run that it is bound to; it is recalled in that run alone.",
        TEXT,
        SCRIPT_FIELDS["run_id"],
        inherited=True,
        patched=False,
    )
    subject: str | None = _written(
        "Whom or what it is about; with `attribute` it names a slot that has one current memory.",
        LABEL,
        SCRIPT_FIELDS["subject"],
        as_text=True,
        inherited=True,
        tool=ToolArgument("Whom or what it is about, such as `user`; only together with attribute."),
    )
    attribute: str | None = _written(
        "What it says of the subject, such as ``city``; only together with `subject`.",
        LABEL,
        SCRIPT_FIELDS["attribute"],
        as_text=True,
        inherited=True,
        tool=ToolArgument(
            "What has one value at a time, such as `home_city`: the new value replaces the old one. Only together with"
            " subject."
        ),
    )
    valid_from: datetime | None = _written(
        "From when it holds in the world; a write takes an aware datetime or ISO 8601 text.",
        MOMENT,
        **_time("valid_from"),
        tool=ToolArgument(f"From when it holds, where that is not now: {DATE}."),
    )
    valid_until: datetime | None = _written(
        "Until when it holds in the world, exclusive; a write takes the same.", MOMENT, **_time("valid_until")
    )
    pinned: bool | None = _written(
        "Whether it is kept from expiring and from every strategy that forgets.",
        FLAG,
        of_meta=lambda row: bool(row.meta.flags & FLAG_PINNED),
        filtered=True,
    )
    presumed_type: str | None = _written(
        "What type a ``hypothesis`` becomes when it is confirmed.", TYPE_NAME, 17, filtered=False
    )


class WriteOptions(TypedDict, total=False):
    """What a write may say about a memory beside its content; see `ForgetfulStore.remember`.

    What is left out, or ``None``, is what the memory's type, the row it replaces or the store says; ``ttl`` alone tells
    the two apart.
    """

    memory_type: str | None
    importance: float | None
    confidence: float | None
    source: str | None
    source_refs: Iterable[str] | None
    tags: Iterable[str] | None
    preconditions: Iterable[str] | None
    run_id: str | None
    subject: str | None
    attribute: str | None
    valid_from: str | datetime | None
    valid_until: str | datetime | None
    pinned: bool | None
    presumed_type: str | None
    index: Literal[False] | list[str] | None
    ttl: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle(WritableFields):
    """The lifecycle of a memory; ``None`` is "never" or "no end"."""

    # What a memory always has, whether or not a write named it.
    memory_type: str = GENERIC
    importance: float = 0.5
    confidence: float = DEFAULT_CONFIDENCE
    pinned: bool = False

    status: MemoryStatus = _kept(
        "What the memory counts as now.", MemoryStatus.ACTIVE, of_meta=lambda row: STATUSES[row.meta.status]
    )
    expires_at: datetime | None = _kept(
        "From this millisecond on it is gone, or archived, as its type says; unless a read refreshes its TTL.",
        **_time("expires_at"),
    )
    recorded_at: datetime | None = _kept("When the store learned it.", **_time("recorded_at"))
    retired_at: datetime | None = _kept("When the store closed it.", **_time("retired_at"))
    access_count: int = _kept(
        "How often it was read.", 0, of_meta=lambda row: row.meta.access_count + row.more_accesses, filtered=True
    )
    last_accessed_at: datetime | None = _kept("When it was read last.", **_time("accessed_at"))
    confirmed_at: datetime | None = _kept("When it was confirmed last.", **_time("confirmed_at"))
    version: int = _kept("How often its content was written.", 1, of_meta=lambda row: row.meta.version, filtered=True)
    supersedes: str | None = _kept(
        "The key of what it replaced.", number=SCRIPT_FIELDS["supersedes"], as_text=True, filtered=True
    )
    superseded_by: str | None = _kept(
        "The key of what replaced it.", number=SCRIPT_FIELDS["superseded_by"], as_text=True, filtered=True
    )
    reason: str | None = _kept(
        "Why it was closed.",
        of_meta=lambda row: str(REASONS[row.meta.reason - 1]) if 0 < row.meta.reason <= len(REASONS) else None,
    )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild what `dict` gave.

        Args:
            data: That dict, in which what is left out is the default, and unknown keys are ignored.
        """
        given = {name: value for name, value in data.items() if name in FIELDS}
        for name, value in given.items():
            if name == "status":
                given[name] = MemoryStatus(value)
            elif FIELDS[name].is_time and isinstance(value, str):
                given[name] = datetime.fromisoformat(value)
            elif isinstance(value, list):
                given[name] = tuple(value)
        return cls(**given)

    def dict(self) -> dict[str, Any]:
        """Return the status, and what differs from the defaults, as plain JSON types."""
        compact: dict[str, Any] = {"status": str(self.status)}
        for name, spec in FIELDS.items():
            value = getattr(self, name)
            # These repeat created_at in all but few rows, and callers show this dict to a model.
            if value != spec.default and name not in {"status", *REPEATED}:
                compact[name] = plain(value)
        return compact


REPEATED = ("recorded_at", "valid_from")
# Parts of records that no reader is shown; those that scripts read are named by `SCRIPT_FIELDS`. ``trail``: what the
# store has thought of the row and when (see `model.status`); ``done``: under which idempotency keys it was changed.
# ``place``, ``chain``, ``until``, ``under`` and the texts below: where it stands among others (see `operations.plan`).
HIDDEN: Mapping[str, int] = MappingProxyType(
    {
        "done": 11,
        **{name: SCRIPT_FIELDS[name] for name in ("trail", "place", "chain", "until", "under", "took")},
        "canonical": 14,
    }
)
# What its subject stands for, where it is an alias; the plan that it corrected.
HIDDEN_TEXTS = frozenset({"canonical", "took"})


def texts_in(value: Any) -> tuple[str, ...]:
    """Return the texts that a field's value holds."""
    held = value if isinstance(value, list | tuple) else (value,)
    return tuple(part for part in held if isinstance(part, str) and part)


def plain(value: Any) -> Any:
    """Return a field's value as plain JSON types."""
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def _table() -> dict[str, FieldSpec]:
    written = {one.name: cast(FieldSpec, one.metadata["spec"]) for one in fields(WritableFields)}
    return {
        one.name: replace(one.metadata.get("spec") or written[one.name], name=one.name, default=one.default)
        for one in fields(Lifecycle)
    }


FIELDS: Mapping[str, FieldSpec] = MappingProxyType(_table())
WRITABLE: Mapping[str, FieldSpec] = MappingProxyType({one.name: FIELDS[one.name] for one in fields(WritableFields)})
# Those that lie beside meta, by their ids.
NUMBERS: Mapping[str, int] = MappingProxyType(
    {name: spec.number for name, spec in FIELDS.items() if spec.number is not None}
)
FILTERED = tuple(name for name, spec in FIELDS.items() if spec.filtered)
INHERITED = tuple(name for name, spec in FIELDS.items() if spec.inherited)
PATCHED = frozenset(name for name, spec in FIELDS.items() if spec.patched)


def documented(kind: type[Any], docs: Mapping[str, str]) -> None:
    """Add what the table says of fields to the docstring of a class that has them.

    Args:
        kind: The class; where its docstring has a section of attributes, they are added to that.
        docs: What is said of each.
    """
    if kind.__doc__:
        text = inspect.cleandoc(kind.__doc__)
        heading = [] if "\nAttributes:\n" in text else ["", "Attributes:"]
        kind.__doc__ = "\n".join([text, *heading, *(f"    {name}: {doc}" for name, doc in docs.items())])


DOCS: Mapping[str, str] = MappingProxyType({name: spec.doc for name, spec in WRITABLE.items()})
documented(Lifecycle, {name: spec.doc for name, spec in FIELDS.items()})
documented(
    WriteOptions,
    {
        **DOCS,
        "index": "The field paths that are embedded; ``False`` embeds nothing, ``None`` what the store's config says.",
        "ttl": "Minutes until it expires; ``None``: never. Left out: what its type says, else the store's default.",
    },
)
