"""Which task of which graph a policy is: how many graphs are around it, and what tells its go from others."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from langgraph.config import get_config

from langgraph_forgetful_store.policy.scope import Scope


def _config(scope: Scope) -> Mapping[str, Any]:
    """Return the config of the task; a node may have called the policy with another, of its own making."""
    if "checkpoint_ns" in scope.config.get("configurable", {}):
        return scope.config
    try:
        return get_config()
    except RuntimeError:  # outside of a graph
        return scope.config


def place_of(scope: Scope) -> str:
    """Return which task of which graph this is, by LangGraph's names; ``""`` outside of a graph."""
    return str(_config(scope).get("configurable", {}).get("checkpoint_ns") or "")


def level_of(place: str) -> int:
    """Return how many graphs are around the one whose task this is."""
    # A number among the parts counts the graphs that one task calls.
    return max(0, sum(not part.isdigit() for part in place.split("|")) - 1)


def occasion_of(scope: Scope) -> tuple[str, ...]:
    """Return what tells this go from others: the same where a run is resumed, and in parallel branches.

    That is the checkpoint that the graph goes on from. Graphs below another that run in one step of it have a
    checkpoint each, and one that keeps none has a new one when it is run again: so theirs is their parent's, and the
    step. Outside of a graph each call is a request of its own.
    """
    place, config = place_of(scope), _config(scope)
    around, counted = place.split("|")[:-1], ""
    while around and around[-1].isdigit():
        counted = around.pop()
    seen = config.get("configurable", {}).get("checkpoint_map") or {}
    parent = seen.get("|".join(around[:-1])) if around else None
    if parent is None:
        return (scope.checkpoint or place or uuid.uuid4().hex,)
    return (str(parent), counted, str((config.get("metadata") or {}).get("langgraph_step")))
