"""Contract 47 with the real deepagents: its files in our store, and a deep agent that uses them."""

from __future__ import annotations

import asyncio

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.open_connections import require
from tests.support.scripted_model import script

require("deepagents")

from deepagents import create_deep_agent  # noqa: E402  # after the check that it is there
from deepagents.backends import CompositeBackend, StateBackend, StoreBackend  # noqa: E402

NS = ("ada", "files")


class Files:
    """Calls the sync or the async side of a `StoreBackend` by its sync names."""

    def __init__(self, backend, runner):
        self._backend = backend
        self._runner = runner

    def __getattr__(self, name):
        if self._runner is None:
            return getattr(self._backend, name)
        return lambda *args, **kwargs: self._runner.run(getattr(self._backend, f"a{name}")(*args, **kwargs))


@pytest.fixture(params=["sync", "async"])
def files(request, make_any_store):
    backend = StoreBackend(store=make_any_store(), namespace=lambda runtime: NS)
    if request.param == "sync":
        yield Files(backend, None)
    else:
        with asyncio.Runner() as runner:
            yield Files(backend, runner)


def test_a_file_is_written_read_edited_and_overwritten(files, make_any_store):
    assert files.write("/notes/tea.md", "green\nblack\ngreen").error is None
    assert files.read("/notes/tea.md").file_data["content"] == "green\nblack\ngreen"
    assert files.read("/notes/tea.md", offset=1, limit=1).file_data["content"].strip() == "black"
    assert "2 times" in files.edit("/notes/tea.md", "green", "white").error
    edited = files.edit("/notes/tea.md", "green", "white", replace_all=True)
    assert (edited.error, edited.occurrences) == (None, 2)
    assert files.read("/notes/tea.md").file_data["content"] == "white\nblack\nwhite"
    files.write("/notes/tea.md", "none")
    assert files.read("/notes/tea.md").file_data["content"] == "none"
    assert files.read("/notes/absent.md").error
    assert files.edit("/notes/absent.md", "a", "b").error
    (item,) = make_any_store().search(NS)
    assert (item.key, item.memory.version) == ("/notes/tea.md", 3)


@pytest.mark.parametrize("count", [99, 100, 101, 200, 230])
def test_every_page_of_many_files_is_whole_and_without_repetition(files, make_any_store, count):
    store = make_any_store()
    names = [f"/many/{at:04}.txt" for at in range(count)]
    for name in names:
        store.put(NS, name, {"content": f"line of {name}", "encoding": "utf-8"})
    # Rewritten ones move in the order of the listing, and no page may lose or repeat one.
    for name in names[::7]:
        files.write(name, f"again {name}")
    assert [entry["path"] for entry in files.ls("/many").entries] == names
    assert [entry["path"] for entry in files.ls("/").entries] == ["/many/"]
    assert sorted(match["path"] for match in files.glob("*.txt", "/many").matches) == names
    found = [match["path"] for match in files.grep("again").matches]
    assert sorted(found) == names[::7]


def test_paging_is_stable_while_pages_are_read(make_any_store):
    store = make_any_store(ttl={})
    for at in range(250):
        store.put(NS, f"/{at}", {"content": ""}, ttl=None if at % 2 else 60)
    pages = []
    for offset in (0, 100, 200, 300):
        pages.append([item.key for item in store.search(NS, limit=100, offset=offset)])
        store.get(NS, f"/{offset % 250}")
    assert [len(page) for page in pages] == [100, 100, 50, 0]
    assert [key for page in pages for key in page] == [f"/{at}" for at in reversed(range(250))]


def test_a_folder_is_deleted_with_all_its_files_and_nothing_else(files, make_any_store):
    store = make_any_store()
    for at in range(120):
        store.put(NS, f"/old/{at}", {"content": "x", "encoding": "utf-8"})
    for key in ("/older", "/old*", "/new/1"):
        store.put(NS, key, {"content": "x", "encoding": "utf-8"})
    store.put((*NS, "deeper"), "/old/1", {"content": "x"})
    assert files.delete("/new/1").error is None
    assert files.delete("/absent").error
    assert store.get((*NS, "deeper"), "/old/1") is not None
    assert files.delete("/old").error is None
    assert {item.key for item in store.search(NS, limit=500)} >= {"/older", "/old*"}
    assert len(store.search(NS, limit=500)) == 3


def test_uploads_of_text_and_bytes_come_down_as_they_were(files):
    blobs = {"/a.txt": "grüße".encode(), "/b.png": bytes(range(256))}
    assert [response.error for response in files.upload_files(list(blobs.items()))] == [None, None]
    assert {one.path: one.content for one in files.download_files(list(blobs))} == blobs


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_deep_agent_keeps_its_files_across_threads(make_any_store, asynchronous):
    store = make_any_store()

    def agent(*replies):
        model = script(*replies)
        backend = CompositeBackend(
            default=StateBackend(), routes={"/memories/": StoreBackend(namespace=lambda runtime: NS)}
        )
        return model, create_deep_agent(model, store=store, backend=backend, checkpointer=InMemorySaver())

    def run(graph, thread):
        given = {"messages": [{"role": "user", "content": "go on"}]}
        config = {"configurable": {"thread_id": thread}}
        out = asyncio.run(graph.ainvoke(given, config)) if asynchronous else graph.invoke(given, config)
        return [str(message.content) for message in out["messages"] if message.type == "tool"]

    _, first = agent(
        [("write_file", {"file_path": "/memories/tea.md", "content": "Ada drinks green tea"})],
        [("write_file", {"file_path": "/scratch.md", "content": "not to be kept"})],
        "written",
    )
    run(first, "one")
    assert [item.key for item in store.search(NS)] == ["/tea.md"]
    model, second = agent(
        [("ls", {"path": "/memories/"}), ("grep", {"pattern": "green", "path": "/memories/"})],
        [("edit_file", {"file_path": "/memories/tea.md", "old_string": "green", "new_string": "black"})],
        [("read_file", {"file_path": "/memories/tea.md"})],
        "read",
    )
    listed, found, _, read = run(second, "two")
    assert "tea.md" in listed
    assert "tea.md" in found
    assert "Ada drinks black tea" in read
    assert "Ada drinks black tea" in str(model.asked[-1])
    assert store.get(NS, "/tea.md").value["content"] == "Ada drinks black tea"
