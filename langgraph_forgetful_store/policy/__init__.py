"""Deciding, mid-loop, what becomes a memory, what replaces what, and what is forgotten."""

from langgraph_forgetful_store.policy.admission import PRIORS, Admission
from langgraph_forgetful_store.policy.calibration import Calibration, calibrate
from langgraph_forgetful_store.policy.candidates import Candidate, Decision
from langgraph_forgetful_store.policy.config import PolicyRules, Template
from langgraph_forgetful_store.policy.extraction import Exchange, Extraction, Extractor, LLMExtractor, RulesExtractor
from langgraph_forgetful_store.policy.findings import Finding
from langgraph_forgetful_store.policy.judges import Judge, LLMJudge, Pair, Relation, RulesJudge, Verdict
from langgraph_forgetful_store.policy.node import MemoryPolicy
from langgraph_forgetful_store.policy.screening import ScreeningIncomplete, screen
from langgraph_forgetful_store.policy.state import MemoryPolicyState, RecalledState, waiting
from langgraph_forgetful_store.policy.vault import Vault, areveal, reveal

__all__ = [
    "PRIORS",
    "Admission",
    "Calibration",
    "Candidate",
    "Decision",
    "Exchange",
    "Extraction",
    "Extractor",
    "Finding",
    "Judge",
    "LLMExtractor",
    "LLMJudge",
    "MemoryPolicy",
    "MemoryPolicyState",
    "Pair",
    "PolicyRules",
    "RecalledState",
    "Relation",
    "RulesExtractor",
    "RulesJudge",
    "ScreeningIncomplete",
    "Template",
    "Vault",
    "Verdict",
    "areveal",
    "calibrate",
    "reveal",
    "screen",
    "waiting",
]
