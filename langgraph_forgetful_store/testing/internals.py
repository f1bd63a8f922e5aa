"""What lies behind a store's methods, for this package's own tests: not public, it may change with any release.

A test that runs a flow itself, or looks at what a store keeps in memory, asks here. So a test names no private
attribute, and there is one place to mend when one is renamed.
"""

from __future__ import annotations

from typing import Any

from langgraph_forgetful_store.backend.drivers import AsyncDriver, SyncDriver
from langgraph_forgetful_store.backend.embedded import EmbeddedServer
from langgraph_forgetful_store.backend.flow import Info, Send
from langgraph_forgetful_store.backend.lanes import Lane
from langgraph_forgetful_store.operations.session import Session
from langgraph_forgetful_store.store.store import ForgetfulStore


def session_of(store: ForgetfulStore) -> Session:
    """Return the session that a store's flows are made with: settings, near-cache, counted accesses."""
    return store._session


def sync_driver_of(store: ForgetfulStore) -> SyncDriver:
    """Return the driver that runs a store's flows for sync callers."""
    return store._sync


def watch_scripts(store: ForgetfulStore) -> list[str]:
    """Return a list to which the name of each script is added that a store calls from now on for sync callers."""
    driver, called = store._sync, list[str]()
    converse = driver._converse

    def watched(lane: Lane, request: Send | Info) -> Any:
        called.extend(call.script.name for call in getattr(request, "calls", ()))
        return converse(lane, request)

    driver._converse = watched  # type: ignore[method-assign]
    return called


def async_driver_of(store: ForgetfulStore) -> AsyncDriver:
    """Return the driver that runs a store's flows for async callers."""
    return store._async


def embedded_server_of(store: ForgetfulStore) -> EmbeddedServer:
    """Return the server that a store made by `ForgetfulStore.embedded` starts.

    Raises:
        ValueError: The store is on a server that was started by others.
    """
    if store._server is None:
        raise ValueError("the store is on a server that was started by others: only an embedded store has one")
    return store._server
