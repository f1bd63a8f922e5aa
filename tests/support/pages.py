"""The project's pages, README and docs, as programs: found, run as a reader runs them, and type-checked.

`python -m tests.support.pages --check mypy` (or `pyright`) checks the types of what all pages and examples show;
`python -m tests.support.pages --first --python VENV/bin/python` runs the first block of each page alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support.real_servers import RunningServer

ROOT = Path(__file__).parent.parent.parent
PACKAGE = "langgraph_forgetful_store"

FENCE = re.compile(
    r"^(?:<!-- (?P<mark>compiled only|shown only): [^\n]+ -->\n)?"
    r"```(?P<kind>\w+)(?: title=\"(?P<title>[^\"\n]+)\")?\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)

# What a page prints is taken block by block, in one namespace: a page is one program with pauses in it.
RUN = """
import __main__, contextlib, io, json, sys
_page, _blocks = json.load(sys.stdin)
_printed = []
for _line, _text in _blocks:
    # The empty lines make a traceback say the page's own line.
    _code = compile("\\n" * (_line - 1) + _text, _page, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as _out:
        exec(_code, __main__.__dict__)
    _printed.append(_out.getvalue())
json.dump(_printed, sys.stdout)
"""


# wordllama brings no types, and redis-py does not type all that it has.
MYPY = """
[mypy]
strict = true
untyped_calls_exclude = redis
[mypy-wordllama.*]
ignore_missing_imports = true
"""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    line: int
    kind: str
    text: str
    title: str | None
    mark: str | None
    # The blocks are adjacent where only an empty line stands between them.
    adjacent: bool

    @property
    def is_test(self) -> bool:
        """Whether the reader saves it as a file that pytest runs."""
        return self.title is not None and self.title.startswith("test_")

    @property
    def runs(self) -> bool:
        return self.kind == "python" and self.mark is None and not self.is_test


@dataclass(frozen=True)
class Page:
    """A page in Markdown."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix() if self.path.is_relative_to(ROOT) else self.path.name

    @cached_property
    def blocks(self) -> list[Block]:
        found: list[Block] = []
        end = 0
        for match in FENCE.finditer(self.text):
            line = self.text.count("\n", 0, match.start("text")) + 1
            adjacent = bool(found) and not self.text[end : match.start()].strip()
            found.append(Block(line, match["kind"], match["text"], match["title"], match["mark"], adjacent))
            end = match.end()
        return found

    @property
    def python(self) -> list[Block]:
        return [block for block in self.blocks if block.kind == "python"]

    def output_of(self, block: Block) -> str:
        """What the page says that a block prints: the text right below it."""
        following = self.blocks[self.blocks.index(block) + 1 :]
        return following[0].text if following and following[0].kind == "text" and following[0].adjacent else ""

    @property
    def program(self) -> str:
        """All Python of the page as one program, each line where it stands in the page."""
        lines = [""] * self.text.count("\n")
        for block in self.python:
            shown = block.text.splitlines()
            lines[block.line - 1 : block.line - 1 + len(shown)] = shown
        return "\n".join(lines).rstrip() + "\n"

    def run(
        self, blocks: Iterable[Block], folder: Path, *, port: int = 6379, python: str = sys.executable
    ) -> list[str]:
        """Run blocks in order, in a process and a folder of their own, and return what each prints."""
        sources = [(block.line, block.text.replace("6379", str(port))) for block in blocks]
        result = subprocess.run(
            [python, "-c", RUN],
            input=json.dumps((str(self.path), sources)),
            capture_output=True,
            text=True,
            cwd=folder,
            env=_environment(),
        )
        if result.returncode or result.stderr:
            raise AssertionError(f"{self.name}: exit {result.returncode}\n{result.stderr}")
        printed: list[str] = json.loads(result.stdout)
        return printed

    def run_test(self, block: Block, folder: Path, *, port: int, python: str = sys.executable) -> int:
        """Save a block that holds tests under its title, run a section of them, and return how many have passed."""
        assert block.title is not None
        (folder / block.title).write_text(block.text.replace("6379", str(port)), encoding="utf-8")
        # All of the contract runs in tests of its own; a section tells whether the class is found and its fixture does.
        command = [python, "-m", "pytest", "-q", "-k", "batch", "-p", "no:cacheprovider", block.title]
        result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=_environment())
        passed = re.search(r"(\d+) passed", result.stdout)
        if result.returncode or passed is None:
            raise AssertionError(f"{self.name}: exit {result.returncode}\n{result.stdout}{result.stderr}")
        return int(passed[1])


def _environment() -> dict[str, str]:
    """Return the environment of a reader, who has set no server's address."""
    return {name: value for name, value in os.environ.items() if name != "REDIS_URL"} | {"PYTHONIOENCODING": "utf-8"}


def all_pages() -> list[Page]:
    return [Page(ROOT / "README.md"), *(Page(path) for path in sorted((ROOT / "docs").rglob("*.md")))]


def shown_in_python() -> list[Page]:
    return [page for page in all_pages() if page.python]


def extract(folder: Path) -> dict[str, str]:
    """Write the program of each page into a folder; return the pages' names by the files'."""
    names = {}
    for page in shown_in_python():
        file = re.sub(r"\W", "_", page.name.removesuffix(".md")).lower() + "_page.py"
        (folder / file).write_text(page.program, encoding="utf-8")
        names[file] = page.name
    return names


def scripts() -> list[str]:
    """The examples, and what draws the pictures."""
    return [*map(str, sorted((ROOT / "examples").rglob("*.py"))), str(ROOT / "docs" / "pictures" / "draw.py")]


def command(checker: str, folder: Path, files: Sequence[str]) -> list[str]:
    """The command that checks files, the extracted ones among them."""
    if checker == "mypy":
        config = folder / "mypy.ini"
        config.write_text(MYPY)
        cache = str(folder / "cache")
        return [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", cache, *files]
    settings: dict[str, Any] = {"typeCheckingMode": "standard", "reportMissingModuleSource": "none"}
    if (ROOT / PACKAGE).is_dir():
        settings["extraPaths"] = [str(ROOT)]
    config = folder / "pyrightconfig.json"
    # It ignores what is absolute.
    included = [os.path.relpath(file, folder.resolve()) for file in files]
    config.write_text(json.dumps(settings | {"include": included}))
    return [sys.executable, "-m", "pyright", "--project", str(config), "--pythonpath", sys.executable]


def check_types(checker: str) -> int:
    """Check the types of all pages and examples; prints what is found, with the pages' own names and lines."""
    with tempfile.TemporaryDirectory(prefix="pages-") as name:
        folder = Path(name)
        pages = extract(folder)
        environment = dict(os.environ)
        if (ROOT / PACKAGE).is_dir():
            environment["MYPYPATH"] = str(ROOT)
        files = [*(str(folder / file) for file in pages), *scripts()]
        result = subprocess.run(
            command(checker, folder, files), capture_output=True, text=True, env=environment, cwd=folder
        )
        told = result.stdout + result.stderr
        for file, page in pages.items():
            told = told.replace(str(folder / file), page).replace(file, page)
        print(told.strip())
        return result.returncode


def run_first_blocks(python: str) -> int:
    """Run each page's first block alone, in an empty folder, by the Python that is named."""
    failed = 0
    server = RunningServer("valkey-9.1")
    try:
        for page in shown_in_python():
            first = page.python[0]
            with tempfile.TemporaryDirectory(prefix="page-") as folder:
                try:
                    if first.is_test:
                        page.run_test(first, Path(folder), port=server.port, python=python)
                    else:
                        (printed,) = page.run([first], Path(folder), port=server.port, python=python)
                        assert printed == page.output_of(first), f"{page.name}: prints\n{printed}"
                    print(f"{page.name}: line {first.line} runs alone")
                except AssertionError as error:
                    failed += 1
                    print(error)
    finally:
        server.stop()
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.pages", description=__doc__)
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--check", choices=["mypy", "pyright"], help="check the types of all pages and examples")
    task.add_argument("--first", action="store_true", help="run each page's first block alone in an empty folder")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs them; default: this one")
    options = parser.parse_args(arguments)
    return check_types(options.check) if options.check else run_first_blocks(options.python)


if __name__ == "__main__":
    sys.exit(main())
