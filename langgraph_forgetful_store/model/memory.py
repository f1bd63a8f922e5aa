"""What reads return: LangGraph's items, with the lifecycle of a memory beside the value."""

from __future__ import annotations

import base64
import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from langgraph.store.base import Item, SearchItem

from langgraph_forgetful_store.backend.keys import decode_text, encode_namespace, encode_text
from langgraph_forgetful_store.model.fields import FIELDS, REPEATED, Lifecycle, Row, plain, to_datetime
from langgraph_forgetful_store.model.packing import unpack_rest


def read_lifecycle(row: Row) -> Lifecycle:
    """Read the lifecycle of a memory from its row."""
    rest = unpack_rest(row.rest)
    given = {}
    for name, spec in FIELDS.items():
        if spec.of_meta is not None:
            given[name] = spec.of_meta(row)
        elif (value := rest.get(name)) is not None:
            given[name] = tuple(value) if isinstance(value, list) else value
    return Lifecycle(**given)


def _read(item: MemoryItem | MemorySearchItem) -> Lifecycle:
    # Most readers never look, so meta is turned into a Lifecycle when it is first asked for.
    if isinstance(item._memory, Row):
        item._memory = read_lifecycle(item._memory)
    return item._memory


def _compact(item: MemoryItem | MemorySearchItem) -> dict[str, Any]:
    memory = item.memory.dict()
    for name in REPEATED:
        if (time := getattr(item.memory, name)) != item.created_at:
            memory[name] = plain(time)
    return memory


def _lifecycle(memory: Lifecycle | Row | Mapping[str, Any] | None, created_at: datetime) -> Lifecycle | Row:
    if isinstance(memory, (Row, Lifecycle)):
        return memory
    return Lifecycle.from_dict({**dict.fromkeys(REPEATED, created_at), **(memory or {})})


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


def recall_id_of(items: Sequence[MemoryItem | MemorySearchItem]) -> str | None:
    """Return the id of a recall of these alone; ``None`` where none of them was found by one."""
    lives = [
        life
        for item in items
        if isinstance(item, MemorySearchItem) and item.recalled is not None
        for life in item.recalled.lives
        if life[:2] == (encode_namespace(item.namespace), encode_text(item.key))
    ]
    return Recalled(lives).id if lives else None
