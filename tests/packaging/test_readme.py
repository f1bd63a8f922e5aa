"""The README's code does what the README says it does."""

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from langgraph_forgetful_store import ForgetfulStore
from tests.conftest import start_or_skip
from tests.packaging.test_examples import EXAMPLES, run_example

ROOT = Path(__file__).parents[2]
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
        "sh": 2,
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


COMMANDS = [block for block in BLOCKS if block.kind == "sh"]
IN_A_VENV = "python3 -m venv .venv && . .venv/bin/activate &&"
# Lines of the README that a reader sees without scrolling.
SCREEN = 45


def is_excerpt(shown: str, printed: str) -> bool:
    """Whether lines are all that was printed, but for what stands under a line of three dots."""
    lines = [r"(?:.*\n)+?" if line == "..." else re.escape(f"{line}\n") for line in shown.splitlines()]
    return re.fullmatch("".join(lines), printed) is not None


@pytest.mark.parametrize(
    ("shown", "matches"),
    [
        ("a\nb\nc\n", True),
        ("a\n...\n", True),
        ("...\nc\n", True),
        ("a\n...\nc\n", True),
        ("a\nb\n", False),
        ("b\nc\n", False),
        ("a\nc\n", False),
        ("a\nb\nc\n...\n", False),
        ("c\n...\na\n", False),
        ("a\n...\nd\n", False),
    ],
)
def test_an_excerpt_says_what_it_leaves_out(shown: str, matches: bool) -> None:
    assert is_excerpt(shown, "a\nb\nc\n") is matches


def test_the_first_command_runs_the_agent_and_the_first_screen_shows_what_it_prints(tmp_path: Path) -> None:
    first = BLOCKS[0]
    assert first.text == f"{IN_A_VENV} pip install -e '.[examples]' && python examples/agent.py\n"
    program, script = shlex.split(first.text.rpartition("&&")[2])
    assert program == "python"
    assert (ROOT / script).parent == EXAMPLES
    assert is_excerpt(first.output, run_example(Path(script).name, tmp_path))
    for decision in ("supersede", "refuse", "forget"):
        assert f"  - {decision} " in first.output
    assert first.line + len(first.text.splitlines() + first.output.splitlines()) + 3 <= SCREEN


def test_the_second_command_installs_and_runs_the_tests() -> None:
    assert [block.text for block in COMMANDS[1:]] == [f"{IN_A_VENV} pip install -e '.[dev]' && pytest\n"]


def test_each_extra_that_is_installed_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"pip install (?:-e )?'(?:\.|langgraph-forgetful-store)\[(\w+)\]'", README)
    assert set(named) == {"examples", "embedded", "dev"}
    assert set(named) <= set(extras)


def test_the_links_to_files_lead_somewhere():
    for path in re.findall(r"`(examples/[\w./]+)`", README):
        assert (ROOT / path).exists(), path
