"""What superseding, history, a search as of another day and an erasure cost, beside PING and a plain put.

    python -m tests.bench.lifecycle [--server NAME] [--rounds N] [--quick]

A time is that of one call; embedding takes no time here. The last section erases a user and reads from the server's own
log how long its longest command kept others waiting.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import redis

from langgraph_forgetful_store import ForgetfulStore
from tests.bench.data import DIMS, Namespace, Prebuilt, fill, puts
from tests.bench.harness import Contender, Table, duration, race, repeat, surroundings
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


QUICK = Sizes(rounds=2, calls=5, versions=10, rows=200)


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

    def run(self) -> None:
        """Run all sections."""
        self.supersede()
        self.history()
        user = ("bench", "user")
        fill(self.store, puts(self.sizes.rows, user))
        self.search_as_of(user)
        self.erase(user)


def _moment(ms: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(ms / 1000 + 1))


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=PLAIN, default="valkey-9.1", help="the server (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="rounds that count (default: 15)")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast")
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    if options.rounds is not None:
        sizes = replace(sizes, rounds=options.rounds)
    server = RunningServer(options.server)
    try:
        bench = Bench(server, sizes)
        bench.run()
        bench.close()
    finally:
        server.stop()
    print(surroundings([options.server, f"redis-py {redis.__version__}", f"{sizes.rounds} rounds"]))
    print(bench.table)


if __name__ == "__main__":
    main()
