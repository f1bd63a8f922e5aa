"""Where a node or a tool acts: the graph's store, the namespace, and what is said of this run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.runtime import get_runtime

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.model.labels import fill_namespace
from langgraph_forgetful_store.policy.stores import LifecycleStore


def _runtime() -> Any:
    try:
        return get_runtime()
    except (RuntimeError, KeyError):  # outside of a graph
        return None


def find_store(store: LifecycleStore | None = None) -> Any:
    """Return the store that a graph's node or tool has now.

    Args:
        store: ``None``: the graph's.

    Raises:
        ConfigurationError: There is none, or it lacks the lifecycle.
    """
    found = store if store is not None else getattr(_runtime(), "store", None)
    if found is None:
        raise ConfigurationError(
            "there is no store: compile the graph with store=ForgetfulStore(...), or give the store here: store=..."
        )
    if not hasattr(found, "recall"):
        raise ConfigurationError(f"the store must be a ForgetfulStore, got {type(found).__name__}")
    return found


def check_store(store: LifecycleStore | None) -> None:
    """Check a store that a node or a tool is given in place of the graph's; ``None`` will do.

    Raises:
        ConfigurationError: It lacks the lifecycle.
    """
    if store is not None:
        find_store(store)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where something acts.

    Attributes:
        store: The store.
        namespace: The filled namespace.
        config: The config of the run.
        context: The runtime's; ``None`` outside of a graph, or where it has none.
        checkpoint: The id of the checkpoint that a graph goes on from; ``None`` where there is none.
    """

    store: Any
    namespace: tuple[str, ...]
    config: RunnableConfig
    context: Any = None
    checkpoint: str | None = None

    @classmethod
    def find(
        cls, template: Sequence[str], store: LifecycleStore | None = None, config: RunnableConfig | None = None
    ) -> Scope:
        """Return where a graph's node or tool is now.

        Args:
            template: The namespace's.
            store: ``None``: the graph's.
            config: ``None``: the one of the run.

        Raises:
            ConfigurationError: There is no such store, or it lacks the lifecycle; or the namespace can't be filled.
        """
        found, runtime, merged = find_store(store), _runtime(), ensure_config(config)
        context, info = getattr(runtime, "context", None), getattr(runtime, "execution_info", None)
        namespace = fill_namespace(template, context, merged.get("configurable"))
        return cls(found, namespace, merged, context, getattr(info, "checkpoint_id", None))

    def said(self, name: str) -> Any:
        """Return what the runtime's context, or else ``config["configurable"]``, says of this run, or ``None``."""
        for source in (self.context, self.config.get("configurable")):
            value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
            if value is not None:
                return value
        return None

    @property
    def run_id(self) -> str | None:
        """The run, by the name given in the context or in ``configurable``, or else by the config's own id."""
        found = self.said("run_id") or self.config.get("run_id")
        return None if found is None else str(found)
