"""Which words of a memory are kept, and when they go."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store.backend.keys import encode_namespace, store_prefix
from langgraph_forgetful_store.search.lexical import Words, pack_words
from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("users", "alice")
INDEX: Any = {"dims": 16, "embed": WordEmbeddings(16), "fields": ["text"]}
VALUE = {"text": "green tea", "more": {"deep": "red wine"}, "n": 5}


def kept(maker: Any, namespace: tuple[str, ...] = NS) -> dict[str, Words]:
    """Return what lies on the server."""
    with maker.server.client() as client:
        stored = client.hgetall(store_prefix(maker.key_prefix) + b"w:" + encode_namespace(namespace))
    return {key.decode(): Words.unpack(words) for key, words in stored.items()}


def said(*texts: str, paths: list[str] | None = None) -> Words:
    return Words.unpack(pack_words(texts, paths))


@pytest.mark.parametrize(
    ("index", "given", "expected"),
    [
        (None, None, said("green tea", "red wine")),
        (None, ["text"], said("green tea", paths=["text"])),
        (None, ["more.deep", "n"], said("red wine", "5", paths=["more.deep", "n"])),
        (None, ["$"], said("green tea", "red wine", paths=["$"])),
        (None, [], said(paths=[])),
        (INDEX, None, said("green tea")),
        (INDEX, ["more.deep"], said("red wine", paths=["more.deep"])),
        (INDEX, ["absent"], said(paths=["absent"])),
    ],
)
def test_a_put_says_which_texts_are_searched_for(make_any_store, face, index, given, expected):
    store = face(make_any_store(index=index))
    for write in (
        lambda key, **more: store.put(NS, key, VALUE, **more),
        lambda key, **more: store.remember(NS, VALUE, key=key, **more),
    ):
        write("k", index=given)
        assert kept(make_any_store) == {"k": expected}
        write("k", index=False)
        assert kept(make_any_store) == {}


def test_a_memory_without_index_is_found_by_neither_words_nor_meaning(make_any_store, face):
    store = face(make_any_store(index=INDEX))
    store.put(NS, "loud", {"text": "tea"})
    store.put(NS, "silent", {"text": "green tea"}, index=False)
    assert [(item.key, item.score is None) for item in store.search(NS, query="green tea")] == [
        ("loud", False),
        ("silent", True),
    ]


def test_words_go_with_their_memory(make_any_store, face, clock):
    store = face(make_any_store(index=INDEX, clock=clock))

    def keys() -> set[str]:
        return set(kept(make_any_store))

    for key in ("deleted", "expired", "forgotten", "replaced", "left"):
        store.put(NS, key, {"text": f"green tea {key}"}, ttl=1 if key == "expired" else None)
    store.delete(NS, "deleted")
    assert "deleted" not in keys()
    clock.advance(minutes=2)
    store.sweep_ttl()
    assert "expired" not in keys()
    receipt = store.forget(NS, "forgotten")
    assert not receipt.residue
    assert keys() == {"replaced", "left"}
    new = store.supersede(NS, "replaced", {"text": "black tea"})
    assert keys() == {"replaced", "left", new.key}
    store.archive(NS, "left")
    assert keys() == {"replaced", "left", new.key}
    receipt = store.forget_all(NS)
    assert not receipt.residue
    assert keys() == set()


def test_an_erasure_tells_of_words_that_are_left_behind(make_any_store, face):
    store = face(make_any_store())
    store.put(NS, "k", {"text": "green tea"})
    with make_any_store.server.client() as client:
        name = store_prefix(make_any_store.key_prefix) + b"w:" + encode_namespace(NS)
        client.hset(name, "stranger", pack_words(["green tea"]))
        receipt = store.forget_all(NS)
        client.delete(name)
    assert receipt.residue
    assert all(one.startswith("w ") for one in receipt.residue)


def test_a_write_again_has_the_words_of_its_new_value(make_any_store, face):
    store = face(make_any_store())
    store.put(NS, "k", {"text": "green tea"})
    store.put(NS, "k", {"text": "red wine"})
    assert kept(make_any_store) == {"k": said("red wine")}
    store.batch([PutOp(NS, "k", {"text": "one"}), PutOp(NS, "k", {"text": "two"})])
    assert kept(make_any_store) == {"k": said("two")}
    assert [item.score is None for item in store.search(NS, query="tea wine one")] == [True]


def test_an_archived_and_a_superseded_memory_are_found_by_words(make_any_store, face):
    store = face(make_any_store())
    store.put(NS, "old", {"text": "green tea"})
    store.put(NS, "filed", {"text": "green paint"})
    store.supersede(NS, "old", {"text": "black coffee"}, new_key="new")
    store.archive(NS, "filed")
    found = store.recall(NS, "green", status=["archived", "superseded", "active"])
    assert {item.key for item in found if item.score is not None} == {"old", "filed"}
    assert [item.key for item in store.recall(NS, "green")] == ["new"]
