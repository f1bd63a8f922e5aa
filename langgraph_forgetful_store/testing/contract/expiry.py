"""Expired rows: omitted or not, replaced, swept; and the times of items."""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp

from langgraph_forgetful_store.testing.clock import Clock
from langgraph_forgetful_store.testing.contract.base import NS, ClockSection, Make, keys, refuses
from langgraph_forgetful_store.testing.contract.embedders import PlannedEmbeddings, index
from langgraph_forgetful_store.testing.contract.ttl import MINUTE, READS, REFRESHES, Timed
from langgraph_forgetful_store.testing.face import Face

# Far more than any test waits for a thread; nothing is asserted about how long it took.
PATIENCE = 60


class Sweeps:
    """Watches the sweeps that a store's sweeper makes, and makes the first of them fail.

    Attributes:
        failures: How many more are to fail.
        removed: How many rows they have removed.
        ran: Set when one has run.
        removing: Set when one has removed something.
    """

    def __init__(self, store: Any, failures: int = 0) -> None:
        self.failures = failures
        self.removed = 0
        self.ran, self.removing = threading.Event(), threading.Event()
        self._sweep = store.sweep_ttl
        store.sweep_ttl = self

    def __call__(self) -> int:
        """Sweep, or fail."""
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the server is away")
        count: int = self._sweep()
        self.removed += count
        if count:
            self.removing.set()
        self.ran.set()
        return count


class ExpiryContract(ClockSection):
    """Contract 9, 10 and 21 (by the clock), 37-40."""

    @pytest.fixture
    def timed(self, make: Make, clock: Clock) -> Timed:
        """Make stores by the clock, with an index, and a TTL config."""
        return lambda **ttl: make(clock=clock, index=index(PlannedEmbeddings()), ttl=ttl)

    @pytest.fixture
    def omitting(self, timed: Timed) -> Face:
        """Make a store that omits expired rows."""
        return timed(omit_expired=True)

    @pytest.fixture
    def keeping(self, timed: Timed) -> Face:
        """Make a store where expired rows are visible until they are swept."""
        return timed(omit_expired=False)

    def test_times_are_those_of_the_clock(self, omitting: Face, clock: Clock) -> None:
        """Contract 9, 10."""
        born = datetime.fromtimestamp(clock.now / 1000, UTC)
        omitting.put(NS, "k", {"v": 1}, ttl=100)
        clock.advance(ms=1)
        omitting.get(NS, "k", refresh_ttl=True)
        clock.advance(ms=1234)
        omitting.put(NS, "k", {"v": 2}, ttl=100)
        changed = datetime.fromtimestamp(clock.now / 1000, UTC)
        clock.advance(ms=5)
        omitting.search(NS, refresh_ttl=True)
        for item in (omitting.get(NS, "k"), *omitting.search(NS), *omitting.search(NS, filter={"v": 2})):
            assert (item.created_at, item.updated_at) == (born, changed)

    def test_the_latest_write_comes_first_whatever_the_clock(self, omitting: Face, clock: Clock) -> None:
        """Contract 21: even where it stands still or goes back."""
        for key, ms in (("a", 0), ("b", 0), ("c", -5_000), ("d", 20_000), ("a", -50_000), ("e", 0)):
            clock.advance(ms=ms)
            omitting.put(NS, key, {"text": "tea", "v": 1})
        assert keys(omitting.search(NS)) == ["e", "a", "d", "c", "b"]
        assert keys(omitting.search(NS, filter={"v": 1})) == ["e", "a", "d", "c", "b"]
        assert keys(omitting.search(NS, query="tea")) == ["e", "a", "d", "c", "b"]

    def test_a_refresh_does_not_change_the_order(self, omitting: Face, clock: Clock) -> None:
        """Contract 21."""
        omitting.batch([PutOp(NS, str(at), {}, ttl=1) for at in range(5)])
        clock.advance(ms=10)
        omitting.get(NS, "0", refresh_ttl=True)
        omitting.search(NS, limit=1, offset=3, refresh_ttl=True)
        assert keys(omitting.search(NS)) == ["4", "3", "2", "1", "0"]

    def test_no_read_revives_an_omitted_row(self, omitting: Face, clock: Clock) -> None:
        """Contract 37."""
        omitting.put((*NS, "below"), "other", {"v": 1, "text": "tea"})
        for name, read in REFRESHES.items():
            omitting.put(NS, "k", {"v": 1, "text": "tea"}, ttl=1)
            clock.advance(minutes=1)
            read(omitting, refresh_ttl=True)
            assert omitting.get(NS, "k") is None, name
            assert omitting.sweep_ttl() == 1, name

    @pytest.mark.parametrize("options", [{}, {"query": "tea"}, {"filter": {"v": 1}}], ids=str)
    def test_pages_are_full_and_exact_over_expired_rows(
        self, omitting: Face, clock: Clock, options: dict[str, Any]
    ) -> None:
        """Contract 22, 37: omitted before limit and offset, in one namespace and in several."""
        spaces = (("one",), ("several", "a"), ("several", "b"))
        rows = [(ns, at) for at in range(30) for ns in spaces]
        omitting.batch(
            PutOp(ns, f"{ns[-1]}{at}", {"v": 1, "text": "tea"}, ttl=1 if at % 3 else None) for ns, at in rows
        )
        clock.advance(minutes=1)
        live = [at for at in reversed(range(30)) if at % 3 == 0]
        pages_of = (
            (("one",), [f"one{at}" for at in live]),
            (("several",), [f"{name}{at}" for at in live for name in "ba"]),
        )
        for (prefix, expected), size in itertools.product(pages_of, (1, 4, 10)):
            starts = range(0, len(expected) + size, size)
            pages = [keys(omitting.search(prefix, limit=size, offset=at, **options)) for at in starts]
            assert [key for page in pages for key in page] == expected
            assert all(len(page) == size for page in pages[: len(expected) // size])

    def test_a_page_reaches_past_many_expired_rows(self, omitting: Face, clock: Clock) -> None:
        """Contract 37."""
        omitting.batch([PutOp(NS, f"old{at}", {"v": 1}) for at in range(3)])
        omitting.batch([PutOp(NS, f"dead{at}", {"v": 1}, ttl=1) for at in range(1500)])
        omitting.put(NS, "new", {"v": 1})
        clock.advance(minutes=1)
        for options in ({}, {"filter": {"v": 1}}):
            assert keys(omitting.search(NS, limit=3, **options)) == ["new", "old2", "old1"]
            assert keys(omitting.search(NS, limit=3, offset=2, **options)) == ["old1", "old0"]

    def test_a_namespace_of_expired_rows_alone_is_not_listed(self, omitting: Face, clock: Clock) -> None:
        """Contract 20, 37: and pages of namespaces are full."""
        for at in range(30):
            omitting.put((f"n{at:02}", "dead"), "k", {}, ttl=1)
            omitting.put((f"n{at:02}", "mixed"), "k", {}, ttl=1)
            if at % 3 == 0:
                omitting.put((f"n{at:02}", "mixed"), "live", {}, ttl=2)
        clock.advance(minutes=1)
        expected = [(f"n{at:02}", "mixed") for at in range(0, 30, 3)]
        assert omitting.list_namespaces() == expected
        assert omitting.list_namespaces(limit=4, offset=3) == expected[3:7]
        assert omitting.list_namespaces(max_depth=1, limit=4, offset=3) == [ns[:1] for ns in expected[3:7]]
        assert omitting.list_namespaces(suffix=("dead",)) == []
        assert omitting.list_namespaces(prefix=("n03",)) == [("n03", "mixed")]
        clock.advance(minutes=1)
        assert omitting.list_namespaces() == []

    def test_a_put_brings_a_namespace_of_expired_rows_back(self, omitting: Face, clock: Clock) -> None:
        """Contract 20."""
        omitting.put(NS, "k", {}, ttl=1)
        clock.advance(minutes=1)
        omitting.put(NS, "new", {}, ttl=1)
        assert omitting.list_namespaces() == [NS]
        omitting.delete(NS, "new")
        assert omitting.list_namespaces() == []

    def test_without_omitting_expired_rows_stay_visible_until_swept(self, keeping: Face, clock: Clock) -> None:
        """Contract 37: to every read."""
        keeping.put(NS, "k", {"v": 1, "text": "tea"}, ttl=1)
        keeping.put(("other",), "zero", {}, ttl=0)
        clock.advance(minutes=1000)
        assert {name: read(keeping) for name, read in READS.items()} == dict.fromkeys(READS, True)
        assert keeping.get(("other",), "zero", refresh_ttl=False) is not None
        assert keeping.sweep_ttl() == 2
        assert {name: read(keeping) for name, read in READS.items()} == dict.fromkeys(READS, False)

    def test_without_omitting_a_refreshing_read_revives(self, keeping: Face, clock: Clock) -> None:
        """Contract 37."""
        keeping.put((*NS, "below"), "other", {"v": 1, "text": "tea"})
        for name, read in REFRESHES.items():
            keeping.put(NS, "k", {"v": 1, "text": "tea"}, ttl=1)
            clock.advance(minutes=7)
            read(keeping, refresh_ttl=True)
            clock.advance(ms=MINUTE - 1)
            assert keeping.sweep_ttl() == 0, name
            clock.advance(ms=1)
            assert keeping.sweep_ttl() == 1, name
            assert keeping.get(NS, "k") is None

    def test_without_omitting_writes_sweep_nothing(self, keeping: Face, clock: Clock) -> None:
        """Contract 37, 40: expired rows stay until they are swept on purpose."""
        keeping.batch([PutOp(NS, str(at), {}, ttl=1) for at in range(20)])
        clock.advance(minutes=5)
        keeping.put(NS, "new", {})
        keeping.delete(NS, "0")
        assert len(keeping.search(NS, limit=100, refresh_ttl=False)) == 20
        assert keeping.sweep_ttl() == 19

    def test_a_put_over_an_omitted_row_is_a_new_item(self, omitting: Face, clock: Clock) -> None:
        """Contract 38."""
        omitting.put(NS, "k", {"v": 1, "text": "tea"}, ttl=1)
        clock.advance(minutes=1)
        omitting.put(NS, "k", {"v": 2}, ttl=1)
        item = omitting.get(NS, "k")
        assert item.created_at == item.updated_at == datetime.fromtimestamp(clock.now / 1000, UTC)
        assert [(one.value, one.score) for one in omitting.search(NS, query="tea")] == [({"v": 2}, None)]
        assert omitting.sweep_ttl() == 0

    def test_a_put_a_millisecond_before_the_expiry_keeps_the_item(self, omitting: Face, clock: Clock) -> None:
        """Contract 9, 38."""
        omitting.put(NS, "k", {}, ttl=1)
        born = omitting.get(NS, "k").created_at
        clock.advance(ms=MINUTE - 1)
        omitting.put(NS, "k", {}, ttl=1)
        assert omitting.get(NS, "k").created_at == born

    def test_without_omitting_a_put_over_an_expired_row_keeps_the_item(self, keeping: Face, clock: Clock) -> None:
        """Contract 9, 37."""
        keeping.put(NS, "k", {}, ttl=1)
        born = keeping.get(NS, "k").created_at
        clock.advance(minutes=5)
        keeping.put(NS, "k", {}, ttl=1)
        item = keeping.get(NS, "k")
        assert (item.created_at, item.updated_at) == (born, datetime.fromtimestamp(clock.now / 1000, UTC))

    def test_deleting_an_omitted_row_is_silent(self, omitting: Face, clock: Clock) -> None:
        """Contract 4."""
        omitting.put(NS, "k", {}, ttl=1)
        clock.advance(minutes=1)
        omitting.delete(NS, "k")
        assert omitting.sweep_ttl() == 0

    @pytest.mark.parametrize("omit", [True, False])
    def test_a_sweep_removes_what_has_expired_and_says_how_many(self, timed: Timed, clock: Clock, omit: bool) -> None:
        """Contract 39."""
        store = timed(omit_expired=omit)
        for part in range(3):
            rows = [PutOp((f"n{part}",), str(at), {"text": "tea"}, index=False, ttl=1 + at % 3) for at in range(900)]
            store.batch([*rows, PutOp((f"n{part}",), "forever", {})])
        clock.advance(ms=MINUTE - 1)
        assert store.sweep_ttl() == 0
        clock.advance(ms=1)
        swept = store.sweep_ttl()
        assert (type(swept), swept) == (int, 900)
        assert store.sweep_ttl() == 0
        assert len(store.search((), limit=10_000, refresh_ttl=False)) == 1803
        clock.advance(minutes=2)
        assert store.sweep_ttl() == 1800
        assert keys(store.search(())) == ["forever"] * 3
        assert store.list_namespaces() == [("n0",), ("n1",), ("n2",)]

    def test_a_sweep_of_many_namespaces_counts_them_all(self, omitting: Face, clock: Clock) -> None:
        """Contract 39."""
        omitting.batch([PutOp((f"n{at}",), "k", {}, ttl=1) for at in range(600)])
        clock.advance(minutes=1)
        assert omitting.sweep_ttl() == 600

    def test_a_sweep_takes_no_row_that_has_been_slid_or_put_again(self, omitting: Face, clock: Clock) -> None:
        """Contract 39."""
        omitting.batch([PutOp(NS, key, {}, ttl=1) for key in ("slid", "put", "cleared", "found", "dead")])
        clock.advance(ms=30_000)
        omitting.get(NS, "slid", refresh_ttl=True)
        omitting.put(NS, "put", {}, ttl=1)
        omitting.put(NS, "cleared", {})
        omitting.batch([SearchOp(NS, offset=3, limit=1, refresh_ttl=True), GetOp(NS, "dead", refresh_ttl=False)])
        clock.advance(ms=30_000)
        assert omitting.sweep_ttl() == 1
        assert sorted(keys(omitting.search(NS))) == ["cleared", "found", "put", "slid"]

    def test_setup_may_be_awaited_and_need_not_be(self, make_store: Callable[..., Any]) -> None:
        """Contract 39: on a loop and without one, any number of times."""
        store = make_store()
        store.setup()
        asyncio.run(store.asetup())

        async def main() -> None:
            store.setup()
            await store.setup()
            await store.asetup()
            await store.aput(NS, "k", {})

        asyncio.run(main())
        store.setup()
        assert keys(store.search(NS)) == ["k"]

    def test_without_a_ttl_config_there_is_no_sweeper_to_start(self, make: Make) -> None:
        """Contract 39."""
        store = make()
        assert store.start_ttl_sweeper().done()
        assert store.start_ttl_sweeper(0.0001).done()
        assert bool(store.stop_ttl_sweeper()) is True

    def test_the_sweeper_sweeps_and_starting_it_twice_gives_the_running_one(self, timed: Timed, clock: Clock) -> None:
        """Contract 39."""
        store = timed(omit_expired=False)
        store.put(NS, "k", {}, ttl=1)
        clock.advance(minutes=1)
        sweeps = Sweeps(store.store)
        running = store.start_ttl_sweeper(sweep_interval_minutes=0.0001)
        assert store.start_ttl_sweeper(0.0001) is running
        assert store.start_ttl_sweeper() is running
        assert sweeps.removing.wait(PATIENCE)
        assert store.get(NS, "k") is None
        assert not running.done()
        assert bool(store.stop_ttl_sweeper(timeout=PATIENCE)) is True
        assert running.result(PATIENCE) is None
        assert bool(store.stop_ttl_sweeper()) is True

    def test_a_stopped_sweeper_can_be_started_again(self, timed: Timed, clock: Clock) -> None:
        """Contract 39: its interval may come from the config."""
        store = timed(sweep_interval_minutes=0.0001)
        sweeps = Sweeps(store.store)
        for _ in range(2):
            store.put(NS, "k", {}, ttl=1)
            clock.advance(minutes=1)
            sweeps.removing.clear()
            running = store.start_ttl_sweeper()
            assert sweeps.removing.wait(PATIENCE)
            assert bool(store.stop_ttl_sweeper(PATIENCE)) is True
            assert running.done()

    def test_the_sweeper_survives_exceptions(self, timed: Timed, clock: Clock) -> None:
        """Contract 39."""
        store = timed(omit_expired=False)
        store.put(NS, "k", {}, ttl=1)
        clock.advance(minutes=1)
        sweeps = Sweeps(store.store, failures=2)
        running = store.start_ttl_sweeper(0.0001)
        assert sweeps.removing.wait(PATIENCE)
        assert sweeps.failures == 0
        assert not running.done()
        assert bool(store.stop_ttl_sweeper(PATIENCE)) is True
        assert store.get(NS, "k") is None

    def test_several_sweepers_in_one_process_are_safe(self, timed: Timed, clock: Clock) -> None:
        """Contract 39: each row is swept once."""
        stores = [timed(omit_expired=True) for _ in range(3)]
        for at, store in enumerate(stores):
            store.batch([PutOp((f"n{at}",), str(key), {}, ttl=1) for key in range(300)])
        clock.advance(minutes=1)
        sweeps = [Sweeps(store.store) for store in stores]
        for store in stores:
            store.start_ttl_sweeper(0.0001)
        assert all(one.ran.wait(PATIENCE) for one in sweeps)
        assert all(bool(store.stop_ttl_sweeper(PATIENCE)) for store in stores)
        assert sum(one.removed for one in sweeps) == 900
        assert [store.sweep_ttl() for store in stores] == [0, 0, 0]

    def test_an_impossible_interval_is_refused(self, omitting: Face) -> None:
        """Contract 39."""
        for interval in (0, -1, math.nan, math.inf):
            refuses(ValueError, omitting.start_ttl_sweeper, interval)

    def test_what_starting_and_stopping_return_may_be_awaited(
        self, make_store: Callable[..., Any], clock: Clock
    ) -> None:
        """Contract 39: templates write both."""
        store = make_store(clock=clock, ttl={"default_ttl": 1})

        async def main() -> None:
            running = store.start_ttl_sweeper(1)
            assert await running is running
            assert await store.astart_ttl_sweeper(1) is running
            assert await store.stop_ttl_sweeper(PATIENCE) is True
            assert running.done()
            await store.start_ttl_sweeper()
            assert await store.astop_ttl_sweeper(PATIENCE) is True

        asyncio.run(main())
