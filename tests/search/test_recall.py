"""What a recall may ask: every filter alone keeps out a perfect match, and applies before the page is cut."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import InvalidNamespaceError, PutOp

from langgraph_forgetful_store.testing.contract.embedders import PlannedEmbeddings

NS = ("users", "alice")
# The query is the first axis, the goal the second.
VECTORS = {
    "query": (1.0, 0.0, 0.0, 0.0),
    "goal": (0.0, 1.0, 0.0, 0.0),
    "other goal": (0.0, 0.0, 1.0, 0.0),
    "perfect": (1.0, 0.0, 0.0, 0.0),
    "far": (3.0, 4.0, 0.0, 0.0),
    "for the goal": (0.8, 0.6, 0.0, 0.0),
    "for the other": (0.8, 0.0, 0.6, 0.0),
    "just below": (0.9802, 0.198, 0.0, 0.0),
    "just above": (0.9796, 0.201, 0.0, 0.0),
    "against it": (0.8, -0.6, 0.0, 0.0),
    "rejected": (0.6, 0.8, 0.0, 0.0),
    "also rejected": (0.6, 0.0, 0.8, 0.0),
}


@pytest.fixture(params=[2**24, 0], ids=["near-cache", "scan"])
def store(make_any_store: Any, face: Any, clock: Any, request: pytest.FixtureRequest) -> Any:
    """A store, with either engine."""
    return face(make_any_store(clock=clock, index=planned(), cache_bytes=request.param, track_access=False))


def planned() -> dict[str, Any]:
    return {"dims": 4, "embed": PlannedEmbeddings(VECTORS), "fields": ["text"]}


def keys(items: list[Any]) -> list[str]:
    return [item.key for item in items]


def put(store: Any, key: str, text: str = "perfect", namespace: tuple[str, ...] = NS, **memory: Any) -> None:
    store.put(namespace, key, {"text": text, "$memory": memory})


# What is asked; the life of a perfect match that it keeps out; the life of a worse one that it lets in.
FILTERS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "min_confidence": ({"min_confidence": 0.6}, {"confidence": 0.59}, {"confidence": 0.6}),
    "memory_types": ({"memory_types": ["fact", "task"]}, {"memory_type": "opinion"}, {"memory_type": "task"}),
    "memory_types without the generic one": ({"memory_types": {"fact"}}, {}, {"memory_type": "fact"}),
    "no hypotheses by default": ({}, {"memory_type": "hypothesis"}, {}),
    "a hypothesis alone": ({"memory_types": ["hypothesis"]}, {}, {"memory_type": "hypothesis"}),
    "tags": ({"tags": ["red", "blue"]}, {"tags": ["green", "redder"]}, {"tags": ["black", "blue"]}),
    "tags of a row without any": ({"tags": ["red"]}, {}, {"tags": ["red"]}),
    "no run by default": ({}, {"run_id": "r1"}, {}),
    "another run": ({"run_id": "r2"}, {"run_id": "r1"}, {"run_id": "r2"}),
    "the run, and rows of none": ({"run_id": "r2"}, {"run_id": "r1"}, {}),
    "ignored in a current context": (
        {"in_contexts": ["work", "home"]},
        {"tags": ["_ignore_in_context_home"]},
        {"tags": ["_ignore_in_context_holiday"]},
    ),
    "only in another context": (
        {"in_contexts": ["work"]},
        {"tags": ["_only_in_context_home"]},
        {"tags": ["_only_in_context_home", "_only_in_context_work"]},
    ),
    "only in a context, and none is given": ({}, {"tags": ["_only_in_context_home"]}, {}),
    "ignored beats only": (
        {"in_contexts": ["work", "home"]},
        {"tags": ["_only_in_context_work", "_ignore_in_context_home"]},
        {"tags": ["_only_in_context_work"]},
    ),
    "a field of the lifecycle": (
        {"filter": {"$memory": {"importance": {"$gt": 0.5}}}},
        {"importance": 0.5},
        {"importance": 0.51},
    ),
    "a field that few rows have": (
        {"filter": {"$memory": {"source": {"$ne": "user"}}}},
        {"source": "user"},
        {"source": "tool"},
    ),
    "tags by an operator": (
        {"filter": {"$memory": {"tags": {"$contains": "red"}}}},
        {"tags": ["blue"]},
        {"tags": ["blue", "red"]},
    ),
    "a hypothesis by the filter": (
        {"filter": {"$memory": {"memory_type": {"$in": ["hypothesis"]}}}},
        {"memory_type": "fact"},
        {"memory_type": "hypothesis"},
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_alone_keeps_out_perfect_matches_and_the_page_is_full(store, name):
    asked, kept_out, let_in = FILTERS[name]
    for at in range(12):
        put(store, f"in{at}", "far", **let_in)
    for at in range(30):
        put(store, f"out{at}", "perfect", **{"importance": 0.5, **kept_out})
    wanted = [f"in{at}" for at in reversed(range(12))]
    for query in ("query", None):
        assert keys(store.recall(NS, query, limit=10, **asked)) == wanted[:10]
        assert keys(store.recall(NS, query, limit=5, offset=9, **asked)) == wanted[9:]
        assert store.recall(NS, query, offset=12, **asked) == []
        # The filter of values comes with it.
        both = {**asked, "filter": {**asked.get("filter", {}), "text": "perfect"}}
        assert store.recall(NS, query, **both) == []


def test_min_similarity_keeps_out_what_is_less_similar_and_what_has_no_vector(store):
    put(store, "perfect", "perfect", importance=0.0, confidence=0.0)
    for at in range(3):
        put(store, f"for{at}", "for the goal", importance=0.0)
    for at in range(12):
        put(store, f"far{at}", "far", importance=1.0, confidence=1.0)
        store.put(NS, f"none{at}", {"text": "perfect"}, index=False)
    assert keys(store.recall(NS, "query", min_similarity=0.7, limit=10)) == ["perfect", "for2", "for1", "for0"]
    assert keys(store.recall(NS, "query", min_similarity=0.7, limit=2, offset=1)) == ["for2", "for1"]
    assert keys(store.recall(NS, "query", min_similarity=1)) == ["perfect"]
    assert len(store.recall(NS, "query", min_similarity=-1, limit=100)) == 16
    assert len(store.recall(NS, "query", limit=100)) == 28


def test_a_run_sees_its_own_rows_and_those_of_none(store):
    for key, memory in (("free", {}), ("one", {"run_id": "r1"}), ("two", {"run_id": "r2"})):
        put(store, key, **memory)
    for found in (store.recall(NS, "query"), store.search(NS), store.search(NS, query="query")):
        assert keys(found) == ["free"]
    assert keys(store.recall(NS, "query", run_id="r1")) == ["one", "free"]
    assert keys(store.recall(NS, run_id="r2")) == ["two", "free"]
    assert keys(store.search(NS, filter={"$memory": {"run_id": "r2"}})) == ["two", "free"]
    # A get names its row.
    assert store.get(NS, "one").memory.run_id == "r1"


def test_hypotheses_are_recalled_only_by_name(store):
    put(store, "known", memory_type="fact")
    put(store, "guess", memory_type="hypothesis")
    assert keys(store.recall(NS, "query")) == keys(store.search(NS)) == ["known"]
    assert keys(store.recall(NS, "query", memory_types=["hypothesis", "fact"])) == ["guess", "known"]
    assert keys(store.search(NS, filter={"$memory": {"memory_type": "hypothesis"}})) == ["guess"]
    # What only mentions the word in another field names no type.
    put(store, "tagged", tags=["memory_type"])
    tagged = {"$memory": {"tags": {"$contains": "memory_type"}}}
    put(store, "tagged guess", tags=["memory_type"], memory_type="hypothesis")
    assert keys(store.search(NS, filter=tagged)) == ["tagged"]


def test_a_goal_flips_the_set_and_multiplies_the_score(store):
    for key in ("for the goal", "for the other", "perfect", "just below", "just above", "against it"):
        put(store, key, key)
    store.put(NS, "none", {"text": "perfect"}, index=False)
    plain = {item.key: item.score for item in store.recall(NS, "query")}
    assert len(plain) == 7
    found = store.recall(NS, "query", goal="goal")
    # Under a similarity of 0.2 to the goal a row is left out, and so is one without a vector.
    assert keys(found) == ["for the goal", "just above"]
    assert found[0].score == pytest.approx(plain["for the goal"] * 0.6, abs=1e-6)
    assert found[0].similarity == pytest.approx(0.8)
    assert keys(store.recall(NS, "query", goal="other goal")) == ["for the other"]
    assert keys(store.recall(NS, "query", goal="goal", limit=1, offset=1)) == ["just above"]
    assert keys(store.search(NS, query="query", filter={"$memory": {"goal": "other goal"}})) == ["for the other"]


def test_rejected_memories_move_the_query_away_from_them(store):
    put(store, "perfect", "perfect")
    put(store, "rejected", "rejected")
    items = store.recall(NS, "query")
    rejected = [item for item in items if item.key == "rejected"]
    before = {item.key: item.similarity for item in items}
    by_text = store.recall(NS, "query", negative=["rejected"])
    # (1, 0) - 0.3 (0.6, 0.8) = (0.82, -0.24).
    length = (0.82**2 + 0.24**2) ** 0.5
    after = {item.key: item.similarity for item in by_text}
    assert after["rejected"] == pytest.approx((0.82 * 0.6 - 0.24 * 0.8) / length, abs=1e-6)
    assert after["rejected"] < before["rejected"] - 0.1
    for negative in (rejected, "rejected", rejected[0], ("rejected", "rejected"), iter(["rejected"])):
        assert {i.key: i.similarity for i in store.recall(NS, "query", negative=negative)} == pytest.approx(after)
    assert {i.key: i.similarity for i in store.recall(NS, "query", negative=[])} == before


def test_of_several_rejected_memories_the_mean_counts(store):
    put(store, "perfect", "perfect")
    (found,) = store.recall(NS, "query", negative=["rejected", "also rejected"], goal=None)
    # (1, 0, 0) - 0.3 (0.6, 0.4, 0.4) = (0.82, -0.12, -0.12).
    assert found.similarity == pytest.approx(0.82 / (0.82**2 + 2 * 0.12**2) ** 0.5, abs=1e-6)


def test_a_goal_and_rejected_memories_do_not_mix(store):
    put(store, "for the goal", "for the goal")
    (plain,) = store.recall(NS, "query", negative=["also rejected"])
    (found,) = store.recall(NS, "query", negative=["also rejected"], goal="goal")
    assert found.similarity == plain.similarity
    assert found.score == pytest.approx(plain.score * 0.6, abs=1e-6)


def test_a_rejected_memory_without_a_text_rejects_nothing(store):
    put(store, "perfect", "perfect")
    store.put(NS, "blank", {"n": 1})
    blank = store.get(NS, "blank")
    assert store.recall(NS, "query", negative=[blank])[0].similarity == pytest.approx(1)


def test_a_rerank_reorders_the_page_and_no_more(store):
    for at in range(6):
        put(store, str(at))
    seen: list[Any] = []

    def backwards(query: str | None, items: list[Any]) -> list[Any]:
        seen.append((query, keys(items)))
        return items[::-1]

    assert keys(store.recall(NS, "query", limit=3, offset=1, rerank=backwards)) == ["2", "3", "4"]
    assert keys(store.recall(NS, limit=2, rerank=lambda query, items: tuple(reversed(items)))) == ["4", "5"]
    assert seen == [("query", ["4", "3", "2"])]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda items: items[:-1],
        lambda items: [*items, items[0]],
        lambda items: [items[0]] * len(items),
        lambda items: [],
        lambda items: [1, 2, 3],
    ],
)
def test_a_rerank_that_loses_or_adds_items_is_refused(store, wrong):
    for at in range(3):
        put(store, str(at))
    with pytest.raises(ValueError, match="rerank must return the 3 items it was given"):
        store.recall(NS, "query", rerank=lambda query, items: wrong(items))


def test_a_rerank_that_changes_the_list_it_was_given_loses_nothing(store):
    for at in range(3):
        put(store, str(at))

    def sort_in_place(query: str | None, items: list[Any]) -> list[Any]:
        items.sort(key=lambda item: item.key)
        return items

    assert keys(store.recall(NS, "query", rerank=sort_in_place)) == ["0", "1", "2"]


@pytest.mark.parametrize("query", ["query", None])
def test_pages_of_a_filtered_recall_are_one_list_cut_up(store, query):
    for at in range(90):
        put(
            store,
            str(at),
            ("perfect", "far", "for the goal")[at % 3],
            namespace=(*NS, f"n{at % 2}"),
            confidence=at % 5 / 5,
            memory_type=("fact", "task")[at % 2],
            **({"tags": ["red"]} if at % 4 else {}),
        )
    asked = {"min_confidence": 0.4, "memory_types": ["fact"], "tags": ["red"], "filter": {"text": {"$ne": "far"}}}
    every = keys(store.recall(NS, query, limit=100, **asked))
    expected = {str(at) for at in range(90) if at % 5 >= 2 and at % 2 == 0 and at % 4 and at % 3 != 1}
    assert set(every) == expected
    assert len(every) == len(expected) > 7
    pages = [keys(store.recall(NS, query, limit=4, offset=at, **asked)) for at in range(0, len(every) + 4, 4)]
    assert [key for page in pages for key in page] == every
    assert store.recall(NS, query, limit=0, **asked) == []


def test_without_a_query_a_recall_lists_the_latest_write_first_without_scores(store):
    for key in ("b", "a", "c"):
        put(store, key)
    for query in (None, ""):
        found = store.recall(NS, query)
        assert [(item.key, item.score, item.similarity) for item in found] == [
            ("c", None, None),
            ("a", None, None),
            ("b", None, None),
        ]
    # There is nothing that could be similar enough.
    assert store.recall(NS, min_similarity=0) == []
    assert keys(store.recall(NS, rerank=None, negative=["rejected"], goal="goal")) == ["c", "a", "b"]


def test_without_an_index_what_no_word_reaches_comes_latest_write_first_without_scores(make_any_store, face):
    store = face(make_any_store())
    for key in ("b", "a", "c"):
        put(store, key, confidence=1.0 if key == "b" else 0.1)
    assert [(item.key, item.score, item.similarity) for item in store.recall(NS, "query")] == [
        ("c", None, None),
        ("a", None, None),
        ("b", None, None),
    ]
    assert keys(store.recall(NS, "query", min_confidence=0.5)) == ["b"]


def test_rows_without_a_vector_come_last_and_without_a_score(store):
    for key in ("old", "new"):
        store.put(NS, key, {"text": "perfect"}, index=False)
    put(store, "far", "far", importance=0.0, confidence=0.0)
    found = store.recall(NS, "query")
    assert [(item.key, item.similarity) for item in found[1:]] == [("new", None), ("old", None)]
    assert (found[0].key, found[1].score) == ("far", None)


def test_a_recall_finds_whole_labels_alone(store):
    put(store, "k", namespace=("users", "alice2"))
    put(store, "k", namespace=("users", "alice", "notes"))
    assert [item.namespace for item in store.recall(NS, "query")] == [("users", "alice", "notes")]
    assert len(store.recall((), "query")) == 2


def test_what_a_call_says_counts_over_what_its_filter_says(store):
    put(store, "sure", confidence=0.9)
    put(store, "unsure", confidence=0.3)
    asked = {"$memory": {"min_confidence": 0.5, "explain": True}}
    assert keys(store.recall(NS, "query", filter=asked)) == ["sure"]
    found = store.recall(NS, "query", filter=asked, min_confidence=0.1)
    assert keys(found) == ["sure", "unsure"]
    assert found[0].score_details is not None


def test_a_recall_slides_ttls_like_a_search(store, clock):
    def minutes_left() -> float:
        expires_at = store.get(NS, "k", refresh_ttl=False).memory.expires_at
        return (expires_at.timestamp() * 1000 - clock.now) / 60_000

    store.put(NS, "k", {"text": "perfect"}, ttl=10)
    clock.advance(minutes=4)
    store.recall(NS, "query", refresh_ttl=False)
    assert minutes_left() == 6
    store.recall(NS, "query")
    assert minutes_left() == 10
    clock.advance(minutes=10)
    assert store.recall(NS, "query") == []


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "limit": ({"limit": -1}, ValueError, "limit"),
    "offset": ({"offset": -1}, ValueError, "offset"),
    "limit's type": ({"limit": "10"}, TypeError, "limit"),
    "query": ({"query": 3}, TypeError, "query must be a str or None"),
    "filter": ({"filter": ["a"]}, TypeError, "filter must be a dict"),
    "an operator": ({"filter": {"a": {"$near": 1}}}, ValueError, r"Unsupported operator: \$near"),
    "refresh_ttl": ({"refresh_ttl": "yes"}, TypeError, "refresh_ttl"),
    "memory_types": ({"memory_types": 3}, ValueError, "memory_types must be a list of non-empty str"),
    "an empty memory type": ({"memory_types": [""]}, ValueError, "memory_types must be a list of non-empty str"),
    "tags": ({"tags": [1]}, ValueError, "tags must be a list of non-empty str"),
    "run_id": ({"run_id": ""}, ValueError, "run_id must be a non-empty str or None"),
    "run_id's type": ({"run_id": 7}, ValueError, "run_id must be a non-empty str or None"),
    "in_contexts": ({"in_contexts": [None]}, ValueError, "in_contexts must be a list of non-empty str"),
    "min_similarity": ({"min_similarity": 1.01}, ValueError, "min_similarity must be a number from -1 to 1"),
    "min_similarity's type": ({"min_similarity": "0.5"}, ValueError, "min_similarity must be a number"),
    "no number": ({"min_similarity": float("nan")}, ValueError, "min_similarity must be a number from -1 to 1"),
    "a truth value": ({"min_similarity": True}, ValueError, "min_similarity must be a number"),
    "min_confidence": ({"min_confidence": -0.1}, ValueError, "min_confidence must be a number from 0 to 1"),
    "min_confidence's type": ({"min_confidence": "high"}, ValueError, "min_confidence must be a number from 0 to 1"),
    "goal": ({"goal": ""}, ValueError, "goal must be a non-empty str or None"),
    "goal's type": ({"goal": ["a"]}, ValueError, "goal must be a non-empty str or None"),
    "explain": ({"explain": 1}, ValueError, "explain must be True or False"),
    "negative": ({"negative": [3]}, TypeError, "negative must hold texts or items"),
    "negative's type": ({"negative": 3}, TypeError, "negative must hold texts or items"),
    "rerank": ({"rerank": "latest"}, TypeError, "rerank must be a function or None"),
    "an unknown argument": ({"statuses": ["active"]}, TypeError, "statuses"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_argument_is_refused_by_its_name(store, name):
    given, error, message = BAD[name]
    with pytest.raises(error, match=message):
        store.recall(NS, **{"query": "query", **given})


@pytest.mark.parametrize("prefix", [("a.b",), ("",), (1,), ("a\0",)])
def test_a_prefix_that_is_none_is_refused(store, prefix):
    with pytest.raises(InvalidNamespaceError):
        store.recall(prefix, "query")


def test_one_name_is_a_list_of_one(store):
    put(store, "k", memory_type="fact", tags=["red", "_only_in_context_work"])
    found = store.recall(NS, "query", memory_types="fact", tags="red", in_contexts="work")
    assert keys(found) == ["k"]


def test_all_texts_of_a_recall_are_embedded_together(make_any_store, face):
    embedder = PlannedEmbeddings(VECTORS)
    store = face(make_any_store(index={"dims": 4, "embed": embedder, "fields": ["text"]}))
    store.batch([PutOp(NS, "k", {"text": "perfect"})])
    store.recall(NS, "query", goal="goal", negative=["rejected", "query"])
    assert sorted(embedder.queries) == ["goal", "query", "rejected"]
