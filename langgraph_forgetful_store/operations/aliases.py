"""Names of one subject: slots of all of them are one slot, and a wrong merge can be undone."""

from __future__ import annotations

import json
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import STATUS_ACTIVE, STATUS_SUPERSEDED
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import decode_text, encode_json, encode_namespace, encode_text
from langgraph_forgetful_store.model.checks import check_label, check_namespace
from langgraph_forgetful_store.operations.commit import (
    NOW,
    Ask,
    Chain,
    Plan,
    Seen,
    Stored,
    look,
    reason_number,
    transact,
)
from langgraph_forgetful_store.operations.history import IN, MERGED, OUT, set_links, unpack_links
from langgraph_forgetful_store.operations.session import Session, open_store
from langgraph_forgetful_store.operations.transitions import reopen


def slot_field(subject: str, attribute: str) -> bytes:
    """Return the field of ``s:`` that holds a slot."""
    return b"s" + encode_text(subject) + b"\0" + encode_text(attribute)


def _alias_field(name: str) -> bytes:
    return b"a" + encode_text(name)


def undo_field(name: str) -> bytes:
    """Return the field of ``s:`` that holds what `unalias` needs to undo a merge."""
    return b"u" + encode_text(name)


class _Name:
    """What goes by a subject's name, as a look has found it."""

    def __init__(self, reply: Any) -> None:
        stands_for, undo, names, slots = reply
        self.stands_for = decode_text(stands_for)
        self.undo: bytes = undo
        self.names = [decode_text(name) for name in names]
        self.slots = {
            decode_text(field).split("\0", 1)[1]: decode_text(key)
            for field, key in zip(slots[::2], slots[1::2], strict=True)
        }


def alias(session: Session, namespace: object, canonical: object, *names: object) -> Flow[None]:
    """Have names stand for one subject; see `ForgetfulStore.alias`."""
    labels, target = check_namespace(namespace), check_label(canonical, "canonical")
    checked = [check_label(name, "names") for name in names]
    if not checked:
        raise ValueError("names must hold a name at the least, got none")
    if target in checked:
        raise ValueError(f"names must not hold canonical itself, got {target!r}")
    yield from open_store(session)
    for name in dict.fromkeys(checked):
        yield from _alias_one(session, labels, target, name)


def _alias_one(session: Session, labels: tuple[str, ...], canonical: str, name: str) -> Flow[None]:
    encoded = encode_namespace(labels)

    def make(seen: Seen) -> Flow[Plan]:
        to, from_ = _Name(seen.found[0]), _Name(seen.found[1])
        plan = Plan(seen.now)
        goal = to.stands_for or canonical
        plan.rely_on_field("s", _alias_field(canonical), encode_text(to.stands_for))
        plan.rely_on_field("s", _alias_field(name), encode_text(from_.stands_for))
        if from_.stands_for == goal or goal == name:
            if goal == name:
                raise ValueError(f"canonical {canonical!r} stands for {name!r} already: unalias it first")
            return plan
        if from_.stands_for:
            raise ValueError(f"names: {name!r} stands for {from_.stands_for!r} already: unalias it first")
        attributes = list(from_.slots)
        rows = yield from look(
            session.frame(),
            encoded,
            [("s", subject, attribute) for attribute in attributes for subject in (name, goal)],
            since=0.0,
        )
        asked: list[Ask] = []
        pairs: list[tuple[str, Stored, Stored]] = []
        lines: list[tuple[Chain, Chain]] = []
        closed: list[dict[str, Any]] = []
        plan.fields["s", _alias_field(name)] = encode_text(goal)
        for other in from_.names:
            plan.fields["s", _alias_field(other)] = encode_text(goal)
        for at, attribute in enumerate(attributes):
            ours: Chain = rows.found[2 * at]
            theirs: Chain = rows.found[2 * at + 1]
            plan.rely_on_slot(ours)
            plan.rely_on_field("s", slot_field(goal, attribute), encode_text(theirs.holder))
            plan.fields["s", slot_field(name, attribute)] = b""
            mine, its = ours.held_by(seen.now), theirs.held_by(seen.now)
            if mine is None:
                continue
            if its is None:
                plan.fields["s", slot_field(goal, attribute)] = encode_text(mine.key)
                continue
            # One that is current stays so, though one that is archived or closed may be valid later.
            ranks = [(row.status(seen.now) == STATUS_ACTIVE, row.meta.valid_from) for row in (mine, its)]
            mine_stays = ranks[0] > ranks[1]
            loser, survivor = (its, mine) if mine_stays else (mine, its)
            lines.append((theirs, ours) if mine_stays else (ours, theirs))
            plan.fields["s", slot_field(goal, attribute)] = encode_text(survivor.key)
            pairs.append((attribute, loser, survivor))
        asked = [("l", row.key, "") for _, *ends in pairs for row in ends]
        links = (yield from look(session.frame(), encoded, asked)).found if asked else []
        for at, (attribute, loser, survivor) in enumerate(pairs):
            plan.rely_on(survivor)
            if loser.status(seen.now) == STATUS_SUPERSEDED:
                continue
            losing, staying = lines[at]
            # A row to come may stand before one that holds until then: the other chain ends where the first holds.
            starts = [row.meta.valid_from for row in staying.line() if row.meta.valid_until > seen.now]
            start = min(starts, default=survivor.meta.valid_from)
            _merge(plan, loser, survivor, start, links[2 * at], links[2 * at + 1])
            cut = []
            for row in losing.line():
                end = max(start, row.meta.valid_from)
                if row.key != loser.key and row.meta.valid_until > max(seen.now, end):
                    plan.change(row, valid_until=end)
                    cut.append([row.key, row.meta.valid_until, end])
            closed.append({"key": loser.key, "survivor": survivor.key, "attribute": attribute, "cut": cut})
        undo = {"closed": closed, "names": from_.names}
        plan.fields["s", undo_field(name)] = encode_json(undo)
        plan.record("alias", "", canonical=goal, name=name, merged=[one["key"] for one in closed])
        return plan

    yield from transact(session, labels, [("n", canonical, ""), ("n", name, "")], make)


def _merge(plan: Plan, loser: Stored, survivor: Stored, start: float, own: bytes | None, its: bytes | None) -> None:
    end = min(loser.meta.valid_until, max(start, loser.meta.valid_from))
    change = plan.change(
        loser, status=STATUS_SUPERSEDED, valid_until=end, retired_at=NOW, reason=reason_number("merged")
    )
    change.rest["superseded_by"] = survivor.key
    set_links(plan, loser.key, own, [*unpack_links(own), (OUT, MERGED, survivor.key)])
    set_links(plan, survivor.key, its, [*unpack_links(its), (IN, MERGED, loser.key)])


def known(session: Session, namespace: object) -> Flow[dict[str, str]]:
    """Read which names stand for which subjects; see `ForgetfulStore.aliases`."""
    labels = check_namespace(namespace)
    yield from open_store(session)
    call = scripts.aliases(session.frame(), encode_namespace(labels))
    found = [decode_text(part) for part in checked((yield Send([call]))[0])]
    return dict(sorted(zip(found[::2], found[1::2], strict=True)))


def unalias(session: Session, namespace: object, name: object) -> Flow[None]:
    """Have a name stand for itself again; see `ForgetfulStore.unalias`."""
    labels, alone = check_namespace(namespace), check_label(name, "name")
    encoded = encode_namespace(labels)
    yield from open_store(session)

    def make(seen: Seen) -> Flow[Plan]:
        plan = Plan(seen.now)
        known = _Name(seen.found[0])
        plan.rely_on_field("s", _alias_field(alone), encode_text(known.stands_for))
        if not known.stands_for:
            return plan
        goal = known.stands_for
        undo: dict[str, Any] = json.loads(known.undo or b'{"closed": [], "names": []}')
        theirs = _Name((yield from look(session.frame(), encoded, [("n", goal, "")])).found[0])
        # A name that was taken out by itself stays out.
        names = [other for other in undo["names"] if other in theirs.names]
        mine = {alone, *names}
        plan.fields["s", _alias_field(alone)] = plan.fields["s", undo_field(alone)] = b""
        for other in names:
            plan.fields["s", _alias_field(other)] = encode_text(alone)

        def field_of(row: Stored, attribute: str) -> bytes:
            return slot_field(alone if row.rest.get("subject") in mine else goal, attribute)

        attributes = list(theirs.slots)
        asked: list[Ask] = [("r", theirs.slots[attribute], "") for attribute in attributes]
        asked += [("r", one["key"], "") for one in undo["closed"]]
        asked += [("l", one[end], "") for one in undo["closed"] for end in ("key", "survivor")]
        asked += [("r", key, "") for one in undo["closed"] for key, _, _ in one["cut"]]
        rows = (yield from look(session.frame(), encoded, asked)).found if asked else []
        heads: dict[bytes, str] = {}
        for attribute, chain in zip(attributes, rows, strict=False):
            plan.rely_on_field("s", slot_field(goal, attribute), encode_text(theirs.slots[attribute]))
            plan.fields["s", slot_field(goal, attribute)] = b""
            for row in chain.living:
                plan.rely_on(row)
                heads[field_of(row, attribute)] = row.key
        count = len(undo["closed"])
        links = rows[len(attributes) + count : len(attributes) + 3 * count]
        before = {row.key: row for chain in rows[len(attributes) + 3 * count :] for row in chain.living}
        for at, (one, chain) in enumerate(
            zip(undo["closed"], rows[len(attributes) : len(attributes) + count], strict=True)
        ):
            row = next(iter(chain.living), None)
            if row is None or row.meta.reason != reason_number("merged"):
                continue
            if row.rest.get("superseded_by") != one["survivor"] or field_of(row, one["attribute"]) in heads:
                continue
            reopen(plan, row, exactly=True)
            for key, was, end in one["cut"]:
                if key in before and before[key].meta.valid_until == end:
                    plan.change(before[key], valid_until=was)
            heads[field_of(row, one["attribute"])] = row.key
            own, its = links[2 * at], links[2 * at + 1]
            set_links(plan, row.key, own, _without(own, (OUT, MERGED, one["survivor"])))
            set_links(plan, one["survivor"], its, _without(its, (IN, MERGED, row.key)))
        for field, key in heads.items():
            plan.fields["s", field] = encode_text(key)
        plan.record("unalias", "", canonical=goal, name=alone)
        return plan

    yield from transact(session, labels, [("n", alone, "")], make)


def _without(packed: bytes | None, gone: tuple[int, str, str]) -> list[tuple[int, str, str]]:
    return [one for one in unpack_links(packed) if one != gone]
