"""Where a node or a tool acts: the graph's store, the namespace, and what is said of this run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.runtime import get_runtime

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.labels import fill_namespace


@dataclass(frozen=True, slots=True)
class Scope:
    """Where something acts.

    Attributes:
        store: The store.
        namespace: The filled namespace.
        config: Of the run.
        context: The runtime's; ``None`` outside of a graph, or where it has none.
    """

    store: Any
    namespace: tuple[str, ...]
    config: RunnableConfig
    context: Any = None

    @classmethod
    def find(cls, template: Sequence[str], store: Any = None, config: RunnableConfig | None = None) -> Scope:
        """Return where a graph's node or tool is now.

        Args:
            template: The namespace's.
            store: ``None``: the graph's.
            config: ``None``: the one of the run.

        Raises:
            ConfigurationError: There is no such store, or it lacks the lifecycle; or the namespace can't be filled.
        """
        merged = ensure_config(config)
        try:
            runtime = get_runtime()
        except (RuntimeError, KeyError):  # outside of a graph
            runtime = None
        found = store if store is not None else getattr(runtime, "store", None)
        if found is None:
            raise ConfigurationError("there is no store: compile the graph with store=ForgetfulStore(...)")
        if not hasattr(found, "recall"):
            raise ConfigurationError(f"the store must be a ForgetfulStore, got a {type(found).__name__}")
        context = getattr(runtime, "context", None)
        return cls(found, fill_namespace(template, context, merged.get("configurable")), merged, context)

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
