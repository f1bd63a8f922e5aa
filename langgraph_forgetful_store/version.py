"""The version of what is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

LIBRARY = "langgraph-forgetful-store"
try:
    VERSION = version(LIBRARY)
except PackageNotFoundError:  # a checkout that is on the path but not installed
    VERSION = "0+unknown"
