"""The reserved key of filters: what clients that know only `BaseStore` say about the lifecycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any

from langgraph_forgetful_store.model.checks import cosine, fraction, moment
from langgraph_forgetful_store.model.fields import FILTERED
from langgraph_forgetful_store.model.status import STATUSES
from langgraph_forgetful_store.search.admission import ACTIVE_ALONE, Admission
from langgraph_forgetful_store.search.filters import compile_filter

OPTIONS = (
    "as_of",
    "explain",
    "goal",
    "in_contexts",
    "known_at",
    "min_confidence",
    "min_similarity",
    "status",
    "archived_above",
)


def _names(value: object, name: str) -> frozenset[str]:
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Iterable):
        raise ValueError(f"{name} must be a list of str, got {value!r}")
    given = list(value)
    if not all(isinstance(part, str) and part for part in given):
        raise ValueError(f"{name} must be a list of non-empty str, got {value!r}")
    return frozenset(given)


def _statuses(value: object) -> frozenset[int]:
    known = [str(one) for one in STATUSES]
    wanted = _names(value, "status")
    if not wanted or not wanted <= set(known):
        raise ValueError(f"status must be any of {', '.join(known)}, got {value!r}")
    return frozenset(known.index(name) for name in wanted)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a search asks about the lifecycle of what it returns.

    Attributes:
        admission: What lets rows in.
        min_similarity: Rows below it are left out.
        goal: What the rows are to serve.
        explain: Whether each result explains its score.
    """

    admission: Admission = field(default_factory=Admission)
    min_similarity: float | None = None
    goal: str | None = None
    explain: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked, but the defaults."""
        return self == Wishes()

    def with_given(self, **given: Any) -> Wishes:
        """Return these wishes and those of a call; where both say something, the call's count.

        Raises:
            TypeError: An argument is unknown.
            ValueError: A value is unusable.
        """
        return _merged(self, Wishes.parse(**given))

    @classmethod
    def parse(
        cls,
        *,
        memory_types: object = None,
        tags: object = None,
        run_id: object = None,
        in_contexts: object = None,
        min_similarity: object = None,
        min_confidence: object = None,
        goal: object = None,
        explain: object = False,
        status: object = None,
        as_of: object = None,
        known_at: object = None,
        archived_above: object = None,
        conditions: Mapping[str, Any] | None = None,
    ) -> Wishes:
        """Check what is asked.

        Raises:
            ValueError: A value is unusable; the message names it.
            TypeError: A condition on a field has a wrong type.
        """
        if run_id is not None and not (isinstance(run_id, str) and run_id):
            raise ValueError(f"run_id must be a non-empty str or None, got {run_id!r}")
        if goal is not None and not (isinstance(goal, str) and goal):
            raise ValueError(f"goal must be a non-empty str or None, got {goal!r}")
        if not isinstance(explain, bool):
            raise ValueError(f"explain must be True or False, got {explain!r}")
        return cls(
            Admission(
                None if memory_types is None else _names(memory_types, "memory_types"),
                frozenset() if tags is None else _names(tags, "tags"),
                run_id,
                frozenset() if in_contexts is None else _names(in_contexts, "in_contexts"),
                None if min_confidence is None else fraction(min_confidence, "min_confidence"),
                compile_filter(conditions) if conditions else None,
                any("memory_type" in part for part in (conditions or {}).get("$and", ())),
                ACTIVE_ALONE if status is None else _statuses(status),
                None if as_of is None else moment(as_of, "as_of"),
                None if known_at is None else moment(known_at, "known_at"),
                None if archived_above is None else cosine(archived_above, "archived_above"),
            ),
            None if min_similarity is None else cosine(min_similarity, "min_similarity"),
            goal,
            explain,
        )


PLAIN = Wishes()


def _merged(base: Wishes, given: Wishes) -> Wishes:
    """Return `given`, and from `base` what `given` leaves at its default."""
    admission = {
        part.name: getattr(given.admission, part.name)
        for part in fields(Admission)
        if getattr(given.admission, part.name) != getattr(PLAIN.admission, part.name)
    }
    return Wishes(
        replace(base.admission, **admission),
        base.min_similarity if given.min_similarity is None else given.min_similarity,
        given.goal or base.goal,
        given.explain or base.explain,
    )


def take_reserved(given: object, reserved: str | None) -> tuple[Any, Wishes]:
    """Take the reserved key out of a filter.

    Args:
        given: A filter; the key may stand at its top, or in an element of a top-level ``$and``.
        reserved: The key; ``None``: nothing is reserved.

    Returns:
        The filter of values that is left, and what was asked under the key.

    Raises:
        ValueError: A field is unknown (the message lists the known ones) or a value unusable.
    """
    if reserved is None or not isinstance(given, Mapping):
        return given, PLAIN
    asked: list[Mapping[str, Any]] = []
    try:
        rest = _without(given, reserved, asked)
    except RecursionError as error:
        raise ValueError("filter is nested too deeply") from error
    if not asked:
        return given, PLAIN
    options: dict[str, Any] = {}
    conditions: list[Mapping[str, Any]] = []
    for part in asked:
        if not isinstance(part, Mapping):
            raise ValueError(f"filter[{reserved!r}] must be a dict, got {part!r}")
        for name, value in part.items():
            if (name == "run_id" and isinstance(value, str)) or name in OPTIONS:
                options[name] = _both(name, options[name], value) if name in options else value
            elif name in FILTERED:
                conditions.append({name: value})
            else:
                raise ValueError(
                    f"filter[{reserved!r}] has the unknown field {name!r}; known are {', '.join((*FILTERED, *OPTIONS))}"
                )
    wishes = Wishes.parse(**options, conditions={"$and": conditions} if conditions else None)
    return rest, wishes


def _both(name: str, one: Any, other: Any) -> Any:
    """Return what asks for one and for the other, since conditions are ANDed.

    Raises:
        ValueError: They can't both be had.
    """
    if name == "explain":
        return one or other
    if name == "in_contexts":
        return _names(one, name) | _names(other, name)
    if name in {"min_confidence", "min_similarity"} and all(_is_number(value) for value in (one, other)):
        return max(one, other)
    if one != other:
        raise ValueError(f"{name} is asked for twice, as {one!r} and as {other!r}")
    return one


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real)


def _without(given: Mapping[str, Any], reserved: str, asked: list[Mapping[str, Any]]) -> dict[str, Any]:
    rest = dict(given)
    if reserved in rest:
        asked.append(rest.pop(reserved))
    parts = rest.get("$and")
    if isinstance(parts, list | tuple):
        rest["$and"] = [_without(part, reserved, asked) if isinstance(part, Mapping) else part for part in parts]
    for name in ("$or", "$not"):
        _refuse_within(rest.get(name), reserved, name)
    return rest


def _refuse_within(part: Any, reserved: str, name: str) -> None:
    # What it asks holds for the whole search, so it can be neither one of several choices nor the contrary.
    if isinstance(part, list | tuple):
        for one in part:
            _refuse_within(one, reserved, name)
    elif isinstance(part, Mapping):
        if reserved in part:
            raise ValueError(
                f"{reserved!r} may stand at the top of a filter or in its $and, not in {name}; fields known there are"
                f" {', '.join((*FILTERED, *OPTIONS))}"
            )
        for logical in ("$and", "$or", "$not"):
            _refuse_within(part.get(logical), reserved, name)
