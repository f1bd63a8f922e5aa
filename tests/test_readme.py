"""The README's code does what the README says it does."""

import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from langgraph_forgetful_store import ForgetfulStore
from tests.conftest import start_or_skip

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"^(?P<mark><!-- compiled only: [^\n]+ -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    line: int
    kind: str
    text: str
    output: str
    compiled_only: bool


BLOCKS = [
    Block(README.count("\n", 0, m.start("text")) + 1, m["kind"], m["text"], m["output"] or "", m["mark"] is not None)
    for m in BLOCK.finditer(README)
]
PYTHON = [block for block in BLOCKS if block.kind == "python"]


def source(block: Block, server: Any) -> str:
    return block.text.replace("6379", str(server.port))


def run(block: Block, names: dict[str, Any], server: Any) -> str:
    # The empty lines make a traceback say the README's own line.
    code = compile("\n" * (block.line - 1) + source(block, server), str(ROOT / "README.md"), "exec")
    printed = io.StringIO()
    if not block.compiled_only:
        with contextlib.redirect_stdout(printed):
            exec(code, names)
    return printed.getvalue()


@pytest.fixture(scope="module")
def own_server() -> Iterator[Any]:
    """A server for the README alone, whose examples have the default key prefix and several databases."""
    server = start_or_skip("valkey-9.1")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def printed(own_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, str]]:
    """What each block prints, by its line: all are run from the first to the last, as a reader would run them."""
    names: dict[str, Any] = {"__name__": "readme"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("readme"))
        patch.delenv("REDIS_URL", raising=False)
        yield {block.line: run(block, names, own_server) for block in PYTHON}
    for value in names.values():
        if isinstance(value, ForgetfulStore):
            value.close()


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: f"line-{block.line}")
def test_a_block_prints_what_is_shown_below_it(block, printed):
    assert printed[block.line] == block.output


def test_the_test_class_shown_runs_the_contract_over_the_readers_store(own_server, tmp_path):
    (block,) = [block for block in PYTHON if "StoreContract" in block.text]
    (tmp_path / "test_my_store.py").write_text(source(block, own_server))
    # All of it runs in tests of its own; a section tells whether the class is found and its fixture does.
    command = [sys.executable, "-m", "pytest", "-q", "-k", "batch", "-p", "no:cacheprovider", "test_my_store.py"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    assert int(re.findall(r"(\d+) passed", result.stdout)[0]) > 10


def test_every_fenced_block_was_found_and_every_output_has_its_code():
    fences = re.findall(r"^```(\w+)$", README, re.MULTILINE)
    outputs = [block for block in PYTHON if block.output]
    assert {kind: fences.count(kind) for kind in fences} == {
        "sh": 3,
        "json": 1,
        "python": len(PYTHON),
        # One is of a command, and tested with the example that it runs.
        "text": len(outputs) + 1,
    }
    assert len(PYTHON) > 5
    assert [block.text for block in PYTHON if block.compiled_only and "Sentinel" not in block.text] == []


def test_the_langgraph_json_shown_is_the_one_of_the_studio_example():
    (shown,) = [json.loads(block.text) for block in BLOCKS if block.kind == "json"]
    assert shown == json.loads((ROOT / "examples" / "studio" / "langgraph.json").read_text())


IN_A_VENV = "python3 -m venv .venv && . .venv/bin/activate &&"


@pytest.mark.parametrize(
    "command",
    [
        "pip install 'langgraph-forgetful-store[embedded]'",
        f"{IN_A_VENV} pip install -e '.[examples]' && python examples/agent.py",
        f"{IN_A_VENV} pip install -e '.[dev]' && pytest",
    ],
)
def test_a_command_stands_in_the_readme_as_one_line(command):
    assert [block.text for block in BLOCKS if block.kind == "sh"].count(f"{command}\n") == 1


def test_the_links_to_files_lead_somewhere():
    for path in re.findall(r"`(examples/[\w./]+)`", README):
        assert (ROOT / path).exists(), path
