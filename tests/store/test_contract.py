"""The contract, kept by `ForgetfulStore` on every server, and what of it shows only there."""

from __future__ import annotations

import inspect
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from langgraph_forgetful_store import ConfigurationError, ForgetfulStore, Lifecycle, MemoryItem, MemorySearchItem
from langgraph_forgetful_store.testing import StoreContract, WordEmbeddings
from langgraph_forgetful_store.testing.contract import CLOCK_TESTS, FilterContract, SearchContract
from langgraph_forgetful_store.testing.contract.base import as_json, keys

NS = ("a", "b")


class TestForgetfulStore(StoreContract):
    """All of the contract, with conftest's `make_store`; the score is the cosine, and the near-cache searches."""

    @pytest.fixture
    def make_store(self, make_store):
        return partial(make_store, scoring="similarity")


class TestTheScan(SearchContract, FilterContract):
    """What the contract says of searches, answered without the near-cache."""

    @pytest.fixture
    def make_store(self, make_store):
        return partial(make_store, scoring="similarity", cache_bytes=0)


def test_reads_of_a_batch_see_the_state_before_it_though_the_scripts_are_gone(make_store, face):
    """Contract 2."""
    store = face(make_store())
    store.put(NS, "k", {"v": 0})
    for flushed_before in (PutOp(NS, "k", {"v": 1}), PutOp(NS, "k", None)):
        with make_store.server.client() as client:
            client.script_flush()
        got, _, found, listed = store.batch([GetOp(NS, "k"), flushed_before, SearchOp(()), ListNamespacesOp()])
        assert got.value == found[0].value
        assert listed == [NS]
    assert store.search(()) == []


def test_a_raw_op_with_a_key_that_is_no_str_means_the_str(make_store, face):
    """Contract 12."""
    store = face(make_store())
    store.batch([PutOp(NS, 1, {"v": 0}), PutOp(NS, "1", {"v": 1})])
    assert [(item.key, item.value) for item in store.search(NS)] == [("1", {"v": 1})]
    assert store.batch([GetOp(NS, 1)])[0].key == "1"
    store.batch([PutOp(NS, 1, None)])
    assert store.get(NS, "1") is None


def test_paths_reach_into_tuples_and_mappings_as_they_will_be_read_back(make_store, face):
    """Contract 13, 28."""
    embedder = WordEmbeddings(16)
    store = face(
        make_store(index={"dims": 16, "embed": embedder, "fields": ["tags[1]", "inner.text", "inner.list[*]"]})
    )
    store.put(NS, "k", {"tags": ("red", "green"), "inner": MappingProxyType({"text": "tea", "list": ("a", "b")})})
    assert embedder.calls == [["green", "tea", "a", "b"]]


def test_items_carry_their_memory_through_the_checkpoint_serializer(make_store, face, clock):
    """Contract 8, 45: in few and plain words."""
    store = face(make_store(clock=clock, track_access=False, index={"dims": 16, "embed": WordEmbeddings(16)}))
    store.put(NS, "k", {"text": "tea"}, ttl=1)
    store.put(NS, "k", {"text": "green tea"}, ttl=1)
    store.put(NS, "plain", {"text": "tea"})
    serde = JsonPlusSerializer()
    for item in (store.get(NS, "k"), *store.search(NS), *store.search(NS, query="tea")):
        assert type(item) is (MemoryItem if not hasattr(item, "score") else MemorySearchItem)
        assert isinstance(item.memory, Lifecycle)
        assert serde.loads_typed(serde.dumps_typed(item)).memory.dict() == item.memory.dict() == item.dict()["memory"]
        assert as_json(item.dict())
    assert store.get(NS, "plain").dict()["memory"] == {"status": "active"}
    assert set(store.get(NS, "k").dict()["memory"]) == {"status", "expires_at", "version"}


def test_counters_start_anew_when_a_put_replaces_an_expired_row(make_store, face, clock):
    """Contract 38."""
    store = face(make_store(clock=clock))
    for version in (1, 2, 3):
        store.put(NS, "k", {}, ttl=1)
        assert store.get(NS, "k", refresh_ttl=False).memory.version == version
    clock.advance(minutes=1)
    store.put(NS, "k", {}, ttl=1)
    memory = store.get(NS, "k").memory
    assert memory.version == 1
    assert memory.recorded_at == store.get(NS, "k").created_at
    assert (memory.recorded_at.timestamp() * 1000, memory.expires_at.timestamp() * 1000) == (
        clock.now,
        clock.now + 60_000,
    )


def test_two_stores_on_the_same_data_may_differ_in_what_they_omit(make_store, face, clock):
    """Contract 37: a row that one of them revives is there for the other."""
    omitting, keeping = (face(make_store(clock=clock, ttl={"omit_expired": omit})) for omit in (True, False))
    omitting.put(NS, "k", {}, ttl=1)
    clock.advance(minutes=1)
    assert (omitting.search(()), omitting.list_namespaces()) == ([], [])
    assert keys(keeping.search((), refresh_ttl=False)) == ["k"]
    assert keeping.list_namespaces() == [NS]
    keeping.get(NS, "k", refresh_ttl=True)
    assert omitting.get(NS, "k", refresh_ttl=False) is not None


def test_writes_sweep_expired_rows_a_few_at_a_time(make_store, face):
    """Contract 40: at server time, with no sweeper running."""
    face(make_store()).batch([PutOp(NS, str(at), {}, ttl=0) for at in range(150)])
    left = make_store.keys()["rows"]
    assert left < 150
    for at in range(3):
        # A store sweeps at most once a second.
        face(make_store()).put(NS, f"live{at}", {})
    assert make_store.keys()["rows"] == 3


def test_writes_sweep_nothing_where_expired_rows_stay_visible(make_store, face):
    """Contract 37, 40."""
    settings = {"ttl": {"omit_expired": False}}
    face(make_store(**settings)).batch([PutOp(NS, str(at), {}, ttl=0) for at in range(5)])
    store = face(make_store(**settings))
    store.put(NS, "live", {})
    assert len(store.search(NS, refresh_ttl=False)) == 6
    assert store.sweep_ttl() == 5
    assert keys(store.search(NS)) == ["live"]


def test_writes_sweep_nothing_by_an_injected_clock(make_store, face, clock):
    """Contract 40: so that counts are deterministic."""
    face(make_store(clock=clock)).batch([PutOp(NS, str(at), {}, ttl=1) for at in range(5)])
    clock.advance(minutes=1)
    store = face(make_store(clock=clock))
    store.put(NS, "live", {})
    assert make_store.keys()["rows"] == 6
    assert store.sweep_ttl() == 5


def test_every_public_method_that_reaches_the_server_has_an_async_twin():
    """Contract 39, 46."""
    own = {name for name, _ in inspect.getmembers(ForgetfulStore, inspect.isfunction) if not name.startswith("_")}
    # It reaches no server: it returns the store for one call that does.
    own.remove("audited")
    sync = {name for name in own if not inspect.iscoroutinefunction(getattr(ForgetfulStore, name))}
    assert {f"a{name}" for name in sync} == own - sync
    assert {"get", "put", "search", "delete", "list_namespaces", "batch", "setup", "sweep_ttl", "close"} <= sync
    for name in sync:
        twin = inspect.signature(getattr(ForgetfulStore, f"a{name}"))
        assert list(inspect.signature(getattr(ForgetfulStore, name)).parameters) == list(twin.parameters)


@pytest.mark.parametrize("argument", ["capacity", "unknown"])
def test_an_argument_that_would_do_nothing_does_not_exist(argument):
    """Contract 46: nobody is told that something is on which is not."""
    for make in (ForgetfulStore, ForgetfulStore.from_conn_string, ForgetfulStore.embedded):
        with pytest.raises(TypeError, match=argument):
            make("redis://localhost", **{argument: None})


def test_an_unusable_config_is_refused_when_the_store_is_made():
    """Contract 36, 37."""
    for ttl in (
        {"default_ttl": -1},
        {"default_ttl": float("nan")},
        {"omit_expired": "yes"},
        {"refresh_on_reads": True},
    ):
        with pytest.raises(ConfigurationError):
            ForgetfulStore.from_conn_string("redis://localhost", ttl=ttl)


def test_the_contract_class_refuses_names_of_no_test():
    with pytest.raises(TypeError, match="test_of_nothing"):
        type("Mine", (StoreContract,), {"expected_failures": {"test_of_nothing": "why"}})
    with pytest.raises(TypeError, match="test_of_nothing"):
        type("Mine", (StoreContract,), {"left_out": {"test_of_nothing": "why"}})


def test_the_contract_class_leaves_out_what_it_is_told_to():
    mine: Any = type("Mine", (StoreContract,), {"left_out": {"test_membership": "why"}})
    assert mine.test_membership is None
    assert callable(mine.test_true_is_not_one)
    assert callable(StoreContract.test_membership)


def test_the_contract_class_leaves_out_all_that_needs_a_clock():
    mine: Any = type("Mine", (StoreContract,), {"supports_clock": False})
    tests = {name for name in dir(StoreContract) if name.startswith("test_")}
    assert {name for name in tests if getattr(mine, name) is None} == set(CLOCK_TESTS)
    needing = {name for name in tests if "clock" in inspect.signature(getattr(StoreContract, name)).parameters}
    assert needing <= set(CLOCK_TESTS)
