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


# Set on an error that an embedder has raised, which passes through as it is.
_MARK = "_forgetful_store_embedding"


def mark_embedding_error(error: Exception) -> None:
    """Note that an error is an embedder's, or about what one returned."""
    error.__dict__[_MARK] = True


def is_embedding_error(error: BaseException) -> bool:
    """Tell whether an error is an embedder's: a `ValueError` of it says nothing about what a caller gave."""
    return _MARK in error.__dict__


class MemoryNotFoundError(ForgetfulStoreError, LookupError):
    """There is no such memory, or it has expired."""


class IllegalTransitionError(ForgetfulStoreError, ValueError):
    """A memory can't go from its status to the one asked for; nothing has changed."""


class VersionConflictError(ForgetfulStoreError):
    """A memory is not at the version that was expected; nothing has changed."""
