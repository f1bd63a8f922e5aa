"""The reserved key: what clients that know only `BaseStore` say, in values and in filters, about a memory's life."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp

from langgraph_forgetful_store import ConfigurationError, ForgetfulStore
from langgraph_forgetful_store.testing.contract.embedders import PlannedEmbeddings

NS = ("users", "alice")
FULL = {
    "memory_type": "fact",
    "importance": 0.9,
    "confidence": 0.25,
    "source": "user",
    "source_refs": ["m1", "m2"],
    "tags": ["red", "blue"],
    "preconditions": ["at home"],
    "run_id": "r1",
}
PLAIN = {
    "memory_type": "generic",
    "importance": 0.5,
    "confidence": 0.8,
    "source": None,
    "source_refs": [],
    "tags": [],
    "preconditions": [],
    "run_id": None,
}
FIELDS = "memory_type, importance, confidence"


def life(store: Any, key: str = "k") -> dict[str, Any]:
    memory = store.get(NS, key).memory
    found = {name: getattr(memory, name) for name in PLAIN}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def put(store: Any, memory: dict[str, Any] | None = None, key: str = "k", **options: Any) -> None:
    store.put(NS, key, {"text": key, **({} if memory is None else {"$memory": memory})}, **options)


def keys(items: list[Any]) -> list[str]:
    return [item.key for item in items]


def test_it_sets_the_life_and_is_no_part_of_the_value(make_store, face):
    embedder = PlannedEmbeddings()
    store = face(make_store(index={"dims": 4, "embed": embedder}))
    given = {"text": "tea", "$memory": dict(FULL)}
    store.put(NS, "k", given)
    assert given == {"text": "tea", "$memory": FULL}
    assert store.get(NS, "k").value == {"text": "tea"}
    assert store.search(NS, filter={"$memory": {"run_id": "r1"}})[0].value == {"text": "tea"}
    assert life(store) == FULL
    # The whole value is embedded, without it.
    assert embedder.documents == [['{"text": "tea"}']]
    with make_store.server.client() as client:
        assert all(b"$memory" not in client.dump(key) for key in client.scan_iter())


def test_it_works_in_a_batch(make_any_store, face):
    store = face(make_any_store())
    puts = [PutOp(NS, str(at), {"n": at, "$memory": {"importance": at / 10}}) for at in range(11)]
    store.batch([*puts, GetOp(NS, "0")])
    assert [store.get(NS, str(at)).memory.importance for at in range(11)] == [at / 10 for at in range(11)]


@pytest.mark.parametrize("name", FULL)
def test_a_put_changes_the_named_field_alone(make_store, face, name):
    store = face(make_store())
    put(store)
    assert life(store) == PLAIN
    put(store, {name: FULL[name]})
    assert life(store) == {**PLAIN, name: FULL[name]}
    put(store, FULL)
    put(store, {name: FULL[name]})
    assert life(store) == {**FULL, name: FULL[name]}


@pytest.mark.parametrize("source", ["user", "tool", "database"])
def test_whom_a_new_row_comes_from_says_how_far_it_is_trusted(make_store, face, source):
    store = face(make_store())
    put(store, {"source": source})
    assert life(store) == {**PLAIN, "confidence": 0.95, "source": source}
    store.put(NS, "said", {"a": 1, "$memory": {"source": source, "confidence": 0.3}})
    assert store.get(NS, "said").memory.confidence == 0.3


def test_a_put_without_it_keeps_the_life_and_an_empty_one_too(make_store, face):
    store = face(make_store())
    put(store, FULL)
    for nothing in (None, {}):
        put(store, nothing)
        assert life(store) == FULL
    memory = store.get(NS, "k").memory
    assert (memory.version, str(memory.status)) == (3, "active")


def test_lists_are_replaced_and_may_be_emptied(make_any_store, face):
    store = face(make_any_store())
    put(store, {"tags": ["red", "blue", "red"]})
    assert life(store)["tags"] == ["red", "blue"]
    put(store, {"tags": ("green",)})
    assert life(store)["tags"] == ["green"]
    put(store, {"tags": []})
    assert life(store) == PLAIN


def test_over_an_expired_row_the_life_begins_anew(make_store, face, clock):
    store = face(make_store(clock=clock))
    put(store, FULL, ttl=1)
    clock.advance(minutes=1)
    put(store, {"importance": 0.7})
    assert life(store) == {**PLAIN, "importance": 0.7}


def test_over_a_deleted_row_the_life_begins_anew(make_store, face):
    store = face(make_store())
    put(store, FULL)
    store.delete(NS, "k")
    put(store)
    assert life(store) == PLAIN


@pytest.mark.parametrize(
    ("source", "confidence"), [("user", 0.95), ("tool", 0.95), ("database", 0.95), ("model", 0.7), ("hearsay", 0.8)]
)
def test_a_source_says_how_far_a_memory_is_trusted(make_any_store, face, source, confidence):
    store = face(make_any_store())
    put(store, {"source": source})
    put(store, {"source": source, "confidence": 0.1}, key="said")
    assert (life(store)["confidence"], life(store, "said")["confidence"]) == (confidence, 0.1)


@pytest.mark.parametrize("value", [{"a": {"$memory": 1}}, {"a": [{"$memory": {"x": 1}}]}, {"memory": {"source": 2}}])
def test_elsewhere_in_a_value_it_is_data(make_any_store, face, value):
    store = face(make_any_store())
    store.put(NS, "k", value)
    assert store.get(NS, "k").value == value
    assert store.search(NS)[0].value == value
    assert life(store) == PLAIN


BAD: dict[str, tuple[Any, str]] = {
    "no dict": ([], "must be a dict with any of memory_type"),
    "a text": ("fact", "must be a dict with any of memory_type"),
    "nothing": (None, "must be a dict with any of memory_type"),
    "an unknown field": ({"weight": 1}, f"unknown fields 'weight'; known are {FIELDS}"),
    "a field that the store keeps itself": ({"access_count": 7}, "unknown fields 'access_count'"),
    "a name that is no str": ({1: 1}, "unknown fields 1"),
    "importance": ({"importance": 1.1}, r"\['importance'\] must be a number from 0 to 1"),
    "a negative importance": ({"importance": -0.1}, "must be a number from 0 to 1"),
    "importance's type": ({"importance": "high"}, "must be a number from 0 to 1"),
    "a truth value": ({"importance": True}, "must be a number from 0 to 1"),
    "no number": ({"confidence": float("nan")}, r"\['confidence'\] must be a number from 0 to 1"),
    "confidence": ({"confidence": None}, "must be a number from 0 to 1"),
    "memory_type": ({"memory_type": ""}, r"\['memory_type'\] must be a non-empty str"),
    "a long memory_type": ({"memory_type": "é" * 128}, "at most 255 bytes"),
    "a memory_type with NUL": ({"memory_type": "a\0b"}, "without NUL"),
    "source": ({"source": 1}, r"\['source'\] must be a non-empty str"),
    "source_refs": ({"source_refs": "m1"}, r"\['source_refs'\] must be a list of non-empty str"),
    "tags": ({"tags": ["red", 1]}, r"\['tags'\] must be a list of non-empty str"),
    "an empty tag": ({"tags": [""]}, "must be a list of non-empty str"),
    "preconditions": ({"preconditions": {}}, "must be a list of non-empty str"),
    "run_id": ({"run_id": ""}, r"\['run_id'\] must be a non-empty str"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_unusable_in_a_value_is_refused_and_nothing_is_written(make_any_store, face, name):
    store = face(make_any_store())
    given, message = BAD[name]
    with pytest.raises(ValueError, match=message) as raised:
        store.batch([PutOp(NS, "good", {}), PutOp(NS, "bad", {"$memory": given})])
    assert "value['$memory']" in str(raised.value)
    assert store.search(NS) == []


def test_the_longest_name_of_a_type_and_any_text_work(make_any_store, face):
    store = face(make_any_store())
    given = {"memory_type": "é" * 127, "tags": ["", "a\0b", "\U0001f375", 'q"\\'], "run_id": "r" * 5000}
    given["tags"][0] = " "
    put(store, given)
    assert life(store) == {**PLAIN, **given}


@pytest.fixture
def four(make_any_store: Any, face: Any) -> Any:
    """A store with four rows, the latest first: d, c, b, a."""
    store = face(make_any_store())
    put(store, {"importance": 0.1, "tags": ["red"]}, "a")
    put(store, {"importance": 0.6, "tags": ["blue"], "source": "user"}, "b")
    put(store, {"importance": 0.9, "memory_type": "fact"}, "c")
    put(store, None, "d")
    return store


FILTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a number": ({"$memory": {"importance": 0.6}}, ["b"]),
    "a range": ({"$memory": {"importance": {"$gte": 0.5, "$lt": 0.9}}}, ["d", "b"]),
    "a type": ({"$memory": {"memory_type": "fact"}}, ["c"]),
    "one of several types": ({"$memory": {"memory_type": {"$in": ["fact", "generic"]}}}, ["d", "c", "b", "a"]),
    "a tag": ({"$memory": {"tags": {"$contains": "red"}}}, ["a"]),
    "all tags": ({"$memory": {"tags": ["red"]}}, ["a"]),
    "whether a field is there": ({"$memory": {"source": {"$exists": False}}}, ["d", "c", "a"]),
    "a count": ({"$memory": {"access_count": {"$lte": 0}}}, ["d", "c", "b", "a"]),
    "a count that none has": ({"$memory": {"access_count": 1}, "text": "a"}, []),
    "two fields": ({"$memory": {"importance": {"$gt": 0.5}, "source": "user"}}, ["b"]),
    "beside a value": ({"text": {"$in": ["a", "b"]}, "$memory": {"importance": {"$lt": 0.5}}}, ["a"]),
    "in $and": ({"$and": [{"$memory": {"importance": {"$gt": 0.5}}}, {"text": "c"}]}, ["c"]),
    "in $and alone": ({"$and": [{"$memory": {"source": "user"}}]}, ["b"]),
    "in two parts of $and": (
        {"$and": [{"$memory": {"importance": {"$gt": 0.2}}}, {"$memory": {"importance": {"$lt": 0.8}}}]},
        ["d", "b"],
    ),
    "at the top and in $and": (
        {"$memory": {"min_confidence": 0.9}, "$and": [{"$memory": {"importance": {"$gt": 0.2}}}]},
        ["b"],
    ),
    # As the server's auth layer wraps what a user sends.
    "in the $and of an $and": ({"$and": [{"$and": [{"$memory": {"source": "user"}}, {}]}, {}]}, ["b"]),
    "an option": ({"$memory": {"min_confidence": 0.95}}, ["b"]),
    "nothing": ({"$memory": {}}, ["d", "c", "b", "a"]),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_asks_for_the_life(four, name):
    given, wanted = FILTERS[name]
    assert keys(four.search(NS, filter=given)) == wanted
    assert keys(four.batch([SearchOp(NS, given)])[0]) == wanted
    assert keys(four.recall(NS, filter=given)) == wanted
    assert keys(four.search(NS, filter=given, limit=1, offset=max(len(wanted) - 1, 0))) == wanted[-1:]


BAD_FILTERS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"$memory": {"weight": 1}}, "unknown field 'weight'; known are memory_type, importance"),
    "an unknown field in $and": ({"$and": [{"$memory": {"weight": 1}}]}, "unknown field 'weight'; known are memory_ty"),
    "no dict": ({"$memory": "fact"}, r"filter\['\$memory'\] must be a dict"),
    "an unknown operator": ({"$memory": {"importance": {"$near": 1}}}, r"Unsupported operator: \$near"),
    "explain": ({"$memory": {"explain": "yes"}}, "explain must be True or False"),
    "min_similarity": ({"$memory": {"min_similarity": 2}}, "min_similarity must be a number"),
    "min_confidence": ({"$memory": {"min_confidence": "low"}}, "min_confidence must be a number"),
    "goal": ({"$memory": {"goal": 1}}, "goal must be a non-empty str"),
    "in_contexts": ({"$memory": {"in_contexts": [1]}}, "in_contexts must be a list"),
    "in $or": ({"$or": [{"$memory": {"source": "user"}}, {}]}, "at the top of a filter .* known there are memory_type"),
    "in $not": ({"$not": {"$memory": {"source": "user"}}}, "may stand at the top of a filter"),
    "in $and in $or": ({"$or": [{"$and": [{"$memory": {}}]}]}, "may stand at the top of a filter"),
    "in $or in $and": ({"$and": [{"$or": [{"$memory": {}}]}]}, "may stand at the top of a filter"),
    "in a field": ({"text": {"$memory": {"source": "user"}}}, r"Unsupported operator: \$memory"),
}


@pytest.mark.parametrize("name", BAD_FILTERS)
def test_what_is_unusable_in_a_filter_is_refused(four, name):
    given, message = BAD_FILTERS[name]
    for call in (lambda: four.search(NS, filter=given), lambda: four.recall(NS, filter=given)):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_filter_is_not_changed(four):
    given = {"$and": [{"$memory": {"source": "user"}, "text": "b"}], "$memory": {"importance": 0.6}}
    assert keys(four.search(NS, filter=given)) == ["b"]
    assert given == {"$and": [{"$memory": {"source": "user"}, "text": "b"}], "$memory": {"importance": 0.6}}


def test_switched_off_it_is_plain_data(make_any_store, face):
    store = face(make_any_store(reserved_key=None))
    value = {"text": "tea", "$memory": {"importance": 1, "anything": None}}
    store.put(NS, "k", value)
    assert store.get(NS, "k").value == value
    assert life(store) == PLAIN
    with pytest.raises(ValueError, match=r"Unsupported operator: \$memory"):
        store.search(NS, filter={"$memory": {"explain": True}})


def test_another_key_may_be_reserved(make_any_store, face):
    store = face(make_any_store(reserved_key="life"))
    store.put(NS, "k", {"text": "tea", "life": {"importance": 1.0}, "$memory": {"x": 1}})
    assert store.get(NS, "k").value == {"text": "tea", "$memory": {"x": 1}}
    assert life(store) == {**PLAIN, "importance": 1.0}
    assert keys(store.search(NS, filter={"life": {"importance": 1}})) == ["k"]
    assert store.search(NS, filter={"life": {"importance": 0.5}}) == []
    with pytest.raises(ValueError, match=r"value\['life'\] has unknown fields 'weight'"):
        store.put(NS, "k", {"life": {"weight": 1}})
    for misplaced in ({"$not": {"life": {}}}, {"$or": [{"life": {}}]}):
        with pytest.raises(ValueError, match="'life' may stand at the top"):
            store.search(NS, filter=misplaced)
    # Below a field it is a name like any other, as it is in values.
    store.put(NS, "deep", {"a": {"life": 3}})
    assert keys(store.search(NS, filter={"a": {"life": 3}})) == ["deep"]


@pytest.mark.parametrize("key", ["", 3, True, b"$memory"])
def test_a_reserved_key_that_is_none_is_refused(key):
    with pytest.raises(ConfigurationError, match="reserved_key must be a non-empty str or None"):
        ForgetfulStore.from_conn_string("redis://localhost", reserved_key=key)
