"""Deciding, mid-loop, what becomes a memory, what replaces what, and what is forgotten."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from langgraph_forgetful_store.policy.admission import Admission, AdmissionScores
from langgraph_forgetful_store.policy.calibration import Calibration, calibrate
from langgraph_forgetful_store.policy.candidates import Answers, Candidate, Decision, SourceMessage
from langgraph_forgetful_store.policy.config import PolicySettings, Stage, TypeDefaults
from langgraph_forgetful_store.policy.draft import Draft
from langgraph_forgetful_store.policy.extraction import (
    AnyExtractor,
    AsyncExtractor,
    Extraction,
    ExtractionInput,
    Extractor,
    LLMExtractor,
    RulesExtractor,
)
from langgraph_forgetful_store.policy.findings import Screener, SensitiveSpan
from langgraph_forgetful_store.policy.judges import (
    AnyJudge,
    AsyncJudge,
    Judge,
    LLMJudge,
    Pair,
    Relation,
    RulesJudge,
    Verdict,
)
from langgraph_forgetful_store.policy.node import MemoryPolicy
from langgraph_forgetful_store.policy.screening import ScreeningIncomplete, find_sensitive
from langgraph_forgetful_store.policy.state import MemoryPolicyState, RecalledState, pending
from langgraph_forgetful_store.policy.stores import LifecycleStore
from langgraph_forgetful_store.policy.vault import Vault

if TYPE_CHECKING:
    from langgraph_forgetful_store.policy.middleware import MemoryMiddleware

__all__ = [
    "Admission",
    "AdmissionScores",
    "Answers",
    "AnyExtractor",
    "AnyJudge",
    "AsyncExtractor",
    "AsyncJudge",
    "Calibration",
    "Candidate",
    "Decision",
    "Draft",
    "Extraction",
    "ExtractionInput",
    "Extractor",
    "Judge",
    "LLMExtractor",
    "LLMJudge",
    "LifecycleStore",
    "MemoryMiddleware",
    "MemoryPolicy",
    "MemoryPolicyState",
    "Pair",
    "PolicySettings",
    "RecalledState",
    "Relation",
    "RulesExtractor",
    "RulesJudge",
    "Screener",
    "ScreeningIncomplete",
    "SensitiveSpan",
    "SourceMessage",
    "Stage",
    "TypeDefaults",
    "Vault",
    "Verdict",
    "calibrate",
    "find_sensitive",
    "pending",
]


def __getattr__(name: str) -> Any:
    # The middleware needs an extra, which the rest does not wait for.
    if name != "MemoryMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = import_module(f"{__name__}.middleware").MemoryMiddleware
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
