"""What a user's type checker sees; checked by mypy in strict mode, never run."""

from __future__ import annotations

from typing import assert_type

import redis
import redis.asyncio
from langgraph.store.base import BaseStore, Item, SearchItem

from langgraph_forgetful_store import ForgetfulStore, Lifecycle, MemoryItem, MemorySearchItem, MemoryStatus


def takes_any_store(store: BaseStore) -> None:
    assert_type(store.get(("a",), "k"), Item | None)


def sync_use() -> None:
    with ForgetfulStore.embedded("data", ttl={"default_ttl": 5.0}) as store:
        assert_type(store, ForgetfulStore)
        takes_any_store(store)
        store.put(("a",), "k", {"v": 1}, ttl=1.5)
        assert_type(store.search(("a",), query="q", filter={"v": {"$gt": 0}}), list[SearchItem])
        assert_type(store.list_namespaces(), list[tuple[str, ...]])
        assert_type(store.sweep_ttl(), int)
        item = store.get(("a",), "k")
        if isinstance(item, MemoryItem | MemorySearchItem):
            assert_type(item.memory, Lifecycle)
            assert_type(item.memory.status, MemoryStatus)
    ForgetfulStore(redis.Redis(), async_client=redis.asyncio.Redis(), key_prefix="app", clock=lambda: 0.0)


async def async_use() -> None:
    async with ForgetfulStore.from_conn_string("redis://localhost") as store:
        assert_type(store, ForgetfulStore)
        await store.setup()
        await store.start_ttl_sweeper()
        assert_type(await store.asearch(("a",)), list[SearchItem])
        assert_type(await store.asweep_ttl(), int)
        assert_type(await store.stop_ttl_sweeper(), bool)
