"""The lifecycle against a naive bitemporal model: random lives, on two servers and both engines, no difference."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from langgraph_forgetful_store.backend.codec import unpack_meta
from langgraph_forgetful_store.backend.keys import encode_text, store_prefix
from langgraph_forgetful_store.model.lifecycle import unpack_rest
from langgraph_forgetful_store.testing import check_keys
from tests.conftest import start_or_skip
from tests.support.lifecycle_model import TYPES
from tests.support.lifecycle_rows import ACTIVE, ARCHIVED, DAY, NEVER, SUPERSEDED
from tests.support.lifecycle_steps import (
    HOME,
    HOUR,
    KEYS,
    MINUTE,
    NAMESPACES,
    NEW_KEYS,
    OFFSETS,
    OTHER,
    PREFIXES,
    RARELY,
    REASONS,
    RELATIONS,
    SOMETIMES,
    STATUSES,
    SUBJECTS,
    WORDS,
    Writes,
    expected,
    shown,
    when,
)

pytestmark = pytest.mark.exhaustive

EXAMPLES = int(os.environ.get("LIFECYCLE_EXAMPLES", "60"))
STEPS = int(os.environ.get("LIFECYCLE_STEPS", "40"))


class Machine(Writes):
    """All that can happen to a memory."""

    # Transitions.

    @rule(
        ns=NAMESPACES,
        key=NEW_KEYS,
        name=st.sampled_from(["archive", "restore", "pin", "unpin", "anchor", "confirm", "deny"]),
    )
    def step(self, ns: Any, key: str, name: str) -> None:
        self.change(name, lambda: getattr(self.face, name)(ns, key), lambda: getattr(self.model, name)(ns, key))

    @rule(ns=NAMESPACES, key=KEYS, by=st.sampled_from([0.2, 0.7]))
    def demote(self, ns: Any, key: str, by: float) -> None:
        self.change("demote", lambda: self.face.demote(ns, key, by), lambda: self.model.demote(ns, key, by))

    @rule(ns=NAMESPACES, key=KEYS, ttl=st.sampled_from([1, 60, 20_000]))
    def set_ttl(self, ns: Any, key: str, ttl: int) -> None:
        self.change(
            "set_ttl", lambda: self.face.set_ttl(ns, key, ttl), lambda: self.model.set_ttl(ns, key, ttl * MINUTE)
        )

    @rule(ns=NAMESPACES, key=KEYS, reason=REASONS, offset=st.none() | st.none() | OFFSETS)
    def retire(self, ns: Any, key: str, reason: str, offset: Any) -> None:
        until = self.moment(offset)
        more = {} if until is None else {"valid_until": when(until)}
        self.change(
            "retire",
            lambda: self.face.retire(ns, key, reason=reason, **more),
            lambda: self.model.retire(ns, key, reason, until),
        )

    @rule(ns=NAMESPACES, key=NEW_KEYS)
    def undo_supersede(self, ns: Any, key: str) -> None:
        self.change(
            "undo_supersede",
            lambda: self.face.undo_supersede(ns, key),
            lambda: self.model.undo_supersede(ns, key),
        )

    # Names, links, ends.

    @rule(ns=NAMESPACES, canonical=SUBJECTS, name=SUBJECTS)
    def alias(self, ns: Any, canonical: str, name: str) -> None:
        if not self.is_to_come(ns):
            self.both(
                "alias",
                lambda: self.face.alias(ns, canonical, name),
                lambda: self.model.alias(ns, canonical, name),
            )

    @rule(ns=NAMESPACES, name=SUBJECTS)
    def unalias(self, ns: Any, name: str) -> None:
        self.both("unalias", lambda: self.face.unalias(ns, name), lambda: self.model.unalias(ns, name))

    @rule(ns=NAMESPACES, key=KEYS, relation=RELATIONS, other=KEYS)
    def link(self, ns: Any, key: str, relation: str, other: str) -> None:
        self.change(
            "link",
            lambda: self.face.link(ns, key, relation, other),
            lambda: self.model.link(ns, key, relation, other),
        )

    @rule(ns=NAMESPACES, key=KEYS, relation=RELATIONS, other=KEYS)
    def unlink(self, ns: Any, key: str, relation: str, other: str) -> None:
        self.both(
            "unlink",
            lambda: self.face.unlink(ns, key, relation, other),
            lambda: self.model.unlink(ns, key, relation, other),
        )

    @rule(prefix=PREFIXES, run=st.sampled_from(["r1", "r2"]), wanted=SOMETIMES)
    def end_run(self, prefix: Any, run: str, wanted: bool) -> None:
        if not wanted:
            return
        made = self.both("end_run", lambda: self.face.end_run(prefix, run), lambda: self.model.end_run(prefix, run))
        assert made is not None
        assert made[0] == made[1]

    @rule(ns=NAMESPACES, key=NEW_KEYS, wanted=SOMETIMES)
    def forget(self, ns: Any, key: str, wanted: bool) -> None:
        if not wanted:
            return
        made = self.both("forget", lambda: self.face.forget(ns, key), lambda: self.model.forget(ns, key))
        assert made is not None
        receipt, erased = made
        assert (receipt.erased.get("memories", 0), receipt.residue) == (len(erased), ())
        for one in erased:
            assert {record.action for record in self.face.audit(ns, key=one)} <= {"forget"}

    @precondition(lambda self: len(self.model.rows) > 3)
    @rule(prefix=PREFIXES, wanted=RARELY)
    def forget_all(self, prefix: Any, wanted: bool) -> None:
        if not wanted:
            return
        made = self.both("forget_all", lambda: self.face.forget_all(prefix), lambda: self.model.forget_all(prefix))
        assert made is not None
        receipt, erased = made
        assert (receipt.erased.get("memories", 0), receipt.residue) == (erased, ())

    # Time.

    @rule(ms=st.sampled_from([1, 1000, MINUTE, HOUR, DAY, 7 * DAY, 30 * DAY]))
    def let_time_pass(self, ms: int) -> None:
        self.clock.advance(ms=ms)
        self.model.now = self.clock.now

    @rule(data=st.data(), before=st.sampled_from([0, 1]))
    def go_to_a_turn(self, data: Any, before: int) -> None:
        turns = {
            time
            for row in self.model.rows.values()
            for time in (row.expires, row.valid_from, row.valid_until)
            if self.clock.now < time < NEVER
        }
        if turns:
            self.clock.now = max(self.clock.now, data.draw(st.sampled_from(sorted(turns))) - before)
            self.model.now = self.clock.now

    @rule()
    def sweep(self) -> None:
        made = self.both("sweep", self.face.sweep_ttl, self.model.sweep)
        assert made is not None
        assert made[0] == made[1]

    # Reads.

    @rule(ns=NAMESPACES, key=KEYS, refresh=st.sampled_from([None, True, False]))
    def get(self, ns: Any, key: str, refresh: bool | None) -> None:
        self.done["get"] += 1
        item = self.face.get(ns, key, refresh_ttl=refresh)
        # Another life of the key in the same millisecond would be taken for this one.
        self.face.flush()
        row = self.model.find(ns, key)
        if row is None or not self.model.alive(row):
            assert item is None
            return
        if refresh is not False:
            self.model.read(row)
        assert shown(item) == expected(row, row.status_at(self.clock.now))
        row.accesses += 1

    @rule(
        data=st.data(),
        prefix=PREFIXES,
        status=STATUSES,
        timed=st.sampled_from(["", "as_of", "known_at", "both"]),
        query=st.none() | WORDS,
        run=st.sampled_from([None, None, "r1"]),
        types=st.sampled_from([None, None, ("hypothesis",), ("generic", "intent")]),
        refresh=st.booleans(),
    )
    def recall(
        self, data: Any, prefix: Any, status: Any, timed: str, query: Any, run: Any, types: Any, refresh: bool
    ) -> None:
        times = sorted(
            {
                time + more
                for row in self.model.rows.values()
                for time in (
                    row.recorded,
                    row.valid_from,
                    row.valid_until,
                    *(one.at for one in row.beliefs),
                    row.expires,
                )
                for more in (-1, 0)
                if time < NEVER
            }
            | {self.clock.now, self.clock.now - DAY}
        )
        as_of = data.draw(st.sampled_from(times)) if timed in ("as_of", "both") else None
        known_at = data.draw(st.sampled_from(times)) if timed in ("known_at", "both") else None
        asked: dict[str, Any] = {"status": status, "limit": 1000, "refresh_ttl": refresh}
        asked |= {} if as_of is None else {"as_of": when(as_of)}
        asked |= {} if known_at is None else {"known_at": when(known_at)}
        asked |= {} if run is None else {"run_id": run}
        asked |= {} if types is None else {"memory_types": types}
        rows = self.model.recall(prefix, status, as_of, known_at, run, types)
        self.done["recall" + timed] += 1
        items = self.face.recall(prefix, query, **asked)
        again = self.scanning.recall(prefix, query, **{**asked, "refresh_ttl": False})
        self.store.flush()
        names = [(row.ns, row.key) for row in rows]
        for found in (items, again):
            read = [(item.namespace, item.key) for item in found]
            assert (read if query is None else sorted(read)) == (names if query is None else sorted(names))
        assert [(item.namespace, item.key, item.score) for item in items] == [
            (item.namespace, item.key, item.score) for item in again
        ]
        by_name = {(row.ns, row.key): row for row in rows}
        slides = refresh and as_of is None and known_at is None
        for item in items:
            row = by_name[item.namespace, item.key]
            if slides:
                self.model.read(row)
            if as_of is None and known_at is None:
                assert shown(item) == expected(row, row.state(self.clock.now, None, None))
                row.accesses += query is not None

    @rule(ns=NAMESPACES, key=KEYS, data=st.data(), timed=st.sampled_from(["as_of", "known_at", "both"]))
    def history(self, ns: Any, key: str, data: Any, timed: str) -> None:
        row = self.model.find(ns, key)
        if row is None:
            return
        times = sorted({one.at for one in row.beliefs} | {row.valid_from, row.valid_from - 1, self.clock.now})
        as_of = data.draw(st.sampled_from(times)) if timed != "known_at" else None
        known_at = data.draw(st.sampled_from(times)) if timed != "as_of" else None
        asked = {} if as_of is None else {"as_of": when(as_of)}
        asked |= {} if known_at is None else {"known_at": when(known_at)}
        self.done["history" + timed] += 1
        found = [item.key for item in self.face.history(ns, key, **asked)]
        assert found == [one.key for one in self.model.history(ns, key, as_of, known_at)]

    @rule(ns=NAMESPACES, key=KEYS, relation=st.none() | RELATIONS, direction=st.sampled_from(["out", "in", "both"]))
    def neighbors(self, ns: Any, key: str, relation: Any, direction: str) -> None:
        row = self.model.find(ns, key)
        if row is None or not self.model.alive(row):
            return
        found = self.face.neighbors(ns, key, relation, direction)
        wanted = []
        for place, one, kind, other in self.model.links:
            if place != ns or relation not in (None, kind):
                continue
            for end, far, side in ((one, other, "out"), (other, one, "in")):
                if end == key and direction in (side, "both") and self.model.alive(self.model.find(ns, far)):
                    wanted.append((kind, far))
        assert sorted((kind, item.key) for kind, item in found) == sorted(wanted)

    # What holds after every step.

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        for row in self.model.rows.values():
            chain = self.model.history(row.ns, row.key, None, None)
            items = self.store.history(row.ns, row.key)
            wanted = [expected(one, one.status_at(self.clock.now)) for one in chain]
            assert [shown(item) for item in items] == wanted
        wanted_names = [(row.ns, row.key) for row in self.model.recall(())]
        for store in (self.store, self.scanning):
            found = store.search((), limit=1000, refresh_ttl=False)
            assert [(item.namespace, item.key) for item in found] == wanted_names

    @invariant()
    def a_slot_has_one_current_row_and_chains_are_linear(self) -> None:
        if not hasattr(self, "store"):
            return
        items = self.store.recall(
            (), status=(ACTIVE, ARCHIVED, SUPERSEDED), memory_types=sorted(TYPES), limit=1000, refresh_ttl=False
        )
        for run in ("r1", "r2"):
            items += self.store.recall((), run_id=run, memory_types=sorted(TYPES), limit=1000, refresh_ttl=False)
        current = {
            (item.namespace, item.key): self.model.canonical(
                item.namespace, (item.memory.subject, item.memory.attribute)
            )
            for item in items
            if item.memory.subject is not None and item.memory.status == ACTIVE
        }
        twice = [slot for slot, many in Counter(current.values()).items() if many > 1]
        assert not twice, f"slots with more than one current row: {twice}"
        by_name = {(item.namespace, item.key): item.memory for item in items}
        for (ns, key), life in by_name.items():
            before = by_name.get((ns, life.supersedes))
            assert before is None or before.superseded_by == key
            after = by_name.get((ns, life.superseded_by))
            assert after is None or after.supersedes == key or life.reason == "merged"

    @invariant()
    def nothing_refers_to_what_is_gone(self) -> None:
        if not hasattr(self, "store"):
            return
        prefix = store_prefix(self.key_prefix)
        present = {ns: {key for place, key in self.model.rows if place == ns} for ns in (HOME, OTHER)}
        with self.server.client() as client:
            check_keys(client, self.key_prefix)
            for ns, keys in present.items():
                space = b"".join(encode_text(label) + b"\0\1" for label in ns)
                names = {encode_text(key) for key in keys}
                for kind in (b"m", b"v"):
                    assert set(client.hkeys(prefix + kind + b":" + space)) == names
                for packed in client.hvals(prefix + b"x:" + space):
                    rest = unpack_rest(packed)
                    assert {rest.get("supersedes"), rest.get("superseded_by")} <= {None, *keys}
                for meta in client.hvals(prefix + b"m:" + space):
                    unpacked = unpack_meta(meta)
                    assert not unpacked.flags & 1 or unpacked.expires_at == NEVER


@pytest.mark.parametrize(("name", "asynchronous"), [("redis-6.2", True), ("valkey-9.1", False)])
def test_a_random_life_is_that_of_a_naive_model(name, asynchronous):
    server = start_or_skip(name)
    done: Counter[str] = Counter()
    try:
        machine = type("Machine", (Machine,), {"server": server, "asynchronous": asynchronous, "done": done})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            ),
        )
    finally:
        server.stop()
