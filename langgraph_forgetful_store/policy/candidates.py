"""What may become a memory, and what was decided about it: both are plain JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Required, Self, TypedDict

from langgraph_forgetful_store.model.checks import UnusableValueError, check_end, fraction, ttl_to_ms
from langgraph_forgetful_store.model.fields import DOCS, WRITABLE, FieldSpec, WritableFields, documented, plain

USER_SUBJECT = "user"


class Answers(TypedDict):
    """What a decision says about a memory.

    Attributes:
        useful_later: Whether it was judged worth keeping.
        duplicate: Whether it says what is known.
        correction: Whether it changes what is known.
        short_task: Whether it serves a task that ends soon.
        expiry: Minutes until it expires; ``None``: never, or what the store does by default.
        profile: Whether it describes the user.
    """

    useful_later: bool
    duplicate: bool
    correction: bool
    short_task: bool
    expiry: float | None
    profile: bool


class Decision(TypedDict):
    """What is to be done about a candidate or an action: plain JSON.

    Attributes:
        id: The same for the same candidate, namespace and messages, so that nothing is done twice.
        candidate: What will be written, or the action that was asked for; with the ``namespace`` and, where a row was
            looked at, its ``expected_version``; ``expires_in`` is in minutes, ``recall_id`` the recall before it,
            ``proposed`` what was said of it that no write is given.
        relation: To what is known: ``ADD``, ``UPDATE``, ``CONTRADICT``, ``NEGATE``, ``SUPPLEMENT`` or ``DUPLICATE``;
            ``None`` for actions and where it did not come to that.
        action: ``remember``, ``supersede``, ``retire``, ``merge``, ``refuse``, ``ask``, ``abstain`` or the action that
            was asked for.
        key: The row that is written or acted on.
        supersedes: The key of the row that is replaced.
        reason: Why, for people; its first word is a code.
        scores: What was weighed, by name.
        answers: What it says about the memory.
    """

    id: str
    candidate: dict[str, Any]
    relation: str | None
    action: str
    key: str | None
    supersedes: str | None
    reason: str
    scores: dict[str, Any]
    answers: Answers


def no_answers() -> Answers:
    """Return the answers for what is no memory."""
    return Answers(useful_later=False, duplicate=False, correction=False, short_task=False, expiry=None, profile=False)


class SourceMessage(TypedDict, total=False):
    """A message that a candidate was taken from.

    Attributes:
        id: The id of the message.
        content: The text of the message.
        role: Who said it: ``user``, ``assistant`` or ``tool``.
    """

    id: str
    content: Required[str]
    role: str


class Invalid(ValueError):
    """A field of a candidate or an action is unusable; the message does not repeat its value.

    Attributes:
        field: Its name.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


def _optional_text(value: object, name: str) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError(f"{name} of a candidate must be a non-empty str or None, got {type(value).__name__}")
    return value


def texts(value: object, name: str) -> tuple[str, ...]:
    """Check a list of texts."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) and part for part in value):
        raise ValueError(f"{name} of a candidate must be a list of non-empty str, got {type(value).__name__}")
    return tuple(dict.fromkeys(value))


def _flag(value: object, name: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} of a candidate must be True, False or None, got {type(value).__name__}")
    return value


def source_messages(value: object) -> tuple[SourceMessage, ...]:
    """Check the messages that something was taken from."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise ValueError(f"source_messages of a candidate must be a list, got {type(value).__name__}")
    found: list[SourceMessage] = []
    for part in value:
        if isinstance(part, str):
            found.append(SourceMessage(content=part))
        elif isinstance(part, Mapping) and isinstance(part.get("content"), str):
            message = SourceMessage(content=part["content"])
            if part.get("id") is not None:
                message["id"] = str(part["id"])
            if part.get("role") is not None:
                message["role"] = str(part["role"])
            found.append(message)
        else:
            raise ValueError(f"a source message must be a text, or a dict with its content, got {type(part).__name__}")
    return tuple(found)


def _content(value: object) -> str | dict[str, Any]:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, Mapping) and value and all(isinstance(key, str) for key in value):
        try:
            plain = json.loads(json.dumps(dict(value), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"content of a candidate must be plain JSON: {type(error).__name__}") from error
        return dict(plain)
    raise ValueError(f"content of a candidate must be a non-empty str or dict, got {type(value).__name__}")


def _ttl(value: object) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"ttl of a candidate must be a number of minutes or None, got {type(value).__name__}")
    if value is not None:
        check_end(ttl_to_ms(value, name := "ttl of a candidate"), name)
    return None if value is None else float(value)


def _fraction(value: object, name: str) -> float | None:
    return None if value is None else fraction(value, f"{name} of a candidate")


def _reader(spec: FieldSpec) -> Callable[[object, str], Any]:
    """Return what reads a field of memories; what it says does not repeat the value."""
    kind = spec.kind
    assert kind is not None

    def read(value: object, name: str) -> Any:
        if value is None:
            return () if spec.default == () else None
        try:
            return kind.read(value, name)
        except UnusableValueError as error:
            problem = f"{name} of a candidate must be {error.allowed} or None, got {type(value).__name__}"
            raise ValueError(problem) from None

    return read


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "content": lambda value, _: _content(value),
    "source_messages": lambda value, _: source_messages(value),
    "ttl": lambda value, _: _ttl(value),
    **{name: _reader(spec) for name, spec in WRITABLE.items()},
    **dict.fromkeys(("key", "domain", "sensitive", "relation_to"), _optional_text),
    **dict.fromkeys(("model_confidence", "utility"), _fraction),
    **dict.fromkeys(("explicit", "hedged", "negates", "corrects", "consent", "index"), _flag),
}
# What was proposed beside what is written; with it a decision can be made once more.
PROPOSED = "proposed"
# What a decision's candidate holds beside what was proposed.
DECIDED = ("namespace", "expected_version", "expires_in", "recall_id", PROPOSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(WritableFields):
    """What may become a memory: `remember`'s fields, and what is known about where it comes from.

    Attributes:
        content: A text, or a dict of JSON types.
        key: The key to write; ``None``: one is made from the decision's id.
        index: ``False``: its content is not embedded.
        ttl: Minutes until it expires; ``None``: what its type says.
        source_messages: The messages that it was taken from; without any, nothing can be verified.
        model_confidence: How sure the model is that extracted it; one of the terms of the confidence.
        utility: How useful it will be, as the extractor judged.
        hedged: Whether it was said with doubt; ``None``: the rules look.
        negates: Whether it only denies what is known; ``None``: the rules look.
        corrects: Whether it was said as a correction; ``None``: the rules look.
        explicit: Whether the user asked to remember it, which spares it the admission.
        sensitive: What kind of sensitive data it is, as the extractor saw it.
        consent: Whether the user agreed to keep sensitive data.
        domain: The domain whose template it is given, with that of its type.
        relation_to: The key of the row it is about, where the extractor knows.
    """

    content: str | dict[str, Any]
    key: str | None = None
    index: bool | None = None
    ttl: float | None = None
    source_messages: tuple[SourceMessage, ...] = ()
    model_confidence: float | None = None
    utility: float | None = None
    hedged: bool | None = None
    negates: bool | None = None
    corrects: bool | None = None
    explicit: bool | None = None
    sensitive: str | None = None
    consent: bool | None = None
    domain: str | None = None
    relation_to: str | None = None

    @classmethod
    def parse(cls, given: object) -> Self:
        """Check a candidate that somebody proposes.

        Args:
            given: A text, a dict with ``content`` and any other of the fields, or a candidate.

        Raises:
            Invalid: It is none of these, a field is unknown (the message lists the known ones), or a value is unusable.
        """
        if isinstance(given, cls):
            # It was made without a check.
            given = given.to_json()
        if isinstance(given, str):
            given = {"content": given}
        if not isinstance(given, Mapping):
            raise Invalid("candidate", f"a candidate must be a text or a dict with content, got {type(given).__name__}")
        if unknown := [repr(name) for name in given if name not in _READERS and name not in DECIDED]:
            known = ", ".join(_READERS)
            raise Invalid("unknown fields", f"a candidate has unknown fields {', '.join(unknown)}; known are {known}")
        if "content" not in given:
            raise Invalid("content", "a candidate needs content")
        checked: dict[str, Any] = {}
        for name in _READERS:
            if name in given:
                try:
                    checked[name] = _READERS[name](given[name], name)
                except ValueError as error:
                    raise Invalid(name, str(error)) from None
        candidate = cls(**checked)
        if (candidate.subject is None) != (candidate.attribute is None):
            raise Invalid("attribute", "a candidate's slot needs both subject and attribute")
        start, end = candidate.valid_from, candidate.valid_until
        if start is not None and end is not None and end <= start:
            raise Invalid("valid_until", "valid_until of a candidate must be after its valid_from")
        return candidate

    @property
    def text(self) -> str:
        """What it says, as one text."""
        return text_of(self.content)

    @property
    def slot(self) -> tuple[str, str] | None:
        """Its slot, where it names one."""
        return None if self.subject is None or self.attribute is None else (self.subject, self.attribute)

    @property
    def message_ids(self) -> tuple[str, ...]:
        """The ids of the messages that it was taken from."""
        return tuple(message["id"] for message in self.source_messages if message.get("id"))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON, without what is not set."""
        given: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None or value == ():
                continue
            if field.name == "source_messages":
                value = [dict(part) for part in value]
            given[field.name] = plain(value)
        return given


documented(Candidate, DOCS)


def text_of(content: str | Mapping[str, Any]) -> str:
    """Return what a content says, as one text: its ``content`` or ``text`` where it has one, else its JSON."""
    if isinstance(content, str):
        return content
    for name in ("content", "text"):
        if isinstance(content.get(name), str):
            return str(content[name])
    return json.dumps(dict(content), ensure_ascii=False, sort_keys=True, default=str)


def fingerprint(given: Any) -> str:
    """Return what tells one candidate or action from others."""
    try:
        plain = json.dumps(given, ensure_ascii=False, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        # What is no JSON at all is refused, and must leave the state all the same.
        plain = repr(given)
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def decision_id(given: Mapping[str, Any], namespace: Sequence[str], occasion: Sequence[str]) -> str:
    """Return what names a decision: the same for the same input, so that a resumed run does nothing twice.

    Args:
        given: The candidate or action, as plain JSON.
        namespace: Where it goes.
        occasion: When it was said: ids of messages, or of the checkpoint.
    """
    # The texts of messages don't count, as only their ids are sure to be the same on a resume.
    said = {name: value for name, value in given.items() if name not in ("source_messages", *DECIDED)}
    return fingerprint([said, list(namespace), list(occasion)])
