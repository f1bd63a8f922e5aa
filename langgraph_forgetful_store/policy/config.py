"""The rules of a policy: every stage and strategy, on or off, in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy.admission import Admission
from langgraph_forgetful_store.policy.calibration import LITERAL_THRESHOLD, Calibration
from langgraph_forgetful_store.policy.screening import Screener
from langgraph_forgetful_store.policy.screening import screen as find_sensitive
from langgraph_forgetful_store.policy.vault import Vault

if TYPE_CHECKING:
    from langgraph_forgetful_store.policy.stages import Draft

Stage = Callable[["Draft", "PolicyRules"], None]
Resolution = Literal["recency", "source", "confidence"]
LowConfidence = Literal["hypothesis", "refuse", "keep"]
Supplement = Literal["keep", "enrich"]
STAGES = ("verify", "classify", "importance", "confidence", "screen", "expiration", "admit")
ANY = "*"


@dataclass(frozen=True, slots=True)
class Template:
    """What a type, a domain or both say of a memory that does not say it itself.

    Attributes:
        memory_type: Another type.
        importance: From 0 to 1.
        ttl: Minutes; reads slide it, as with any ttl that a write gives.
        tags: Added to its own.
        preconditions: Added to its own.
        pinned: Whether it is pinned.
        admit: Whether it is let in whatever its score; ``None``: its score decides.
    """

    memory_type: str | None = None
    importance: float | None = None
    ttl: float | None = None
    tags: tuple[str, ...] = ()
    preconditions: tuple[str, ...] = ()
    pinned: bool | None = None
    admit: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRules:
    """What the policy does.

    Attributes:
        verify: Whether names, numbers and negations must stand in the messages a candidate was taken from.
        classify: Whether a type is found for a candidate that names none.
        importance: Whether an importance is found likewise.
        confidence: Whether a confidence is found likewise, and doubt caps it.
        screen: Whether sensitive data are held back.
        expiration: Whether little confidence shortens a type's TTL.
        admit: Whether a memory has to be worth its place.
        duplicates: Whether what is known already is merged.
        conflicts: Whether what is known is superseded or retired by what contradicts it.
        resolution: What wins a conflict: what is newer (``recency``), the better source (``source``: user, then tool
            and database, then web, then model), or what is surer (``confidence``).
        supplement: Whether what adds to a memory stands beside it (``keep``) or replaces it with both (``enrich``).
        low_confidence: Below `hypothesis_below` a memory becomes a ``hypothesis``, is refused (``refuse``), or is kept
            as it is (``keep``). An allergy or intolerance stays what it is all the same, for it must not be overlooked;
            its confidence is capped, so that contexts ask to confirm it.
        hypothesis_below: The confidence below which that is so.
        consent: What is done with sensitive data where the candidate says nothing: ``False``: refused, ``True``:
            encrypted, ``None``: the decision is ``ask``.
        vault: Encrypts sensitive data that the user agreed to keep.
        admission: Weights, threshold and priors.
        calibration: From which similarity on something known is looked at, and is in doubt a conflict; ``None``: the
            nearest are looked at, and from .85 on they are in doubt a conflict.
        proposals: How many similar memories are looked at.
        templates: By type and domain, ``"*"`` for any; what is narrower counts, a domain more than a type.
        screener: Finds sensitive data in a text.
        replaced: Stages of your own, by name: ``verify``, ``classify``, ``importance``, ``confidence``, ``screen``,
            ``expiration`` or ``admit``.

    Raises:
        ConfigurationError: A value is unusable.
    """

    verify: bool = True
    classify: bool = True
    importance: bool = True
    confidence: bool = True
    screen: bool = True
    expiration: bool = True
    admit: bool = True
    duplicates: bool = True
    conflicts: bool = True
    resolution: Resolution = "recency"
    supplement: Supplement = "keep"
    low_confidence: LowConfidence = "hypothesis"
    hypothesis_below: float = 0.5
    consent: bool | None = False
    vault: Vault | None = None
    admission: Admission = field(default_factory=Admission)
    calibration: Calibration | None = None
    proposals: int = 5
    templates: Mapping[tuple[str, str], Template] = field(default_factory=dict)
    screener: Screener = find_sensitive
    replaced: Mapping[str, Stage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type == "bool" and not isinstance(value, bool):
                raise ConfigurationError(f"{one.name} must be True or False, got {value!r}")
        for name, kinds in (("resolution", Resolution), ("low_confidence", LowConfidence), ("supplement", Supplement)):
            if getattr(self, name) not in get_args(kinds):
                raise ConfigurationError(
                    f"{name} must be one of {', '.join(get_args(kinds))}, got {getattr(self, name)!r}"
                )
        if self.consent not in (True, False, None):
            raise ConfigurationError(f"consent must be True, False or None, got {self.consent!r}")
        if self.consent and self.vault is None:
            raise ConfigurationError("consent needs a vault, which encrypts what is kept: vault=Vault(key)")
        if isinstance(self.hypothesis_below, bool) or not 0 <= self.hypothesis_below <= 1:
            raise ConfigurationError(f"hypothesis_below must be a number from 0 to 1, got {self.hypothesis_below!r}")
        if isinstance(self.proposals, bool) or not isinstance(self.proposals, int) or self.proposals < 0:
            raise ConfigurationError(f"proposals must be a whole number from 0, got {self.proposals!r}")
        if unknown := [repr(name) for name in self.replaced if name not in STAGES]:
            raise ConfigurationError(f"replaced has unknown stages {', '.join(unknown)}; known are {', '.join(STAGES)}")
        for key, template in self.templates.items():
            if not (isinstance(key, tuple) and len(key) == 2 and isinstance(template, Template)):
                raise ConfigurationError(f"templates must map (type, domain) to Template, got {key!r}: {template!r}")

    def template(self, memory_type: str, domain: str | None) -> Template:
        """Return what a type and a domain say together."""
        layers = [(ANY, ANY), (memory_type, ANY)]
        if domain is not None:
            layers += [(ANY, domain), (memory_type, domain)]
        merged: dict[str, Any] = {}
        for layer in layers:
            given = self.templates.get(layer)
            for one in fields(Template):
                value = getattr(given, one.name, None)
                if isinstance(value, tuple):
                    merged[one.name] = tuple(dict.fromkeys([*merged.get(one.name, ()), *value]))
                elif value is not None:
                    merged[one.name] = value
        return Template(**merged)

    @property
    def proposes_from(self) -> float:
        """The similarity from which on something known is looked at."""
        return -1.0 if self.calibration is None else self.calibration.threshold

    @property
    def in_doubt_from(self) -> float:
        """The similarity from which on something known that the judge is unsure about is a conflict."""
        return LITERAL_THRESHOLD if self.calibration is None else self.calibration.threshold
