"""Items: values, keys, times, and what comes back."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections import OrderedDict, UserDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import GetOp, Item, PutOp, SearchItem

from langgraph_forgetful_store.testing.contract.base import NS, Make, Section, as_json, keys, refuses, snapshot
from langgraph_forgetful_store.testing.contract.embedders import PlannedEmbeddings, index
from langgraph_forgetful_store.testing.face import Face

KEYS = [
    "", ".", "..", "a", "A", "a.b", "a.b.c", "Key", "key", "kEY", "a,b", "a|b", "a b", " a", "a ", " ", "a\nb", "\n",
    "\t", "\r\n", "\0", "a\0b", "a\0", "\x01", "\0\x01", "a:*?[x]", "a:*", "*", "?", "[", "]", "[x]", "^", "%", "_",
    "\\", "a\\", "'", '"', "`", "{", "}", "{0}", "$", "$memory", ":", "::", "/", "é", "e\u0301", "ß", "ss", "İ", "ı",
    "😀", "👩‍👩‍👧", "\u200b", "\ufeff", "\ud800", "\udfff", "\ud83d\ude00", "\U0010ffff", "\uffff", "\x7f", "\x80",
    "\xff", "0", "00", "1", "1.0", "-1", "True", "None", "null", "nan", "x" * 9_999, "x" * 10_000, "é" * 10_000,
    "x" * 9_999 + "y",
]  # fmt: skip

VALUES: dict[str, Any] = {
    "integers": [
        0,
        1,
        -1,
        255,
        2**31,
        2**53,
        2**53 + 1,
        2**63 - 1,
        2**63,
        -(2**63) - 1,
        2**64,
        2**70,
        -(2**70),
        10**40,
    ],
    "floats": [
        0.0,
        -0.0,
        0.1,
        1.0,
        1e16,
        1e308,
        -1e308,
        5e-324,
        1.7976931348623157e308,
        1 / 3,
        123456.789,
        1e22,
        2.0**70,
    ],
    "constants": [True, False, None],
    "strings": [
        "",
        " ",
        "\0",
        "a\0b",
        "\n\r\t\b\f\\/\"'",
        "\u2028\u2029",
        "é",
        "e\u0301",
        "😀",
        "\ud83d",
        "\udc00x",
        "\x7f",
    ],
    "numbers in strings": ["1", "1.0", "true", "null", "NaN", "{}", "[]"],
    "empty": {"dict": {}, "list": [], "lists": [[], [[]], {}]},
    "nested": {"a": [{"b": [{"c": {"d": [1, [2, [3, {"e": None}]]]}}]}]},
    "odd names": {
        "": 1,
        ".": 2,
        "a.b": 3,
        "$": 4,
        "$eq": 5,
        "__proto__": 6,
        "\0": 7,
        "😀": 8,
        "a[0]": 9,
        "\ud800": 10,
        "é": 11,
    },
    "inner $memory": {"$memory": {"importance": 1}, "list": [{"$memory": 1}]},
    "long": "x" * 100_000,
    "many": {str(at): at for at in range(2_000)},
}

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Colour(Enum):
    """Something that is not JSON."""

    RED = "red"


@dataclass
class Point:
    """Something else that is not JSON."""

    x: int = 0


class OnlyMapping(Mapping[str, Any]):
    """A mapping that is no dict and no more than a mapping."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)


MAPPINGS: tuple[Any, ...] = (OnlyMapping, MappingProxyType, UserDict, OrderedDict)

NOT_JSON: dict[str, Any] = {
    "set": {1}, "empty set": set(), "frozenset": frozenset({1}), "bytes": b"x", "bytearray": bytearray(b"x"),
    "datetime": NOW, "date": date(2026, 1, 1), "timedelta": timedelta(1), "decimal": Decimal("1.5"),
    "uuid": uuid.UUID(int=1), "complex": 1j, "object": object(), "function": len, "class": int, "enum": Colour.RED,
    "dataclass": Point(), "range": range(3), "iterator": iter([1]), "tuple as a name": {(1, 2): 3},
    "exception": ValueError("x"),
}  # fmt: skip

NOT_MAPPINGS: dict[str, Any] = {
    "list": [1], "empty list": [], "pairs": [("a", 1)], "tuple": (1,), "empty tuple": (), "str": "x", "empty str": "",
    "int": 7, "zero": 0, "float": 1.5, "true": True, "false": False, "bytes": b"x", "set": {1}, "object": object(),
    "dataclass": Point(),
}  # fmt: skip


class ItemContract(Section):
    """Contract 8-13, 43 (truth), 45 and 46 (names)."""

    def test_get_returns_an_item_and_search_search_items(self, store: Face) -> None:
        """Contract 8."""
        store.put(("a", "b"), "k", {"v": 1})
        item = store.get(("a", "b"), "k")
        (found,) = store.search(())
        assert isinstance(item, Item)
        assert isinstance(found, SearchItem)
        for one in (item, found):
            assert type(one.namespace) is tuple
            assert (one.namespace, one.key, one.value) == (("a", "b"), "k", {"v": 1})
        assert type(store.search(())) is list
        assert store.get(("a", "b"), "none") is None

    def test_a_re_put_replaces_the_whole_value(self, store: Face) -> None:
        """Contract 9."""
        store.put(NS, "k", {"a": 1, "b": {"c": 2}})
        for value in ({"b": {"d": 3}}, {}):
            store.put(NS, "k", value)
            assert store.get(NS, "k").value == value

    def test_a_re_put_keeps_created_at_and_moves_updated_at(self, store: Face) -> None:
        """Contract 9."""
        store.put(NS, "k", {"v": 1})
        first = store.get(NS, "k")
        time.sleep(0.003)
        store.put(NS, "k", {"v": 2})
        second = store.get(NS, "k")
        assert second.created_at == first.created_at
        assert second.updated_at > first.updated_at

    def test_a_put_after_a_delete_is_a_new_item(self, store: Face) -> None:
        """Contract 9."""
        store.put(NS, "k", {"v": 1})
        first = store.get(NS, "k")
        store.delete(NS, "k")
        time.sleep(0.003)
        store.put(NS, "k", {"v": 1})
        assert store.get(NS, "k").created_at > first.created_at

    def test_reads_never_move_updated_at(self, make: Make) -> None:
        """Contract 9."""
        store = make(index=index(PlannedEmbeddings()))
        store.put(NS, "k", {"text": "tea"})
        first = store.get(NS, "k")
        time.sleep(0.003)
        store.get(NS, "k", refresh_ttl=True)
        store.search(NS, query="tea", refresh_ttl=True)
        store.search(NS, refresh_ttl=True)
        store.list_namespaces()
        item = store.get(NS, "k")
        assert (item.created_at, item.updated_at) == (first.created_at, first.updated_at)

    def test_timestamps_are_aware_utc_datetimes(self, store: Face) -> None:
        """Contract 10."""
        store.put(NS, "k", {})
        for item in (store.get(NS, "k"), store.search(NS)[0]):
            for at in (item.created_at, item.updated_at):
                assert (type(at), at.utcoffset()) == (datetime, timedelta(0))
                assert abs(datetime.now(UTC) - at) < timedelta(minutes=5)

    def test_values_are_copied_in(self, store: Face) -> None:
        """Contract 11."""
        value: dict[str, Any] = {"list": [1], "dict": {"a": [1]}}
        store.put(NS, "k", value)
        value["new"] = 1
        value["list"].append(2)
        value["dict"]["a"].append(2)
        assert store.get(NS, "k").value == {"list": [1], "dict": {"a": [1]}}

    def test_values_are_copied_out(self, store: Face) -> None:
        """Contract 11."""
        value = {"list": [1], "dict": {"a": [1]}}
        store.put(NS, "k", value)
        ops = [GetOp(NS, "k"), GetOp(NS, "k")]
        first, second = store.batch(ops)
        first.value["list"].append(2)
        assert second.value == value
        for item in (*store.batch(ops), *store.search(NS), *store.search(NS, filter={"list": [1]})):
            item.value["list"].append(2)
            item.value["dict"]["a"] = "changed"
            item.value["new"] = 1
        assert store.get(NS, "k").value == {"list": [1], "dict": {"a": [1]}}
        assert store.search(NS)[0].value == {"list": [1], "dict": {"a": [1]}}

    def test_keys_of_every_kind_work_and_stay_distinct(self, store: Face) -> None:
        """Contract 12."""
        assert len(set(KEYS)) == len(KEYS)
        for at, key in enumerate(KEYS):
            store.put(NS, key, {"at": at})
        assert [store.get(NS, key).value["at"] for key in KEYS] == list(range(len(KEYS)))
        assert [store.get(NS, key).key for key in KEYS] == KEYS
        assert sorted(keys(store.search(NS, limit=1000))) == sorted(KEYS)
        for at, key in enumerate(KEYS):
            store.delete(NS, key)
            assert store.get(NS, key) is None
            assert len(store.search(NS, limit=1000)) == len(KEYS) - at - 1

    def test_keys_of_every_kind_work_in_a_batch(self, store: Face) -> None:
        """Contract 12."""
        store.batch([PutOp(NS, key, {"at": at}) for at, key in enumerate(KEYS)])
        assert [item.value["at"] for item in store.batch([GetOp(NS, key) for key in KEYS])] == list(range(len(KEYS)))
        store.batch([PutOp(NS, key, None) for key in KEYS[::2]])
        assert sorted(keys(store.search(NS, limit=1000))) == sorted(KEYS[1::2])

    def test_a_key_that_is_no_str_is_made_one(self, store: Face) -> None:
        """Contract 12."""
        for key in (1, 0, -1.5, True, None, uuid.UUID(int=1), ("a", 1)):
            store.put(NS, key, {"v": 1})
            assert store.get(NS, key).key == str(key)
            assert store.get(NS, str(key)).value == {"v": 1}
            store.delete(NS, key)
            assert store.get(NS, str(key)) is None

    def test_values_come_back_as_they_were(self, store: Face) -> None:
        """Contract 13: types too; an int stays an int, whatever its size."""
        for kind, part in VALUES.items():
            value = {"v": part}
            store.put(NS, "k", value)
            assert as_json(store.get(NS, "k").value) == as_json(value), kind
            assert as_json(store.search(NS)[0].value) == as_json(value), kind
            assert as_json(store.search(NS, filter={"v": {"$ne": "no"}})[0].value) == as_json(value), kind

    def test_integers_and_floats_keep_their_types(self, store: Face) -> None:
        """Contract 13."""
        store.put(NS, "k", {"int": 2**70, "float": 2.0**70, "one": 1.0, "minus zero": -0.0, "true": True})
        value = store.get(NS, "k").value
        assert [type(part) for part in value.values()] == [int, float, float, float, bool]
        assert value["int"] == 2**70
        assert math.copysign(1, value["minus zero"]) == -1

    def test_a_tuple_comes_back_a_list(self, store: Face) -> None:
        """Contract 13."""
        store.put(NS, "k", {"t": (1, (2, [(3,)])), "d": {"e": ()}})
        assert as_json(store.get(NS, "k").value) == as_json({"t": [1, [2, [[3]]]], "d": {"e": []}})
        assert type(store.get(NS, "k").value["t"]) is list

    def test_any_mapping_is_accepted_and_comes_back_a_dict(self, store: Face) -> None:
        """Contract 13."""
        for kind in MAPPINGS:
            store.put(NS, "k", kind({"a": 1, "b": {"c": [2]}}))
            assert type(store.get(NS, "k").value) is dict
            assert store.get(NS, "k").value == {"a": 1, "b": {"c": [2]}}

    def test_any_mapping_is_accepted_inside_a_value(self, store: Face) -> None:
        """Contract 13."""
        for kind in MAPPINGS:
            store.put(NS, "k", {"a": kind({"b": [kind({"c": kind({})})]})})
            value = store.get(NS, "k").value
            assert value == {"a": {"b": [{"c": {}}]}}
            assert type(value["a"]) is type(value["a"]["b"][0]) is dict

    def test_values_of_a_mebibyte_work(self, store: Face) -> None:
        """Contract 13."""
        value = {"text": "é" * 2**19, "list": list(range(1_000))}
        store.batch([PutOp(NS, "a", value), PutOp(NS, "b", {"text": "x" * 2**20}), PutOp(NS, "c", {})])
        assert store.get(NS, "a").value == value
        assert sorted(len(item.value.get("text", "")) for item in store.search(NS)) == [0, 2**19, 2**20]
        assert keys(store.search(NS, filter={"list": list(range(1_000))})) == ["a"]

    def test_what_is_not_json_is_refused(self, store: Face) -> None:
        """Contract 13: at the top and nested."""
        store.put(NS, "k", {"v": 0})
        before = snapshot(store)
        for kind, bad in NOT_JSON.items():
            for value in ({"v": bad}, {"v": 1, "a": [{"b": ({"c": bad},)}]}):
                refuses(TypeError, store.put, NS, "k", value)
                refuses(TypeError, store.batch, [PutOp(NS, "other", {}), PutOp(NS, "k", value)])
                assert snapshot(store) == before, kind

    def test_numbers_that_json_lacks_are_refused(self, store: Face) -> None:
        """Contract 13: at the top and nested."""
        store.put(NS, "k", {"v": 0})
        before = snapshot(store)
        for number in (math.nan, math.inf, -math.inf):
            for value in ({"v": number}, {"v": [1, {"w": (number,)}]}, {"v": MappingProxyType({"w": number})}):
                refuses(ValueError, store.put, NS, "k", value)
                refuses(ValueError, store.put, NS, "new", value)
        assert snapshot(store) == before

    def test_a_value_that_holds_itself_is_refused(self, store: Face) -> None:
        """Contract 13."""
        value: dict[str, Any] = {}
        value["v"] = [value]
        refuses(ValueError, store.put, NS, "k", value)
        assert store.get(NS, "k") is None

    def test_a_value_that_is_no_mapping_is_refused(self, store: Face) -> None:
        """Contract 13: a falsy one deletes nothing."""
        store.put(NS, "k", {"v": 0})
        before = snapshot(store)
        for kind, value in NOT_MAPPINGS.items():
            refuses(TypeError, store.put, NS, "k", value)
            refuses(TypeError, store.batch, [PutOp(NS, "other", {}), PutOp(NS, "k", value)])
            assert snapshot(store) == before, kind

    def test_a_surrogate_pair_stays_two_characters(self, store: Face) -> None:
        """Contract 13."""
        store.put(NS, "k", {"\ud83d\ude00": "\ud83d\ude00", "😀": "😀"})
        value = store.get(NS, "k").value
        assert [(len(name), len(text)) for name, text in value.items()] == [(2, 2), (1, 1)]

    def test_a_store_is_never_falsy_and_has_no_length(self, store: Face) -> None:
        """Contract 43."""
        assert bool(store.store) is True
        assert not hasattr(type(store.store), "__len__")

    def test_items_survive_the_checkpoint_serializer(self, make: Make) -> None:
        """Contract 45."""
        store = make(index=index(PlannedEmbeddings()))
        store.put(("a", "😀"), "k", {"text": "tea", "n": [1, 2.5, None, {"x": True}]})
        store.put(("a", "b"), "plain", {"n": 1}, index=False)
        serde = JsonPlusSerializer()
        for item in (store.get(("a", "😀"), "k"), *store.search(("a",)), *store.search(("a",), query="tea")):
            again = serde.loads_typed(serde.dumps_typed(item))
            assert type(again) is type(item)
            assert again == item
            assert again.dict() == item.dict()
            state = serde.loads_typed(serde.dumps_typed({"found": [item, item]}))
            assert [one.dict() for one in state["found"]] == [item.dict()] * 2

    def test_an_item_is_rebuilt_from_its_dict_which_is_plain_json(self, make: Make) -> None:
        """Contract 45."""
        store = make(index=index(PlannedEmbeddings()))
        store.put(NS, "k", {"text": "tea"})
        for item in (store.get(NS, "k"), *store.search(NS), *store.search(NS, query="tea")):
            as_dict = item.dict()
            again = type(item)(**json.loads(json.dumps(as_dict, allow_nan=False)))
            assert again == item
            assert again.dict() == as_dict
            assert again.namespace == NS
            assert again.created_at == item.created_at
            assert getattr(again, "score", None) == getattr(item, "score", None)
            assert {"namespace", "key", "value", "created_at", "updated_at"} <= set(as_dict)

    def test_every_argument_can_be_given_by_the_name_the_server_uses(self, make: Make) -> None:
        """Contract 46."""
        store = make(index=index(PlannedEmbeddings()))
        store.put(namespace=NS, key="k", value={"text": "tea"}, index=None, ttl=None)
        assert store.get(namespace=NS, key="k", refresh_ttl=None).value == {"text": "tea"}
        found = store.search(NS, query="tea", filter={"text": "tea"}, limit=1, offset=0, refresh_ttl=None)
        assert keys(found) == ["k"]
        listed = store.list_namespaces(prefix=("contract",), suffix=("ns",), max_depth=1, limit=1, offset=0)
        assert listed == [("contract",)]
        store.delete(namespace=NS, key="k")
        assert store.get(NS, "k") is None
