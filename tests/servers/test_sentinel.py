"""A client of a Sentinel is a template too: the store finds the primary, and the new one after a failover."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.sentinel
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.testing import Face, check_keys
from tests.support.real_servers import wait_until
from tests.support.refused_input import NS

# More than a failover takes.
BACKOFF, RETRIES = ConstantBackoff(0.05), 400


class Watched:
    """A primary, its replica, and a Sentinel that watches them."""

    def __init__(self, launch: Callable[..., Any], folder: Path) -> None:
        self.primary = launch("valkey-9.1", "--repl-diskless-sync-delay", "0")
        self.replica = launch("valkey-9.1", "--replicaof", "127.0.0.1", str(self.primary.port))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = probe.getsockname()
        config = folder / "sentinel.conf"
        config.write_text(
            f"port {self.address[1]}\nbind 127.0.0.1\nsentinel monitor mine 127.0.0.1 {self.primary.port} 1\n"
            "sentinel down-after-milliseconds mine 300\nsentinel failover-timeout mine 2000\n"
        )
        self._process = subprocess.Popen(
            [str(self.primary.binary), str(config), "--sentinel"], stdout=subprocess.DEVNULL
        )
        wait_until(self._knows_the_replica)

    def _knows_the_replica(self) -> bool:
        try:
            with redis.Redis(port=self.address[1], retry=None) as client:
                replicas = client.sentinel_slaves("mine")
        except redis.ConnectionError:
            return False
        return [one["master-link-status"] for one in replicas] == ["ok"]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


@pytest.fixture
def watched(launch: Any, tmp_path: Path) -> Iterator[Watched]:
    started = Watched(launch, tmp_path)
    yield started
    started.stop()


def test_a_store_on_a_sentinel_follows_the_primary(watched: Watched, open_store: Callable[..., ForgetfulStore]) -> None:
    sync = redis.sentinel.Sentinel([watched.address])
    asynchronous = redis.asyncio.sentinel.Sentinel([watched.address])
    retry, async_retry = Retry(BACKOFF, RETRIES), redis.asyncio.retry.Retry(BACKOFF, RETRIES)
    stores = {
        "sync": open_store(sync.master_for("mine", retry=retry, decode_responses=True)),
        "async": open_store(asynchronous.master_for("mine", retry=async_retry)),
    }
    sides = {
        f"{name} template, {colour}": Face(store, asynchronous=colour == "async")
        for name, store in stores.items()
        for colour in ("sync", "async")
    }
    for name, side in sides.items():
        side.put(NS, name, {"n": 1})
    reader = open_store(sync.slave_for("mine", retry=retry))
    wait_until(lambda: len(reader.search(NS)) == 4)
    with pytest.raises(redis.exceptions.ReadOnlyError):
        reader.put(NS, "k", {})

    watched.primary.kill()
    with ThreadPoolExecutor(4) as pool:
        # Each is sent to the one that is dead, and again until there is another.
        list(pool.map(lambda name: sides[name].put(NS, name, {"n": 2}), sides))
    for name, side in sides.items():
        assert (side.get(NS, name).value, side.get(NS, name).memory.version) == ({"n": 2}, 2)
        side.end()
    for store in [*stores.values(), reader]:
        store.close()
    with redis.Redis(port=watched.address[1]) as client:
        wait_until(lambda: client.info("clients")["connected_clients"] == 1)
    with watched.replica.client() as client:
        assert client.info("replication")["role"] == "master"
        assert check_keys(client)["rows"] == 4
