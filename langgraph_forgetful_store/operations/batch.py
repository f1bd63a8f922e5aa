"""A batch of ops: checked, embedded, read, then written.

Every read sees the state before the batch's writes: the read phase runs to its end first, however often a script
has to be sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any, Self

import numpy as np
from langgraph.store.base import GetOp, ListNamespacesOp, Op, PutOp, Result, SearchOp

from langgraph_forgetful_store.backend.codec import Matrix
from langgraph_forgetful_store.backend.embedding import NO_VECTORS
from langgraph_forgetful_store.backend.flow import Embed, Flow, gather
from langgraph_forgetful_store.operations.get import Get, get
from langgraph_forgetful_store.operations.namespaces import ListNamespaces, list_namespaces
from langgraph_forgetful_store.operations.put import Put, write
from langgraph_forgetful_store.operations.remember import remember
from langgraph_forgetful_store.operations.search import Search, search
from langgraph_forgetful_store.operations.session import Session, open_store
from langgraph_forgetful_store.operations.writing import Writing


@dataclass(slots=True)
class Batch:
    """The checked ops of one batch, sorted by kind.

    Attributes:
        size: How many ops there were.
        gets: Place in the batch, and op; likewise `searches` and `lists`.
        puts: The last op for each row.
    """

    size: int = 0
    gets: list[tuple[int, Get]] = field(default_factory=list)
    searches: list[tuple[int, Search]] = field(default_factory=list)
    lists: list[tuple[int, ListNamespaces]] = field(default_factory=list)
    puts: dict[tuple[tuple[str, ...], str], Put] = field(default_factory=dict)

    @classmethod
    def prepare(cls, ops: Iterable[Op], session: Session) -> Self:
        """Check all ops, before any of them is carried out.

        Raises:
            ValueError: An op is of no known type, or a value or number is unusable.
            InvalidNamespaceError: A namespace is none.
            TypeError: Something has a wrong type.
        """
        batch = cls()
        if not isinstance(ops, Iterable):
            raise TypeError(f"ops must be an iterable of ops, got {ops!r}")
        for at, op in enumerate(ops):
            if isinstance(op, GetOp):
                batch.gets.append((at, Get.prepare(op, session)))
            elif isinstance(op, SearchOp):
                batch.searches.append((at, Search.prepare(op, session)))
            elif isinstance(op, ListNamespacesOp):
                batch.lists.append((at, ListNamespaces.prepare(op)))
            elif isinstance(op, PutOp):
                put = Put.prepare(op, session)
                # Out and in again: the last op also decides the place in the order of writes.
                batch.puts.pop((put.namespace, put.key), None)
                batch.puts[put.namespace, put.key] = put
            else:
                raise ValueError(
                    f"ops holds a {type(op).__name__}, which is no op:"
                    " allowed are GetOp, SearchOp, PutOp and ListNamespacesOp"
                )
            batch.size = at + 1
        return batch

    @property
    def embeds(self) -> bool:
        """Whether anything has to be embedded."""
        if not (self.puts or self.searches):
            return False
        return any(put.texts for put in self.puts.values()) or any(op.texts for _, op in self.searches)

    def run(self, session: Session) -> Flow[list[Result]]:
        """Carry the batch out; one result an op."""
        results: list[Result] = [None] * self.size
        if not self.size:
            return results
        puts = list(self.puts.values())
        vectors, queries = NO_VECTORS, NO_VECTORS
        asked = [text for _, op in self.searches for text in op.texts]
        if self.embeds:
            vectors, queries = yield Embed([text for put in puts for text in put.texts], asked)
        if not session.opened:
            yield from open_store(session)
        frame = session.frame()
        reads: list[Flow[Any]] = [get(session, frame, [op for _, op in self.gets])] if self.gets else []
        at = 0
        for _, op in self.searches:
            until = at + len(op.texts)
            reads.append(search(session, frame, op, queries[at:until] if op.texts else None))
            at = until
        reads += [list_namespaces(frame, op) for _, op in self.lists]
        if reads:
            if len(reads) == 1:
                found = [(yield from reads[0])]
            else:
                found = [outcome.unwrap() for outcome in (yield from gather(reads))]
            if self.gets:
                found[:1] = found[0]
            for (at, _), result in zip((*self.gets, *self.searches, *self.lists), found, strict=True):
                results[at] = result
        at = 0
        for is_simple, group in groupby(puts, lambda put: put.life.is_simple):
            part = list(group)
            until = at + sum(len(put.texts) for put in part)
            if is_simple:
                yield from _write(session, part, vectors[at:until])
            else:
                yield from _remember(session, part, vectors[at:until])
            at = until
        return results


def _write(session: Session, puts: list[Put], vectors: Matrix) -> Flow[None]:
    refused = yield from write(session, session.frame(), puts, vectors)
    if not refused:
        return
    own: dict[int, Matrix] = {}
    at = 0
    for put in puts:
        own[id(put)] = vectors[at : at + len(put.texts)]
        at += len(put.texts)
    for is_planned, group in groupby(refused, lambda one: one[1]):
        part = [put for put, _ in group]
        some = np.concatenate([own[id(put)] for put in part])
        if is_planned:
            yield from _remember(session, part, some)
        else:
            yield from _write(session, part, some)


def _remember(session: Session, puts: list[Put], vectors: Matrix) -> Flow[None]:
    taken: Iterator[bytes] = (vector.tobytes() for vector in vectors)
    for put in puts:
        writing = Writing.of_put(put)
        writing.vectors = b"".join(islice(taken, len(put.texts)))
        yield from remember(session, writing, is_put=True)
