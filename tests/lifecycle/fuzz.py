"""Many random steps against the model: ``python -m tests.lifecycle.fuzz --steps 100000 --server valkey-9.1``.

Each life of some steps begins with an empty store. The first difference is shrunk and printed, or written as a script.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.conftest import SERVERS, Embedded
from tests.support.real_servers import RunningServer
from tests.support.timeline_steps import Step, random_steps, shrink
from tests.support.timeline_world import World, code_of


def failure(server: Any, steps: list[Step], done: Counter[str], *, asynchronous: bool = False) -> str | None:
    """Return what goes wrong in a life of these steps, and at which."""
    world = World(server, asynchronous=asynchronous, done=done)
    try:
        for number, step in enumerate(steps):
            try:
                world.take(step)
            except Exception as error:
                return f"{type(error).__name__} after step {number}: {error}"
    finally:
        world.end()
    return None


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000, help="how many steps")
    parser.add_argument("--life", type=int, default=40, help="how many steps begin with one empty store")
    parser.add_argument("--seed", type=int, default=0, help="of the first life; each that follows has the next")
    parser.add_argument("--server", choices=SERVERS, default="valkey-9.1")
    parser.add_argument("--async", dest="asynchronous", action="store_true", help="call the async side")
    parser.add_argument("--finds", type=int, default=1, help="how many kinds of differences to look for before it ends")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long at the most")
    parser.add_argument("--without", nargs="*", default=(), help="steps and fields of steps that are left out")
    parser.add_argument("--write", type=Path, help="a folder for a script of each difference")
    asked = parser.parse_args(arguments)
    server = Embedded() if asked.server == "embedded" else RunningServer(asked.server)
    done: Counter[str] = Counter()
    kinds: set[str] = set()
    began, made, finds, seed = time.monotonic(), 0, 0, asked.seed
    try:
        while made < asked.steps and finds < asked.finds and time.monotonic() - began < 60 * asked.minutes:
            steps = random_steps(seed, asked.life, asked.without)
            why = failure(server, steps, done, asynchronous=asked.asynchronous)
            made += len(steps)
            if why is not None and _kind(why) not in kinds:
                finds += 1
                kinds.add(_kind(why))
                _tell(server, seed, steps, why, asked)
            seed += 1
    finally:
        server.stop()
    took = time.monotonic() - began
    print(
        f"{made} steps on {asked.server}, {finds} differences, {made / took:.0f} steps/s, seeds {asked.seed}-{seed - 1}"
    )
    for name, many in sorted(done.items()):
        print(f"  {many:8} {name}")
    return min(finds, 1)


def _tell(server: Any, seed: int, steps: list[Step], why: str, asked: Any) -> None:
    print(f"seed {seed}: {why}", flush=True)
    kind = _kind(why)
    small = shrink(
        steps,
        lambda some: _kind(failure(server, some, Counter(), asynchronous=asked.asynchronous) or "") == kind,
    )
    told = code_of(small, failure(server, small, Counter(), asynchronous=asked.asynchronous) or "")
    print(told, flush=True)
    if asked.write is not None:
        asked.write.mkdir(parents=True, exist_ok=True)
        (asked.write / f"seed_{seed}.py").write_text(told)


def _kind(why: str) -> str:
    """Return what of a difference stays when it is shrunk: what was compared, and which fields differ."""
    name, _, rest = why.partition(" after step ")
    what, _, told = rest.partition(": ")[2].partition(": ")
    fields = re.findall(r"'(\w+)': \(", told) if " has {" in told else []
    return " ".join([name, re.sub(r"\(.*|'.*", "", what), *fields])


if __name__ == "__main__":
    sys.exit(main())
