"""Something else wrote under the store's key prefix: a clear error, or a store that works; never half a write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp
from redis.exceptions import ResponseError

from langgraph_forgetful_store import CorruptRecordError
from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import META_BYTES, META_DTYPE, load_value
from langgraph_forgetful_store.backend.keys import GLOBAL, PER_NAMESPACE, encode_namespace, store_prefix
from langgraph_forgetful_store.testing import check_keys
from tests.conftest import Clock
from tests.support.refused_input import INDEX

NS, OTHER = ("users", "alice"), ("other",)
KINDS = [*GLOBAL, *(f"{kind}:" for kind in PER_NAMESPACE)]
READS: dict[str, Callable[[Any], Any]] = {
    "get": lambda store: store.get(NS, "plain"),
    "get of a TTL": lambda store: store.get(NS, "ttl", refresh_ttl=False),
    "get of another namespace": lambda store: store.get(OTHER, "k"),
    "get of what is absent": lambda store: store.get(NS, "absent"),
    "search": lambda store: store.search(NS, refresh_ttl=False),
    "search below": lambda store: store.search((), refresh_ttl=False),
    "query": lambda store: store.search(NS, query="green tea", refresh_ttl=False),
    "filter": lambda store: store.search((), filter={"n": 1}, refresh_ttl=False),
    "list": lambda store: store.list_namespaces(),
}
REFRESHES: dict[str, Callable[[Any], Any]] = {
    "refreshing get": lambda store: store.get(NS, "ttl"),
    "refreshing get of two": lambda store: store.batch([GetOp(OTHER, "ttl"), GetOp(NS, "ttl")]),
    "refreshing search": lambda store: store.search(NS),
    "refreshing query": lambda store: store.search(NS, query="green tea"),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "put": lambda store: store.put(NS, "new", {"text": "new"}),
    "put over": lambda store: store.put(NS, "plain", {"text": "over"}, ttl=1),
    "put elsewhere": lambda store: store.put(("elsewhere",), "k", {"text": "new"}),
    "put into two": lambda store: store.batch([PutOp(("elsewhere",), "k", {}), PutOp(NS, "k", {})]),
    "delete": lambda store: store.delete(NS, "plain"),
    "delete of two": lambda store: store.batch([PutOp(OTHER, "k", None), PutOp(NS, "ttl", None)]),
    "sweep": lambda store: store.sweep_ttl(),
}


def content(result: Any) -> Any:
    """What must not change: a refresh moves expiries alone."""
    if isinstance(result, list):
        return [content(one) for one in result]
    return (result.namespace, result.key, result.value) if hasattr(result, "key") else result


@dataclass
class Place:
    """A store over a few rows, and the keys under its prefix."""

    client: Any
    make_store: Any
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.prefix = store_prefix(self.make_store.key_prefix)
        self.store = self.make_store(clock=self.clock, index=INDEX)
        self.store.batch(
            [
                PutOp(NS, "expired", {"n": 1}, ttl=1),
                PutOp(OTHER, "expired", {"n": 1}, ttl=1),
                PutOp(NS, "plain", {"text": "green tea", "n": 1}),
                PutOp(NS, "ttl", {"text": "black tea", "n": 2}, ttl=10),
                PutOp(OTHER, "k", {"n": 1}, index=False),
                PutOp(OTHER, "ttl", {"n": 3}, index=False, ttl=10),
            ]
        )
        self.clock.advance(minutes=2)

    def name(self, kind: str) -> bytes:
        return self.prefix + kind.encode() + (encode_namespace(NS) if kind.endswith(":") else b"")

    def dump(self) -> dict[bytes, bytes]:
        return {key: self.client.dump(key) for key in self.client.scan_iter(count=1000)}

    def clear(self) -> None:
        for key in list(self.client.scan_iter(match=self.prefix + b"*")):
            self.client.delete(key)


@pytest.fixture
def place(make_store: Any) -> Iterator[Place]:
    with make_store.server.client() as client:
        made = Place(client, make_store)
        yield made
        # What the test broke is of no use to the check of all keys.
        made.clear()


def attempt(call: Callable[[Any], Any], store: Any) -> Any:
    try:
        return call(store)
    except (CorruptRecordError, ResponseError) as error:
        return error


READ_BY_GET = {"m:", "v:", "x:"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_foreign_key_of_the_wrong_type_makes_an_error_or_changes_nothing(place: Place, kind: str) -> None:
    healthy = {name: content(call(place.store)) for name, call in (READS | REFRESHES).items()}
    place.client.delete(place.name(kind))
    place.client.set(place.name(kind), "foreign")
    failed = set()
    for name, call in (READS | REFRESHES | WRITES).items():
        place.clock.advance(ms=1)
        before = place.dump()
        outcome = attempt(call, place.store)
        if isinstance(outcome, Exception):
            failed.add(name)
            # A string is what a counter is too, though not this one.
            reason = "not an integer" if kind == "seq" else "something else wrote a key under the store's key prefix"
            assert reason in str(outcome)
        elif name not in WRITES:
            assert content(outcome) == healthy[name], f"{name} did not fail and is wrong"
        if name in failed or name in READS:
            assert place.dump() == before, f"{name} changed something"
    # An error is not the only answer; what erasures leave is no matter of puts and deletes.
    assert failed >= {"put", "put over", "put into two", "delete", "delete of two"} or kind in {"fmt", "g:"}
    assert not failed & {"get", "get of another namespace"} or kind in READ_BY_GET
    if kind.endswith(":") and kind != "g:":
        assert place.store.get(("elsewhere",), "k").value == {"text": "new"}


NAN = b"\xff" * 8
IMPORTANCE_AT = META_DTYPE.fields["importance"][1]
STATUS_AT = META_DTYPE.fields["status"][1]
BAD_META: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda meta: b"",
    "short": lambda meta: meta[:-1],
    "long": lambda meta: meta + b"x",
    "not a number": lambda meta: b"\xff" * META_BYTES,
    "no times": lambda meta: NAN + meta[8:],
    "unknown status": lambda meta: meta[:STATUS_AT] + b"\x09" + meta[STATUS_AT + 1 :],
}
BAD_VALUES = {
    "empty": b"",
    "cut off": b'{"a"',
    "a list": b"[1]",
    "no text": b"\xff\xfe{}",
    "a number": b"1",
    "gone": None,
}
CORRUPT = ["get", "search", "search below", "query", "filter"]


def corrupt(place: Place, kind: str, data: bytes | None) -> None:
    if data is None:
        place.client.hdel(place.name(kind), "plain")
    else:
        place.client.hset(place.name(kind), "plain", data)


def check_reads(place: Place, damage: Callable[[], Any], failing: list[str]) -> None:
    """Check that damage fails these reads, and no others, and that nothing stored changes."""
    healthy = {name: content(call(place.store)) for name, call in READS.items()}
    damage()
    # One that has not cached what it read before.
    place.store = place.make_store(clock=place.clock, index=INDEX)
    before = place.dump()
    for name, call in READS.items():
        if name in failing:
            with pytest.raises(CorruptRecordError):
                call(place.store)
        else:
            assert content(call(place.store)) == healthy[name]
    assert place.dump() == before


@pytest.mark.parametrize("name", BAD_META)
def test_garbage_for_meta_is_a_corrupt_record(place: Place, name: str) -> None:
    bad = BAD_META[name](place.client.hget(place.name("m:"), "plain"))
    check_reads(place, lambda: corrupt(place, "m:", bad), CORRUPT)


@pytest.mark.parametrize("name", BAD_VALUES)
def test_garbage_for_a_value_is_a_corrupt_record(place: Place, name: str) -> None:
    check_reads(place, lambda: corrupt(place, "v:", BAD_VALUES[name]), CORRUPT)


@pytest.mark.parametrize("size", [1, 63, 65, 4 * 8])
def test_garbage_for_vectors_is_a_corrupt_record_to_those_who_ask_for_them(place: Place, size: int) -> None:
    def damage() -> None:
        corrupt(place, "e:", bytes(size))
        # Together, the bytes are a multiple of a vector's.
        place.client.hset(place.name("e:"), "ttl", bytes(64 * 2 - size))

    # What lies below several namespaces is read with its vectors: the cache keeps them for queries.
    check_reads(place, damage, ["search below", "query", "filter"])


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("m:", b"x"),
        ("m:", b"\xff" * META_BYTES),
        ("m:", BAD_META["no times"]),
        ("m:", lambda meta: meta[:IMPORTANCE_AT] + NAN + meta[IMPORTANCE_AT + 8 :]),
        ("v:", b"{"),
        ("v:", None),
        ("e:", b"x"),
        ("e:", None),
    ],
)
@pytest.mark.parametrize("how", ["put", "delete"])
def test_a_corrupt_row_can_be_written_anew_and_deleted(place: Place, kind: str, data: Any, how: str) -> None:
    corrupt(place, kind, data(place.client.hget(place.name("m:"), "plain")) if callable(data) else data)
    if how == "put":
        place.store.put(NS, "plain", {"text": "white tea"})
        found = place.store.get(NS, "plain")
        assert found.value == {"text": "white tea"}
        assert found.updated_at.timestamp() * 1000 == place.clock.now
        assert (found.memory.version == 1) == (kind == "m:"), (
            "a new memory where its meta was lost, else the next version"
        )
        assert (found.memory.importance, found.memory.confidence) == (0.5, 0.8)
    else:
        place.store.delete(NS, "plain")
        assert place.store.get(NS, "plain") is None
    assert len(place.store.search(NS, query="green tea")) == 1 + (how == "put")
    assert place.store.sweep_ttl() == 2
    check_keys(place.client, place.make_store.key_prefix)


def test_garbage_among_the_changes_since_a_scan_began_is_a_row_of_their_list(place: Place) -> None:
    place.store.put(NS, "plain", {"text": "green tea"})
    place.client.hset(place.name("m:"), "plain", "garbage")
    call = scripts.sync(scripts.Frame("", True), encode_namespace(NS), 0, 100, 0, vectors=True, value_bytes=100)
    *_, state, _, group = place.client.eval(call.script.source, 1, place.prefix, *call.args)
    assert state == b"done"
    assert {row[0]: row[1] for row in group[2:]}[b"plain"] == b"garbage"


def test_a_stack_without_room_is_not_taken_for_a_corrupt_row() -> None:
    with pytest.raises(RecursionError):
        load_value(b'{"a":' + b"[" * 200_000)
