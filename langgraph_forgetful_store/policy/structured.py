"""Asking a chat model for structured answers, and living with what it answers instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel, ValidationError

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy.steps import Invoke, Steps

Answer = TypeVar("Answer", bound=BaseModel)
RETRIES = 1


class Asker:
    """Asks a model for answers of one schema.

    Args:
        model: Any chat model with structured output.
        schema: What it is to answer.

    Raises:
        ConfigurationError: The model has no structured output.
    """

    def __init__(self, model: BaseChatModel, schema: type[BaseModel]) -> None:
        if not callable(getattr(model, "with_structured_output", None)):
            raise ConfigurationError(f"model must be a chat model with structured output, got {model!r}")
        try:
            self._model = model.with_structured_output(schema)
        except NotImplementedError as error:
            raise ConfigurationError(f"{type(model).__name__} has no structured output") from error
        self._schema = schema

    def ask(
        self, prompts: Sequence[list[BaseMessage]], fits: Callable[[int, Any], bool] | None = None
    ) -> Steps[list[Any]]:
        """Ask; what comes back malformed, or not at all, is asked for once more.

        Args:
            prompts: The messages of each question.
            fits: Whether an answer to a question, by its index, can be used.

        Returns:
            For each question an answer of the schema, or an error.
        """
        answers: list[Any] = [None] * len(prompts)
        open_ones = list(range(len(prompts)))
        for _ in range(1 + RETRIES):
            if not open_ones:
                break
            try:
                replies = yield Invoke(self._model, [prompts[at] for at in open_ones])
            except GraphBubbleUp:
                raise
            except Exception as error:
                replies = [error] * len(open_ones)
            for reply in replies:
                # A model that asks the user is no model that fails.
                if isinstance(reply, GraphBubbleUp):
                    raise reply
            for at, reply in zip(open_ones, replies, strict=True):
                answers[at] = self._checked(reply)
                if fits is not None and isinstance(answers[at], self._schema) and not fits(at, answers[at]):
                    answers[at] = ValueError("the model's answer does not fit what it was asked")
            open_ones = [at for at in open_ones if isinstance(answers[at], Exception)]
        return answers

    def _checked(self, reply: Any) -> Any:
        if isinstance(reply, self._schema | Exception):
            return reply
        if isinstance(reply, dict):
            try:
                return self._schema.model_validate(reply)
            except ValidationError as error:
                return error
        return ValueError(f"the model gave no structured answer, but {type(reply).__name__}")


def brief(error: BaseException) -> str:
    """Return an error as a short text that holds nothing of what the model was asked or answered."""
    if isinstance(error, ValidationError):
        return f"ValidationError: {error.error_count()} problems"
    # Errors of parsers repeat the model's output, which may hold what must not be stored.
    return type(error).__name__
