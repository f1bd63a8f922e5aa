"""What reads return: LangGraph's items, with the lifecycle of a memory beside the value."""

from __future__ import annotations

import base64
import json
import math
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, Self

from langgraph.store.base import Item, SearchItem

from langgraph_forgetful_store.backend.codec import FLAG_PINNED, Meta
from langgraph_forgetful_store.backend.keys import decode_text, encode_text
from langgraph_forgetful_store.errors import CorruptRecordError
from langgraph_forgetful_store.model.lifecycle import REASONS, unpack_rest
from langgraph_forgetful_store.model.memory_types import GENERIC

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC)


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


def _moment(ms: float) -> datetime | None:
    return to_datetime(ms) if math.isfinite(ms) else None


class MemoryStatus(StrEnum):
    """What a memory counts as."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    SUPERSEDED = "superseded"


STATUSES = tuple(MemoryStatus)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """The lifecycle of a memory; ``None`` is "never" or "no end".

    Attributes:
        status: What the memory counts as now.
        expires_at: From this millisecond on it is gone, or archived, as its type says; unless a read refreshes its TTL.
        recorded_at: When the store learned it.
        retired_at: When the store closed it.
        valid_from: From when on it holds in the world.
        valid_until: Until when it holds in the world, exclusive.
        subject: Whom or what its slot is about.
        attribute: What its slot says of the subject.
        supersedes: The key of what it replaced.
        superseded_by: The key of what replaced it.
        reason: Why it was closed.
        pinned: Whether no strategy and no TTL touches it.
        access_count: How often it was read.
        last_accessed_at: When it was read last.
        version: How often its content was written.
        memory_type: What kind of memory it is.
        importance: How much it matters, from 0 to 1.
        confidence: How sure it is, from 0 to 1.
        source: Where it comes from: ``user``, ``tool``, ``database``, ``model``, or any other name.
        source_refs: What it was taken from.
        tags: Labels by which it is found again.
        preconditions: What has to hold before it is acted on.
        run_id: The run that it is bound to.
        confirmed_at: When it was confirmed last.
    """

    status: MemoryStatus = MemoryStatus.ACTIVE
    expires_at: datetime | None = None
    recorded_at: datetime | None = None
    access_count: int = 0
    last_accessed_at: datetime | None = None
    version: int = 1
    memory_type: str = GENERIC
    importance: float = 0.5
    confidence: float = 0.8
    source: str | None = None
    source_refs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    preconditions: tuple[str, ...] = ()
    run_id: str | None = None
    confirmed_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    retired_at: datetime | None = None
    subject: str | None = None
    attribute: str | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    reason: str | None = None
    pinned: bool = False

    @classmethod
    def of(cls, row: Row) -> Self:
        """Read the lifecycle from a stored row.

        Args:
            row: What a row holds beside its value.
        """
        meta = row.meta
        rest = unpack_rest(row.rest)
        return cls(
            status=STATUSES[meta.status],
            expires_at=_moment(meta.expires_at),
            recorded_at=_moment(meta.recorded_at),
            access_count=meta.access_count + row.more_accesses,
            last_accessed_at=_moment(meta.accessed_at),
            version=meta.version,
            memory_type=row.memory_type,
            importance=meta.importance,
            confidence=meta.confidence,
            confirmed_at=_moment(meta.confirmed_at),
            source=rest.get("source"),
            source_refs=tuple(rest.get("source_refs", ())),
            tags=tuple(rest.get("tags", ())),
            preconditions=tuple(rest.get("preconditions", ())),
            run_id=rest.get("run_id"),
            valid_from=_moment(meta.valid_from),
            valid_until=_moment(meta.valid_until),
            retired_at=_moment(meta.retired_at),
            subject=rest.get("subject"),
            attribute=rest.get("attribute"),
            supersedes=rest.get("supersedes"),
            superseded_by=rest.get("superseded_by"),
            reason=REASONS[meta.reason - 1] if 0 < meta.reason <= len(REASONS) else None,
            pinned=bool(meta.flags & FLAG_PINNED),
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild what `dict` gave.

        Args:
            data: That dict, in which what is left out is the default, and unknown keys are ignored.
        """
        names = {field.name for field in fields(cls)}
        given = {name: value for name, value in data.items() if name in names}
        for name, value in given.items():
            if name == "status":
                given[name] = MemoryStatus(value)
            elif name.endswith(("_at", "_from", "_until")) and isinstance(value, str):
                given[name] = datetime.fromisoformat(value)
            elif isinstance(value, list):
                given[name] = tuple(value)
        return cls(**given)

    def dict(self) -> dict[str, Any]:
        """Return the status, and what differs from the defaults, as plain JSON types."""
        compact: dict[str, Any] = {"status": str(self.status)}
        for field in fields(self):
            value = getattr(self, field.name)
            # These repeat created_at in all but few rows, and callers show this dict to a model.
            if value != field.default and field.name not in {"status", *_REPEATED}:
                compact[field.name] = _plain(value)
        return compact


_REPEATED = ("recorded_at", "valid_from")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def _read(item: MemoryItem | MemorySearchItem) -> Lifecycle:
    # Most readers never look, so meta is turned into a Lifecycle when it is first asked for.
    if isinstance(item._memory, Row):
        item._memory = Lifecycle.of(item._memory)
    return item._memory


def _compact(item: MemoryItem | MemorySearchItem) -> dict[str, Any]:
    memory = item.memory.dict()
    for name in _REPEATED:
        if (time := getattr(item.memory, name)) != item.created_at:
            memory[name] = None if time is None else time.isoformat()
    return memory


def _lifecycle(memory: Lifecycle | Row | Mapping[str, Any] | None, created_at: datetime) -> Lifecycle | Row:
    if isinstance(memory, (Row, Lifecycle)):
        return memory
    return Lifecycle.from_dict({**dict.fromkeys(_REPEATED, created_at), **(memory or {})})


class Recalled:
    """The rows that one recall has returned, and its id, which is made when it is first asked for."""

    __slots__ = ("_id", "lives")

    def __init__(self, lives: Sequence[tuple[bytes, bytes, float]]) -> None:
        self.lives = lives
        self._id: str | None = None

    @property
    def id(self) -> str:
        """A token without spaces that holds namespaces, keys and times of creation."""
        if self._id is None:
            rows = [[decode_text(name) for name in life[:2]] + [life[2]] for life in self.lives]
            plain = json.dumps([uuid.uuid4().hex[:8], rows], separators=(",", ":")).encode()
            self._id = base64.urlsafe_b64encode(zlib.compress(plain)).decode()
        return self._id


def read_recall_id(recall_id: object) -> list[tuple[bytes, bytes, float]]:
    """Return the rows that a recall's id names.

    Raises:
        ValueError: It is no such id.
    """
    try:
        assert isinstance(recall_id, str)
        _, rows = json.loads(zlib.decompress(base64.urlsafe_b64decode(recall_id.encode())))
        return [(encode_text(namespace), encode_text(key), float(created)) for namespace, key, created in rows]
    except Exception as error:
        raise ValueError(f"recall_id must be the recall_id of an item that was recalled, got {recall_id!r}") from error


class MemoryItem(Item):
    """LangGraph's `Item`, with the lifecycle of the memory as `memory`.

    Args:
        value: What was stored, as a dict of JSON types.
        key: The memory's key in its namespace.
        namespace: The namespace that holds the memory.
        created_at: When the key was first written.
        updated_at: When the value was written last.
        memory: The lifecycle, or the dict that its `dict` gave; ``None``: that of a memory with nothing said about it.
    """

    __slots__ = ("_memory",)

    def __init__(
        self,
        *,
        value: dict[str, Any],
        key: str,
        namespace: tuple[str, ...],
        created_at: datetime,
        updated_at: datetime,
        memory: Lifecycle | Row | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(value=value, key=key, namespace=namespace, created_at=created_at, updated_at=updated_at)
        self._memory = _lifecycle(memory, self.created_at)

    @classmethod
    def of_row(cls, namespace: tuple[str, ...], key: str, value: dict[str, Any], row: Row) -> Self:
        """Make an item of a stored row.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            value: What was stored, decoded.
            row: What the row holds beside its value.
        """
        return cls(
            value=value,
            key=key,
            namespace=namespace,
            created_at=to_datetime(row.meta.created_at),
            updated_at=to_datetime(row.meta.updated_at),
            memory=row,
        )

    @property
    def memory(self) -> Lifecycle:
        """The lifecycle of this memory, beside its value."""
        return _read(self)

    def dict(self) -> dict[str, Any]:
        """Return plain JSON types, from which ``MemoryItem(**...)`` rebuilds the item."""
        return {**super().dict(), "memory": _compact(self)}

    def __repr__(self) -> str:
        return f"MemoryItem({', '.join(f'{name}={value!r}' for name, value in self.dict().items())})"


class MemorySearchItem(SearchItem):
    """LangGraph's `SearchItem`, with the lifecycle of the memory as `memory`.

    Args:
        namespace: The namespace that holds the memory.
        key: The memory's key in its namespace.
        value: What was stored, as a dict of JSON types.
        created_at: When the key was first written.
        updated_at: When the value was written last.
        score: What the scoring preset gave it; ``None`` where nothing was compared.
        memory: The lifecycle, or the dict that its `dict` gave; ``None``: that of a memory with nothing said about it.
        similarity: The best cosine of its vectors with the query; ``None`` where there is nothing to compare.
        score_details: How the score came about, where the search was asked to explain.

    Attributes:
        recalled: The memories that were returned together with it.
    """

    __slots__ = ("_memory", "recalled", "score_details", "similarity")

    def __init__(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: dict[str, Any],
        created_at: datetime,
        updated_at: datetime,
        score: float | None = None,
        memory: Lifecycle | Row | Mapping[str, Any] | None = None,
        similarity: float | None = None,
        score_details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(namespace, key, value, created_at, updated_at, score)
        self._memory = _lifecycle(memory, self.created_at)
        self.similarity: float | None = similarity
        self.score_details: dict[str, Any] | None = score_details
        self.recalled: Recalled | None = None

    @classmethod
    def of_row(
        cls,
        namespace: tuple[str, ...],
        key: str,
        value: dict[str, Any],
        created_at: datetime,
        updated_at: datetime,
        score: float | None,
        row: Row,
        similarity: float | None,
        score_details: dict[str, Any] | None,
    ) -> Self:
        """Make an item of what needs no check; three constructors in a row would take a tenth of a search.

        Args:
            namespace: The namespace that holds the memory.
            key: The memory's key in its namespace.
            value: What was stored, decoded.
            created_at: When the key was first written.
            updated_at: When the value was written last.
            score: What the scoring preset gave it.
            row: What the row holds beside its value.
            similarity: The best cosine of its vectors with the query.
            score_details: How the score came about.
        """
        item = object.__new__(cls)
        item.namespace, item.key, item.value = namespace, key, value
        item.created_at, item.updated_at, item.score = created_at, updated_at, score
        item._memory, item.similarity, item.score_details, item.recalled = row, similarity, score_details, None
        return item

    @property
    def recall_id(self) -> str | None:
        """What `ForgetfulStore.feedback` is given: it names all that this item was recalled with.

        It holds what it names, so it is valid in any process, and for as long as the memories live.
        """
        return None if self.recalled is None else self.recalled.id

    @property
    def memory(self) -> Lifecycle:
        """The lifecycle of this memory, beside its value."""
        return _read(self)

    def dict(self) -> dict[str, Any]:
        """Return plain JSON types, from which ``MemorySearchItem(**...)`` rebuilds the item."""
        plain = {**super().dict(), "memory": _compact(self)}
        if self.score_details is not None:
            plain |= {"similarity": self.similarity, "score_details": self.score_details}
        return plain

    def __repr__(self) -> str:
        return f"MemorySearchItem({', '.join(f'{name}={value!r}' for name, value in self.dict().items())})"
