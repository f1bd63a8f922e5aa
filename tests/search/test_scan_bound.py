"""A scan's page is what one moment holds, though what it met first becomes worse while it goes on."""

from __future__ import annotations

from langgraph.store.base import PutOp, SearchOp

from langgraph_forgetful_store.backend import scripts
from tests.support.paused_searches import Paused
from tests.support.staged_orders import Stage

NS = ("notes",)


def embed(texts: list[str]) -> list[list[float]]:
    """A text is its cosine with the query ``1``."""
    return [[float(text), (1 - float(text) ** 2) ** 0.5] for text in texts]


def test_more_of_the_best_rows_than_a_scan_keeps_in_reserve_may_become_the_worst(make_any_store):
    index = {"dims": 2, "embed": embed, "fields": ["t"], "embedder_id": "numbers"}
    stage = Stage(make_any_store, index=index, cache_bytes=0)
    best = [PutOp(NS, f"best{n}", {"v": n, "t": f"{0.99 - n * 1e-4}"}) for n in range(74)]
    good = [PutOp(NS, f"good{n}", {"v": n, "t": f"{0.8 - n * 1e-4}"}) for n in range(1000)]
    bad = [PutOp(NS, f"bad{n}", {"v": n, "t": "0.1"}) for n in range(1000)]
    stage.store.batch(best + good + bad)
    search = Paused(stage, SearchOp(NS, query="1", limit=10)).until(scripts.SCAN)
    search.execute().deliver()
    # Between its first window and the second.
    stage.store.batch([PutOp(NS, f"best{n}", {"v": n, "t": "0.05"}) for n in range(74)])
    assert list(search.finish()) == [f"good{n}" for n in range(10)]
