"""What the methods of the store that run flows have in common."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime
from typing import TypeVar

from langgraph.store.base import BaseStore

from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.operations.session import Session

T = TypeVar("T")
Moment = str | datetime


class Methods(BaseStore):
    """What the groups of methods build on. Every method has an async twin, with ``a`` in front.

    Each step is atomic: where an error is raised, nothing has changed. A row that is already in the state asked for is
    returned as it is.
    """

    _session: Session

    @abstractmethod
    def _run(self, flow: Flow[T]) -> T: ...

    @abstractmethod
    async def _arun(self, flow: Flow[T], *, embeds: bool = False) -> T: ...
