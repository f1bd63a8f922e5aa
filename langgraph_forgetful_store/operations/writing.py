"""Writes that know the lifecycle: `remember`, `supersede`, and puts that name a slot, an interval or a pin."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from langgraph.store.base import NOT_PROVIDED, get_text_at_path

from langgraph_forgetful_store.backend.codec import (
    FLAG_ABSOLUTE_TTL,
    FLAG_ARCHIVE_ON_EXPIRY,
    FLAG_PINNED,
    FLAG_RUN,
    STATUS_ACTIVE,
    Matrix,
    Meta,
    dump_value,
    load_value,
)
from langgraph_forgetful_store.backend.embedding import NO_VECTORS
from langgraph_forgetful_store.backend.flow import Embed, Flow
from langgraph_forgetful_store.model.checks import Namespace, check_namespace, check_text, ttl_to_ms
from langgraph_forgetful_store.model.fields import DEFAULT_CONFIDENCE, INHERITED, WRITABLE
from langgraph_forgetful_store.model.memory_types import GENERIC, expiry_flags, lifetime
from langgraph_forgetful_store.model.packing import Patch
from langgraph_forgetful_store.operations.commit import (
    NOW,
    Change,
    Plan,
    Stored,
)
from langgraph_forgetful_store.operations.put import Put, index_paths
from langgraph_forgetful_store.operations.session import Session, open_store

_NEW = Meta(
    created_at=NOW,
    updated_at=NOW,
    expires_at=NOW,
    ttl=math.inf,
    content=0.0,
    recorded_at=NOW,
    retired_at=math.inf,
    valid_from=NOW,
    valid_until=math.inf,
    accessed_at=-math.inf,
    confirmed_at=-math.inf,
    importance=0.5,
    confidence=DEFAULT_CONFIDENCE,
    boosted_at=NOW,
    access_count=0,
    version=1,
    value_bytes=0,
    memory_type=0,
    flags=0,
    status=STATUS_ACTIVE,
    reason=0,
)
WRITE_OPTIONS = (*WRITABLE, "index", "ttl")


@dataclass(slots=True)
class Writing:
    """A checked write.

    Attributes:
        value: As JSON.
        ttl: In ms; ``None``: never; `NOT_PROVIDED`: what the type says, or the store.
        texts: What is to be embedded.
        vectors: Of the texts, concatenated, once they are known.
    """

    namespace: Namespace
    key: str
    value: bytes
    patch: Patch
    ttl: Any
    texts: list[str] = field(default_factory=list)
    vectors: bytes = b""

    @classmethod
    def prepare(
        cls, namespace: object, key: object, content: object, session: Session, options: Mapping[str, Any]
    ) -> Self:
        """Check what `remember` or `supersede` was given; without a key one is made up.

        Raises:
            InvalidNamespaceError: The namespace can't hold memories.
            TypeError, ValueError: Another argument is unusable; the message names it.
        """
        given = dict(options)
        labels = check_namespace(namespace)
        if isinstance(content, str):
            content = {"content": content}
        if not isinstance(content, Mapping):
            raise TypeError(f"content must be a str or a dict, got {content!r}")
        if session.reserved_key is not None and session.reserved_key in content:
            raise ValueError(f"content must not hold {session.reserved_key!r}: give its fields as arguments")
        ttl, index = given.pop("ttl", NOT_PROVIDED), given.pop("index", None)
        if ttl is not None and ttl is not NOT_PROVIDED:
            ttl = ttl_to_ms(ttl)
            session.check_ttl(ttl)
        if unknown := [name for name in given if name not in WRITE_OPTIONS]:
            raise TypeError(f"there is no option {', '.join(map(repr, unknown))}; there are {', '.join(WRITE_OPTIONS)}")
        value = dump_value(content)
        name = uuid.uuid4().hex if key is None else check_text(key, "key")
        made = cls(labels, name, value, Patch.arguments(given), ttl)
        made.texts = texts_of(value, index, session)
        return made

    @classmethod
    def of_put(cls, put: Put) -> Self:
        """Return a put that names more of a life than the put script can patch."""
        assert put.value is not None
        return cls(put.namespace, put.key, put.value, put.life, put.given_ttl, put.texts)

    def life(self, session: Session, inherited: str | None = None) -> dict[str, Any]:
        """Return what the write makes of a row's meta, its expiry and its type.

        Args:
            session: The store's.
            inherited: The type of the row that it replaces.
        """
        named = self.patch.memory_type or inherited
        kind = session.types[named] if named else None
        ttl, absolute = lifetime(self.ttl, named, kind, session.ttl.default_ttl)
        session.check_ttl(ttl)
        meta: dict[str, Any] = {"ttl": math.inf if ttl is None else float(ttl), "expires_at": NOW}
        given = self.patch.given
        meta |= {
            name: given[name] for name in ("importance", "confidence", "valid_from", "valid_until") if name in given
        }
        return {"meta": meta, "flags": expiry_flags(kind, absolute), "named": kind is not None}

    def new(self, session: Session, plan: Plan, inherited: Mapping[str, Any], kind: str | None) -> Change:
        """Return the row it makes where there is none.

        Args:
            session: The store's.
            plan: What it is part of.
            inherited: Fields that it takes over where it names none itself.
            kind: The type that it takes over.
        """
        life = self.life(session, kind)
        rest = {**{name: part for name, part in inherited.items() if name in INHERITED}, **self.patch.rest}
        meta: dict[str, Any] = life["meta"]
        if "confidence" not in meta and self.patch.trust is not None:
            meta["confidence"] = self.patch.trust
        flags = life["flags"] | (FLAG_RUN if "run_id" in rest else 0)
        if self.patch.given.get("pinned", inherited.get("pinned")):
            flags |= FLAG_PINNED
        named = self.patch.memory_type or kind or GENERIC
        self._check_interval(meta.get("valid_from", plan.now))
        return Change(_NEW._replace(flags=flags, **meta), rest, self.value, self.vectors, named, "e")

    def _check_interval(self, valid_from: float) -> None:
        until = self.patch.given.get("valid_until")
        if until is not None and until <= valid_from:
            raise ValueError(f"valid_until must be after valid_from, got {until:.0f} and {valid_from:.0f} ms")

    def over(self, session: Session, plan: Plan, row: Stored) -> Change:
        """Write it over a row, in place: what it does not name stays, but the row is active and open again."""
        life = self.life(session)
        meta: dict[str, Any] = {"valid_until": math.inf, "retired_at": math.inf, **life["meta"]}
        self._check_interval(meta.get("valid_from", row.meta.valid_from))
        flags = row.meta.flags & ~FLAG_ABSOLUTE_TTL
        if life["named"]:
            flags = flags & ~FLAG_ARCHIVE_ON_EXPIRY | life["flags"]
        if "run_id" in self.patch.given:
            flags |= FLAG_RUN
        if "pinned" in self.patch.given:
            flags = flags | FLAG_PINNED if self.patch.given["pinned"] else flags & ~FLAG_PINNED
        meta |= {
            "updated_at": NOW,
            "version": row.meta.version + 1,
            "flags": flags,
            "status": STATUS_ACTIVE,
            "reason": 0,
        }
        change = plan.change(row, letters="el" if self.patch.slot else "elc", **meta)
        change.value, change.vectors, change.type_name = self.value, self.vectors, self.patch.memory_type or ""
        for name in ("supersedes", "superseded_by"):
            change.rest.pop(name, None)
        change.rest |= self.patch.rest
        return change


def texts_of(value: bytes, index: Any, session: Session) -> list[str]:
    """Return what of a value is to be embedded.

    Raises:
        TypeError, ValueError: `index` is unusable.
    """
    plain = load_value(value)
    return [text for path in index_paths(index, session) for text in get_text_at_path(plain, path)]


def embedded(writing: Writing, session: Session) -> Flow[None]:
    """Embed what a write holds, and look at the server."""
    vectors: Matrix = NO_VECTORS
    if writing.texts:
        vectors, _ = yield Embed(writing.texts)
    writing.vectors = b"".join(vector.tobytes() for vector in vectors)
    yield from open_store(session)
