"""Bad input, one by one: the error names the argument, what came and what is allowed; nothing stored changes."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from langgraph_forgetful_store import ConfigurationError
from tests.support.refused_input import EVERY_OP, INDEX, NS, Case, dump, each, fill, one, refuses

NAN, INF = math.nan, math.inf
HUGE = 10**400
NO_TUPLES = (None, 1, b"a", {"a"}, {"a": 1})
NO_STRINGS = (1, None, b"a", ["a"])
LABELS = "must be a tuple of labels"
MINUTES = "must be a number of minutes"
PATHS = "list of field paths"
WHOLE = "must be a whole number from"
REFRESH = "True, False or None"
KNOWN = "$eq $ne $gt $gte $lt $lte $in $nin $contains $exists $and $or $not"


def endless() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def listed(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def condition(kind: str, path: Any) -> ListNamespacesOp:
    return ListNamespacesOp((MatchCondition(kind, path),))


def bad_namespaces(argument: str, op: Callable[[Any], Any]) -> list[Case]:
    return [
        *each(argument, NO_TUPLES, op, InvalidNamespaceError, LABELS),
        *each(argument, NO_STRINGS, lambda bad: op((bad, "a")), InvalidNamespaceError, "must be strings"),
        *each(argument, [""], lambda bad: op(("a", bad)), InvalidNamespaceError, "must not be empty"),
        *each(argument, ["a.b", ".", "a\0", "\0"], lambda bad: op(("a", bad)), InvalidNamespaceError, "not allowed"),
    ]


def bad_counts(argument: str, least: int, op: Callable[[Any], Any]) -> list[Case]:
    allowed = f"{WHOLE} {least}"
    return [
        *each(argument, [-1, least - 1, -HUGE], op, ValueError, allowed),
        *each(argument, [True, 1.0, "1", NAN, INF, [1]], op, TypeError, allowed),
    ]


def put(value: Any) -> PutOp:
    return PutOp(NS, "k", value)


BAD_OPS = [
    *one("a str", lambda: "get", ValueError, "ops holds a str", "allowed are GetOp, SearchOp, PutOp"),
    *one("None", lambda: None, ValueError, "ops holds a NoneType", "allowed are GetOp"),
    *one("the class of an op", lambda: GetOp, ValueError, "ops holds a type", "allowed are GetOp"),
    *bad_namespaces("namespace", lambda bad: GetOp(bad, "k")),
    *bad_namespaces("namespace", lambda bad: PutOp(bad, "k", {})),
    *bad_namespaces("namespace", lambda bad: PutOp(bad, "k", None)),
    *one("129 labels", lambda: PutOp(("l",) * 129, "k", {}), InvalidNamespaceError, "namespace has 129", "at most 128"),
    *bad_namespaces("namespace_prefix", SearchOp),
    *bad_namespaces("prefix", lambda bad: condition("prefix", bad)),
    *bad_namespaces("suffix", lambda bad: condition("suffix", bad)),
    *each("namespace", ["users"], lambda bad: GetOp(bad, "k"), InvalidNamespaceError, LABELS),
    *each("namespace", ["users"], lambda bad: PutOp(bad, "k", {}), InvalidNamespaceError, LABELS),
    *each("value", [1, "x", b"x", [1], [("a", 1)], True, INF], put, TypeError, "must be a dict, or None to delete"),
    *one("a set", lambda: put({"a": {1}}), TypeError, "value", "a set", "use dict, list, str"),
    *one("bytes", lambda: put({"a": [b"x"]}), TypeError, "value", "a bytes", "use dict, list, str"),
    *one("an object", lambda: put({"a": {"b": object()}}), TypeError, "value", "a object", "use dict, list, str"),
    *one("a path", lambda: put({"a": Path("/")}), TypeError, "value", "PosixPath", "use dict, list, str"),
    *one("a tuple as a name", lambda: put({(1, 2): 1}), TypeError, "value", "tuple", "keys must be str"),
    *each("value", [1, 1.5, True, None], lambda bad: put({bad: 1}), TypeError, "keys must be str"),
    *one("names that are one in JSON", lambda: put({"a": [{1: 1, "1": 2}]}), TypeError, "int 1", "keys must be str"),
    *one(
        "a number as a name below", lambda: put({"a": (MappingProxyType({1: 1}),)}), TypeError, "int 1", "must be str"
    ),
    *one("NaN", lambda: put({"a": [NAN]}), ValueError, "value", "not JSON compliant"),
    *one("infinity", lambda: put({"a": {"b": INF}}), ValueError, "value", "not JSON compliant"),
    *one("minus infinity", lambda: put({"a": -INF}), ValueError, "value", "not JSON compliant"),
    *one("a value that holds itself", lambda: put(endless()), ValueError, "value", "JSON"),
    *one("a value too deep", lambda: put(nested(100_000)), ValueError, "value", "nested too deeply"),
    *one("201 levels", lambda: put(nested(200)), ValueError, "value", "nested too deeply", "at most 200 levels"),
    *one("201 levels of lists", lambda: put({"a": listed(200)}), ValueError, "value", "at most 200 levels"),
    *each("index", [True], lambda bad: PutOp(NS, "k", {}, bad), TypeError, "None, False or a " + PATHS),
    *each(
        "index",
        [1, "text", b"x", {"text"}, {"text": 1}, [1], ["text", None], [["text"]]],
        lambda bad: PutOp(NS, "k", {}, bad),
        TypeError,
        PATHS,
    ),
    *each("ttl", [True, "1", b"1", [1], 1j], lambda bad: PutOp(NS, "k", {}, None, bad), TypeError, MINUTES, "or None"),
    *each(
        "ttl",
        [-1, -0.001, NAN, INF, -INF, 1.1e11, 1e300, HUGE],
        lambda bad: PutOp(NS, "k", {}, None, bad),
        ValueError,
        MINUTES,
        "from 0 to 1e+11",
    ),
    *each("refresh_ttl", [0, 1, "yes", [], NAN], lambda bad: GetOp(NS, "k", bad), TypeError, REFRESH),
    *each("refresh_ttl", [0, 1, "yes", []], lambda bad: SearchOp(NS, refresh_ttl=bad), TypeError, REFRESH),
    *each("query", [1, True, b"x", ["x"], {"a": 1}], lambda bad: SearchOp(NS, query=bad), TypeError, "a str or None"),
    *bad_counts("limit", 0, lambda bad: SearchOp(NS, limit=bad)),
    *each("limit", [None], lambda bad: SearchOp(NS, limit=bad), TypeError, WHOLE),
    *bad_counts("offset", 0, lambda bad: SearchOp(NS, offset=bad)),
    *bad_counts("limit", 0, lambda bad: ListNamespacesOp(limit=bad)),
    *bad_counts("offset", 0, lambda bad: ListNamespacesOp(offset=bad)),
    *bad_counts("max_depth", 1, lambda bad: ListNamespacesOp(max_depth=bad)),
    *each("filter", [1, True, "x", b"x", ["x"], {"a"}], lambda bad: SearchOp(NS, bad), TypeError, "must be a dict"),
    *each("$or", [1, ["x"], None], lambda bad: SearchOp(NS, {"$or": [bad]}), ValueError, "must be a dict"),
    *each("$and", ["x", [], True], lambda bad: SearchOp(NS, {"$and": [{}, bad]}), ValueError, "must be a dict"),
    *each("$not", [1, ["x"], [], None], lambda bad: SearchOp(NS, {"$not": bad}), ValueError, "must be a dict"),
    *each("$not", [[]], lambda bad: SearchOp(NS, {"$and": [{"$or": [{"$not": bad}]}]}), ValueError, "must be a dict"),
    *one("$not of a number's name", lambda: SearchOp(NS, {"a": {"$not": {1: 2}}}), ValueError, "$not", "no str: 1"),
    *one("an operand too deep", lambda: SearchOp(NS, {"a": {"$in": listed(5000)}}), ValueError, "nested too deeply"),
    *each("filter", [1, None], lambda bad: SearchOp(NS, {bad: 2}), TypeError, "a field name that is no str"),
    *one("$nor", lambda: SearchOp(NS, {"$nor": []}), ValueError, "Unsupported operator: $nor", KNOWN),
    *one("$regex", lambda: SearchOp(NS, {"a": {"$regex": "x"}}), ValueError, "Unsupported operator: $regex", KNOWN),
    *one("mixed", lambda: SearchOp(NS, {"a": {"$gt": 1, "b": 2}}), ValueError, "Unsupported operator: b", KNOWN),
    *each("$in", ["abc", 1, {1: 2}], lambda bad: SearchOp(NS, {"a": {"$in": bad}}), ValueError, "takes a list"),
    *each("$nin", ["abc", None], lambda bad: SearchOp(NS, {"a": {"$nin": bad}}), ValueError, "takes a list"),
    *each("$and", [{"a": 1}, "abc"], lambda bad: SearchOp(NS, {"$and": bad}), ValueError, "takes a list"),
    *each("$exists", [1, "yes"], lambda bad: SearchOp(NS, {"a": {"$exists": bad}}), ValueError, "True or False"),
    *one("a filter too deep", lambda: SearchOp(NS, nested(100_000)), ValueError, "filter", "nested too deeply"),
    *each("match_conditions", [1, "x", {"a": 1}], ListNamespacesOp, TypeError, "a tuple of MatchCondition"),
    *each(
        "match_conditions", [1, ("prefix", ("a",))], lambda bad: ListNamespacesOp((bad,)), TypeError, "MatchCondition"
    ),
    *each("match_type", ["infix", "", None, 1], lambda bad: condition(bad, ("a",)), ValueError, "'prefix' or 'suffix'"),
]


@pytest.fixture
def side(make_any_store: Any, face: Any) -> Any:
    """The sync or the async side of an opened store over a few rows."""
    opened = face(fill(make_any_store)(index=INDEX))
    opened.setup()
    return opened


def test_a_bad_op_is_refused_and_the_good_ones_of_its_batch_are_not_carried_out(make_any_store: Any, side: Any) -> None:
    """Contract 7."""
    before = dump(make_any_store)
    good = [PutOp(NS, "new", {"text": "new"}), PutOp(NS, "ttl", None), GetOp(NS, "ttl", True)]
    for name, make, error, words in BAD_OPS:
        bad = make()
        for ops in ([bad], [*good, bad], [bad, *good]):
            refuses(lambda ops=ops: side.batch(ops), error, *words, case=name)
    assert dump(make_any_store) == before


def method(name: str, *before: Any, keyword: str = "") -> Callable[..., Any]:
    """Returns what calls a method of a store with a bad value as its last, or a named, argument."""

    def do(side: Any, bad: Any) -> Any:
        return getattr(side, name)(*before, **{keyword: bad}) if keyword else getattr(side, name)(*before, bad)

    return do


def bad_labels(call: Callable[[Any, Any], Any]) -> list[Case]:
    # Newer versions of langgraph check them before the store does, in other words.
    return each("label", [1, b"a", ["a"]], lambda side, bad: call(side, ("a", bad)), InvalidNamespaceError) + [
        (f"namespace label {bad!r}", lambda side, bad=bad: call(side, (bad,)), InvalidNamespaceError, ("label",))
        for bad in (None, "", "a.b", "a\0")
    ]


BAD_CALLS = [
    *bad_labels(lambda side, bad: side.get(bad, "k")),
    *bad_labels(lambda side, bad: side.put(bad, "k", {})),
    *bad_labels(lambda side, bad: side.delete(bad, "k")),
    *bad_labels(lambda side, bad: side.search(bad)),
    *bad_labels(lambda side, bad: side.list_namespaces(prefix=bad)),
    *bad_labels(lambda side, bad: side.list_namespaces(suffix=bad)),
    *one("no namespace", lambda side: side.put((), "k", {}), InvalidNamespaceError, "amespace", "empty"),
    *one("reserved", lambda side: side.put(("langgraph",), "k", {}), InvalidNamespaceError, "langgraph"),
    *one("below reserved", lambda side: side.put(("langgraph", "a"), "k", {}), InvalidNamespaceError, "langgraph"),
    *each("value", [1, "x", [1]], method("put", NS, "k"), TypeError, "must be a dict, or None to delete"),
    *each("index", ["text", [1]], method("put", NS, "k", {}, keyword="index"), TypeError, PATHS),
    *each("ttl", ["1", True], method("put", NS, "k", {}, keyword="ttl"), TypeError, MINUTES),
    *each("ttl", [NAN, INF, -1], method("put", NS, "k", {}, keyword="ttl"), ValueError, MINUTES),
    *each("refresh_ttl", [1, "yes"], method("get", NS, "k", keyword="refresh_ttl"), TypeError, REFRESH),
    *each("refresh_ttl", [1, "yes"], method("search", NS, keyword="refresh_ttl"), TypeError, REFRESH),
    *each("query", [1, b"x"], method("search", NS, keyword="query"), TypeError, "a str or None"),
    *each("filter", [1, "x"], method("search", NS, keyword="filter"), TypeError, "must be a dict"),
    *each("limit", [None, "1"], method("search", NS, keyword="limit"), TypeError, WHOLE),
    *each("offset", [-1], method("search", NS, keyword="offset"), ValueError, WHOLE),
    *each("max_depth", [0, -1], method("list_namespaces", keyword="max_depth"), ValueError, WHOLE + " 1"),
    *each("limit", [None, 1.5], method("list_namespaces", keyword="limit"), TypeError, WHOLE),
    *each("offset", [-1], method("list_namespaces", keyword="offset"), ValueError, WHOLE),
    *each("ops", [None, 1], method("batch"), TypeError, "must be an iterable of ops"),
    *each("sweep_interval_minutes", [0], method("start_ttl_sweeper"), ValueError, "must be above 0"),
    *each("sweep_interval_minutes", [-1, NAN, INF], method("start_ttl_sweeper"), ValueError, MINUTES),
    *each("sweep_interval_minutes", ["5", True, [5]], method("start_ttl_sweeper"), TypeError, MINUTES),
    *each("timeout", [-1, NAN], method("stop_ttl_sweeper"), ValueError, "must be a number of seconds from 0, or None"),
    *each("timeout", ["5", True, [5]], method("stop_ttl_sweeper"), TypeError, "must be a number of seconds from 0"),
]


def test_a_bad_argument_of_a_method_is_refused(make_any_store: Any, side: Any) -> None:
    before = dump(make_any_store)
    for name, call, error, words in BAD_CALLS:
        refuses(lambda call=call: call(side), error, *words, case=name)
    assert dump(make_any_store) == before


def test_counts_beyond_what_a_server_can_count_are_just_large(side: Any) -> None:
    assert [item.key for item in side.search(NS, limit=HUGE)] == ["ttl", "vector"]
    assert side.search(NS, offset=HUGE) == side.search(NS, offset=2**53, limit=2**53) == []
    assert side.search((), filter={"text": {"$exists": True}}, offset=HUGE) == []
    assert side.list_namespaces(limit=HUGE, max_depth=HUGE) == [("other",), NS]
    assert side.list_namespaces(offset=HUGE) == []


@pytest.mark.parametrize("bad", [None, "now", NAN, INF, True, 1j], ids=repr)
def test_a_clock_that_returns_no_time_is_refused(make_any_store: Any, face: Any, bad: Any) -> None:
    before = dump(fill(make_any_store))
    side = face(make_any_store(clock=lambda: bad))
    for name, call in EVERY_OP.items():
        refuses(
            lambda call=call: call(side), ConfigurationError, "clock must return the time in ms", repr(bad), case=name
        )
    assert dump(make_any_store) == before


@pytest.mark.parametrize("namespace", [("l" * 10_000,), ("l" * 10_000, "m" * 10_000), tuple("abcdefgh" * 16)], ids=len)
def test_huge_keys_and_labels_work(make_any_store: Any, face: Any, namespace: tuple[str, ...]) -> None:
    """Contract 12."""
    side = face(make_any_store(index=INDEX))
    keys = ["k" * 2**20, "k" * (2**20 - 1), "é" * 2**19]
    side.batch([PutOp(namespace, key, {"text": "green tea", "n": n}) for n, key in enumerate(keys)])
    assert [side.get(namespace, key).value["n"] for key in keys] == [0, 1, 2]
    assert [item.key for item in side.search(namespace)] == keys[::-1]
    assert {item.key for item in side.search(namespace, query="green tea")} == set(keys)
    assert side.list_namespaces() == side.list_namespaces(prefix=namespace) == [namespace]
    side.delete(namespace, keys[0])
    assert [side.get(namespace, key) is None for key in keys] == [True, False, False]


def test_a_namespace_too_deep_to_be_written_to_is_read_as_empty(side: Any) -> None:
    deep = ("l",) * 129
    assert (side.get(deep, "k"), side.search(deep), side.search(deep, query="tea")) == (None, [], [])
    assert side.list_namespaces(prefix=deep) == side.list_namespaces(suffix=deep) == []
    assert side.delete(deep, "k") is None
    assert side.batch([PutOp(deep, "k", None), GetOp(deep, "k")]) == [None, None]


def test_a_value_of_200_levels_is_stored(side: Any) -> None:
    """Contract 13."""
    for value in (nested(199), {"a": listed(199)}):
        side.put(NS, "deep", value)
        assert side.get(NS, "deep").value == value


def test_a_sweeper_whose_interval_is_beyond_what_a_thread_can_wait_for_waits(make_any_store: Any, face: Any) -> None:
    side = face(make_any_store(ttl={}))
    side.start_ttl_sweeper(1e11)
    thread = next(one for one in threading.enumerate() if one.name.startswith("forgetful "))
    thread.join(0.1)
    assert thread.is_alive()
    assert side.stop_ttl_sweeper(timeout=10)
    assert not thread.is_alive()
