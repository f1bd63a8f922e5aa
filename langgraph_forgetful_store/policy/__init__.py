"""Deciding, mid-loop, what becomes a memory, what replaces what, and what is forgotten."""

from langgraph_forgetful_store.policy.admission import Admission
from langgraph_forgetful_store.policy.calibration import Calibration, calibrate
from langgraph_forgetful_store.policy.candidates import Candidate, Decision
from langgraph_forgetful_store.policy.config import PolicySettings, TypeDefaults
from langgraph_forgetful_store.policy.extraction import (
    Extraction,
    ExtractionInput,
    Extractor,
    LLMExtractor,
    RulesExtractor,
)
from langgraph_forgetful_store.policy.findings import SensitiveSpan
from langgraph_forgetful_store.policy.judges import Judge, LLMJudge, Pair, Relation, RulesJudge, Verdict
from langgraph_forgetful_store.policy.node import MemoryPolicy
from langgraph_forgetful_store.policy.screening import ScreeningIncomplete, find_sensitive
from langgraph_forgetful_store.policy.state import MemoryPolicyState, RecalledState, pending
from langgraph_forgetful_store.policy.vault import Vault

__all__ = [
    "Admission",
    "Calibration",
    "Candidate",
    "Decision",
    "Extraction",
    "ExtractionInput",
    "Extractor",
    "Judge",
    "LLMExtractor",
    "LLMJudge",
    "MemoryPolicy",
    "MemoryPolicyState",
    "Pair",
    "PolicySettings",
    "RecalledState",
    "Relation",
    "RulesExtractor",
    "RulesJudge",
    "ScreeningIncomplete",
    "SensitiveSpan",
    "TypeDefaults",
    "Vault",
    "Verdict",
    "calibrate",
    "find_sensitive",
    "pending",
]
