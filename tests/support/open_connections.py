"""Helpers that see which connections a store has open, on the server and in this process, and run scripts apart."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StoreMaker
from tests.support.real_servers import IN_CI

_serial = itertools.count()
_FDS = Path("/proc/self/fd")


def require(*modules: str) -> None:
    """Skip what needs a module that is not installed; in CI go on, and fail where it is imported."""
    for name in () if IN_CI else modules:
        pytest.importorskip(name)


class WatchedServer:
    """A server as `StoreMaker` wants it; the connections of its stores have a name that no others have.

    Args:
        server: A running server.
    """

    def __init__(self, server: Any) -> None:
        self.server = server
        self.name = f"watched-{os.getpid()}-{next(_serial)}"
        self.url = f"{server.url}?client_name={self.name}"

    def client(self, **settings: Any) -> Any:
        return self.server.client(**settings)

    def ids(self) -> set[int]:
        """Return the ids of the open connections; a new connection has a new id."""
        with self.client() as client:
            return {int(one["id"]) for one in client.client_list() if one["name"] == self.name}

    def settle(self, count: int) -> set[int]:
        """Wait until so many connections are open, since the server notices later that one was closed."""
        deadline = time.monotonic() + 10
        while len(ids := self.ids()) != count:
            assert time.monotonic() < deadline, f"{len(ids)} connections are open, not {count}"
            time.sleep(0.005)
        return ids


def watched_maker(server: Any) -> Iterator[StoreMaker]:
    """Yield a maker of stores whose connections can be told apart, for a fixture; it ends as that of `make_store`."""
    maker = StoreMaker(WatchedServer(server))
    yield maker
    maker.finish()


def open_sockets() -> set[str]:
    """Return this process's sockets; skips the test where the system does not tell."""
    if not _FDS.exists():
        pytest.skip("only Linux lists a process's sockets")
    links = set()
    for name in os.listdir(_FDS):
        with contextlib.suppress(FileNotFoundError):
            links.add(os.readlink(_FDS / name))
    return {link for link in links if link.startswith("socket:")}


def run_script(script: str, *args: str, flags: tuple[str, ...] = ("-W", "error")) -> str:
    """Run a script in a Python of its own, which must end well and say nothing on stderr; return what it printed.

    Args:
        script: Its text.
        args: Its arguments.
        flags: For the interpreter; by default every warning is an error, also in finalizers, where Python prints it.
    """
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, *flags, "-c", script, *args],
        capture_output=True, text=True, timeout=60, check=False, cwd=root,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
