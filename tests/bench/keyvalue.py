"""What putting, getting, paging and listing cost, beside PING, a bare HGET, `InMemoryStore` and the physical limit.

    python -m tests.bench.keyvalue [--server NAME] [--only abcdef] [--rounds N] [--quick]

A time is that of one item or call; ops are built beforehand, and embedding takes no time here. The CPU time is this
process's: what it leaves of the time is the server's and the socket's. The ratio compares with the first row of each
group. The limit of a put is an HSET of the same bytes, packed beforehand, over a bare socket.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import redis
import redis.asyncio
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from langgraph_forgetful_store import ForgetfulStore
from tests.bench.data import DIMS, Namespace, Prebuilt, fill, packed_rows, puts, send_packed, value
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
    repeat_async,
    surroundings,
)
from tests.support.real_servers import PLAIN, RunningServer

TTL = 60.0
DAY_MS = 86_400_000
SLOW_SECONDS = 0.02
GET_GOAL = ", TTL refreshed"
OURS, MEMORY, LIMIT, PING, HGET = "ForgetfulStore", "InMemoryStore", "limit", "PING", "bare HGET"
Ways = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class Sizes:
    """How much of each there is."""

    rounds: int = 15
    batches: tuple[int, ...] = (1_000, 10_000)
    calls: int = 250
    rounds_of_calls: int = 60
    at_once: int = 1_000
    pages: int = 50
    rows: int = 100_000
    expired: int = 1_000
    namespaces: int = 100_000
    page_of_namespaces: int = 100
    stored: int = 10_000


QUICK = Sizes(
    rounds=2,
    batches=(20, 100),
    calls=20,
    rounds_of_calls=2,
    at_once=30,
    pages=3,
    rows=400,
    expired=20,
    namespaces=200,
    page_of_namespaces=10,
    stored=100,
)


class Bench:
    """One run: a server, and the table that it fills."""

    def __init__(self, server: RunningServer, sizes: Sizes) -> None:
        self.server = server
        self.sizes = sizes
        self.client = server.client()
        self.table = Table("one item or call", "median", "min - max", "CPU", "per s", "ratio", "", "target")
        self._stores: list[ForgetfulStore] = []
        self._serial = itertools.count()

    def close(self) -> None:
        """Close all connections."""
        for store in self._stores:
            store.close()
        self._stores.clear()
        self.client.close()

    def _begin(self, title: str) -> None:
        self.close()
        self.client.execute_command("FLUSHALL", "SYNC")
        self.table.section(title)

    def _store(self, **settings: Any) -> ForgetfulStore:
        self._stores.append(ForgetfulStore.from_conn_string(self.server.url, **settings))
        return self._stores[-1]

    def _yesterday(self) -> ForgetfulStore:
        """Make a store whose puts with a TTL of less than a day have expired by now."""
        then = time.time() * 1000 - DAY_MS
        return self._store(clock=lambda: then)

    def _fresh(self) -> Namespace:
        return "bench", f"n{next(self._serial)}"

    def _script_calls(self, call: Callable[[], Any]) -> int:
        """Count the script calls that the server received: there are no more round trips than that."""
        self.client.config_resetstat()
        call()
        stats = self.client.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))

    def puts_without_vectors(self) -> None:
        """Time batches of puts of fresh keys."""
        self._puts("(a) batch put, without vectors", None, 80_000)

    def puts_with_vectors(self) -> None:
        """Time batches of puts of fresh keys whose vectors an embedder returns at once."""
        self._puts(f"(b) batch put, {DIMS}-d vectors as lists", {"dims": DIMS, "embed": Prebuilt()}, 30_000)

    def _puts(self, title: str, index: Any, least: float) -> None:
        self._begin(title)
        store = self._store(index=index)
        with socket.socket(socket.AF_UNIX) as wire:
            wire.connect(self.server.socket_path)
            for size in self.sizes.batches:
                make = partial(packed_rows, size, vectors=index is not None)
                contenders = [
                    Contender(LIMIT, partial(send_packed, wire), size, make),
                    Contender(OURS, store.batch, size, lambda size=size: puts(size, self._fresh())),
                    # One that grew from round to round would not be the same contender any longer.
                    Contender(
                        MEMORY,
                        lambda given: given[0].batch(given[1]),
                        size,
                        lambda size=size: (InMemoryStore(index=index), puts(size, self._fresh())),
                    ),
                ]
                timings = race(contenders, self.sizes.rounds)
                for name, timing in timings.items():
                    goal = at_least(1 / timing.median, least, "items/s") if name == OURS else None
                    self.table.timing(f"{name}, batch of {size:,}", timing, against=timings[LIMIT], goal=goal)

    def gets(self) -> None:
        """Time reads and writes of one row, and of many in one tick of an event loop."""
        for place in placements(self.server.pid):
            self._begin(f"(c) one row a call, {place}")
            self._gets()

    def _gets(self) -> None:
        at_once = [str(uuid.uuid4()) for _ in range(self.sizes.at_once)]
        keys = at_once[: self.sizes.calls]
        store, memory, timed, timeless, fresh = self._store(), InMemoryStore(), *(self._fresh() for _ in range(3))
        for namespace, ttl in ((timed, TTL), (timeless, None)):
            store.batch([PutOp(namespace, key, value(), ttl=ttl) for key in at_once])
            memory.batch([PutOp(namespace, key, value()) for key in at_once])
        self.client.hset("hash", mapping={key: json.dumps(value()) for key in at_once})
        self._report_rows(
            {
                HGET: repeat(lambda key: self.client.hget("hash", key), keys),
                PING: repeat(lambda key: self.client.ping(), keys),
                f"get, {OURS}{GET_GOAL}": repeat(lambda key: store.get(timed, key), keys),
                f"get, {OURS}, TTL left": repeat(lambda key: store.get(timed, key, refresh_ttl=False), keys),
                f"get, {OURS}, no TTL": repeat(lambda key: store.get(timeless, key), keys),
                f"get, {MEMORY}": repeat(lambda key: memory.get(timed, key), keys),
            },
            len(keys),
        )
        self._report_rows(
            {
                "bare HSET": repeat(lambda key: self.client.hset("hash", key, json.dumps(value())), keys),
                f"put, {OURS}, with TTL": repeat(lambda key: store.put(fresh, key, value(), ttl=TTL), keys),
                f"put, {MEMORY}": repeat(lambda key: memory.put(fresh, key, value()), keys),
            },
            len(keys),
        )
        with asyncio.Runner() as runner:
            client = redis.asyncio.Redis(unix_socket_path=self.server.socket_path)
            one_by_one = partial(repeat_async, runner, inputs=keys, together=False)
            self._report_rows(
                {
                    f"{HGET}, async": one_by_one(lambda key: client.hget("hash", key)),
                    f"aget, {OURS}{GET_GOAL}": one_by_one(lambda key: store.aget(timed, key)),
                    f"aget, {OURS}, no TTL": one_by_one(lambda key: store.aget(timeless, key)),
                    f"aget, {MEMORY}": one_by_one(lambda key: memory.aget(timed, key)),
                },
                len(keys),
            )
            together = partial(repeat_async, runner, inputs=at_once, together=True)
            count = f"{len(at_once):,}"
            self._report_rows(
                {
                    f"{count} HGETs of one pipeline": partial(self._pipelined_hgets, at_once),
                    f"{count} agets of one tick, {OURS}": together(lambda key: store.aget(timed, key)),
                    f"{count} agets of one tick, {MEMORY}": together(lambda key: memory.aget(timed, key)),
                    f"{count} aputs of one tick, {OURS}": together(
                        lambda key: store.aput(fresh, key, value(), ttl=TTL)
                    ),
                    f"{count} aputs of one tick, {MEMORY}": together(lambda key: memory.aput(fresh, key, value())),
                },
                len(at_once),
            )
            runner.run(client.aclose())
            runner.run(store.aclose())

    def _pipelined_hgets(self, keys: list[str]) -> None:
        with self.client.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.hget("hash", key)
            pipeline.execute()

    def _report_rows(self, ways: Ways, ops: int) -> None:
        rounds = self.sizes.rounds_of_calls if ops == self.sizes.calls else self.sizes.rounds
        timings = race([Contender(name, run, ops) for name, run in ways.items()], rounds)
        reference = next(iter(timings.values()))
        for name, timing in timings.items():
            goal = at_most(timing.times(reference), 1.7, "x HGET") if GET_GOAL in name else None
            self.table.timing(name, timing, against=reference, goal=goal)

    def pages(self) -> None:
        """Time pages of one large namespace, near its start and far from it."""
        sizes = self.sizes
        self._begin(f"(d) a page of 10 of {sizes.rows:,} rows, no query, no filter")
        store, memory, plain, mixed = self._store(), InMemoryStore(), self._fresh(), self._fresh()
        fill(store, puts(sizes.rows, plain))
        fill(memory, puts(sizes.rows, plain))
        step = sizes.rows // sizes.expired
        ops = (op._replace(ttl=None if at % step else 1.0) for at, op in enumerate(puts(sizes.rows, mixed)))
        fill(self._yesterday(), ops)
        deep = sizes.rows - sizes.expired - 10
        ways: Ways = {PING: self.client.ping}
        for namespace, name in ((plain, ""), (mixed, f", {sizes.expired:,} expired rows among them")):
            for offset in (0, deep // 2, deep):
                ways[f"{OURS}, offset {offset:,}{name}"] = partial(store.search, namespace, limit=10, offset=offset)
        ways[f"{MEMORY}, offset 0"] = partial(memory.search, plain, limit=10)
        goals = [name for name in ways if name.startswith(OURS)]
        self._report_calls(ways, goals, lambda timing, ping, calls: at_most(calls, 2, "round trips"))

    def namespaces(self) -> None:
        """Time pages of namespaces under a prefix."""
        sizes, page = self.sizes, self.sizes.page_of_namespaces
        self._begin(f"(e) a page of {page} namespaces of {sizes.namespaces:,} under a prefix")
        store, memory, gone = self._store(), InMemoryStore(), self._yesterday()
        labels = [f"user-{number:06}" for number in range(sizes.namespaces)]
        random.Random(7).shuffle(labels)
        for each in (store, memory):
            fill(each, (PutOp(("live", label, "notes"), "k", {"n": 1}) for label in labels))
        fill(gone, (PutOp(("gone", label, "notes"), "k", {"n": 1}, ttl=1.0) for label in labels))
        list_live = partial(store.list_namespaces, prefix=("live",), limit=page)
        list_gone = partial(store.list_namespaces, prefix=("gone",), limit=page)
        ways: Ways = {
            PING: self.client.ping,
            OURS: list_live,
            f"{OURS}, offset {sizes.namespaces // 2:,}": partial(list_live, offset=sizes.namespaces // 2),
            f"{OURS}, max_depth=2": partial(list_live, max_depth=2),
            f"{OURS}, suffix that all have": partial(list_live, suffix=("notes",)),
            f"{OURS}, suffix that none has": partial(list_live, suffix=("absent",)),
            f"{OURS}, where all hold expired rows alone": list_gone,
            MEMORY: partial(memory.list_namespaces, prefix=("live",), limit=page),
        }
        self._report_calls(
            ways, [OURS], lambda timing, ping, calls: at_most(timing.over(ping) * 1e3, 0.6, "ms over PING")
        )

    def _report_calls(self, ways: Ways, goals: list[str], goal_of: Callable[[Timing, Timing, int], Goal]) -> None:
        contenders = []
        for name, call in ways.items():
            started = time.perf_counter()
            call()
            # What takes long takes long enough by itself to be timed well.
            times = self.sizes.pages if time.perf_counter() - started < SLOW_SECONDS else 1
            contenders.append(Contender(name, repeat(lambda _, call=call: call(), range(times)), times))
        timings = race(contenders, self.sizes.rounds)
        for name, timing in timings.items():
            calls = self._script_calls(ways[name]) if name.startswith(OURS) else 0
            note = f"{calls} round trip{'s' if calls > 1 else ''}" if calls else ""
            goal = goal_of(timing, timings[PING], calls) if name in goals else None
            self.table.timing(name, timing, against=timings[PING], note=note, goal=goal)

    def memory(self) -> None:
        """Report what an item takes on the server."""
        self._begin("(f) server memory of one item, in bytes")
        count = self.sizes.stored
        ops, index = puts(count, self._fresh()), {"dims": DIMS, "embed": Prebuilt()}
        payload = sum(len(op.key) + len(json.dumps(op.value)) for op in ops) / count
        store, with_index = self._store(), self._store(index=index)
        for each in (store, with_index):
            each.put(self._fresh(), "first", value())
        mapping = {op.key: json.dumps(op.value) for op in ops}
        for name, size in {
            "its key and value": payload,
            "in a bare hash": self._grown(lambda: self.client.hset("hash", mapping=mapping)),
            f"{OURS}, no TTL": self._grown(lambda: store.batch(ops)),
            f"{OURS}, with TTL": self._grown(lambda: store.batch(puts(count, self._fresh(), ttl=TTL))),
            f"its key, value and {DIMS}-d vector": payload + 4 * DIMS,
            f"{OURS}, with vector": self._grown(lambda: with_index.batch(puts(count, self._fresh()))),
        }.items():
            self.table.row(name, f"{size:,.0f}")

    def _grown(self, write: Callable[[], Any]) -> float:
        before = self.client.info("memory")["used_memory_dataset"]
        write()
        return (self.client.info("memory")["used_memory_dataset"] - before) / self.sizes.stored


SECTIONS = {
    "a": Bench.puts_without_vectors,
    "b": Bench.puts_with_vectors,
    "c": Bench.gets,
    "d": Bench.pages,
    "e": Bench.namespaces,
    "f": Bench.memory,
}


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=PLAIN, default="valkey-9.1", help="the server (default: %(default)s)")
    parser.add_argument("--only", default="".join(SECTIONS), metavar="LETTERS", help="sections to run, such as ac")
    parser.add_argument("--rounds", type=int, help="rounds that count (default: 15, of single rows 60)")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast")
    options = parser.parse_args()
    if unknown := set(options.only) - set(SECTIONS):
        parser.error(f"--only: no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    sizes = QUICK if options.quick else Sizes()
    if options.rounds is not None:
        sizes = replace(sizes, rounds=options.rounds, rounds_of_calls=options.rounds)
    server = RunningServer(options.server)
    try:
        bench = Bench(server, sizes)
        for letter, section in SECTIONS.items():
            if letter in options.only:
                section(bench)
        bench.close()
    finally:
        server.stop()
    print(surroundings([options.server, f"redis-py {redis.__version__}", f"{sizes.rounds} rounds"]))
    print(bench.table)
    print(f"\ntargets missed: {len(bench.table.missed)}", *bench.table.missed, sep="\n  ")


if __name__ == "__main__":
    main()
