"""The benchmarks run from their modules; how fast anything is, they do not prove here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import start_or_skip

ROWS = (
    "limit, batch of 100",
    "ForgetfulStore, batch of 100",
    "InMemoryStore, batch of 100",
    "bare HGET",
    "PING",
    "get, ForgetfulStore, TTL refreshed",
    "get, ForgetfulStore, no TTL",
    "aget, ForgetfulStore, TTL refreshed",
    "30 agets of one tick, ForgetfulStore",
    "30 aputs of one tick, InMemoryStore",
    "ForgetfulStore, offset 370",
    "ForgetfulStore, offset 370, 20 expired rows among them",
    "ForgetfulStore, max_depth=2",
    "ForgetfulStore, where all hold expired rows alone",
    "ForgetfulStore, with vector",
)


@pytest.fixture
def needs_valkey() -> None:
    start_or_skip("valkey-9.1").stop()


def test_the_key_value_benchmark_prints_a_row_for_each_contender(needs_valkey):
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.bench.keyvalue", "--quick"],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    names = {line[2:].split("  ")[0] for line in run.stdout.splitlines() if line.startswith("  ")}
    assert set(ROWS) <= names
    assert "valkey-9.1" in run.stdout.splitlines()[0]
    assert "targets missed: " in run.stdout


def test_an_unknown_section_is_refused():
    run = subprocess.run(
        [sys.executable, "-m", "tests.bench.keyvalue", "--only", "az"],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 2
    assert "no section z" in run.stderr
