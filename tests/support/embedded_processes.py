"""Other processes with an embedded server, and what can be asked of one."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from langgraph_forgetful_store.backend import embedded
from langgraph_forgetful_store.backend.embedded import EmbeddedServer

# Evaluates one expression a line. A stand-in for the package, because importing the real one takes far longer.
WORKER = """
import os, signal, sys, threading, types
package = types.ModuleType("langgraph_forgetful_store")
package.__path__ = [sys.argv[1]]
sys.modules[package.__name__] = package
from langgraph_forgetful_store.backend.embedded import EmbeddedServer

def fork(action):
    child = os.fork()
    if child == 0:
        action()
        sys.exit(0)
    return child

signal.signal(signal.SIGINT, signal.SIG_IGN)
server = EmbeddedServer(sys.argv[2] or None)
for line in sys.stdin:
    print(repr(eval(line)), flush=True)
"""


class Worker:
    """Another process with an `EmbeddedServer` of its own."""

    def __init__(self, path: Path | str = "", **environment: str) -> None:
        # Python warns of a fork beside a thread, which is what one test is about.
        warnings = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
        self.process = subprocess.Popen(
            [sys.executable, *warnings, "-c", WORKER, str(Path(embedded.__file__).parents[1]), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self.socket_path = str(self("server.socket_path"))

    def __call__(self, expression: str) -> object:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return ast.literal_eval(self.process.stdout.readline() or "'the worker has ended'")

    def kill(self) -> None:
        """SIGKILL to the process and the children it forked."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    def finish(self) -> None:
        """End the way a program does, without closing the server; nothing may have been complained about."""
        if self.process.returncode is None:
            assert (self.process.communicate(timeout=20)[1], self.process.wait()) == ("", 0)


Make = Callable[..., EmbeddedServer]


Spawn = Callable[..., Worker]


def send(to: EmbeddedServer | Worker, command: str) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(to.socket_path)
        connection.sendall(command.encode() + b"\r\n")
        return connection.recv(65536).decode()


def pid_if_up(server: EmbeddedServer | Worker) -> int | None:
    """Return the id of the server's process; ``None`` where it went away while it was asked."""
    try:
        return pid_of(server)
    except (IndexError, OSError):
        return None


def pid_of(server: EmbeddedServer | Worker) -> int:
    return int(send(server, "INFO server").split("process_id:")[1].split()[0])


def running(group: int) -> bool:
    """Whether a process of the group lives; where there is /proc, zombies that init leaves don't count."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, process_group = entry.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(process_group) == group and state not in "ZX":
                return True
    if not Path("/proc").exists():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, 0)
            return True
    return False


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "it did not come true within 5 s"
        time.sleep(0.01)
