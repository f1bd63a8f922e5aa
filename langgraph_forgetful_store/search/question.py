"""What a search asks of rows, whichever engine reads them."""

from __future__ import annotations

from typing import NamedTuple

from langgraph_forgetful_store.backend.codec import Matrix
from langgraph_forgetful_store.model.memory_types import MemoryTypes
from langgraph_forgetful_store.search.lexical import Query
from langgraph_forgetful_store.search.presets import ScoringPreset
from langgraph_forgetful_store.search.row_filter import RowFilter

# Under this similarity to the goal a row is left out.
GOAL_FLOOR = 0.2


class Question(NamedTuple):
    """What a search asks of the rows of a snapshot.

    Attributes:
        query: Normalised, shape (dims,); ``None``: nothing is compared by meaning.
        preset: What scores.
        row_filter: What lets rows in.
        min_similarity: Rows below it, and rows without a vector, are left out.
        goal: Normalised, shape (dims,): scores are multiplied by the similarity to it, and rows below `GOAL_FLOOR` are
            left out.
        explain: Whether candidates carry their `details`.
        filtered: Whether values are filtered too.
        types: The store's memory types.
        words: Of the query; ``None``: nothing is compared by words.
        min_relevance: Rows are left out whose similarity is below it and that hold less than half of the query's words,
            rare ones counting more.
    """

    query: Matrix | None
    preset: ScoringPreset
    row_filter: RowFilter
    min_similarity: float | None = None
    goal: Matrix | None = None
    explain: bool = False
    filtered: bool = False
    types: MemoryTypes = MemoryTypes()
    words: Query | None = None
    min_relevance: float | None = None

    @property
    def is_ranked(self) -> bool:
        """Whether rows are compared with anything: otherwise the newest come first."""
        return self.query is not None or self.words is not None

    def filters(self) -> list[str]:
        """Return the names of the filters that a row has passed."""
        given = ["filter"] if self.filtered else []
        given += [name for name in ("min_similarity", "min_relevance", "goal") if getattr(self, name) is not None]
        return given + self.row_filter.names()
