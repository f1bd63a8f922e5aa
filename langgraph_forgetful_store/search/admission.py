"""Which rows a search lets in by their meta and lifecycle fields, before anything is ranked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.backend.codec import (
    FLAG_DATED,
    FLAG_PINNED,
    FLAG_RUN,
    STATUS_ACTIVE,
    STATUS_ARCHIVED,
)
from langgraph_forgetful_store.model.fields import NUMBERS
from langgraph_forgetful_store.model.memory_types import HYPOTHESIS
from langgraph_forgetful_store.model.options import IGNORE, ONLY
from langgraph_forgetful_store.model.packing import unpack_rest
from langgraph_forgetful_store.model.status import state_at, states_at
from langgraph_forgetful_store.search.layers import hidden
from langgraph_forgetful_store.search.table import Array, Mask, Snapshot

ACTIVE_ALONE = frozenset({STATUS_ACTIVE})


@dataclass(frozen=True, slots=True)
class Admission:
    """The filters of meta and lifecycle fields; ``None`` and empty ones let everything in.

    Attributes:
        memory_types: The names that are let in; ``None``: all but `HYPOTHESIS`, unless `names_type`.
        tags: A row needs one of them.
        subject: A row's subject is one of them.
        attribute: A row's attribute is one of them.
        needs: The names of fields that a row must have, whatever they are.
        pinned: Whether a row must be pinned, or must not be.
        run_id: Rows of this run are let in beside those of none.
        in_contexts: The current contexts: a tag ``_ignore_in_context_X`` hides a row in X, ``_only_in_context_X``
            shows it there alone.
        min_confidence: Rows below it are left out.
        matches: A filter of the lifecycle fields by their names.
        names_type: Whether none is left out by default, since `matches` says which types it wants, or any will do.
        statuses: Which are let in, as meta holds them.
        as_of: The moment in the world for which rows are judged, in ms; ``None``: now.
        known_at: The moment of the store for which they are judged, in ms; ``None``: now.
        archived_above: Archived rows are let in too, from this similarity on.
    """

    memory_types: frozenset[str] | None = None
    tags: frozenset[str] = frozenset()
    subject: frozenset[str] = frozenset()
    attribute: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    pinned: bool | None = None
    run_id: str | None = None
    in_contexts: frozenset[str] = frozenset()
    min_confidence: float | None = None
    matches: Callable[[Mapping[str, Any]], bool] | None = None
    names_type: bool = False
    statuses: frozenset[int] = ACTIVE_ALONE
    as_of: float | None = None
    known_at: float | None = None
    archived_above: float | None = None

    @property
    def reads_closed(self) -> bool:
        """Whether rows that are not active now may be let in."""
        return self.statuses != ACTIVE_ALONE or self.is_timed or self.archived_above is not None

    @property
    def needs_fields(self) -> bool:
        """Whether only rows are let in that have lifecycle fields beside meta."""
        return bool(self.tags or self.subject or self.attribute or self.needs)

    @property
    def is_timed(self) -> bool:
        """Whether rows are judged for another moment; such reads leave no trace."""
        return self.as_of is not None or self.known_at is not None

    def names(self) -> list[str]:
        """Return the names of the filters that are given."""
        optional = ("memory_types", "run_id", "min_confidence", "as_of", "known_at", "archived_above", "pinned")
        given = [name for name in optional if getattr(self, name) is not None]
        given += ["status"] if self.statuses != ACTIVE_ALONE else []
        given += [name for name in ("tags", "subject", "attribute") if getattr(self, name) or name in self.needs]
        given += ["in_contexts"] if self.in_contexts else []
        return given + (["$memory"] if self.matches is not None else [])

    def _wants(self, memory_type: str) -> bool:
        if self.memory_types is not None:
            return memory_type in self.memory_types
        return self.names_type or memory_type != HYPOTHESIS

    def lets_all_in(self, snapshot: Snapshot, types: tuple[str, ...], now: float) -> bool:
        """Tell whether it is known, without a look at each row, that none is kept out."""
        return (
            not self.reads_closed
            and snapshot.table.is_timeless(now)
            and not (self.min_confidence is not None or self.matches is not None or self.needs_fields)
            and self.pinned is None
            and not snapshot.table.flags & (FLAG_RUN | FLAG_DATED)
            and not snapshot.table.with_rest
            # Another search may have added rows to the table, of types that came after `types` was heard.
            and all(number < len(types) and self._wants(types[number]) for number in list(snapshot.table.type_ids))
        )

    def states(self, snapshot: Snapshot, now: float) -> npt.NDArray[np.int8]:
        """Return what each slot counts as at the moment asked for; -1: nothing."""
        meta = snapshot.table.meta[: snapshot.size]
        if self.known_at is not None:
            return np.fromiter(
                (
                    -1 if state is None else state
                    for state in (
                        state_at(one, unpack_rest(snapshot.table.rests[slot]), now, self.as_of, self.known_at)
                        for slot, one in enumerate(snapshot.metas(np.arange(snapshot.size)))
                    )
                ),
                np.int8,
                snapshot.size,
            )
        return states_at(meta, snapshot.columns["expires_at"], now, self.as_of)

    def mask(
        self, snapshot: Snapshot, types: tuple[str, ...], now: float = np.inf, similarity: Array | None = None
    ) -> Mask:
        """Return which slots are let in.

        Args:
            snapshot: The rows.
            types: The names of the memory types by their ids.
            now: The server's time, in ms.
            similarity: Of each slot to the query; NaN, or ``None`` for all, where there is nothing to compare.
        """
        wanted = np.fromiter((self._wants(name) for name in types), np.bool_)
        mask: Mask = np.ones(snapshot.size, np.bool_) if wanted.all() else wanted[snapshot.types]
        holds: Mask = np.ones(snapshot.size, np.bool_)
        if self.reads_closed or not snapshot.table.is_timeless(now):
            states = self.states(snapshot, now)
            holds = states == STATUS_ACTIVE
            let_in = np.isin(states, list(self.statuses))
            if self.archived_above is not None and similarity is not None:
                let_in |= (states == STATUS_ARCHIVED) & (similarity >= self.archived_above)
            mask = mask & let_in
        if (below := hidden(snapshot, holds, self.run_id, now, self.as_of)) is not None:
            mask = mask & ~below
        if self.min_confidence is not None:
            mask &= snapshot.columns["confidence"] >= self.min_confidence
        if self.pinned is not None:
            mask &= ((snapshot.flags & FLAG_PINNED) != 0) == self.pinned
        bound = (snapshot.flags & FLAG_RUN) != 0
        if self.run_id is None:
            mask &= ~bound
        return self._by_fields(snapshot, mask, bound, types)

    def _by_fields(self, snapshot: Snapshot, mask: Mask, bound: Mask, types: tuple[str, ...]) -> Mask:
        # Only rows that have such fields can be kept out by them, or let in.
        named = np.array([slot for slot in snapshot.with_rest() if mask[slot]], np.intp)
        slots = named if self.matches is None else np.flatnonzero(mask)
        if self.needs_fields:
            mask = np.isin(np.arange(snapshot.size), named)
            slots = named
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
        for name, wanted in (("subject", self.subject), ("attribute", self.attribute)):
            if wanted and rest.get(name) not in wanted:
                return False
        if not all(rest.get(name) for name in self.needs):
            return False
        if any(IGNORE + context in tags for context in self.in_contexts):
            return False
        only = [tag for tag in tags if tag.startswith(ONLY)]
        return not only or any(tag.removeprefix(ONLY) in self.in_contexts for tag in only)


def fields_of(snapshot: Snapshot, slot: int, rest: Mapping[str, Any], types: tuple[str, ...]) -> dict[str, Any]:
    """Return the lifecycle fields of a row by their names, as a filter sees them."""
    columns = snapshot.columns
    return {
        **{name: part for name, part in rest.items() if name in NUMBERS},
        "memory_type": types[int(snapshot.types[slot])],
        "importance": float(columns["importance"][slot]),
        "confidence": float(columns["confidence"][slot]),
        "access_count": int(columns["access_count"][slot]),
        "version": int(snapshot.table.meta["version"][slot]),
        "pinned": bool(snapshot.flags[slot] & FLAG_PINNED),
    }


def shared_contexts(snapshot: Snapshot, in_contexts: frozenset[str]) -> Array:
    """Return how many tags of each row name a current session, shape (size,)."""
    counts = np.zeros(snapshot.size)
    if in_contexts:
        for slot in snapshot.with_rest():
            counts[slot] = len(in_contexts.intersection(unpack_rest(snapshot.table.rests[slot]).get("tags", ())))
    return counts
