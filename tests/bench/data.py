"""What the benchmarks write: values, puts, vectors, and the same bytes packed for the wire."""

from __future__ import annotations

import itertools
import json
import random
import socket
import uuid
from collections.abc import Iterable
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp

DIMS = 384
DISTINCT_VECTORS = 1000
FILL = 10_000
Namespace = tuple[str, ...]


class Prebuilt(Embeddings):
    """Returns vectors that were there before: lists of floats, as most embedders return them."""

    def __init__(self, dims: int = DIMS) -> None:
        source = random.Random(7)
        self._vectors = [[source.gauss(0, 1) for _ in range(dims)] for _ in range(DISTINCT_VECTORS)]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return list(itertools.islice(itertools.cycle(self._vectors), len(texts)))

    def embed_query(self, text: str) -> list[float]:
        return self._vectors[0]


def value() -> dict[str, Any]:
    """Make a value of about 170 bytes of JSON, none like another."""
    text = f"in turn {uuid.uuid4()} the user said that the meeting has moved to Thursday, in the small room upstairs"
    return {"content": text, "kind": "fact", "turn": 17}


def puts(count: int, namespace: Namespace, ttl: float | None = None) -> list[PutOp]:
    """Make puts of fresh keys."""
    return [PutOp(namespace, str(uuid.uuid4()), value(), ttl=ttl) for _ in range(count)]


def fill(store: Any, ops: Iterable[PutOp]) -> None:
    """Carry out any number of puts."""
    ops = iter(ops)
    while part := list(itertools.islice(ops, FILL)):
        store.batch(part)


def pack(*parts: str | bytes) -> bytes:
    """Pack one command for the wire."""
    data = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"*%d\r\n" % len(data) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in data)


def packed_rows(count: int, *, vectors: bool) -> list[bytes]:
    """Pack HSETs of the bytes that so many puts cannot but bring to the server."""
    ops = puts(count, ())
    hashes: list[list[tuple[str, str | bytes]]] = [[(op.key, json.dumps(op.value)) for op in ops]]
    if vectors:
        hashes.append([(op.key, random.randbytes(4 * DIMS)) for op in ops])
    return [pack("HSET", str(uuid.uuid4()), *itertools.chain.from_iterable(pairs)) for pairs in hashes]


def send_packed(wire: socket.socket, commands: list[bytes]) -> None:
    """Send commands and wait for their replies, which are numbers."""
    for command in commands:
        wire.sendall(command)
        while not wire.recv(64).endswith(b"\n"):
            pass
