"""A server that takes no writes, and what reads do there: all they write is refreshed TTLs and counts of accesses."""

from __future__ import annotations

import logging
import math
import time

from redis.exceptions import ReadOnlyError

from langgraph_forgetful_store.backend.flow import as_client_error

logger = logging.getLogger("langgraph_forgetful_store")

# What servers say where something keeps them from writing, and every client alike.
_TROUBLES = ("MISCONF", "NOREPLICAS")
# Whether such a server takes writes again, and whether a replica has become a primary, is tried so often.
TRY_AGAIN_SECONDS, REPLICA_SECONDS = 1.0, 60.0


class Refusals:
    """What is known of a server's refusals to write; shared by the threads and event loops of one store.

    Args:
        read_from_replica: Whether reads may be answered by a replica, too.
    """

    def __init__(self, *, read_from_replica: bool = False) -> None:
        self.read_from_replica = read_from_replica
        self.until = -math.inf
        self._warned: set[str] = set()

    @property
    def are_known(self) -> bool:
        """Whether the server has refused a write not long ago, so that reads do not try to write."""
        return self.until > 0 and time.monotonic() < self.until

    def allow(self, error: BaseException) -> bool:
        """Tell whether a read may be answered without what it would have written, given how that was refused."""
        if self.is_replica(error):
            if not self.read_from_replica:
                return False
            self.note_replica()
            return True
        trouble = next((one for one in _TROUBLES if one in str(error)), None)
        if trouble is None:
            return False
        self._note(trouble, TRY_AGAIN_SECONDS, f"the server takes no writes ({error})")
        return True

    @staticmethod
    def is_replica(error: BaseException) -> bool:
        """Whether an error is that of a replica."""
        return isinstance(as_client_error(error), ReadOnlyError)

    def note_replica(self) -> None:
        """Note that the server is a replica, which is to be read all the same."""
        self._note("READONLY", REPLICA_SECONDS, "the server is a replica (read_from_replica=True)")

    def _note(self, kind: str, seconds: float, what: str) -> None:
        self.until = time.monotonic() + seconds
        if kind not in self._warned:
            self._warned.add(kind)
            logger.warning("%s: reads answer, but refresh no TTL and count no access", what)
