"""Searching: by the live index where one namespace is paged, else in the near-cache, else by a scan."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from langgraph.store.base import SearchOp

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import Matrix, load_value, unpack_meta
from langgraph_forgetful_store.backend.flow import Flow, Send, Work, checked
from langgraph_forgetful_store.backend.keys import encode_namespace
from langgraph_forgetful_store.memory import MemorySearchItem
from langgraph_forgetful_store.operations.checks import Namespace, check_count, check_labels, check_refresh
from langgraph_forgetful_store.operations.context import Context
from langgraph_forgetful_store.search.candidates import Candidate, complete
from langgraph_forgetful_store.search.filters import compile_filter
from langgraph_forgetful_store.search.near_cache import Synced, ask_rows
from langgraph_forgetful_store.search.ranking import Question, candidates_of, rank
from langgraph_forgetful_store.search.scan import SLACK, Scan
from langgraph_forgetful_store.search.scoring import normalise

PAGE_LIMIT = 1000
PAGE_LOOK = 20_000
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Search:
    """A checked `SearchOp`.

    Attributes:
        query: ``None`` where nothing is to be compared.
        matches: The filter of values; ``None`` for none.
        filter_name: What tells this filter from others.
    """

    prefix: Namespace
    query: str | None
    matches: Callable[[Any], bool] | None
    filter_name: str
    limit: int
    offset: int
    refresh: bool

    @classmethod
    def prepare(cls, op: SearchOp, context: Context) -> Self:
        """Check an op.

        Raises:
            InvalidNamespaceError: The prefix holds what is no label.
            TypeError: The query is no str, a number no int, or the filter no dict.
            ValueError: A number is negative, or the filter has an unknown operator.
        """
        if op.query is not None and not isinstance(op.query, str):
            raise TypeError(f"query must be a str or None, got {op.query!r}")
        filtered = op.filter is not None and op.filter != {}
        return cls(
            check_labels(op.namespace_prefix, "namespace_prefix"),
            op.query or None if context.index else None,
            compile_filter(op.filter) if filtered else None,
            json.dumps(op.filter, sort_keys=True, default=repr) if filtered else "",
            check_count(op.limit, "limit"),
            check_count(op.offset, "offset"),
            check_refresh(op.refresh_ttl, context.ttl.refresh_on_read),
        )

    @property
    def end(self) -> int:
        """How many rows are wanted, from the first."""
        return self.offset + self.limit


def search(context: Context, frame: scripts.Frame, op: Search, query: Matrix | None) -> Flow[list[MemorySearchItem]]:
    """Search below a prefix.

    Args:
        context: The store's.
        frame: The operation's.
        op: What is asked.
        query: The embedded query, shape (dims,); ``None``: newest first.

    Returns:
        A page of items, filtered before offset and limit.
    """
    if op.limit == 0:
        return []
    page: list[Candidate] | None = None
    if query is None and op.matches is None and op.limit <= PAGE_LIMIT:
        page = yield from _newest(frame, op)
    if page is None:
        question = Question(None if query is None else normalise(query[None])[0], context.preset)
        page = yield from _near(context, frame, op, question)
        if page is None:
            page = yield from _scanned(context, frame, op, question)
    return [candidate.item() for candidate in page]


def _newest(frame: scripts.Frame, op: Search) -> Flow[list[Candidate] | None]:
    call = scripts.page(frame, encode_namespace(op.prefix), op.offset, op.limit, op.refresh, PAGE_LOOK)
    reply = checked((yield Send([call]))[0])
    if reply is None:
        return None
    namespace, *rows = reply
    return [
        Candidate(namespace, key, unpack_meta(meta), None if value is None else load_value(value))
        for key, meta, value, _ in rows
    ]


def _near(context: Context, frame: scripts.Frame, op: Search, question: Question) -> Flow[list[Candidate] | None]:
    for _ in range(ROUNDS):
        synced = yield from context.cache.sync(frame, encode_namespace(op.prefix))
        if synced is None:
            return None
        if op.matches is not None and not (yield from _judge_large(frame, op, synced)):
            continue
        candidates = yield Work(lambda synced=synced: _ranked(op, question, synced), synced.snapshot.size)
        page = yield from complete(frame, candidates[op.offset :], refresh=op.refresh, final=False)
        if page is not None:
            return page
    return None


def _ranked(op: Search, question: Question, synced: Synced) -> list[Candidate]:
    snapshot, mask = synced.snapshot, synced.live
    if op.matches is not None:
        mask = mask & synced.scope.mask(snapshot, op.filter_name, op.matches)[0]
    ranking = rank(snapshot, mask, question, synced.now, op.end)
    candidates = candidates_of(snapshot, ranking)
    for candidate, slot in zip(candidates, ranking.slots.tolist(), strict=True):
        candidate.heard = lambda expires, slot=slot: synced.scope.heard(snapshot, slot, expires)
    return candidates


def _judge_large(frame: scripts.Frame, op: Search, synced: Synced) -> Flow[bool]:
    """Filter the values that are too large to be cached; ``False`` where one has changed meanwhile."""
    assert op.matches is not None
    _, unknown = yield Work(
        lambda: synced.scope.mask(synced.snapshot, op.filter_name, op.matches), synced.snapshot.size
    )
    if not unknown:
        return True
    rows = yield from ask_rows(frame, synced.snapshot, unknown, scripts.WITH_VALUE)
    if not all(isinstance(row, list) and row[1] is not None for row in rows):
        return False
    for slot, row in zip(unknown, rows, strict=True):
        synced.scope.judge(synced.snapshot, op.filter_name, slot, op.matches(load_value(row[1])))
    return True


def _scanned(context: Context, frame: scripts.Frame, op: Search, question: Question) -> Flow[list[Candidate]]:
    dims = context.index.dims if context.index else 0
    scan = Scan(frame, encode_namespace(op.prefix), question, op.matches, dims, op.end)
    page: list[Candidate] | None = None
    for attempt in range(ROUNDS):
        final = attempt == ROUNDS - 1
        candidates, exact = yield from scan.best(SLACK * 10**attempt)
        if exact or final:
            page = yield from complete(frame, candidates[op.offset : op.end], refresh=op.refresh, final=final)
        if page is not None:
            break
    return page or []
