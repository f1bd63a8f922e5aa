"""`MemoryMiddleware`: recall and policy for agents made by langchain's `create_agent`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.model.documented import twin_of
from langgraph_forgetful_store.policy.extras import is_missing
from langgraph_forgetful_store.policy.recall_node import RecallMemories
from langgraph_forgetful_store.policy.state import DecidedState

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
except ImportError as error:
    if not is_missing(error, "langchain"):
        raise
    raise ConfigurationError(
        "the middleware needs langchain: pip install 'langgraph-forgetful-store[langchain]'"
    ) from error


class MemoryAgentState(AgentState[Any], DecidedState):
    """An agent's state with what recall and policy read and write: see `MemoryPolicyState`."""


class MemoryMiddleware(AgentMiddleware[MemoryAgentState, Any, Any]):
    """Recalls before the model is called, and runs a policy when the agent is done.

    What was recalled stands at the end of the system message, or in a message of its own, and in the state
    (`RecallMemories`). It is recalled anew for each call of the model, so that what a tool has just superseded is told
    no more.

    Args:
        recall: What to recall, and where; ``None``: nothing is recalled.
        policy: A `MemoryPolicy`, or any Runnable from a state to an update of it; ``None``: none.
        tools: More tools for the agent, such as `memory_tools`.
        place: Where the model reads what was recalled: at the end of the system message (``"system"``), or in a message
            of its own before the user's last one (``"message"``), so that a provider's cache of the prompt still serves
            all that came before. Neither becomes a part of the conversation.

    Raises:
        ConfigurationError: An argument is unusable.
    """

    state_schema = MemoryAgentState

    def __init__(
        self,
        recall: RecallMemories | None = None,
        policy: Runnable[Any, Any] | None = None,
        *,
        tools: Sequence[BaseTool] = (),
        place: Literal["system", "message"] = "system",
    ) -> None:
        super().__init__()
        if place not in ("system", "message"):
            raise ConfigurationError(f"place must be 'system' or 'message', got {place!r}")
        self._place = place
        for name, one, kind in (("recall", recall, RecallMemories), ("policy", policy, Runnable)):
            if one is not None and not isinstance(one, kind):
                raise ConfigurationError(f"{name} must be a {kind.__name__} or None, got {one!r}")
        self._recall, self._policy = recall, policy
        self.tools = list(tools)

    def __repr__(self) -> str:
        tools = [tool.name for tool in self.tools]
        return f"MemoryMiddleware(recall={self._recall!r}, policy={self._policy!r}, tools={tools})"

    def before_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Recall into the state.

        Args:
            state: The agent's state so far.
            runtime: What the agent runs with.
        """
        return None if self._recall is None else dict(self._recall.invoke(state))

    @twin_of(before_model)
    async def abefore_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """The async twin of `before_model`."""
        return None if self._recall is None else dict(await self._recall.ainvoke(state))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with what was recalled.

        Args:
            request: What the model is about to be called with.
            handler: Calls the model with a request.
        """
        return handler(self._with_memories(request))

    @twin_of(wrap_model_call)
    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The async twin of `wrap_model_call`."""
        return await handler(self._with_memories(request))

    def after_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Run the policy on what was said.

        Args:
            state: The agent's state so far.
            runtime: What the agent runs with.
        """
        return None if self._policy is None else self._policy.invoke(state)

    @twin_of(after_agent)
    async def aafter_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """The async twin of `after_agent`."""
        return None if self._policy is None else await self._policy.ainvoke(state)

    def _with_memories(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        told = request.state.get("memory_context") if self._recall is not None else None
        if not told:
            return request
        if self._place == "system":
            return request.override(system_message=_with_text(request.system_message, str(told)))
        return request.override(messages=_with_message(request.messages, str(told)))


def _with_message(messages: Sequence[AnyMessage], text: str) -> list[AnyMessage]:
    # Not after a tool's answer: providers want that right behind the call.
    last = next((at for at in reversed(range(len(messages))) if isinstance(messages[at], HumanMessage)), len(messages))
    return [*messages[:last], HumanMessage(text), *messages[last:]]


def _with_text(message: SystemMessage | None, text: str) -> SystemMessage:
    if message is None:
        return SystemMessage(text)
    content = message.content
    # At the end, so that what comes before stays the same for the provider's cache of prompts.
    joined: Any = f"{content}\n\n{text}" if isinstance(content, str) else [*content, {"type": "text", "text": text}]
    return message.model_copy(update={"content": joined})
