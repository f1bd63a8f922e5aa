"""What the methods of the store that run flows have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import TypeVar

from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.operations.session import Session

T = TypeVar("T")
Moment = str | datetime


class Methods(ABC):
    """From "written" to "gone", each step atomic. Every method has an async twin, with ``a`` in front.

    Common to all: an absent or expired key raises `MemoryNotFoundError`; a status that does not allow the step raises
    `IllegalTransitionError`; a row that is in the state asked for already is returned as it is; arguments that are
    unusable raise `ValueError` or `TypeError`; a server that is down or refuses raises redis-py's error. Nothing has
    changed then.
    """

    _session: Session

    @abstractmethod
    def _run(self, flow: Flow[T]) -> T: ...

    @abstractmethod
    async def _arun(self, flow: Flow[T], *, embeds: bool = False) -> T: ...
