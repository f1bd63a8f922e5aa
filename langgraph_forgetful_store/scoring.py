"""How a search with a query ranks: the presets, and what a preset of your own is made of."""

from langgraph_forgetful_store.search.presets import (
    Columns,
    GenerativeAgents,
    Multiplicative,
    Relevance,
    Scores,
    ScoringPreset,
    Similarity,
    Term,
    Weighted,
)

__all__ = [
    "Columns",
    "GenerativeAgents",
    "Multiplicative",
    "Relevance",
    "Scores",
    "ScoringPreset",
    "Similarity",
    "Term",
    "Weighted",
]
