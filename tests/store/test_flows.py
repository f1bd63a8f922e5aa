"""Flows and how they are gathered, without a server."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from redis.exceptions import NoScriptError

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Embed, Info, Outcome, Send, gather
from langgraph_forgetful_store.backend.lanes import SCRIPT_ATTEMPTS, Lane, transmit
from langgraph_forgetful_store.backend.scripts import Call


def _call(name: str) -> Call:
    return Call(scripts.GET, [name])


def _drive(flow: Any, answer: Any) -> tuple[Any, list[Any]]:
    """Run a flow with `answer(request)`; returns its result and the requests."""
    requests = []
    try:
        request = next(flow)
        while True:
            requests.append(request)
            try:
                reply = answer(request)
            except Exception as error:
                request = flow.throw(error)
            else:
                request = flow.send(reply)
    except StopIteration as stop:
        return stop.value, requests


def _echo(request: Any) -> Any:
    if isinstance(request, Embed):
        sizes = ([float(len(text)) for text in texts] for texts in (request.texts, request.queries))
        return tuple(np.array(each).reshape(-1, 1) for each in sizes)
    return {} if isinstance(request, Info) else [call.args[0] for call in request.calls]


def _steps(*names: list[str]) -> Any:
    got: dict[int, Any] = {}
    for at, step in enumerate(names):
        got[at] = yield Send([_call(name) for name in step])
    return list(got.values())


def test_gathered_flows_share_one_request_a_step_and_get_their_own_replies():
    outcomes, requests = _drive(gather([_steps(["a", "b"], ["c"]), _steps(["d"]), _steps([], ["e"])]), _echo)
    assert [outcome.unwrap() for outcome in outcomes] == [[["a", "b"], ["c"]], [["d"]], [[], ["e"]]]
    assert [[call.args[0] for call in request.calls] for request in requests] == [["a", "b", "d"], ["c", "e"]]


def test_a_flow_that_raises_ends_alone():
    def bad() -> Any:
        yield Send([_call("x")])
        raise ValueError("mine")

    outcomes, _ = _drive(gather([bad(), _steps(["a"], ["b"])]), _echo)
    with pytest.raises(ValueError, match="mine"):
        outcomes[0].unwrap()
    assert outcomes[1].unwrap() == [["a"], ["b"]]


def test_a_flow_that_ends_early_is_reported_while_others_go_on():
    ended: list[tuple[int, Any]] = []

    def finished(at: int, outcome: Outcome[Any]) -> None:
        ended.append((at, outcome.value))

    flow = gather([_steps(["a"], ["b"]), _steps(["c"])], finished)
    next(flow)
    flow.send(["a", "c"])
    assert ended == [(1, [["c"]])]


def _embedding(*texts: str, queries: tuple[str, ...] = ()) -> Any:
    found, asked = yield Embed(list(texts), list(queries))
    return found[:, 0].tolist(), asked[:, 0].tolist()


def test_embeddings_are_asked_for_together_and_a_failed_one_again_for_each_alone():
    def answer(request: Any) -> Any:
        if "poison" in request.texts:
            raise RuntimeError("no vector for this")
        return _echo(request)

    flows = [_embedding("a", "bb", queries=("q",)), _embedding("poison"), _embedding("ccc")]
    outcomes, requests = _drive(gather(flows), answer)
    assert outcomes[0].unwrap() == ([1.0, 2.0], [1.0])
    assert outcomes[2].unwrap() == ([3.0], [])
    with pytest.raises(RuntimeError, match="no vector"):
        outcomes[1].unwrap()
    assert [list(request.texts) for request in requests] == [
        ["a", "bb", "poison", "ccc"],
        ["a", "bb"],
        ["poison"],
        ["ccc"],
    ]


def test_sends_do_not_wait_for_embeddings_of_others():
    _, requests = _drive(gather([_embedding("a"), _steps(["x"], ["y"])]), _echo)
    assert isinstance(requests[0], Send)


def test_lost_scripts_are_sent_again_in_order_under_the_same_number():
    calls = [Call(scripts.PUT, [f"{n}"]) for n in range(3)]
    sending = transmit(b"p:", calls, Lane("lane"))
    first = next(sending)
    assert [command[0] for command in first] == ["EVALSHA"] * 3
    second = sending.send([b"OK", NoScriptError("x"), NoScriptError("x")])
    assert [command[0] for command in second] == ["EVAL", "EVALSHA"]
    assert [command[2:] for command in second] == [command[2:] for command in first[1:]]
    with pytest.raises(StopIteration) as ended:
        sending.send([b"two", b"three"])
    assert ended.value.value == [b"OK", b"two", b"three"]


def test_a_script_that_stays_lost_is_reported_in_the_end():
    sending = transmit(b"p:", [_call("a")], Lane("lane"))
    next(sending)
    for _ in range(SCRIPT_ATTEMPTS - 1):
        sending.send([NoScriptError("lost")])
    with pytest.raises(StopIteration) as ended:
        sending.send([NoScriptError("lost")])
    assert isinstance(ended.value.value[0], NoScriptError)


def test_each_use_of_a_lane_has_a_greater_number():
    lane = Lane("lane")
    seen = [next(transmit(b"p:", [Call(scripts.PUT, ["x"])], lane))[0][-1] for _ in range(3)]
    assert seen == sorted(set(seen))
