"""What each memory type says of its memories' time: how long they live, what their expiry does, and what beats it."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store import MemoryType
from tests.support.memories_over_days import DAY_MINUTES, NS, Memories, day

HOUR, TEN_MINUTES = 1 / 24, 1 / 144
ARCHIVES, DELETES = "archive", "delete"
# Days until the expiry, and what it does.
LIFECYCLE: dict[str, tuple[float | None, str]] = {
    **dict.fromkeys(
        ("identity", "preference", "fact", "procedural", "tool", "episodic", "summary", "generic"), (None, "")
    ),
    **dict.fromkeys(("intent", "commitment"), (7, ARCHIVES)),
    **dict.fromkeys(("task", "hypothesis"), (7, DELETES)),
    "opinion": (3, ARCHIVES),
    "conversation": (HOUR, ARCHIVES),
    "emotion": (TEN_MINUTES, DELETES),
    "sensitive": (1, DELETES),
}
STRICT: dict[str, tuple[float | None, str]] = {
    **dict.fromkeys(LIFECYCLE, (30, ARCHIVES)),
    "conversation": (HOUR, ARCHIVES),
    "preference": (7, ARCHIVES),
    "task": (2, ARCHIVES),
    "identity": (None, ""),
}
PRESETS = {"lifecycle": LIFECYCLE, "strict": STRICT}
CASES = [(preset, name, *case) for preset, types in PRESETS.items() for name, case in types.items()]
MILLISECOND = 1 / 86_400_000
SETTINGS = pytest.mark.parametrize("settings", [{}, {"cache_bytes": 0}], ids=["near-cache", "scan"])
DEFAULT = {"default_ttl": 2 * DAY_MINUTES}


def found(lives: Memories, **options: Any) -> list[list[str]]:
    """Find the memory's key in each of the ways there are to find it."""
    options = {"memory_types": None, **options}
    call = lives.call
    return [
        [item.key for item in call.recall(NS, query, refresh_ttl=False, **options)] for query in (None, "tea")
    ]  # fmt: skip


@pytest.mark.parametrize(("preset", "name", "days", "action"), CASES)
def test_a_type_s_memory_ends_to_the_millisecond_as_its_preset_says(make_any_store, face, preset, name, days, action):
    lives = Memories(make_any_store, face, memory_types=preset)
    item = lives.call.remember(NS, "tea", key="k", memory_type=name)
    assert item.memory.memory_type == name
    if days is None:
        assert item.memory.expires_at is None
        lives.days.day(10_000)
        assert found(lives, memory_types=[name]) == [["k"], ["k"]]
        return
    assert item.memory.expires_at == day(days)
    lives.days.day(days - MILLISECOND)
    assert found(lives, memory_types=[name]) == [["k"], ["k"]]
    lives.days.day(days)
    assert found(lives, memory_types=[name]) == [[], []]
    archived = ["k"] if action == ARCHIVES else []
    assert found(lives, memory_types=[name], status="archived") == [archived, archived]
    assert [item.key for item in lives.call.search(NS)] == []
    assert lives.call.list_namespaces() == ([NS] if archived else [])


@SETTINGS
def test_an_expiry_that_archives_has_no_lag_on_any_engine(make_store, face, settings):
    lives = Memories(make_store, face, **settings)
    call = lives.call
    call.remember(NS, "tea", key="kept")
    for key, kind in (("archived", "opinion"), ("deleted", "emotion")):
        call.remember(NS, f"tea {key}", key=key, memory_type=kind)
    assert sorted(found(lives)[1]) == ["archived", "deleted", "kept"]
    lives.days.day(3)
    lives.days.advance(ms=-1)
    assert [sorted(keys) for keys in found(lives)] == [["archived", "kept"]] * 2
    lives.days.advance(ms=1)
    assert found(lives) == [["kept"], ["kept"]]
    assert [item.key for item in call.search(NS, query="tea")] == ["kept"]
    assert [item.key for item in call.search(NS)] == ["kept"]
    assert [item.key for item in call.search(NS, filter={"content": "tea archived"})] == []
    assert found(lives, status="archived") == [["archived"], ["archived"]]
    assert call.get(NS, "archived", refresh_ttl=False).memory.status == "archived"
    assert call.sweep_ttl() == 1
    assert found(lives, status="archived") == [["archived"], ["archived"]]
    assert call.restore(NS, "archived").memory.expires_at == day(6)
    assert sorted(found(lives)[0]) == ["archived", "kept"]


@SETTINGS
def test_no_read_slides_a_type_s_ttl(make_store, face, settings):
    lives = Memories(make_store, face, ttl={"refresh_on_read": True}, **settings)
    call = lives.call
    call.remember(NS, "tea", key="typed", memory_type="task")
    call.put(NS, "plain", {"content": "tea"}, ttl=7 * DAY_MINUTES)
    lives.days.day(5)
    for key in ("typed", "plain"):
        call.get(NS, key, refresh_ttl=True)
    call.search(NS, query="tea", refresh_ttl=True)
    call.search(NS, refresh_ttl=True)
    call.recall(NS, "tea", refresh_ttl=True)
    expiries = {item.key: item.memory.expires_at for item in call.recall(NS, refresh_ttl=False)}
    assert expiries == {"typed": day(7), "plain": day(12)}


def put(lives: Memories, how: str, value: dict[str, Any], **ttl: Any) -> None:
    if how == "put":
        lives.call.put(NS, "k", value, **ttl)
    elif how == "op":
        lives.call.batch([PutOp(NS, "k", value, **ttl)])
    else:
        life = value.pop("$memory", {})
        lives.call.remember(NS, value, key="k", **life, **ttl)


WAYS = pytest.mark.parametrize("how", ["put", "op", "remember"])


@WAYS
@pytest.mark.parametrize("default", [None, DEFAULT], ids=["no default", "default"])
def test_which_ttl_counts(make_store, face, how, default):
    lives = Memories(make_store, face, ttl=default)

    def expiry(kind: str | None, **ttl: Any) -> Any:
        lives.call.delete(NS, "k")
        put(lives, how, {"content": "tea", **({"$memory": {"memory_type": kind}} if kind else {})}, **ttl)
        return lives.call.history(NS, "k")[0].memory.expires_at

    # A raw op is none of the store's methods: it carries what it says, and no default.
    untyped = day(2) if default and how != "op" else None
    assert expiry(None) == untyped
    assert expiry(None, ttl=None) is None
    assert expiry(None, ttl=DAY_MINUTES) == day(1)
    assert expiry("task") == day(7)
    # The server's API sends it so where nothing was said; `remember` means it.
    assert expiry("task", ttl=None) == (None if how == "remember" else day(7))
    assert expiry("task", ttl=DAY_MINUTES) == day(1)
    assert expiry("fact") is None
    assert expiry("fact", ttl=DAY_MINUTES) == day(1)
    assert expiry("unheard of") is None


@WAYS
def test_a_ttl_that_is_given_beside_a_type_slides(lives, how):
    put(lives, how, {"content": "tea", "$memory": {"memory_type": "task"}}, ttl=3 * DAY_MINUTES)
    lives.days.day(2)
    assert lives.call.get(NS, "k", refresh_ttl=True).memory.expires_at == day(5)


@WAYS
def test_a_write_that_names_no_type_takes_the_absolute_ttl_off(lives, how):
    put(lives, how, {"content": "tea", "$memory": {"memory_type": "task"}})
    lives.days.day(1)
    put(lives, how, {"content": "more tea"}, ttl=3 * DAY_MINUTES)
    memory = lives.call.history(NS, "k")[0].memory
    assert (memory.memory_type, memory.expires_at) == ("task", day(4))
    lives.days.day(2)
    assert lives.call.get(NS, "k", refresh_ttl=True).memory.expires_at == day(5)


def test_types_of_the_user_s_own_stand_beside_and_in_place_of_the_known(make_any_store, face):
    own = {
        "rumour": MemoryType(ttl=30, on_expiry="archive", half_life_days=0.5),
        "task": MemoryType(ttl=60),
        "generic": MemoryType(half_life_days=1),
    }
    lives = Memories(make_any_store, face, memory_types=own)
    for name in ("rumour", "task", "opinion"):
        lives.call.remember(NS, "tea", key=name, memory_type=name)
    expiries = {item.key: item.memory.expires_at for item in lives.call.recall(NS)}
    assert expiries == {"rumour": day(1 / 48), "task": day(HOUR), "opinion": day(3)}
    lives.days.day(HOUR)
    assert lives.keys() == ["opinion"]
    assert lives.keys(status="archived") == ["rumour"]


def test_a_change_of_type_changes_what_the_expiry_does(lives):
    call = lives.call
    call.remember(NS, "tea", key="k", memory_type="intent")
    call.remember(NS, "tea", key="k", memory_type="emotion")
    lives.days.day(8)
    assert call.get(NS, "k") is None
    call.remember(NS, "tea", key="l", memory_type="emotion")
    call.remember(NS, "tea", key="l", memory_type="intent")
    lives.days.day(20)
    assert call.get(NS, "l").memory.status == "archived"


def test_only_what_expiry_removes_is_swept_and_the_sweep_is_recorded(lives):
    call = lives.call
    for key, kind in (("task", "task"), ("intent", "intent"), ("fact", "fact")):
        call.remember(NS, key, key=key, memory_type=kind)
    call.remember(NS, "pinned", key="pinned", memory_type="task", pinned=True)
    assert lives.make.keys()["expiring"] == 1
    lives.days.day(30)
    before = lives.actions()
    assert call.sweep_ttl() == 1
    assert sorted(lives.keys(status=["active", "archived"])) == ["fact", "intent", "pinned"]
    assert len(lives.actions()) > len(before)
    assert call.list_namespaces() == [NS]


def test_a_namespace_of_archived_and_superseded_memories_alone_is_listed(lives):
    call = lives.call
    archived, superseded = ("a",), ("s",)
    for ns in (archived, superseded):
        call.remember(ns, "tea", key="k")
    call.archive(archived, "k")
    call.retire(superseded, "k")
    assert sorted(call.list_namespaces()) == [archived, superseded]
    call.delete(archived, "k")
    assert call.list_namespaces() == [superseded]


@pytest.mark.parametrize("ttl", [None, 1440.1])
def test_sensitive_memories_are_not_kept_for_more_than_a_day(lives, ttl):
    with pytest.raises(ValueError, match="ttl of a sensitive memory must be at most 1440 minutes"):
        lives.call.remember(NS, "a card", memory_type="sensitive", ttl=ttl)
    assert lives.keys(memory_types=["sensitive"]) == []
