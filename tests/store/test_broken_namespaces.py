"""Something else wrote over a key of one namespace: what serves all namespaces at once goes on for the others."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp

from langgraph_forgetful_store import CorruptRecordError
from langgraph_forgetful_store.backend.keys import PER_NAMESPACE, encode_namespace, store_prefix
from langgraph_forgetful_store.operations import access

GOOD, BAD = [("good", str(at)) for at in range(3)], [("bad", str(at)) for at in range(2)]
# What a get reads: where one of these is broken, no access is ever counted.
READ = {"m", "v", "x"}
# Neither counts nor sweeps touch the digests of what was erased.
UNTOUCHED = {"t", "g"}
KINDS = [kind for kind in PER_NAMESPACE if kind not in READ | UNTOUCHED]


class Broken:
    """A store over some namespaces, of which two are to be written over."""

    def __init__(self, maker: Any, face: Any, clock: Any) -> None:
        self.maker = maker
        self.clock = clock
        self.client = maker.server.client()
        self.side = face(maker(clock=clock))
        self.side.batch([PutOp(ns, "k", {"n": 1}) for ns in (*GOOD, *BAD)])

    def name(self, kind: str, namespace: tuple[str, ...]) -> bytes:
        return store_prefix(self.maker.key_prefix) + kind.encode() + b":" + encode_namespace(namespace)

    def read(self) -> None:
        self.side.batch([GetOp(ns, "k") for ns in (*GOOD, *BAD)])

    def written(self) -> dict[tuple[str, ...], int]:
        """The counts as another process sees them."""
        other = self.maker(clock=self.clock, track_access=False)
        return {ns: other.get(ns, "k").memory.access_count for ns in (*GOOD, *BAD)}

    def spoil(self, kind: str) -> None:
        for ns in BAD:
            if self.client.exists(self.name(kind, ns)):
                self.client.rename(self.name(kind, ns), b"kept" + self.name(kind, ns))
            self.client.set(self.name(kind, ns), "junk")

    def mend(self, kind: str) -> None:
        for ns in BAD:
            self.client.delete(self.name(kind, ns))
            if self.client.exists(b"kept" + self.name(kind, ns)):
                self.client.rename(b"kept" + self.name(kind, ns), self.name(kind, ns))


@pytest.fixture
def broken(make_store, face, clock):
    made = Broken(make_store, face, clock)
    yield made
    made.client.close()


@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_a_broken_namespace_are_set_aside_and_the_others_written_once(broken, caplog, monkeypatch, kind):
    broken.read()
    broken.spoil(kind)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            broken.side.flush()
            broken.read()
    broken.side.flush()
    assert broken.written() == {ns: 4 if ns in GOOD else 0 for ns in (*GOOD, *BAD)}
    warned = [record for record in caplog.records if "accesses" in record.message]
    assert [sum(str(ns) in record.message for record in warned) for ns in BAD] == [1, 1]
    # This process still shows what it has counted, and writes it when it can.
    assert broken.side.get(BAD[0], "k").memory.access_count == 4
    broken.mend(kind)
    monkeypatch.setattr(access, "RETRY_SECONDS", 0.0)
    for _ in range(3):
        broken.side.flush()
    assert broken.written() == {ns: 5 if ns == BAD[0] else 4 for ns in (*GOOD, *BAD)}


def test_what_was_set_aside_waits_to_be_sent_again(broken, monkeypatch):
    broken.read()
    broken.spoil("l")
    broken.side.flush()
    broken.mend("l")
    broken.side.flush()
    assert broken.written()[BAD[0]] == 0
    # A namespace that proves sound again has its counts written with the next flush, and so have all others.
    broken.side.get(BAD[1], "k")
    broken.side.flush()
    assert broken.written()[BAD[1]] == 1
    broken.side.flush()
    assert broken.written() == dict.fromkeys((*GOOD, *BAD), 1) | {BAD[1]: 2}


def test_what_is_erased_is_set_aside_no_more(broken, monkeypatch):
    monkeypatch.setattr(access, "RETRY_SECONDS", 0.0)
    broken.read()
    broken.spoil("l")
    broken.side.flush()
    broken.mend("l")
    broken.side.forget_all(("bad",))
    broken.side.batch([PutOp(ns, "k", {"n": 2}) for ns in BAD])
    broken.side.flush()
    assert broken.side.get(BAD[0], "k").memory.access_count == 0


def test_a_trouble_of_all_namespaces_is_an_error_and_loses_nothing(broken):
    broken.read()
    key = store_prefix(broken.maker.key_prefix) + b"nsv"
    broken.client.rename(key, b"kept")
    broken.client.set(key, "junk")
    with pytest.raises(CorruptRecordError):
        broken.side.flush()
    broken.client.rename(b"kept", key)
    broken.side.flush()
    assert broken.written() == dict.fromkeys((*GOOD, *BAD), 1)


@pytest.mark.parametrize("kind", [*KINDS, "x", "v", "m"])
def test_a_sweep_passes_over_a_broken_namespace(broken, caplog, kind):
    broken.side.batch([PutOp(ns, str(at), {}, ttl=1 + at) for at in range(3) for ns in (*BAD, *GOOD)])
    broken.clock.advance(minutes=10)
    broken.spoil(kind)
    with caplog.at_level(logging.WARNING):
        assert broken.side.sweep_ttl() == 9
    assert "2 namespaces were not swept" in caplog.text
    broken.mend(kind)
    assert broken.side.sweep_ttl() == 6


def test_writes_sweep_what_is_behind_a_broken_namespace(make_store, face):
    keeping = face(make_store(ttl={"omit_expired": False}))
    keeping.batch([PutOp(ns, str(at), {}, ttl=0) for ns in (*BAD, *GOOD) for at in range(10)])
    key = store_prefix(make_store.key_prefix) + b"d:" + encode_namespace(BAD[0])
    with make_store.server.client() as client:
        client.set(key, "junk")
        face(make_store()).put(("other",), "k", {})
        client.delete(key)
    assert make_store.keys()["rows"] == 10 + 1
