"""Texts that are longer than an embedder takes: cut for meaning, whole for words, and told once."""

from __future__ import annotations

import pytest

from langgraph_forgetful_store import ConfigurationError, ForgetfulStore
from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("notes",)


class Watched(WordEmbeddings):
    """Notes the longest text that it was given."""

    longest = 0

    def embed_documents(self, texts):
        self.longest = max(self.longest, *map(len, texts))
        return super().embed_documents(texts)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.mark.parametrize("max_text", [None, 100])
def test_long_texts_and_queries_are_cut_at_the_setting_and_told_once(make_any_store, face, caplog, max_text):
    embedder, most = Watched(16), max_text or 8000
    given = {} if max_text is None else {"max_text": max_text}
    side = face(make_any_store(index={"dims": 16, "embed": embedder, "fields": ["text"]}, **given))
    side.put(NS, "short", {"text": "x" * most})
    assert not caplog.records
    side.put(NS, "long", {"text": f"{'tea ' * most} zebra"})
    side.search(NS, query="coffee " * most)
    assert embedder.longest == most
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"by its first {most}" in told
    assert "max_text" in told
    # Words are taken from all of it.
    assert side.search(NS, query="zebra", limit=1)[0].key == "long"


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, None, "many"])
def test_a_setting_that_is_none_is_refused(bad):
    with pytest.raises(ConfigurationError, match="max_text"):
        ForgetfulStore.from_conn_string("redis://localhost", max_text=bad)
