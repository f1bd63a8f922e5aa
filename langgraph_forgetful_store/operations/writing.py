"""Writes that know the lifecycle: `remember`, `supersede`, and puts that name a slot, an interval or a pin."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from langgraph.store.base import NOT_PROVIDED

from langgraph_forgetful_store.backend.codec import (
    FLAG_ABSOLUTE_TTL,
    FLAG_ARCHIVE_ON_EXPIRY,
    FLAG_DATED,
    FLAG_END_AHEAD,
    FLAG_PINNED,
    FLAG_RUN,
    FOREVER,
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
from langgraph_forgetful_store.operations.indexing import NOTHING, Indexed, Paths
from langgraph_forgetful_store.operations.plan import Change, End
from langgraph_forgetful_store.operations.put import Put
from langgraph_forgetful_store.operations.session import Session, open_store

# The meta of a row that nothing is said of; its times are those of the write.
_NEW = Meta(
    created_at=0.0,
    updated_at=0.0,
    expires_at=math.inf,
    ttl=math.inf,
    content=0.0,
    recorded_at=0.0,
    retired_at=math.inf,
    valid_from=0.0,
    valid_until=math.inf,
    accessed_at=-math.inf,
    confirmed_at=-math.inf,
    importance=0.5,
    confidence=DEFAULT_CONFIDENCE,
    boosted_at=0.0,
    access_count=0,
    version=1,
    value_bytes=0,
    memory_type=0,
    flags=0,
    status=STATUS_ACTIVE,
    reason=0,
)
WRITE_OPTIONS = (*WRITABLE, "index", "ttl")
# What may be there already, so that nothing is written.
ABSENCES = ("key", "slot", "content")


@dataclass(slots=True)
class Writing:
    """A checked write.

    Attributes:
        value: As JSON.
        ttl: In ms; ``None``: never; `NOT_PROVIDED`: what the type says, or the store.
        indexed: What of the value is searched for.
        index: That, packed, once its vectors are known.
        if_absent: What must not be there: the key, something that holds in the slot, or that with the same content.
        idempotency_key: Tells this request from others.
        names_key: Whether the key was given.
    """

    namespace: Namespace
    key: str
    value: bytes
    patch: Patch
    ttl: Any
    indexed: Indexed = NOTHING
    index: bytes = b""
    if_absent: str | None = None
    idempotency_key: str | None = None
    names_key: bool = True

    @property
    def texts(self) -> Sequence[str]:
        """What is to be embedded."""
        return self.indexed.texts

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
        is_text = isinstance(content, str)
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
            listed = ", ".join(map(repr, unknown))
            raise TypeError(f"remember and supersede have no option {listed}; they have {', '.join(WRITE_OPTIONS)}")
        value = dump_value(content)
        name = uuid.uuid4().hex if key is None else check_text(key, "key")
        made = cls(labels, name, value, Patch.arguments(given), ttl, names_key=key is not None)
        plain, paths = load_value(value), Paths.parse(index, session)
        made.indexed = Indexed.of(plain, paths, session)
        if index is None and is_text and not made.indexed.spoken:
            # The store's fields are those of other values: what is said as a text is found by it.
            made.indexed = Indexed.of(plain, Paths.parse(["content"], session), session)
        return made

    def once(self, if_absent: object, idempotency_key: object) -> Self:
        """Have it written only where something is absent, and once for one request.

        Raises:
            ValueError: An argument is unusable, or says that something be absent which the write does not name.
        """
        if if_absent is not None and if_absent not in ABSENCES:
            raise ValueError(f"if_absent must be one of {', '.join(ABSENCES)} or None, got {if_absent!r}")
        if if_absent == "key" and not self.names_key:
            raise ValueError("if_absent='key' needs key, got none")
        if if_absent == "slot" and self.patch.slot is None:
            raise ValueError("if_absent='slot' needs subject and attribute, got none")
        self.if_absent = None if if_absent is None else str(if_absent)
        self.idempotency_key = None if idempotency_key is None else check_text(idempotency_key, "idempotency_key")
        return self

    @classmethod
    def of_put(cls, put: Put) -> Self:
        """Return a put that names more of a life than the put script can patch."""
        assert put.value is not None
        return cls(put.namespace, put.key, put.value, put.life, put.given_ttl, put.indexed)

    @property
    def named_start(self) -> float | None:
        """The start of validity that the write names, in ms."""
        start: float | None = self.patch.given.get("valid_from")
        return start

    @property
    def run_id(self) -> str | None:
        """The run that it names."""
        run: str | None = self.patch.given.get("run_id")
        return run

    def _life(self, session: Session, change: Change, inherited: str | None = None) -> None:
        """Set what the write says of a row's ttl, trust, flags and fields; `inherited` is a type that is taken over."""
        given = self.patch.given
        named = self.patch.memory_type or inherited
        kind = session.types[named] if named else None
        ttl, absolute = lifetime(self.ttl, named, kind, session.ttl.default_ttl)
        session.check_ttl(ttl)
        flags = change.meta.flags & ~FLAG_ABSOLUTE_TTL
        if kind is not None:
            flags = flags & ~FLAG_ARCHIVE_ON_EXPIRY | expiry_flags(kind, absolute)
        if "pinned" in given:
            flags = flags | FLAG_PINNED if given["pinned"] else flags & ~FLAG_PINNED
        trust = {name: given[name] for name in ("importance", "confidence") if name in given}
        change.rest |= self.patch.rest
        if "run_id" in change.rest:
            flags |= FLAG_RUN
        change.set(ttl=math.inf if ttl is None else float(ttl), flags=flags, **trust)
        change.value, change.search_index = self.value, self.index
        change.type_name = named or ("" if change.was else GENERIC)

    def new(self, session: Session, now: float, inherited: Mapping[str, Any], kind: str | None) -> Change:
        """Return the row it makes where there is none; where it stands, and from when on, is for its line to say.

        Args:
            session: The store's.
            now: When.
            inherited: Fields that it takes over where it names none itself.
            kind: The type that it takes over.
        """
        rest = {name: part for name, part in inherited.items() if name in INHERITED}
        change = Change(
            self.key,
            _NEW._replace(created_at=now, updated_at=now, recorded_at=now, valid_from=now, boosted_at=now),
            rest,
        )
        if self.patch.trust is not None:
            change.set(confidence=self.patch.trust)
        if inherited.get("pinned"):
            change.flag(FLAG_PINNED, True)
        self._life(session, change, kind)
        self.set_end(change, now)
        return change

    def over(self, session: Session, now: float, change: Change) -> None:
        """Write it over a row, in place: what it does not name stays."""
        self._life(session, change)
        change.set(updated_at=now, version=change.meta.version + 1)

    def set_end(self, change: Change, now: float) -> None:
        """Set the end of validity that the write names."""
        until = self.patch.given.get("valid_until")
        if until is not None:
            change.end_itself(End(until, until > now, 0, FOREVER))
            change.flag(FLAG_DATED, True)

    def begin(self, change: Change, now: float) -> None:
        """Have its ttl begin: that of what is to come at its start.

        Raises:
            ValueError: Its validity would end before it starts.
        """
        end, start = change.end.at, change.meta.valid_from
        if "valid_until" in self.patch.given and end <= start:
            raise ValueError(f"valid_until must be after valid_from, got {end:.0f} and {start:.0f} ms")
        start_ttl(change, now)


def start_ttl(change: Change, now: float) -> None:
    """Have the ttl of a row begin now, or, where it is to come, at its start."""
    start = now if change.begun(now) else change.meta.valid_from
    change.set(expires_at=math.inf if change.meta.flags & FLAG_PINNED else start + change.meta.ttl)
    change.sets_expiry = True


def reopen(change: Change, now: float) -> None:
    """Have a row that was over begin anew, with no end."""
    change.end_itself(End(FOREVER, False, 0, FOREVER))
    change.flag(FLAG_DATED, False)
    change.flag(FLAG_END_AHEAD, False)
    change.set(valid_from=now, status=STATUS_ACTIVE)


def embedded(writing: Writing, session: Session) -> Flow[None]:
    """Embed what a write holds, and look at the server."""
    vectors: Matrix = NO_VECTORS
    if writing.texts:
        vectors, _ = yield Embed(writing.texts)
    writing.index = writing.indexed.pack(vector.tobytes() for vector in vectors)
    yield from open_store(session)
