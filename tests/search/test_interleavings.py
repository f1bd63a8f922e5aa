"""Batches, searches, refreshes and lost scripts in every order that concurrency allows."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.keys import store_prefix
from langgraph_forgetful_store.operations import search as search_operation
from langgraph_forgetful_store.search import near_cache, scan
from langgraph_forgetful_store.search.scoring import cosine, normalise
from langgraph_forgetful_store.testing import WordEmbeddings
from langgraph_forgetful_store.testing.interleaving import Run

pytestmark = pytest.mark.exhaustive

NS = ("notes",)
OTHER = ("notes", "old")


def test_a_batch_reads_the_state_before_its_own_puts_also_when_scripts_are_lost(stage):
    at = stage()
    runs = 0
    for run in at.explore(
        [PutOp(NS, "k", {"v": 0})],
        lambda: {
            "batch": at.batch(PutOp(NS, "k", {"v": 1}), GetOp(NS, "k"), SearchOp(NS), ListNamespacesOp()),
            "flush": at.client.script_flush,
            "flush again": at.client.script_flush,
        },
    ):
        _, got, found, names = run.result("batch")
        assert got.value == {"v": 0}
        assert [item.value for item in found] == [{"v": 0}]
        assert names == [NS]
        assert at.store.get(NS, "k").value == {"v": 1}
        assert at.store.get(NS, "k").memory.version == 2
        runs += 1
    assert runs > 20


def test_two_batches_that_read_and_write_one_key_each_see_a_state_that_was(stage):
    at = stage()
    for run in at.explore(
        [PutOp(NS, "k", {"v": 0})],
        lambda: {
            "one": at.batch(GetOp(NS, "k"), PutOp(NS, "k", {"v": 1})),
            "two": at.batch(GetOp(NS, "k"), PutOp(NS, "k", {"v": 2})),
        },
    ):
        states = [0]
        for event in run.events:
            if event.kind == "execute":
                value = next((arg for arg in event.command if isinstance(arg, bytes) and b'"v"' in arg), None)
                if value is None:
                    assert run.result(event.actor)[0].value == {"v": states[-1]}
                else:
                    states.append(1 if event.actor == "one" else 2)
        assert len(states) == 3
        assert at.store.get(NS, "k").value == {"v": states[-1]}


def test_a_refresh_between_a_put_and_a_delete_of_others_revives_and_lengthens_nothing(stage, clock):
    at = stage(clock=clock)
    for run in at.explore(
        [PutOp(NS, "k", {"v": 0}, ttl=10), PutOp(NS, "gone", {"v": 0}, ttl=10)],
        lambda: {
            "search": at.batch(SearchOp(NS, filter={"v": {"$exists": True}}, refresh_ttl=True)),
            "put": at.batch(PutOp(NS, "k", {"v": 1}, ttl=1)),
            "delete": at.batch(PutOp(NS, "gone", None)),
        },
        most=2500,
    ):
        assert {item.key for item in run.result("search")[0]} in ({"k", "gone"}, {"k"})
        kept = at.store.get(NS, "k", refresh_ttl=False)
        assert kept.value == {"v": 1}
        assert kept.memory.expires_at.timestamp() * 1000 == clock.now + 60_000
        assert at.store.get(NS, "gone") is None
        assert at.client.zcard(store_prefix(at.maker.key_prefix) + b"t:notes\0\1") == 1


def _model(
    run: Run, puts: list[PutOp], writers: dict[str, PutOp], until: int
) -> list[tuple[tuple[str, ...], str, int]]:
    """The rows, latest write first, after the events before `until`."""
    rows: dict[tuple[tuple[str, ...], str], int] = {}
    done = [writers[event.actor] for event in run.events[:until] if event.kind == "execute" and event.actor in writers]
    for put in [*puts, *done]:
        rows.pop((put.namespace, put.key), None)
        if put.value is not None:
            rows[put.namespace, put.key] = put.value["v"]
    return [(namespace, key, value) for (namespace, key), value in reversed(rows.items())]


SEARCHES = {
    "listing": SearchOp(("notes",), limit=3, offset=1),
    "filter": SearchOp(("notes",), filter={"v": {"$lt": 50}}, limit=10),
    "query": SearchOp(("notes",), query="alpha beta", limit=2),
}


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("engine", ["scan", "cold cache", "warm cache"])
def test_a_search_returns_what_was_there_at_one_moment(stage, monkeypatch, kind, engine):
    for module in (scan, near_cache):
        monkeypatch.setattr(module, "WINDOW", 2)
        monkeypatch.setattr(module, "CHANGES", 2)
    monkeypatch.setattr(search_operation, "SLACK", 1)
    at = stage(
        index={"dims": 8, "embed": WordEmbeddings(8), "fields": ["text"]},
        cache_bytes=0 if engine == "scan" else 2**29,
    )
    words = ["alpha", "beta", "gamma", "alpha beta", "delta"]
    puts = [PutOp(NS if n < 4 else OTHER, f"k{n}", {"v": n, "text": words[n]}) for n in range(5)]
    writers = {
        "moves up": PutOp(NS, "k0", {"v": 10, "text": "alpha beta beta"}),
        "goes": PutOp(NS, "k3", None),
        "comes": PutOp(OTHER, "new", {"v": 60 if kind == "filter" else 11, "text": "beta alpha alpha"}),
    }
    op = SEARCHES[kind]
    embed = at.session.index.embedder

    def expected(rows: list[tuple[tuple[str, ...], str, int]]) -> list[tuple[str, int]]:
        if kind == "filter":
            rows = [row for row in rows if row[2] < 50]
        if kind == "query":
            texts = {n: words[n] for n in range(5)} | {
                put.value["v"]: put.value["text"] for put in writers.values() if put.value
            }
            vectors, query = embed.embed([texts[row[2]] for row in rows], ["alpha beta"])
            scores = cosine(normalise(query)[0], normalise(vectors))
            order = sorted(range(len(rows)), key=lambda n: (-scores[n], n))
            rows = [rows[n] for n in order]
        return [(key, value) for _, key, value in rows[op.offset : op.offset + op.limit]]

    def actors() -> dict[str, Any]:
        if engine == "warm cache":
            at.store.batch([op])
        return {"search": at.batch(op), **{name: at.batch(put) for name, put in writers.items()}}

    runs = 0
    for run in at.explore(puts, actors, most=100 if engine == "warm cache" else 250):
        found = [(item.key, item.value["v"]) for item in run.result("search")[0]]
        moments = [place for place, event in enumerate(run.events) if event.actor == "search"]
        possible = [expected(_model(run, puts, writers, place)) for place in moments]
        assert found in possible, (found, possible, run.events)
        runs += 1
    assert runs > (20 if engine == "warm cache" else 250)


def test_a_scan_beside_more_changes_than_it_can_follow_still_finds_what_is_there(stage, monkeypatch):
    monkeypatch.setattr(scan, "WINDOW", 2)
    monkeypatch.setattr(scan, "CHANGES", 1)
    at = stage(cache_bytes=0)
    at.reset(*(PutOp(NS, f"k{n}", {"v": n}) for n in range(12)))
    actors = {
        "search": at.batch(SearchOp(NS, filter={"v": {"$gte": 0}}, limit=20)),
        **{f"w{n}": at.batch(PutOp(NS, f"k{n % 12}", {"v": n})) for n in range(60)},
    }
    turns = itertools.count()
    # The search comes first among the actors; of each three turns one is a writer's.
    run = at.interleaver.run(actors, lambda count: count - 1 if next(turns) % 3 == 0 else 0)
    settling = [event for event in run.events if event.actor == "search" and scripts.SYNC.sha in event.command]
    assert len(settling) == search_operation.ROUNDS
    assert run.events[-1].actor != "search"
    assert {item.key for item in run.result("search")[0]} == {f"k{n}" for n in range(12)}
