"""Steps: the policy written once, as generators, and run sync or async.

A generator yields what it wants done (`Call` a method of the store, `Record` what was decided, `Consult` a stage,
`Invoke` a model) and is sent the result; an error is thrown into it. So no line of the policy exists twice.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_NOSTREAM

from langgraph_forgetful_store.model.checks import Namespace

T = TypeVar("T")
# What a model says to the policy is no answer to the user, and must not be streamed as one.
_QUIET: RunnableConfig = {"tags": [TAG_NOSTREAM], "run_name": "memory_policy"}


@dataclass(frozen=True, slots=True)
class Note:
    """What is recorded beside what a call does; see `ForgetfulStore.audited`."""

    namespace: Namespace
    action: str
    key: str | None = None
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    def asked_of(self, store: Any) -> Any:
        """Return the store that records it with one call."""
        return store.audited(self.namespace, self.action, key=self.key, reason=self.reason, details=self.details)


@dataclass(slots=True)
class Call:
    """Ask for a method of the store; the async driver calls its twin.

    Attributes:
        note: What is recorded with what the call does.
    """

    method: str
    args: Sequence[Any] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    note: Note | None = None


@dataclass(slots=True)
class Record:
    """Ask for a record where nothing is changed."""

    note: Note


@dataclass(slots=True)
class Consult:
    """Ask a stage: an object with such a method (and an ``a…`` twin), or a function, sync or async."""

    stage: Any
    method: str
    args: Sequence[Any] = ()


@dataclass(slots=True)
class Invoke:
    """Ask a model several things at once. The reply is a list: an answer or an error for each."""

    model: Runnable[Any, Any]
    inputs: Sequence[Any]


Request = Call | Record | Consult | Invoke
Steps = Generator[Request, Any, T]


def call(method: str, *args: Any, note: Note | None = None, **options: Any) -> Call:
    """Return a `Call`."""
    return Call(method, args, options, note)


def run(steps: Steps[T], store: Any = None) -> T:
    """Run steps to their end."""
    reply: Any = None
    error: Exception | None = None
    while True:
        try:
            request = steps.send(reply) if error is None else steps.throw(error)
        except StopIteration as stop:
            result: T = stop.value
            return result
        reply, error = None, None
        try:
            reply = _do(request, store)
        except Exception as raised:
            error = raised


async def arun(steps: Steps[T], store: Any = None) -> T:
    """Do as `run` does, without blocking the event loop."""
    reply: Any = None
    error: Exception | None = None
    while True:
        try:
            request = steps.send(reply) if error is None else steps.throw(error)
        except StopIteration as stop:
            result: T = stop.value
            return result
        reply, error = None, None
        try:
            reply = await _ado(request, store)
        except Exception as raised:
            error = raised


def _do(request: Request, store: Any) -> Any:
    if isinstance(request, Call):
        target = store if request.note is None else request.note.asked_of(store).store
        return getattr(target, request.method)(*request.args, **request.options)
    if isinstance(request, Record):
        return request.note.asked_of(store).write()
    if isinstance(request, Invoke):
        return request.model.batch(list(request.inputs), _QUIET, return_exceptions=True)
    function = getattr(request.stage, request.method, request.stage)
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{function!r} is async: run the graph with ainvoke, or give a sync function")
    return function(*request.args)


async def _ado(request: Request, store: Any) -> Any:
    if isinstance(request, Call):
        target = store if request.note is None else request.note.asked_of(store).store
        return await getattr(target, f"a{request.method}")(*request.args, **request.options)
    if isinstance(request, Record):
        return await request.note.asked_of(store).awrite()
    if isinstance(request, Invoke):
        return await request.model.abatch(list(request.inputs), _QUIET, return_exceptions=True)
    function = getattr(request.stage, f"a{request.method}", None) or getattr(
        request.stage, request.method, request.stage
    )
    if inspect.iscoroutinefunction(function):
        return await function(*request.args)
    # A sync function may ask a model, or wait otherwise.
    return await asyncio.to_thread(function, *request.args)
