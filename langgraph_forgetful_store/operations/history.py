"""What a memory was, and what it is linked to: history, links and their events."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.backend.keys import decode_text, encode_namespace, encode_text
from langgraph_forgetful_store.errors import CorruptRecordError
from langgraph_forgetful_store.model.checks import check_key, check_namespace, moment
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.model.status import state_at
from langgraph_forgetful_store.operations.commit import (
    Chain,
    Plan,
    Seen,
    Stored,
    living,
    look,
    stored_item,
    transact,
    whole_chain,
)
from langgraph_forgetful_store.operations.session import Session, open_store
from langgraph_forgetful_store.operations.transitions import clamped, retired

RELATIONS = (
    "triggers",
    "responds",
    "relates",
    "resolves",
    "closes",
    "causes",
    "updates",
    "negates",
    "completes",
    "summarizes",
    "same_session",
)
OUT, IN = 1, 2
MERGED = "merged"
DIRECTIONS = {"out": (OUT,), "in": (IN,), "both": (OUT, IN)}
# How a link moves the importance of its two ends: what it gives the new one, and takes from the old.
_EVENTS = {"updates": (0.3, 0.4), "negates": (0.2, 0.5)}
# By this factor falls what is over, with what came before it in its chain.
_OVER, _OVER_FACTOR = ("completes", "resolves", "closes"), 0.6
Link = tuple[int, str, str]


def history(
    session: Session, namespace: object, key: object, as_of: object = None, known_at: object = None
) -> Flow[list[MemoryItem]]:
    """Read the whole chain of a row, oldest first; see `ForgetfulStore.history`."""
    labels, name = check_namespace(namespace), check_key(key)
    at = None if as_of is None else moment(as_of, "as_of")
    known = None if known_at is None else moment(known_at, "known_at")
    yield from open_store(session)
    now, told = yield from whole_chain(session.frame(), encode_namespace(labels), name)
    rows = [row for row in told if not row.gone]
    if not any(row.key == name for row in rows):
        return []
    # A chain is linear; what was merged into it stands where it began to hold.
    rows.reverse()
    rows.sort(key=lambda row: row.meta.valid_from)
    if at is None and known is None:
        return [stored_item(session, labels, row, now) for row in rows]
    items = []
    for row in rows:
        state = state_at(row.meta, row.rest, now, at, known)
        if state is not None:
            items.append(stored_item(session, labels, row, now, state))
    return items


def unpack_links(packed: bytes | None) -> list[Link]:
    """Unpack the links of a row: direction, relation, key of the other.

    Raises:
        CorruptRecordError: It is not what `pack_links` makes.
    """
    links: list[Link] = []
    at = 0
    try:
        while packed and at < len(packed):
            direction, length = struct.unpack_from("<BB", packed, at)
            relation = packed[at + 2 : at + 2 + length].decode()
            at += 2 + length
            (size,) = struct.unpack_from("<I", packed, at)
            links.append((direction, relation, decode_text(packed[at + 4 : at + 4 + size])))
            at += 4 + size
    except (struct.error, ValueError) as error:
        raise CorruptRecordError(f"a row's links can't be read: {error}") from error
    return links


def pack_links(links: Sequence[Link]) -> bytes:
    """Pack links, as the scripts read them."""
    parts = []
    for direction, relation, other in links:
        name, key = relation.encode(), encode_text(other)
        parts.append(struct.pack("<BB", direction, len(name)) + name + struct.pack("<I", len(key)) + key)
    return b"".join(parts)


def check_relation(relation: object) -> str:
    """Return a relation's name.

    Raises:
        ValueError: It is none.
    """
    if relation not in RELATIONS:
        raise ValueError(f"relation must be one of {', '.join(RELATIONS)}, got {relation!r}")
    return str(relation)


def links_field(key: str) -> bytes:
    """Return the field of ``k:`` that holds the links of a row."""
    return b"k" + encode_text(key)


def set_links(plan: Plan, key: str, before: bytes | None, links: Sequence[Link]) -> None:
    """Write the links of a row, in place of those that were found."""
    plan.rely_on_field("k", links_field(key), before or b"")
    plan.fields["k", links_field(key)] = pack_links(links)


def link(session: Session, namespace: object, key: object, relation: object, other: object) -> Flow[MemoryItem]:
    """Link a row to another, and let the event move both; see `ForgetfulStore.link`."""
    labels, name, target = check_namespace(namespace), check_key(key), check_key(other)
    kind = check_relation(relation)
    if name == target:
        raise ValueError(f"other must be another memory than key, got {target!r} for both")
    yield from open_store(session)

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now, [name])
        own, its = living(seen.found[0], labels, name), living(seen.found[1], labels, target)
        plan.rely_on(own, its)
        links, back = unpack_links(seen.found[2]), unpack_links(seen.found[3])
        if (OUT, kind, target) in links:
            return plan
        set_links(plan, name, seen.found[2], [*links, (OUT, kind, target)])
        set_links(plan, target, seen.found[3], [*back, (IN, kind, name)])
        _event(plan, kind, own, its, seen.found[4])
        plan.record("link", name, relation=kind, other=target)
        return plan

    asked = [("r", name, ""), ("r", target, ""), ("l", name, ""), ("l", target, ""), ("k", target, "")]
    return (yield from transact(session, labels, asked, make))[0]


def _event(plan: Plan, relation: str, own: Stored, its: Stored, chain: Chain) -> None:
    if relation in _EVENTS:
        gain, loss = _EVENTS[relation]
        plan.change(own, importance=clamped(own.meta.importance + gain))
        plan.change(its, importance=clamped(its.meta.importance - loss))
    elif relation in _OVER:
        for row in chain.living:
            if row.key != own.key:
                plan.change(row, importance=row.meta.importance * _OVER_FACTOR)
        if relation != "completes":
            retired("resolved", None)(plan, its, its.status(plan.now))


def unlink(session: Session, namespace: object, key: object, relation: object, other: object) -> Flow[None]:
    """Take a link away; silent where there is none."""
    labels, name, target = check_namespace(namespace), check_key(key), check_key(other)
    kind = check_relation(relation)
    yield from open_store(session)

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now)
        links, back = unpack_links(seen.found[0]), unpack_links(seen.found[1])
        if (OUT, kind, target) in links:
            set_links(plan, name, seen.found[0], [one for one in links if one != (OUT, kind, target)])
            set_links(plan, target, seen.found[1], [one for one in back if one != (IN, kind, name)])
            plan.record("unlink", name, relation=kind, other=target)
        return plan

    yield from transact(session, labels, [("l", name, ""), ("l", target, "")], make)


def neighbors(
    session: Session, namespace: object, key: object, relation: object = None, direction: object = "both"
) -> Flow[list[tuple[str, MemoryItem]]]:
    """Read what a row is linked to, as (relation, item) pairs; see `ForgetfulStore.neighbors`."""
    labels, name = check_namespace(namespace), check_key(key)
    kind = None if relation is None else check_relation(relation)
    if direction not in DIRECTIONS:
        raise ValueError(f"direction must be one of {', '.join(DIRECTIONS)}, got {direction!r}")
    yield from open_store(session)
    frame, encoded = session.frame(), encode_namespace(labels)
    seen = yield from look(frame, encoded, [("r", name, ""), ("l", name, "")])
    living(seen.found[0], labels, name)
    links = [
        one
        for one in unpack_links(seen.found[1])
        if one[0] in DIRECTIONS[str(direction)] and one[1] != MERGED and (kind is None or one[1] == kind)
    ]
    if not links:
        return []
    seen = yield from look(frame, encoded, [("r", other, "") for _, _, other in links], values=True)
    found: list[tuple[str, MemoryItem]] = []
    for (_, known, _), chain in zip(links, seen.found, strict=True):
        found += [(known, stored_item(session, labels, row, seen.now)) for row in chain.living]
    return found
