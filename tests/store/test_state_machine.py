"""The store against a dict: thousands of random steps, no difference."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from langgraph.store.base import PutOp

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.search.scoring import cosine, normalise
from langgraph_forgetful_store.testing import Face, WordEmbeddings, check_keys
from tests.conftest import Clock, start_or_skip

pytestmark = pytest.mark.exhaustive

DIMS = 8
_serial = itertools.count()
_words = WordEmbeddings(DIMS)

LABELS = st.sampled_from(
    ["a", "A", "aa", "b", "bb", "é", "漢", "%", "_", "*", "?", "[x]", "|", "\\", "\x01", "🙂", " "]
)
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES = st.lists(LABELS, max_size=2).map(tuple)
KEYS = st.sampled_from(["", "k", "K", "k.v", "a:*?[x]", "漢字", "k\0", "\n", "🙂", "{k}"])
TEXTS = st.lists(st.sampled_from(["red", "green", "blue", "car", "house"]), min_size=1, max_size=3).map(" ".join)
VALUES = st.fixed_dictionaries(
    {"n": st.one_of(st.integers(-3, 3), st.booleans(), st.none(), st.just("s"))}, optional={"text": TEXTS}
)
TTLS = st.sampled_from([None, None, 0, 0.00002, 0.5, 1, 1.00005, 60])
REFRESH = st.sampled_from([None, True, False])
FILTERS = st.sampled_from(
    [None, {}, {"n": 1}, {"n": {"$gte": 0}}, {"n": None}, {"n": {"$ne": True}}, {"text": {"$exists": False}}]
)


def _matches(given: dict[str, Any] | None, value: dict[str, Any]) -> bool:
    n = value.get("n")
    number = isinstance(n, int) and not isinstance(n, bool)
    if not given:
        return True
    if given == {"n": {"$gte": 0}}:
        return number and n >= 0
    if given == {"n": {"$ne": True}}:
        return n is not True
    if given == {"text": {"$exists": False}}:
        return "text" not in value
    return n is None if given["n"] is None else number and n == 1


@dataclass
class Row:
    value: dict[str, Any]
    created: float
    updated: float
    number: int
    ttl: float | None
    expires: float
    version: int
    indexed: bool


class Machine(RuleBasedStateMachine):
    server: Any
    asynchronous: bool
    cache_bytes: int

    @initialize(omit=st.sampled_from([None, True, False]), refresh=st.sampled_from([None, True, False]))
    def start(self, omit: bool | None, refresh: bool | None) -> None:
        self.clock = Clock()
        self.key_prefix = f"sm{next(_serial)}"
        ttl = {"default_ttl": 2.0}
        ttl |= {} if omit is None else {"omit_expired": omit}
        ttl |= {} if refresh is None else {"refresh_on_read": refresh}
        self.omit = omit is not False
        self.refresh = refresh is not False
        index = {"dims": DIMS, "embed": WordEmbeddings(DIMS), "fields": ["text"]}
        self.store = ForgetfulStore.from_conn_string(
            self.server.url,
            key_prefix=self.key_prefix,
            clock=self.clock,
            ttl=ttl,
            index=index,
            scoring="similarity",
            cache_bytes=self.cache_bytes,
        )
        self.face = Face(self.store, asynchronous=self.asynchronous)
        self.rows: dict[tuple[tuple[str, ...], str], Row] = {}
        self.number = 0

    def teardown(self) -> None:
        if not hasattr(self, "face"):
            return
        self.face.end()
        self.store.close()
        with self.server.client() as client:
            check_keys(client, self.key_prefix)
            for key in client.scan_iter(match=f"{self.key_prefix}:*", count=1000):
                client.delete(key)

    def alive(self, row: Row) -> bool:
        return not self.omit or row.expires > self.clock.now

    def write(self, namespace: tuple[str, ...], key: str, value: Any, ttl: float | None, indexed: bool) -> None:
        old = self.rows.pop((namespace, key), None)
        if value is None:
            return
        self.number += 1
        ms = None if ttl is None else (max(round(ttl * 60_000), 1) if ttl else 0)
        kept = old if old is not None and self.alive(old) else None
        self.rows[namespace, key] = Row(
            value,
            kept.created if kept else self.clock.now,
            self.clock.now,
            self.number,
            ms,
            float("inf") if ms is None else self.clock.now + ms,
            kept.version + 1 if kept else 1,
            indexed and "text" in value,
        )

    def read(self, row: Row, refresh: bool | None) -> None:
        if (self.refresh if refresh is None else refresh) and row.ttl is not None:
            row.expires = max(row.expires, self.clock.now + row.ttl)

    def same(self, item: Any, namespace: tuple[str, ...], key: str, row: Row) -> None:
        assert (item.namespace, item.key, item.value) == (namespace, key, row.value)
        assert item.created_at.timestamp() * 1000 == row.created
        assert item.updated_at.timestamp() * 1000 == row.updated
        assert item.memory.version == row.version
        expires = item.memory.expires_at
        assert (float("inf") if expires is None else round(expires.timestamp() * 1000)) == row.expires

    @rule(namespace=NAMESPACES, key=KEYS, value=VALUES, ttl=TTLS, indexed=st.sampled_from([True, True, False]))
    def put(self, namespace: tuple[str, ...], key: str, value: Any, ttl: float | None, indexed: bool) -> None:
        self.face.put(namespace, key, value, index=None if indexed else False, ttl=ttl)
        self.write(namespace, key, value, ttl, indexed)

    @rule(namespace=NAMESPACES, key=KEYS, value=VALUES)
    def put_with_the_default_ttl(self, namespace: tuple[str, ...], key: str, value: Any) -> None:
        self.face.put(namespace, key, value)
        self.write(namespace, key, value, 2.0, True)

    @rule(ops=st.lists(st.tuples(NAMESPACES, KEYS, st.none() | VALUES, TTLS), max_size=5))
    def write_a_batch(self, ops: list[Any]) -> None:
        assert self.face.batch(PutOp(ns, key, value, ttl=ttl) for ns, key, value, ttl in ops) == [None] * len(ops)
        last = {(ns, key): at for at, (ns, key, _, _) in enumerate(ops)}
        for at, (ns, key, value, ttl) in enumerate(ops):
            if last[ns, key] == at:
                self.write(ns, key, value, ttl, True)

    @rule(namespace=NAMESPACES, key=KEYS)
    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        self.face.delete(namespace, key)
        self.rows.pop((namespace, key), None)

    @rule(data=st.data(), namespace=NAMESPACES, key=KEYS, refresh=REFRESH)
    def get(self, data: Any, namespace: tuple[str, ...], key: str, refresh: bool | None) -> None:
        if self.rows and data.draw(st.booleans()):
            namespace, key = data.draw(st.sampled_from(sorted(self.rows)))
        item = self.face.get(namespace, key, refresh_ttl=refresh)
        row = self.rows.get((namespace, key))
        if row is None or not self.alive(row):
            assert item is None
        else:
            self.read(row, refresh)
            self.same(item, namespace, key, row)

    @rule(
        prefix=PREFIXES,
        query=st.none() | st.just("") | TEXTS,
        given=FILTERS,
        limit=st.integers(0, 6),
        offset=st.integers(0, 3),
        refresh=REFRESH,
    )
    def search(self, prefix: Any, query: str | None, given: Any, limit: int, offset: int, refresh: bool | None) -> None:
        items = self.face.search(prefix, query=query, filter=given, limit=limit, offset=offset, refresh_ttl=refresh)
        found = []
        for (namespace, key), row in self.rows.items():
            if namespace[: len(prefix)] == prefix and self.alive(row) and _matches(given, row.value):
                score = None
                if query and row.indexed:
                    both = np.array([_words.embed_query(row.value["text"]), _words.embed_query(query)], np.float32)
                    both = normalise(both)
                    score = float(cosine(both[1], both[:1])[0])
                found.append((score is not None, score or 0.0, row.number, namespace, key, row, score))
        found.sort(key=lambda entry: entry[:3], reverse=True)
        page = found[offset : offset + limit]
        assert [(item.namespace, item.key) for item in items] == [(entry[3], entry[4]) for entry in page]
        for item, (*_, namespace, key, row, score) in zip(items, page, strict=True):
            self.read(row, refresh)
            self.same(item, namespace, key, row)
            assert item.score == score

    @rule(
        prefix=st.none() | st.lists(LABELS | st.just("*"), max_size=2).map(tuple),
        suffix=st.none() | st.lists(LABELS | st.just("*"), max_size=2).map(tuple),
        depth=st.none() | st.integers(1, 3),
        limit=st.integers(0, 6),
        offset=st.integers(0, 2),
    )
    def list_namespaces(self, prefix: Any, suffix: Any, depth: int | None, limit: int, offset: int) -> None:
        found = self.face.list_namespaces(prefix=prefix, suffix=suffix, max_depth=depth, limit=limit, offset=offset)
        names = set()
        for (namespace, _), row in self.rows.items():
            heads = zip(prefix or (), namespace, strict=False)
            tails = zip(reversed(suffix or ()), reversed(namespace), strict=False)
            long_enough = len(namespace) >= max(len(prefix or ()), len(suffix or ()))
            if self.alive(row) and long_enough and all(want in ("*", is_) for want, is_ in [*heads, *tails]):
                names.add(namespace[:depth])
        assert found == sorted(names)[offset : offset + limit]

    @rule(ms=st.sampled_from([0, 1, 2, 29_999, 30_000, 60_000, 60_003, 120_000, 3_600_000]))
    def let_time_pass(self, ms: int) -> None:
        self.clock.advance(ms=ms)

    @rule(data=st.data(), before=st.sampled_from([0, 1]))
    def go_to_an_expiry(self, data: Any, before: int) -> None:
        ends = sorted({row.expires for row in self.rows.values() if self.clock.now < row.expires < float("inf")})
        if ends:
            self.clock.now = max(self.clock.now, data.draw(st.sampled_from(ends)) - before)

    @rule()
    def sweep(self) -> None:
        dead = [name for name, row in self.rows.items() if row.expires <= self.clock.now]
        assert self.face.sweep_ttl() == len(dead)
        for name in dead:
            del self.rows[name]

    @invariant()
    def holds_as_many_rows(self) -> None:
        if hasattr(self, "store"):
            alive = sum(self.alive(row) for row in self.rows.values())
            assert len(self.store.search((), limit=1000, refresh_ttl=False)) == alive


@pytest.mark.parametrize(
    ("name", "asynchronous", "cache_bytes"),
    [
        ("redis-6.2", False, 2**29),
        ("redis-8.2", True, 0),
        ("valkey-9.1", False, 0),
        ("embedded", True, 2**29),
    ],
)
def test_a_random_life_of_a_store_is_that_of_a_dict(name, asynchronous, cache_bytes):
    server = start_or_skip(name)
    try:
        machine = type(
            "Machine", (Machine,), {"server": server, "asynchronous": asynchronous, "cache_bytes": cache_bytes}
        )
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=60,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            ),
        )
    finally:
        server.stop()
