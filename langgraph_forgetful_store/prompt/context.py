"""From recalled memories to a part of a prompt: what matters most, within a budget, as data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal, cast

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import HumanMessage
from langgraph.store.base import Item, SearchItem

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.model.checks import (
    as_settings,
    check_count,
    check_flag,
    check_function,
    cosine,
    is_sync_function,
    unusable,
)
from langgraph_forgetful_store.model.memory import MemoryItem, MemorySearchItem
from langgraph_forgetful_store.model.memory_types import HYPOTHESIS
from langgraph_forgetful_store.model.status import MemoryStatus
from langgraph_forgetful_store.prompt.rendering import (
    Memory,
    describe,
    estimate_tokens,
    frame,
    left_out,
    length_of,
    memory_of,
    render,
)

# Ours; a threshold belongs to the embedder, and most put unrelated texts below this one.
SIMILARITY_FLOOR = 0.2
# One part in five of the budget is for what is always told.
RESERVED_SHARE = 5
# A memory that would take more than one part in four of the budget is cut.
LONGEST_SHARE = 4

Order = Literal["edges", "best_first"]
Rank = Literal["score", "given"]
Address = tuple[tuple[str, ...], str]
Related = Mapping[Address, Iterable[tuple[str, Memory]]]
TokenCounter = Callable[..., int] | BaseLanguageModel[Any]


@dataclass(frozen=True, slots=True)
class MemoryContext:
    """A part of a prompt.

    Attributes:
        text: It; ``""`` where there is nothing to tell.
        items: The memories in it, best first.
        tokens: What it costs.
        left_out: How many memories found no room.
    """

    text: str = ""
    items: tuple[Memory, ...] = ()
    tokens: int = 0
    left_out: int = 0


def assemble_context(
    items: Iterable[Memory | Mapping[str, Any]],
    *,
    max_tokens: int,
    count_tokens: TokenCounter | None = None,
    order: Order = "edges",
    rank: Rank = "score",
    min_similarity: float | None = SIMILARITY_FLOOR,
    related: Related | None = None,
    allow: Callable[[Memory], bool] | None = None,
    with_keys: bool = False,
) -> str:
    """Turn memories into a part of a prompt that never costs more than a budget.

    Pinned and identity memories come first, for up to a fifth of the budget; then the others by score, and those of
    the first that found no room; then what is linked to those that are in. A text that would take more than a quarter
    of the budget is cut, and the line says so; how many memories found no room is told at the end. The same arguments
    give the same text.

    Each memory is a line: its text, the day on which it was last known, its source, and in brackets what is unusual
    about it: that it is archived, superseded, unsure, bound in time, about another subject, or cut. Its text stays
    inside of a JSON string, whatever it holds, and so can't pose as a part of the prompt.

    Args:
        items: What `recall`, `search` or `get` returned; or the dicts that their ``dict()`` gives, as
            ``recalled_memories`` holds them in a graph's state.
        max_tokens: The budget, for all of the text.
        count_tokens: Counts the tokens of a text; or LangChain's counters of messages, told by a first parameter called
            ``messages``; or a language model, which counts itself. ``None``: an estimate that is rather too high (see
            `rendering.estimate_tokens`), for Chinese, Japanese and Korean too.
        order: ``"edges"``: the best at both ends and the least in the middle, where models overlook it;
            ``"best_first"``.
        rank: ``"score"``: the highest score is the best; ``"given"``: the first one is, for items that were reranked.
        min_similarity: Found memories less similar to the query than this are left out, even where there is room, as
            are those that could not be compared while others could. It judges neither what `get` returned nor what
            is told within that fifth. The default suits most embedders, yet such a threshold belongs to the
            embedder. ``None``: none are left out. Dicts hold a similarity only where the search explained its scores:
            give ``None`` for those of a state together with items of another recall.
        related: By the namespace and key of a memory, what `neighbors` returned for it. Only active ones are told.
        allow: Leaves out those for which it returns ``False``.
        with_keys: Whether the keys are told, for models with tools that take them.

    Returns:
        The text; ``""`` where nothing is left, or nothing fits.

    Raises:
        ConfigurationError: A setting is unusable.
        ValueError: `items` or `related` hold what is no memory.
    """
    return build_context(
        items,
        max_tokens=max_tokens,
        count_tokens=count_tokens,
        order=order,
        rank=rank,
        min_similarity=min_similarity,
        related=related,
        allow=allow,
        with_keys=with_keys,
    ).text


def build_context(
    items: Iterable[Memory | Mapping[str, Any]],
    *,
    max_tokens: int,
    count_tokens: TokenCounter | None = None,
    order: Order = "edges",
    rank: Rank = "score",
    min_similarity: float | None = SIMILARITY_FLOOR,
    related: Related | None = None,
    allow: Callable[[Memory], bool] | None = None,
    with_keys: bool = False,
) -> MemoryContext:
    """Do as `assemble_context` does, and tell which memories are in, and what it costs."""
    _check(max_tokens, order, rank, min_similarity)
    check_function(allow, "allow", "of a memory", optional=True)
    check_flag(with_keys, "with_keys")
    links = _read_related(related)
    rows = [row for row in _once(_read(items)) if allow is None or allow(row)]
    budget = _Budget(max_tokens, _counter(count_tokens), order)
    ranked = sorted(rows, key=_by_score) if rank == "score" else rows
    always = [row for row in ranked if _is_always_told(row)]
    reserved = budget.reserve([budget.line(row, None, with_keys) for row in always])
    kept = {_address(line.item) for line in reserved}
    judged = min_similarity is not None and any(getattr(row, "similarity", None) is not None for row in rows)
    seeds = [
        budget.line(row, None, with_keys)
        for row in ranked
        if _address(row) not in kept and not (judged and _is_below(row, min_similarity or 0.0))
    ]
    budget.fill(seeds)
    if links:
        runs = {memory_of(row).run_id for row in rows} | {None}
        # A list, since what follows adds to the lines.
        for seed in list(budget.lines):
            pairs = links.get(_address(seed.item), ())
            budget.fill(
                [
                    budget.line(row, relation, with_keys)
                    for relation, row in pairs
                    if _may_follow(row, runs) and (allow is None or allow(row))
                ]
            )
    return budget.finish()


def check_assembly(**settings: Any) -> None:
    """Check the settings of `build_context` where a node gives them: there `min_similarity` is `min_relevance`.

    Raises:
        ConfigurationError: One is unusable.
    """
    try:
        build_context([], **settings)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace("min_similarity", "min_relevance")) from error


def _check(max_tokens: object, order: object, rank: object, min_similarity: object) -> None:
    with as_settings():
        check_count(max_tokens, "max_tokens")
        if min_similarity is not None:
            cosine(min_similarity, "min_similarity")
    if order not in ("edges", "best_first"):
        raise unusable("order", "'edges' or 'best_first'", order)
    if rank not in ("score", "given"):
        raise unusable("rank", "'score' or 'given'", rank)


def _read(items: object) -> list[Memory]:
    if not isinstance(items, Iterable) or isinstance(items, str | Mapping):
        raise ValueError(f"items must be a list of what recall, search or get returned, got {items!r:.200}")
    return [_item(given) for given in items]


def _item(given: object) -> Memory:
    """Return a memory, made anew where what came is what its `dict` gave."""
    if isinstance(given, Item):
        # Other stores' items will do too.
        return cast(Memory, given)
    problem: Exception | None = None
    if isinstance(given, Mapping):
        try:
            kind: type[Memory] = MemorySearchItem if "score" in given else MemoryItem
            item = kind(**given)
            # What is missing, or of a wrong kind, shows where it is told and ranked.
            describe(item)
            _by_score(item)
            _is_below(item, 0.0)
            return item
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = error
    raise ValueError(
        f"items must hold what recall, search or get returned, or its dict(), got {given!r:.200}"
    ) from problem


def _read_related(related: object) -> dict[Address, list[tuple[str, Memory]]]:
    allowed = "related must be a dict of lists of (relation, memory) by (namespace, key)"
    if not isinstance(related, Mapping | None):
        raise ValueError(f"{allowed}, or None, got {related!r}")
    try:
        return {
            address: [(relation, _item(row)) for relation, row in pairs] for address, pairs in (related or {}).items()
        }
    except (TypeError, ValueError) as error:
        raise ValueError(f"{allowed}: {error}") from error


def _address(row: Memory) -> Address:
    return tuple(row.namespace), row.key


def _once(items: Iterable[Memory]) -> list[Memory]:
    """Return each memory once; of two, the one that was compared with a query."""
    found: dict[Address, Memory] = {}
    for item in items:
        known = found.get(_address(item))
        if known is None or (_score(known) is None and _score(item) is not None):
            found[_address(item)] = item
    return list(found.values())


def _score(row: Memory) -> float | None:
    return getattr(row, "score", None)


def _by_score(row: Memory) -> tuple[bool, float]:
    score = _score(row)
    return score is None, -(score or 0.0)


def _is_always_told(row: Memory) -> bool:
    memory = memory_of(row)
    return memory.status is MemoryStatus.ACTIVE and (memory.pinned or memory.memory_type == "identity")


def _is_below(row: Memory, min_relevance: float) -> bool:
    similarity = getattr(row, "similarity", None)
    return isinstance(row, SearchItem) and (similarity is None or similarity < min_relevance)


def _may_follow(row: Memory, runs: set[str | None]) -> bool:
    memory = memory_of(row)
    return memory.status is MemoryStatus.ACTIVE and memory.memory_type != HYPOTHESIS and memory.run_id in runs


@dataclass(frozen=True, slots=True)
class _Line:
    item: Memory
    text: str


def _counter(given: TokenCounter | None) -> Callable[[str], int]:
    if given is None:
        return estimate_tokens
    if isinstance(given, BaseLanguageModel):
        return given.get_num_tokens
    if not is_sync_function(given):
        raise unusable("count_tokens", "a function of a text, a language model or None", given)
    count = given
    try:
        first = next(iter(inspect.signature(count).parameters), "")
    except ValueError:  # functions of C tell no signature
        first = ""

    def counted(text: str) -> int:
        tokens: Any = count([HumanMessage(text)] if first == "messages" else text)
        if isinstance(tokens, bool) or not isinstance(tokens, Integral) or tokens < 0:
            # Set up wrong, whoever called with it: a tool must not tell a model to mend it.
            raise ConfigurationError(f"count_tokens must return a whole number from 0, it returned {tokens!r}")
        return int(tokens)

    return counted


@dataclass(slots=True)
class _Budget:
    limit: int
    count: Callable[[str], int]
    order: Order
    lines: list[_Line] = field(default_factory=list)
    _passed: dict[Address, None] = field(default_factory=dict)
    _spent: int = -1
    _empty: int = 0

    def __post_init__(self) -> None:
        self._empty = self._spent = self.count(frame(()))

    def line(self, row: Memory, relation: str | None, with_key: bool) -> _Line:
        """Return the line of a memory, cut where it would take too much of the budget."""
        line = _Line(row, render(row, relation, with_key=with_key))
        most = self.limit // LONGEST_SHARE
        # A token is no less than a character of some, and no more than a byte of others: most lines are short.
        if len(line.text) <= most // 2 or self._cost(line) <= most:
            return line
        shortest, longest = 0, length_of(row)
        while longest - shortest > 8:
            middle = (shortest + longest) // 2
            tried = _Line(row, render(row, relation, with_key=with_key, most=middle))
            if self._cost(tried) <= most:
                line, shortest = tried, middle
            else:
                longest = middle
        return line

    def reserve(self, lines: Sequence[_Line]) -> list[_Line]:
        """Take lines for the share of the budget that is theirs."""
        share = self.limit // RESERVED_SHARE
        self._take(lines, min(self.limit, self._spent + share))
        while self.lines and self.count("\n".join(line.text for line in self.lines)) > share:
            self._drop()
        return list(self.lines)

    def fill(self, lines: Sequence[_Line]) -> None:
        """Take the lines that fit, in order."""
        self._take(lines, self.limit)

    def finish(self) -> MemoryContext:
        """Return the text."""
        while self.lines:
            told = {_address(line.item) for line in self.lines}
            missing = sum(address not in told for address in self._passed)
            more = [left_out(missing)] if missing else []
            text = frame([*(line.text for line in self._ordered()), *more])
            # The parts of a text may cost less than the whole.
            if (tokens := self.count(text)) <= self.limit:
                return MemoryContext(text, tuple(line.item for line in self.lines), tokens, missing)
            self._drop()
        return MemoryContext(left_out=len(self._passed))

    def _cost(self, line: _Line) -> int:
        # What a counter adds to every text must not be counted for each line.
        return self.count(frame([line.text])) - self._empty

    def _take(self, lines: Sequence[_Line], limit: int) -> None:
        present = {_address(line.item) for line in self.lines}
        for line in lines:
            if _address(line.item) in present:
                continue
            cost = self._cost(line)
            self._passed[_address(line.item)] = None
            if self._spent + cost <= limit:
                self.lines.append(line)
                present.add(_address(line.item))
                self._spent += cost

    def _drop(self) -> None:
        self._spent -= self._cost(self.lines.pop())

    def _ordered(self) -> list[_Line]:
        if self.order == "best_first":
            return self.lines
        return self.lines[::2] + self.lines[1::2][::-1]
