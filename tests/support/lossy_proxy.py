"""A proxy between a client and a server that loses requests and replies on purpose."""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Messages = list[Any]
# redis-py sends a pipeline in pieces, whose bounds may be those of commands; none comes this many seconds later. Large
# commands take longer to make, and more so on a busy machine: there is a moment more for each so many bytes.
MOMENT, BYTES_A_MOMENT = 0.003, 4096


@dataclass(frozen=True)
class Loss:
    """How one pipeline is lost.

    Attributes:
        what: ``"request"``: the server never sees it. ``"reply"``: the server has executed it, and its whole reply is
            lost. ``"half"``: half of the reply arrives. ``"late"``: the server sees it only when the test releases it.
        then: Called after that, and before the client notices.
    """

    what: str
    then: Callable[[], Any] = lambda: None


class Proxy:
    """Passes pipelines on: each as a whole, unless it takes long to arrive.

    Args:
        server_path: The server's unix socket.
        tls: Speaks TLS with clients, over TCP; else plainly, over a unix socket of its own.

    Attributes:
        between: Called after each single command, if it is set.
        fate: Decides, for the commands of a pipeline, how it is lost; ``None``: not at all. Asked only about scripts.
        address: What to connect to: a path, or a host and port.
        seen: The pipelines of scripts that came in.
        errors: What went wrong in the proxy itself.
    """

    def __init__(self, server_path: str, tls: ssl.SSLContext | None = None) -> None:
        self.fate: Callable[[Messages], Loss | None] = lambda commands: None
        self.between: Callable[[], Any] | None = None
        self.seen: list[Messages] = []
        self.errors: list[BaseException] = []
        self._server_path = server_path
        self._tls = tls
        self._folder = Path(tempfile.mkdtemp(prefix="fs-"))
        self._held: list[bytes] = []
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_INET if tls else socket.AF_UNIX)
        self._listener.bind(("127.0.0.1", 0) if tls else str(self._folder / "p"))
        self.address: Any = self._listener.getsockname()
        self._listener.listen(64)
        self._start(self._accept)

    def lose(self, what: str, *, at: int = 0, times: int = 1, then: Callable[[], Any] = lambda: None) -> None:
        """Lose the pipelines number `at` to `at + times - 1` from now on, and call `then` at the first of them."""
        first = len(self.seen) + at

        def fate(commands: Messages) -> Loss | None:
            nth = len(self.seen) - 1 - first
            if not 0 <= nth < times:
                return None
            return Loss(what, then) if nth == 0 else Loss(what)

        self.fate = fate

    def release(self) -> None:
        """Let the server execute the requests that were held back."""
        held, self._held = self._held, []
        for request in held:
            with self._connect() as server:
                server.sendall(request)
                server.shutdown(socket.SHUT_WR)
                while server.recv(65536):
                    pass

    def close(self) -> None:
        """Close every connection; fails where something went wrong in the proxy itself."""
        # Closing alone does not wake a thread that waits in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join()
        shutil.rmtree(self._folder)
        if self.errors:
            raise self.errors[0]

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _connect(self) -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server_path)
        return server

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            self._open.add(client)
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        try:
            if self._tls is not None:
                client = self._tls.wrap_socket(client, server_side=True)
                self._open.add(client)
            with client, self._connect() as server:
                passing = True
                while passing:
                    request, commands = _receive(client)
                    passing = bool(request) and self._pass_on(client, server, request, commands)
        except OSError:
            pass
        except BaseException as error:
            self.errors.append(error)
        finally:
            self._open.discard(client)

    def _pass_on(self, client: socket.socket, server: socket.socket, request: bytes, commands: Messages) -> bool:
        loss = None
        if commands[0][0] in (b"EVAL", b"EVALSHA"):
            self.seen.append(commands)
            loss = self.fate(commands)
        if loss is None:
            client.sendall(self._execute(server, request, commands))
            return True
        reply = b""
        if loss.what == "late":
            self._held.append(request)
        elif loss.what != "request":
            reply = self._execute(server, request, commands)
        loss.then()
        if loss.what == "half":
            client.sendall(reply[: len(reply) // 2])
        return False

    def _execute(self, server: socket.socket, request: bytes, commands: Messages) -> bytes:
        if self.between is None:
            server.sendall(request)
            return _receive(server, len(commands))[0]
        replies = b""
        for command in commands:
            server.sendall(
                b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in command)
            )
            replies += _receive(server, 1)[0]
            self.between()
        return replies


def _receive(source: socket.socket, count: int = 0) -> tuple[bytes, Messages]:
    """Receive `count` messages (0: as many as come at once) and no part of another; nothing where it was closed."""
    data, at = b"", 0
    messages: Messages = []
    while (
        len(messages) < max(count, 1)
        or at < len(data)
        or (count == 0 and select.select([source], [], [], MOMENT * (1 + len(data) // BYTES_A_MOMENT))[0])
    ):
        chunk = source.recv(1 << 20)
        if not chunk:
            return b"", []
        data += chunk
        while (parsed := _parse(data, at)) is not None:
            messages.append(parsed[0])
            at = parsed[1]
    return data, messages


def _parse(data: bytes, at: int) -> tuple[Any, int] | None:
    """Read one message in the protocol's version 2; returns it and its end, or nothing where it is incomplete."""
    stop = data.find(b"\r\n", at)
    if stop < 0:
        return None
    kind, head, at = data[at : at + 1], data[at + 1 : stop], stop + 2
    if kind == b"$" and int(head) >= 0:
        end = at + int(head)
        return (data[at:end], end + 2) if end + 2 <= len(data) else None
    if kind == b"*" and int(head) >= 0:
        parts = []
        for _ in range(int(head)):
            part = _parse(data, at)
            if part is None:
                return None
            parts.append(part[0])
            at = part[1]
        return parts, at
    return head, at
