"""The same said by many at once: one row, one version, and the same memory for all who said it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

NS = ("team", "ann")
PROCESSES = 8

# Says what is asked for on each line of its input. A round begins when all processes have come to it.
SAY = """
import json, sys
import redis
from langgraph_forgetful_store import ForgetfulStore
url, name, many = sys.argv[1:4]
gate = redis.Redis.from_url(url, socket_timeout=None)

def say(store, ns, number, slot, how):
    if how == "content":
        return store.remember(ns, f"lives in {number}", if_absent="content", **slot)
    if how == "content, no slot":
        return store.remember(ns, f"fact {number}", if_absent="content")
    if how == "slot":
        return store.remember(ns, f"{name} says {number}", if_absent="slot", **slot)
    if how == "key":
        return store.remember(ns, f"{name} says {number}", key=f"k{number}", if_absent="key", **slot)
    if how == "idempotency key":
        told = {"if_absent": "content", "idempotency_key": f"call {number}"}
        return store.remember(ns, f"lives in {number}", **told, **slot)
    return store.remember(ns, f"{name} says {number}", **slot)

print("ready", flush=True)
for line in sys.stdin:
    prefix, how, rounds = json.loads(line)
    store = ForgetfulStore.from_conn_string(url, key_prefix=prefix)
    store.setup()
    said = []
    for number in range(rounds):
        if gate.incr(f"gate:{prefix}:{number}") == int(many):
            gate.delete(f"gate:{prefix}:{number}")
            gate.lpush(f"open:{prefix}:{number}", *range(int(many)))
        gate.blpop(f"open:{prefix}:{number}", timeout=60)
        ns = ("team", "ann", str(number // 50))
        slot = {"subject": f"user {number}", "attribute": "city"}
        try:
            item = say(store, ns, number, slot, how)
        except Exception as error:
            said.append([repr(error)])
            continue
        said.append([item.key, item.memory.version, item.value["content"]])
    print(json.dumps(said), flush=True)
    store.close()
"""


class Speakers:
    """Processes that say things at once."""

    def __init__(self, server: Any, stack: ExitStack) -> None:
        root = str(Path(__file__).parents[2])
        self.workers = []
        for number in range(PROCESSES):
            command = [sys.executable, "-c", SAY, server.url, f"p{number}", str(PROCESSES)]
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
            # At the end its pipes are closed, behind a kill where it still runs.
            stack.enter_context(worker)
            stack.callback(worker.kill)
            self.workers.append(worker)
        for worker in self.workers:
            assert self.read(worker) == "ready\n"

    def read(self, worker: subprocess.Popen[str]) -> str:
        assert worker.stdout is not None
        return worker.stdout.readline()

    def say(self, prefix: str, how: str, rounds: int) -> list[list[list[Any]]]:
        """Have all say the same in each round; return what each round's writes returned."""
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.write(json.dumps([prefix, how, rounds]) + "\n")
            worker.stdin.flush()
        told = [json.loads(self.read(worker)) for worker in self.workers]
        return [list(one) for one in zip(*told, strict=True)]


@pytest.fixture(scope="module")
def speakers(any_server: Any) -> Iterator[Speakers]:
    with ExitStack() as stack:
        yield Speakers(any_server, stack)


ROUNDS = pytest.mark.parametrize(
    "rounds", [pytest.param(15, id="few"), pytest.param(1000, id="many", marks=pytest.mark.exhaustive)]
)


@ROUNDS
@pytest.mark.parametrize("how", ["content", "content, no slot", "slot", "key", "idempotency key"])
def test_processes_that_say_the_same_make_one_row_of_one_version(make_any_store, speakers, how, rounds):
    made = speakers.say(make_any_store.key_prefix, how, rounds)
    store = make_any_store()
    for number, returned in enumerate(made):
        assert len({json.dumps(one) for one in returned}) == 1, f"round {number}: {returned}"
        assert len(returned[0]) == 3, returned[0]
        key, version, content = returned[0]
        assert version == 1
        space = (*NS, str(number // 50))
        assert [item.key for item in store.history(space, key)] == [key]
        assert store.get(space, key).value["content"] == content
    found = store.recall((), status=["active", "archived", "superseded"], limit=2 * rounds)
    assert len(found) == rounds


@ROUNDS
def test_processes_that_say_different_things_of_one_slot_make_a_line(make_any_store, speakers, rounds):
    made = speakers.say(make_any_store.key_prefix, "different", rounds)
    store = make_any_store()
    for number, returned in enumerate(made):
        space = (*NS, str(number // 50))
        history = store.history(space, returned[0][0])
        assert sorted(item.key for item in history) == sorted(one[0] for one in returned)
        assert [item.memory.version for item in history] == list(range(1, PROCESSES + 1))
        assert [str(item.memory.status) for item in history] == ["superseded"] * (PROCESSES - 1) + ["active"]
    assert len(store.recall((), limit=2 * rounds)) == rounds
