"""The settings of a policy: every stage and strategy, on or off, in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.model.checks import (
    as_settings,
    check_count,
    check_end,
    check_flag,
    check_function,
    check_kind,
    fraction,
    ttl_to_ms,
    unusable,
)
from langgraph_forgetful_store.model.packing import Patch
from langgraph_forgetful_store.policy.admission import Admission
from langgraph_forgetful_store.policy.calibration import LITERAL_THRESHOLD, Calibration
from langgraph_forgetful_store.policy.draft import Draft
from langgraph_forgetful_store.policy.findings import Screener
from langgraph_forgetful_store.policy.screening import find_sensitive
from langgraph_forgetful_store.policy.vault import Vault

Stage = Callable[[Draft, "PolicySettings"], None]
Resolution = Literal["recency", "source", "confidence"]
LowConfidence = Literal["hypothesis", "refuse", "keep"]
Supplement = Literal["keep", "enrich"]
STAGES = ("verify", "classify", "importance", "confidence", "screen", "expiration", "admit")
ANY = "*"


@dataclass(frozen=True, slots=True)
class TypeDefaults:
    """What a type, a domain or both say of a memory that does not say it itself.

    Attributes:
        memory_type: Another type that it is given.
        importance: How much it matters, from 0 to 1.
        ttl: Minutes until it expires; reads refresh it, as with any ttl that a write gives.
        tags: Tags that are added to its own.
        preconditions: Preconditions that are added to its own.
        pinned: Whether it is kept from expiring.
        admit: Whether it is let in whatever its score; ``None``: its score decides.

    Raises:
        ConfigurationError: A value is unusable.
    """

    memory_type: str | None = None
    importance: float | None = None
    ttl: float | None = None
    tags: tuple[str, ...] = ()
    preconditions: tuple[str, ...] = ()
    pinned: bool | None = None
    admit: bool | None = None

    def __post_init__(self) -> None:
        written = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("ttl", "admit")}
        with as_settings():
            checked = Patch.arguments(written).given
            if self.ttl is not None:
                check_end(ttl_to_ms(self.ttl))
        for name in ("tags", "preconditions"):
            # Lists will do, but templates are merged as tuples, and `None` says nothing.
            object.__setattr__(self, name, tuple(checked.get(name, ())))
        check_flag(self.admit, "admit", optional=True)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PolicySettings:
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
        consent: What is done with sensitive data where the candidate says nothing: ``False``: they are refused,
            ``True``: they are encrypted, ``None``: the decision is ``ask``.
        vault: Encrypts sensitive data that the user agreed to keep.
        admission: The weights, threshold and priors of the admission.
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
    templates: Mapping[tuple[str, str], TypeDefaults] = field(default_factory=dict)
    screener: Screener = find_sensitive
    replaced: Mapping[str, Stage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in fields(self):
            if one.type == "bool":
                check_flag(getattr(self, one.name), one.name)
        check_flag(self.consent, "consent", optional=True)
        for name, kinds in (("resolution", Resolution), ("low_confidence", LowConfidence), ("supplement", Supplement)):
            if getattr(self, name) not in get_args(kinds):
                raise unusable(name, f"one of {', '.join(get_args(kinds))}", getattr(self, name))
        if self.vault is not None and not isinstance(self.vault, Vault):
            # It may be a key, which the message must not repeat.
            raise ConfigurationError(
                f"vault must be a Vault or None, got a {type(self.vault).__name__}: make it with Vault(key)"
            )
        if self.consent and self.vault is None:
            raise ConfigurationError("consent needs a vault, which encrypts what is kept: vault=Vault(key)")
        check_kind(self.admission, "admission", Admission, hint=", such as Admission(threshold=0.5)")
        check_kind(self.calibration, "calibration", Calibration, optional=True, hint=", such as Calibration(0.85),")
        with as_settings():
            fraction(self.hypothesis_below, "hypothesis_below")
            check_count(self.proposals, "proposals")
        check_function(self.screener, "screener", "from a text to findings (screen=False switches it off)")
        self._check_templates()
        self._check_replaced()

    def __repr__(self) -> str:
        """Say what differs from the defaults."""
        usual = PolicySettings()
        told = [one.name for one in fields(self) if getattr(self, one.name) != getattr(usual, one.name)]
        return f"PolicySettings({', '.join(f'{name}={getattr(self, name)!r}' for name in told)})"

    def _check_templates(self) -> None:
        allowed = "a dict of (type, domain), two non-empty str, to TypeDefaults"
        if not isinstance(self.templates, Mapping):
            raise unusable("templates", allowed, self.templates)
        for key, template in self.templates.items():
            is_pair = isinstance(key, tuple) and len(key) == 2 and all(isinstance(part, str) and part for part in key)
            if not (is_pair and isinstance(template, TypeDefaults)):
                raise ConfigurationError(f"templates must be {allowed}, got {key!r}: {template!r}")

    def _check_replaced(self) -> None:
        known = ", ".join(STAGES)
        if not isinstance(self.replaced, Mapping):
            raise unusable("replaced", f"a dict of functions by any of {known}", self.replaced)
        if unknown := [repr(name) for name in self.replaced if name not in STAGES]:
            raise ConfigurationError(f"replaced has unknown stages {', '.join(unknown)}; known are {known}")
        for name, stage in self.replaced.items():
            check_function(stage, f"replaced[{name!r}]", f"of a draft and the settings ({name}=False switches it off)")

    def template(self, memory_type: str, domain: str | None) -> TypeDefaults:
        """Return what a type and a domain say together.

        Args:
            memory_type: The name of the memory's type.
            domain: The domain that a candidate names; ``None``: it names none.
        """
        layers = [(ANY, ANY), (memory_type, ANY)]
        if domain is not None:
            layers += [(ANY, domain), (memory_type, domain)]
        merged: dict[str, Any] = {}
        for layer in layers:
            given = self.templates.get(layer)
            for one in fields(TypeDefaults):
                value = getattr(given, one.name, None)
                if isinstance(value, tuple):
                    merged[one.name] = tuple(dict.fromkeys([*merged.get(one.name, ()), *value]))
                elif value is not None:
                    merged[one.name] = value
        return TypeDefaults(**merged)

    @property
    def proposes_from(self) -> float:
        """The similarity from which on something known is looked at."""
        return -1.0 if self.calibration is None else self.calibration.threshold

    @property
    def in_doubt_from(self) -> float:
        """The similarity from which on something known that the judge is unsure about is a conflict."""
        return LITERAL_THRESHOLD if self.calibration is None else self.calibration.threshold
