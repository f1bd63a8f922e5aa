"""What a recall may be told: its options, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypedDict

from langgraph.store.base import Item

from langgraph_forgetful_store.model.checks import check_bool, check_count, check_refresh, cosine, fraction, moment
from langgraph_forgetful_store.model.filters import compile_filter
from langgraph_forgetful_store.model.memory import MemorySearchItem
from langgraph_forgetful_store.model.status import STATUSES

# A memory that holds so much of a query's words passes `min_relevance`, whatever its cosine.
COVERAGE_FLOOR = 0.5
Rerank = Callable[[str | None, list[MemorySearchItem]], Sequence[MemorySearchItem]]
# Why a memory is erased.
TRIGGERS = ("user_request", "sensitive", "wrong", "compliance", "test_data")
# What a tag begins with that hides a memory in a context, or shows it there alone.
IGNORE, ONLY = "_ignore_in_context_", "_only_in_context_"


class Scores(Protocol):
    """What an object that is given as `scoring` has to have; see `ScoringPreset`."""

    def score(self, rows: Any) -> Any:
        """Score every candidate.

        Args:
            rows: The columns that may be looked at, one entry a candidate.
        """


class RecallOptions(TypedDict, total=False):
    """What a recall may be told beside its prefix and query; see `ForgetfulStore.recall`.

    Attributes:
        filter: What the values must hold, as in `search`.
        limit: How many items to return at most; 10 by default.
        offset: How many items to skip before the first one that is returned.
        refresh_ttl: Whether the TTLs of what is returned are refreshed; ``None``: as the store's ttl config says.
        memory_types: The memory types that are searched; ``None``: all but hypotheses, ``True``: any.
        tags: Labels, of which a memory must have at least one; ``True``: any label at all.
        subject: What a memory must be about, one name or several; ``True``: anything, as long as it has a slot.
        attribute: What it must say of its subject, one name or several; ``True``: anything.
        pinned: Whether a memory must be pinned, or must not be; ``None``: either will do.
        run_id: The run whose memories are found, beside those that are bound to no run.
        in_contexts: Names of the current sessions: a tag ``_ignore_in_context_X`` hides a memory in session ``X``, and
            ``_only_in_context_X`` shows it there alone.
        min_similarity: The least cosine with the query that a memory must have, from -1 to 1.
        min_relevance: The least cosine with the query, from -1 to 1, unless a memory holds at least half of the query's
            words, the rare ones counting more.
        min_confidence: The least confidence that a memory must have, from 0 to 1.
        goal: A text that scores are multiplied by the similarity to; below 0.2 a memory is left out.
        scoring: What ranks this once: a preset's name, or an object of `langgraph_forgetful_store.scoring`; ``None``:
            what the store was given.
        words_only: Whether the query is compared by its words alone; nothing is embedded then.
        explain: Whether items carry ``score_details``, which say how each score came about.
        negative: Rejected memories, as items or texts: 0.3 of their mean vector is taken from the query's.
        rerank: A function that is given the query and the page's items, and returns them in another order.
        status: The statuses that are found: ``active``, ``archived``, ``superseded``; ``None``: active alone.
        as_of: The time at which a memory must have held in the world, an aware datetime or ISO 8601 text.
        known_at: The time at which the store must have known it, an aware datetime or ISO 8601 text.
        archived_above: The similarity from which archived memories are found too.
        track_access: Whether the recall counts as an access of what it returns; ``True`` by default.
    """

    filter: dict[str, Any] | None
    limit: int
    offset: int
    refresh_ttl: bool | None
    memory_types: Iterable[str] | Literal[True] | None
    tags: Iterable[str] | Literal[True] | None
    subject: str | Iterable[str] | Literal[True] | None
    attribute: str | Iterable[str] | Literal[True] | None
    pinned: bool | None
    run_id: str | None
    in_contexts: Iterable[str] | None
    min_similarity: float | None
    min_relevance: float | None
    min_confidence: float | None
    goal: str | None
    scoring: str | Scores | None
    words_only: bool
    explain: bool
    negative: Iterable[str | Item] | None
    rerank: Rerank | None
    status: str | Iterable[str] | None
    as_of: str | datetime | None
    known_at: str | datetime | None
    archived_above: float | None
    track_access: bool


def check_names(value: object, name: str) -> frozenset[str]:
    """Return names; one alone is a set of one.

    Raises:
        ValueError: They are no list of non-empty str.
    """
    given = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [None]
    if not all(isinstance(part, str) and part for part in given):
        raise ValueError(f"{name} must be a list of non-empty str, or one, got {value!r}")
    return frozenset(given)


def _names_or_any(value: object, name: str) -> frozenset[str] | Literal[True]:
    return True if value is True else check_names(value, name)


def _statuses(value: object, name: str) -> frozenset[int]:
    known = [str(one) for one in STATUSES]
    wanted = check_names(value, name)
    if not wanted or not wanted <= set(known):
        raise ValueError(f"{name} must be any of {', '.join(known)}, got {value!r}")
    return frozenset(known.index(one) for one in wanted)


def _optional_text(value: object, name: str) -> str:
    if not (isinstance(value, str) and value):
        raise ValueError(f"{name} must be a non-empty str or None, got {value!r}")
    return value


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def _negative(value: object, name: str) -> tuple[str | Item, ...]:
    # One alone is a list of one; what is neither is refused below.
    several = isinstance(value, Iterable) and not isinstance(value, str)
    found: list[Any] = list(value) if several else [value]  # type: ignore[call-overload]
    for one in found:
        if not isinstance(one, str | Item):
            raise TypeError(f"{name} must hold texts or items, got {one!r}")
    return tuple(found)


def _scoring(value: object, name: str) -> Any:
    if isinstance(value, type) or not (isinstance(value, str) or hasattr(value, "score")):
        raise ValueError(f"{name} must be a preset's name, an object with a score method or None, got {value!r}")
    return value


def _rerank(value: object, name: str) -> Rerank:
    if not callable(value):
        raise TypeError(f"{name} must be a function or None, got {value!r}")
    return value


# Each returns what a recall works with; `None` asks for nothing.
RECALL_CHECKS: Mapping[str, Callable[[Any, str], Any]] = MappingProxyType(
    {
        "filter": lambda value, _: compile_filter(value),
        "limit": check_count,
        "offset": check_count,
        "refresh_ttl": lambda value, _: check_refresh(value, True),
        "track_access": _flag,
        "negative": _negative,
        "rerank": _rerank,
        "status": _statuses,
        "scoring": _scoring,
        **dict.fromkeys(("memory_types", "tags", "subject", "attribute"), _names_or_any),
        "in_contexts": check_names,
        **dict.fromkeys(("run_id", "goal"), _optional_text),
        **dict.fromkeys(("explain", "pinned", "words_only"), check_bool),
        **dict.fromkeys(("min_similarity", "min_relevance", "archived_above"), cosine),
        "min_confidence": fraction,
        **dict.fromkeys(("as_of", "known_at"), moment),
    }
)
_NEEDED = ("limit", "offset", "explain", "track_access", "words_only")


def check_option(name: str, value: object) -> Any:
    """Return an option of a recall as the recall works with it; ``None`` where nothing is asked.

    Raises:
        ValueError, TypeError: It is unusable; the message names it.
    """
    return None if value is None and name not in _NEEDED else RECALL_CHECKS[name](value, name)


def check_known(options: Mapping[str, Any], whose: str) -> None:
    """Check that a recall has all options by their names.

    Args:
        options: The options by their names.
        whose: What is called with them, for messages.

    Raises:
        TypeError: One is unknown; the message lists the known ones.
    """
    if unknown := [name for name in options if name not in RECALL_CHECKS]:
        known = ", ".join(RecallOptions.__annotations__)
        raise TypeError(f"{whose} has no option {', '.join(map(repr, unknown))}; it has {known}")


def check_options(options: Mapping[str, Any], whose: str) -> None:
    """Check all options of a recall, as far as that can be done without a store.

    Args:
        options: The options by their names; lists that can be read once alone are read here.
        whose: What is called with them, for messages.

    Raises:
        ValueError, TypeError: One is unknown or unusable; the message names it.
    """
    check_known(options, whose)
    for name, value in options.items():
        check_option(name, value)


def without_reserved(given: Mapping[str, Any], reserved: str | None) -> tuple[dict[str, Any], list[Any]]:
    """Take the reserved key out of a filter.

    Args:
        given: The filter; the key may stand at its top, or in an element of a top-level ``$and``.
        reserved: The key; ``None``: nothing is reserved.

    Returns:
        What is left, and what stood under the key, each time.
    """
    rest, asked = dict(given), []
    if reserved is not None and reserved in rest:
        asked.append(rest.pop(reserved))
    parts = rest.get("$and")
    if isinstance(parts, list | tuple):
        kept = []
        for part in parts:
            if isinstance(part, Mapping):
                part, more = without_reserved(part, reserved)
                asked += more
            kept.append(part)
        rest["$and"] = kept
    return rest, asked
