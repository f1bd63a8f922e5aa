"""Writes that know the lifecycle: `remember`, `supersede`, and puts that name a slot, an interval or a pin."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from langgraph.store.base import NOT_PROVIDED, InvalidNamespaceError, get_text_at_path

from langgraph_forgetful_store.backend.codec import (
    FLAG_ABSOLUTE_TTL,
    FLAG_ARCHIVE_ON_EXPIRY,
    FLAG_PINNED,
    FLAG_RUN,
    STATUS_ACTIVE,
    STATUS_SUPERSEDED,
    Matrix,
    Meta,
    dump_value,
    load_value,
)
from langgraph_forgetful_store.backend.embedding import NO_VECTORS
from langgraph_forgetful_store.backend.flow import Embed, Flow
from langgraph_forgetful_store.backend.keys import encode_text
from langgraph_forgetful_store.config import ttl_to_ms
from langgraph_forgetful_store.errors import VersionConflict
from langgraph_forgetful_store.lifecycle import Patch, check_text, expiry_flags
from langgraph_forgetful_store.memory import MemoryItem
from langgraph_forgetful_store.memory_types import GENERIC
from langgraph_forgetful_store.operations.checks import Namespace, check_depth, check_labels
from langgraph_forgetful_store.operations.commit import (
    NOW,
    Ask,
    Chain,
    Change,
    Plan,
    Seen,
    Stored,
    living,
    reason_number,
    transact,
)
from langgraph_forgetful_store.operations.context import Context, open_store
from langgraph_forgetful_store.operations.put import Put, index_paths

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
    confidence=0.8,
    boosted_at=NOW,
    access_count=0,
    version=1,
    value_bytes=0,
    memory_type=0,
    flags=0,
    status=STATUS_ACTIVE,
    reason=0,
)
# From here on, for how far back a chain is told: the latest row and one more.
LATEST = 2.0**53
# What a successor takes over from its predecessor, where the call says nothing else.
_INHERITED = ("tags", "run_id", "subject", "attribute")


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
        cls, namespace: object, key: object, content: object, context: Context, options: Mapping[str, Any]
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
        ttl, index = given.pop("ttl", NOT_PROVIDED), given.pop("index", None)
        if ttl is not None and ttl is not NOT_PROVIDED:
            ttl = ttl_to_ms(ttl)
        if unknown := [name for name in given if name not in WRITE_OPTIONS]:
            raise TypeError(f"there is no option {', '.join(map(repr, unknown))}; there are {', '.join(WRITE_OPTIONS)}")
        value = dump_value(content)
        name = uuid.uuid4().hex if key is None else check_text(key, "key")
        made = cls(labels, name, value, Patch.arguments(given), ttl)
        made.texts = texts_of(value, index, context)
        return made

    @classmethod
    def of_put(cls, put: Put) -> Self:
        """Return a put that names more of a life than the put script can patch."""
        assert put.value is not None
        return cls(put.namespace, put.key, put.value, put.life, put.given_ttl, put.texts)

    def life(self, context: Context, inherited: str | None = None) -> dict[str, Any]:
        """Return what the write makes of a row's meta, its expiry and its type.

        Args:
            context: The store's.
            inherited: The type of the row that it replaces.
        """
        named = self.patch.memory_type or inherited
        kind = context.types[named] if named else None
        ttl, absolute = self.ttl, False
        if ttl is NOT_PROVIDED:
            ttl = context.ttl.default_ttl
            if kind is not None:
                ttl, absolute = kind.ttl_ms, kind.ttl is not None
        meta: dict[str, Any] = {"ttl": math.inf if ttl is None else float(ttl), "expires_at": NOW}
        given = self.patch.given
        meta |= {
            name: given[name] for name in ("importance", "confidence", "valid_from", "valid_until") if name in given
        }
        return {"meta": meta, "flags": expiry_flags(kind, absolute), "named": kind is not None}

    def new(self, context: Context, plan: Plan, inherited: Mapping[str, Any], kind: str | None) -> Change:
        """Return the row it makes where there is none.

        Args:
            context: The store's.
            plan: What it is part of.
            inherited: Fields that it takes over where it names none itself.
            kind: The type that it takes over.
        """
        life = self.life(context, kind)
        rest = {**{name: part for name, part in inherited.items() if name in _INHERITED}, **self.patch.rest}
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

    def over(self, context: Context, plan: Plan, row: Stored) -> Change:
        """Write it over a row, in place: what it does not name stays, but the row is active and open again."""
        life = self.life(context)
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


WRITE_OPTIONS = (
    "memory_type",
    "importance",
    "confidence",
    "subject",
    "attribute",
    "valid_from",
    "valid_until",
    "source",
    "source_refs",
    "tags",
    "preconditions",
    "run_id",
    "pinned",
    "index",
    "ttl",
)


def check_namespace(namespace: object) -> Namespace:
    """Return a namespace that may hold memories.

    Raises:
        InvalidNamespaceError: It is none, is empty, too deep, or begins with "langgraph".
    """
    labels = check_labels(namespace, "namespace")
    check_depth(labels)
    if not labels:
        raise InvalidNamespaceError("namespace must not be empty, got ()")
    if labels[0] == "langgraph":
        raise InvalidNamespaceError(f'namespace must not begin with "langgraph", got {labels!r}')
    return labels


def texts_of(value: bytes, index: Any, context: Context) -> list[str]:
    """Return what of a value is to be embedded.

    Raises:
        TypeError, ValueError: `index` is unusable.
    """
    plain = load_value(value)
    return [text for path in index_paths(index, context) for text in get_text_at_path(plain, path)]


def embedded(writing: Writing, context: Context) -> Flow[None]:
    """Embed what a write holds, and look at the server."""
    vectors: Matrix = NO_VECTORS
    if writing.texts:
        vectors, _ = yield Embed(writing.texts)
    writing.vectors = b"".join(vector.tobytes() for vector in vectors)
    yield from open_store(context)


def remember(context: Context, writing: Writing, *, is_put: bool = False) -> Flow[MemoryItem]:
    """Write a memory: in place where the key exists; where it names an occupied slot, that row is superseded."""
    if not is_put:
        yield from embedded(writing, context)
    slot = writing.patch.slot
    asked: list[Ask] = [("r", writing.key, ""), *([("s", *slot)] if slot else [])]

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now, [writing.key])
        own: Chain = seen.found[0]
        row = next(iter(own.living), None)
        if row is None:
            plan.rely_on_absence(writing.key)
            change = writing.new(context, plan, {}, None)
        else:
            change = writing.over(context, plan, row)
        plan.rows[writing.key] = change
        replaced = None
        if slot:
            chain: Chain = seen.found[1]
            plan.rely_on_slot(chain)
            plan.fields["s", chain.slot] = encode_text(writing.key)
            if chain.holder != writing.key:
                replaced = _place(plan, chain.living, writing.key, change, reason_number("updated"))
                if replaced is not None and replaced.late:
                    del plan.fields["s", chain.slot]
        if not is_put:
            plan.record("remember", writing.key, superseded=None if replaced is None else replaced.key)
        return plan

    since = writing.patch.given.get("valid_from")
    items = yield from transact(context, writing.namespace, asked, make, since=LATEST if since is None else since)
    return items[0]


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of a row that was put into a chain: whose place it took, or before whom it was inserted."""

    key: str
    late: bool


def _place(plan: Plan, chain: Sequence[Stored], key: str, change: Change, reason: int) -> Placed | None:
    """Put a row into a chain by the start of its validity: as its head, or closed, before a row that is valid later.

    Args:
        plan: Changed.
        chain: Latest first, as far back as the first row that is valid before the new one; without what is gone.
        key: Of the new row.
        change: The new row's.
        reason: Why the head is superseded, as meta holds it.
    """
    rows = [row for row in chain if row.key != key]
    if not rows:
        return None
    head = rows[0]
    start = change.meta.valid_from
    # A time that is yet to come counts as now.
    at = plan.now if start != start else start
    if at >= head.meta.valid_from:
        change.rest["supersedes"] = head.key
        change.meta = change.meta._replace(version=max(head.meta.version + 1, change.meta.version))
        closed = _closed(plan, head, start, reason)
        closed.rest["superseded_by"] = key
        if closed.rest.get("supersedes") == key:
            # The row that is written over was its predecessor, and leaves its place to the one before.
            _skip(closed, chain, key)
        return Placed(head.key, late=False)
    later, earlier = head, None
    for row in rows[1:]:
        if row.meta.valid_from <= at:
            earlier = row
            break
        later = row
    end = min(change.meta.valid_until, later.meta.valid_from)
    change.meta = change.meta._replace(valid_until=end, status=STATUS_SUPERSEDED, reason=reason, retired_at=NOW)
    change.rest["superseded_by"] = later.key
    follower = plan.change(later)
    follower.rest["supersedes"] = key
    if earlier is not None:
        change.rest["supersedes"] = earlier.key
        change.meta = change.meta._replace(version=max(earlier.meta.version + 1, change.meta.version))
        before = plan.change(earlier, valid_until=min(earlier.meta.valid_until, at))
        before.rest["superseded_by"] = key
    return Placed(later.key, late=True)


def _skip(closed: Change, chain: Sequence[Stored], key: str) -> None:
    before = next((row.rest.get("supersedes") for row in chain if row.key == key), None)
    if before is None:
        del closed.rest["supersedes"]
    else:
        closed.rest["supersedes"] = before


def _closed(plan: Plan, row: Stored, until: float, reason: int) -> Change:
    """Close a row, unless it is closed already: then its interval is only cut where it reaches beyond."""
    already = row.meta.status == STATUS_SUPERSEDED
    if until != until:
        # Now: later than the end of what is over, and earlier than what is to come.
        end = row.meta.valid_until if row.meta.valid_until <= plan.now else NOW
    else:
        end = min(row.meta.valid_until, until)
    if already:
        return plan.change(row, valid_until=end)
    return plan.change(row, status=STATUS_SUPERSEDED, valid_until=end, retired_at=NOW, reason=reason)


def supersede(
    context: Context,
    writing: Writing,
    old_key: object,
    reason: object,
    expected_version: object,
) -> Flow[MemoryItem]:
    """Close the latest row of a chain and open a new one; see `ForgetfulStore.supersede`."""
    number = reason_number(reason)
    if expected_version is not None and (isinstance(expected_version, bool) or not isinstance(expected_version, int)):
        raise ValueError(f"expected_version must be a whole number or None, got {expected_version!r}")
    yield from embedded(writing, context)
    slot = writing.patch.slot
    old_key = check_text(old_key, "key")
    named: list[Ask] = [("s", *slot)] if slot else []
    asked: list[Ask] = [("r", old_key, ""), ("k", old_key, ""), ("r", writing.key, ""), *named]

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now, [writing.key])
        chain: Chain = seen.found[1]
        living(seen.found[0], writing.namespace, old_key)
        head = chain.living[0]
        if seen.found[2].living:
            raise ValueError(f"new_key must name no memory, but {writing.key!r} exists in {writing.namespace!r}")
        if expected_version is not None and head.meta.version != expected_version:
            raise VersionConflict(
                f"expected_version is {expected_version}, but {head.key!r}, the latest of {old_key!r} in"
                f" {writing.namespace!r}, is at version {head.meta.version}"
            )
        plan.rely_on_absence(writing.key)
        inherited = {**head.rest, "pinned": bool(head.meta.flags & FLAG_PINNED)}
        kind = None if head.memory_type == GENERIC else head.memory_type
        change = writing.new(context, plan, inherited, kind)
        plan.rows[writing.key] = change
        placed = _place(plan, chain.living, writing.key, change, number)
        assert placed is not None
        _take_slot(plan, chain, head, seen.found[3] if slot else None, writing.key, moves=not placed.late)
        plan.record("supersede", writing.key, str(reason), superseded=placed.key)
        return plan

    since = writing.patch.given.get("valid_from")
    items = yield from transact(context, writing.namespace, asked, make, since=LATEST if since is None else since)
    return items[0]


def _take_slot(plan: Plan, chain: Chain, head: Stored, named: Chain | None, key: str, *, moves: bool) -> None:
    plan.rely_on_slot(chain)
    holds = bool(chain.slot) and chain.holder == head.key
    if named is not None and named.slot != chain.slot:
        plan.rely_on_slot(named)
        if named.living and named.living[0].key != head.key:
            raise ValueError(
                f"subject and attribute name a slot that {named.living[0].key!r} holds: supersede that one, or remember"
            )
        if moves:
            plan.fields["s", named.slot] = encode_text(key)
            if holds:
                plan.fields["s", chain.slot] = b""
        return
    if moves and chain.slot and (holds or not chain.holder):
        plan.fields["s", chain.slot] = encode_text(key)
