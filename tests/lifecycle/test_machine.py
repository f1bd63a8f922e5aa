"""The lifecycle against a bitemporal model: random steps, a clock that steps both ways, three clients."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.support.timeline_steps import STEPS, Step
from tests.support.timeline_world import World

LIVES = int(os.environ.get("LIFECYCLE_EXAMPLES", "300"))
STEPS_A_LIFE = int(os.environ.get("LIFECYCLE_STEPS", "40"))


class Machine(RuleBasedStateMachine):
    """All that can happen to a memory."""

    server: Any
    asynchronous: bool
    done: Counter[str]

    @initialize()
    def start(self) -> None:
        self.world = World(self.server, asynchronous=self.asynchronous, done=self.done)

    @rule(step=STEPS)
    def take(self, step: Step) -> None:
        self.world.take(step)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.end()


def live(server: Any, *, lives: int, asynchronous: bool) -> Counter[str]:
    """Run so many lives, the same each time; return which steps were made, and what became of them."""
    done: Counter[str] = Counter()
    machine = type("Machine", (Machine,), {"server": server, "asynchronous": asynchronous, "done": done})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=lives,
            stateful_step_count=STEPS_A_LIFE,
            deadline=None,
            # Each run of the tests takes the same steps; more of them are `tests.lifecycle.fuzz`'s.
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
    return done


def test_random_steps_do_what_the_rules_say(server):
    live(server, lives=30, asynchronous=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_many_random_steps_do_what_the_rules_say(server, asynchronous):
    done = live(server, lives=LIVES, asynchronous=asynchronous)
    assert sum(done.values()) > LIVES
