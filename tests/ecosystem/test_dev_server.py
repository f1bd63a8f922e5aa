"""Contract 41 and 46 with the real LangGraph dev server, which raises where a call blocks its event loop."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from datetime import datetime, timedelta

import httpx
import pytest

from tests.conftest import StoreMaker
from tests.support.open_connections import WatchedServer, require

require("langgraph_cli", "langgraph_api", "langgraph_runtime_inmem", "langgraph_sdk")

from langgraph_sdk import get_client  # noqa: E402  # after the check that it is there
from langgraph_sdk.errors import APIStatusError  # noqa: E402

STORE = """
import os
from contextlib import asynccontextmanager
from pathlib import Path
from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.testing import WordEmbeddings

def make():
    return ForgetfulStore.from_conn_string(
        os.environ["STORE_URL"],
        key_prefix=os.environ["STORE_PREFIX"],
        index={"dims": 16, "embed": WordEmbeddings(16)},
        ttl={"default_ttl": 60},
    )

@asynccontextmanager
async def managed():
    async with make() as store:
        await store.setup()
        await store.start_ttl_sweeper()
        yield store
    Path("closed").touch()

if os.environ["STORE_KIND"] == "object":
    made = make()
"""

GRAPHS = """
import time
from typing import Any, TypedDict
from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

class State(TypedDict, total=False):
    user: str
    text: str
    found: list[Any]

async def note(state, runtime: Runtime):
    await runtime.store.aput(("runs", state["user"]), state["text"], {"text": state["text"]})
    return {"found": [item.dict() for item in await runtime.store.asearch(("runs", state["user"]), query="tea")]}

def sync_note(state):
    get_store().put(("runs", state["user"]), "sync", {"text": state["text"]})
    return {"found": [item.dict() for item in get_store().search(("runs", state["user"]))]}

async def keep(state, runtime: Runtime):
    before = [type(item).__name__ for item in state.get("found") or []]
    await runtime.store.aput(("kept",), state["text"], {"before": before})
    return {"found": [await runtime.store.aget(("kept",), state["text"])]}

async def block(state):
    time.sleep(0.001)

def graph(node):
    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile()

note, sync_note, keep, block = (graph(node) for node in (note, sync_note, keep, block))
"""

AUTH = """
from langgraph_sdk import Auth

auth = Auth()

@auth.authenticate
async def who(headers):
    return {"identity": headers.get(b"x-user", b"").decode()}

@auth.on.store.search
async def own(ctx, value):
    return {"owner": ctx.user.identity} if ctx.user.identity else None
"""


class DevServer:
    """A dev server in a folder of its own, whose store is ours.

    Args:
        folder: For its files.
        store: What langgraph.json names as the store.
        url: Where the store's data are.
        key_prefix: The store's.
    """

    def __init__(self, folder, store, url, key_prefix):
        self.folder = folder
        for name, text in (("store.py", STORE), ("graphs.py", GRAPHS), ("auth.py", AUTH)):
            (folder / name).write_text(text)
        graphs = {name: f"./graphs.py:{name}" for name in ("note", "sync_note", "keep", "block")}
        config = {
            "dependencies": ["."],
            "graphs": graphs,
            "store": {"path": f"./store.py:{store}"},
            "auth": {"path": "./auth.py:auth", "disable_studio_auth": True},
        }
        (folder / "langgraph.json").write_text(json.dumps(config))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        foreign = ("LANGCHAIN", "LANGGRAPH", "LANGSMITH")
        env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        env |= {
            "LANGGRAPH_CLI_NO_ANALYTICS": "1",
            "LANGGRAPH_NO_VERSION_CHECK": "true",
            "LANGSMITH_TRACING": "false",
            "STORE_KIND": "object" if store == "made" else "factory",
            "STORE_URL": url,
            "STORE_PREFIX": key_prefix,
        }
        command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
        with (folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", self.url.rpartition(":")[2], "--n-jobs-per-worker", "4"],
                cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._await_start()

    def _await_start(self):
        deadline = time.monotonic() + 90
        while True:
            try:
                if httpx.get(f"{self.url}/ok", trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def log(self):
        return (self.folder / "log").read_text()

    def stop(self):
        self._process.terminate()
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()


@pytest.fixture(scope="module")
def watched(any_server):
    maker = StoreMaker(WatchedServer(any_server))
    yield maker
    maker.finish()


@pytest.fixture(scope="module", params=["made", "make", "managed"])
def server(request, watched, any_server, tmp_path_factory):
    """The dev server with a module-level store, a factory of one, and an async context manager."""
    url = watched.server.url
    if request.param == "made":
        url = url.replace(any_server.url, any_server.tcp_url)
    running = DevServer(tmp_path_factory.mktemp(request.param), request.param, url, watched.key_prefix)
    try:
        yield running
    finally:
        running.stop()
    blocking = set(re.findall(r"Blocking call to ([\w.]+)", running.log()))
    assert blocking <= {"time.sleep"}, running.log()
    for sign in ("never awaited", "ResourceWarning", "was destroyed", "attached to a different loop", "500 Internal"):
        assert sign not in running.log()
    assert (running.folder / "closed").exists() == (request.param == "managed")
    watched.server.settle(0)
    with watched() as store:
        for namespace in store.list_namespaces(limit=10_000):
            for item in store.search(namespace, limit=10_000):
                store.delete(item.namespace, item.key)


@pytest.fixture
async def client(server):
    """A client of the server, of nobody in particular."""
    async with get_client(url=server.url, api_key=None) as one:
        yield one


def moment(text):
    return datetime.fromisoformat(text)


async def test_items_are_put_got_searched_listed_and_deleted(client):
    api = client.store
    await api.put_item(["users", "ada"], key="tea", value={"text": "green tea", "n": 1})
    await api.put_item(["users", "ada"], key="bike", value={"text": "a red bicycle", "n": 2})
    await api.put_item(["users", "bob"], key="tea", value={"text": "no tea"}, index=False)
    item = await api.get_item(["users", "ada"], key="tea")
    assert (item["namespace"], item["key"]) == (["users", "ada"], "tea")
    assert item["value"] == {"text": "green tea", "n": 1}
    assert moment(item["created_at"]) == moment(item["updated_at"])
    assert await api.get_item(["users", "ada"], key="absent") is None
    found = (await api.search_items(["users", "ada"], query="tea that is green"))["items"]
    assert [one["key"] for one in found] == ["tea", "bike"]
    assert found[0]["score"] > found[1]["score"]
    found = (await api.search_items(["users"], filter={"n": {"$gte": 2}}))["items"]
    assert [(one["key"], one["score"]) for one in found] == [("bike", None)]
    assert len((await api.search_items(["users"], limit=2, offset=2))["items"]) == 1
    listed = await api.list_namespaces(prefix=["users"], max_depth=2)
    assert listed["namespaces"] == [["users", "ada"], ["users", "bob"]]
    await api.delete_item(["users", "ada"], key="tea")
    await api.delete_item(["users", "ada"], key="tea")
    assert await api.get_item(["users", "ada"], key="tea") is None


async def test_ttls_pass_and_the_default_one_does_not_reach_the_api(client):
    api = client.store
    await api.put_item(["ttl"], key="timed", value={}, ttl=5)
    await api.put_item(["ttl"], key="absent", value={})
    await api.put_item(["ttl"], key="short", value={}, ttl=0.001)
    timed = await api.get_item(["ttl"], key="timed", refresh_ttl=False)
    left = moment(timed["memory"]["expires_at"]) - moment(timed["updated_at"])
    assert timedelta(minutes=5) <= left < timedelta(minutes=5.1)
    later = await api.get_item(["ttl"], key="timed", refresh_ttl=True)
    assert moment(later["memory"]["expires_at"]) > moment(timed["memory"]["expires_at"])
    assert "expires_at" not in (await api.get_item(["ttl"], key="absent"))["memory"]
    await asyncio.sleep(0.1)
    assert await api.get_item(["ttl"], key="short") is None
    await client.runs.wait(None, "note", input={"user": "ttl", "text": "tea"})
    by_node = await api.get_item(["runs", "ttl"], key="tea", refresh_ttl=False)
    left = moment(by_node["memory"]["expires_at"]) - moment(by_node["updated_at"])
    assert timedelta(minutes=60) <= left < timedelta(minutes=60.1)


async def test_the_memory_of_an_item_comes_through(client):
    api = client.store
    for turn in range(3):
        await api.put_item(["life"], key="k", value={"turn": turn})
    (listed,) = (await api.search_items(["life"]))["items"]
    assert listed["memory"] == {"status": "active", "version": 3}
    assert (await api.get_item(["life"], key="k"))["memory"] == listed["memory"]
    memory = (await api.get_item(["life"], key="k"))["memory"]
    # The first of the two gets has been counted; whether it is written yet, a second decides.
    assert memory.pop("access_count") == 1
    memory.pop("last_accessed_at", None)
    assert memory == listed["memory"]


REFUSED = {
    "an unknown operator": (
        lambda api: api.search_items(["bad"], filter={"x": {"$near": 1}}),
        "Unsupported operator: $near",
    ),
    "an operand that is no filter": (lambda api: api.search_items(["bad"], filter={"$not": []}), "$not"),
    "one of several that is no filter": (lambda api: api.search_items(["bad"], filter={"$or": [{}, 1]}), "$or"),
    "an operand that is no list": (lambda api: api.search_items(["bad"], filter={"x": {"$nin": None}}), "$nin"),
    "an operand that is no bool": (lambda api: api.search_items(["bad"], filter={"x": {"$exists": 1}}), "$exists"),
    "a negative ttl": (lambda api: api.put_item(["bad"], key="k", value={}, ttl=-1), "ttl must be a number of minutes"),
    "a reserved label": (lambda api: api.put_item(["langgraph", "x"], key="k", value={}), "langgraph"),
    "a depth of 0": (lambda api: api.list_namespaces(prefix=["bad"], max_depth=0), "max_depth"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_the_store_refuses_is_a_400_with_its_message(client, what):
    call, message = REFUSED[what]
    with pytest.raises(APIStatusError) as raised:
        await call(client.store)
    assert (raised.value.response.status_code, message in raised.value.response.text) == (400, True)


async def test_the_filter_of_the_servers_auth_narrows_that_of_the_caller(server, client):
    for at in range(30):
        await client.store.put_item(["auth"], key=str(at), value={"owner": "ada" if at % 3 else "bob", "n": at % 2})
    async with get_client(url=server.url, api_key=None, headers={"x-user": "bob"}) as bob:
        assert len((await bob.store.search_items(["auth"], limit=100))["items"]) == 10
        found = (await bob.store.search_items(["auth"], filter={"n": 1, "owner": {"$ne": "x"}}, limit=3))["items"]
        assert [one["key"] for one in found] == ["27", "21", "15"]
        assert (await bob.store.search_items(["auth"], filter={"owner": "ada"}))["items"] == []


async def test_runs_share_the_store_with_the_api(client):
    out = await client.runs.wait(None, "note", input={"user": "ada", "text": "green tea"})
    assert [item["value"] for item in out["found"]] == [{"text": "green tea"}]
    assert out["found"][0]["score"] > 0
    item = await client.store.get_item(["runs", "ada"], key="green tea")
    assert item["value"] == {"text": "green tea"}
    out = await client.runs.wait(None, "sync_note", input={"user": "ada", "text": "x"})
    assert [item["key"] for item in out["found"]] == ["sync", "green tea"]


async def test_many_runs_and_calls_at_once_all_arrive(client):
    await asyncio.gather(
        *(client.runs.wait(None, "note", input={"user": f"many{at}", "text": "tea"}) for at in range(16)),
        *(client.runs.wait(None, "sync_note", input={"user": f"many{at}", "text": "tea"}) for at in range(4)),
        *(client.store.put_item(["many", str(at)], key="k", value={"at": at}) for at in range(50)),
    )
    assert len((await client.store.list_namespaces(prefix=["many"], limit=100))["namespaces"]) == 50
    assert len((await client.store.search_items(["runs"], filter={"text": "tea"}, limit=100))["items"]) >= 20


async def test_items_in_the_state_of_a_thread_come_back_as_items(client):
    thread = (await client.threads.create())["thread_id"]
    for text in ("one", "two"):
        await client.runs.wait(thread, "keep", input={"text": text})
    assert (await client.store.get_item(["kept"], key="one"))["value"] == {"before": []}
    assert (await client.store.get_item(["kept"], key="two"))["value"] == {"before": ["MemoryItem"]}


async def test_the_server_does_look_for_blocking_calls(client):
    out = await client.runs.wait(None, "block", input={"text": "x"}, raise_error=False)
    assert out["__error__"]["error"] == "BlockingError"
