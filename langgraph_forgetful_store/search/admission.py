"""Which rows a search lets in by their meta and lifecycle fields, before anything is ranked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from langgraph_forgetful_store.backend.codec import FLAG_RUN
from langgraph_forgetful_store.lifecycle import unpack_rest
from langgraph_forgetful_store.memory_types import HYPOTHESIS
from langgraph_forgetful_store.search.table import Array, Mask, Snapshot

IGNORE, ONLY = "_ignore_in_context_", "_only_in_context_"


@dataclass(frozen=True, slots=True)
class Admission:
    """The filters of meta and lifecycle fields; ``None`` and empty ones let everything in.

    Attributes:
        memory_types: The names that are let in; ``None``: all but `HYPOTHESIS`.
        tags: A row needs one of them.
        run_id: Rows of this run are let in beside those of none.
        in_contexts: The current contexts: a tag ``_ignore_in_context_X`` hides a row in X, ``_only_in_context_X``
            shows it there alone.
        min_confidence: Rows below it are left out.
        matches: A filter of the lifecycle fields by their names.
        names_type: Whether `matches` says which types it wants, so that none is left out by default.
    """

    memory_types: frozenset[str] | None = None
    tags: frozenset[str] = frozenset()
    run_id: str | None = None
    in_contexts: frozenset[str] = frozenset()
    min_confidence: float | None = None
    matches: Callable[[Mapping[str, Any]], bool] | None = None
    names_type: bool = False

    def names(self) -> list[str]:
        """Return the names of the filters that are given."""
        given = [name for name in ("memory_types", "run_id", "min_confidence") if getattr(self, name) is not None]
        given += [name for name in ("tags", "in_contexts") if getattr(self, name)]
        return given + (["$memory"] if self.matches is not None else [])

    def _wants(self, memory_type: str) -> bool:
        if self.memory_types is not None:
            return memory_type in self.memory_types
        return self.names_type or memory_type != HYPOTHESIS

    def lets_all_in(self, snapshot: Snapshot, types: tuple[str, ...]) -> bool:
        """Tell whether it is known, without a look at each row, that none is kept out."""
        return (
            not (self.min_confidence is not None or self.matches is not None or self.tags)
            and not snapshot.table.flags & FLAG_RUN
            and not snapshot.table.with_rest
            # Another search may have added rows to the table, of types that came after `types` was heard.
            and all(number < len(types) and self._wants(types[number]) for number in list(snapshot.table.type_ids))
        )

    def mask(self, snapshot: Snapshot, types: tuple[str, ...]) -> Mask:
        """Return which slots are let in.

        Args:
            snapshot: The rows.
            types: The names of the memory types by their ids.
        """
        wanted = np.fromiter((self._wants(name) for name in types), np.bool_)
        mask: Mask = np.ones(snapshot.size, np.bool_) if wanted.all() else wanted[snapshot.types]
        if self.min_confidence is not None:
            mask &= snapshot.columns["confidence"] >= self.min_confidence
        bound = (snapshot.flags & FLAG_RUN) != 0
        if self.run_id is None:
            mask &= ~bound
        return self._by_fields(snapshot, mask, bound, types)

    def _by_fields(self, snapshot: Snapshot, mask: Mask, bound: Mask, types: tuple[str, ...]) -> Mask:
        if self.matches is not None or self.tags:
            slots = np.flatnonzero(mask)
        else:
            # Only rows that have such fields can be kept out by them.
            slots = np.array([slot for slot in snapshot.with_rest() if mask[slot]], np.intp)
        for slot in slots.tolist():
            rest = unpack_rest(snapshot.table.rests[slot])
            mask[slot] = self._lets_in(rest, bool(bound[slot])) and (
                self.matches is None or self.matches(fields_of(snapshot, slot, rest, types))
            )
        return mask

    def _lets_in(self, rest: Mapping[str, Any], bound: bool) -> bool:
        if bound and rest.get("run_id") != self.run_id:
            return False
        tags = rest.get("tags", ())
        if self.tags and self.tags.isdisjoint(tags):
            return False
        if any(IGNORE + context in tags for context in self.in_contexts):
            return False
        only = [tag for tag in tags if tag.startswith(ONLY)]
        return not only or any(tag.removeprefix(ONLY) in self.in_contexts for tag in only)


def fields_of(snapshot: Snapshot, slot: int, rest: Mapping[str, Any], types: tuple[str, ...]) -> dict[str, Any]:
    """Return the lifecycle fields of a row by their names, as a filter sees them."""
    columns = snapshot.columns
    return {
        **rest,
        "memory_type": types[int(snapshot.types[slot])],
        "importance": float(columns["importance"][slot]),
        "confidence": float(columns["confidence"][slot]),
        "access_count": int(columns["access_count"][slot]),
    }


def shared_contexts(snapshot: Snapshot, in_contexts: frozenset[str]) -> Array:
    """Return how many tags of each row name a current context, shape (size,)."""
    counts = np.zeros(snapshot.size)
    if in_contexts:
        for slot in snapshot.with_rest():
            counts[slot] = len(in_contexts.intersection(unpack_rest(snapshot.table.rests[slot]).get("tags", ())))
    return counts
