"""Background threads that do a job every so often, and results that may be awaited or not."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any

logger = logging.getLogger("langgraph_forgetful_store")


class AwaitableFuture(concurrent.futures.Future[None]):
    """A future that may also be awaited; awaiting gives it back at once, as if starting had been async."""

    def __await__(self) -> Generator[Any, None, AwaitableFuture]:
        yield from ()
        return self


class AwaitableBool(int):
    """A truth value that may also be awaited; awaiting may have to wait for the final one."""

    _later: Callable[[], Coroutine[Any, Any, bool]] | None

    def __new__(cls, value: bool, later: Callable[[], Coroutine[Any, Any, bool]] | None = None) -> AwaitableBool:  # noqa: D102
        self = super().__new__(cls, bool(value))
        self._later = later
        return self

    def __await__(self) -> Generator[Any, None, bool]:
        if self._later is None:
            return bool(self)
        return (yield from self._later().__await__())

    def __repr__(self) -> str:
        return repr(bool(self))


class Ticker:
    """Does a job every so often, on a daemon thread, whatever the job may raise.

    Args:
        job: What the job is called in the log.
        get: Returns what to call, or ``None`` when its owner is gone.
    """

    def __init__(self, job: str, get: Callable[[], Callable[[], Any] | None]) -> None:
        self._job = job
        self._get = get
        self.after_fork()

    def after_fork(self) -> None:
        """Start anew in a forked child, where the thread does not exist."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._future = AwaitableFuture()

    def start(self, interval_minutes: float) -> AwaitableFuture:
        """Start the thread, or return the future of the one that runs.

        Args:
            interval_minutes: Minutes between two runs of the job.

        Returns:
            A future that is done when the thread has ended; cancelling it ends the thread.
        """
        with self._lock:
            if self._thread is not None and self._thread.is_alive() and not self._stop.is_set():
                return self._future
            stop, future = threading.Event(), AwaitableFuture()
            future.add_done_callback(lambda done: stop.set())
            self._stop, self._future = stop, future
            self._thread = threading.Thread(
                target=_loop,
                args=(self._job, self._get, stop, future, min(interval_minutes * 60, threading.TIMEOUT_MAX)),
                name=f"forgetful {self._job}",
                daemon=True,
            )
            self._thread.start()
            return future

    def stop(self, timeout: float | None) -> bool:
        """Stop the thread and wait for it.

        Args:
            timeout: Seconds to wait at the most; ``None``: as long as it takes.

        Returns:
            Whether no thread is left.
        """
        with self._lock:
            thread = self._thread
            self._stop.set()
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()


def _loop(
    job: str,
    get: Callable[[], Callable[[], Any] | None],
    stop: threading.Event,
    future: AwaitableFuture,
    seconds: float,
) -> None:
    trouble = ""
    while not stop.wait(seconds):
        call = get()
        if call is None:
            break
        try:
            done = call()
        except Exception as error:
            # A server that is down would fill the log, line by line the same.
            if trouble != repr(error):
                trouble = repr(error)
                logger.exception("a %s failed; one is tried again every %s s", job, seconds)
        else:
            trouble = ""
            if done:
                logger.info("a %s took %s", job, done)
        # The owner must not be kept alive while the thread waits.
        del call
    if not future.done():
        future.set_result(None)
