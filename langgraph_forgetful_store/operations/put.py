"""Writing and deleting rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Self

from langgraph.store.base import NOT_PROVIDED, PutOp, get_text_at_path

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import Matrix, dump_value, load_value
from langgraph_forgetful_store.backend.flow import MANY, Flow, Send, Work, as_client_error
from langgraph_forgetful_store.backend.keys import encode_namespace, encode_text
from langgraph_forgetful_store.config import Path, check_paths, tokenize
from langgraph_forgetful_store.errors import CorruptRecordError
from langgraph_forgetful_store.model.checks import Namespace, check_depth, check_labels, ttl_to_ms
from langgraph_forgetful_store.model.memory_types import lifetime
from langgraph_forgetful_store.model.packing import Patch
from langgraph_forgetful_store.operations.session import Session, check_format
from langgraph_forgetful_store.operations.sweep import beside, swept_beside


@dataclass(slots=True)
class Put:
    """A checked `PutOp`.

    Attributes:
        value: The value as JSON; ``None`` deletes.
        ttl: In ms; ``None`` is never.
        patch: What it changes of the memory's life, packed.
        texts: What is to be embedded.
        life: What it changes of the memory's life.
        given_ttl: The ttl that the op says itself, in ms; `NOT_PROVIDED` where its type decides.
    """

    namespace: Namespace
    key: str
    value: bytes | None = None
    ttl: int | None = None
    patch: bytes = b""
    texts: list[str] = field(default_factory=list)
    life: Patch = field(default_factory=Patch)
    given_ttl: Any = None

    @classmethod
    def prepare(cls, op: PutOp, session: Session) -> Self:
        """Check an op.

        Raises:
            InvalidNamespaceError: Its namespace is none, or too deep to be written to.
            TypeError: The value is no mapping or holds what is not JSON; or the index or ttl has a wrong type.
            ValueError: The value holds a NaN or an infinity; or the ttl is negative, not finite, or ends after 9999.
        """
        paths = index_paths(op.index, session)
        ttl = None if op.ttl is None else ttl_to_ms(op.ttl)
        put = cls(check_labels(op.namespace, "namespace"), str(op.key), ttl=ttl, given_ttl=ttl)
        if op.value is not None:
            check_depth(put.namespace)
            if not isinstance(op.value, Mapping):
                raise TypeError(f"value must be a dict, or None to delete, got {op.value!r}")
            plain = op.value
            if session.reserved_key is not None and session.reserved_key in plain:
                plain = {name: part for name, part in plain.items() if name != session.reserved_key}
                given = op.value[session.reserved_key]
                put._live(Patch.parse(given, f"value[{session.reserved_key!r}]"), session)
            put.value = dump_value(plain)
            if paths:
                # Texts are taken from what will be read back: tuples are lists there, mappings dicts.
                value = load_value(put.value)
                put.texts = [text for path in paths for text in get_text_at_path(value, path)]
        session.check_ttl(put.ttl)
        return put

    def _live(self, patch: Patch, session: Session) -> None:
        kind = session.types[patch.memory_type] if patch.memory_type else None
        if kind is not None and self.given_ttl is None:
            # The API of the server sends no ttl as None, so a named type counts for it.
            self.given_ttl = NOT_PROVIDED
        self.ttl, absolute = lifetime(self.given_ttl, patch.memory_type, kind, None)
        self.life = patch
        self.patch = patch.pack(kind, absolute)

    @property
    def row(self) -> tuple[bytes, bytes]:
        """The encoded namespace and key."""
        return encode_namespace(self.namespace), encode_text(self.key)


def index_paths(index: Any, session: Session) -> Sequence[Path]:
    """Return the tokenized paths of what is to be embedded.

    Args:
        index: What a put says; ``None``: the store's default, ``False``: nothing.
        session: The store's.

    Raises:
        TypeError: It is neither, nor a list of paths.
    """
    if index is False:
        return ()
    if index is None:
        return session.index.fields if session.index else ()
    if index is True:
        raise TypeError("index must be None, False or a list of field paths, got True")
    paths = check_paths(index, "index")
    return [tokenize(path) for path in paths] if session.index else ()


def write(session: Session, frame: scripts.Frame, puts: Sequence[Put], vectors: Matrix) -> Flow[list[tuple[Put, bool]]]:
    """Write and delete rows, in order.

    Args:
        session: The store's.
        frame: The operation's.
        puts: One a row.
        vectors: One for each text of `puts`, in order.

    Returns:
        What was not written, and for each whether it changes a line, so that it has to be planned.

    Raises:
        ConfigurationError: The stored vectors are another embedder's; nothing of that script call is written.
        redis.exceptions.RedisError: The server refused; the message says how many rows were written before.
    """
    build = partial(_calls, session, frame, puts, vectors)
    calls: list[scripts.Call] = build() if len(puts) < MANY else (yield Work(build, len(puts)))
    wanted = len(calls)
    replies = yield Send([*calls, *beside(session, frame, len(puts))])
    swept_beside(session, replies[wanted:])
    _check(session, calls, replies[:wanted], len(puts))
    written = [put for put in puts if put.value is not None]
    refused: list[tuple[Put, bool]] = []
    at = 0
    for call, reply in zip(calls[:wanted], replies, strict=False):
        if isinstance(reply, list) and reply[0] == b"PLAN":
            planned = set(reply[1:])
            refused += [(put, number in planned) for number, put in enumerate(written[at : at + call.rows])]
        at += call.rows
    return refused


def _calls(session: Session, frame: scripts.Frame, puts: Sequence[Put], vectors: Matrix) -> list[scripts.Call]:
    taken: Iterator[bytes] = (vector.tobytes() for vector in vectors)
    rows = [
        scripts.PutRow(*put.row, put.value, b"".join(islice(taken, len(put.texts))), put.ttl, put.patch)
        for put in puts
        if put.value is not None
    ]
    calls = scripts.put(frame, session.format, rows)
    return calls + scripts.delete(frame, ((*put.row, "") for put in puts if put.value is None))


def _check(session: Session, calls: Sequence[scripts.Call], replies: Sequence[Any], wanted: int) -> None:
    written = sum(
        call.rows for call, reply in zip(calls, replies, strict=True) if not isinstance(reply, Exception | list)
    )
    for reply in replies:
        if isinstance(reply, list) and reply[0] != b"PLAN":
            check_format(session, [part or None for part in reply[1:]])
            raise CorruptRecordError(
                f"what the stored data say of themselves (the key fmt) can't be read: {reply[1:]!r}"
            )
        if isinstance(reply, Exception):
            error = as_client_error(reply)
            if wanted > 1:
                raise _with_note(error, f"({written} of the batch's {wanted} writes were made)") from reply
            raise error from (None if error is reply else reply)


def _with_note(error: BaseException, note: str) -> BaseException:
    try:
        return type(error)(f"{error} {note}")
    except Exception:
        # Some of redis-py's errors are made of a reply, not of a message.
        error.add_note(note)
        return error
