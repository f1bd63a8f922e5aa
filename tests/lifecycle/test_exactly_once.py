"""A step of a memory's life whose reply was lost takes effect, and is recorded, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

import pytest

from tests.store.test_exactly_once import Setting
from tests.support.lossy_proxy import Proxy

NS = ("notes",)
SLOT = {"subject": "user", "attribute": "home"}


@pytest.fixture
def behind(make_any_store, face) -> Iterator[tuple[Any, Any, Proxy]]:
    """One side of a store that is behind a proxy, a store that is not, and the proxy."""
    proxy = Proxy(make_any_store.server.socket_path)
    setting = Setting(make_any_store, proxy)
    store = setting.behind_proxy()
    yield face(store), setting.direct(), proxy
    store.close()
    proxy.close()


def first(call: Any, key: str) -> Any:
    return call.history(NS, key)[0].memory


def actions(call: Any) -> list[str]:
    """Return what was recorded since the last reset, latest first."""
    recorded = (record.action for record in call.audit(()))
    return list(takewhile(lambda action: action != "forget_all", recorded))


# Each says what it has done once; done twice, it would say something else.
ONCE: dict[str, Callable[[Any], Any]] = {
    "remember": lambda call: (call.remember(NS, "new", key="k", **SLOT).memory.version, len(call.history(NS, "a"))),
    "supersede": lambda call: (call.supersede(NS, "a", "new").memory.version, len(call.history(NS, "a"))),
    "demote": lambda call: (call.demote(NS, "a").memory.importance, first(call, "a").importance),
    "confirm": lambda call: (call.confirm(NS, "a").memory.confidence, first(call, "a").confidence),
    "deny": lambda call: (call.deny(NS, "a").memory.confidence, first(call, "a").confidence),
    "link": lambda call: (call.link(NS, "a", "completes", "b").key, first(call, "b").importance),
    "retire": lambda call: (call.retire(NS, "a").memory.reason, len(call.recall(NS))),
    "forget": lambda call: (call.forget(NS, "a").residue, call.history(NS, "a")),
    "end_run": lambda call: (call.end_run(NS, "run"), call.history(NS, "r")),
    "undo_supersede": lambda call: (
        call.supersede(NS, "a", "new", new_key="c").key,
        call.undo_supersede(NS, "c").memory.status,
        first(call, "c").status,
    ),
    "alias": lambda call: (call.alias(NS, "user", "me"), call.unalias(NS, "me"), len(call.recall(NS))),
}


@pytest.mark.parametrize("loss", ["reply", "half"])
@pytest.mark.parametrize("step", ONCE)
def test_a_step_whose_reply_was_lost_counts_once(behind, step, loss):
    call, direct, proxy = behind

    def reset() -> int:
        direct.forget_all(())
        direct.remember(NS, "old", key="a", importance=0.5, confidence=0.5, **SLOT)
        direct.remember(NS, "other", key="b", importance=0.5)
        direct.remember(NS, "of a run", key="r", run_id="run")
        return len(proxy.seen)

    before = reset()
    expected = ONCE[step](call)
    pipelines = len(proxy.seen) - before
    records = actions(direct)
    assert pipelines >= 2
    for at in range(pipelines):
        reset()
        proxy.lose(loss, at=at, times=2)
        assert ONCE[step](call) == expected
        assert actions(direct) == records
