"""A chat model that follows a script: no key, no network."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field


class ScriptedModel(BaseChatModel):
    """Gives its replies one after the other, whatever it is asked.

    Attributes:
        replies: What is left to say.
        asked: The messages of each call so far.
    """

    replies: list[AIMessage]
    asked: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self.bind()

    def _generate(self, messages: list[BaseMessage], *args: Any, **settings: Any) -> ChatResult:
        self.asked.append(messages)
        return ChatResult(generations=[ChatGeneration(message=self.replies.pop(0))])


def script(*replies: str | list[tuple[str, dict[str, Any]]]) -> ScriptedModel:
    """Return a model that says each reply: a text, or calls of tools as (name, arguments)."""
    messages = []
    for turn, reply in enumerate(replies):
        if isinstance(reply, str):
            messages.append(AIMessage(reply))
        else:
            calls = [{"name": name, "args": args, "id": f"{turn}-{at}"} for at, (name, args) in enumerate(reply)]
            messages.append(AIMessage("", tool_calls=calls))
    return ScriptedModel(replies=messages)
