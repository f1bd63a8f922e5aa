"""What the benchmarks share: contenders take turns, medians and spreads are kept, and one aligned table is printed.

A machine that is shared or throttled is slow for a while, not for one contender: so the contenders alternate within
every round, and a ratio is the median over the rounds of what two of them took in the same round.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

MICROSECOND = 1e-6


@dataclass(slots=True)
class Contender:
    """One of several ways to do the same.

    Attributes:
        name: What its row is called.
        run: What is timed; called with what `prepare` returned, if there is one.
        ops: How many operations a run makes; times are given for one.
        prepare: Makes the input of one run, off the clock.
        elsewhere: Whether `run` has another process do it, and returns the wall and CPU time that one took there.
    """

    name: str
    run: Callable[..., Any]
    ops: int = 1
    prepare: Callable[[], Any] | None = None
    elsewhere: bool = False


@dataclass(slots=True)
class Timing:
    """Seconds for one operation, a number a round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.wall)

    @property
    def median_cpu(self) -> float:
        return statistics.median(self.cpu)

    def times(self, other: Timing) -> float:
        """Return how many times as long as `other` it took."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.wall, other.wall, strict=True))

    def over(self, other: Timing) -> float:
        """Return how many seconds longer than `other` it took."""
        return statistics.median(mine - theirs for mine, theirs in zip(self.wall, other.wall, strict=True))


def race(contenders: Sequence[Contender], rounds: int) -> dict[str, Timing]:
    """Time contenders in alternating rounds, after one round that does not count."""
    timings = {contender.name: Timing() for contender in contenders}
    for number in range(rounds + 1):
        # Who comes after whom differs, since what one leaves in the CPU's caches is the next one's.
        first = number % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            given = () if contender.prepare is None else (contender.prepare(),)
            # What the fixtures hold is no garbage, and no contender should pay for walking over it.
            gc.collect()
            gc.freeze()
            cpu, wall = time.process_time(), time.perf_counter()
            result = contender.run(*given)
            wall = (time.perf_counter() - wall) / contender.ops
            cpu = (time.process_time() - cpu) / contender.ops
            if contender.elsewhere:
                wall, cpu = result
            if number:
                timings[contender.name].wall.append(wall)
                timings[contender.name].cpu.append(cpu)
    gc.unfreeze()
    return timings


def repeat(call: Callable[[Any], Any], inputs: Iterable[Any]) -> Callable[[], None]:
    """Return a run that makes one call an input."""
    inputs = list(inputs)

    def run() -> None:
        for each in inputs:
            call(each)

    return run


def repeat_async(
    runner: asyncio.Runner, call: Callable[[Any], Coroutine[Any, Any, Any]], inputs: Iterable[Any], *, together: bool
) -> Callable[[], None]:
    """Return a run that makes one call an input on an event loop: all in one tick, or one after another."""
    inputs = list(inputs)

    async def run() -> None:
        if together:
            await asyncio.gather(*map(call, inputs))
        else:
            for each in inputs:
                await call(each)

    return lambda: runner.run(run())


def placements(server_pid: int) -> Iterator[str]:
    """Put this process and a server on one CPU and then on two, where the platform can; name what holds meanwhile.

    A round trip between two CPUs takes longer than one on the same, and a scheduler left alone chooses now this, now
    that: every ratio to a round trip would be a matter of luck.
    """
    if not hasattr(os, "sched_setaffinity") or len(cpus := sorted(os.sched_getaffinity(0))) < 2:
        yield "as the scheduler likes"
        return
    with contextlib.ExitStack() as restore:
        for pid in (0, server_pid):
            restore.callback(os.sched_setaffinity, pid, os.sched_getaffinity(pid))
        os.sched_setaffinity(0, cpus[:1])
        for name, cpu in (("server and client on two CPUs", cpus[-1]), ("server and client on one CPU", cpus[0])):
            os.sched_setaffinity(server_pid, [cpu])
            yield name


@dataclass(slots=True)
class Goal:
    """A target, and whether it was met."""

    text: str
    met: bool

    def __str__(self) -> str:
        return f"{self.text}: {'met' if self.met else 'MISSED'}"


def at_least(value: float, least: float, unit: str) -> Goal:
    """Compare what should be high."""
    return Goal(f">= {least:,g} {unit}", value >= least)


def at_most(value: float, most: float, unit: str) -> Goal:
    """Compare what should be low."""
    return Goal(f"<= {most:,g} {unit}", value <= most)


class Table:
    """An aligned table: the first column and the last are text, the others are numbers."""

    def __init__(self, *header: str) -> None:
        self._rows: list[tuple[str, ...]] = [header]
        self.missed: list[str] = []
        self._section = ""

    def section(self, title: str) -> None:
        """Begin a group of rows."""
        self._section = title
        self._rows += [(), (title,)]

    def row(self, name: str, *cells: str, goal: Goal | None = None) -> None:
        """Add a row; cells that are left out are empty."""
        filled = cells + ("",) * (len(self._rows[0]) - 2 - len(cells))
        self._rows.append(("  " + name, *filled, "" if goal is None else str(goal)))
        if goal is not None and not goal.met:
            self.missed.append(f"{self._section} - {name}: {goal.text}")

    def timing(
        self, name: str, timing: Timing, *, against: Timing | None = None, note: str = "", goal: Goal | None = None
    ) -> None:
        """Add what a race took: median, spread, CPU time of this process, operations a second, ratio, and a note."""
        self.row(
            name,
            duration(timing.median),
            f"{duration(min(timing.wall))} - {duration(max(timing.wall))}",
            duration(timing.median_cpu),
            f"{1 / timing.median:,.0f}",
            "" if against is None else f"{timing.times(against):,.2f}x",
            note,
            goal=goal,
        )

    def __str__(self) -> str:
        full = [row for row in self._rows if len(row) > 1]
        widths = [max(len(row[column]) for row in full) for column in range(len(full[0]))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if column in (0, len(widths) - 1) else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=False))
            ).rstrip()
            for row in self._rows
        )


def duration(seconds: float) -> str:
    """Write a time in the unit that suits it."""
    micros = seconds / MICROSECOND
    if abs(micros) < 1000:
        return f"{micros:.2f} us" if abs(micros) < 100 else f"{micros:.0f} us"
    return f"{micros / 1e3:.2f} ms" if abs(micros) < 1e6 else f"{seconds:.2f} s"


def surroundings(facts: Iterable[str]) -> str:
    """Name what the figures depend on, in one line."""
    return ", ".join((*facts, f"Python {platform.python_version()}", f"{os.cpu_count()} CPUs", platform.machine()))
