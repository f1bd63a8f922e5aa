"""What the library writes itself is always embedded; a query over rows without vectors says how many there are."""

from __future__ import annotations

import pytest

from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("memories", "ada")
INDEX = {"dims": 16, "embed": WordEmbeddings(16), "fields": ["title"]}


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if "no vector" in record.getMessage()]


@pytest.mark.parametrize("cache_bytes", [2**24, 0], ids=["near-cache", "scan"])
def test_what_is_remembered_as_a_text_is_embedded_whatever_the_fields_are(make_any_store, face, caplog, cache_bytes):
    side = face(make_any_store(index=INDEX, cache_bytes=cache_bytes))
    key = side.remember(NS, "drinks green tea").key
    new = side.supersede(NS, key, "drinks black tea").key
    found = side.recall(NS, "drinks black tea", status=["active", "superseded"])
    assert {item.key for item in found} == {key, new}
    assert [item.similarity for item in found] == [pytest.approx(1), pytest.approx(0.45, abs=0.01)]
    assert not warnings(caplog)


def test_a_write_that_names_its_fields_is_taken_at_its_word(make_any_store, face):
    side = face(make_any_store(index=INDEX))
    off = side.remember(NS, "drinks green tea", index=False).key
    own = side.remember(NS, {"title": "tea", "content": "something else"}).key
    found = {item.key: item.similarity for item in side.recall(NS, "tea")}
    assert found[off] is None
    assert found[own] == pytest.approx(1)


@pytest.mark.parametrize("cache_bytes", [2**24, 0], ids=["near-cache", "scan"])
def test_a_query_tells_once_how_many_rows_have_no_vector(make_any_store, face, caplog, cache_bytes):
    bare = make_any_store()
    for at in range(3):
        bare.put(NS, f"old{at}", {"title": f"tea {at}"})
    side = face(make_any_store(index=INDEX, cache_bytes=cache_bytes))
    side.put(NS, "new", {"title": "tea"})
    side.search(NS)
    assert not warnings(caplog)
    for _ in range(3):
        assert len(side.search(NS, query="tea")) == 4
    (told,) = warnings(caplog)
    assert told.startswith(f"3 of the memories below {NS!r} have no vector")
    assert "put them again" in told


def test_a_store_without_an_index_has_nothing_to_tell(make_any_store, face, caplog):
    side = face(make_any_store())
    side.put(NS, "k", {"title": "tea"})
    assert [item.key for item in side.search(NS, query="tea")] == ["k"]
    assert not warnings(caplog)


def test_a_recall_by_words_only_embeds_nothing(make_any_store, face):
    class Failing(WordEmbeddings):
        def embed_query(self, text):
            raise RuntimeError("down")

    side = face(make_any_store(index={**INDEX, "embed": Failing(16)}))
    side.put(NS, "k", {"title": "green tea"})
    (item,) = side.recall(NS, "tea", words_only=True)
    assert (item.key, item.similarity) == ("k", None)
    with pytest.raises(RuntimeError, match="down"):
        side.recall(NS, "tea")
    with pytest.raises(ValueError, match="goal can't be used"):
        side.recall(NS, "tea", words_only=True, goal="sleep")
    with pytest.raises(ValueError, match="words_only"):
        side.recall(NS, "tea", words_only=1)
