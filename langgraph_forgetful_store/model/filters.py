"""Filters over values: compiled once a search, applied to each value.

Comparison is JSON's: numbers equal across int and float, and ``True`` is not ``1``. An operator never raises on a
value of another type; it does not match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Predicate = Callable[[Any], bool]
OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$exists", "$and", "$or", "$not")


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


def compile_filter(given: object) -> Callable[[Mapping[str, Any]], bool]:
    """Turn a filter into a predicate over values.

    Args:
        given: ``{field: condition}``, all of which must hold. A condition is a value to equal, a dict of fields to
            match in depth, or a dict of operators: ``$eq $ne $gt $gte $lt $lte $in $nin $contains $exists``. ``$and``
            and ``$or`` take lists of filters (or, under a field, of conditions), ``$not`` takes one.

    Raises:
        TypeError: The filter is no dict, or the name of a field no str.
        ValueError: An operator is unknown or its operand unusable, which the message names, or the filter is nested
            too deeply.
    """
    try:
        return _fields(given, top=True)
    except RecursionError as error:
        raise ValueError("filter is nested too deeply") from error


def _fields(given: object, *, top: bool) -> Predicate:
    if not isinstance(given, Mapping):
        raise TypeError(f"filter must be a dict of field names and conditions, got {given!r}")
    tests: list[Predicate] = []
    for name, condition in given.items():
        if not isinstance(name, str):
            raise TypeError(f"filter has a field name that is no str: {name!r}")
        if top and name.startswith("$"):
            if name not in _LOGICAL:
                raise ValueError(_unsupported(name))
            tests.append(_LOGICAL[name](condition, lambda inner: _fields(inner, top=True), name))
        else:
            tests.append(_field(name, _condition(condition)))
    return _all(tests)


def _field(name: str, test: Predicate) -> Predicate:
    return lambda value: test(value.get(name, MISSING) if isinstance(value, Mapping) else MISSING)


def _condition(condition: object) -> Predicate:
    if not isinstance(condition, Mapping):
        return lambda value: value is not MISSING and same(value, condition)
    if any(isinstance(name, str) and name.startswith("$") for name in condition):
        return _all([_operator(name, operand) for name, operand in condition.items()])
    inner = _fields(condition, top=False)
    return lambda value: isinstance(value, Mapping) and inner(value)


def _operator(name: str, operand: object) -> Predicate:
    if name in _LOGICAL:
        return _LOGICAL[name](operand, _condition, name)
    if name not in _COMPARISONS:
        raise ValueError(_unsupported(name))
    if name in {"$in", "$nin"} and not _is_list(operand):
        raise ValueError(f"{name} takes a list, got {operand!r}")
    if name == "$exists":
        if not isinstance(operand, bool):
            raise ValueError(f"$exists takes True or False, got {operand!r}")
        return lambda value: (value is not MISSING) is operand
    test = _COMPARISONS[name]
    return lambda value: value is not MISSING and test(value, operand)


def _unsupported(name: object) -> str:
    return f"Unsupported operator: {name} (supported: {' '.join(OPERATORS)})"


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _all(tests: list[Predicate]) -> Predicate:
    if len(tests) == 1:
        return tests[0]
    return lambda value: all(test(value) for test in tests)


def _parts(operand: object, parse: Callable[[object], Predicate], name: str) -> list[Predicate]:
    if not isinstance(operand, Sequence) or isinstance(operand, str | bytes):
        raise ValueError(f"{name} takes a list, got {operand!r}")
    return [_part(part, parse, name) for part in operand]


def _part(given: object, parse: Callable[[object], Predicate], name: str) -> Predicate:
    # A filter that is no dict is a wrong type; an operand that is none is a wrong value, whatever it stands in.
    try:
        return parse(given)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error


def _and(operand: object, parse: Callable[[object], Predicate], name: str) -> Predicate:
    return _all(_parts(operand, parse, name))


def _or(operand: object, parse: Callable[[object], Predicate], name: str) -> Predicate:
    parts = _parts(operand, parse, name)
    return lambda value: any(part(value) for part in parts)


def _not(operand: object, parse: Callable[[object], Predicate], name: str) -> Predicate:
    part = _part(operand, parse, name)
    return lambda value: not part(value)


_LOGICAL: dict[str, Callable[[object, Callable[[object], Predicate], str], Predicate]] = {
    "$and": _and,
    "$or": _or,
    "$not": _not,
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are equal: ``9 == 9.0``, but ``True`` is not ``1``."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping):
        return (
            isinstance(other, Mapping)
            and one.keys() == other.keys()
            and all(same(value, other[name]) for name, value in one.items())
        )
    if _is_list(one):
        return (
            _is_list(other)
            and len(one) == len(other)
            and all(same(left, right) for left, right in zip(one, other, strict=True))
        )
    return bool(one == other)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def test(value: Any, operand: Any) -> bool:
        comparable = (_is_number(value) and _is_number(operand)) or (
            isinstance(value, str) and isinstance(operand, str)
        )
        return comparable and compare(value, operand)

    return test


def _contains(value: Any, operand: Any) -> bool:
    if isinstance(value, list):
        return any(same(element, operand) for element in value)
    return isinstance(value, str | Mapping) and isinstance(operand, str) and operand in value


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": same,
    "$ne": lambda value, operand: not same(value, operand),
    "$gt": _ordered(lambda value, operand: value > operand),
    "$gte": _ordered(lambda value, operand: value >= operand),
    "$lt": _ordered(lambda value, operand: value < operand),
    "$lte": _ordered(lambda value, operand: value <= operand),
    "$in": lambda value, operand: any(same(value, element) for element in operand),
    "$nin": lambda value, operand: not any(same(value, element) for element in operand),
    "$contains": _contains,
    "$exists": lambda value, operand: True,
}
