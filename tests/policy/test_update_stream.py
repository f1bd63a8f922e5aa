"""A stream of facts in which later ones replace earlier ones: what is recalled at its end, by how slots are known.

The stream is a file of JSON lines, given by ``--update-stream`` or the environment's ``UPDATE_STREAM``: one object a
line, with ``fact``, ``subject``, ``attribute`` and ``question``. Lines of one (subject, attribute) are updates of each
other, and the last of them is current.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import wordllama

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.policy import MemoryPolicy
from tests.support.real_servers import IN_CI

NS = ("memories", "stream")
ADA = {"configurable": {"user_id": "stream"}}
Slot = tuple[str, str]


@pytest.fixture(scope="module")
def facts(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The stream, in its order."""
    given = request.config.getoption("--update-stream")
    if given is None or not (Path(given).is_file() or IN_CI):
        pytest.skip("needs a stream of facts: --update-stream PATH")
    return [json.loads(line) for line in Path(given).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def embed() -> Any:
    """The local embedder of the examples."""
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return lambda texts: model.embed(texts).tolist()


@pytest.fixture
def store(make_any_store: Any, embed: Any) -> ForgetfulStore:
    """A store with that embedder."""
    made: ForgetfulStore = make_any_store(index={"dims": 256, "embed": embed, "fields": ["content"]})
    return made


def slot_of(fact: dict[str, Any]) -> Slot:
    return fact["subject"], fact["attribute"]


@dataclass
class Figures:
    """What came of a stream.

    Attributes:
        slots: How many slots were updated.
        current: In how many of them the current fact is the first answer to the question.
        leaks: In how many of them a stale one is among the first five.
        updates: How many facts replace one of their slot.
        found: How many of those did.
        false: Which facts replaced one of another slot.
    """

    slots: int = 0
    current: int = 0
    leaks: int = 0
    updates: int = 0
    found: int = 0
    false: list[tuple[str, str]] = field(default_factory=list)
    facts: int = 0

    def __str__(self) -> str:
        return (
            f"of {self.slots} slots current@1 {self.current / self.slots:.3f}, "
            f"stale-leak@5 {self.leaks / self.slots:.3f}; "
            f"superseded {self.found} of {self.updates} (recall {self.found / self.updates:.3f}), "
            f"falsely {len(self.false)} of {self.facts} facts"
        )


def updates_of(facts: list[dict[str, Any]]) -> dict[Slot, list[dict[str, Any]]]:
    found = defaultdict(list)
    for fact in facts:
        found[slot_of(fact)].append(fact)
    return {slot: lines for slot, lines in found.items() if len(lines) > 1}


def replaced(results: list[tuple[dict[str, Any], Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each fact that took the place of another, with that other."""
    by_key: dict[str, dict[str, Any]] = {}
    for fact, decision in results:
        gone = decision["supersedes"] or (decision["key"] if decision["action"] in ("retire", "merge") else None)
        if gone is not None:
            yield fact, by_key[gone]
        if decision["action"] in ("remember", "supersede"):
            by_key[decision["key"]] = fact


def measure(store: ForgetfulStore, facts: list[dict[str, Any]], results: list[tuple[dict[str, Any], Any]]) -> Figures:
    figures = Figures(facts=len(facts))
    for lines in updates_of(facts).values():
        texts = [item.value["content"] for item in store.recall(NS, lines[-1]["question"], limit=5)]
        stale = {line["fact"] for line in lines[:-1]} - {lines[-1]["fact"]}
        figures.slots += 1
        figures.updates += len(lines) - 1
        figures.current += texts[:1] == [lines[-1]["fact"]]
        figures.leaks += not stale.isdisjoint(texts)
    for fact, old in replaced(results):
        if slot_of(fact) == slot_of(old):
            figures.found += 1
        else:
            figures.false.append((fact["fact"], old["fact"]))
    return figures


def follow(store: ForgetfulStore, facts: list[dict[str, Any]], *names: str) -> list[tuple[dict[str, Any], Any]]:
    """Have a policy decide about one fact after the other, and return its decisions."""
    policy, results = MemoryPolicy(store=store), []
    for fact in facts:
        candidate = {"content": fact["fact"], "source": "database", **{name: fact[name] for name in names}}
        (decision,) = policy.invoke({"memory_candidates": [candidate]}, ADA)["memory_decisions"]
        results.append((fact, decision))
    return results


def report(record_property: Any, arm: str, figures: Figures) -> None:
    print(f"{arm}: {figures}")
    record_property(arm, str(figures))


def test_slots_of_the_caller_keep_what_is_current_alone(facts, store, record_property):
    figures = measure(store, facts, follow(store, facts, "subject", "attribute"))
    report(record_property, "caller-supplied slots", figures)
    assert figures.current / figures.slots >= 0.99
    assert figures.leaks == 0
    assert figures.false == []


def test_the_rules_alone_replace_next_to_nothing_falsely(facts, store, record_property):
    figures = measure(store, facts, follow(store, facts))
    report(record_property, "rules only", figures)
    assert len(figures.false) <= 0.02 * figures.slots


def test_a_memory_that_only_grows_tells_stale_facts(facts, store, record_property):
    for fact in facts:
        store.remember(NS, fact["fact"], source="database")
    figures = measure(store, facts, [])
    report(record_property, "append-only", figures)
    assert figures.leaks > 0
