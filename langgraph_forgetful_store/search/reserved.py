"""The reserved key of filters: what clients that know only `BaseStore` say about the lifecycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any

from langgraph_forgetful_store.model.fields import FILTERED
from langgraph_forgetful_store.model.filters import compile_filter
from langgraph_forgetful_store.model.options import check_names, check_option, without_reserved
from langgraph_forgetful_store.search.admission import Admission

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
    def parse(cls, conditions: Mapping[str, Any] | None = None, **given: Any) -> Wishes:
        """Check what is asked.

        Args:
            conditions: A filter of the lifecycle fields; ``None``: none.
            **given: Options of a recall.

        Raises:
            ValueError: A value is unusable; the message names it.
            TypeError: A condition on a field has a wrong type.
        """
        asked = {name: checked for name, value in given.items() if (checked := check_option(name, value)) is not None}
        needs = frozenset(name for name in ("tags", "subject", "attribute") if asked.get(name) is True)
        any_type = asked.get("memory_types") is True
        for name in (*needs, *(("memory_types",) if any_type else ())):
            del asked[name]
        typed = any("memory_type" in part for part in (conditions or {}).get("$and", ()))
        own = {name: asked.pop(name) for name in ("min_similarity", "goal", "explain") if name in asked}
        if "status" in asked:
            asked["statuses"] = asked.pop("status")
        return cls(
            Admission(
                **asked,
                needs=needs,
                names_type=any_type or typed,
                matches=compile_filter(conditions) if conditions else None,
            ),
            **own,
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
    try:
        rest, asked = without_reserved(given, reserved)
        _refuse_inside(given, reserved)
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
        return check_names(one, name) | check_names(other, name)
    if name in {"min_confidence", "min_similarity"} and all(_is_number(value) for value in (one, other)):
        return max(one, other)
    if one != other:
        raise ValueError(f"{name} is asked for twice, as {one!r} and as {other!r}")
    return one


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real)


def _refuse_inside(given: Mapping[str, Any], reserved: str) -> None:
    for name in ("$or", "$not"):
        _refuse_within(given.get(name), reserved, name)
    parts = given.get("$and")
    for part in parts if isinstance(parts, list | tuple) else ():
        if isinstance(part, Mapping):
            _refuse_inside(part, reserved)


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
