"""The examples, run as a reader runs them."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NO_NETWORK = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
CODE = "My meeting room is Fjord, and its door code is 4471 for the next 30 minutes."


def run_example(name: str, folder: Path, *, warnings: str = "error::ResourceWarning") -> str:
    """Run an example from elsewhere and without a network, as a reader runs it, and return what it prints.

    That it ends well and complains of nothing is checked here.
    """
    run = subprocess.run(
        [sys.executable, "-W", warnings, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **NO_NETWORK, "PYTHONIOENCODING": "utf-8"},
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the quickstart prints."""
    return run_example("quickstart.py", tmp_path_factory.mktemp("elsewhere")).splitlines()


LIFECYCLE = """
1. React, then learning Vue, then all Vue
  now:          I have moved all my work to Vue
  as of day 1  : I build everything with React
  as of day 40 : I am learning Vue · I build everything with React
  history:
  I build everything with React      superseded  day 1 – day 90
  I have moved all my work to Vue    active      day 90 – …

2. A fact that is learned late finds its place
  The service runs on MySQL          superseded  day 91 – day 93
  For a week it ran on SQLite        superseded  day 93 – day 100
  The service runs on Postgres       active      day 100 – …
  day 95, as known on day 100: The service runs on MySQL
  day 95, as known now:        For a week it ran on SQLite

3. What is bound to a run ends with it
  in the run: Step 2 of the migration is done
  outside:    (nothing)
  ended:      1 memory

4. Archived by its own type, and back again
  after 8 days: (nothing)
  woken:        [('I intend to visit Lisbon in spring', 'archived')]
  confirmed:    active

5. Two names of one person, and a wrong merge undone
  one person:   Robert sits on the fourth floor
  two after all: Robert sits on the fourth floor · Bob sits on the second floor

6. An address that leaves no byte behind
  erased:  {'memories': 3, 'summaries': 1, 'links': 1, 'slots': 1, 'audit_records': 4}
  residue: none
  asked:   (nothing)
  audit:   forget user_request {'memories': 3, 'summaries': 1, 'links': 1, 'slots': 1, 'audit_records': 4}
"""


def test_the_lifecycle_example_tells_its_stories(tmp_path: Path) -> None:
    assert run_example("lifecycle.py", tmp_path) == LIFECYCLE


def section(output: list[str], number: int) -> list[str]:
    (start,) = [at for at, line in enumerate(output) if line.startswith(f"{number}. ")]
    end = output.index("", start) if "" in output[start:] else len(output)
    return output[start + 1 : end]


def recalled(lines: list[str]) -> dict[str, list[tuple[float, str]]]:
    """The questions of a section, each with the scores and texts of the memories below it."""
    answers: dict[str, list[tuple[float, str]]] = {}
    for line in lines:
        if asked := re.fullmatch(r" +[\d:.]{12}  (.+\?)", line):
            answers[asked[1]] = []
        elif answer := re.fullmatch(r" +(\d\.\d\d)  (.+)", line):
            answers[list(answers)[-1]].append((float(answer[1]), answer[2]))
    return answers


def test_the_conversation_is_one_of_two_threads_in_which_user_and_assistant_take_turns():
    turns = [json.loads(line) for line in (EXAMPLES / "data" / "conversation.jsonl").read_text().splitlines()]
    assert 30 <= len(turns) <= 50
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * (len(turns) // 2)
    assert list(dict.fromkeys(turn["thread"] for turn in turns)) == ["monday", "thursday"]
    assert all(earlier["at"] < later["at"] for earlier, later in pairwise(turns))


def test_the_quickstart_prints_what_fits_a_screen(output):
    assert 30 < len(output) < 60
    assert max(map(len, output)) <= 120


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is there a food that makes me ill?", "allergic to peanuts"),
        ("What do I build for a living?", "structural engineer"),
        ("Which Belgian town am I living in?", "Ghent"),
        ("When do I travel abroad?", "Lisbon"),
        ("When is my sister's birthday?", "14th of May"),
        ("What is the name of my cat?", "Biscuit"),
        ("Where do I climb at the weekend?", "bouldering"),
    ],
)
def test_the_quickstart_answers_a_question_of_one_thread_from_a_memory_of_the_other(output, question, answer):
    told = section(output, 1)
    assert not any(line.endswith("?") for line in told)
    score, text = recalled(section(output, 2))[question][0]
    thread, _, memory = text.partition(": ")
    assert 0.2 <= score < 1
    assert thread == "monday"
    assert answer in memory
    assert any(line.endswith(memory) for line in told)


def test_the_quickstarts_short_lived_memory_answers_before_its_expiry_and_not_from_then_on(output):
    question = "How do we get into the conference room?"
    assert [text for _, text in recalled(section(output, 2))[question]] == [f"thursday: {CODE}"]
    before, at, later, nothing, swept = section(output, 3)
    assert before == f"   09:31:59.999  get: {CODE}"
    assert at == "   09:32:00.000  get: None"
    assert later == f"   09:41:00.000  {question}"
    assert nothing.split() == ["-", "no", "memory", "answers"]
    assert swept.strip().startswith("sweep_ttl() deletes 1 row;")


class Studio:
    """The files of the studio example in a folder of their own, loaded by what `langgraph.json` says."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(EXAMPLES / "studio", folder, ignore=shutil.ignore_patterns(".langgraph_api", "__pycache__"))
        self._folder = folder
        self._config = json.loads((folder / "langgraph.json").read_text())

    def load(self) -> tuple[Any, Any]:
        """The graph, compiled with the store as the server does it, and the store."""
        (graph,) = self._config["graphs"].values()
        store = self._attribute(self._config["store"]["path"])
        return self._attribute(graph).builder.compile(store=store), store

    def _attribute(self, path: str) -> Any:
        file, _, name = path.partition(":")
        spec = importlib.util.spec_from_file_location(f"studio_{Path(file).stem}", self._folder / file)
        assert spec is not None
        assert spec.loader is not None
        module: ModuleType = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)


@pytest.fixture(params=["embedded", "REDIS_URL"])
def studio(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "embedded":
        monkeypatch.delenv("REDIS_URL", raising=False)
        yield Studio(tmp_path / "studio")
        return
    server = request.getfixturevalue("any_server")
    # The example has the default key prefix, so it gets a database to itself.
    monkeypatch.setenv("REDIS_URL", f"{server.url}?db=9")
    yield Studio(tmp_path / "studio")
    with server.client(db=9) as client:
        assert client.dbsize() > 0
        client.flushdb()


async def ask(graph: Any, text: str) -> str:
    result = await graph.ainvoke({"messages": [("user", text)]}, {"configurable": {"user_id": ""}})
    return str(result["messages"][-1].content)


async def test_the_studio_agent_answers_from_what_it_was_told_also_after_a_restart(studio):
    graph, store = studio.load()
    async with store:
        assert await ask(graph, "I moved to Ghent, a city in Belgium.") == "I'll remember that."
        assert await ask(graph, "The door code is 4471 for the next 2 minutes.") == "I'll remember that for 2 minutes."
    graph, store = studio.load()
    async with store:
        town, code = (await ask(graph, "Which town do I live in?")).splitlines()
        assert town.endswith("I moved to Ghent, a city in Belgium.")
        assert code.endswith("4471 for the next 2 minutes.")
        (item,) = await store.asearch(("users", "demo", "memories"), query="What is the door code?", limit=1)
        assert item.memory.expires_at - item.created_at == timedelta(minutes=2)
