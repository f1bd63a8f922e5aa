"""Steps that are made in a store and in its naive model: how they are compared, and those that write."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
)

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.errors import ForgetfulStoreError
from langgraph_forgetful_store.testing import Clock, Face, WordEmbeddings
from tests.support.lifecycle_model import ACTIVE, ARCHIVED, DAY, NEVER, SUPERSEDED, TYPES, UNSAID, Model, Row

DIMS = 8
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
_serial = itertools.count()

MINUTE, HOUR = 60_000, 3_600_000
HOME, OTHER = ("m", "u"), ("m", "v")
NAMESPACES = st.sampled_from([HOME] * 5 + [OTHER])
PREFIXES = st.sampled_from([(), ("m",), HOME, OTHER])
KEYS = st.sampled_from(["a", "b", "c", "d"])
NEW_KEYS = st.sampled_from(["a", "b", "c", "d", "e", "f", "g"])
SUBJECTS = st.sampled_from(["Bob", "Robert", "Bobby"])
SLOTS = st.tuples(SUBJECTS, st.sampled_from(["city", "city", "city", "job"]))
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
SOMETIMES = st.sampled_from([False, False, True])


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


def _outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the error that it says something is not possible with."""
    try:
        return call()
    except (ValueError, ForgetfulStoreError) as error:
        return error


def _kind(outcome: Any) -> Any:
    return type(outcome) if isinstance(outcome, ValueError | ForgetfulStoreError) else None


class Writes(RuleBasedStateMachine):
    """A store, its model, and what writes to both."""

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
        got, wanted = _outcome(store), _outcome(model)
        assert _kind(got) == _kind(wanted), f"{name}: {got!r}, expected {wanted!r}"
        return None if isinstance(wanted, ValueError | ForgetfulStoreError) else (got, wanted)

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
        said = self.life(said, slot, self.moved(ns, key, start), end, pinned, None)
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

    def is_to_come(self, ns: Any) -> bool:
        """Whether a row of a slot will begin, or end, only later: two chains of such rows can't be made one."""
        now = self.clock.now
        return any(
            row.ns == ns and row.slot is not None and (row.valid_from > now or (row.closes and row.valid_until > now))
            for row in self.model.every()
        )

    def moved(self, ns: Any, key: str, start: Any) -> Any:
        """Leave a row that is written over where it began, while what came before it holds still."""
        return None if self.model.alive(self.model.find(ns, key)) and self.is_to_come(ns) else start

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
        call, said, ms = self.options(self.life(said, slot, self.moved(ns, key, start), end, pinned, run), ttl)
        self.change(
            "remember",
            lambda: self.face.remember(ns, word, key=key, **call),
            lambda: self.model.put(ns, key, {"content": word}, said, ms),
        )

    @rule(ns=NAMESPACES, key=KEYS, word=WORDS, slot=SLOTS, start=st.none() | st.none() | OFFSETS)
    def remember_in_a_slot(self, ns: Any, key: str, word: str, slot: Any, start: Any) -> None:
        call, said, ms = self.options(self.life({}, slot, self.moved(ns, key, start), None, None, None), UNSAID)
        self.change(
            "remember",
            lambda: self.face.remember(ns, word, key=key, **call),
            lambda: self.model.put(ns, key, {"content": word}, said, ms),
        )

    @rule(
        ns=NAMESPACES,
        key=KEYS,
        new_key=NEW_KEYS,
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

    @rule(ns=NAMESPACES, key=NEW_KEYS, wanted=SOMETIMES)
    def delete(self, ns: Any, key: str, wanted: bool) -> None:
        if not wanted:
            return
        self.both("delete", lambda: self.face.delete(ns, key), lambda: self.model.delete(ns, key))
