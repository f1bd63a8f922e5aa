"""What words cost, beside searches by meaning alone and writes that keep no words.

    python -m tests.bench.words [--sizes 1000,10000] [--data FOLDER] [--rounds 15]

Ratios are medians over rounds in which the contenders take turns; embedding takes no time here. Texts are sentences of
24 words by Zipf's law, of which two in five tell nothing (``the``, ``and``), or, with ``--data``, the turns of real
conversations.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from langgraph.store.base import PutOp

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.operations import indexing
from langgraph_forgetful_store.search.lexical import STOP_WORDS
from langgraph_forgetful_store.testing.internals import session_of
from tests.bench.data import DIMS, Prebuilt
from tests.bench.harness import Contender, Goal, Table, Timing, at_most, duration, race, repeat, surroundings
from tests.support.real_servers import PLAIN, RunningServer

SHORT, LONG = 12, 60
SEARCHES, PUTS, BATCHES, BATCH = 20, 40, 2, 200
NS = ("bench", "words")
INDEX: dict[str, Any] = {"dims": DIMS, "embed": Prebuilt(), "fields": ["content"], "embedder_id": "prebuilt"}


class Texts:
    """Sentences without end, and queries of so many words.

    Args:
        folder: Of the conversations; ``None``: sentences are made up.
    """

    def __init__(self, folder: Path | None) -> None:
        self.dice = random.Random(7)
        self._real: list[str] = []
        if folder is not None:
            read = json.loads((folder / "locomo_dev.json").read_text("utf-8"))
            turns = (turn for one in read for part in one["sessions"] for turn in part["turns"])
            self._real = [f"{turn['speaker']}: {turn['text']}" for turn in turns]
        self._stop = sorted(STOP_WORDS)
        self._words = [f"w{number:x}ing" if number % 3 else f"w{number:x}" for number in range(8000)]
        self._weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(self._words))))

    def _said(self, count: int) -> str:
        words = self.dice.choices(self._words, cum_weights=self._weights, k=count)
        return " ".join(self.dice.choice(self._stop) if self.dice.random() < 0.4 else word for word in words)

    def rows(self) -> Iterator[str]:
        while True:
            yield self.dice.choice(self._real) if self._real else self._said(24)

    def query(self, count: int) -> str:
        words: list[str] = []
        while len(words) < count:
            words += next(self.rows()).split()
        return " ".join(words[:count])


def puts(texts: Iterator[str], count: int, start: int = 0) -> list[PutOp]:
    return [PutOp(NS, f"k{start + at}", {"content": next(texts)}) for at in range(count)]


def searches(store: ForgetfulStore, queries: Sequence[str], **more: Any) -> Callable[[], None]:
    return repeat(lambda query: store.recall(NS, query, track_access=False, **more), queries)


def without_words(store: Any) -> Callable[[Any], None]:
    def run(ops: Any) -> None:
        with mock.patch.object(indexing, "pack_words", return_value=b""):
            for op in ops:
                store.batch(op)

    return run


def with_words(store: Any) -> Callable[[Any], None]:
    def run(ops: Any) -> None:
        for op in ops:
            store.batch(op)

    return run


def row(table: Table, name: str, timing: Timing, base: Timing, goal: Goal | None) -> None:
    busy = statistics.median(mine / theirs for mine, theirs in zip(timing.cpu, base.cpu, strict=True))
    table.row(
        name,
        duration(timing.median),
        duration(timing.median_cpu),
        f"{timing.times(base):.2f} x",
        f"{busy:.2f} x",
        goal=goal,
    )


def time_searches(table: Table, store: Any, texts: Texts, rounds: int, size: int) -> None:
    short, long = ([texts.query(count) for _ in range(SEARCHES)] for count in (SHORT, LONG))
    contenders = [
        Contender("cosine", searches(store, short, scoring="similarity"), SEARCHES),
        Contender(f"relevance, {SHORT} words", searches(store, short), SEARCHES),
        Contender(f"relevance, {LONG} words", searches(store, long), SEARCHES),
    ]
    timings = race(contenders, rounds)
    table.section(f"one search over {size:,} rows")
    for contender, most in zip(contenders, (None, 1.3, 1.6), strict=True):
        timing = timings[contender.name]
        times = timing.times(timings["cosine"])
        goal = None if most is None else at_most(times, most, "times")
        row(table, contender.name, timing, timings["cosine"], goal)


def time_puts(table: Table, store: Any, texts: Texts, rounds: int) -> None:
    rows, start = texts.rows(), itertools.count(10_000_000, 1000)

    def single() -> list[list[PutOp]]:
        return [[op] for op in puts(rows, PUTS, next(start))]

    def batches() -> list[list[PutOp]]:
        return [puts(rows, BATCH, next(start)) for _ in range(BATCHES)]

    for title, prepare, ops in (("one put", single, PUTS), (f"a put in a batch of {BATCH}", batches, BATCHES * BATCH)):
        contenders = [
            Contender("without words", without_words(store), ops, prepare),
            Contender("with words", with_words(store), ops, prepare),
        ]
        timings = race(contenders, rounds)
        table.section(title)
        for contender in contenders:
            timing = timings[contender.name]
            times = timing.times(timings["without words"])
            goal = at_most(times, 1.3, "times") if contender is contenders[1] else None
            row(table, contender.name, timing, timings["without words"], goal)


def weigh(table: Table, store: Any, client: Any, prefix: str, size: int) -> None:
    (held,) = session_of(store).cache.scopes.values()
    client_bytes = held.snapshot.table.postings.held / size
    name = next(iter(client.scan_iter(match=f"{prefix}:*w:*", count=1000)))
    server_bytes = client.memory_usage(name, samples=0) / size
    table.section(f"words of {size:,} rows")
    table.row("in the client", f"{client_bytes:.0f} B", goal=at_most(client_bytes, 250, "B a row"))
    table.row("on the server", f"{server_bytes:.0f} B", goal=at_most(server_bytes, 120, "B a row"))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--server", choices=PLAIN, default="valkey-9.1", help="the server (default: %(default)s)")
    parser.add_argument("--sizes", default="1000,10000", help="numbers of rows (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="the folder that holds locomo_dev.json")
    parser.add_argument("--rounds", type=int, default=15, help="rounds that count (default: %(default)s)")
    given = parser.parse_args(arguments)
    server = RunningServer(given.server)
    table = Table("words", "median", "CPU here", "ratio", "CPU ratio", "target")
    try:
        with server.client() as client:
            print(surroundings([given.server]))
            for size in map(int, given.sizes.split(",")):
                client.flushall()
                with ForgetfulStore.from_conn_string(server.url, index=INDEX, key_prefix="bench") as store:
                    texts = Texts(given.data)
                    rows = texts.rows()
                    for start in range(0, size, 500):
                        store.batch(puts(rows, 500, start))
                    store.search(NS, query="warm")
                    weigh(table, store, client, "bench", size)
                    time_searches(table, store, texts, given.rounds, size)
                    time_puts(table, store, texts, given.rounds)
    finally:
        server.stop()
    print(table)


if __name__ == "__main__":
    main()
