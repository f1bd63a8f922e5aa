"""Searching: by the live index where one namespace is paged, else in the near-cache, else by a scan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from langgraph.store.base import Item, SearchOp, get_text_at_path

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import Matrix, load_value, unpack_meta
from langgraph_forgetful_store.backend.flow import MANY, Embed, Flow, Send, Work, checked
from langgraph_forgetful_store.backend.keys import encode_namespace
from langgraph_forgetful_store.model.checks import Namespace, check_count, check_labels, check_refresh
from langgraph_forgetful_store.model.filters import compile_filter
from langgraph_forgetful_store.model.memory import MemorySearchItem, Recalled
from langgraph_forgetful_store.model.memory_types import decode_type
from langgraph_forgetful_store.model.options import RecallOptions, Rerank, check_known, check_option
from langgraph_forgetful_store.operations.session import Session, check_format, open_store
from langgraph_forgetful_store.search.candidates import Candidate, complete
from langgraph_forgetful_store.search.near_cache import ASK, Synced, ask_dead, ask_rows
from langgraph_forgetful_store.search.question import Question
from langgraph_forgetful_store.search.ranking import Draft, candidates_of, rank
from langgraph_forgetful_store.search.reserved import Wishes, take_reserved
from langgraph_forgetful_store.search.scan import SLACK, Scan
from langgraph_forgetful_store.search.scoring import normalise
from langgraph_forgetful_store.search.table import Mask

PAGE_LIMIT = 1000
PAGE_LOOK = 20_000
ROUNDS = 3
# What of the mean of rejected memories is taken from the query.
NEGATIVE_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Search:
    """A checked `SearchOp`, or a recall.

    Attributes:
        query: ``None`` where nothing is to be compared.
        matches: The filter of values; ``None`` for none.
        filter_name: What tells this filter from others; ``None`` where nothing does.
        wishes: What is asked about the lifecycle.
        negative: Texts of rejected memories.
        rerank: Reorders the page.
        counts: Whether what is returned counts as accessed.
    """

    prefix: Namespace
    query: str | None
    matches: Callable[[Any], bool] | None
    filter_name: str | None
    limit: int
    offset: int
    refresh: bool
    wishes: Wishes
    negative: tuple[str, ...] = ()
    rerank: Rerank | None = None
    counts: bool = True

    @classmethod
    def prepare(cls, op: SearchOp, session: Session) -> Self:
        """Check an op.

        Raises:
            InvalidNamespaceError: The prefix holds what is no label.
            TypeError: The query is no str, a number no int, or the filter no dict.
            ValueError: A number is negative, or the filter has an unknown operator or field.
        """
        if op.query is not None and not isinstance(op.query, str):
            raise TypeError(f"query must be a str or None, got {op.query!r}")
        given, wishes = take_reserved(op.filter, session.reserved_key)
        filtered = given is not None and given != {}
        refresh = check_refresh(op.refresh_ttl, session.ttl.refresh_on_read)
        return cls(
            check_labels(op.namespace_prefix, "namespace_prefix"),
            op.query or None if session.index else None,
            compile_filter(given) if filtered else None,
            _name_of(given) if filtered else None,
            check_count(op.limit, "limit"),
            check_count(op.offset, "offset"),
            refresh and not wishes.admission.is_timed,
            wishes,
            counts=not wishes.admission.is_timed,
        )

    @classmethod
    def recalled(cls, namespace_prefix: Any, query: Any, session: Session, options: RecallOptions) -> Self:
        """Check a recall: where its filter and its arguments both speak of the lifecycle, the arguments count.

        What either asks to explain is explained.

        Raises:
            InvalidNamespaceError, TypeError, ValueError: As `prepare`; or an option is unknown.
        """
        given: dict[str, Any] = dict(options)
        check_known(given, "recall")
        op = SearchOp(
            namespace_prefix,
            given.pop("filter", None),
            given.pop("limit", 10),
            given.pop("offset", 0),
            query,
            given.pop("refresh_ttl", None),
        )
        negative, rerank = given.pop("negative", None), check_option("rerank", given.pop("rerank", None))
        counts = check_option("track_access", given.pop("track_access", True))
        search = cls.prepare(op, session)
        wishes = search.wishes.with_given(**given) if given else search.wishes
        return replace(
            search,
            wishes=wishes,
            refresh=search.refresh and not wishes.admission.is_timed,
            negative=negative_texts(negative, session),
            rerank=rerank,
            counts=counts and not wishes.admission.is_timed,
        )

    @property
    def end(self) -> int:
        """How many rows are wanted, from the first."""
        return self.offset + self.limit

    @property
    def texts(self) -> list[str]:
        """What has to be embedded as queries: the query, the goal and the rejected memories, those that are given."""
        if self.query is None:
            return []
        return [self.query, *([self.wishes.goal] if self.wishes.goal else []), *self.negative]

    def question(self, session: Session, vectors: Matrix | None) -> Question:
        """Return what is asked of rows.

        Args:
            session: The store's.
            vectors: Of `texts`, shape (len(texts), dims).
        """
        wishes = self.wishes
        query = goal = None
        if vectors is not None and self.query is not None:
            unit = normalise(vectors)
            query, goal = unit[0], unit[1] if wishes.goal else None
            if self.negative:
                rejected = unit[len(unit) - len(self.negative) :].mean(axis=0)
                query = normalise((query - NEGATIVE_SHARE * rejected)[None])[0]
        return Question(
            query,
            session.preset,
            wishes.admission,
            wishes.min_similarity,
            goal,
            wishes.explain,
            self.matches is not None,
            session.types,
        )


def _name_of(given: object) -> str | None:
    """Return what tells a filter from others; ``None`` where nothing does.

    Raises:
        ValueError: It is nested too deeply.
    """
    try:
        return json.dumps(given, sort_keys=True) if _is_json(given) else None
    except RecursionError as error:
        raise ValueError("filter is nested too deeply") from error


def _is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(name) is str and _is_json(part) for name, part in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_json, value))
    return value is None or type(value) in (str, int, float, bool)


def negative_texts(rejected: Iterable[str | Item] | None, session: Session) -> tuple[str, ...]:
    """Return the texts by which rejected memories are embedded.

    Raises:
        TypeError: One is neither a str nor an item.
    """
    texts: list[str] = []
    for one in check_option("negative", rejected) or ():
        if isinstance(one, str):
            texts.append(one)
        else:
            paths = session.index.fields if session.index else ()
            texts += [text for path in paths for text in get_text_at_path(one.value, path)]
    return tuple(texts)


def search(session: Session, frame: scripts.Frame, op: Search, vectors: Matrix | None) -> Flow[list[MemorySearchItem]]:
    """Search below a prefix.

    Args:
        session: The store's.
        frame: The operation's.
        op: What is asked.
        vectors: Of the op's texts, shape (len(texts), dims); ``None`` without a query.

    Returns:
        A page of items, filtered before offset and limit.
    """
    if op.limit == 0:
        return []
    page: list[Candidate] | None = None
    question = op.question(session, vectors)
    if question.query is None and op.wishes.min_similarity is not None:
        # Nothing can be similar enough where there is nothing to compare.
        return []
    if question.query is None and op.matches is None and op.wishes.is_plain and op.limit <= PAGE_LIMIT:
        page = yield from _newest(frame, op)
    if page is None and not op.wishes.admission.reads_closed:
        # What is closed is not kept near.
        page = yield from _near(session, frame, op, question)
    if page is None:
        page = yield from _scanned(session, frame, op, question)
    lives = [candidate.life for candidate in page]
    # Listings don't count: clients that treat the store as files page through everything.
    counted = session.access.unwritten(lives, count=question.query is not None and op.counts)
    items = [candidate.item(more) for candidate, more in zip(page, counted, strict=True)]
    recalled = Recalled(lives)
    for item in items:
        item.recalled = recalled
    if op.rerank is not None:
        items = _reranked(op, items)
    return items


def _reranked(op: Search, items: list[MemorySearchItem]) -> list[MemorySearchItem]:
    assert op.rerank is not None
    found = list(op.rerank(op.query, list(items)))
    if sorted(map(id, found)) != sorted(map(id, items)):
        raise ValueError(f"rerank must return the {len(items)} items it was given, in any order; it returned {found!r}")
    return found


def recall(session: Session, op: Search) -> Flow[list[MemorySearchItem]]:
    """Do as `search` does, from the embedding on."""
    vectors = (yield Embed((), op.texts))[1] if op.texts else None
    yield from open_store(session)
    return (yield from search(session, session.frame(), op, vectors))


def _newest(frame: scripts.Frame, op: Search) -> Flow[list[Candidate] | None]:
    call = scripts.page(frame, encode_namespace(op.prefix), op.offset, op.limit, op.refresh, PAGE_LOOK)
    reply = checked((yield Send([call]))[0])
    if reply is None:
        return None
    namespace, *rows = reply
    return [
        Candidate(
            namespace,
            key,
            unpack_meta(meta),
            None if value is None else load_value(value),
            rest,
            decode_type(name),
        )
        for key, meta, value, rest, name in rows
    ]


def _near(session: Session, frame: scripts.Frame, op: Search, question: Question) -> Flow[list[Candidate] | None]:
    prefix, check = encode_namespace(op.prefix), partial(check_format, session)
    for _ in range(ROUNDS):
        draft = Draft(question, op.end)
        synced = yield from session.cache.sync(frame, prefix, check, draft.prepare)
        if synced is None:
            return None
        session.saw(synced.now)
        mask = synced.live
        if op.matches is not None:
            matching = yield from matching_slots(frame, op, op.matches, synced)
            if matching is None:
                continue
            mask = mask & matching
        size = synced.snapshot.size
        candidates = None
        if not synced.is_layered_doubtfully:
            ranked = partial(_ranked, op, question, synced, mask, draft)
            candidates = ranked() if size <= MANY else (yield Work(ranked, size))
        doubtful = set(synced.doubtful)
        if candidates is None or any(candidate.slot in doubtful for candidate in candidates):
            dead, was_known = yield from ask_dead(frame, synced)
            if dead and not was_known:
                continue
            mask = mask.copy()
            mask[dead] = False
            synced = synced.without(dead)
            ranked = partial(_ranked, op, question, synced, mask, draft)
            candidates = ranked() if size <= MANY else (yield Work(ranked, size))
            if len(doubtful) > ASK and any(candidate.slot in doubtful for candidate in candidates):
                synced.scope.forget()
                continue
        page = yield from complete(frame, candidates[op.offset :], refresh=op.refresh, final=False)
        if page is not None:
            return page
    return None


def _ranked(op: Search, question: Question, synced: Synced, mask: Mask, draft: Draft) -> list[Candidate]:
    snapshot = synced.snapshot
    ranking = rank(snapshot, mask, question, synced.types, synced.now, op.end, draft)
    return candidates_of(snapshot, ranking, question, synced.types, "near-cache", synced.now, synced.scope.heard)


def matching_slots(
    frame: scripts.Frame, op: Search, matches: Callable[[Mapping[str, Any]], bool], synced: Synced
) -> Flow[Mask | None]:
    """Filter; ``None`` where a value that is too large to be cached has changed meanwhile."""
    judge = partial(synced.scope.mask, synced.snapshot, op.filter_name, matches)
    mask: Mask
    mask, unknown = yield Work(judge, synced.snapshot.size)
    if not unknown:
        return mask
    rows = yield from ask_rows(frame, synced.snapshot, unknown, scripts.WITH_VALUE)
    for slot, row in zip(unknown, rows, strict=True):
        if not isinstance(row, list) or row[1] is None:
            return None
        # What the scope remembers may be dropped at any time by other searches, so this one goes by its own mask.
        mask[slot] = matches(load_value(row[1]))
        synced.scope.judge(synced.snapshot, op.filter_name, slot, bool(mask[slot]))
    return mask


def _scanned(session: Session, frame: scripts.Frame, op: Search, question: Question) -> Flow[list[Candidate]]:
    dims = session.index.dims if session.index else 0
    scan = Scan(frame, encode_namespace(op.prefix), question, op.matches, dims, op.end, partial(check_format, session))
    page: list[Candidate] | None = None
    for attempt in range(ROUNDS):
        final = attempt == ROUNDS - 1
        candidates, exact = yield from scan.best(SLACK * 10**attempt)
        session.saw(scan.now)
        if exact or final:
            page = yield from complete(frame, candidates[op.offset : op.end], refresh=op.refresh, final=final)
        if page is not None:
            break
    return page or []
