"""What is done under an idempotency key is done once, however often and by how many it is asked for."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from langgraph_forgetful_store.policy import MemoryPolicy

NS = ("memories", "alice")


@pytest.fixture
def store(make_store: Any, face: Any, clock: Any) -> Any:
    store = face(make_store(clock=clock))
    store.remember(NS, "green tea", key="a", confidence=0.4, importance=0.2)
    return store


def confidence(store: Any) -> float:
    return round(store.get(NS, "a").memory.confidence, 9)


def steps(store: Any, key: str | None) -> dict[str, Any]:
    recall_id = store.recall(NS)[0].recall_id
    return {
        "confirm": lambda: store.confirm(NS, "a", idempotency_key=key),
        "deny": lambda: store.deny(NS, "a", idempotency_key=key),
        "feedback": lambda: store.feedback(recall_id, 1, idempotency_key=key),
    }


AFTER = {"confirm": 0.5, "deny": 0.2, "feedback": 0.5}


@pytest.mark.parametrize("step", AFTER)
def test_what_is_asked_for_again_under_the_same_key_is_not_done_again(store, step):
    do = steps(store, "once")[step]
    first, second = do(), do()
    assert confidence(store) == AFTER[step]
    assert len([record for record in store.audit(NS) if record.action == step]) == 1
    both = [result[0] if isinstance(result, list) else result for result in (first, second)]
    assert [round(item.memory.confidence, 9) for item in both] == [AFTER[step]] * 2


def test_other_keys_and_none_are_other_requests(store):
    for key in ("x", "y", None, None):
        store.confirm(NS, "a", idempotency_key=key)
    assert confidence(store) == 0.8


def test_a_memory_remembers_the_last_eight_keys(store):
    for number in range(8):
        store.deny(NS, "a", idempotency_key=f"k{number}")
    store.confirm(NS, "a", idempotency_key="k0")
    assert confidence(store) == 0
    store.confirm(NS, "a", idempotency_key="k8")
    store.confirm(NS, "a", idempotency_key="k0")
    assert confidence(store) == 0.2


def test_a_key_is_kept_when_the_content_is_replaced_and_goes_with_the_memory(store):
    store.confirm(NS, "a", idempotency_key="once")
    store.put(NS, "a", {"content": "black tea"})
    store.confirm(NS, "a", idempotency_key="once")
    assert confidence(store) == 0.5
    store.forget(NS, "a")
    store.remember(NS, "green tea", key="a", confidence=0.4)
    store.confirm(NS, "a", idempotency_key="once")
    assert confidence(store) == 0.5


@pytest.mark.parametrize("key", ["", 3, b"once", True])
@pytest.mark.parametrize("step", AFTER)
def test_a_key_is_a_text(store, step, key):
    with pytest.raises(ValueError, match="idempotency_key must be a non-empty str"):
        steps(store, key)[step]()
    assert confidence(store) == 0.4


@pytest.mark.parametrize("step", AFTER)
def test_of_many_threads_that_ask_at_once_one_is_heard(make_store, step):
    makers = [make_store() for _ in range(4)]
    makers[0].remember(NS, "green tea", key="a", confidence=0.4)
    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(steps(makers[at % 4], "once")[step]) for at in range(48)]:
            done.result()
    assert confidence(makers[0]) == AFTER[step]


def test_of_many_tasks_that_ask_at_once_one_is_heard_for_each_key(make_store):
    store = make_store()
    store.remember(NS, "green tea", key="a", confidence=0.0)

    async def main() -> None:
        await asyncio.gather(*(store.aconfirm(NS, "a", idempotency_key=f"k{at % 4}") for at in range(60)))
        await store.aclose()

    asyncio.run(main())
    assert confidence(make_store()) == 0.4


@pytest.mark.parametrize("action", ["confirm", "deny", "merge", "feedback"])
def test_decisions_that_several_runs_carry_out_at_the_same_time_count_once(make_store, action):
    store = make_store()
    store.remember(NS, "I like green tea", key="a", confidence=0.4)
    policy = MemoryPolicy(store=store)
    state: dict[str, Any] = {"memory_actions": [{"action": action, "key": "a"}]}
    if action == "merge":
        state = {"memory_candidates": [{"content": "I like green tea", "source": "user"}]}
    elif action == "feedback":
        recall_id = store.recall(NS)[0].recall_id
        state = {"memory_actions": [{"action": "feedback", "value": 1, "recall_id": recall_id}]}
    (decision,) = policy.decide(state, {"configurable": {"user_id": "alice"}})
    assert decision["action"] == action
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(policy.apply, [decision]) for _ in range(24)]:
            done.result()
    assert confidence(store) == (0.2 if action == "deny" else 0.5)
