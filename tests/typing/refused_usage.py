"""What a type checker refuses: an ignored error that is none is an error itself, so each line here is checked."""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import redis

from langgraph_forgetful_store import ForgetfulStore, MemoryPolicy, RecallMemories
from langgraph_forgetful_store.policy import ExtractionInput


class NoExtractor:
    def extract(self, exchange: ExtractionInput) -> str:
        return "no extraction"


def refused(store: ForgetfulStore) -> None:
    ForgetfulStore("redis://localhost")  # type: ignore[arg-type]
    ForgetfulStore()  # type: ignore[call-arg]
    ForgetfulStore(redis.Redis(), capacity=3)  # type: ignore[call-arg]
    ForgetfulStore(redis.Redis(), redis_url="redis://localhost")  # type: ignore[call-arg]
    ForgetfulStore.from_conn_string("redis://localhost", store_prefix="app")  # type: ignore[call-arg]
    ForgetfulStore.from_conn_string(b"redis://localhost")  # type: ignore[arg-type]
    MemoryPolicy(extractor=NoExtractor())  # type: ignore[arg-type]
    MemoryPolicy(judge="rules")  # type: ignore[arg-type]
    MemoryPolicy(store=redis.Redis())  # type: ignore[arg-type]
    RecallMemories(mx_tokens=5)  # type: ignore[call-arg]
    store.get(("a",), "k").value  # type: ignore[union-attr]  # noqa: B018
    store.recall(("a",), "q", limt=5)  # type: ignore[call-arg]
    store.remember(("a",), "a text", importance="high")  # type: ignore[arg-type]
    store.search(("a",), "a query")  # type: ignore[call-arg]
