"""Listing namespaces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Self

from langgraph.store.base import ListNamespacesOp, MatchCondition

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.flow import Flow, Send, checked
from langgraph_forgetful_store.backend.keys import decode_namespace, encode_namespace
from langgraph_forgetful_store.model.checks import Namespace, check_count, check_labels

# Namespaces that one script call looks at: what bounds the time the server is busy with it.
LOOK = 2000


@dataclass(frozen=True, slots=True)
class ListNamespaces:
    """A checked `ListNamespacesOp`.

    Attributes:
        lead: The literal labels that every match begins with.
        conditions: What the server does not check: (whether it is a suffix, its path).
    """

    lead: Namespace
    conditions: tuple[tuple[bool, Namespace], ...]
    max_depth: int | None
    limit: int
    offset: int

    @classmethod
    def prepare(cls, op: ListNamespacesOp) -> Self:
        """Check an op.

        Raises:
            InvalidNamespaceError: A path holds what is no label.
            TypeError, ValueError: A number is no whole number, or below its least.
        """
        conditions = op.match_conditions or ()
        if not isinstance(conditions, tuple | list):
            raise TypeError(f"match_conditions must be a tuple of MatchCondition, got {conditions!r}")
        paths = [_path(condition) for condition in conditions]
        leads = [tuple(takewhile(lambda label: label != "*", path)) for suffix, path in paths if not suffix]
        lead = max(leads, key=len, default=())
        return cls(
            lead,
            tuple((suffix, path) for suffix, path in paths if path and (suffix or path != lead)),
            None if op.max_depth is None else check_count(op.max_depth, "max_depth", least=1),
            check_count(op.limit, "limit"),
            check_count(op.offset, "offset"),
        )

    def matches(self, namespace: Namespace) -> bool:
        """Tell whether a namespace meets the conditions that the server does not check."""
        return all(
            len(path) <= len(namespace)
            and all(
                wanted in ("*", label)
                for wanted, label in zip(path, namespace[-len(path) :] if suffix else namespace, strict=False)
            )
            for suffix, path in self.conditions
        )


def _path(condition: object) -> tuple[bool, Namespace]:
    if not isinstance(condition, MatchCondition):
        raise TypeError(f"match_conditions must be a tuple of MatchCondition, it holds {condition!r}")
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"match_type must be 'prefix' or 'suffix', got {condition.match_type!r}")
    return condition.match_type == "suffix", check_labels(condition.path, condition.match_type, text=True)


def list_namespaces(frame: scripts.Frame, op: ListNamespaces) -> Flow[list[Namespace]]:
    """List namespaces that hold a row which a read can return, in tuple order."""
    if op.limit == 0:
        return []
    prefix = encode_namespace(op.lead)
    end = op.offset + op.limit
    # The server may cut names only where it has checked all of the conditions on the whole ones.
    depth = 0 if op.conditions else op.max_depth or 0
    found: list[Namespace] = []
    start = b""
    while len(found) < end:
        want = LOOK if op.conditions else min(end - len(found), LOOK)
        start, *names = checked((yield Send([scripts.namespaces(frame, prefix, start, want, LOOK, depth)]))[0])
        _extend(found, (decode_namespace(name) for name in names), op)
        if not start:
            break
    return found[op.offset : end]


def _extend(found: list[Namespace], names: Iterable[Namespace], op: ListNamespaces) -> None:
    for name in names:
        if op.matches(name):
            cut = name[: op.max_depth]
            if not found or found[-1] != cut:
                found.append(cut)
