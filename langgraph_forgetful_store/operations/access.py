"""Counting accesses: buffered in this process, and written as increments now and then.

A mere retrieval counts an access and changes nothing else. What is buffered when a process dies is lost.
"""

from __future__ import annotations

import base64
import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import decode_namespace
from langgraph_forgetful_store.backend.refusals import Refusals

logger = logging.getLogger("langgraph_forgetful_store")

# Encoded namespace, key, and created_at in ms, which tells one life of a row from the next.
Life = tuple[bytes, bytes, float]
FLUSH_SECONDS = 1.0
# Rows that are counted while flushes fail; what is beyond them is not, or memory would grow with every row read.
KEEP = 100_000
# How long what was counted of a namespace that can't be written waits before it is sent again.
RETRY_SECONDS = 60.0


@dataclass(slots=True)
class _Count:
    accesses: int
    last: float


def _add(counts: dict[Life, _Count], life: Life, more: _Count) -> None:
    known = counts.setdefault(life, more)
    if known is not more:
        known.accesses += more.accesses
        known.last = max(known.last, more.last)


class AccessBuffer:
    """Accesses that have not been written yet; shared by threads and event loops.

    Args:
        enabled: Whether anything is counted.
        refusals: What is known of the server's refusals to write; while it refuses, nothing is counted.
    """

    def __init__(self, enabled: bool, refusals: Refusals | None = None) -> None:
        self.enabled = enabled
        self.refusals = Refusals() if refusals is None else refusals
        self.after_fork()

    def after_fork(self) -> None:
        """Start anew in a forked child: the parent writes what it has counted."""
        self._lock = threading.Lock()
        self._counts: dict[Life, _Count] = {}
        self._sending: list[tuple[scripts.Call, dict[Life, _Count]]] = []
        # What is counted of namespaces that something else has written over, and when it is sent again.
        self._aside: dict[Life, _Count] = {}
        self._broken: set[bytes] = set()
        self._retry_at = 0.0
        self._lane = base64.b85encode(os.urandom(10)).decode()
        self._number = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self._counts or self._sending or self._aside)

    def unwritten(self, lives: Sequence[Life], *, count: bool = False) -> list[int]:
        """Return how many accesses of each row in its life are not known to be written.

        Args:
            lives: What was read.
            count: Whether one more is counted of each, after that; if counting is enabled.
        """
        found = [0] * len(lives)
        counting = count and self.enabled and not self.refusals.are_known
        if not counting and self.is_empty:
            return found
        now = time.monotonic() if counting else 0.0
        with self._lock:
            for sent in self._unwritten():
                for at, life in enumerate(lives):
                    if (known := sent.get(life)) is not None:
                        found[at] += known.accesses
            counts = self._counts
            for at, life in enumerate(lives):
                if (known := counts.get(life)) is not None:
                    found[at] += known.accesses
                    if counting:
                        known.accesses += 1
                        known.last = now
                elif counting and len(counts) < KEEP:
                    counts[life] = _Count(1, now)
        return found

    def drop(self, prefix: bytes, keys: Iterable[bytes] | None) -> None:
        """Forget what is counted of erased rows.

        Args:
            prefix: A namespace, encoded; without `keys`, what namespaces begin with.
            keys: Which of its rows; ``None``: all below the prefix.
        """
        names = None if keys is None else set(keys)
        with self._lock:
            for counts in (self._counts, *self._unwritten()):
                for life in list(counts):
                    erased = life[0].startswith(prefix) if names is None else life[0] == prefix and life[1] in names
                    if erased:
                        del counts[life]

    def flush(self, frame: scripts.Frame) -> Flow[None]:
        """Write what is buffered.

        A call that fails is kept, and sent again under the same number with the next flush: whether the server had
        carried it out does not matter. What is counted of a namespace that something else has written over is set
        aside, and sent again from time to time: it must not hold up all others.

        Raises:
            redis.exceptions.RedisError: The server is down or refuses.
        """
        calls = self._take(frame)
        if not calls:
            return
        replies = yield Send(calls)
        for at, reply in enumerate(replies):
            if isinstance(reply, Exception) and self.refusals.allow(reply) and self.refusals.is_replica(reply):
                # Nothing that was read there can be counted.
                replies[at] = [0]
        done = {
            id(call): [scripts.namespace_of(call, at) for at in reply[1:]]
            for call, reply in zip(calls, replies, strict=True)
            if not isinstance(reply, Exception)
        }
        with self._lock:
            settled = [(call, counts) for call, counts in self._sending if id(call) in done]
            self._sending = [(call, counts) for call, counts in self._sending if id(call) not in done]
            fresh = set[bytes]()
            for call, counts in settled:
                fresh |= self._set_aside(counts, set(done[id(call)]))
        for namespace in sorted(fresh):
            logger.warning(
                "something else wrote a key of the namespace %r under the store's key prefix: accesses of its memories"
                " are not written until that key is gone",
                decode_namespace(namespace),
            )
        for reply in replies:
            checked(reply)

    def _unwritten(self) -> list[dict[Life, _Count]]:
        waiting = (self._aside, *(counts for _, counts in self._sending))
        return [counts for counts in waiting if counts]

    def _set_aside(self, sent: dict[Life, _Count], broken: set[bytes]) -> set[bytes]:
        """Keep what was not written of what was sent; returns the namespaces that were sound before."""
        for life, count in sent.items():
            if life[0] in broken and (life in self._aside or len(self._aside) < KEEP):
                _add(self._aside, life, count)
        mended = self._broken.intersection(life[0] for life in sent) - broken
        fresh = broken - self._broken
        self._broken = (self._broken | broken) - mended
        now = time.monotonic()
        if mended:
            self._retry_at = now
        elif fresh or now >= self._retry_at:
            self._retry_at = now + RETRY_SECONDS
        return fresh

    def _take(self, frame: scripts.Frame) -> list[scripts.Call]:
        with self._lock:
            if self._aside and not self._sending and time.monotonic() >= self._retry_at:
                aside, self._aside = self._aside, {}
                for life, count in aside.items():
                    _add(self._counts, life, count)
            if not self._sending and self._counts:
                counts, self._counts = self._counts, {}
                now = time.monotonic()
                rows = (
                    (*life[:2], count.accesses, round((now - count.last) * 1000), life[2])
                    for life, count in counts.items()
                )
                left = iter(counts.items())
                for call in scripts.touch(frame, rows):
                    self._number += 1
                    call.once = (f"{self._lane}.{self._number}", 1)
                    self._sending.append((call, dict(islice(left, call.rows))))
            return [call for call, _ in self._sending]
