"""What each operation of the lifecycle costs, beside PING and a plain put, and how that grows with what is there.

    python -m tests.bench.lifecycle [--server NAME] [--rounds N] [--quick] [--only writes,past,erasure,growth]

A time is that of one call; embedding takes no time here. How long a script kept others waiting is read from the
server's own log. The section about growth makes the same calls in namespaces, chains and hubs of several sizes: a flat
row has about the same figure in each column.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import redis

from langgraph_forgetful_store import ForgetfulStore
from tests.bench.data import DIMS, Namespace, Prebuilt, fill, puts
from tests.bench.harness import MICROSECOND, Contender, Table, duration, race, repeat, surroundings
from tests.support.real_servers import PLAIN, RunningServer

PING, PUT = "PING", "put"
YESTERDAY_MS = 86_400_000


@dataclass(frozen=True)
class Sizes:
    """How much of each there is."""

    rounds: int = 15
    calls: int = 100
    versions: int = 100
    rows: int = 10_000
    namespaces: tuple[int, ...] = (10, 1_000, 100_000)
    chains: tuple[int, ...] = (10, 4_000)
    hubs: tuple[int, ...] = (10, 2_000)


QUICK = Sizes(rounds=2, calls=5, versions=10, rows=200, namespaces=(10, 100), chains=(5, 20), hubs=(5, 20))
SECTIONS = ("writes", "past", "erasure", "growth")


class Growth:
    """The same calls at several sizes, a column a size: the median of a call, and its longest script."""

    def __init__(self, client: Any, sizes: Sequence[int], unit: str, rounds: int) -> None:
        self._client, self._rounds = client, rounds
        self._longest: dict[str, float] = {}
        self._medians: dict[str, list[float]] = {}
        self.table = Table("one call", *(f"{size:,} {unit}" for size in sizes), "largest / smallest", "longest script")

    def measure(self, name: str, call: Callable[[], Any]) -> None:
        """Time a call at the size that is next in its row."""
        times = []
        call()
        self._client.slowlog_reset()
        for _ in range(self._rounds):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        scripts = [entry for entry in self._client.slowlog_get(100_000) if entry["command"].startswith(b"EVAL")]
        longest = max((entry["duration"] for entry in scripts), default=0) * MICROSECOND
        self._longest[name] = max(longest, self._longest.get(name, 0.0))
        self._medians.setdefault(name, []).append(statistics.median(times))

    def finish(self) -> Table:
        """Return the table."""
        for name, medians in self._medians.items():
            ratio = f"{medians[-1] / medians[0]:.2f}x"
            self.table.row(name, *map(duration, medians), ratio, duration(self._longest[name]))
        return self.table


class Bench:
    """One run: a server, and the table that it fills."""

    def __init__(self, server: RunningServer, sizes: Sizes) -> None:
        self.sizes = sizes
        self.client = server.client()
        self.table = Table("one call", "median", "min - max", "CPU", "per s", "ratio", "")
        self.store = ForgetfulStore.from_conn_string(server.url, index={"dims": DIMS, "embed": Prebuilt()})
        self._serial = itertools.count()

    def close(self) -> None:
        """Close all connections."""
        self.store.close()
        self.client.close()

    def _race(self, ways: dict[str, Callable[[], Any]], calls: int, against: str) -> None:
        timings = race([Contender(name, run, calls) for name, run in ways.items()], self.sizes.rounds)
        for name, timing in timings.items():
            self.table.timing(name, timing, against=timings[against])

    def supersede(self) -> None:
        """Time writes into a slot whose chain grows with each."""
        self.table.section("superseding, each with a vector")
        store, space, numbers = self.store, ("bench", "slots"), range(self.sizes.calls)
        head = store.remember(space, "at first", subject="user", attribute="city").key
        slot = {"subject": "other", "attribute": "city"}
        ways: dict[str, Callable[[], Any]] = {
            PING: repeat(lambda _: self.client.ping(), numbers),
            PUT: repeat(lambda _: store.put(space, f"p{next(self._serial)}", {"content": "put"}), numbers),
            "remember, a new key": repeat(lambda _: store.remember(space, "a new memory"), numbers),
            "remember, an occupied slot": repeat(lambda _: store.remember(space, "in a slot", **slot), numbers),
            "supersede, by the first key": repeat(lambda _: store.supersede(space, head, "again"), numbers),
            "archive and restore": repeat(lambda _: (store.archive(space, "p0"), store.restore(space, "p0")), numbers),
        }
        ways[PUT]()
        # A chain that is asked for by its first key is walked; the slot leads to its latest row.
        self._race(ways, self.sizes.calls, PUT)

    def history(self) -> None:
        """Time reading a chain."""
        count = self.sizes.versions
        self.table.section(f"history of {count} versions")
        space = ("bench", "history")
        key = self.store.remember(space, "version 1").key
        for number in range(2, count + 1):
            key = self.store.supersede(space, key, f"version {number}").key
        assert len(self.store.history(space, key)) == count
        ways: dict[str, Callable[[], Any]] = {
            PING: lambda: self.client.ping(),
            "history": lambda: self.store.history(space, key),
        }
        self._race(ways, 1, PING)

    def search_as_of(self, space: Namespace) -> None:
        """Time searches that judge each row for another moment."""
        self.table.section(f"search of {self.sizes.rows:,} rows")
        yesterday = _moment(time.time() * 1000 - YESTERDAY_MS)
        now = _moment(time.time() * 1000)
        scanning = ForgetfulStore(self.client, index={"dims": DIMS, "embed": Prebuilt()}, cache_bytes=0)
        ways: dict[str, Callable[[], Any]] = {
            PING: lambda: self.client.ping(),
            "near-cache, now": lambda: self.store.recall(space, "query"),
            "scan, now": lambda: scanning.recall(space, "query"),
            "as of now": lambda: self.store.recall(space, "query", as_of=now),
            "as of yesterday": lambda: self.store.recall(space, "query", as_of=yesterday),
            "as known now": lambda: self.store.recall(space, "query", known_at=now),
        }
        assert len(ways["as of now"]()) == len(ways["near-cache, now"]()) > len(ways["as of yesterday"]()) == 0
        self._race(ways, 1, "scan, now")
        scanning.close()

    def grow(self) -> list[Table]:
        """Time each operation in namespaces, chains and hubs of several sizes."""
        self.client.config_set("slowlog-log-slower-than", 0)
        self.client.config_set("slowlog-max-len", 100_000)
        sizes, tables = self.sizes, []
        for measure, counts, unit in (
            (self._in_a_namespace, sizes.namespaces, "rows"),
            (self._in_a_chain, sizes.chains, "versions"),
            (self._in_a_hub, sizes.hubs, "links"),
        ):
            growth = Growth(self.client, counts, unit, sizes.rounds)
            for count in counts:
                measure(growth, count)
            tables.append(growth.finish())
        self.client.config_set("slowlog-log-slower-than", 10_000)
        return tables

    def _in_a_namespace(self, growth: Growth, size: int) -> None:
        store, space, slot = self.store, ("bench", f"rows {size}"), {"subject": "user", "attribute": "city"}
        fill(store, puts(size, space))
        serial = itertools.count()
        # Seven kinds of calls take a memory each time, and one more to warm up.
        made = [store.remember(space, f"memory {at}").key for at in range(7 * (self.sizes.rounds + 1))]
        keys = iter(made)

        def in_a_run() -> None:
            run_id = f"run {next(serial)}"
            store.remember(space, "of a run", run_id=run_id)
            store.end_run(space, run_id)

        growth.measure(PING, self.client.ping)
        growth.measure(PUT, lambda: store.put(space, f"n{next(serial)}", {"content": "put"}))
        growth.measure("get", lambda: store.get(space, made[0]))
        growth.measure("remember", lambda: store.remember(space, "a new memory"))
        growth.measure("remember, into a slot", lambda: store.remember(space, "in a slot", **slot))
        growth.measure("supersede", lambda: store.supersede(space, next(keys), "what came after"))
        growth.measure("retire", lambda: store.retire(space, next(keys)))
        growth.measure("archive", lambda: store.archive(space, next(keys)))
        growth.measure("confirm", lambda: store.confirm(space, next(keys)))
        growth.measure("demote", lambda: store.demote(space, next(keys)))
        growth.measure("delete", lambda: store.delete(space, next(keys)))
        growth.measure("forget, with its proof", lambda: store.forget(space, next(keys)))
        growth.measure("alias", lambda: store.alias(space, "user", f"name {next(serial)}"))
        growth.measure("listing of 10", lambda: store.search(space))
        growth.measure("remember in a run, and end it", in_a_run)

    def _in_a_chain(self, growth: Growth, size: int) -> None:
        store, space = self.store, ("bench", f"chain {size}")
        first = head = store.remember(space, "version 1").key
        for number in range(2, size + 1):
            head = store.supersede(space, head, f"version {number}").key
        other = store.remember(space, "beside it").key

        def there_and_back() -> None:
            store.undo_supersede(space, store.supersede(space, first, "one more").key)

        growth.measure(PING, self.client.ping)
        growth.measure("get of the first", lambda: store.get(space, first))
        growth.measure("history", lambda: store.history(space, first))
        growth.measure("link to the head", lambda: store.link(space, other, "relates", head))
        growth.measure("supersede, by the first key", lambda: store.supersede(space, first, "one more"))
        growth.measure("supersede and undo", there_and_back)
        growth.measure("recall as of now", lambda: store.recall(space, as_of=_moment(time.time() * 1000)))

    def _in_a_hub(self, growth: Growth, size: int) -> None:
        store, space = self.store, ("bench", f"hub {size}")
        store.remember(space, "the hub", key="hub")
        wanted = size + self.sizes.rounds + 1
        fill(store, puts(wanted, space))
        linked = [item.key for item in store.search(space, limit=wanted + 1) if item.key != "hub"]
        for key in linked[:size]:
            store.link(space, key, "relates", "hub")
        more = iter(linked[size:])

        def relink() -> None:
            store.unlink(space, linked[0], "relates", "hub")
            store.link(space, linked[0], "relates", "hub")

        growth.measure(PING, self.client.ping)
        growth.measure("link to the hub", lambda: store.link(space, next(more), "causes", "hub"))
        growth.measure("unlink and link", relink)
        growth.measure("neighbors of one that is linked", lambda: store.neighbors(space, linked[0]))
        growth.measure("confirm of the hub", lambda: store.confirm(space, "hub"))

    def erase(self, space: Namespace) -> None:
        """Erase a user, and tell how long the server's longest command took."""
        self.table.section(f"forget_all of a user with {self.sizes.rows:,} rows")
        self.client.config_set("slowlog-log-slower-than", 0)
        self.client.config_set("slowlog-max-len", 100_000)
        self.client.slowlog_reset()
        began = time.perf_counter()
        receipt = self.store.forget_all(space)
        took = time.perf_counter() - began
        longest = max(entry["duration"] for entry in self.client.slowlog_get(100_000)) / 1e6
        self.client.config_set("slowlog-log-slower-than", 10_000)
        assert (receipt.erased["memories"], receipt.residue) == (self.sizes.rows, ())
        self.table.row("forget_all, with its proof", duration(took))
        self.table.row("the server's longest command in it", duration(longest))

    def run(self, sections: Sequence[str]) -> list[Table]:
        """Run sections, and return their tables."""
        user = ("bench", "user")
        if "writes" in sections:
            self.supersede()
        if "past" in sections:
            self.history()
        if {"past", "erasure"} & set(sections):
            fill(self.store, puts(self.sizes.rows, user))
        if "past" in sections:
            self.search_as_of(user)
        if "erasure" in sections:
            self.erase(user)
        grown = self.grow() if "growth" in sections else []
        return [self.table, *grown]


def _moment(ms: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(ms / 1000 + 1))


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=PLAIN, default="valkey-9.1", help="the server (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="rounds that count (default: 15)")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, joined by commas (default: %(default)s)")
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    if options.rounds is not None:
        sizes = replace(sizes, rounds=options.rounds)
    server = RunningServer(options.server)
    try:
        bench = Bench(server, sizes)
        tables = bench.run(options.only.split(","))
        bench.close()
    finally:
        server.stop()
    print(surroundings([options.server, f"redis-py {redis.__version__}", f"{sizes.rounds} rounds"]))
    print("\n\n".join(map(str, tables)))


if __name__ == "__main__":
    main()
