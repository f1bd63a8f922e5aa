"""The Lua scripts, called directly."""

from __future__ import annotations

import asyncio
import struct
from importlib import resources

import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store.backend import codec, scripts
from langgraph_forgetful_store.backend.keys import (
    GLOBAL,
    PER_NAMESPACE,
    decode_namespace,
    encode_namespace,
    encode_text,
    store_prefix,
)

SCRIPTS = [script for script in vars(scripts).values() if isinstance(script, scripts.Script)]


def _files() -> dict[str, str]:
    folder = resources.files(scripts.__name__)
    return {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".lua")}


def test_every_script_is_packaged_and_has_a_header():
    files = _files()
    assert {script.name + ".lua" for script in SCRIPTS} == {name for name in files if not name.startswith("common")}
    for name, source in files.items():
        header = source.split("\n\n")[0]
        assert header.startswith("-- Purpose:"), name
        assert "KEYS" in header, name
        assert name.startswith("common") or "-- Returns" in header, name


def test_every_script_that_writes_rows_runs_once_and_the_others_take_no_lane():
    for script in SCRIPTS:
        body = _files()[f"{script.name}.lua"]
        assert script.once == ("remember_result(" in body) == ("result_before()" in body)


def test_lua_reads_the_meta_that_python_packs(any_server):
    values = {name: (1.5 + at if code == "d" else at + 1) for at, (name, code, _) in enumerate(codec.FIELDS)}
    values["status"] = codec.LAST_STATUS
    packed = struct.pack("<" + "".join(code for _, code, _ in codec.FIELDS), *values.values())
    lua = codec.lua_layout() + (
        "local all = {struct.unpack(META, ARGV[1])}\n"
        "local again = struct.pack(META, unpack(all, 1, #all - 1))\n"
        "local one = struct.unpack('<d', ARGV[1], AT_CONFIDENCE)\n"
        "return {again, #all - 1, string.format('%.17g', one), META_BYTES}"
    )
    with any_server.client() as client:
        again, fields, confidence, size = client.eval(lua, 0, packed)
    assert again == packed
    assert fields == len(codec.FIELDS)
    assert float(confidence) == values["confidence"]
    assert size == codec.META_BYTES == len(packed)
    assert codec.unpack_meta(packed)._asdict() == values


def test_namespaces_are_encoded_in_tuple_order_and_prefix_safe():
    labels = ["a", "a\x01", "aa", "A", "é", "漢", "🙂", "\x01", "~", "\x7f", "\ud800"]
    spaces = [(), *((one,) for one in labels), *((one, two) for one in labels for two in labels)]
    assert sorted(spaces) == sorted(spaces, key=encode_namespace)
    assert [decode_namespace(encode_namespace(space)) for space in spaces] == spaces
    for one in spaces:
        for two in spaces:
            assert encode_namespace(two).startswith(encode_namespace(one)) == (two[: len(one)] == one)


def test_calls_are_cut_by_rows_and_by_bytes():
    frame = scripts.Frame("", True)
    space = encode_namespace(("n",))
    small = [scripts.PutRow(space, b"k%d" % n, b"{}", b"", None) for n in range(1201)]
    assert [call.rows for call in scripts.put(frame, scripts.Format(), small)] == [500, 500, 201]
    large = [scripts.PutRow(space, b"k%d" % n, b"x" * 900_000, b"", None) for n in range(5)]
    assert [call.rows for call in scripts.put(frame, scripts.Format(), large)] == [2, 2, 1]
    assert scripts.put(frame, scripts.Format(), []) == []


def test_a_batch_of_many_namespaces_keeps_the_order_of_its_puts(make_any_store):
    store = make_any_store()
    puts = [PutOp((f"n{n % 7}",), f"k{n}", {}) for n in range(1300)]
    store.batch(puts)
    found = [item.key for item in store.search((), limit=2000)]
    assert found == [put.key for put in reversed(puts)]


def test_tombstones_are_bounded_and_their_floor_is_kept(make_any_store):
    store = make_any_store()
    for start in range(0, 3000, 500):
        store.batch([PutOp(("n",), f"k{n}", {}) for n in range(start, start + 500)])
        store.batch([PutOp(("n",), f"k{n}", None) for n in range(start, start + 500)])
    prefix, space = store_prefix(make_any_store.key_prefix), encode_namespace(("n",))
    with make_any_store.server.client() as client:
        left = client.zrange(prefix + b"d:" + space, 0, -1, withscores=True)
        floor = int(float(client.hget(prefix + b"flr", space)))
    assert 512 <= len(left) <= 1024 + 500
    assert floor < left[0][1]
    assert floor > 0


def test_namespaces_that_died_long_ago_leave_nothing_behind(make_any_store):
    store = make_any_store()
    for start in range(0, 2500, 500):
        names = [("gone", f"n{n}") for n in range(start, start + 500)]
        store.batch([PutOp(name, "k", {}, ttl=5) for name in names])
        for name in names:
            store.delete(name, "k")
    prefix = store_prefix(make_any_store.key_prefix)
    with make_any_store.server.client() as client:
        assert client.zcard(prefix + b"dead") <= 1024
        assert client.zcard(prefix + b"nsl") <= 1024
        assert client.zcard(prefix + b"exp") == 0
        assert client.hlen(prefix + b"pv") <= 1024 + 2
        assert sum(1 for _ in client.scan_iter(match=prefix.replace(b"{", b"\\{") + b"d:*", count=1000)) <= 1024
        assert float(client.hget(prefix + b"flr", b"")) > 0
    store.put(("gone", "n1"), "k", {"back": True})
    assert store.list_namespaces() == [("gone", "n1")]


def test_lanes_that_no_one_has_used_for_long_are_forgotten(make_any_store, clock):
    prefix = store_prefix(make_any_store.key_prefix)
    make_any_store(clock=clock).put(("n",), "k", {})
    with make_any_store.server.client() as client:
        client.hset(prefix + b"ops", mapping={f"old{n}": f"7 {clock.now:.0f} " for n in range(2000)})
        clock.advance(minutes=9)
        make_any_store(clock=clock).put(("n",), "k", {})
        assert client.hlen(prefix + b"ops") == 2002, "a young one is gone"
        clock.advance(minutes=2)
        store = make_any_store(clock=clock)
        store.put(("n",), "k", {})
        # A new lane, and of the old ones no more than one call may look at.
        assert 2003 - 32 <= client.hlen(prefix + b"ops") <= 2003 - 30

        async def put_together() -> None:
            await asyncio.gather(*(store.aput(("n",), f"k{n}", {}) for n in range(200)))

        asyncio.run(put_together())
        records = client.hvals(prefix + b"ops")
        assert sum(b" %d " % clock.now in record for record in records) == 201, "a young one is gone"
        assert len(records) <= 1024


def test_the_keys_of_a_store_are_those_of_the_layout(make_store):
    store = make_store(index={"dims": 2, "embed": lambda texts: [[1.0, 0.0] for _ in texts]})
    store.put(("n", "m"), "k", {"a": 1}, ttl=5)
    store.put(("n", "m"), "k2", {"a": 1})
    store.delete(("n", "m"), "k2")
    prefix = store_prefix(make_store.key_prefix)
    with make_store.server.client() as client:
        names = {key[len(prefix) :] for key in client.scan_iter(match=f"{make_store.key_prefix}:*")}
        stored = client.hgetall(prefix + b"fmt")
    space = encode_namespace(("n", "m"))
    assert names == {*(name.encode() for name in ("fmt", "seq", "ops", "pv", "nsv", "nsl", "exp"))} | {
        kind + b":" + space for kind in (b"c", b"d", b"t", b"m", b"e", b"v", b"w")
    }
    assert {name.partition(b":")[0].decode() for name in names} <= {*GLOBAL, *PER_NAMESPACE}
    assert stored.pop(b"epoch")
    named = {b"version": codec.FORMAT_VERSION, b"tokenizer": codec.TOKENIZER, b"buckets": 1, b"dims": 2}
    assert stored.pop(b"embedder")
    assert {name: int(number) for name, number in stored.items()} == named


def test_data_written_anew_after_a_flush_have_another_epoch(make_any_store, clock):
    store = make_any_store(clock=clock)
    name = store_prefix(make_any_store.key_prefix) + b"fmt"
    epochs = set()
    with make_any_store.server.client() as client:
        for _ in range(3):
            store.put(("n",), "k", {})
            store.put(("n",), "k", {})
            epochs.add(client.hget(name, "epoch"))
            client.flushdb()
    assert len(epochs) == 3


def test_a_row_of_a_part_of_meta_is_reported_not_misread(make_any_store):
    from langgraph_forgetful_store import CorruptRecordError

    store = make_any_store()
    store.put(("n",), "k", {})
    name = store_prefix(make_any_store.key_prefix) + b"m:" + encode_namespace(("n",))
    with make_any_store.server.client() as client:
        whole = client.hget(name, encode_text("k"))
        client.hset(name, encode_text("k"), whole[:-1])
        with pytest.raises(CorruptRecordError, match="131 bytes, not 132"):
            store.get(("n",), "k")
        client.hset(name, encode_text("k"), whole)
