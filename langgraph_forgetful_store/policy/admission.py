"""Admission (A-MAC): whether a memory is worth its place, by five factors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypedDict

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.model.checks import as_settings, fraction, unusable

FACTORS = ("utility", "confidence", "novelty", "recency", "prior")
# A type's prior weighs most by far: it alone settles most cases.
PRIORS: Mapping[str, float] = MappingProxyType(
    {
        "identity": 0.95,
        "preference": 0.9,
        "fact": 0.85,
        "procedural": 0.85,
        "commitment": 0.8,
        "tool": 0.8,
        "task": 0.7,
        "intent": 0.7,
        "hypothesis": 0.6,
        "episodic": 0.6,
        "summary": 0.6,
        "generic": 0.6,
        "sensitive": 0.6,
        "opinion": 0.5,
        "emotion": 0.2,
        "conversation": 0.1,
    }
)
WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"utility": 0.1, "confidence": 0.1, "novelty": 0.1, "recency": 0.1, "prior": 0.6}
)
THRESHOLD = 0.55
_RECENCY_HALF_LIFE_DAYS = 30.0


class AdmissionScores(TypedDict):
    """How an admission came about.

    Attributes:
        score: The weighted sum of the factors.
        threshold: What the score has to be above.
        factors: The value of each factor, by its name.
        weights: The weight of each factor, by its name.
    """

    score: float
    threshold: float
    factors: dict[str, float]
    weights: dict[str, float]


@dataclass(frozen=True, slots=True)
class Admission:
    """The weights, the threshold and the types' priors.

    Attributes:
        threshold: A memory is let in where its score is above it; equal is not.
        weights: By factor: ``utility``, ``confidence``, ``novelty``, ``recency``, ``prior``.
        priors: By memory type; that of ``generic`` for others.

    Raises:
        ConfigurationError: A weight is missing, unknown or no number from 0 to 1, or the like.
    """

    threshold: float = THRESHOLD
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    priors: Mapping[str, float] = field(default_factory=lambda: PRIORS)

    def __post_init__(self) -> None:
        with as_settings():
            fraction(self.threshold, "threshold")
        for name, by in (("weights", "factor"), ("priors", "memory type")):
            given = getattr(self, name)
            if not isinstance(given, Mapping):
                raise unusable(name, f"a dict of numbers by {by}", given)
            with as_settings():
                for key, value in given.items():
                    fraction(value, f"{name}[{key!r}]")
        if set(self.weights) != set(FACTORS):
            raise ConfigurationError(f"weights need {', '.join(FACTORS)}, got {', '.join(map(str, self.weights))}")
        if "generic" not in self.priors:
            raise ConfigurationError(f"priors need one for 'generic', got {', '.join(map(str, self.priors))}")

    def weigh(
        self, memory_type: str, *, utility: float, confidence: float, novelty: float, age_days: float = 0.0
    ) -> AdmissionScores:
        """Score whether a memory is worth its place.

        Args:
            memory_type: The name of its type, which gives the prior.
            utility: How useful it will be, from 0 to 1.
            confidence: How sure it is, from 0 to 1.
            novelty: 1 less its similarity to what is nearest to it.
            age_days: How many days ago it was said or happened.
        """
        factors = {
            "utility": utility,
            "confidence": confidence,
            "novelty": novelty,
            "recency": math.pow(0.5, max(age_days, 0.0) / _RECENCY_HALF_LIFE_DAYS),
            "prior": self.priors.get(memory_type, self.priors["generic"]),
        }
        factors = {name: round(min(max(value, 0.0), 1.0), 6) for name, value in factors.items()}
        # Rounded, so that a sum that is the threshold on paper is not above it in floating point.
        score = round(math.fsum(self.weights[name] * factors[name] for name in FACTORS), 9)
        return AdmissionScores(
            score=score,
            threshold=self.threshold,
            factors=factors,
            weights={name: self.weights[name] for name in FACTORS},
        )

    @staticmethod
    def admits(scores: AdmissionScores) -> bool:
        """Whether a memory with such scores is let in.

        Args:
            scores: What `weigh` returned for it.
        """
        return scores["score"] > scores["threshold"]
