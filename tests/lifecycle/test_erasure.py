"""Hard delete: what goes with a memory, what stays, what the receipt says, and that it can be repeated."""

from __future__ import annotations

import pytest
from redis.exceptions import OutOfMemoryError

from langgraph_forgetful_store import CorruptRecordError
from langgraph_forgetful_store.operations import erase as erasing
from tests.conftest import StoreMaker
from tests.lifecycle.test_stories import everything
from tests.support.memories_over_days import DAY_MINUTES, NS, Memories, day

SECRET = "the secret garden is behind the mill"
HOME = {"subject": "user", "attribute": "home"}


def raw(lives: Memories) -> bytes:
    with lives.make.server.client() as client:
        return everything(client)


def fill(lives: Memories, count: int = 3) -> None:
    """Remember a chain of the keys ``c0``, ``c1``, ..., all of which hold the secret."""
    for number in range(count):
        lives.days.day(number)
        lives.call.remember(NS, f"{SECRET} {number}", key=f"c{number}", **HOME)


@pytest.mark.parametrize("key", ["c0", "c1", "c2"])
def test_the_whole_chain_goes_whichever_of_its_keys_is_named(memories, key):
    fill(memories)
    memories.call.remember(NS, "stays", key="stays")
    receipt = memories.call.forget(NS, key, trigger="compliance", byte_scan=True)
    assert (receipt.trigger, receipt.residue, receipt.at) == ("compliance", (), day(2))
    assert receipt.erased == {"memories": 3, "slots": 1, "audit_records": 3}
    assert receipt.scanned_keys > 0
    assert any("append-only" in one for one in receipt.unreachable)
    assert any("checkpoints" in one for one in receipt.unreachable)
    assert memories.texts(status=["active", "archived", "superseded"]) == ["stays"]
    assert [memories.call.get(NS, f"c{number}") for number in range(3)] == [None] * 3
    assert memories.call.history(NS, key) == []
    assert SECRET.encode() not in raw(memories)


def test_the_slot_is_free_again(memories):
    fill(memories)
    memories.call.forget(NS, "c1")
    memories.call.remember(NS, "new", key="new", **HOME)
    assert [item.key for item in memories.call.history(NS, "new")] == ["new"]


def test_what_was_merged_into_it_goes_too(memories):
    call = memories.call
    call.remember(NS, SECRET, key="merged", subject="Bob", attribute="home")
    memories.days.day(1)
    call.remember(NS, "lives by the mill", key="survivor", subject="Robert", attribute="home")
    call.alias(NS, "Robert", "Bob")
    assert call.forget(NS, "survivor", byte_scan=True).erased["memories"] == 2
    assert SECRET.encode() not in raw(memories)
    assert memories.keys(status=["active", "archived", "superseded"]) == []
    # What the names stand for says nothing of what was known.
    call.remember(NS, "new", key="new", subject="Bob", attribute="home")
    call.unalias(NS, "Bob")
    assert memories.keys() == ["new"]


def test_forgetting_a_merged_memory_leaves_nothing_that_a_later_unalias_could_reopen(memories):
    call = memories.call
    call.remember(NS, SECRET, key="merged", subject="Bob", attribute="home")
    memories.days.day(1)
    call.remember(NS, "lives by the mill", key="survivor", subject="Robert", attribute="home")
    call.alias(NS, "Robert", "Bob")
    receipt = call.forget(NS, "merged")
    assert receipt.residue == ()
    # What it was merged into says something of its own.
    assert receipt.erased["memories"] == 1
    call.unalias(NS, "Bob")
    assert call.get(NS, "merged") is None
    assert memories.keys() == ["survivor"]


def test_links_of_the_erased_leave_their_other_ends(memories):
    call = memories.call
    for key in ("a", "b", "c"):
        call.remember(NS, key, key=key)
    call.link(NS, "a", "triggers", "b")
    call.link(NS, "c", "causes", "a")
    call.link(NS, "b", "relates", "c")
    assert call.forget(NS, "a").erased["links"] == 1
    assert [(relation, item.key) for relation, item in call.neighbors(NS, "b")] == [("relates", "c")]
    assert [(relation, item.key) for relation, item in call.neighbors(NS, "c")] == [("relates", "b")]


def test_the_audit_says_that_it_happened_and_not_what_it_was(memories):
    call = memories.call
    call.remember(NS, SECRET, key="k")
    call.remember(NS, "other", key="other")
    call.link(NS, "other", "relates", "k")
    call.demote(NS, "k")
    receipt = call.forget(NS, "k", trigger="wrong")
    assert receipt.erased["audit_records"] == 3
    latest, *rest = call.audit(())
    assert (latest.action, latest.key, latest.reason, latest.namespace) == ("forget", None, "wrong", NS)
    assert latest.details == {"memories": 1, "audit_records": 3}
    assert {record.key for record in rest} == {"other"}
    assert not any(record.details.get("other") == "k" for record in rest)


def test_counted_accesses_of_the_erased_are_not_written_any_more(memories):
    call = memories.call
    call.remember(NS, SECRET, key="k")
    call.remember(NS, "other", key="other")
    for _ in range(3):
        call.get(NS, "k")
        call.get(NS, "other")
    call.forget(NS, "k")
    call.remember(NS, "again", key="k")
    call.flush()
    counts = {item.key: item.memory.access_count for item in call.recall(NS)}
    assert counts == {"k": 0, "other": 3}


def test_another_store_s_cache_drops_it_at_its_next_read(memories, face):
    fill(memories, 1)
    memories.call.remember(NS, "stays", key="stays")
    other = memories.another(face)
    assert {item.key for item in other.recall(NS, SECRET)} == {"c0", "stays"}
    memories.call.forget(NS, "c0")
    assert [item.key for item in other.recall(NS, SECRET)] == ["stays"]
    memories.call.forget_all(NS)
    assert other.recall(NS, SECRET) == []


def test_it_can_be_repeated_and_gives_an_empty_receipt_then(memories):
    fill(memories)
    memories.call.forget(NS, "c0")
    records = memories.actions()
    again = memories.call.forget(NS, "c0", byte_scan=True)
    assert (again.erased, again.residue) == ({}, ())
    assert memories.call.forget(("no", "such"), "key").erased == {}
    assert memories.call.forget_all(("no",)).erased == {}
    assert memories.actions() == records == ["forget"]


def test_what_has_expired_and_is_not_swept_is_erased_too(memories):
    call = memories.call
    for key in ("one", "two"):
        call.put(NS, key, {"content": f"{SECRET} {key}"}, ttl=DAY_MINUTES)
    memories.days.day(2)
    assert SECRET.encode() in raw(memories)
    assert call.forget(NS, "one", byte_scan=True).erased["memories"] == 1
    assert call.forget_all(NS, byte_scan=True).erased["memories"] == 1
    assert SECRET.encode() not in raw(memories)


@pytest.mark.parametrize("call", ["forget", "forget_all"])
def test_terms_that_are_none_are_refused(lives, call):
    fill(lives, 1)
    key = ("c0",) if call == "forget" else ()
    for terms in ({"trigger": "whim"}, {"byte_scan": 1}, {"rewrite": "yes"}):
        with pytest.raises(ValueError, match=next(iter(terms))):
            getattr(lives.call, call)(NS, *key, **terms)
    if call == "forget":
        with pytest.raises(ValueError, match="rederive"):
            lives.call.forget(NS, "c0", rederive="text")
    assert lives.keys() == ["c0"]


@pytest.mark.parametrize("trigger", ["user_request", "sensitive", "wrong", "compliance", "test_data"])
def test_each_trigger_is_noted(lives, trigger):
    fill(lives, 1)
    assert lives.call.forget(NS, "c0", trigger=trigger).trigger == trigger
    assert lives.call.audit(())[0].reason == trigger


def test_a_subtree_goes_and_its_siblings_stay(memories):
    call = memories.call
    gone = [("a",), ("a", "b"), ("a", "b", "c")]
    kept = [("ab",), ("ab", "a"), ("b", "a"), ("A",)]
    for ns in gone + kept:
        call.remember(ns, f"{SECRET} of {ns}", key="k", **HOME)
        call.remember(ns, f"{SECRET} of {ns}, later", key="l", **HOME)
        call.alias(ns, "user", "me")
    call.archive(("a", "b"), "l")
    receipt = call.forget_all(("a",), trigger="test_data", byte_scan=False)
    assert (receipt.erased["memories"], receipt.residue) == (6, ())
    assert sorted(call.list_namespaces()) == sorted(kept)
    for ns in kept:
        assert [item.key for item in call.history(ns, "l")] == ["k", "l"]
    for ns in gone:
        assert call.recall(ns, status=["active", "archived", "superseded"]) == []
    assert b"('a'," not in raw(memories)
    assert {record.namespace[0] for record in call.audit((), limit=100)} == {"a", "ab", "b", "A"}
    (only,) = call.audit(("a",))
    assert (only.action, only.namespace, only.reason) == ("forget_all", ("a",), "test_data")


def test_everything_goes(memories):
    call = memories.call
    for ns in (NS, ("else",)):
        call.remember(ns, SECRET, key="k")
    receipt = call.forget_all((), byte_scan=True)
    assert (receipt.erased["memories"], receipt.residue) == (2, ())
    assert call.list_namespaces() == []
    memories.make.keys(empty=True)
    assert SECRET.encode() not in raw(memories)


def test_names_that_only_begin_alike_and_odd_keys_are_told_apart(lives):
    call = lives.call
    for key in ("k", "kk", "k\0", "K", "ключ", "\ud800"):
        call.remember(NS, f"{SECRET} {key!r}", key=key)
    for key in ("k", "k\0", "\ud800"):
        assert call.forget(NS, key).erased["memories"] == 1
    assert sorted(lives.keys()) == sorted(["kk", "K", "ключ"])


def test_a_text_that_another_memory_holds_is_no_trace_of_the_erased(lives):
    call = lives.call
    call.remember(NS, SECRET, key="k", subject="the old miller", attribute="garden")
    call.remember(("else",), f"quoted: {SECRET}", key="quote")
    assert call.forget(NS, "k", byte_scan=True).residue == ()
    assert [item.key for item in call.recall(("else",))] == ["quote"]


@pytest.mark.parametrize("what", ["long-key-of-it", SECRET, "the old miller", "tag-of-it", "message-17", "run-of-it"])
def test_bytes_of_the_erased_that_lie_anywhere_are_told(lives, what):
    call = lives.call
    fields = {"subject": "the old miller", "attribute": "garden", "run_id": "run-of-it"}
    fields |= {"tags": ["tag-of-it"], "source_refs": ["message-17"]}
    call.remember(NS, SECRET, key="long-key-of-it", **fields)
    call.remember(NS, "stays", key="stays")
    with lives.make.server.client() as client:
        stray = f"{lives.make.key_prefix}:{{0}}:stray"
        client.set(stray, f"... {what} ...")
        receipt = call.forget(NS, "long-key-of-it", byte_scan=True)
        client.delete(stray)
    assert receipt.residue == (f"bytes {stray}",)
    assert what.encode() not in raw(lives)


def test_names_go_with_the_last_memory_of_their_subject(memories):
    call = memories.call
    call.remember(NS, "sits upstairs", key="one", subject="Robert Smith", attribute="desk")
    call.remember(NS, "owns a boat", key="two", subject="Bobby-the-boat", attribute="owns")
    call.alias(NS, "Robert Smith", "Bobby-the-boat", "Bob of the mill")
    call.forget(NS, "one", byte_scan=True)
    # Something is still known of that person.
    assert set(call.aliases(NS)) == {"Bobby-the-boat", "Bob of the mill"}
    receipt = call.forget(NS, "two", byte_scan=True)
    assert receipt.residue == ()
    assert call.aliases(NS) == {}
    left = raw(memories)
    assert not any(name in left for name in (b"Robert Smith", b"Bobby-the-boat", b"Bob of the mill"))


@pytest.mark.parametrize("how", ["delete", "sweep", "nothing"])
def test_a_merged_memory_leaves_no_name_however_it_went(memories, how):
    call = memories.call
    call.remember(NS, "x", key="rome", subject="robert", attribute="city")
    call.remember(NS, "x", key="bob-smith-1987", subject="bob", attribute="city", ttl=DAY_MINUTES)
    call.alias(NS, "robert", "bob")
    if how == "delete":
        call.delete(NS, "bob-smith-1987")
    elif how == "sweep":
        memories.days.day(2)
        call.sweep_ttl()
    for _ in range(2):
        assert call.forget(NS, "bob-smith-1987", byte_scan=True).residue == ()
    assert b"bob-smith-1987" not in raw(memories)


class TestErasedBefore:
    """What an erasure leaves, so that nothing brings back what was erased."""

    def test_messages_that_erased_memories_came_from_are_known(self, memories):
        call = memories.call
        call.remember(NS, SECRET, key="k", source_refs=["m1", "m2"])
        call.remember(NS, "other", key="other", source_refs=["m3"])
        assert not call.erased_before(NS, ["m1"])
        call.forget(NS, "k")
        assert call.erased_before(NS, ["m1"])
        assert call.erased_before(NS, ["m9", "m2"])
        assert not call.erased_before(NS, ["m3"])
        assert not call.erased_before(NS, [])
        # What a later message says anew is new, whatever it says.
        assert not call.erased_before(NS, ["m4"], SECRET)

    def test_a_content_is_known_where_no_message_is_named(self, memories):
        call = memories.call
        call.remember(NS, SECRET, key="k")
        call.put(NS, "p", {"b": [1, {"d": 2.5, "c": None}], "a": "ключ"})
        call.forget_all(NS[:1])
        assert call.erased_before(NS, content=SECRET)
        assert call.erased_before(NS, (), {"content": SECRET})
        assert call.erased_before(NS, content={"a": "ключ", "b": [1, {"c": None, "d": 2.5}]})
        assert not call.erased_before(NS, content=f"{SECRET}.")
        assert not call.erased_before(("else",), content=SECRET)
        memories.make.keys(empty=True)

    def test_a_chain_leaves_the_digests_of_all_its_rows(self, memories):
        fill(memories)
        memories.call.forget(NS, "c1")
        assert all(memories.call.erased_before(NS, content=f"{SECRET} {number}") for number in range(3))
        # A plain write is never refused.
        memories.call.remember(NS, f"{SECRET} 1", key="again")
        assert memories.keys() == ["again"]

    def test_no_text_lies_in_what_is_left(self, lives):
        call = lives.call
        call.remember(NS, SECRET, key="long-key-of-it", source_refs=["message-id-17"])
        call.forget(NS, "long-key-of-it", byte_scan=True)
        left = raw(lives)
        assert call.erased_before(NS, ["message-id-17"])
        assert not any(text in left for text in (SECRET.encode(), b"long-key-of-it", b"message-id-17"))

    def test_the_latest_ten_thousand_are_kept(self, lives):
        call = lives.call
        for part in range(4):
            call.remember(NS, f"part {part}", key="k", source_refs=[f"m{part}-{n}" for n in range(3300)])
            lives.days.day(part)
            call.forget(NS, "k")
        assert call.erased_before(NS, ["m3-0"])
        assert call.erased_before(NS, ["m1-0"])
        assert not all(call.erased_before(NS, [f"m0-{n}"]) for n in range(0, 3300, 100))
        with lives.make.server.client() as client:
            (key,) = client.scan_iter(match="*:g:*")
            assert client.zcard(key) == 10_000

    @pytest.mark.parametrize("ids", ["m1", 5, [1], None])
    def test_ids_that_are_none_are_refused(self, lives, ids):
        with pytest.raises(ValueError, match="message_ids"):
            lives.call.erased_before(NS, ids)

    @pytest.mark.parametrize("erase", ["forget", "forget_all"])
    def test_where_nothing_can_be_noted_nothing_is_erased(self, lives, erase):
        lives.call.remember(NS, SECRET, key="k")
        with lives.make.server.client() as client:
            (rows,) = client.scan_iter(match="*:c:*")
            noted = rows.replace(b":c:", b":g:")
            client.set(noted, "foreign")
            with pytest.raises(CorruptRecordError, match="something else wrote"):
                lives.call.forget(NS, "k") if erase == "forget" else lives.call.forget_all(NS)
            client.delete(noted)
        assert lives.keys() == ["k"]

    def test_two_stores_do_not_share_what_they_erased(self, lives):
        lives.call.remember(NS, SECRET, key="k")
        lives.call.forget(NS, "k")
        with lives.make.server.client() as client:
            client.flushall()
        lives.call.remember(NS, SECRET, key="k")
        assert not lives.call.erased_before(NS, content=SECRET)


def test_a_long_chain_goes_in_several_steps(lives, monkeypatch):
    monkeypatch.setattr(erasing, "AT_ONCE", 4)
    fill(lives, 11)
    receipt = lives.call.forget(NS, "c5", byte_scan=True)
    assert (receipt.erased["memories"], receipt.residue) == (11, ())
    assert lives.keys(status=["active", "superseded"]) == []


def test_it_works_where_the_server_takes_no_more_writes(launch, face):
    server = launch("valkey-9.1", "--maxmemory-policy", "noeviction")
    maker = StoreMaker(server)
    lives = Memories(maker, face)
    fill(lives)
    lives.call.remember(("other",), "x", key="k")
    with server.client() as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(OutOfMemoryError):
            lives.call.remember(NS, "more", key="more")
        assert lives.call.forget(NS, "c1").erased["memories"] == 3
        assert lives.call.forget_all(("other",)).erased["memories"] == 1
        client.config_set("maxmemory", 0)
    assert lives.call.list_namespaces() == []
    maker.finish()


@pytest.mark.parametrize(("setting", "file"), [("yes", "appendonlydir"), ("no", "dump.rdb")], ids=["AOF", "snapshot"])
def test_the_server_s_files_are_rewritten_where_it_is_asked_for(launch, face, setting, file):
    server = launch("valkey-9.1", "--appendonly", setting, "--appendfsync", "always", "--rdbcompression", "no")
    maker = StoreMaker(server)
    lives = Memories(maker, face)
    fill(lives)
    with server.client() as client:
        if setting == "no":
            client.save()

    def files() -> bytes:
        return b"".join(path.read_bytes() for path in server.folder.glob("**/*") if path.is_file())

    assert (server.folder / file).exists()
    assert SECRET.encode() in files()
    lives.call.forget(NS, "c0")
    assert SECRET.encode() in files()
    fill(lives)
    receipt = lives.call.forget(NS, "c0", rewrite=True)
    assert receipt.residue == ()
    assert SECRET.encode() not in files()
    maker.finish()


def test_what_would_undo_a_merge_names_the_erased_no_more(memories):
    call = memories.call
    call.remember(NS, "bob", key="secret key", subject="Bob", attribute="desk")
    memories.days.day(1)
    call.remember(NS, "rob", key="r", subject="Rob", attribute="desk")
    call.alias(NS, "Rob", "Bob")
    assert call.forget(NS, "secret key").residue == ()
    with memories.make.server.client() as client:
        kept = [value for key in client.scan_iter(match="*:s:*") for value in client.hvals(key)]
    assert kept
    assert not any(b"secret key" in value for value in kept)
    call.unalias(NS, "Bob")
    assert memories.keys() == ["r"]


def test_forget_all_erases_names_also_where_there_never_was_a_memory(memories):
    call = memories.call
    call.alias(NS, "Robert", "Bob")
    assert call.list_namespaces() == []
    assert call.forget_all(NS[:1]).residue == ()
    assert call.aliases(NS) == {}


def test_a_dated_memory_of_one_name_goes_with_what_it_lay_over_under_the_other(memories):
    call = memories.call
    call.remember(NS, "lives by the mill", key="always", subject="Robert", attribute="home")
    call.alias(NS, "Robert", "Bob")
    call.remember(NS, "at the sea", key="dated", subject="Bob", attribute="home", valid_until=day(5))
    call.remember(NS, "on a boat", key="run", subject="Bob", attribute="home", run_id="r1")
    assert call.forget(NS, "dated").erased["memories"] == 3
    assert memories.keys(status=["active", "archived", "superseded"]) == []
