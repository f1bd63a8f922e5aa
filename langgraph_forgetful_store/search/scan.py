"""The scan engine: reads a scope in windows, in constant memory, and keeps its best rows.

It reads oldest write first, so that a row which is put meanwhile moves ahead of it and is not missed. One window is a
snapshot. Several are not: what changed since the first is asked for at the end, and that answer is the moment for which
the result holds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.memory_types import decode_types
from langgraph_forgetful_store.search.candidates import Candidate, lost
from langgraph_forgetful_store.search.ranking import Question, candidates_of, rank
from langgraph_forgetful_store.search.scope import Fetched, snapshot_of

WINDOW = 1000
# Rows kept beyond the page, so that it still fills when some of it has changed meanwhile.
SLACK = 64
CHANGES = 2000
VALUE_BYTES = 65_536
ALL_VALUES = 2**32


def fetched(groups: Iterable[list[Any]], skip: int) -> Iterator[Fetched]:
    """Read rows as scan and sync return them, behind `skip` entries of each namespace's group."""
    for group in groups:
        for row in group[skip:]:
            yield Fetched(group[0], *row)


@dataclass(slots=True)
class Scan:
    """A scan of what lies below a prefix.

    Attributes:
        frame: The operation's.
        prefix: Encoded.
        question: What is asked.
        matches: The filter of values; ``None`` for none.
        dims: Of the vectors; 0 for none.
        end: How many rows are wanted, from the first.
        check: Compares the stored format with the store's.
    """

    frame: scripts.Frame
    prefix: bytes
    question: Question
    matches: Callable[[Any], bool] | None
    dims: int
    end: int
    check: Callable[[list[bytes | None]], None]

    @property
    def _asks(self) -> dict[str, Any]:
        with_vectors = self.question.query is not None
        return {
            "vectors": with_vectors,
            "value_bytes": ALL_VALUES if self.matches else VALUE_BYTES if with_vectors else 0,
        }

    def best(self, slack: int) -> Flow[tuple[list[Candidate], bool]]:
        """Return the best rows, more than wanted, and whether all of them hold for one moment.

        They do not where too much has changed during the scan: each row is then as it was when the scan met it.
        """
        keep = self.end + slack
        kept: list[Candidate] = []
        dropped, windows, base = False, 0, b"0"
        start: tuple[bytes, Any] = (self.prefix, 0)
        while True:
            call = scripts.scan(self.frame, self.prefix, start, WINDOW, **self._asks)
            # The format comes after the vectors, so it is the one that they were written under.
            reply, stored = yield Send([call, scripts.stored_format(self.frame)])
            self.check(checked(stored))
            number, now, types, at_end, *cursor = checked(reply)
            base = base if windows else number
            windows += 1
            rows = list(fetched(cursor[2:], 1))
            found = self._judge(rows, decode_types(types), float(now), keep)
            # A row that moved ahead of the scan is met twice; the later meeting is the current one.
            met = {(row.namespace, row.key) for row in rows}
            kept = [candidate for candidate in kept if candidate.row not in met] + found
            dropped = dropped or len(kept) > keep or len(rows) > len(found) == keep
            kept = heapq.nlargest(keep, kept, key=lambda candidate: candidate.rank)
            if at_end == b"1":
                break
            start = (cursor[0], cursor[1])
        if windows == 1:
            return kept, True
        settled = yield from self._settle(base, kept, dropped)
        return (kept, False) if settled is None else (settled, True)

    def _settle(self, base: bytes, kept: list[Candidate], dropped: bool) -> Flow[list[Candidate] | None]:
        groups: dict[bytes, list[Any]] = {}
        page_from: Any = base
        while True:
            call = scripts.sync(self.frame, self.prefix, base, CHANGES, page_from, **self._asks)
            now, _, _, _, types, state, page_from, *found = checked((yield Send([call]))[0])
            if state == b"reload":
                return None
            groups.update((group[0], group) for group in found)
            if state == b"done":
                break
        rows = list(fetched(groups.values(), 2))
        touched = {(group[0], key) for group in groups.values() for key in group[1]}
        touched |= {(row.namespace, row.key) for row in rows}
        stable = [candidate for candidate in kept if candidate.row not in touched]
        changed = self._judge(rows, decode_types(types), float(now), len(rows))
        merged = sorted(stable + changed, key=lambda candidate: candidate.rank, reverse=True)
        # What was dropped ranks below the last row kept: the page is exact as long as it does not reach below that.
        if dropped and (len(merged) < self.end or merged[self.end - 1].rank < kept[-1].rank):
            return None
        return merged

    def _judge(self, rows: Sequence[Fetched], types: tuple[str, ...], now: float, keep: int) -> list[Candidate]:
        snapshot = snapshot_of(rows, self.dims if self.question.query is not None else 0)
        mask = snapshot.live
        if self.matches is not None:
            for slot in range(snapshot.size):
                value = snapshot.value(slot)
                if value is None:
                    raise lost(*snapshot.table.names[slot])
                mask[slot] = self.matches(value)
        return candidates_of(
            snapshot, rank(snapshot, mask, self.question, types, now, keep), self.question, types, "scan"
        )
