"""`recall` by subject, attribute and pin, and any type or tag; `get` without a trace."""

from __future__ import annotations

import pytest

from langgraph_forgetful_store.testing import WordEmbeddings

NS = ("slots",)
EVERY = {"limit": 50, "memory_types": True}


@pytest.fixture(params=["near-cache", "scan"])
def store(make_store, face, request):
    made = face(make_store(cache_bytes=2**20 if request.param == "near-cache" else 0))
    made.remember(NS, "Paris", key="city", subject="user", attribute="city", tags=["home"])
    made.remember(NS, "a desk", key="desk", subject="Bob", attribute="desk", pinned=True)
    made.remember(NS, "perhaps chess", key="guess", memory_type="hypothesis", subject="user", attribute="game")
    made.remember(NS, "a note", key="note")
    return made


def keys(items):
    return sorted(item.key for item in items)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"subject": "user"}, ["city"]),
        ({"subject": "user", **EVERY}, ["city", "guess"]),
        ({"subject": ["user", "Bob"]}, ["city", "desk"]),
        ({"subject": "user", "attribute": "city"}, ["city"]),
        ({"subject": "Bob", "attribute": "city"}, []),
        ({"attribute": {"desk", "game"}, **EVERY}, ["desk", "guess"]),
        ({"subject": True, **EVERY}, ["city", "desk", "guess"]),
        ({"attribute": True}, ["city", "desk"]),
        ({"tags": True}, ["city"]),
        ({"tags": True, "subject": "Bob"}, []),
        ({"pinned": True}, ["desk"]),
        ({"pinned": False}, ["city", "note"]),
        ({"pinned": None, "subject": None}, ["city", "desk", "note"]),
        (EVERY, ["city", "desk", "guess", "note"]),
        ({"filter": {"$memory": {"subject": "user"}}, "attribute": "city"}, ["city"]),
        ({"filter": {"$memory": {"subject": "Bob"}}, "attribute": "city"}, []),
    ],
    ids=str,
)
def test_it_finds_what_is_asked_for(store, asked, found):
    assert keys(store.recall(NS, **asked)) == found


@pytest.mark.parametrize("field", ["subject", "attribute"])
def test_it_finds_what_the_filter_of_other_clients_finds(store, field):
    value = {"subject": "user", "attribute": "desk"}[field]
    assert keys(store.recall(NS, **{field: value})) == keys(store.search(NS, filter={"$memory": {field: value}}))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"subject": 3}, "subject must be a list of non-empty str, or one, got 3"),
        ({"subject": False}, "subject must be a list of non-empty str, or one, got False"),
        ({"attribute": [""]}, r"attribute must be a list of non-empty str, or one, got \[''\]"),
        ({"pinned": "yes"}, "pinned must be True or False, got 'yes'"),
    ],
)
def test_what_is_unusable_is_refused(store, asked, message):
    with pytest.raises(ValueError, match=message):
        store.recall(NS, **asked)


def test_the_names_of_what_was_asked_for_are_explained(make_store, face):
    store = face(make_store(index={"dims": 16, "embed": WordEmbeddings(16)}))
    store.remember(NS, "Paris", subject="user", attribute="city", pinned=True)
    (item,) = store.recall(NS, "Paris", subject="user", attribute=True, pinned=True, explain=True)
    assert set(item.score_details["filters"]) == {"subject", "attribute", "pinned"}


def test_a_get_without_a_trace_counts_no_access_and_refreshes_no_ttl(make_any_store, face, clock):
    store = face(make_any_store(clock=clock))
    store.put(NS, "k", {"a": 1}, ttl=10)
    expires = store.get(NS, "k", track_access=False).memory.expires_at
    clock.advance(minutes=5)
    for _ in range(3):
        item = store.get(NS, "k", track_access=False)
    assert (item.value, item.memory.access_count, item.memory.expires_at) == ({"a": 1}, 0, expires)
    assert store.get(NS, "k", track_access=False, refresh_ttl=True).memory.expires_at > expires
    store.get(NS, "k")
    assert store.get(NS, "k", track_access=False).memory.access_count == 1
    assert store.get(NS, "none", track_access=False) is None


def test_a_get_without_a_trace_tells_of_every_status(make_any_store, face):
    store = face(make_any_store())
    store.remember(NS, "one", key="a")
    store.supersede(NS, "a", "two", new_key="b")
    store.archive(NS, "b")
    assert [str(store.get(NS, key, track_access=False).memory.status) for key in "ab"] == ["superseded", "archived"]


def test_track_access_must_be_a_bool(make_any_store, face):
    store = face(make_any_store())
    with pytest.raises(TypeError, match="track_access must be True or False, got 1"):
        store.get(NS, "k", track_access=1)
