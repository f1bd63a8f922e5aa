"""What is installed by extras: telling a package that is missing from one that fails."""

from __future__ import annotations


def is_missing(error: ImportError, *packages: str) -> bool:
    """Tell whether an import failed because one of these packages is not installed at all.

    A package that is there but too old, or broken, fails otherwise: its own text says what is wrong, and the advice to
    install it would mislead.

    Args:
        error: What the import raised.
        packages: Names of top-level packages.
    """
    return isinstance(error, ModuleNotFoundError) and error.name in packages
