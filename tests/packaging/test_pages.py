"""What README and docs show does what they say, and what they name exists."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langgraph_forgetful_store import errors
from tests.conftest import start_or_skip
from tests.packaging.test_examples import EXAMPLES, run_example
from tests.support.pages import ROOT, Block, Page, all_pages, shown_in_python

PAGES = all_pages()
README = PAGES[0]
# Where the package is imported from: the checkout, or what is installed.
INSTALLED = Path(errors.__file__).parent.parent
IN_A_VENV = "python3 -m venv .venv && . .venv/bin/activate &&"


def named(page: Page) -> str:
    return page.name


@pytest.fixture(scope="module")
def own_server() -> Iterator[Any]:
    """A server for the pages alone, whose examples have the default key prefix and several databases."""
    server = start_or_skip("valkey-9.1")
    yield server
    server.stop()


@pytest.fixture
def empty_server(own_server: Any) -> Any:
    with own_server.client() as client:
        client.flushall()
    return own_server


@pytest.mark.parametrize("page", shown_in_python(), ids=named)
def test_the_blocks_of_a_page_run_in_order_and_print_what_is_shown_below_them(
    page: Page, empty_server: Any, tmp_path: Path
) -> None:
    blocks = [block for block in page.python if block.runs]
    printed = page.run(blocks, tmp_path, port=empty_server.port)
    assert {block.line: text for block, text in zip(blocks, printed, strict=True)} == {
        block.line: page.output_of(block) for block in blocks
    }


@pytest.mark.parametrize("page", shown_in_python(), ids=named)
def test_blocks_that_do_not_run_are_python_all_the_same(page: Page) -> None:
    for block in page.python:
        if not block.runs:
            ast.parse(block.text, filename=f"{page.name}:{block.line}")


def test_a_page_that_fails_says_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Title\n\n```python\nknown = 1\n```\n\n```python\nprint(known)\nprint(unknown)\n```\n")
    page = Page(path)
    with pytest.raises(AssertionError, match=r'page\.md", line 9, in <module>\n(?:.*\n)+NameError: .*unknown'):
        page.run(page.python, tmp_path)


def test_the_test_class_shown_runs_the_contract_over_the_readers_store(empty_server: Any, tmp_path: Path) -> None:
    (block,) = [block for page in PAGES for block in page.python if block.is_test]
    (page,) = [page for page in PAGES if block in page.blocks]
    assert page.run_test(block, tmp_path, port=empty_server.port) > 10


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_fenced_block_is_found_and_every_output_has_its_code(page: Page) -> None:
    assert len(re.findall(r"^ *```", page.text, re.MULTILINE)) == 2 * len(page.blocks)
    for before, block in zip([None, *page.blocks], page.blocks, strict=False):
        if block.kind == "text" and block.mark is None:
            assert block.adjacent, f"{page.name}:{block.line} is the output of nothing"
            assert before is not None
            assert before.kind in ("python", "sh"), f"{page.name}:{block.line}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_blocks_of_other_languages_can_be_read(page: Page) -> None:
    for block in page.blocks:
        if block.kind == "json":
            json.loads(block.text)
        elif block.kind == "toml":
            tomllib.loads(block.text)
        elif block.kind == "sh":
            assert subprocess.run(["bash", "-n", "-c", block.text]).returncode == 0, block.text
        else:
            assert block.kind in ("python", "text"), f"{page.name}:{block.line}"


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


def commands(*pages: Page) -> list[Block]:
    return [block for page in pages for block in page.blocks if block.kind == "sh"]


def test_the_readmes_first_command_of_a_clone_runs_the_agent_and_shows_what_it_prints(tmp_path: Path) -> None:
    _, first, _ = commands(README)
    assert first.text == f"{IN_A_VENV} pip install -e '.[examples]' && python examples/agent.py\n"
    program, script = shlex.split(first.text.rpartition("&&")[2])
    assert program == "python"
    assert (ROOT / script).parent == EXAMPLES
    assert is_excerpt(README.output_of(first), run_example(Path(script).name, tmp_path))
    for decision in ("supersede", "refuse", "forget"):
        assert f"  - {decision} " in README.output_of(first)


def test_the_readmes_other_command_of_a_clone_installs_and_runs_the_tests() -> None:
    assert commands(README)[2].text == f"{IN_A_VENV} pip install -e '.[dev]' && pytest\n"


def test_each_extra_that_is_installed_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    lists = [
        names
        for page in [*PAGES, Page(ROOT / "CONTRIBUTING.md")]
        for names in re.findall(r"pip install (?:-e )?'(?:\.|langgraph-forgetful-store)\[([\w,]+)\]'", page.text)
    ]
    named_extras = {name for names in lists for name in names.split(",")}
    assert {"examples", "embedded", "dev", "docs"} <= named_extras
    assert named_extras <= set(extras)


def test_the_langgraph_json_shown_is_the_one_of_the_studio_example() -> None:
    (shown,) = [json.loads(block.text) for page in PAGES for block in page.blocks if block.kind == "json"]
    assert shown == json.loads((ROOT / "examples" / "studio" / "langgraph.json").read_text())


def test_the_readme_is_one_that_a_newcomer_reads_to_its_end() -> None:
    assert README.text.count("\n") <= 200
    assert max(map(len, README.text.replace("](", "](\n").splitlines())) <= 125


def test_the_readmes_figures_are_those_of_the_table_they_are_taken_from() -> None:
    measured = Page(ROOT / "docs" / "search-and-scoring.md").text
    head, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in measured[measured.index("| median of one search |") :].split("\n\n")[0].splitlines()
        if not line.startswith("|---")
    ]
    times = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}
    columns = ["near-cache", "`InMemoryStore`", "`SqliteStore`", "`langgraph-checkpoint-redis`, Redis with modules"]
    for rows_in_scope in ("1,000", "10,000", "100,000"):
        (shown,) = re.findall(rf"^\| {rows_in_scope} memories \| (.*) \|$", README.text, re.MULTILINE)
        assert shown.split(" | ") == [times[one][f"{rows_in_scope} rows"] for one in columns]


LINKED = [*PAGES, Page(ROOT / "CONTRIBUTING.md"), Page(ROOT / "SECURITY.md")]


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_links_to_files_and_headings_lead_somewhere(page: Page) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", page.text):
        path, _, anchor = target.partition("#")
        file = page.path if not path else (page.path.parent / path).resolve()
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            assert anchor in map(slug, headings), f"{page.name}: {target}"
    for path in re.findall(r"`((?:examples|tests|docs|langgraph_forgetful_store)/[\w./-]+)`", page.text):
        root = INSTALLED if path.startswith("langgraph_forgetful_store/") else ROOT
        assert (root / path).exists(), f"{page.name}: {path}"


def test_the_pictures_are_those_that_their_code_draws() -> None:
    folder = ROOT / "docs" / "pictures"
    spec = importlib.util.spec_from_file_location("draw", folder / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        drawn = module.draw()
    finally:
        del sys.modules[spec.name]
    assert drawn == {path.name: path.read_text("utf-8") for path in folder.glob("*.svg")}


@pytest.mark.parametrize("module", ["", ".policy", ".scoring", ".testing"])
def test_each_public_name_has_its_place_in_the_reference(module: str) -> None:
    named_there: set[str] = set()
    for path in (ROOT / "docs" / "reference").glob("*.md"):
        text = path.read_text("utf-8")
        named_there |= {name.rpartition(".")[2] for name in re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)}
        for members in re.findall(r"^ +members: \[(.*)\]$", text, re.MULTILINE):
            named_there |= set(re.split(r",\s*", members))
    # All of the module is listed.
    assert "errors" in named_there
    named_there |= set(vars(errors))
    public = set(importlib.import_module(f"langgraph_forgetful_store{module}").__all__)
    assert public - named_there - {"__version__"} == set()


def test_the_contract_page_has_each_behaviour_that_tests_cite_and_tests_cite_each() -> None:
    page = Page(ROOT / "docs" / "contract.md")
    numbers = [int(number) for number in re.findall(r"^- \*\*(\d+)\*\* ", page.text, re.MULTILINE)]
    assert numbers == list(range(1, 48))
    cited: set[int] = set()
    for folder in (ROOT / "tests", INSTALLED / "langgraph_forgetful_store" / "testing"):
        for path in folder.rglob("*.py"):
            for said in re.findall(r"Contract (\d+(?:(?:, | and |, and )\d+)*)\b(?!-)", path.read_text("utf-8")):
                cited |= {int(number) for number in re.findall(r"\d+", said)}
    assert cited == set(numbers)
