"""Searching: order, pages, vectors."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import GetOp, Op, PutOp, SearchOp, get_text_at_path

from langgraph_forgetful_store.testing.contract.base import NS, Make, Section, keys
from langgraph_forgetful_store.testing.contract.embedders import AsyncOnlyEmbeddings, PlannedEmbeddings, index
from langgraph_forgetful_store.testing.embedder import WordEmbeddings
from langgraph_forgetful_store.testing.face import Face

# Texts and their cosines with "query".
PLANNED: dict[str, tuple[float, ...]] = {
    "query": (1, 0, 0, 0),
    "same": (1, 0, 0, 0),
    "twice": (2, 0, 0, 0),
    "near": (3, 4, 0, 0),
    "far": (4, 0, 3, 0),
    "across": (0, 0, 1, 0),
    "against": (-1, 0, 0, 0),
    "zero": (0, 0, 0, 0),
    "tiny": (1e-20, 0, 0, 0),
    "huge": (1e18, 0, 0, 0),
}
COSINE = {"same": 1.0, "twice": 1.0, "far": 0.8, "near": 0.6, "across": 0.0, "against": -1.0, "tiny": 1.0, "huge": 1.0}

DOCUMENT = {
    "a": {"b": "first", "n": 7, "none": None, "deep": {"x": ["y", "z"]}},
    "list": [{"b": "one"}, {"b": "two", "c": "extra"}, {"b": "three"}],
    "tags": ["red", "green", "blue"],
    "flag": True,
    "text": "tea",
    "é": "ü",
}

PATHS = [
    ["a.b"], ["a.n"], ["a.none"], ["a.deep"], ["a.deep.x[1]"], ["a.absent"], ["absent"], ["tags[0]"], ["tags[-1]"],
    ["tags[9]"], ["tags[*]"], ["list[*].b"], ["list[-1].b"], ["list[*].c"], ["tags"], ["flag"], ["{text,a.b}"],
    ["a.*"], ["*"], ["a.b", "text"],
]  # fmt: skip
WHOLE = [["$"], ["text", "$"], ["$", "a.b", "list[*].b"]]


def texts_of(paths: list[str]) -> set[str]:
    """Return what LangGraph's own helper takes from `DOCUMENT`."""
    return {text for path in paths for text in get_text_at_path(DOCUMENT, path)}


def planned(make: Make, **extra: Any) -> tuple[Face, PlannedEmbeddings]:
    """Make a store over the planned texts, in the fields "text" and "more"."""
    embedder = PlannedEmbeddings(PLANNED)
    return make(index=index(embedder, fields=["text", "more[*]"]), **extra), embedder


class SearchContract(Section):
    """Contract 21-23, 27-31 and 44 (index)."""

    def test_without_a_query_there_is_no_score(self, make: Make) -> None:
        """Contract 21."""
        store, embedder = planned(make)
        store.batch([PutOp(NS, text, {"text": text}) for text in ("near", "far")])
        for query in (None, ""):
            assert {(item.key, item.score) for item in store.search(NS, query=query)} == {("near", None), ("far", None)}
        assert embedder.queries == []

    def test_the_latest_write_comes_first(self, make: Make) -> None:
        """Contract 21: whatever the vectors."""
        store, _ = planned(make)
        for key in ("b", "a", "c"):
            store.put(NS, key, {"text": "same"})
        for query in (None, ""):
            assert keys(store.search(NS, query=query)) == ["c", "a", "b"]

    def test_a_re_put_comes_first(self, store: Face) -> None:
        """Contract 21."""
        for key in ("a", "b", "c", "a"):
            store.put(NS, key, {})
        assert keys(store.search(NS)) == ["a", "c", "b"]
        store.batch([PutOp(NS, "b", {})])
        assert keys(store.search(NS)) == ["b", "a", "c"]

    def test_writes_of_one_batch_are_in_the_order_they_were_made(self, store: Face) -> None:
        """Contract 21."""
        order = [f"k{(at * 37) % 101}" for at in range(101)]
        store.batch([PutOp(NS, key, {}) for key in order])
        assert keys(store.search(NS, limit=200)) == order[::-1]
        store.batch([PutOp(NS, "k5", {}), PutOp(NS, "k6", {}), PutOp(NS, "k5", {})])
        assert keys(store.search(NS, limit=2)) == ["k5", "k6"]

    def test_the_order_is_one_over_all_namespaces(self, store: Face) -> None:
        """Contract 21: in one batch and in many."""
        spaces = [("a",), ("a", "b"), ("c",), ("b",)]
        store.batch([PutOp(spaces[at % 4], str(at), {}) for at in range(40)])
        for at in range(40, 80):
            store.put(spaces[at % 3], str(at), {})
        assert keys(store.search((), limit=100)) == [str(at) for at in reversed(range(80))]
        below = [str(at) for at in range(80) if spaces[at % 4 if at < 40 else at % 3][0] == "a"]
        assert keys(store.search(("a",), limit=100)) == below[::-1]

    def test_reads_do_not_change_the_order(self, store: Face) -> None:
        """Contract 21."""
        store.batch([PutOp(NS, str(at), {"at": at}) for at in range(30)])
        before = keys(store.search(NS, limit=30))
        first = keys(store.search(NS, limit=10))
        store.get(NS, "3", refresh_ttl=True)
        store.search(NS, filter={"at": {"$lt": 9}}, refresh_ttl=True)
        store.batch([GetOp(NS, "7"), SearchOp(NS, offset=20)])
        assert first + keys(store.search(NS, limit=20, offset=10)) == before
        assert keys(store.search(NS, limit=30)) == before

    def test_a_filter_does_not_change_the_order(self, store: Face) -> None:
        """Contract 21."""
        for at in (5, 1, 4, 2, 3):
            store.put(NS, str(at), {"at": at})
        assert keys(store.search(NS, filter={"at": {"$gt": 1}})) == ["3", "2", "4", "5"]

    def test_the_default_limit_is_10_and_an_empty_page_is_a_list(self, store: Face) -> None:
        """Contract 22."""
        store.batch([PutOp(NS, str(at), {"at": at}) for at in range(25)])
        assert len(store.search(NS)) == 10
        assert len(store.batch([SearchOp(NS)])[0]) == 10
        for options in ({"limit": 0}, {"offset": 25}, {"offset": 1000}, {"limit": 0, "offset": 3}):
            assert store.search(NS, **options) == []
            assert store.search(NS, filter={"at": {"$gte": 0}}, **options) == []
        assert len(store.search(NS, offset=23)) == 2
        assert len(store.search(NS, limit=1_000_000)) == 25

    def test_pages_are_full_and_exact_under_a_filter(self, store: Face) -> None:
        """Contract 22: over several namespaces."""
        spaces = [("p",), ("p", "q"), ("p", "r", "s"), ("other",)]
        store.batch([PutOp(spaces[at % 4], str(at), {"even": at % 2 == 0, "at": at}) for at in range(120)])
        wanted = {"even": True, "at": {"$gte": 20}}
        every = keys(store.search(("p",), filter=wanted, limit=1000))
        assert sorted(every) == sorted(str(at) for at in range(20, 120) if at % 2 == 0 and at % 4 != 3)
        for size in (1, 7, 50):
            pages = [keys(store.search(("p",), filter=wanted, limit=size, offset=at)) for at in range(0, 60, size)]
            assert [key for page in pages for key in page] == every
            assert all(len(page) == size for page in pages[: len(every) // size])

    def test_pages_under_a_query_are_exact_over_items_not_vectors(self, make: Make) -> None:
        """Contract 22, 27: every item has three vectors, and a filter applies first."""
        vectors = {f"t{at}": (math.cos(at / 50), math.sin(at / 50), 0.0, 0.0) for at in range(150)}
        store = make(index=index(PlannedEmbeddings({**PLANNED, **vectors}), fields=["texts[*]"]))
        rows = [(str(at), [f"t{at + 100}", f"t{at}", f"t{at + 50}"], at % 2) for at in range(50)]
        store.batch([PutOp((*NS, key[-1]), key, {"texts": texts, "odd": odd}) for key, texts, odd in rows])
        expected = [str(at) for at in range(50) if at % 2]
        for size in (1, 4, 25):
            pages = [
                keys(store.search(NS, query="query", filter={"odd": 1}, limit=size, offset=at))
                for at in range(0, 28, size)
            ]
            assert [key for page in pages for key in page] == expected

    def test_thousands_of_items_are_paged_exactly(self, make: Make) -> None:
        """Contract 22, 27."""
        store, _ = planned(make)
        texts = ("near", "far", "across", "against")
        for part in range(3):
            rows = range(part * 1000, part * 1000 + 1000)
            store.batch([PutOp((*NS, str(at % 5)), str(at), {"text": texts[at % 4], "at": at}) for at in rows])
        order = [str(at) for at in reversed(range(3000))]
        assert keys(store.search(NS, limit=25, offset=1990)) == order[1990:2015]
        assert keys(store.search(NS, filter={"at": {"$lt": 2000}}, limit=30, offset=1975)) == order[2975:]
        far = [str(at) for at in reversed(range(3000)) if at % 4 == 1]
        near = [str(at) for at in reversed(range(3000)) if at % 4 == 0]
        assert keys(store.search(NS, query="query", limit=20, offset=740)) == far[740:] + near[:10]
        found = store.search(NS, query="query", filter={"at": {"$lt": 1003}}, limit=4, offset=250)
        assert keys(found) == ["1", "1000", "996", "992"]

    def test_a_query_without_an_index_compares_nothing_by_cosine(self, make: Make) -> None:
        """Contract 23: the index argument too."""
        store = make(**self.plain_cosine)
        store.put(NS, "a", {"text": "tea"}, index=["text"])
        store.put(NS, "b", {"text": "coffee"}, index=False)
        found = store.search(NS, query="tea")
        assert {(item.key, item.score) for item in found} == {("a", None), ("b", None)}
        assert keys(store.search(NS, query="tea", filter={"text": "tea"})) == ["a"]

    def test_the_score_is_the_cosine_as_a_float(self, make: Make) -> None:
        """Contract 27."""
        store, _ = planned(make, **self.plain_cosine)
        for text in COSINE:
            store.put(NS, text, {"text": text})
        found = store.search(NS, query="query")
        assert {item.key: item.score for item in found} == pytest.approx(COSINE, abs=1e-6)
        assert {type(item.score) for item in found} == {float}
        scores = [item.score for item in found]
        assert scores == sorted(scores, reverse=True)

    def test_a_vector_of_zeros_is_similar_to_nothing(self, make: Make) -> None:
        """Contract 27."""
        store, _ = planned(make, **self.plain_cosine)
        store.batch([PutOp(NS, text, {"text": text}) for text in ("zero", "same", "against")])
        assert [(item.key, item.score) for item in store.search(NS, query="query")] == [
            ("same", pytest.approx(1)), ("zero", 0.0), ("against", pytest.approx(-1)),
        ]  # fmt: skip

    def test_an_item_is_as_similar_as_its_best_vector(self, make: Make) -> None:
        """Contract 27."""
        store, _ = planned(make, **self.plain_cosine)
        store.put(NS, "worst", {"text": "against"})
        store.put(NS, "several", {"text": "against", "more": ["far", "across", "near"]})
        store.put(NS, "one", {"text": "near"})
        found = store.search(NS, query="query")
        assert [(item.key, item.score) for item in found] == [
            ("several", pytest.approx(0.8)), ("one", pytest.approx(0.6)), ("worst", pytest.approx(-1)),
        ]  # fmt: skip

    def test_of_equally_similar_items_the_latest_write_comes_first(self, make: Make) -> None:
        """Contract 21, 27."""
        store, _ = planned(make)
        for key in ("b", "a", "c", "b"):
            store.put(NS, key, {"text": "near"})
        assert keys(store.search(NS, query="query")) == ["b", "c", "a"]

    def test_the_whole_value_is_embedded_by_default(self, make: Make) -> None:
        """Contract 28."""
        for config in ({}, {"fields": None}, {"fields": ["$"]}):
            embedder = PlannedEmbeddings()
            store = make(index={"dims": 4, "embed": embedder, **config})
            store.put(NS, "k", {"é": [1, {"b": None}], "a": "tea"})
            assert embedder.documents == [['{"a": "tea", "é": [1, {"b": null}]}']]
            store.put(NS, "k", DOCUMENT)
            assert embedder.documents[1:] == [[json.dumps(DOCUMENT, sort_keys=True, ensure_ascii=False)]]

    def test_configured_fields_are_embedded(self, make: Make) -> None:
        """Contract 28."""
        for at, paths in enumerate([*PATHS[::3], *WHOLE]):
            embedder = PlannedEmbeddings()
            store = make(index=index(embedder, fields=paths))
            store.put((*NS, str(at)), "k", DOCUMENT)
            assert {text for call in embedder.documents for text in call} == texts_of(paths), paths
            (item,) = store.search((*NS, str(at)), query="tea")
            assert (item.score is not None) == bool(texts_of(paths)), paths

    def test_paths_named_in_a_put_are_embedded_instead(self, make: Make) -> None:
        """Contract 28."""
        embedder = PlannedEmbeddings()
        store = make(index=index(embedder, fields=["é"]))
        for at, paths in enumerate(PATHS):
            embedder.documents.clear()
            store.put((*NS, str(at)), "k", DOCUMENT, index=paths)
            assert {text for call in embedder.documents for text in call} == texts_of(paths), paths
            (item,) = store.search((*NS, str(at)), query="tea")
            assert (item.score is not None) == bool(texts_of(paths)), paths

    def test_the_whole_value_may_be_named_beside_other_paths(self, make: Make) -> None:
        """Contract 28."""
        embedder = PlannedEmbeddings()
        store = make(index=index(embedder, fields=["é"]))
        for paths in WHOLE:
            embedder.documents.clear()
            store.put(NS, "k", DOCUMENT, index=paths)
            assert {text for call in embedder.documents for text in call} == texts_of(paths), paths

    def test_index_false_embeds_nothing(self, make: Make) -> None:
        """Contract 28."""
        store, embedder = planned(make)
        store.put(NS, "k", {"text": "same"}, index=False)
        assert embedder.documents == []
        assert [item.score for item in store.search(NS, query="query")] == [None]
        assert store.get(NS, "k").value == {"text": "same"}

    def test_a_re_put_drops_every_old_vector(self, make: Make) -> None:
        """Contract 29."""
        store, _ = planned(make)
        cases: list[tuple[dict[str, Any], Any, Any]] = [
            ({"text": "across"}, None, pytest.approx(0, abs=1e-6)),
            ({"text": "across", "more": ["same"]}, ["text"], pytest.approx(0, abs=1e-6)),
            ({"text": "same"}, False, None),
            ({"x": 1}, None, None),
        ]
        for value, given, score in cases:
            store.put(NS, "k", {"text": "same", "more": ["same", "far", "twice"]})
            store.put(NS, "k", value, index=given)
            (item,) = store.search(NS, query="query")
            assert (item.value, item.score) == (value, score)

    def test_a_deleted_item_leaves_no_vector_behind(self, make: Make) -> None:
        """Contract 29."""
        store, _ = planned(make)
        store.put(NS, "k", {"text": "same"})
        store.delete(NS, "k")
        assert store.search(NS, query="query") == []
        store.put(NS, "k", {"text": "same"}, index=False)
        assert [item.score for item in store.search(NS, query="query")] == [None]

    def test_items_without_a_vector_come_after_the_scored_ones(self, make: Make) -> None:
        """Contract 30."""
        store, _ = planned(make, **self.plain_cosine)
        store.put(NS, "plain", {"x": 1})
        store.put(NS, "against", {"text": "against"})
        store.put(NS, "near", {"text": "near"})
        found = store.search(NS, query="query")
        assert [(item.key, item.score) for item in found] == [
            ("near", pytest.approx(0.6)), ("against", pytest.approx(-1)), ("plain", None),
        ]  # fmt: skip

    def test_items_without_a_vector_are_paged_after_the_others_latest_first(self, make: Make) -> None:
        """Contract 22, 30."""
        store, _ = planned(make)
        texts = {"s0": "near", "s1": "same", "s2": "far"}
        for key in ("u0", "s0", "u1", "s1", "u2", "u3", "s2", "u4"):
            store.put(NS, key, {"text": texts[key]} if key in texts else {"x": 1})
        for size in (1, 3, 4, 7):
            pages = [keys(store.search(NS, query="query", limit=size, offset=at)) for at in range(0, 8, size)]
            assert [key for page in pages for key in page] == ["s1", "s2", "s0", "u4", "u3", "u2", "u1", "u0"]

    def test_a_batch_is_embedded_in_one_call_of_distinct_texts(self, make: Make) -> None:
        """Contract 31."""
        store, embedder = planned(make, **self.plain_cosine)
        rows = [("same", ["near", "same"]), ("near", ["far"]), ("same", []), ("far", ["far", "across"])]
        ops: list[Op] = [PutOp((*NS, str(at)), "k", {"text": one, "more": more}) for at, (one, more) in enumerate(rows)]
        store.batch(ops)
        assert len(embedder.documents) == 1
        assert sorted(embedder.documents[0]) == ["across", "far", "near", "same"]
        found = store.search(NS, query="query")
        assert [(item.namespace[-1], item.score) for item in found] == [
            ("2", pytest.approx(1)), ("0", pytest.approx(1)), ("3", pytest.approx(0.8)), ("1", pytest.approx(0.8)),
        ]  # fmt: skip

    def test_one_text_in_several_items_and_fields_makes_a_vector_for_each(self, make: Make) -> None:
        """Contract 31."""
        store, embedder = planned(make, **self.plain_cosine)
        store.batch([PutOp(NS, key, {"text": "near", "more": ["near"]}) for key in ("a", "b")])
        assert embedder.documents == [["near"]]
        assert [item.score for item in store.search(NS, query="query")] == [pytest.approx(0.6)] * 2

    def test_queries_are_embedded_as_queries(self, make: Make) -> None:
        """Contract 31: each once, beside the texts of the batch."""
        store, embedder = planned(make, **self.plain_cosine)
        store.put(NS, "a", {"text": "near"})
        ops: list[Op] = [SearchOp(NS, query=query) for query in ("query", "near", "query", None, "")]
        results = store.batch([*ops, PutOp(NS, "b", {"text": "query"}), GetOp(NS, "a")])
        assert sorted(embedder.queries) == ["near", "query"]
        assert embedder.documents == [["near"], ["query"]]
        assert [found[0].score for found in results[:5]] == [
            pytest.approx(0.6), pytest.approx(1), pytest.approx(0.6), None, None,
        ]  # fmt: skip

    def test_an_async_call_uses_the_async_side_of_the_embedder(self, make: Make) -> None:
        """Contract 31."""
        inner = PlannedEmbeddings(PLANNED)
        store = make(index=index(AsyncOnlyEmbeddings(inner) if make().asynchronous else inner), **self.plain_cosine)
        store.put(NS, "k", {"text": "near"})
        assert [item.score for item in store.search(NS, query="query")] == [pytest.approx(0.6)]
        assert (inner.documents, inner.queries) == ([["near"]], ["query"])

    def test_an_embedder_may_be_a_function_and_return_any_sequence(self, make: Make) -> None:
        """Contract 27: scores stay plain floats."""
        kinds: tuple[Any, ...] = (list, tuple, np.array, lambda row: [*map(int, row)])
        for kind in kinds:
            config = {
                "dims": 4,
                "embed": lambda texts, kind=kind: [kind(PLANNED[text]) for text in texts],
                "fields": ["t"],
            }
            store = make(index=config, **self.plain_cosine)
            store.put(NS, "k", {"t": "near"})
            (item,) = store.search(NS, query="query")
            assert (type(item.score), item.score) == (float, pytest.approx(0.6))

    def test_meaning_decides_the_order_whatever_was_written_last(self, make: Make) -> None:
        """Contract 27."""
        store = make(index=index(WordEmbeddings(64), dims=64))
        for key, text in (("tea", "she drinks green tea"), ("car", "he drives a red car"), ("dog", "the dog barks")):
            store.put(NS, key, {"text": text})
        for query, first in (("green tea", "tea"), ("red car", "car"), ("barks dog", "dog")):
            assert store.search(NS, query=query, limit=1)[0].key == first

    def test_the_index_config_is_readable(self, make: Make) -> None:
        """Contract 44."""
        embedder = PlannedEmbeddings()
        config = make(index=index(embedder)).store.index_config
        assert (config["dims"], config["embed"], config["fields"]) == (4, embedder, ["text"])
        assert make().store.index_config is None
