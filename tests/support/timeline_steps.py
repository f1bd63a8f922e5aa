"""The steps that can happen to memories, as plain data: made by Hypothesis or at random, shrunk, and printed as code.

A step is a dict: `op`, its arguments, `place` (which namespace), `clock` (ms by which the clock moves before it),
`client` (which one makes it) and `look` (what is read after it).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container
from typing import Any

import hypothesis.strategies as st

from tests.support.timeline_model import DAY, HOUR, MINUTE, SECOND

Step = dict[str, Any]
CLIENTS = ("warm", "scan", "cold")

_KEYS = ["a", "b", "c", "d", "e", "f", "g"]
_RUNS = ["r1", "r2"]
_BOB, _ROBERT = "Bob", "Robert"
_SLOTS = [(_BOB, "city")] * 5 + [(_ROBERT, "city")] * 2 + [(_BOB, "job"), None, None]
_STARTS = [None] * 8 + [-DAY, -HOUR, -SECOND, -1, 0, 1, SECOND, SECOND + 1, MINUTE, MINUTE, HOUR, HOUR, DAY]
_ENDS = [None] * 9 + [1, SECOND, MINUTE, 2 * HOUR]
_TIMES = [None] * 3 + [-HOUR, -1, 0, 1, MINUTE, HOUR]

# What each step may say; a value that occurs twice is drawn twice as often. The first is the simplest.
FIELDS: dict[str, dict[str, list[Any]]] = {
    "remember": {
        "key": _KEYS,
        "slot": _SLOTS,
        "start": _STARTS,
        "end": _ENDS,
        "run": [None] * 7 + _RUNS,
        "ttl": [None] * 7 + [1, 90],
        "kind": [None] * 8 + ["emotion", "conversation", "fact", "hypothesis"],
    },
    "supersede": {
        "key": _KEYS,
        "new_key": _KEYS,
        "start": _STARTS,
        "ttl": [None] * 7 + [1, 90],
        "version": [None] * 5 + ["right", "wrong"],
        "reason": ["updated", "corrected"],
    },
    "put": {"key": _KEYS, "ttl": [None] * 5 + [1, 90], "kind": [None] * 7 + ["emotion", "conversation"]},
    "retire": {"key": _KEYS, "until": _TIMES},
    "archive": {"key": _KEYS},
    "restore": {"key": _KEYS},
    "delete": {"key": _KEYS},
    "undo": {"key": _KEYS},
    "confirm": {"key": _KEYS},
    "alias": {"canonical": [_BOB, _ROBERT], "name": [_ROBERT, _BOB]},
    "unalias": {"name": [_ROBERT, _BOB]},
    "end_run": {"run": _RUNS, "everywhere": [False, True]},
    "forget": {"key": _KEYS},
    "pin": {"key": _KEYS},
    "unpin": {"key": _KEYS},
    "set_ttl": {"key": _KEYS, "ttl": [1, 90]},
    "demote": {"key": _KEYS},
    "deny": {"key": _KEYS},
    "anchor": {"key": _KEYS},
    "link": {"key": _KEYS, "relation": ["relates", "updates", "completes"], "other": _KEYS},
    "unlink": {"key": _KEYS, "relation": ["relates", "updates"], "other": _KEYS},
    "forget_all": {"really": [False] * 5 + [True]},
    "sweep": {},
    "wait": {},
}
_WEIGHTS = {
    "remember": 30,
    "supersede": 16,
    "put": 7,
    "retire": 6,
    "archive": 5,
    "restore": 4,
    "delete": 5,
    "undo": 5,
    "confirm": 2,
    "alias": 3,
    "unalias": 2,
    "end_run": 2,
    "forget": 1,
    "pin": 1,
    "unpin": 1,
    "set_ttl": 1,
    "demote": 1,
    "deny": 1,
    "anchor": 1,
    "link": 3,
    "unlink": 1,
    "forget_all": 1,
    "sweep": 2,
    "wait": 3,
}
_COMMON: dict[str, list[Any]] = {
    "clock": [0] * 8 + [1, 1, SECOND, MINUTE, MINUTE, HOUR, DAY, -1, -1, -SECOND, -5 * SECOND, -MINUTE, -HOUR],
    "client": [0, 0, 0, 1, 1, 2],
    "place": [0, 0, 0, 0, 0, 1],
    "look": ["now"] * 6 + ["run", "guesses", "query", "as_of", "as_of", "known_at", "rows", "history", "new client"],
}
_OPS = [op for op, many in _WEIGHTS.items() for _ in range(many)]


def random_steps(seed: int, many: int, without: Container[str] = ()) -> list[Step]:
    """Make steps at random; equal seeds make equal steps.

    Args:
        seed: Of the random numbers.
        many: How many steps.
        without: Names of steps and of fields that are left out.
    """
    choose = random.Random(seed).choice
    steps = []
    for _ in range(many):
        op = choose(_OPS)
        said = {name: choose(values) for name, values in {**FIELDS[op], **_COMMON}.items()}
        said |= {name: {**FIELDS[op], **_COMMON}[name][0] for name in said if name in without}
        steps.append({"op": "wait" if op in without else op, **said})
    return steps


def _fields(op: str) -> st.SearchStrategy[Step]:
    values = {name: st.sampled_from(values) for name, values in {**FIELDS[op], **_COMMON}.items()}
    return st.fixed_dictionaries({"op": st.just(op), **values})


STEPS: st.SearchStrategy[Step] = st.sampled_from(_OPS).flatmap(_fields)


def shrink(steps: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    """Return fewer and simpler steps that fail as well."""
    size = max(1, len(steps) // 2)
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if fewer and fails(fewer):
                steps = fewer
            else:
                at += size
        size = size // 2
    for at in range(len(steps)):
        for name in [name for name in steps[at] if name != "op"]:
            simplest = {**FIELDS[steps[at]["op"]], **_COMMON}.get(name, [None])[0]
            simpler = [*steps[:at], {**steps[at], name: simplest}, *steps[at + 1 :]]
            if steps[at][name] != simplest and fails(simpler):
                steps = simpler
    return steps
