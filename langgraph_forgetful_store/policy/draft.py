"""A candidate on its way through the stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from langgraph_forgetful_store.model.fields import DEFAULT_CONFIDENCE, WRITABLE, plain
from langgraph_forgetful_store.model.memory_types import GENERIC, HYPOTHESIS, LIFECYCLE, MemoryType
from langgraph_forgetful_store.policy import classify
from langgraph_forgetful_store.policy.candidates import Answers, Candidate
from langgraph_forgetful_store.policy.codes import Action
from langgraph_forgetful_store.policy.findings import SensitiveSpan, redact


class Types(Protocol):
    """The memory types of a store."""

    def __getitem__(self, name: str, /) -> MemoryType:
        """Return a type."""
        ...


class _Known:
    def __getitem__(self, name: str, /) -> MemoryType:
        return LIFECYCLE.get(name) or LIFECYCLE[GENERIC]


DEFAULT_TYPES: Types = _Known()


@dataclass(slots=True)
class Draft:
    """A candidate on its way through the stages.

    Attributes:
        candidate: The candidate as it was proposed; stages may put another in its place.
        types: The memory types of the store.
        now: The time of the decision.
        memory_type: Its type, as far as it is known.
        importance: How much it matters, from 0 to 1, as far as it is known.
        confidence: How sure it is, from 0 to 1, as far as it is known.
        ttl: Minutes until it expires, which reads refresh; ``None``: none of its own.
        expires_in: Minutes from the writing on, which reads do not refresh; ``None``: as its type says.
        novelty: 1 less its similarity to the nearest memory.
        scores: What was weighed, by name.
        findings: What is sensitive in it.
        sealed: What is stored in place of a sensitive content.
        outcome: An action that settles the matter, and why: ``refuse`` or ``ask``.
        hedged: Whether it was said with doubt.
        unsure: Whether it is not sure enough to replace, confirm or deny anything.
        subject: The subject's own name, where the candidate names it by an alias.
    """

    candidate: Candidate
    types: Types = DEFAULT_TYPES
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    memory_type: str = GENERIC
    importance: float | None = None
    confidence: float = DEFAULT_CONFIDENCE
    ttl: float | None = None
    expires_in: float | None = None
    novelty: float = 1.0
    scores: dict[str, Any] = field(default_factory=dict)
    findings: tuple[SensitiveSpan, ...] = ()
    sealed: dict[str, Any] | None = None
    outcome: tuple[str, str] | None = None
    hedged: bool = False
    unsure: bool = False
    subject: str | None = None

    def settle(self, action: str, reason: str) -> None:
        """Settle the matter, unless it is settled.

        Args:
            action: The decision's action, ``refuse`` or ``ask``.
            reason: Why, for people; its first word is a code.
        """
        if self.outcome is None:
            self.outcome = (action, reason)

    @property
    def slot(self) -> tuple[str, str] | None:
        """Its slot, by the subject's own name."""
        given = self.candidate.slot
        return given if given is None or self.subject is None else (self.subject, given[1])

    @property
    def is_guess(self) -> bool:
        """Whether it is but a guess."""
        return self.unsure or self.memory_type == HYPOTHESIS

    @property
    def is_secret(self) -> bool:
        """Whether its content must not be shown."""
        return bool(self.findings)

    @property
    def lasts(self) -> float | None:
        """Minutes until it expires, as far as the policy knows."""
        if self.expires_in is not None:
            return self.expires_in
        return self.ttl if self.ttl is not None else self.types[self.memory_type].ttl

    def answers(self, *, useful: bool, duplicate: bool = False, correction: bool = False) -> Answers:
        """Return what a decision says about the candidate.

        Args:
            useful: Whether it was judged worth keeping.
            duplicate: Whether it says what is known.
            correction: Whether it changes what is known.
        """
        return Answers(
            useful_later=useful,
            duplicate=duplicate,
            correction=correction,
            short_task=self.memory_type in classify.SHORT_TASKS,
            expiry=self.lasts,
            profile=self.memory_type in classify.PROFILE,
        )

    def shown(self) -> dict[str, Any]:
        """Return the candidate as decisions show it: without the messages' texts, and without what is sensitive."""
        plain = self.candidate.to_json()
        plain.pop("source_messages", None)
        if self.is_secret and not (self.outcome and self.outcome[0] == Action.ASK):
            plain = {"content": self.shown_content()}
        return plain

    def shown_content(self) -> str:
        """Return the content without what is sensitive."""
        content = self.candidate.content
        return redact(content, self.findings) if isinstance(content, str) else _kinds(self.findings)

    def written(self) -> dict[str, Any]:
        """Return what `remember` is given, as plain JSON."""
        given = self.candidate
        fields: dict[str, Any] = {
            "content": self.sealed if self.sealed is not None else given.content,
            **{name: plain(getattr(given, name)) for name in WRITABLE},
            "memory_type": self.memory_type,
            "importance": self.importance,
            "confidence": self.confidence,
            "source_refs": list(given.source_refs or given.message_ids),
            # It must not outlive its day, nor inherit that from what it replaces.
            "pinned": False if self.sealed is not None else given.pinned,
            # A ciphertext has no meaning that a vector could hold.
            "index": False if self.sealed is not None or given.index is False else None,
            "ttl": self.ttl,
            "expires_in": self.expires_in,
        }
        return {name: value for name, value in fields.items() if value is not None and value != []}


def _kinds(findings: Sequence[SensitiveSpan]) -> str:
    return " ".join(f"[{kind}]" for kind in dict.fromkeys(one.kind for one in findings))
