"""What is public is what `__all__` names; what needs an extra is imported when it is asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import langgraph_forgetful_store

PUBLIC = {
    "": """ForgetfulStore MemoryItem MemorySearchItem MemoryStatus MemoryType MemoryPolicy MemoryPolicyState
        RecallMemories memory_tools assemble_context namespace_label Lifecycle AuditRecord ErasureReceipt IndexConfig
        TTLConfig StoreSettings RecallOptions WriteOptions ForgetfulStoreError ConfigurationError UnsupportedServerError
        CorruptRecordError MemoryNotFoundError IllegalTransitionError VersionConflictError __version__""",
    ".scoring": "Weighted Similarity GenerativeAgents Multiplicative Relevance ScoringPreset Columns Scores Term",
    ".policy": """PolicySettings TypeDefaults Draft Stage Screener SensitiveSpan SourceMessage MemoryMiddleware Vault
        MemoryPolicy MemoryPolicyState RecalledState Admission AdmissionScores Calibration calibrate Candidate Decision
        Answers Extraction ExtractionInput Extractor AsyncExtractor AnyExtractor RulesExtractor LLMExtractor Judge
        AsyncJudge AnyJudge RulesJudge LLMJudge Pair Relation Verdict LifecycleStore ScreeningIncomplete find_sensitive
        pending""",
    ".testing": "Clock Face faces StoreContract WordEmbeddings check_keys",
}


@pytest.mark.parametrize("suffix", PUBLIC)
def test_these_names_are_public_and_no_others(suffix: str) -> None:
    module = importlib.import_module(langgraph_forgetful_store.__name__ + suffix)
    assert set(module.__all__) == set(PUBLIC[suffix].split())
    assert len(module.__all__) == len(set(module.__all__))
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("suffix", ["", ".policy"])
def test_a_name_that_is_none_is_no_attribute(suffix: str) -> None:
    module = importlib.import_module(langgraph_forgetful_store.__name__ + suffix)
    with pytest.raises(AttributeError, match="has no attribute 'PRIORS'"):
        _ = module.PRIORS


def test_the_policy_is_imported_without_the_extra_that_its_middleware_needs() -> None:
    program = (
        "import sys; from langgraph_forgetful_store import policy; assert 'langchain.agents' not in sys.modules;"
        " policy.MemoryMiddleware; assert 'langchain.agents' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
