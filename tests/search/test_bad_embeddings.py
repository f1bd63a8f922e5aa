"""Embedders that return nonsense, and vectors that another one made: refused, and nothing stored changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store import ConfigurationError, CorruptRecordError
from langgraph_forgetful_store.backend.keys import store_prefix
from langgraph_forgetful_store.testing import WordEmbeddings
from tests.support.refused_input import EVERY_OP, INDEX, NS, dump, fill, refuses

NAN, INF = math.nan, math.inf


@pytest.fixture
def filled(make_any_store: Any) -> Any:
    """A maker of stores over a few rows."""
    return fill(make_any_store)


class Broken(WordEmbeddings):
    """Returns something else for each text that is to be embedded."""

    def __init__(self, answer: Callable[[list[float]], Any]) -> None:
        super().__init__()
        self.answer = answer

    def embed_documents(self, texts: list[str]) -> Any:
        return [self.answer(vector) for vector in super().embed_documents(texts)]

    def embed_query(self, text: str) -> Any:
        return self.answer(super().embed_query(text))


class BrokenLists(WordEmbeddings):
    """Returns something else for all of the texts."""

    def __init__(self, answer: Callable[[list[list[float]]], Any]) -> None:
        super().__init__()
        self.answer = answer

    def embed_documents(self, texts: list[str]) -> Any:
        return self.answer(super().embed_documents(texts))


def index_of(embed: Any) -> dict[str, Any]:
    """The index of the filled store, with an embedder that claims to be the same."""
    return {"dims": 16, "embed": embed, "embedder_id": "WordEmbeddings"}


NUMBERS = "embedder must return lists of numbers"
BAD_VECTORS: dict[str, tuple[Any, type[Exception], str, str]] = {
    "too few dimensions": (lambda vector: vector[:15], ValueError, "dims is 16", "15 dimensions"),
    "too many dimensions": (lambda vector: [*vector, 0.0], ValueError, "dims is 16", "17 dimensions"),
    "empty": (lambda vector: [], ValueError, "dims is 16", "0 dimensions"),
    "NaN": (lambda vector: [NAN, *vector[1:]], ValueError, "embedder", "NaN"),
    "infinite": (lambda vector: [*vector[1:], -INF], ValueError, "embedder", "infinity"),
    "beyond float32": (lambda vector: (1e300, *vector[1:]), ValueError, "embedder", "float32"),
    "None": (lambda vector: None, TypeError, NUMBERS, "NoneType"),
    "a number": (lambda vector: 1.0, TypeError, NUMBERS, "float"),
    "a str": (lambda vector: "0123456789abcdef", TypeError, NUMBERS, "str"),
    "strings": (lambda vector: ["0"] * 16, TypeError, NUMBERS, "list"),
    "holes": (lambda vector: [None, *vector[1:]], TypeError, NUMBERS, "list"),
    "nested": (lambda vector: [[1.0]] * 16, TypeError, NUMBERS, "list"),
    "nested tuples": (lambda vector: ((1.0, 2.0),) * 16, TypeError, NUMBERS, "tuple"),
}


@pytest.mark.parametrize("name", BAD_VECTORS)
def test_an_embedder_that_returns_a_bad_vector_writes_nothing(filled: Any, face: Any, name: str) -> None:
    """Contract 7."""
    answer, error, *words = BAD_VECTORS[name]
    side = face(filled(index=index_of(Broken(answer))))
    before = dump(filled)
    refuses(lambda: side.put(NS, "vector", {"text": "other"}), error, *words)
    refuses(lambda: side.batch([PutOp(NS, "ttl", None), PutOp(NS, "new", {"text": "x"})]), error, *words)
    refuses(lambda: side.search(NS, query="tea"), error, *words)
    assert dump(filled) == before
    assert side.get(NS, "vector", refresh_ttl=False).value == {"text": "green tea"}


BAD_LISTS: dict[str, tuple[Any, type[Exception], str, str]] = {
    "too few": (lambda vectors: vectors[1:], ValueError, "embedder returned 1 vectors", "2 texts"),
    "too many": (lambda vectors: vectors * 2, ValueError, "embedder returned 4 vectors", "2 texts"),
    "None": (lambda vectors: None, TypeError, "embedder must return a list of vectors", "NoneType"),
    "a number": (lambda vectors: 1, TypeError, "embedder must return a list of vectors", "int"),
    "an iterator": (iter, TypeError, "embedder must return a list of vectors", "list_iterator"),
}


@pytest.mark.parametrize("name", BAD_LISTS)
def test_an_embedder_that_returns_no_list_of_vectors_writes_nothing(filled: Any, face: Any, name: str) -> None:
    answer, error, *words = BAD_LISTS[name]
    side = face(filled(index=index_of(BrokenLists(answer))))
    before = dump(filled)
    ops = [PutOp(NS, "vector", {"text": "one"}), PutOp(NS, "new", {"text": "two"}), PutOp(NS, "ttl", None)]
    refuses(lambda: side.batch(ops), error, *words)
    assert dump(filled) == before


def test_what_an_embedder_raises_comes_through_and_nothing_is_written(filled: Any, face: Any) -> None:
    def fail(vector: list[float]) -> Any:
        raise ConnectionError("the provider is down")

    side = face(filled(index=index_of(Broken(fail))))
    before = dump(filled)
    refuses(lambda: side.put(NS, "vector", {"text": "x"}), ConnectionError, "the provider is down")
    refuses(lambda: side.search(NS, query="tea"), ConnectionError, "the provider is down")
    assert dump(filled) == before


def other_function(texts: list[str]) -> list[list[float]]:
    return WordEmbeddings().embed_documents(texts)


OTHER_INDEXES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "dims": ({"dims": 8, "embed": WordEmbeddings(8)}, ["16 dimensions", "index['dims'] is 8"]),
    "embedder": ({"dims": 16, "embed": other_function}, ["'WordEmbeddings'", "'other_function'", "embedder_id"]),
    "embedder_id": ({**INDEX, "embedder_id": "mine"}, ["'WordEmbeddings'", "'mine'", "embedder_id"]),
}


@pytest.mark.parametrize("name", OTHER_INDEXES)
def test_another_index_over_existing_vectors_is_refused_for_reading_and_writing(
    filled: Any, face: Any, name: str
) -> None:
    index, words = OTHER_INDEXES[name]
    before = dump(filled)
    for name, call in EVERY_OP.items():
        side = face(filled(index=index))
        refuses(lambda call=call, side=side: call(side), ConfigurationError, *words, case=name)
        # And not just once.
        refuses(lambda call=call, side=side: call(side), ConfigurationError, *words, case=name)
    assert dump(filled) == before


@pytest.mark.parametrize("name", OTHER_INDEXES)
def test_vectors_of_another_index_that_appear_after_the_store_was_opened_are_refused(
    make_any_store: Any, face: Any, name: str
) -> None:
    index, words = OTHER_INDEXES[name]
    side = face(make_any_store(index=index))
    assert side.search(NS, query="tea") == []
    # A vector of 16 dimensions is as many bytes as two of 8: only the stored format tells.
    make_any_store(index=INDEX).batch([PutOp(NS, f"k{i}", {"text": f"tea {i}"}) for i in range(2)])
    before = dump(make_any_store)
    refuses(lambda: side.put(NS, "k0", {"text": "tea"}), ConfigurationError, *words)
    refuses(lambda: side.put(NS, "k0", {"n": 1}, index=False), ConfigurationError, *words)
    refuses(lambda: side.search(NS, query="tea"), ConfigurationError, *words)
    assert side.get(NS, "k0").value == {"text": "tea 0"}
    assert [item.key for item in side.search(NS)] == ["k1", "k0"]
    assert dump(make_any_store) == before


def test_a_store_without_an_index_works_over_vectors(filled: Any, face: Any) -> None:
    side = face(filled(index=None))
    assert side.get(NS, "vector").value == {"text": "green tea"}
    assert [(item.key, item.similarity) for item in side.search(NS, query="tea")] == [("ttl", None), ("vector", None)]
    side.put(NS, "vector", {"text": "red wine"})
    side.put(NS, "new", {"text": "green tea"})
    # What it wrote has no vector, and the vectors are still the first embedder's.
    found = face(filled(index=INDEX)).search(NS, query="black tea")
    assert [(item.key, item.score is None) for item in found] == [("ttl", False), ("new", False), ("vector", True)]


def test_an_index_may_come_later_than_the_data(make_any_store: Any, face: Any) -> None:
    face(make_any_store()).put(NS, "old", {"text": "green tea"})
    indexed = face(make_any_store(index=INDEX))
    indexed.put(NS, "new", {"text": "green tea"})
    found = indexed.search(NS, query="green tea")
    assert [(item.key, item.similarity is None) for item in found] == [("new", False), ("old", True)]
    other = face(make_any_store(index={"dims": 8, "embed": WordEmbeddings(8)}))
    refuses(lambda: other.get(NS, "old"), ConfigurationError, "16 dimensions", "index['dims'] is 8")


def test_an_embedder_id_says_that_another_embedder_makes_the_same_vectors(filled: Any, face: Any) -> None:
    side = face(filled(index=index_of(other_function)))
    side.put(NS, "new", {"text": "black tea"})
    found = side.search(NS, query="black tea")
    assert [item.key for item in found] == ["new", "ttl", "vector"]
    assert found[0].similarity == found[1].similarity > found[2].similarity


@pytest.mark.parametrize(("field", "ours"), [("version", "2"), ("buckets", "1"), ("tokenizer", "1")])
def test_data_of_another_format_are_refused(filled: Any, face: Any, field: str, ours: str) -> None:
    opened = face(filled(index=INDEX))
    opened.setup()
    with filled.server.client() as client:
        client.hset(store_prefix(filled.key_prefix) + b"fmt", field, "7")
    before = dump(filled)
    for name, call in EVERY_OP.items():
        side = face(filled(index=INDEX))
        refuses(lambda call=call, side=side: call(side), ConfigurationError, "stored", "7", ours, case=name)
    refuses(lambda: EVERY_OP["put"](opened), ConfigurationError, "stored", "7", ours)
    assert dump(filled) == before


def test_a_damaged_format_is_reported_and_nothing_is_written(filled: Any, face: Any) -> None:
    opened = face(filled(index=INDEX))
    opened.setup()
    with filled.server.client() as client:
        client.hdel(store_prefix(filled.key_prefix) + b"fmt", "buckets")
    before = dump(filled)
    refuses(lambda: EVERY_OP["put"](opened), CorruptRecordError, "fmt")
    assert dump(filled) == before
