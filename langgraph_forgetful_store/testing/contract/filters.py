"""Filters: what matches, what does not, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import PutOp, SearchOp

from langgraph_forgetful_store.testing.contract.base import NS, Make, Section, keys, refuses
from langgraph_forgetful_store.testing.contract.embedders import PlannedEmbeddings, index
from langgraph_forgetful_store.testing.face import Face

Cases = list[tuple[Any, set[str]]]

# The field "f" of one item each, whose key is the name; "missing" lacks the field.
FIELDS: dict[str, Any] = {
    "1": 1, "1.0": 1.0, "true": True, "'1'": "1", "0": 0, "-0.0": -0.0, "false": False, "null": None, "9": 9,
    "10": 10, "9.5": 9.5, "-3": -3, "2**70": 2**70, "2**53": 2**53, "2**53+1": 2**53 + 1, "''": "", "'9'": "9",
    "'10'": "10", "'apple'": "apple", "'pear'": "pear", "'Pear'": "Pear", "[]": [], "[1]": [1], "[1,2]": [1, 2],
    "[2,1]": [2, 1], "[true]": [True], "['apple']": ["apple", "pie"], "[null]": [None], "[[1]]": [[1]],
    "[{a:1}]": [{"a": 1}], "[{a:1,b:2}]": [{"a": 1, "b": 2}], "{}": {}, "{a:1}": {"a": 1}, "{a:true}": {"a": True},
    "{a:null}": {"a": None}, "{a:1,b:2}": {"a": 1, "b": 2}, "{a:{b:1}}": {"a": {"b": 1}},
    "{a:{b:1,c:2}}": {"a": {"b": 1, "c": 2}}, "{apple:1}": {"apple": 1},
}  # fmt: skip
PRESENT = set(FIELDS)
DICTS = {name for name in FIELDS if name.startswith("{")}
ONE = {"1", "1.0"}
POSITIVE = ONE | {"9", "10", "9.5", "2**70", "2**53", "2**53+1"}
ZERO = {"0", "-0.0"}
STRINGS = {name for name in FIELDS if name.startswith("'")}
NUMBERS = POSITIVE | ZERO | {"-3"}
A_IS_ONE = {"{a:1}", "{a:1,b:2}"}
DEEP = {"{a:{b:1}}", "{a:{b:1,c:2}}"}


EQUALITY: Cases = [
    ("1", {"'1'"}),
    ("", {"''"}),
    ("Pear", {"'Pear'"}),
    (9.5, {"9.5"}),
    (9, {"9"}),
    (2**53 + 1, {"2**53+1"}),
    (2**70, {"2**70"}),
    (10.0, {"10"}),
    ("absent", set()),
]
BOOLS: Cases = [
    (1, ONE),
    (1.0, ONE),
    (0, ZERO),
    (True, {"true"}),
    (False, {"false"}),
    ({"$eq": 1}, ONE),
    ({"$eq": True}, {"true"}),
    ({"$ne": True}, PRESENT - {"true"}),
    ({"$ne": 1}, PRESENT - ONE),
    ({"$in": [True, 0]}, ZERO | {"true"}),
    ({"$nin": [False, 1]}, PRESENT - ONE - {"false"}),
    ([1], {"[1]"}),
    ([True], {"[true]"}),
    ({"a": 1}, A_IS_ONE),
    ({"a": True}, {"{a:true}"}),
    ({"$eq": {"a": 1}}, {"{a:1}"}),
    ({"$contains": True}, {"[true]"}),
    ({"$gte": 0, "$lte": 1}, ONE | ZERO),
    ({"$gt": False}, set()),
]
NULLS: Cases = [
    (None, {"null"}),
    ({"$eq": None}, {"null"}),
    ({"$ne": None}, PRESENT - {"null"}),
    ({"$in": [None]}, {"null"}),
    ({"$nin": [None]}, PRESENT - {"null"}),
    ({"$ne": "pear"}, PRESENT - {"'pear'"}),
    ({"$nin": []}, PRESENT),
    ({"a": None}, {"{a:null}"}),
    ({"a": {"$ne": 1}}, {"{a:true}", "{a:null}"} | DEEP),
    ([None], {"[null]"}),
    ({"$contains": None}, {"[null]"}),
    ({"$exists": True}, PRESENT),
    ({"$exists": False}, {"missing"}),
    ({"a": {"$exists": True}}, DICTS - {"{}", "{apple:1}"}),
    ({"a": {"$exists": False}}, {"{}", "{apple:1}"}),
]
RANGES: Cases = [
    ({"$gt": 9}, {"10", "9.5", "2**70", "2**53", "2**53+1"}),
    ({"$gte": 9.0}, {"9", "10", "9.5", "2**70", "2**53", "2**53+1"}),
    ({"$lt": 0}, {"-3"}),
    ({"$lte": 0}, {"-3"} | ZERO),
    ({"$gt": 1, "$lt": 10}, {"9", "9.5"}),
    ({"$gt": 2**53}, {"2**53+1", "2**70"}),
    ({"$lt": 2**53 + 1}, NUMBERS - {"2**53+1", "2**70"}),
    ({"$gt": 10, "$lt": 10}, set()),
    ({"$gt": "10"}, {"'9'", "'apple'", "'pear'", "'Pear'"}),
    ({"$lt": "9"}, {"''", "'1'", "'10'"}),
    ({"$gte": "Pear"}, {"'Pear'", "'apple'", "'pear'"}),
    ({"$lte": ""}, {"''"}),
    ({"$gte": None}, set()),
    ({"$gte": [1]}, set()),
    ({"$lte": {"a": 1}}, set()),
    ({"a": {"$gte": 1}}, A_IS_ONE),
    ({"a": {"b": {"$lt": 2}}}, DEEP),
    ({"$gt": 1, "$ne": 9}, POSITIVE - ONE - {"9"}),
]
MEMBERSHIP: Cases = [
    ({"$in": [9, "9", "pear"]}, {"9", "'9'", "'pear'"}),
    ({"$in": []}, set()),
    ({"$in": [[1], [2, 1]]}, {"[1]", "[2,1]"}),
    ({"$in": [{"a": 1}]}, {"{a:1}"}),
    ({"$in": ("apple", "pear")}, {"'apple'", "'pear'"}),
    ({"$nin": ["pear", [], {}]}, PRESENT - {"'pear'", "[]", "{}"}),
    ({"$contains": 1}, {"[1]", "[1,2]", "[2,1]"}),
    ({"$contains": [1]}, {"[[1]]"}),
    ({"$contains": {"a": 1}}, {"[{a:1}]"}),
    ({"$contains": "apple"}, {"'apple'", "['apple']", "{apple:1}"}),
    ({"$contains": "ea"}, {"'pear'", "'Pear'"}),
    ({"$contains": ""}, STRINGS),
    ({"$contains": "b"}, {"{a:1,b:2}"}),
]
DEPTH: Cases = [
    ({"b": 2}, {"{a:1,b:2}"}),
    ({"a": 1, "b": 2}, {"{a:1,b:2}"}),
    ({"a": {"b": 1}}, DEEP),
    ({"a": {"b": 1, "c": 2}}, {"{a:{b:1,c:2}}"}),
    ({"a": {"b": {"c": 1}}}, set()),
    ({}, DICTS),
    ({"a": {}}, DEEP),
    ({"$eq": {}}, {"{}"}),
]
LISTS: Cases = [
    ([2, 1], {"[2,1]"}),
    ((1, 2), {"[1,2]"}),
    ([1.0, 2.0], {"[1,2]"}),
    ([], {"[]"}),
    ([[1]], {"[[1]]"}),
    ({"$eq": [1, 2]}, {"[1,2]"}),
    (2, set()),
]
LOGIC: Cases = [
    ({"$and": [{"$gt": 1}, {"$lt": 10}]}, {"9", "9.5"}),
    ({"$or": [{"$lt": 0}, {"$eq": "pear"}, None]}, {"-3", "'pear'", "null"}),
    ({"$not": {"$gt": 0}}, PRESENT - POSITIVE | {"missing"}),
    ({"$not": "pear"}, PRESENT - {"'pear'"} | {"missing"}),
    ({"$not": {"$ne": "pear"}}, {"'pear'", "missing"}),
    ({"$not": {"$not": {"$lt": 0}}}, {"-3"}),
    ({"$and": [{"$or": [{"$eq": 9}, {"$eq": 10}]}, {"$ne": 10}]}, {"9"}),
    ({"$gte": 9, "$or": [{"$lt": 10}, {"$gt": 2**69}]}, {"9", "9.5", "2**70"}),
    ({"a": {"$or": [{"b": 1}, {"$eq": 1}]}}, A_IS_ONE | DEEP),
    ({"a": {"b": {"$not": {"$gt": 0}}}}, set()),
    ({"$or": [{"$gt": 2**80}, "absent"]}, set()),
]

UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"f": {"$regex": "x"}}, "$regex"),
    ({"f": {"$GT": 1}}, "$GT"),
    ({"f": {"$": 1}}, "$"),
    ({"f": {"$gt": 1, "$near": 2}}, "$near"),
    ({"f": {"$gt": 1, "plain": 2}}, "plain"),
    ({"f": {"a": {"$size": 1}}}, "$size"),
    ({"f": {"$not": {"$size": 1}}}, "$size"),
    ({"f": {"$or": [{"$gt": 1}, {"$all": []}]}}, "$all"),
    ({"$nor": [{"f": 1}]}, "$nor"),
    ({"$eq": 1}, "$eq"),
    ({"$and": [{"f": 1}, {"g": {"$type": "int"}}]}, "$type"),
    ({"$or": [{"$where": 1}]}, "$where"),
]

TREE: dict[str, dict[str, Any]] = {
    "ann": {"user": "ann", "team": "red", "age": 30, "tags": ["a", "b"]},
    "bob": {"user": "bob", "team": "red", "age": 40, "tags": []},
    "cid": {"user": "cid", "team": "blue", "age": 30},
    "dot": {"user": "dot", "age": None, "tags": ["b"]},
}
TOP: Cases = [
    ({"$and": [{"team": "red"}, {"age": {"$gt": 30}}]}, {"bob"}),
    ({"$and": [{"team": "red"}, {"user": {"$eq": "ann"}}]}, {"ann"}),
    ({"$and": [{}, {"team": "red"}]}, {"ann", "bob"}),
    ({"$or": [{"team": "blue"}, {"tags": {"$contains": "b"}}]}, {"ann", "cid", "dot"}),
    ({"$not": {"team": "red"}}, {"cid", "dot"}),
    ({"$not": {"team": "red", "age": 30}}, {"bob", "cid", "dot"}),
    ({"age": 30, "$or": [{"team": "blue"}, {"team": "green"}]}, {"cid"}),
    ({"$and": [{"$or": [{"age": 30}, {"age": 40}]}, {"$not": {"user": "ann"}}]}, {"bob", "cid"}),
    ({"$or": [{"$and": [{"age": 30}, {"team": "red"}]}, {"$not": {"tags": {"$exists": True}}}]}, {"ann", "cid"}),
    ({"$and": [{"$and": [{"age": {"$or": [{"$lt": 35}, None]}}]}]}, {"ann", "cid", "dot"}),
]  # fmt: skip


def found(store: Face, condition: dict[str, Any] | None) -> set[str]:
    """Return the keys that a filter leaves."""
    return set(keys(store.search(NS, filter=condition, limit=1000)))


def check(store: Face, cases: Cases, field: str | None = "f") -> None:
    """Compare what each condition, on the field or at the top, leaves with what it should."""
    got = {repr(given): found(store, {field: given} if field else given) for given, _ in cases}
    assert got == {repr(given): expected for given, expected in cases}


class FilterContract(Section):
    """Contract 24-26."""

    @pytest.fixture
    def fields(self, store: Face) -> Face:
        """Make a store that holds `FIELDS`."""
        rows = [PutOp(NS, name, {"f": value, "g": 1}) for name, value in FIELDS.items()]
        store.batch([*rows, PutOp(NS, "missing", {"g": 1, "h": {"f": 1}})])
        return store

    def test_a_plain_condition_compares_for_equality(self, fields: Face) -> None:
        """Contract 24, 25."""
        check(fields, EQUALITY)

    def test_true_is_not_one(self, fields: Face) -> None:
        """Contract 25: in lists, dicts, ranges and under operators too."""
        check(fields, BOOLS)

    def test_a_missing_field_is_no_null(self, fields: Face) -> None:
        """Contract 26: it matches neither `$ne`, `$nin` nor None."""
        check(fields, NULLS)

    def test_ranges_of_numbers(self, store: Face) -> None:
        """Contract 24, 26: numerically, int and float alike."""
        store.batch([PutOp(NS, str(number), {"n": number}) for number in (-3, 0, 1, 9, 9.5, 10, 100.0)])
        cases: Cases = [
            ({"$gt": 9}, {"9.5", "10", "100.0"}),
            ({"$gte": 9.0}, {"9", "9.5", "10", "100.0"}),
            ({"$lt": 1}, {"-3", "0"}),
            ({"$lte": 1}, {"-3", "0", "1"}),
            ({"$gt": 1, "$lt": 10}, {"9", "9.5"}),
            ({"$gte": 9, "$ne": 9.5, "$lt": 100}, {"9", "10"}),
            ({"$gt": 10, "$lt": 10}, set()),
        ]
        check(store, cases, "n")

    def test_ranges_compare_like_with_like(self, fields: Face) -> None:
        """Contract 24, 26: strings as strings; another type is no match, and no exception."""
        check(fields, RANGES)

    def test_membership(self, fields: Face) -> None:
        """Contract 24."""
        check(fields, MEMBERSHIP)

    def test_a_dict_matches_deeply(self, fields: Face) -> None:
        """Contract 25: each field that it names, others do not matter."""
        check(fields, DEPTH)

    def test_a_list_compares_exactly(self, fields: Face) -> None:
        """Contract 25."""
        check(fields, LISTS)

    def test_dicts_in_a_list_compare_exactly(self, fields: Face) -> None:
        """Contract 25."""
        check(
            fields,
            [([{"a": 1}], {"[{a:1}]"}), ([{"b": 2}], set()), ([{"a": 1, "b": 2}], {"[{a:1,b:2}]"}), ([{}], set())],
        )

    def test_logic_under_a_field(self, fields: Face) -> None:
        """Contract 24."""
        check(fields, LOGIC)

    def test_logic_at_the_top(self, store: Face) -> None:
        """Contract 24."""
        store.batch([PutOp(NS, key, value) for key, value in TREE.items()])
        check(store, TOP, None)

    def test_fields_are_anded(self, store: Face) -> None:
        """Contract 24."""
        store.batch([PutOp(NS, key, value) for key, value in TREE.items()])
        conditions: Cases = [
            ({"team": "red", "age": 30}, {"ann"}),
            ({"team": "blue", "age": 40}, set()),
            ({"user": "bob", "team": "red", "age": {"$gte": 40, "$ne": 41}, "tags": []}, {"bob"}),
            ({"team": "red", "absent": 1}, set()),
        ]
        check(store, conditions, None)

    def test_no_filter_leaves_everything(self, fields: Face) -> None:
        """Contract 24."""
        assert found(fields, None) == found(fields, {}) == found(fields, {"g": 1}) == PRESENT | {"missing"}
        assert found(fields, {"absent": 1}) == set()

    def test_an_unknown_operator_is_refused(self, store: Face) -> None:
        """Contract 24: with its name."""
        store.put(NS, "k", {"f": 1})
        for operator in ("$regex", "$GT", "$", "$size", "$eq "):
            message = refuses(ValueError, store.search, NS, filter={"f": {operator: 1}})
            assert message.startswith(f"Unsupported operator: {operator}")

    def test_an_unknown_operator_is_refused_wherever_it_stands(self, fields: Face) -> None:
        """Contract 7, 24: and whether or not there is anything to compare."""
        for condition, name in UNKNOWN:
            for prefix in (NS, ("empty",)):
                message = refuses(ValueError, fields.search, prefix, filter=condition)
                assert message.startswith(f"Unsupported operator: {name}"), condition
                refuses(ValueError, fields.batch, [SearchOp(prefix, condition)])

    def test_a_missing_field_never_raises(self, store: Face) -> None:
        """Contract 26: nor does one of another type."""
        store.batch([PutOp(NS, "a", {}), PutOp(NS, "b", {"f": None}), PutOp(NS, "c", {"f": {"x": [1]}})])
        for operator in ("$gt", "$gte", "$lt", "$lte", "$eq", "$in", "$contains"):
            operand = [1] if operator == "$in" else 1
            assert found(store, {"f": {operator: operand}}) == set(), operator
            assert found(store, {"f": {"x": {operator: operand}}}) == ({"c"} if operator == "$contains" else set()), (
                operator
            )
        for condition in ({"$ne": 1}, {"$nin": [1]}, {"$exists": True}):
            assert found(store, {"f": condition}) == {"b", "c"}, condition
            assert found(store, {"f": {"x": condition}}) == {"c"}, condition

    def test_an_operand_of_the_wrong_kind_is_refused(self, store: Face) -> None:
        """Contract 24."""
        for operators in ({"$in": 1}, {"$nin": "ab"}, {"$and": {"$gt": 1}}, {"$or": "ab"}, {"$exists": 1}):
            refuses(ValueError, store.search, NS, filter={"f": operators})
        refuses(ValueError, store.search, NS, filter={"$or": {"f": 1}})
        for operator, operand in (("$and", [[]]), ("$or", [{}, None]), ("$not", []), ("$not", None)):
            assert operator in refuses(ValueError, store.search, NS, filter={operator: operand})

    def test_a_filter_applies_under_a_query_too(self, make: Make) -> None:
        """Contract 22, 24."""
        store = make(
            index=index(PlannedEmbeddings({"q": (1, 0), "a": (4, 1), "b": (3, 1), "c": (2, 1), "d": (1, 1)}, dims=2), 2)
        )
        store.batch([PutOp(NS, text, {"text": text, "n": n}) for text, n in (("a", 1), ("b", 1), ("c", 2), ("d", 2))])
        store.put(NS, "e", {"n": 2})
        assert keys(store.search(NS, query="q", filter={"n": 2})) == ["c", "d", "e"]
        assert keys(store.search(NS, query="q", filter={"n": {"$ne": 2}})) == ["a", "b"]
        assert keys(store.search(NS, query="q", filter={"n": 1}, limit=1, offset=1)) == ["b"]
        assert store.search(NS, query="q", filter={"n": 3}) == []
