"""The lifecycle against a naive bitemporal model: random lives, on two servers and both engines, no difference."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.backend.codec import unpack_meta
from langgraph_forgetful_store.backend.keys import encode_text, store_prefix
from langgraph_forgetful_store.lifecycle import unpack_rest
from langgraph_forgetful_store.operations.history import MERGED, unpack_links
from langgraph_forgetful_store.testing import Clock, Face, WordEmbeddings, check_keys
from tests.conftest import start_or_skip
from tests.lifecycle_model import ACTIVE, ARCHIVED, DAY, NEVER, SUPERSEDED, TYPES, UNSAID, Model, Row

EXAMPLES = int(os.environ.get("LIFECYCLE_EXAMPLES", "30"))
STEPS = int(os.environ.get("LIFECYCLE_STEPS", "40"))
DIMS = 8
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
_serial = itertools.count()

MINUTE, HOUR = 60_000, 3_600_000
HOME, OTHER = ("m", "u"), ("m", "v")
NAMESPACES = st.sampled_from([HOME, HOME, HOME, OTHER])
PREFIXES = st.sampled_from([(), ("m",), HOME, OTHER])
KEYS = st.sampled_from(["a", "b", "c", "d", "e", "f"])
SUBJECTS = st.sampled_from(["me", "Bob", "Robert"])
SLOTS = st.tuples(SUBJECTS, st.sampled_from(["city", "city", "job"]))
WORDS = st.sampled_from(["red", "green", "blue", "red car"])
# Minutes, as a caller says them.
TTLS = st.sampled_from([UNSAID, UNSAID, UNSAID, None, 1, 30, 1440])
OFFSETS = st.sampled_from([-8 * DAY, -DAY, -HOUR, -1, 0, 1, HOUR, DAY, 8 * DAY])
REASONS = st.sampled_from(["updated", "corrected", "negated"])
RELATIONS = st.sampled_from(["relates", "updates", "negates", "completes", "resolves", "closes", "summarizes"])
STATUSES = st.sampled_from([(ACTIVE,), (ACTIVE,), (ARCHIVED,), (SUPERSEDED,), (ACTIVE, ARCHIVED, SUPERSEDED)])
SAID = st.fixed_dictionaries(
    {},
    optional={
        "memory_type": st.sampled_from(sorted(TYPES)),
        "importance": st.sampled_from([0.0, 0.3, 1.0]),
        "source": st.sampled_from(["user", "model"]),
        "tags": st.just(("t",)),
    },
)
RARELY = st.sampled_from([False] * 9 + [True])


def when(ms: float) -> datetime:
    return EPOCH + ms * MS


def _ms(moment: datetime | None, default: float | None = NEVER) -> float | None:
    return default if moment is None else round((moment - EPOCH) / MS, 3)


def shown(item: Any) -> dict[str, Any]:
    """What an item says of a row."""
    life = item.memory
    return {
        "ns": item.namespace,
        "key": item.key,
        "value": item.value,
        "created": _ms(item.created_at),
        "updated": _ms(item.updated_at),
        "status": str(life.status),
        "expires": _ms(life.expires_at),
        "recorded": _ms(life.recorded_at),
        "retired": _ms(life.retired_at),
        "valid_from": _ms(life.valid_from),
        "valid_until": _ms(life.valid_until),
        "confirmed": _ms(life.confirmed_at, None),
        "importance": life.importance,
        "confidence": life.confidence,
        "version": life.version,
        "memory_type": life.memory_type,
        "pinned": life.pinned,
        "run_id": life.run_id,
        "source": life.source,
        "tags": life.tags,
        "slot": None if life.subject is None else (life.subject, life.attribute),
        "supersedes": life.supersedes,
        "superseded_by": life.superseded_by,
        "reason": life.reason,
        "accesses": life.access_count,
    }


def expected(row: Row, status: str) -> dict[str, Any]:
    names = (
        *("ns", "key", "value", "created", "updated", "expires", "recorded", "retired", "valid_from", "valid_until"),
        *("confirmed", "importance", "confidence", "version", "memory_type", "pinned", "run_id", "source", "tags"),
        *("slot", "supersedes", "superseded_by", "reason", "accesses"),
    )
    return {**{name: getattr(row, name) for name in names}, "status": status}


class Machine(RuleBasedStateMachine):
    server: Any
    asynchronous: bool
    done: Counter[str]

    @initialize()
    def start(self) -> None:
        self.clock = Clock()
        self.key_prefix = f"life{next(_serial)}"
        self.model = Model()
        self.model.now = self.clock.now
        self.store, self.scanning = (
            ForgetfulStore.from_conn_string(
                self.server.url,
                key_prefix=self.key_prefix,
                clock=self.clock,
                index={"dims": DIMS, "embed": WordEmbeddings(DIMS)},
                **more,
            )
            for more in ({}, {"cache_bytes": 0})
        )
        self.face = Face(self.store, asynchronous=self.asynchronous)

    def teardown(self) -> None:
        if not hasattr(self, "face"):
            return
        self.face.end()
        self.store.close()
        self.scanning.close()
        with self.server.client() as client:
            for key in client.scan_iter(match=f"{self.key_prefix}:*", count=1000):
                client.delete(key)

    # How a step is made on both sides.

    def both(self, name: str, store: Callable[[], Any], model: Callable[[], Any]) -> tuple[Any, Any] | None:
        """Return what each returns; None where both raised the same error."""
        self.done[name] += 1
        error: BaseException | None = None
        wanted = None
        try:
            wanted = model()
        except (LookupError, ValueError, Exception) as raised:
            if type(raised).__module__ == "builtins" and not isinstance(raised, ValueError):
                raise
            error = raised
        try:
            got = store()
        except Exception as raised:
            assert error is not None and type(raised) is type(error), f"{name}: {raised!r}, expected {error!r}"
            return None
        assert error is None, f"{name}: no {error!r}"
        return got, wanted

    def change(self, name: str, store: Callable[[], Any], model: Callable[[], Row]) -> None:
        """Make a step that returns the row."""
        made = self.both(name, store, model)
        if made is not None:
            item, row = made
            assert shown(item) == expected(row, row.status_at(self.clock.now)), name

    def moment(self, offset: float | None) -> float | None:
        return None if offset is None else self.clock.now + offset

    def options(self, said: dict[str, Any], ttl: Any) -> tuple[dict[str, Any], dict[str, Any], Any]:
        """The same as arguments of a call, as fields of the model, and the ttl in ms."""
        call = {name: value for name, value in said.items() if name != "slot"}
        if "slot" in said:
            call["subject"], call["attribute"] = said["slot"]
        for name in ("valid_from", "valid_until"):
            if name in said:
                call[name] = when(said[name])
        if ttl is not UNSAID:
            call["ttl"] = ttl
        return call, said, ttl * MINUTE if isinstance(ttl, int) else ttl

    # Writes.

    @rule(ns=NAMESPACES, key=KEYS, word=WORDS, ttl=TTLS)
    def put(self, ns: Any, key: str, word: str, ttl: Any) -> None:
        call, said, ms = self.options({}, ttl)
        self.both(
            "put",
            lambda: self.face.put(ns, key, {"content": word}, **call),
            lambda: self.model.put(ns, key, {"content": word}, said, ms),
        )

    @rule(
        ns=NAMESPACES,
        key=KEYS,
        word=WORDS,
        said=SAID,
        slot=st.none() | SLOTS,
        start=st.none() | OFFSETS,
        end=st.none() | OFFSETS,
        pinned=st.sampled_from([None, None, None, True, False]),
        ttl=TTLS,
    )
    def put_with_fields(
        self, ns: Any, key: str, word: str, said: Any, slot: Any, start: Any, end: Any, pinned: Any, ttl: Any
    ) -> None:
        said = self.life(said, slot, start, end, pinned, None)
        call, said, ms = self.options(said, ttl)
        more = {} if ttl is UNSAID else {"ttl": call.pop("ttl")}
        value = {"content": word, "$memory": call}
        if ms is None and "memory_type" in said:
            # An API that says nothing sends None.
            ms = UNSAID
        self.both(
            "put_with_fields",
            lambda: self.face.put(ns, key, value, **more),
            lambda: self.model.put(ns, key, {"content": word}, said, ms),
        )

    def life(self, said: Any, slot: Any, start: Any, end: Any, pinned: Any, run: Any) -> dict[str, Any]:
        given = {"slot": slot, "valid_from": self.moment(start), "valid_until": self.moment(end)}
        given |= {"pinned": pinned, "run_id": run}
        said = {**said, **{name: value for name, value in given.items() if value is not None}}
        if said.get("valid_until", NEVER) <= said.get("valid_from", 0):
            del said["valid_until"]
        return said

    @rule(
        ns=NAMESPACES,
        key=KEYS,
        word=WORDS,
        said=SAID,
        slot=SLOTS | st.none(),
        start=st.none() | st.none() | OFFSETS,
        end=st.none() | st.none() | OFFSETS,
        pinned=st.sampled_from([None, None, None, None, True, False]),
        run=st.sampled_from([None, None, None, None, "r1", "r2"]),
        ttl=TTLS,
    )
    def remember(
        self, ns: Any, key: str, word: str, said: Any, slot: Any, start: Any, end: Any, pinned: Any, run: Any, ttl: Any
    ) -> None:
        call, said, ms = self.options(self.life(said, slot, start, end, pinned, run), ttl)
        self.change(
            "remember",
            lambda: self.face.remember(ns, word, key=key, **call),
            lambda: self.model.put(ns, key, {"content": word}, said, ms),
        )

    @rule(ns=NAMESPACES, key=KEYS, word=WORDS, slot=SLOTS, start=st.none() | st.none() | OFFSETS)
    def remember_in_a_slot(self, ns: Any, key: str, word: str, slot: Any, start: Any) -> None:
        call, said, ms = self.options(self.life({}, slot, start, None, None, None), UNSAID)
        self.change(
            "remember",
            lambda: self.face.remember(ns, word, key=key, **call),
            lambda: self.model.put(ns, key, {"content": word}, said, ms),
        )

    @rule(
        ns=NAMESPACES,
        key=KEYS,
        new_key=KEYS,
        word=WORDS,
        said=SAID,
        slot=st.none() | st.none() | st.none() | SLOTS,
        start=st.none() | st.none() | OFFSETS,
        end=st.none() | st.none() | OFFSETS,
        reason=REASONS,
        version=st.none() | st.none() | st.none() | st.integers(1, 3),
        ttl=TTLS,
    )
    def supersede(
        self,
        ns: Any,
        key: str,
        new_key: str,
        word: str,
        said: Any,
        slot: Any,
        start: Any,
        end: Any,
        reason: str,
        version: Any,
        ttl: Any,
    ) -> None:
        call, said, ms = self.options(self.life(said, slot, start, end, None, None), ttl)
        if said.get("valid_until", NEVER) <= said.get("valid_from", self.clock.now):
            return
        more = {} if version is None else {"expected_version": version}
        if self.model.alive(self.model.find(ns, new_key)) and version is not None:
            return
        self.change(
            "supersede",
            lambda: self.face.supersede(ns, key, word, new_key=new_key, reason=reason, **more, **call),
            lambda: self.model.supersede(ns, key, {"content": word}, new_key, said, ms, reason, version),
        )

    @rule(ns=NAMESPACES, key=KEYS)
    def delete(self, ns: Any, key: str) -> None:
        self.both("delete", lambda: self.face.delete(ns, key), lambda: self.model.delete(ns, key))

    # Transitions.

    @rule(ns=NAMESPACES, key=KEYS, name=st.sampled_from(["archive", "restore", "pin", "unpin", "anchor", "confirm", "deny"]))
    def step(self, ns: Any, key: str, name: str) -> None:
        self.change(name, lambda: getattr(self.face, name)(ns, key), lambda: getattr(self.model, name)(ns, key))

    @rule(ns=NAMESPACES, key=KEYS, by=st.sampled_from([0.2, 0.7]))
    def demote(self, ns: Any, key: str, by: float) -> None:
        self.change("demote", lambda: self.face.demote(ns, key, by), lambda: self.model.demote(ns, key, by))

    @rule(ns=NAMESPACES, key=KEYS, ttl=st.sampled_from([1, 60, 20_000]))
    def extend(self, ns: Any, key: str, ttl: int) -> None:
        self.change("extend", lambda: self.face.extend(ns, key, ttl), lambda: self.model.extend(ns, key, ttl * MINUTE))

    @rule(ns=NAMESPACES, key=KEYS, reason=REASONS, offset=st.none() | st.none() | OFFSETS)
    def retire(self, ns: Any, key: str, reason: str, offset: Any) -> None:
        until = self.moment(offset)
        more = {} if until is None else {"valid_until": when(until)}
        self.change(
            "retire",
            lambda: self.face.retire(ns, key, reason=reason, **more),
            lambda: self.model.retire(ns, key, reason, until),
        )

    @rule(ns=NAMESPACES, key=KEYS)
    def undo_supersede(self, ns: Any, key: str) -> None:
        self.change(
            "undo_supersede",
            lambda: self.face.undo_supersede(ns, key),
            lambda: self.model.undo_supersede(ns, key),
        )

    # Names, links, ends.

    def is_to_come(self, ns: Any) -> bool:
        """Whether a row of a slot will begin, or end, only later: two chains of such rows can't be made one."""
        now = self.clock.now
        return any(
            row.ns == ns and row.slot is not None and (row.valid_from > now or (row.closes and row.valid_until > now))
            for row in self.model.every()
        )

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

    @rule(prefix=PREFIXES, run=st.sampled_from(["r1", "r2"]))
    def end_run(self, prefix: Any, run: str) -> None:
        made = self.both(
            "end_run", lambda: self.face.end_run(prefix, run), lambda: self.model.end_run(prefix, run)
        )
        assert made is not None and made[0] == made[1]

    @rule(ns=NAMESPACES, key=KEYS)
    def forget(self, ns: Any, key: str) -> None:
        made = self.both("forget", lambda: self.face.forget(ns, key), lambda: self.model.forget(ns, key))
        assert made is not None
        receipt, erased = made
        assert (receipt.erased.get("memories", 0), receipt.residue) == (len(erased), ())
        for one in erased:
            assert self.face.audit(ns, key=one) == [] or one == key

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
        assert made is not None and made[0] == made[1]

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
                for time in (row.recorded, row.valid_from, row.valid_until, *(one.at for one in row.beliefs), row.expires)
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
                for field, value in client.hgetall(prefix + b"s:" + space).items():
                    assert field[:1] != b"s" or value in names, f"a slot of what is gone: {field!r}"
                for field, value in client.hgetall(prefix + b"k:" + space).items():
                    ends = {other for _, _, other in unpack_links(value)}
                    assert field[1:] in names and ends <= keys, f"a link of what is gone: {field!r}, {ends}"
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
    print(sum(done.values()), done)
