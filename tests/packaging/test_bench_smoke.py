"""The benchmarks run from their modules; how fast anything is, they do not prove here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import start_or_skip
from tests.support.open_connections import require

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
SEARCH_ROWS = (
    "PING",
    "limit: PING + one vecdot",
    "near-cache",
    "near-cache, TTL refreshed",
    "near-cache, accesses not counted",
    "near-cache, equality filter, repeated",
    "near-cache, range filter, new",
    "near-cache, cold: the first query",
    "scan",
    "scan, TTL refreshed",
    "InMemoryStore",
    "SqliteStore",
    "under 100 writes/s: near-cache",
    "server, ForgetfulStore, TTL and vector",
    "client, near-cache",
)


LIFECYCLE_ROWS = (
    "PING",
    "remember, an occupied slot",
    "supersede, by the first key",
    "history",
    "as of yesterday",
    "as known now",
    "forget_all, with its proof",
    "the server's longest command in it",
)


@pytest.fixture
def needs_valkey() -> None:
    start_or_skip("valkey-9.1").stop()


def bench(name: str, *options: str, errors: bool = True, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a benchmark as its users do; `errors`: warnings are errors."""
    strict = ["-W", "error"] if errors else []
    command = [sys.executable, *strict, "-m", f"tests.bench.{name}", *options]
    return subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=timeout)


def test_the_key_value_benchmark_prints_a_row_for_each_contender(needs_valkey):
    run = bench("keyvalue", "--quick")
    assert (run.returncode, run.stderr) == (0, "")
    names = {line[2:].split("  ")[0] for line in run.stdout.splitlines() if line.startswith("  ")}
    assert set(ROWS) <= names
    assert "valkey-9.1" in run.stdout.splitlines()[0]
    assert "targets missed: " in run.stdout


def test_the_lifecycle_benchmark_prints_a_row_for_each_contender(needs_valkey):
    run = bench("lifecycle", "--quick")
    assert (run.returncode, run.stderr) == (0, "")
    assert set(LIFECYCLE_ROWS) <= {line[2:].split("  ")[0] for line in run.stdout.splitlines()}


def test_an_unknown_section_is_refused():
    run = bench("keyvalue", "--only", "az", errors=False, timeout=60)
    assert run.returncode == 2
    assert "no section z" in run.stderr


def test_the_search_benchmark_prints_a_row_for_each_contender_and_finds_what_is_right(needs_valkey):
    require("langgraph.store.sqlite")
    run = bench("search", "--quick")
    assert (run.returncode, run.stderr) == (0, "")
    lines = [line for line in run.stdout.splitlines() if line.startswith("  ")]
    assert set(SEARCH_ROWS) <= {line[2:].split("  ")[0] for line in lines}
    recalls = [line for line in lines if line.startswith(("  near-cache", "  scan")) and "cold" not in line]
    assert recalls
    assert all(re.search(r"\s1\.00(,|\s|$)", line) for line in recalls)
    assert "one user's scope: 200 of 200 rows" in run.stdout
    assert "one large namespace: 200 of 200 rows" in run.stdout


@pytest.mark.parametrize("given", [["--only", "users,none"], ["--sizes", "1k"]])
def test_unusable_options_of_the_search_benchmark_are_refused(given):
    require("langgraph.store.sqlite")
    run = bench("search", *given, errors=False, timeout=60)
    assert run.returncode == 2
    assert given[0] in run.stderr
