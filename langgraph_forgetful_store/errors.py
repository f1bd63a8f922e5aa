"""The errors this library raises itself; redis-py's own errors pass through unchanged."""

from __future__ import annotations


class ForgetfulStoreError(Exception):
    """Base of every error that this library defines."""


class ConfigurationError(ForgetfulStoreError, ValueError):
    """A setting is unusable, or does not fit the data that is already stored.

    Raised for bad constructor arguments, for an embedder or a number of dimensions other than the one the
    stored vectors were made with, and where an optional dependency is missing.
    """


class UnsupportedServerError(ForgetfulStoreError):
    """The server, or this platform, can't run the store: too old, a cluster, or no embedded server for it."""


class CorruptRecordError(ForgetfulStoreError):
    """A stored row can't be read: something else wrote under the store's key prefix."""


class MemoryNotFoundError(ForgetfulStoreError, LookupError):
    """There is no such memory, or it has expired."""


class IllegalTransitionError(ForgetfulStoreError, ValueError):
    """A memory can't go from its status to the one asked for; nothing has changed."""


class VersionConflictError(ForgetfulStoreError):
    """A memory is not at the version that was expected; nothing has changed."""
