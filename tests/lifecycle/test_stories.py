"""Lives of memories as stories, each told in English and in Chinese."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.memories_over_days import NS, chain, day

LANGUAGES = ("english", "chinese")


@dataclass(frozen=True)
class Words:
    """What a story says, in one language."""

    react: str
    learning: str
    vue: str
    question: str
    shanghai: str
    hangzhou: str
    where: str
    mysql: str
    postgres: str
    sqlite: str
    task: str
    address: str
    secret: str
    summary: str
    tea: str
    coffee: str
    water: str
    user: str
    names: tuple[str, str, str]


WORDS = {
    "english": Words(
        "The user builds with React",
        "The user is learning Vue",
        "The user now builds everything with Vue",
        "what does the user build with, Vue or React",
        "The user lives in Shanghai",
        "The user moved to Hangzhou",
        "where does the user live",
        "The project stores its data in MySQL",
        "The project moved its data to Postgres",
        "The project kept its data in SQLite",
        "Book the flight to Oslo before noon",
        "The user lives at 12 Rose Lane, Springfield",
        "12 Rose Lane, Springfield",
        "A quiet person who lives at 12 Rose Lane, Springfield, and likes tea",
        "Li Wei drinks tea",
        "Li Wei drinks coffee",
        "Li Wei drinks water",
        "user",
        ("William Smith", "Bill", "Will"),
    ),
    "chinese": Words(
        "用户使用 React 开发前端",
        "用户正在学习 Vue",
        "用户现在全部使用 Vue 开发",
        "用户用什么开发前端",
        "用户住在上海",
        "用户搬到了杭州",
        "用户住在哪里",
        "项目的数据存放在 MySQL",
        "项目的数据迁移到了 Postgres",
        "项目的数据曾经存放在 SQLite",
        "中午之前预订飞往奥斯陆的航班",
        "用户的地址是上海市静安区南京西路一二三号",
        "静安区南京西路一二三号",
        "用户很安静,住在静安区南京西路一二三号,喜欢喝茶",
        "李伟喜欢喝茶",
        "李伟喜欢喝咖啡",
        "李伟喜欢喝水",
        "用户",
        ("王小明", "小明", "阿明"),
    ),
}


@pytest.fixture(params=LANGUAGES)
def words(request) -> Words:
    return WORDS[request.param]


def test_from_react_over_learning_vue_to_vue_alone(memories, words):
    call, days = memories.call, memories.days
    days.day(1)
    call.remember(NS, words.react, key="react", subject=words.user, attribute="framework")
    days.day(30)
    call.remember(NS, words.learning, key="learning", subject=words.user, attribute="learning")
    assert memories.texts() == memories.texts(words.question) == sorted([words.react, words.learning])
    days.day(90)
    call.remember(NS, words.vue, key="vue", subject=words.user, attribute="framework")
    call.link(NS, "vue", "resolves", "learning")
    # The current answer is Vue alone.
    assert memories.texts() == memories.texts(words.question) == [words.vue]
    # As of day 40 it was both, and the same a year later.
    for today in (90, 400):
        days.day(today)
        assert memories.texts(as_of=day(40)) == sorted([words.react, words.learning])
        assert memories.texts(words.question, as_of=day(40)) == sorted([words.react, words.learning])
        assert memories.texts(as_of=day(10)) == [words.react]
        assert memories.texts(as_of=day(0)) == []
    assert chain(call.history(NS, "vue")) == [("react", "superseded", 1, 90), ("vue", "active", 90, None)]
    assert [item.memory.reason for item in call.history(NS, "learning")] == ["resolved"]


def test_a_move_from_shanghai_to_hangzhou_that_is_told_late(memories, words):
    call, days = memories.call, memories.days
    days.day(0)
    call.remember(NS, words.shanghai, key="shanghai", subject=words.user, attribute="city")
    days.day(60)
    # Told on day 60: it had happened on day 50.
    moved = call.supersede(NS, "shanghai", words.hangzhou, new_key="hangzhou", valid_from=day(50))
    assert (moved.memory.subject, moved.memory.attribute) == (words.user, "city")
    assert memories.texts(words.where) == [words.hangzhou]
    assert memories.texts(words.where, as_of=day(49)) == [words.shanghai]
    assert memories.texts(words.where, as_of=day(55)) == [words.hangzhou]
    # On day 55 the store did not know it yet.
    assert memories.texts(words.where, as_of=day(55), known_at=day(55)) == [words.shanghai]
    assert memories.texts(words.where, known_at=day(55)) == [words.shanghai]
    assert chain(call.history(NS, "hangzhou")) == [("shanghai", "superseded", 0, 50), ("hangzhou", "active", 50, None)]


def test_a_database_that_moved_and_a_late_fact_about_a_third(memories, words):
    call, days = memories.call, memories.days
    slot = {"subject": "project", "attribute": "database"}
    days.day(10)
    call.remember(NS, words.mysql, key="mysql", **slot)
    days.day(50)
    call.remember(NS, words.postgres, key="postgres", **slot)
    days.day(70)
    call.remember(NS, words.sqlite, key="sqlite", valid_from=day(2), **slot)
    assert memories.texts() == [words.postgres]
    answers = {1: [], 2: [words.sqlite], 9: [words.sqlite], 10: [words.mysql], 49: [words.mysql], 50: [words.postgres]}
    assert {n: memories.texts(as_of=day(n)) for n in answers} == answers
    assert memories.texts(as_of=day(5), known_at=day(60)) == []
    assert chain(call.history(NS, "sqlite")) == [
        ("sqlite", "superseded", 2, 10), ("mysql", "superseded", 10, 50), ("postgres", "active", 50, None),
    ]  # fmt: skip


def test_a_task_ends_with_its_run_and_never_slides_by_being_read(memories, words):
    call, days = memories.call, memories.days
    for run in ("run-1", "run-2"):
        call.remember(NS, words.task, key=run, memory_type="task", run_id=run)
    for number in range(7):
        days.day(number)
        (found,) = call.recall(NS, words.task, run_id="run-1", refresh_ttl=True)
        assert (found.key, found.memory.expires_at) == ("run-1", day(7))
        assert call.get(NS, "run-2", refresh_ttl=True).memory.expires_at == day(7)
        assert memories.texts(words.task) == []
    assert call.end_run(NS, "run-1") == 1
    assert call.get(NS, "run-1") is None
    assert call.get(NS, "run-2") is not None
    days.day(7)
    assert call.get(NS, "run-2") is None
    assert memories.texts(run_id="run-2") == []


def everything(client: Any) -> bytes:
    """Return all bytes that lie in a server, names and contents."""
    readers = {
        b"string": lambda key: [client.get(key)],
        b"hash": lambda key: [part for pair in client.hgetall(key).items() for part in pair],
        b"zset": lambda key: client.zrange(key, 0, -1),
        b"stream": lambda key: [
            part for _, fields in client.xrange(key) for pair in fields.items() for part in pair
        ],
    }  # fmt: skip
    parts: list[bytes] = []
    for key in client.scan_iter(count=1000):
        parts += [key, *readers[client.type(key)](key)]
    return b"\n".join(parts)


@pytest.mark.parametrize("rederives", [False, True], ids=["summary goes", "summary is made anew"])
def test_a_forgotten_address_leaves_no_byte_behind_not_even_in_a_summary(memories, words, rederives):
    call = memories.call
    call.remember(NS, words.address, key="address", subject=words.user, attribute="address", tags=["home"])
    call.remember(NS, words.tea, key="tea")
    call.remember(NS, words.summary, key="summary", memory_type="summary", source_refs=["address", "tea"])
    call.remember(NS, f"{words.summary}!", key="by reference", memory_type="summary", source_refs=["address"])
    for source in ("address", "tea"):
        call.link(NS, "summary", "summarizes", source)
    call.supersede(NS, "address", f"{words.address} (2)", new_key="newer")
    call.archive(NS, "newer")
    for query in (words.address, words.summary):
        call.recall(NS, query, status=["active", "archived", "superseded"])
    secret = words.secret.encode()
    with memories.make.server.client() as client:
        assert secret in everything(client)

        def rederive(summary, sources):
            assert summary.key in {"summary", "by reference"}
            return "; ".join(item.value["content"] for item in sources) or None

        given = {"rederive": rederive} if rederives else {}
        receipt = call.forget(NS, "address", byte_scan=True, **given)
        assert receipt.residue == ()
        assert receipt.erased["memories"] == (3 if rederives else 4)
        call.flush()
        assert secret not in everything(client)
    assert memories.texts() == [words.tea] * (2 if rederives else 1)
    if rederives:
        summary = call.get(NS, "summary")
        assert (summary.value, summary.memory.source_refs) == ({"content": words.tea}, ("tea",))
        assert [(relation, item.key) for relation, item in call.neighbors(NS, "summary")] == [("summarizes", "tea")]


def test_two_colleagues_of_one_name_are_kept_apart(memories, words):
    call, days = memories.call, memories.days
    for team, drink in (("sales", words.tea), ("design", words.coffee)):
        call.remember(NS, drink, key=team, subject=f"Li Wei ({team})", attribute="drink")
    assert memories.texts() == sorted([words.tea, words.coffee])
    days.day(1)
    call.remember(NS, words.water, key="new", subject="Li Wei (sales)", attribute="drink")
    assert memories.texts() == sorted([words.water, words.coffee])
    assert [item.key for item in call.history(NS, "new")] == ["sales", "new"]
    assert [item.key for item in call.history(NS, "design")] == ["design"]


def test_three_names_of_one_person_are_brought_together(memories, words):
    call, days = memories.call, memories.days
    canonical, second, third = words.names
    for number, (name, drink) in enumerate(zip(words.names, (words.tea, words.coffee, words.water), strict=True)):
        days.day(number)
        call.remember(NS, drink, key=f"k{number}", subject=name, attribute="drink")
    days.day(10)
    call.alias(NS, canonical, second, third)
    assert memories.texts() == [words.water]
    assert call.get(NS, "k0").memory.reason == call.get(NS, "k1").memory.reason == "merged"
    assert {item.key for item in call.history(NS, "k2")} >= {"k2"}
    days.day(11)
    call.remember(NS, words.tea, key="again", subject=second, attribute="drink")
    assert memories.texts() == [words.tea]
    assert call.get(NS, "k2").memory.superseded_by == "again"


def test_a_wrong_merge_is_undone_for_what_was_and_for_what_comes(memories, words):
    call, days = memories.call, memories.days
    right, wrong, _ = words.names
    days.day(0)
    call.remember(NS, words.tea, key="tea", subject=right, attribute="drink")
    call.remember(NS, words.react, key="react", subject=wrong, attribute="framework")
    days.day(1)
    call.remember(NS, words.coffee, key="coffee", subject=wrong, attribute="drink")
    days.day(2)
    call.alias(NS, right, wrong)
    assert memories.texts() == sorted([words.coffee, words.react])
    days.day(3)
    call.unalias(NS, wrong)
    assert memories.texts() == sorted([words.tea, words.coffee, words.react])
    restored = call.get(NS, "tea").memory
    assert (restored.status, restored.valid_until, restored.superseded_by, restored.reason) == (
        "active", None, None, None,
    )  # fmt: skip
    call.unalias(NS, wrong)
    days.day(4)
    call.remember(NS, words.water, key="water", subject=right, attribute="drink")
    call.remember(NS, words.vue, key="vue", subject=wrong, attribute="framework")
    assert memories.texts() == sorted([words.water, words.coffee, words.vue])


def test_a_chain_of_names_comes_apart_where_it_was_joined(lives, words):
    call = lives.call
    canonical, second, third = words.names
    call.alias(NS, second, third)
    call.alias(NS, canonical, second)
    call.remember(NS, words.tea, key="tea", subject=third, attribute="drink")
    lives.days.day(1)
    call.remember(NS, words.coffee, key="coffee", subject=canonical, attribute="drink")
    assert lives.texts() == [words.coffee]
    call.unalias(NS, second)
    lives.days.day(2)
    # `third` stands for `second` again, and not for `canonical`.
    call.remember(NS, words.water, key="water", subject=third, attribute="drink")
    assert lives.texts() == sorted([words.coffee, words.water])


@pytest.mark.parametrize(
    "names", [("a",), ("a", "a"), ("a", ""), ("a", "b\0c"), ("a", 5)], ids=["none", "itself", "empty", "NUL", "no str"]
)
def test_names_that_are_none_are_refused(lives, names):
    with pytest.raises(ValueError, match="name"):
        lives.call.alias(NS, *names)


def test_a_name_stands_for_one_subject_alone(lives):
    call = lives.call
    call.alias(NS, "a", "b")
    call.alias(NS, "a", "b")
    with pytest.raises(ValueError, match="unalias"):
        call.alias(NS, "c", "b")
    with pytest.raises(ValueError, match="unalias"):
        call.alias(NS, "b", "a")
    assert lives.actions() == ["alias"]


def test_names_that_become_one_keep_what_is_current_and_are_undone_exactly(memories):
    call, days = memories.call, memories.days
    desk = {name: {"subject": name, "attribute": "desk"} for name in ("Bob", "Rob")}
    call.remember(NS, "second floor", key="b", **desk["Bob"])
    days.day(1)
    call.remember(NS, "fourth floor", key="r", **desk["Rob"])
    for archived, current in (("r", "b"), ("b", "r")):
        call.archive(NS, archived)
        call.alias(NS, "Rob", "Bob")
        assert memories.keys() == [current]
        call.unalias(NS, "Bob")
        assert {key: str(call.get(NS, key).memory.status) for key in "br"} == {archived: "archived", current: "active"}
        call.restore(NS, archived)
