"""What a memory was, and what it is linked to: history, links and their events."""

from __future__ import annotations

from collections.abc import Iterable

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import decode_text, encode_namespace, encode_text
from langgraph_forgetful_store.model.checks import check_key, check_namespace, moment
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.model.places import place_of
from langgraph_forgetful_store.model.status import state_at
from langgraph_forgetful_store.operations.plan import (
    IN,
    MERGED,
    OUT,
    POINTERS,
    UNDER,
    Found,
    Line,
    Plan,
    Stored,
    link_entries,
    links_of,
)
from langgraph_forgetful_store.operations.session import Session, open_store
from langgraph_forgetful_store.operations.transact import (
    AT_ONCE,
    Seen,
    ask_key,
    ask_link,
    ask_row,
    look,
    stored_item,
    told,
    transact,
)
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
DIRECTIONS = {"out": (OUT,), "in": (IN,), "both": (OUT, IN)}
# How a link moves the importance of its two ends: what it gives the new one, and takes from the old.
_EVENTS = {"updates": (0.3, 0.4), "negates": (0.2, 0.5)}
# By this factor falls what is over, with what holds, or is to come, in its line.
_OVER, _OVER_FACTOR = ("completes", "resolves", "closes"), 0.6
Link = tuple[int, str, str]
# Rows whose links one script tells.
LINKS_OF = 100


def history(
    session: Session, namespace: object, key: object, as_of: object = None, known_at: object = None
) -> Flow[list[MemoryItem]]:
    """Read all that was said in a row's slot or chain, oldest first; see `ForgetfulStore.history`."""
    labels, name = check_namespace(namespace), check_key(key)
    at = None if as_of is None else moment(as_of, "as_of")
    known = None if known_at is None else moment(known_at, "known_at")
    yield from open_store(session)
    now, rows = yield from whole(session, encode_namespace(labels), name)
    rows = [row for row in rows if not row.gone]
    if not any(row.key == name for row in rows):
        return []
    rows.sort(key=lambda row: (row.meta.valid_from, place_of(row.rest)[0]))
    if at is None and known is None:
        return [stored_item(session, labels, row, now) for row in rows]
    items = []
    for row in rows:
        state = state_at(row.meta, row.rest, now, at, known)
        if state is not None:
            items.append(stored_item(session, labels, row, now, state))
    return items


def whole(session: Session, namespace: bytes, key: str) -> Flow[tuple[float, list[Stored]]]:
    """Read the slot or chain of a row, and those that its rows replaced, or that replaced them, elsewhere."""
    now, told_rows = yield from told(session, namespace, key)
    rows = {row.key: row for row in told_rows}
    asked: set[str] = set()
    while True:
        living = [row.rest for row in rows.values() if not row.gone]
        others = {other for rest in living for name in POINTERS if (other := rest.get(name)) is not None}
        fresh = others - rows.keys() - asked
        if not fresh:
            return now, list(rows.values())
        asked |= fresh
        for other in fresh:
            if other not in rows:
                rows |= {row.key: row for row in (yield from told(session, namespace, other))[1]}


def check_relation(relation: object) -> str:
    """Return a relation's name.

    Raises:
        ValueError: It is none.
    """
    if relation not in RELATIONS:
        raise ValueError(f"relation must be one of {', '.join(RELATIONS)}, got {relation!r}")
    return str(relation)


def link(session: Session, namespace: object, key: object, relation: object, other: object) -> Flow[MemoryItem]:
    """Link a row to another, and let the event move both; see `ForgetfulStore.link`."""
    labels, name, target = check_namespace(namespace), check_key(key), check_key(other)
    kind = check_relation(relation)
    if name == target:
        raise ValueError(f"other must be another memory than {name!r}")
    yield from open_store(session)

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now, [name])
        own, its = seen.found[0].living(labels, name), seen.found[1].living(labels, target)
        plan.rely_on(own, its)
        if seen.found[2]:
            return plan
        # That it is there already is told by its entry alone.
        entry = link_entries(name, kind, target)[0]
        plan.rely_on_part(entry, entry, [])
        plan.link(name, kind, target)
        _event(plan, kind, own, seen.found[1])
        plan.record("link", name, relation=kind, other=target)
        return plan

    # Only what is over changes its line.
    its = ask_key(target) if kind in _OVER else ask_row(target)
    asked = [ask_row(name), its, ask_link(name, kind, target)]
    # Others change neither row.
    turn = target if kind in _EVENTS or kind in _OVER else None
    return (yield from transact(session, labels, asked, make, turn=turn))[0]


def _event(plan: Plan, relation: str, own: Stored, found: Found) -> None:
    its = found.row
    assert its is not None
    if relation in _EVENTS:
        gain, loss = _EVENTS[relation]
        plan.change(own, importance=clamped(own.meta.importance + gain))
        plan.change(its, importance=clamped(its.meta.importance - loss))
    elif relation in _OVER:
        line = Line(plan, found, plan.change(its))
        for row in (line.change, *line.members):
            if row.key != own.key and (row is line.change or row.holds(plan.now) or not row.begun(plan.now)):
                row.set(importance=row.meta.importance * _OVER_FACTOR)
        if relation != "completes":
            retired("resolved", None)(plan, line, its.status(plan.now))


def unlink(session: Session, namespace: object, key: object, relation: object, other: object) -> Flow[None]:
    """Take a link away; silent where there is none."""
    labels, name, target = check_namespace(namespace), check_key(key), check_key(other)
    kind = check_relation(relation)
    yield from open_store(session)

    def make(seen: Seen) -> Plan:
        plan = Plan(seen.now)
        if seen.found[0]:
            entry = link_entries(name, kind, target)[0]
            plan.rely_on_part(entry, entry, [entry])
            plan.unlink(name, kind, target)
            plan.record("unlink", name, relation=kind, other=target)
        return plan

    yield from transact(session, labels, [ask_link(name, kind, target)], make)


def links(session: Session, namespace: bytes, keys: Iterable[str]) -> Flow[dict[str, list[Link]]]:
    """Read the links of rows: direction, relation, key of the other."""
    found: dict[str, list[Link]] = {key: [] for key in keys}
    pending = [(key, b"") for key in found]
    while pending:
        part, pending = pending[:LINKS_OF], pending[LINKS_OF:]
        asked = [(encode_text(key), after) for key, after in part]
        replies = checked((yield Send([scripts.links(session.frame(), namespace, AT_ONCE, asked)]))[0])
        for (key, _), entries in zip(part, replies, strict=True):
            found[key] += [_link(key, entry) for entry in entries]
            if len(entries) == AT_ONCE:
                pending.append((key, entries[-1]))
    return found


def _link(key: str, entry: bytes) -> Link:
    at = len(links_of(key))
    relation, other = entry[at + 1 :].split(b"\0", 1)
    return entry[at], relation.decode(), decode_text(other)


def neighbors(
    session: Session, namespace: object, key: object, relation: object = None, direction: object = "both"
) -> Flow[list[tuple[str, MemoryItem]]]:
    """Read what a row is linked to, as (relation, item) pairs; see `ForgetfulStore.neighbors`."""
    labels, name = check_namespace(namespace), check_key(key)
    kind = None if relation is None else check_relation(relation)
    if direction not in DIRECTIONS:
        raise ValueError(f"direction must be one of {', '.join(DIRECTIONS)}, got {direction!r}")
    yield from open_store(session)
    encoded = encode_namespace(labels)
    (yield from look(session, encoded, [ask_row(name)])).found[0].living(labels, name)
    wanted = [
        one
        for one in (yield from links(session, encoded, [name]))[name]
        if one[0] in DIRECTIONS[str(direction)] and one[1] not in (MERGED, UNDER) and (kind is None or one[1] == kind)
    ]
    found: list[tuple[str, MemoryItem]] = []
    for start in range(0, len(wanted), AT_ONCE):
        part = wanted[start : start + AT_ONCE]
        seen = yield from look(session, encoded, [ask_row(other) for _, _, other in part], values=True)
        for (_, known, _), one in zip(part, seen.found, strict=True):
            if one.row is not None and not one.row.gone:
                found.append((known, stored_item(session, labels, one.row, seen.now)))
    return found
