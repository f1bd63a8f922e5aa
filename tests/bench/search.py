"""What searching costs, beside PING, the physical limit, `InMemoryStore`, `SqliteStore` and a store that needs modules.

    python -m tests.bench.search [--sizes 1000,10000,100000] [--only users,large] [--peer] [--quick]

All rows have a sliding TTL. The limit is a PING and one `np.vecdot` over the scope's vectors: no exact search that asks
the server can be faster. Recall is that of the 10 best, against brute force: in the order of the preset ``weighted``
for `ForgetfulStore`, and of plain cosine for the others; `tests.bench.words` times the default, ``relevance``.
Embedding takes no time here. The CPU time is this process's, or the peer's own.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import redis
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langgraph_forgetful_store import ForgetfulStore
from tests.bench.corpus import DIMS, FIELDS, LIMIT, QUERIES, TOPICS, TURNS, Corpus, Namespace, query_text
from tests.bench.data import fill
from tests.bench.harness import (
    Contender,
    Goal,
    Table,
    Timing,
    at_least,
    at_most,
    placements,
    race,
    repeat,
    surroundings,
)
from tests.bench.peer import NAME as PEER
from tests.bench.peer import SERVER as PEER_SERVER
from tests.bench.peer import Peer, Unavailable
from tests.support.real_servers import PLAIN, RunningServer

try:
    import pysqlite3
except ImportError:
    pysqlite3 = None

TTL = 60.0
WRITES_A_SECOND = 100
SLOW_SECONDS = 0.02
LAYOUTS = {"users": False, "large": True}
IMPATIENT = 3
ONE_USER, WHOLE, LARGE = "one user's scope", "the whole prefix", "one large namespace"
PING, PHYSICAL, MEMORY, SQLITE = "PING", "limit: PING + one vecdot", "InMemoryStore", "SqliteStore"
NEAR, REFRESHED, SCAN = "near-cache", "near-cache, TTL refreshed", "scan"
EQUAL_AGAIN, RANGE_AGAIN = "near-cache, equality filter, repeated", "near-cache, range filter, repeated"
PEERS = {PEER: False, f"{PEER}, TTL refreshed": True}
SHORT = {MEMORY: "InMemory", SQLITE: "Sqlite", PEER: "peer"}
Call = Callable[[int], Any]


@dataclass(frozen=True)
class Way:
    """A way to search, called with numbers that differ from call to call, and its recall where that is known."""

    call: Call
    recall: float | None = None


class Bench:
    """One run: a server, perhaps a peer, and the table that they fill."""

    def __init__(self, server: RunningServer, peer: Peer | None, rounds: int | None, calls: int) -> None:
        self.server = server
        self.peer = peer
        self.absent = ""
        self.rounds = rounds
        self.calls = calls
        self.client = server.client()
        self.table = Table(
            "one search", "median", "min - max", "CPU", "per s", "x limit", "recall@10, times as fast as", "target"
        )

    def run(self, size: int, *, large: bool) -> None:
        """Time all searches of a corpus."""
        self.client.execute_command("FLUSHALL", "SYNC")
        corpus = Corpus(size, large=large)
        self._index: Any = {"dims": DIMS, "embed": corpus, "fields": FIELDS}
        with contextlib.ExitStack() as stack:
            # One alone counts accesses: what is counted changes rows, and would be news for the others' caches.
            choices: list[dict[str, Any]] = [{}, {"track_access": False}, {"track_access": False, "cache_bytes": 0}]
            stores = [stack.enter_context(self._store(**settings)) for settings in choices]
            stores[0].put(("warm", "up"), "k", {"content": "0000000"})
            ours = self._grown(self.client, lambda: fill(stores[0], corpus.puts(ttl=TTL, importance=True)), size)
            memory = InMemoryStore(index=self._index)
            fill(memory, corpus.puts(ttl=None, importance=False))
            sqlite = self._sqlite(stack)
            if sqlite is not None:
                fill(sqlite, corpus.puts(ttl=TTL, importance=False))
            theirs = self._fill_peer(corpus)
            # Recall of every scope before anything is timed: accesses that are counted change the order.
            known = {
                scope: self._ways(corpus, prefix, count, stores, memory, sqlite, peer=theirs is not None)
                for scope, (prefix, count) in corpus.scopes.items()
            }
            for scope, (prefix, count) in corpus.scopes.items():
                self.table.section(f"{scope}: {count:,} of {size:,} rows")
                self._time(corpus, scope, prefix, known[scope])
            self.table.section(f"bytes an item, {size:,} rows{' in one namespace' if large else ''}")
            self.table.row("server, ForgetfulStore, TTL and vector", f"{ours:,.0f}", goal=at_most(ours, 2600, "bytes"))
            if theirs is not None:
                self.table.row(f"server, {PEER}", f"{theirs:,.0f}")
            prefix, count = list(corpus.scopes.values())[-1]
            self.table.row("client, near-cache", f"{self._cached(prefix) / count:,.0f}")

    def _store(self, **settings: Any) -> ForgetfulStore:
        return ForgetfulStore.from_conn_string(self.server.url, index=self._index, scoring="weighted", **settings)

    def _sqlite(self, stack: contextlib.ExitStack) -> SqliteStore | None:
        # Many builds of Python leave out what loads sqlite-vec; pysqlite3-binary has it.
        module = sqlite3 if hasattr(sqlite3.Connection, "enable_load_extension") else pysqlite3
        if module is None:
            return None
        connection = module.connect(":memory:", check_same_thread=False, isolation_level=None)
        stack.callback(connection.close)
        store = SqliteStore(connection, index=self._index)
        store.setup()
        return store

    @staticmethod
    def _grown(client: redis.Redis, write: Callable[[], Any], count: int) -> float:
        before = client.info("memory")["used_memory"]
        write()
        return (client.info("memory")["used_memory"] - before) / count

    def _fill_peer(self, corpus: Corpus) -> float | None:
        if self.peer is None or self.absent:
            return None
        with self.peer.server.client() as client:
            client.execute_command("FLUSHALL", "SYNC")
            write = partial(self.peer.ask, "fill", size=corpus.size, large=corpus.large, ttl=TTL)
            try:
                return self._grown(client, write, corpus.size)
            except Unavailable as error:
                self.absent = f"{PEER}: {error}"
                return None

    def _cached(self, prefix: Namespace) -> float:
        with self._store() as store:
            store.get(prefix, "none")
            tracemalloc.start()
            store.search(prefix, query=query_text(0))
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return held

    def _ways(
        self,
        corpus: Corpus,
        prefix: Namespace,
        count: int,
        stores: list[ForgetfulStore],
        memory: InMemoryStore,
        sqlite: SqliteStore | None,
        *,
        peer: bool,
    ) -> dict[str, Way]:
        near, quiet, scan = stores
        vectors, query = corpus.vectors[:count], corpus.vectors[0].copy()

        def physical(_: int) -> None:
            self.client.ping()
            np.vecdot(vectors, query)

        def way(store: Any, twin: Any = None, filters: list[Any] | None = None, **options: Any) -> Way:
            """Search by a store; its twin counts no accesses, so that trying its recall does not change the order."""

            def call(at: int) -> Any:
                given = None if filters is None else filters[at % len(filters)]
                return store.search(prefix, query=query_text(at), limit=LIMIT, filter=given, **options)

            checked = twin or store
            first = filters[0] if filters else None
            checking = {**options, "filter": first}
            matches = _predicate(first) if first else None
            started = time.perf_counter()
            checked.search(prefix, query=query_text(0), limit=LIMIT, **checking)
            queries = QUERIES if time.perf_counter() - started < 10 * SLOW_SECONDS else IMPATIENT
            composite = twin is not None
            recall = corpus.recall(
                checked.search, prefix, count, composite=composite, matches=matches, queries=queries, **checking
            )
            return Way(call, recall)

        equal = [{"topic": f"t{topic}"} for topic in range(TOPICS)]
        ranges = [{"turn": {"$gte": turn}} for turn in range(0, TURNS, TURNS // TOPICS)]
        ways = {
            PING: Way(lambda _: self.client.ping()),
            PHYSICAL: Way(physical),
            NEAR: way(near, quiet, refresh_ttl=False),
            REFRESHED: way(near, quiet, refresh_ttl=True),
            "near-cache, accesses not counted": way(quiet, quiet, refresh_ttl=False),
            EQUAL_AGAIN: way(near, quiet, equal[3:4], refresh_ttl=False),
            "near-cache, equality filter, new": way(near, quiet, equal[4:] + equal[:3], refresh_ttl=False),
            RANGE_AGAIN: way(near, quiet, ranges[20:21], refresh_ttl=False),
            "near-cache, range filter, new": way(near, quiet, ranges[21:] + ranges[:20], refresh_ttl=False),
            SCAN: way(scan, scan, refresh_ttl=False),
            "scan, TTL refreshed": way(scan, scan, refresh_ttl=True),
            MEMORY: way(memory),
            f"{MEMORY}, equality filter": way(memory, None, equal[3:4]),
        }
        if sqlite is not None:
            ways[SQLITE] = way(sqlite, refresh_ttl=False)
            ways[f"{SQLITE}, TTL refreshed"] = way(sqlite, refresh_ttl=True)
        if peer:
            assert self.peer is not None
            recall = self.peer.ask("recall", prefix=prefix, count=count, queries=QUERIES)
            ways |= {name: Way(lambda _: None, recall) for name in PEERS}
        return ways

    def _time(self, corpus: Corpus, scope: str, prefix: Namespace, ways: dict[str, Way]) -> None:
        contenders = [
            self._peers(name, prefix) if name in PEERS else self._contender(name, way.call)
            for name, way in ways.items()
        ]
        timings = race([*contenders, self._cold(prefix)], self._rounds(corpus.size))
        for name, timing in timings.items():
            known = ways.get(name)
            self._report(name, timing, timings, corpus.size, scope, known.recall if known else None)
        if SQLITE not in ways:
            self.table.row(SQLITE, *["-"] * 5, "this Python's sqlite3 can't load extensions")
        self._under_writes(prefix, {PHYSICAL: ways[PHYSICAL], NEAR: ways[NEAR], REFRESHED: ways[REFRESHED]}, corpus)

    def _rounds(self, size: int) -> int:
        return self.rounds or (15 if size <= 1000 else 11 if size <= 10_000 else 7)

    def _contender(self, name: str, call: Call) -> Contender:
        # The first call may load what later ones find.
        call(0)
        started = time.perf_counter()
        call(0)
        # What takes long takes long enough by itself to be timed well.
        times = self.calls if time.perf_counter() - started < SLOW_SECONDS else 1
        numbers = itertools.count()
        searches = repeat(lambda _: call(next(numbers)), range(times))
        if name.endswith(", new"):
            return Contender(name, searches, times)
        # What others did meanwhile, such as pushing a filter out of a cache, is no part of a warm search.
        return Contender(name, lambda _: searches(), times, lambda: call(0))

    def _cold(self, prefix: Namespace) -> Contender:
        def make() -> ForgetfulStore:
            store = self._store(track_access=False)
            store.get(prefix, "none")
            return store

        def run(store: ForgetfulStore) -> None:
            store.search(prefix, query=query_text(0), refresh_ttl=False)

        return Contender("near-cache, cold: the first query", run, 1, make)

    def _peers(self, name: str, prefix: Namespace) -> Contender:
        assert self.peer is not None
        search = partial(self.peer.ask, "search", prefix=prefix, refresh=PEERS[name], filters=[])
        search(times=1)
        wall, _ = search(times=1)
        times = self.calls if wall < SLOW_SECONDS else 1
        return Contender(name, lambda _: search(times=times), times, lambda: search(times=1), elsewhere=True)

    def _report(
        self, name: str, timing: Timing, timings: dict[str, Timing], size: int, scope: str, recall: float | None
    ) -> None:
        notes = [] if recall is None else [f"{recall:.2f}"]
        if name in (NEAR, REFRESHED, SCAN):
            notes += [
                f"{timings[other].times(timing):,.1f}x {SHORT[other]}"
                for other in (MEMORY, SQLITE, PEER)
                if other in timings
            ]
        goal = _goal(name, timing, timings, size, scope)
        self.table.timing(name, timing, against=timings[PHYSICAL], note=", ".join(notes), goal=goal)

    def _under_writes(self, prefix: Namespace, ways: dict[str, Way], corpus: Corpus) -> None:
        namespace = prefix if len(prefix) > 1 else corpus.namespace(0)
        with self._writing(namespace):
            timings = race([self._contender(name, way.call) for name, way in ways.items()], self._rounds(corpus.size))
        for name, timing in timings.items():
            self.table.timing(f"under {WRITES_A_SECOND} writes/s: {name}", timing, against=timings[PHYSICAL])
        with self._store() as store:
            found = store.search(namespace, filter={"topic": {"$exists": True}}, limit=corpus.size)
            for item in found:
                if item.key.startswith("written-"):
                    store.delete(item.namespace, item.key)

    @contextlib.contextmanager
    def _writing(self, namespace: Namespace) -> Iterator[None]:
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.writer", self.server.url, str(WRITES_A_SECOND), *namespace],
            cwd=Path(__file__).parents[2], stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(writer.pid, os.sched_getaffinity(self.server.pid))
            yield
        finally:
            writer.kill()
            writer.communicate()


def _predicate(given: dict[str, Any]) -> Callable[[dict[str, Any]], bool]:
    ((field, condition),) = given.items()
    if isinstance(condition, dict):
        return lambda value: value[field] >= condition["$gte"]
    return lambda value: value[field] == condition


def _goal(name: str, timing: Timing, timings: dict[str, Timing], size: int, scope: str) -> Goal | None:
    if name in (EQUAL_AGAIN, RANGE_AGAIN):
        return at_most(timing.times(timings[NEAR]), 2, "x without a filter")
    if scope == ONE_USER and size == 1000 and name in (NEAR, REFRESHED):
        return at_least(timings[MEMORY].times(timing), 40 if name == NEAR else 18, f"x as fast as {MEMORY}")
    if scope == LARGE and size == 10_000 and name == NEAR:
        return at_least(timings[MEMORY].times(timing), 100, f"x as fast as {MEMORY}")
    if scope == LARGE and size == 100_000 and name == NEAR:
        return at_most(timing.times(timings[PHYSICAL]), 1.5, "x limit")
    if scope == ONE_USER and size == 100_000 and name == NEAR and PEER in timings:
        return at_least(timings[PEER].times(timing), 4, f"x as fast as {PEER}")
    return None


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=PLAIN, default="valkey-9.1", help="the server (default: %(default)s)")
    parser.add_argument("--sizes", default="1000,10000,100000", help="numbers of rows (default: %(default)s)")
    parser.add_argument("--only", default=",".join(LAYOUTS), help="layouts of the rows (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="rounds that count (default: 15 to 7, by the size)")
    parser.add_argument("--peer", action="store_true", help=f"run {PEER} too; installs it into a folder of its own")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.rounds = "200", options.rounds or 2
    try:
        options.sizes = [int(size) for size in options.sizes.split(",")]
    except ValueError:
        parser.error(f"--sizes: numbers with commas between them, not {options.sizes!r}")
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(LAYOUTS):
        parser.error(f"--only: no layout {', '.join(sorted(unknown))}; there are {', '.join(LAYOUTS)}")
    return options


def main() -> None:
    """Run the benchmark and print its table."""
    options = _parse()
    peer, absent = None, ""
    if options.peer:
        try:
            peer = Peer()
        except Unavailable as error:
            absent = f"{PEER}: {error}"
    with contextlib.ExitStack() as stack:
        server = RunningServer(options.server)
        stack.callback(server.stop)
        if peer is not None:
            stack.callback(peer.close)
        # What shares the client's CPU would make ratios a matter of luck, so only the first placement is timed.
        where = placements(server.pid)
        stack.callback(where.close)
        placed = next(where)
        if peer is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(peer.server.pid, os.sched_getaffinity(server.pid))
        bench = Bench(server, peer, options.rounds, 5 if options.quick else 50)
        # A long run that is interrupted still tells what it has found.
        with contextlib.suppress(KeyboardInterrupt):
            for size, layout in itertools.product(options.sizes, options.only):
                bench.run(size, large=LAYOUTS[layout])
        bench.client.close()
    facts = [options.server, f"redis-py {redis.__version__}", f"numpy {np.__version__}", placed]
    print(surroundings([*facts, f"{PEER} on {PEER_SERVER} with modules"] if peer else facts))
    print(bench.table)
    if absent := absent or bench.absent:
        print(f"\n{absent}")
    print(f"\ntargets missed: {len(bench.table.missed)}", *bench.table.missed, sep="\n  ")


if __name__ == "__main__":
    main()
