"""The same said by many at once: one row, one version, and the same memory for all who said it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

NS = ("team", "ann")
PROCESSES = 8

# Each round of a process begins when all have ended the one before; what the writes returned is printed at the end.
SAY = """
import json, sys, time
import redis
from langgraph_forgetful_store import ForgetfulStore
url, prefix, name, how, rounds, many = sys.argv[1:7]
gate = redis.Redis.from_url(url)
store = ForgetfulStore.from_conn_string(url, key_prefix=prefix)
store.setup()
said = []
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(rounds)):
    gate.incr(f"{prefix}:gate")
    while int(gate.get(f"{prefix}:gate")) < (number + 1) * int(many):
        pass
    ns = ("team", "ann", str(number // 50))
    slot = {"subject": f"user {number}", "attribute": "city"}
    if how == "content":
        item = store.remember(ns, f"lives in {number}", if_absent="content", **slot)
    elif how == "content, no slot":
        item = store.remember(ns, f"fact {number}", if_absent="content")
    elif how == "slot":
        item = store.remember(ns, f"{name} says {number}", if_absent="slot", **slot)
    elif how == "key":
        item = store.remember(ns, f"{name} says {number}", key=f"k{number}", if_absent="key", **slot)
    elif how == "idempotency key":
        item = store.remember(ns, f"lives in {number}", if_absent="content", idempotency_key=f"call {number}", **slot)
    else:
        item = store.remember(ns, f"{name} says {number}", **slot)
    said.append([item.key, item.memory.version, item.value["content"]])
print(json.dumps(said), flush=True)
store.close()
"""


def say(server: Any, prefix: str, how: str, rounds: int) -> list[list[list[Any]]]:
    """Have all processes say the same in each round; return what each round's writes returned."""
    root = str(Path(__file__).parents[2])
    with ExitStack() as stack:
        workers = []
        for number in range(PROCESSES):
            command = [sys.executable, "-c", SAY, server.url, prefix, f"p{number}", how, str(rounds), str(PROCESSES)]
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
            # At the end its pipes are closed, behind a kill where it still runs.
            stack.enter_context(worker)
            stack.callback(worker.kill)
            workers.append(worker)
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        told = [json.loads(worker.communicate(timeout=570)[0]) for worker in workers]
    with server.client() as client:
        client.delete(f"{prefix}:gate")
    return [list(one) for one in zip(*told, strict=True)]


ROUNDS = pytest.mark.parametrize(
    "rounds", [pytest.param(15, id="few"), pytest.param(1000, id="many", marks=pytest.mark.exhaustive)]
)


@ROUNDS
@pytest.mark.parametrize("how", ["content", "content, no slot", "slot", "key", "idempotency key"])
def test_processes_that_say_the_same_make_one_row_of_one_version(make_any_store, how, rounds):
    made = say(make_any_store.server, make_any_store.key_prefix, how, rounds)
    store = make_any_store()
    for number, returned in enumerate(made):
        assert len({json.dumps(one) for one in returned}) == 1, f"round {number}: {returned}"
        key, version, content = returned[0]
        assert version == 1
        space = (*NS, str(number // 50))
        assert [item.key for item in store.history(space, key)] == [key]
        assert store.get(space, key).value["content"] == content
    found = store.recall((), status=["active", "archived", "superseded"], limit=2 * rounds)
    assert len(found) == rounds


@ROUNDS
def test_processes_that_say_different_things_of_one_slot_make_a_line(make_any_store, rounds):
    made = say(make_any_store.server, make_any_store.key_prefix, "different", rounds)
    store = make_any_store()
    for number, returned in enumerate(made):
        space = (*NS, str(number // 50))
        history = store.history(space, returned[0][0])
        assert sorted(item.key for item in history) == sorted(one[0] for one in returned)
        assert [item.memory.version for item in history] == list(range(1, PROCESSES + 1))
        assert [str(item.memory.status) for item in history] == ["superseded"] * (PROCESSES - 1) + ["active"]
    assert len(store.recall((), limit=2 * rounds)) == rounds
