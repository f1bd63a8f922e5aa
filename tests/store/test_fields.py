"""The table of a memory's fields: whatever has to do with fields goes by it, so a new field is one line there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import langgraph_forgetful_store
from langgraph_forgetful_store import WriteOptions
from langgraph_forgetful_store.backend.codec import SCRIPT_FIELDS
from langgraph_forgetful_store.model.fields import FIELDS, HIDDEN, NUMBERS, WRITABLE
from langgraph_forgetful_store.model.options import RECALL_CHECKS, RecallOptions
from langgraph_forgetful_store.policy import Candidate

PACKAGE = Path(langgraph_forgetful_store.__file__).parent
# Two lines of one file: the field, and what type checkers know of it.
FIELD = """    mood: str | None = _written(
        "How it felt.", TEXT, 250, inherited=True, told="mood", tool=ToolArgument("How it felt, in a word.")
    )
"""
OPTION = "    mood: str | None\n"
USE = """
import json, sys
from langgraph_forgetful_store import ForgetfulStore, RecallMemories, memory_tools
from langgraph_forgetful_store.policy import MemoryPolicy
from langgraph_forgetful_store.prompt.context import assemble_context

store = ForgetfulStore.from_conn_string(sys.argv[1], key_prefix=sys.argv[2])
ns = ("memories", "ada")
config = {"configurable": {"user_id": "ada"}}
said = {}
said["remember"] = store.remember(ns, "one", key="one", mood="glad").memory.mood
store.put(ns, "two", {"content": "two", "$memory": {"mood": "sad"}})
said["put"] = store.get(ns, "two").memory.mood
said["filter"] = [item.key for item in store.search(ns, filter={"$memory": {"mood": "sad"}})]
said["inherited"] = store.supersede(ns, "one", "uno", new_key="uno").memory.mood
said["dict"] = store.get(ns, "uno").dict()["memory"]["mood"]
policy = MemoryPolicy(store=store)
(decision,) = policy.invoke({"memory_candidates": [{"content": "four", "key": "four", "mood": "calm"}]}, config)[
    "memory_decisions"
]
said["candidate"] = store.get(ns, decision["key"]).memory.mood
(screened,) = policy.invoke({"memory_candidates": [{"content": "x", "mood": "4111 1111 1111 1111"}]}, config)[
    "memory_decisions"
]
said["screened"] = screened["action"]
tool = memory_tools(only=["remember"], store=store)[0]
said["tool"] = tool.args["mood"]["description"]
tool.invoke({"content": "five", "mood": "proud"}, config)
said["tool wrote"] = [item.memory.mood for item in store.recall(ns, filter={"content": "five"})]
said["told"] = "mood calm" in assemble_context([store.get(ns, "four")], max_tokens=500)
said["described"] = '"mood": "proud"' in tool.invoke({"content": "five", "mood": "proud"}, config)
for bad in ({"mood": ""}, {"mood": 3}):
    try:
        store.remember(ns, "x", **bad)
    except ValueError as error:
        said["refused"] = str(error)
print(json.dumps(said))
"""


def test_a_field_that_is_added_to_the_table_is_known_everywhere(make_any_store, tmp_path):
    copy = tmp_path / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    table = copy / "model" / "fields.py"
    text = table.read_text()
    for line, before in ((FIELD, "\n\nclass WriteOptions("), (OPTION, "    index: Literal[False]")):
        assert text.count(before) == 1
        text = text.replace(before, "\n" + line.rstrip("\n") + before if before[0] == "\n" else line + before)
    table.write_text(text)
    run = subprocess.run(
        [sys.executable, "-c", USE, make_any_store.server.url, make_any_store.key_prefix],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {
        "remember": "glad",
        "put": "sad",
        "filter": ["two"],
        "inherited": "glad",
        "dict": "glad",
        "candidate": "calm",
        "screened": "refuse",
        "tool": "How it felt, in a word.",
        "tool wrote": ["proud"],
        "told": True,
        "described": True,
        "refused": "mood must be a non-empty str, got 3",
    }


def test_type_checkers_know_the_options_of_a_write_that_the_table_has():
    assert list(WriteOptions.__annotations__) == [*WRITABLE, "index", "ttl"]


def test_the_options_of_a_recall_all_have_a_check():
    assert set(RecallOptions.__annotations__) == set(RECALL_CHECKS)


def test_a_candidate_has_every_field_that_a_write_may_name():
    parsed = Candidate.parse({"content": "x", "tags": ["a"], "valid_from": "2026-05-01"})
    assert {name for name in WRITABLE if hasattr(parsed, name)} == set(WRITABLE)
    assert parsed.to_json() == {"content": "x", "tags": ["a"], "valid_from": "2026-05-01T00:00:00+00:00"}


def test_no_two_fields_are_stored_under_one_id_and_scripts_know_theirs_by_name():
    ids = [*NUMBERS.values(), *HIDDEN.values()]
    assert len(set(ids)) == len(ids)
    assert {name: {**NUMBERS, **HIDDEN}[name] for name in SCRIPT_FIELDS} == SCRIPT_FIELDS


def test_every_field_is_read_from_meta_or_from_its_record():
    assert all((spec.of_meta is None) == (spec.number is not None) for spec in FIELDS.values())
