"""Runs `langgraph-checkpoint-redis` in an environment of its own, and times it on demand.

Reads one JSON object a line: ``{"do": name, ...}``; answers with one. Started by `tests.bench.peer`.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Any

from langgraph.store.redis import RedisStore

from tests.bench.corpus import DIMS, FIELDS, LIMIT, Corpus, query_text

BATCH = 500


class Peer:
    """The store under test, by the server's URL."""

    def __init__(self, url: str) -> None:
        self._url = url

    def fill(self, size: int, large: bool, ttl: float) -> None:
        """Write a corpus into an empty server."""
        self._corpus = Corpus(size, large=large)
        index: Any = {"dims": DIMS, "embed": self._corpus, "fields": FIELDS, "distance_type": "cosine"}
        self._context = RedisStore.from_conn_string(self._url, index=index, ttl={"default_ttl": ttl})
        self._store = self._context.__enter__()
        self._store.setup()
        ops = self._corpus.puts(ttl=ttl, importance=False)
        # One batch deletes what it overwrites by a search a row; rows of one user are written together.
        while part := list(itertools.islice(ops, BATCH)):
            self._store.batch(part)

    def recall(self, prefix: list[str], count: int, queries: int) -> float:
        """Return the recall@10 of cosine."""
        return self._corpus.recall(self._store.search, tuple(prefix), count, composite=False, queries=queries)

    def search(self, prefix: list[str], times: int, refresh: bool, filters: list[Any]) -> list[float]:
        """Search; returns the wall and CPU time that one took."""
        names = tuple(prefix)
        cpu, wall = time.process_time(), time.perf_counter()
        for at in range(times):
            given = filters[at % len(filters)] if filters else None
            self._store.search(names, query=query_text(at), limit=LIMIT, filter=given, refresh_ttl=refresh)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return [wall / times, cpu / times]

    def close(self) -> None:
        """Close the connections."""
        self._context.__exit__(None, None, None)


def main() -> None:
    """Answer until the pipe is closed."""
    peer = Peer(sys.argv[1])
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"value": getattr(peer, asked.pop("do"))(**asked)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
