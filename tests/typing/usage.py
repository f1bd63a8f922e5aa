"""What a user's type checker sees of the store; checked by mypy in strict mode and by pyright, never run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt
import redis
import redis.asyncio
from langchain_core.embeddings import Embeddings
from langgraph.store.base import BaseStore, GetOp, Item, PutOp, SearchItem, SearchOp
from langgraph.store.base import IndexConfig as UpstreamIndexConfig
from langgraph.store.base import TTLConfig as UpstreamTTLConfig

from langgraph_forgetful_store import (
    AuditRecord,
    ErasureReceipt,
    ForgetfulStore,
    IndexConfig,
    Lifecycle,
    MemoryItem,
    MemorySearchItem,
    MemoryStatus,
    MemoryType,
    RecallOptions,
    StoreSettings,
    TTLConfig,
    WriteOptions,
    assemble_context,
    namespace_label,
)

ALICE = ("memories", "alice")


def embed(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


def embed_any_sequence(texts: Sequence[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


def embed_as_array(texts: list[str]) -> npt.NDArray[np.float32]:
    return np.zeros((len(texts), 2), np.float32)


def embed_as_arrays(texts: list[str]) -> list[npt.NDArray[np.float32]]:
    return [np.zeros(2, np.float32) for _ in texts]


async def embed_async(texts: list[str]) -> list[list[float]]:
    return embed(texts)


def index_configs(embeddings: Embeddings) -> None:
    client = redis.Redis()
    ForgetfulStore(client, index={"dims": 2, "embed": embed})
    ForgetfulStore(client, index={"dims": 2, "embed": embed_any_sequence})
    ForgetfulStore(client, index={"dims": 2, "embed": embed_as_array})
    ForgetfulStore(client, index={"dims": 2, "embed": embed_as_arrays})
    ForgetfulStore(client, index={"dims": 2, "embed": embed_async})
    ForgetfulStore(client, index={"dims": 2, "embed": embeddings, "fields": ["content", "notes[*].text"]})
    ForgetfulStore(client, index={"dims": 1536, "embed": "openai:text-embedding-3-small", "embedder_id": "small"})
    ForgetfulStore(client, index={"dims": 2, "embed": lambda texts: [[0.0, 1.0] for _ in texts]})
    ForgetfulStore(client, index={"dims": 2, "embed": embed, "distance_type": "cosine"})
    variable = {"dims": 2, "embed": embed}
    ForgetfulStore(client, index=variable)
    ForgetfulStore.from_conn_string("redis://localhost", index=variable)
    ForgetfulStore.embedded(index=variable)
    ours: IndexConfig = {"dims": 2, "embed": embed, "embedder_id": "lengths"}
    ForgetfulStore(client, index=ours)
    upstream: UpstreamIndexConfig = {"dims": 2, "embed": embed_any_sequence, "fields": ["content"]}
    ForgetfulStore(client, index=upstream)
    ForgetfulStore.from_conn_string("redis://localhost", index=upstream)


def ttl_configs() -> None:
    client = redis.Redis()
    ForgetfulStore(client, ttl={"default_ttl": 60 * 24, "refresh_on_read": True})
    ForgetfulStore(client, ttl={"default_ttl": 1.5, "omit_expired": False, "sweep_interval_minutes": 0.5})
    variable = {"default_ttl": 60}
    ForgetfulStore(client, ttl=variable)
    ours: TTLConfig = {"default_ttl": 60.0}
    ForgetfulStore(client, ttl=ours)
    upstream: UpstreamTTLConfig = {"default_ttl": 60.0, "refresh_on_read": True, "sweep_interval_minutes": 5}
    ForgetfulStore(client, ttl=upstream)


def constructors(settings: StoreSettings) -> None:
    assert_type(ForgetfulStore(redis.Redis()), ForgetfulStore)
    assert_type(ForgetfulStore(redis.asyncio.Redis()), ForgetfulStore)
    ForgetfulStore(redis.Redis(), async_client=redis.asyncio.Redis(), key_prefix="app", clock=lambda: 0.0)
    ForgetfulStore(redis.Redis(), memory_types={"deal": MemoryType(ttl=60, on_expiry="archive")}, actor="bot")
    ForgetfulStore(redis.Redis.from_url("redis://localhost"), scoring="similarity", reserved_key=None)
    ForgetfulStore(redis.Redis(), read_from_replica=True)
    assert_type(ForgetfulStore.from_conn_string("valkey://localhost", **settings), ForgetfulStore)
    assert_type(ForgetfulStore.embedded("data", track_access=False, cache_bytes=0), ForgetfulStore)
    more: StoreSettings = {"actor": "bot", "memory_types": "strict"}
    ForgetfulStore(redis.Redis(), **more)


class OwnStore(ForgetfulStore):
    """A user's subclass is what its constructors return."""


def subclasses() -> None:
    assert_type(OwnStore.from_conn_string("redis://localhost"), OwnStore)
    with OwnStore.embedded() as store:
        assert_type(store, OwnStore)


def takes_any_store(store: BaseStore) -> None:
    assert_type(store.get(("a",), "k"), Item | None)
    assert_type(store.search(("a",)), list[SearchItem])


def takes_items(items: Sequence[Item]) -> None: ...


def reads() -> None:
    with ForgetfulStore.embedded("data", ttl={"default_ttl": 5.0}) as store:
        assert_type(store, ForgetfulStore)
        takes_any_store(store)
        item = store.get(ALICE, "k", refresh_ttl=False)
        assert_type(store.get(ALICE, "k", track_access=False), MemoryItem | None)
        assert_type(item, MemoryItem | None)
        if item is not None:
            assert_type(item.value, dict[str, Any])
            assert_type(item.memory, Lifecycle)
            assert_type(item.memory.status, MemoryStatus)
            assert_type(item.memory.expires_at, datetime | None)
        found = store.search(ALICE, query="q", filter={"v": {"$gt": 0}}, limit=3)
        assert_type(found, list[MemorySearchItem])
        takes_items(found)
        for one in found:
            assert_type(one.score, float | None)
            assert_type(one.similarity, float | None)
            assert_type(one.recall_id, str | None)
            assert_type(one.memory.tags, tuple[str, ...])
        assert_type(assemble_context(store.search(ALICE, query="q"), max_tokens=500), str)
        assert_type(assemble_context(store.recall(ALICE, "q"), max_tokens=500, min_relevance=None), str)
        assert_type(assemble_context([one for one in [item] if one is not None], max_tokens=500), str)
        assert_type(assemble_context([one.dict() for one in found], max_tokens=500), str)
        assert_type(store.history(ALICE, "k", as_of="2026-05-01", known_at=datetime.now(UTC)), list[MemoryItem])
        assert_type(store.list_namespaces(prefix=("memories",), max_depth=2), list[tuple[str, ...]])
        store.batch([GetOp(ALICE, "k"), SearchOp(ALICE), PutOp(ALICE, "k", {"v": 1}), PutOp(ALICE, "k", None)])


def recall(store: ForgetfulStore) -> None:
    found = store.recall(
        ALICE,
        "where do I live",
        limit=5,
        memory_types=("fact", "preference"),
        tags={"home"},
        status="archived",
        min_similarity=0.3,
        in_contexts=["session-1"],
        goal="plan a trip",
        explain=True,
        negative=["an old text"],
        rerank=lambda query, items: sorted(items, key=lambda item: item.key),
        archived_above=0.9,
        track_access=False,
    )
    assert_type(found, list[MemorySearchItem])
    store.recall(ALICE, as_of="2026-05-01T10:00:00+02:00", known_at=datetime.now(UTC))
    store.recall(ALICE, subject="user", attribute="city", pinned=False)
    store.recall(ALICE, negative=found, status=["active", MemoryStatus.ARCHIVED])
    options: RecallOptions = {"limit": 3, "explain": True}
    store.recall(ALICE, "q", **options)


def writes(store: ForgetfulStore) -> None:
    store.put(ALICE, "k", {"v": 1}, ttl=1.5)
    store.put(ALICE, "k", {"v": 1}, index=False, ttl=None)
    store.put((*ALICE, namespace_label("a.b@example.com")), "k", {"v": 1}, ["v"])
    store.delete(ALICE, "k")
    old = store.remember(
        ALICE,
        "lives in Ghent",
        key="home",
        subject="user",
        attribute="city",
        importance=0.8,
        valid_from=datetime.now(UTC),
        tags=["home"],
        source="user",
        ttl=60,
        index=False,
    )
    assert_type(old, MemoryItem)
    options: WriteOptions = {"memory_type": "fact", "pinned": True, "index": ["content"]}
    new = store.supersede(
        ALICE, old.key, {"content": "lives in Bruges"}, expected_version=old.memory.version, **options
    )
    assert_type(new, MemoryItem)
    assert_type(store.undo_supersede(ALICE, new.key), MemoryItem)
    assert_type(store.retire(ALICE, "k", reason="resolved", valid_until="2026-05-01"), MemoryItem)
    assert_type(store.confirm(ALICE, "k", idempotency_key="once"), MemoryItem)
    assert_type(store.set_ttl(ALICE, "k", 60), MemoryItem)
    assert_type(store.demote(ALICE, "k", 0.1), MemoryItem)
    for step in (store.archive, store.restore, store.pin, store.unpin, store.anchor, store.deny):
        assert_type(step(ALICE, "k"), MemoryItem)
    recall_id = store.search(ALICE, query="q")[0].recall_id
    if recall_id is not None:
        assert_type(store.feedback(recall_id, -1, keys=["k"]), list[MemoryItem])


def relations_and_erasure(store: ForgetfulStore) -> None:
    store.alias(ALICE, "Alice", "Al", "Ally")
    store.unalias(ALICE, "Al")
    assert_type(store.aliases(ALICE), dict[str, str])
    assert_type(store.link(ALICE, "k", "resolves", "other"), MemoryItem)
    store.unlink(ALICE, "k", "resolves", "other")
    pairs = store.neighbors(ALICE, "k", direction="out")
    assert_type(pairs, list[tuple[str, MemoryItem]])
    assemble_context(store.search(ALICE), max_tokens=100, related={(ALICE, "k"): pairs})
    assert_type(
        store.forget(ALICE, "k", rederive=lambda summary, left: " ".join(one.key for one in left)), ErasureReceipt
    )
    assert_type(store.forget_all(ALICE, trigger="compliance", byte_scan=True), ErasureReceipt)
    assert_type(store.end_run(ALICE, "run-1"), int)
    assert_type(store.audit((), since="2026-05-01", limit=5), list[AuditRecord])


async def async_use() -> None:
    async with ForgetfulStore.from_conn_string("redis://localhost") as store:
        assert_type(store, ForgetfulStore)
        await store.setup()
        await store.start_ttl_sweeper()
        await store.aput(ALICE, "k", {"v": 1}, ttl=5)
        assert_type(await store.aget(ALICE, "k"), MemoryItem | None)
        assert_type(await store.asearch(ALICE, query="q"), list[MemorySearchItem])
        assert_type(await store.arecall(ALICE, "q", limit=3, explain=True), list[MemorySearchItem])
        assert_type(await store.aremember(ALICE, "a text", tags=("a",)), MemoryItem)
        assert_type(await store.asupersede(ALICE, "k", "a text", reason="corrected"), MemoryItem)
        assert_type(await store.ahistory(ALICE, "k"), list[MemoryItem])
        assert_type(await store.aarchive(ALICE, "k"), MemoryItem)
        assert_type(await store.aforget(ALICE, "k"), ErasureReceipt)
        assert_type(await store.alist_namespaces(), list[tuple[str, ...]])
        assert_type(await store.asweep_ttl(), int)
        assert_type(await store.stop_ttl_sweeper(), bool)
        await store.adelete(ALICE, "k")
        await store.aclose()


def housekeeping(store: ForgetfulStore) -> None:
    store.setup()
    store.flush()
    assert_type(store.sweep_ttl(), int)
    store.start_ttl_sweeper(sweep_interval_minutes=0.5).cancel()
    store.stop_ttl_sweeper(timeout=1)
    store.close()
