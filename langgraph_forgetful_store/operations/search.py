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
from langgraph_forgetful_store.operations.indexing import WHOLE
from langgraph_forgetful_store.operations.session import Session, check_format, open_store
from langgraph_forgetful_store.search.lexical import Query
from langgraph_forgetful_store.search.near_cache import ASK, Synced, ask_dead, ask_rows
from langgraph_forgetful_store.search.presets import is_pointwise, uses_words
from langgraph_forgetful_store.search.question import Question
from langgraph_forgetful_store.search.ranking import Precomputed, rank, rows_of
from langgraph_forgetful_store.search.reserved import Wishes, take_reserved
from langgraph_forgetful_store.search.rows import Row, complete
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
        embeds: Whether it is to be compared by meaning.
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
    embeds: bool = False

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
            op.query or None,
            compile_filter(given) if filtered else None,
            _name_of(given) if filtered else None,
            check_count(op.limit, "limit"),
            check_count(op.offset, "offset"),
            refresh and not wishes.row_filter.is_timed,
            wishes,
            counts=not wishes.row_filter.is_timed,
            embeds=session.index is not None,
        ).checked()

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
        words_only = check_option("words_only", given.pop("words_only", False))
        search = cls.prepare(op, session)
        wishes = search.wishes.with_given(**given) if given else search.wishes
        return replace(
            search,
            wishes=wishes,
            refresh=search.refresh and not wishes.row_filter.is_timed,
            negative=negative_texts(negative, session),
            rerank=rerank,
            counts=counts and not wishes.row_filter.is_timed,
            embeds=search.embeds and not words_only,
        ).checked()

    def checked(self) -> Self:
        """Return it.

        Raises:
            ValueError: It asks for what only an embedder can tell, and there is none.
        """
        wishes = self.wishes
        asked = {
            "min_similarity": wishes.min_similarity is not None,
            "archived_above": wishes.row_filter.archived_above is not None,
            "goal": wishes.goal is not None,
            "negative": bool(self.negative),
        }
        if not self.embeds and (names := [name for name, given in asked.items() if given]):
            raise ValueError(
                f"{' and '.join(names)} can't be used without an embedder: give the store an index config, and no"
                " words_only"
            )
        return self

    @property
    def end(self) -> int:
        """How many rows are wanted, from the first."""
        return self.offset + self.limit

    @property
    def texts(self) -> list[str]:
        """What has to be embedded as queries: the query, the goal and the rejected memories, those that are given."""
        if self.query is None or not self.embeds:
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
        preset = session.preset if wishes.scoring is None else wishes.scoring
        words = None
        if self.query is not None and (uses_words(preset) or wishes.min_relevance is not None):
            words = Query.of(self.query)
        return Question(
            query,
            preset,
            wishes.row_filter,
            wishes.min_similarity,
            goal,
            wishes.explain,
            self.matches is not None,
            session.types,
            words,
            wishes.min_relevance,
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
            paths = session.index.fields if session.index else WHOLE
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
    page: list[Row] | None = None
    question = op.question(session, vectors)
    needs = op.wishes.min_similarity is not None or op.wishes.min_relevance is not None
    if needs and not question.is_ranked:
        # Nothing can be similar enough where there is nothing to compare.
        return []
    if not question.is_ranked and op.matches is None and op.wishes.is_plain and op.limit <= PAGE_LIMIT:
        page = yield from _newest(frame, op)
    if page is None and not op.wishes.row_filter.reads_closed:
        # What is closed is not kept near.
        page = yield from _near(session, frame, op, question)
    if page is None:
        page = yield from _scanned(session, frame, op, question)
    lives = [row.life for row in page]
    # Listings don't count: clients that treat the store as files page through everything.
    counted = session.access.unwritten(lives, count=question.is_ranked and op.counts)
    items = [row.item(more) for row, more in zip(page, counted, strict=True)]
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


def _newest(frame: scripts.Frame, op: Search) -> Flow[list[Row] | None]:
    call = scripts.page(frame, encode_namespace(op.prefix), op.offset, op.limit, op.refresh, PAGE_LOOK)
    reply = checked((yield Send([call]))[0])
    if reply is None:
        return None
    namespace, *rows = reply
    return [
        Row(
            namespace,
            key,
            unpack_meta(meta),
            None if value is None else load_value(value),
            rest,
            decode_type(name),
        )
        for key, meta, value, rest, name in rows
    ]


def _near(session: Session, frame: scripts.Frame, op: Search, question: Question) -> Flow[list[Row] | None]:
    prefix, check = encode_namespace(op.prefix), partial(check_format, session)
    for _ in range(ROUNDS):
        precomputed = Precomputed(question, op.end)
        synced = yield from session.cache.sync(frame, prefix, check, precomputed.prepare)
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
        rows = None
        # Where a score depends on all that may be returned, what may be gone is to be known first.
        counts_gone = bool(synced.doubtful) and (question.words is not None or not is_pointwise(question.preset))
        if not (synced.is_layered_doubtfully or counts_gone):
            ranked = partial(_ranked, op, question, synced, mask, precomputed)
            rows = ranked() if size <= MANY else (yield Work(ranked, size))
        doubtful = set(synced.doubtful)
        if rows is None or any(row.slot in doubtful for row in rows):
            dead, was_known = yield from ask_dead(frame, synced)
            if dead and not was_known:
                continue
            mask = mask.copy()
            mask[dead] = False
            synced = synced.without(dead)
            ranked = partial(_ranked, op, question, synced, mask, precomputed)
            rows = ranked() if size <= MANY else (yield Work(ranked, size))
            if len(doubtful) > ASK and (counts_gone or any(row.slot in doubtful for row in rows)):
                synced.scope.forget()
                continue
        if question.query is not None and not session.told_of_blind and not synced.snapshot.one_to_one:
            session.tell_of_blind(op.prefix, synced.snapshot.without_vectors(mask))
        page = yield from complete(frame, rows[op.offset :], refresh=op.refresh, final=False)
        if page is not None:
            return page
    return None


def _ranked(op: Search, question: Question, synced: Synced, mask: Mask, precomputed: Precomputed) -> list[Row]:
    snapshot = synced.snapshot
    ranking = rank(snapshot, mask, question, synced.types, synced.now, op.end, precomputed)
    return rows_of(snapshot, ranking, question, synced.types, "near-cache", synced.now, synced.scope.heard)


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


def _scanned(session: Session, frame: scripts.Frame, op: Search, question: Question) -> Flow[list[Row]]:
    dims = session.index.dims if session.index else 0
    scan = Scan(frame, encode_namespace(op.prefix), question, op.matches, dims, op.end, partial(check_format, session))
    page: list[Row] | None = None
    for attempt in range(ROUNDS):
        final = attempt == ROUNDS - 1
        rows, exact = yield from scan.best(SLACK * 10**attempt)
        session.saw(scan.now)
        if question.query is not None:
            session.tell_of_blind(op.prefix, scan.blind)
        if exact or final:
            page = yield from complete(frame, rows[op.offset : op.end], refresh=op.refresh, final=final)
        if page is not None:
            break
    return page or []
