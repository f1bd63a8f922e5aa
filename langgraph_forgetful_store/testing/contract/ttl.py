"""Expiry: when a row goes, which reads refresh it, and what a config says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, Op, PutOp, SearchOp

from langgraph_forgetful_store.testing.clock import Clock
from langgraph_forgetful_store.testing.contract.base import NS, ClockSection, Make, keys, refuses, snapshot
from langgraph_forgetful_store.testing.contract.embedders import PlannedEmbeddings, index, raises
from langgraph_forgetful_store.testing.face import Face

MINUTE = 60_000

# How a row "k" may be seen; none of them refreshes a TTL.
READS: dict[str, Callable[[Face], bool]] = {
    "get": lambda store: store.get(NS, "k", refresh_ttl=False) is not None,
    "search": lambda store: "k" in keys(store.search(NS, refresh_ttl=False)),
    "search everything": lambda store: "k" in keys(store.search((), refresh_ttl=False)),
    "query": lambda store: "k" in keys(store.search(NS, query="tea", refresh_ttl=False)),
    "filter": lambda store: "k" in keys(store.search(NS, filter={"v": 1}, refresh_ttl=False)),
    "list": lambda store: NS in store.list_namespaces(),
    "list with depth": lambda store: NS[:1] in store.list_namespaces(max_depth=1),
    "list with suffix": lambda store: NS in store.list_namespaces(suffix=NS[1:]),
    "raw get": lambda store: store.batch([GetOp(NS, "k", refresh_ttl=False)])[0] is not None,
    "raw search": lambda store: bool(store.batch([SearchOp(NS, refresh_ttl=False)])[0]),
    "raw list": lambda store: bool(store.batch([ListNamespacesOp()])[0]),
}

# The same, sliding the TTL if it is told to.
REFRESHES: dict[str, Callable[..., Any]] = {
    "get": lambda store, **options: store.get(NS, "k", **options),
    "search": lambda store, **options: store.search(NS, **options),
    "search over several namespaces": lambda store, **options: store.search((), **options),
    "query": lambda store, **options: store.search(NS, query="tea", **options),
    "filter": lambda store, **options: store.search(NS, filter={"v": 1}, **options),
    "raw get": lambda store, **options: store.batch([GetOp(NS, "k", **options)]),
    "raw search": lambda store, **options: store.batch([SearchOp(NS, **options)]),
}

Timed = Callable[..., Face]


def lives(store: Face, key: str = "k") -> bool:
    """Tell whether a row is there, without sliding it."""
    return store.get(NS, key, refresh_ttl=False) is not None


def put_row(store: Face, clock: Clock, ttl: float = 1) -> float:
    """Put the row "k", beside others for longer; returns when."""
    store.put(NS, "longer", {"v": 2}, ttl=9)
    store.put((*NS, "below"), "k", {"v": 1, "text": "tea"}, ttl=5)
    store.put(NS, "k", {"v": 1, "text": "tea"}, ttl=ttl)
    return clock.now


def ends_at(store: Face, clock: Clock, moment: float, key: str = "k") -> None:
    """Check that a row ends at a moment, to the millisecond; moves the clock there."""
    clock.now = moment - 1
    assert lives(store, key), f"{key} had gone a millisecond before its end"
    clock.now = moment
    assert not lives(store, key), f"{key} was still there at its end"


class TTLContract(ClockSection):
    """Contract 32-37 and 44 (ttl)."""

    @pytest.fixture
    def timed(self, make: Make, clock: Clock) -> Timed:
        """Make stores by the clock, with an index, and the TTL config that is given."""

        def open_timed(**ttl: Any) -> Face:
            return make(clock=clock, index=index(PlannedEmbeddings()), **({"ttl": ttl} if ttl else {}))

        return open_timed

    @pytest.fixture
    def plain(self, timed: Timed) -> Face:
        """Make a store by the clock, without a TTL config."""
        return timed()

    @pytest.mark.parametrize("config", [{}, {"default_ttl": 5}, {"omit_expired": True}], ids=str)
    def test_a_row_is_there_until_the_last_millisecond_and_gone_from_its_expiry_on(
        self, timed: Timed, clock: Clock, config: dict[str, Any]
    ) -> None:
        """Contract 37: by every read; a config without `omit_expired`, or none, omits too."""
        store = timed(**config)
        store.put(NS, "k", {"v": 1, "text": "tea"}, ttl=1)
        for ms, there in ((0, True), (MINUTE - 1, True), (1, False), (1000 * MINUTE, False)):
            clock.advance(ms=ms)
            assert {name: read(store) for name, read in READS.items()} == dict.fromkeys(READS, there)

    def test_a_ttl_left_out_is_the_default(self, timed: Timed, clock: Clock) -> None:
        """Contract 32."""
        store = timed(default_ttl=2)
        store.put(NS, "default", {})
        store.put(NS, "never", {}, ttl=None)
        store.put(NS, "own", {}, ttl=1)
        store.batch([PutOp(NS, "raw", {}), PutOp(NS, "raw own", {}, ttl=3)])
        start = clock.now
        ends_at(store, clock, start + 1 * MINUTE, "own")
        ends_at(store, clock, start + 2 * MINUTE, "default")
        ends_at(store, clock, start + 3 * MINUTE, "raw own")
        clock.advance(minutes=1e6)
        assert sorted(keys(store.search(NS))) == ["never", "raw"]

    @pytest.mark.parametrize("config", [{}, {"default_ttl": None}, {"refresh_on_read": True}], ids=str)
    def test_without_a_default_a_row_never_expires(self, timed: Timed, clock: Clock, config: dict[str, Any]) -> None:
        """Contract 32."""
        store = timed(**config)
        store.put(NS, "k", {})
        clock.advance(minutes=1e8)
        assert lives(store)

    def test_each_put_sets_the_ttl_anew(self, plain: Face, clock: Clock) -> None:
        """Contract 33: shorter too."""
        plain.put(NS, "k", {}, ttl=1)
        clock.advance(ms=50_000)
        plain.put(NS, "k", {}, ttl=1)
        plain.put(NS, "shorter", {}, ttl=9)
        plain.put(NS, "shorter", {}, ttl=0.5)
        ends_at(plain, clock, clock.now + 30_000, "shorter")
        ends_at(plain, clock, clock.now + 30_000)

    def test_a_put_without_a_ttl_clears_it(self, plain: Face, clock: Clock) -> None:
        """Contract 33."""
        for key in ("left out", "none", "raw"):
            plain.put(NS, key, {}, ttl=1)
        plain.put(NS, "left out", {})
        plain.put(NS, "none", {}, ttl=None)
        plain.batch([PutOp(NS, "raw", {})])
        clock.advance(minutes=1e6)
        assert sorted(keys(plain.search(NS))) == ["left out", "none", "raw"]
        assert plain.sweep_ttl() == 0

    def test_a_put_over_a_row_without_a_ttl_can_give_it_one(self, plain: Face, clock: Clock) -> None:
        """Contract 33."""
        plain.put(NS, "k", {})
        plain.put(NS, "k", {}, ttl=1)
        ends_at(plain, clock, clock.now + MINUTE)

    def test_a_refreshing_read_slides_a_row_by_its_own_ttl(self, plain: Face, clock: Clock) -> None:
        """Contract 34: and not by another's, nor by what is left of it."""
        for read in REFRESHES.values():
            born = put_row(plain, clock, ttl=1.5)
            clock.advance(ms=30_000)
            read(plain, refresh_ttl=True)
            clock.advance(ms=20_000)
            read(plain, refresh_ttl=True)
            ends_at(plain, clock, born + 140_000)

    def test_an_explicit_refresh_ttl_wins_over_the_config(self, timed: Timed, clock: Clock) -> None:
        """Contract 34: whichever of the two is given."""
        for refreshes in (True, False):
            store = timed(refresh_on_read=not refreshes)
            for read in REFRESHES.values():
                born = put_row(store, clock)
                clock.advance(ms=30_000)
                read(store, refresh_ttl=refreshes)
                ends_at(store, clock, born + (90_000 if refreshes else MINUTE))

    @pytest.mark.parametrize(
        "config", [{}, {"refresh_on_read": True}, {"refresh_on_read": False}, {"default_ttl": 9}], ids=str
    )
    def test_a_read_that_does_not_say_follows_the_config(
        self, timed: Timed, clock: Clock, config: dict[str, Any]
    ) -> None:
        """Contract 34: which refreshes unless it says otherwise, also where there is none."""
        store = timed(**config)
        for name, read in REFRESHES.items():
            born = put_row(store, clock)
            clock.advance(ms=30_000)
            # A raw op that leaves it out says True, which is LangGraph's default for the op.
            read(store, **({"refresh_ttl": None} if name.startswith("raw") else {}))
            clock.advance(ms=20_000)
            read(store, refresh_ttl=None)
            ends_at(store, clock, born + (110_000 if config.get("refresh_on_read", True) else MINUTE))

    def test_refreshing_is_decided_op_by_op(self, plain: Face, clock: Clock) -> None:
        """Contract 34."""
        spaces = [(*NS, name) for name in "abcd"]
        plain.batch([PutOp(ns, "k", {"v": 1}, ttl=1) for ns in spaces])
        clock.advance(ms=30_000)
        ops: list[Op] = [GetOp(spaces[0], "k", refresh_ttl=True), GetOp(spaces[1], "k", refresh_ttl=False)]
        ops += [SearchOp(spaces[2], refresh_ttl=True), SearchOp(spaces[3], refresh_ttl=False), GetOp(NS, "none")]
        plain.batch(ops)
        clock.advance(ms=30_000)
        assert plain.list_namespaces() == [spaces[0], spaces[2]]
        clock.advance(ms=30_000)
        assert plain.list_namespaces() == []

    def test_a_row_without_a_ttl_is_not_given_one_by_a_read(self, timed: Timed, clock: Clock) -> None:
        """Contract 34."""
        store = timed(default_ttl=1)
        store.put(NS, "k", {"v": 1}, ttl=None)
        store.get(NS, "k", refresh_ttl=True)
        store.search(NS, filter={"v": 1}, refresh_ttl=True)
        clock.advance(minutes=1e6)
        assert lives(store)

    def test_a_search_refreshes_only_the_rows_it_returns(self, plain: Face, clock: Clock) -> None:
        """Contract 35: by page, filter and query."""
        cases: list[tuple[dict[str, Any], set[str]]] = [
            ({"limit": 2}, {"5", "4"}),
            ({"limit": 2, "offset": 3}, {"2", "1"}),
            ({"limit": 0}, set()),
            ({"offset": 6}, set()),
            ({"filter": {"at": {"$lt": 2}}}, {"0", "1"}),
            ({"filter": {"at": {"$lt": 4}}, "limit": 1, "offset": 1}, {"2"}),
            ({"query": "tea", "limit": 1}, {"3"}),
            ({"query": "tea", "filter": {"at": {"$ne": 3}}, "limit": 2}, {"5", "4"}),
        ]
        indexes: list[Any] = [False, False, False, None, False, False]
        for options, returned in cases:
            plain.batch([PutOp(NS, str(at), {"at": at, "text": "tea"}, index=i, ttl=1) for at, i in enumerate(indexes)])
            clock.advance(ms=30_000)
            assert set(keys(plain.search(NS, **options))) == returned, options
            clock.advance(ms=30_000)
            assert set(keys(plain.search(NS, refresh_ttl=False))) == returned, options
            clock.advance(ms=30_000)
            assert plain.search(NS, refresh_ttl=False) == []

    def test_list_namespaces_refreshes_nothing(self, plain: Face, clock: Clock) -> None:
        """Contract 35."""
        born = put_row(plain, clock)
        clock.advance(ms=30_000)
        plain.list_namespaces()
        plain.batch([ListNamespacesOp(), ListNamespacesOp(max_depth=1)])
        ends_at(plain, clock, born + MINUTE)

    def test_fractions_of_a_minute_hold_to_the_millisecond(self, plain: Face, clock: Clock) -> None:
        """Contract 36: after a refresh too."""
        lasting = ((0.001, 60), (0.00123, 74), (1 / 3, 20_000), (0.5, 30_000), (1.00005, 60_003), (2, 120_000))
        for minutes, ms in lasting:
            born = clock.now
            plain.put(NS, "k", {}, ttl=minutes)
            plain.put(NS, "slid", {}, ttl=minutes)
            clock.advance(ms=ms // 2)
            plain.get(NS, "slid", refresh_ttl=True)
            clock.advance(ms=10)
            plain.get(NS, "slid", refresh_ttl=True)
            ends_at(plain, clock, born + ms)
            ends_at(plain, clock, born + ms // 2 + 10 + ms, "slid")

    def test_the_shortest_ttl_lasts_a_millisecond(self, plain: Face, clock: Clock) -> None:
        """Contract 36: only 0 is expired at once."""
        plain.put(NS, "k", {}, ttl=1e-9)
        ends_at(plain, clock, clock.now + 1)

    def test_a_ttl_of_0_is_expired_at_once(self, plain: Face) -> None:
        """Contract 36."""
        for zero in (0, 0.0, -0.0):
            plain.put(NS, "k", {"v": 1, "text": "tea"}, ttl=zero)
            assert {name: read(plain) for name, read in READS.items()} == dict.fromkeys(READS, False)
            assert plain.get(NS, "k", refresh_ttl=True) is None
            assert plain.sweep_ttl() == 1

    def test_a_ttl_of_0_takes_away_what_was_there(self, plain: Face) -> None:
        """Contract 36."""
        plain.put(NS, "k", {"v": 1})
        plain.put(NS, "k", {"v": 2}, ttl=0)
        assert plain.get(NS, "k") is None

    def test_an_impossible_ttl_is_refused(self, plain: Face) -> None:
        """Contract 36: and nothing is written."""
        plain.put(NS, "k", {"v": 0}, ttl=1)
        before = snapshot(plain)
        cases: list[tuple[type[Exception], Any]] = [
            (ValueError, ttl) for ttl in (-1, -0.001, -1e-300, math.nan, math.inf, -math.inf, 1e308)
        ]
        cases += [(TypeError, ttl) for ttl in ("1", True, False, [1], {"minutes": 1}, b"1")]
        for error, ttl in cases:
            refuses(error, plain.put, NS, "k", {"v": 1}, ttl=ttl)
            refuses(error, plain.batch, [PutOp(NS, "new", {}), PutOp(NS, "k", {"v": 1}, ttl=ttl)])
            assert snapshot(plain) == before

    def test_a_long_ttl_works(self, plain: Face, clock: Clock) -> None:
        """Contract 36."""
        plain.put(NS, "k", {}, ttl=1e9)
        plain.get(NS, "k", refresh_ttl=True)
        ends_at(plain, clock, clock.now + 1e9 * MINUTE)

    def test_refreshes_of_a_batch_come_before_its_puts(self, plain: Face, clock: Clock) -> None:
        """Contract 2, 33: a put of the same key then sets the TTL anew."""
        plain.batch([PutOp(NS, key, {"v": 0}, ttl=5) for key in ("k", "forever", "read")])
        clock.advance(ms=30_000)
        puts: list[Op] = [PutOp(NS, "k", {"v": 1}, ttl=1), PutOp(NS, "forever", {"v": 1})]
        results = plain.batch([*puts, *(GetOp(NS, key, refresh_ttl=True) for key in ("k", "forever", "read"))])
        assert [item.value for item in results[2:]] == [{"v": 0}] * 3
        start = clock.now
        ends_at(plain, clock, start + MINUTE)
        ends_at(plain, clock, start + 5 * MINUTE, "read")
        clock.advance(minutes=1e6)
        assert lives(plain, "forever")

    def test_a_batch_whose_embedder_fails_slides_and_sets_no_ttl(self, make: Make, clock: Clock) -> None:
        """Contract 7."""
        embedder = PlannedEmbeddings()
        store = make(clock=clock, index=index(embedder))
        store.put(NS, "read", {"text": "tea"}, ttl=1)
        store.put(NS, "k", {"text": "tea"}, ttl=1)
        clock.advance(ms=30_000)
        embedder.spoil = raises(RuntimeError("no model today"))
        refuses(RuntimeError, store.batch, [GetOp(NS, "read"), PutOp(NS, "k", {"text": "milk"}, ttl=9)])
        refuses(RuntimeError, store.batch, [GetOp(NS, "read"), SearchOp(NS), SearchOp(NS, query="tea")])
        ends_at(store, clock, clock.now + 30_000, "read")
        assert not lives(store)

    def test_the_ttl_config_is_readable(self, timed: Timed) -> None:
        """Contract 44."""
        config = {"default_ttl": 1.5, "refresh_on_read": False, "omit_expired": True, "sweep_interval_minutes": 3}
        store = timed(**config).store
        assert store.supports_ttl is True
        assert dict(store.ttl_config) == config
        assert timed().store.ttl_config is None
