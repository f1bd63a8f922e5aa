"""The stages before anything known is looked at: each works on a draft, and each can be replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from langgraph_forgetful_store.model.fields import DEFAULT_CONFIDENCE, WRITABLE, texts_in
from langgraph_forgetful_store.model.memory_types import HYPOTHESIS
from langgraph_forgetful_store.policy import classify, rules, wording
from langgraph_forgetful_store.policy.candidates import Candidate
from langgraph_forgetful_store.policy.codes import Action, Code
from langgraph_forgetful_store.policy.config import PolicySettings, Stage
from langgraph_forgetful_store.policy.draft import Draft
from langgraph_forgetful_store.policy.extraction import with_fact
from langgraph_forgetful_store.policy.facts import parse_user_fact
from langgraph_forgetful_store.policy.findings import SensitiveSpan
from langgraph_forgetful_store.policy.vault import MAX_MINUTES, SENSITIVE
from langgraph_forgetful_store.policy.verification import unsupported

CONFLICT_TAG = "conflict"


def verify(draft: Draft, settings: PolicySettings) -> None:
    """Refuse what its source messages do not hold."""
    sources = [message["content"] for message in draft.candidate.source_messages]
    if sources and unsupported(draft.candidate.text, sources):
        # What is missing is not told: it may be sensitive.
        draft.settle(Action.REFUSE, Code.UNSUPPORTED.because("no source message holds all of content"))


def find_type(draft: Draft, settings: PolicySettings) -> None:
    """Find the type, and the slot that an unnamed one plainly has."""
    candidate = draft.candidate
    if isinstance(candidate.content, str) and candidate.slot is None and candidate.source == "user":
        fact = parse_user_fact(wording.heard(candidate.content))
        if fact is not None:
            candidate = draft.candidate = with_fact(candidate, fact)
    draft.memory_type = candidate.memory_type or classify.classify(wording.heard(candidate.text))


def find_importance(draft: Draft, settings: PolicySettings) -> None:
    """Find the importance."""
    draft.importance = classify.rate_importance(wording.heard(draft.candidate.text), draft.memory_type)


def find_confidence(draft: Draft, settings: PolicySettings) -> None:
    """Find the confidence: given, or of the model and of the rules; doubt caps it."""
    given = draft.candidate
    draft.hedged = rules.is_hedged(wording.heard(given.text)) if given.hedged is None else given.hedged
    if given.confidence is not None:
        fused = min(given.confidence, rules.HEDGED_CONFIDENCE) if draft.hedged else given.confidence
    elif given.model_confidence is None and given.source is None:
        fused = classify.fuse_confidence(rule=DEFAULT_CONFIDENCE, hedged=draft.hedged)
    else:
        rule = classify.rule_confidence(wording.heard(given.text), given.source)
        fused = classify.fuse_confidence(given.model_confidence, rule, hedged=draft.hedged)
        draft.scores["confidence_terms"] = {"model": given.model_confidence, "rule": rule}
    draft.confidence = fused


def weigh_doubt(draft: Draft, settings: PolicySettings) -> None:
    """Make a hypothesis of what is not sure enough, or refuse it, but for what can do harm when it is overlooked.

    An allergy or intolerance is kept as what it is, whatever the rules say: "may be allergic to penicillin" must be
    seen by the next recall, and not be gone in a week. Its confidence stays capped, so contexts ask to confirm it.
    """
    if draft.confidence >= settings.hypothesis_below or settings.low_confidence == "keep":
        return
    if draft.memory_type == "identity" and classify.CRITICAL.search(wording.heard(draft.candidate.text)):
        draft.unsure = True
    elif settings.low_confidence == "refuse":
        draft.settle(
            Action.REFUSE, Code.LOW_CONFIDENCE.because(f"{draft.confidence:g} is below {settings.hypothesis_below:g}")
        )
    else:
        draft.memory_type = HYPOTHESIS


def hold_back(draft: Draft, settings: PolicySettings) -> None:
    """Hold back what is sensitive: refused, asked for, or encrypted."""
    given = draft.candidate
    if settings.vault is not None and settings.vault.opens(given.content):
        # It has been through this stage, and is decided about once more.
        draft.sealed, draft.memory_type = dict(given.content) if isinstance(given.content, Mapping) else None, SENSITIVE
        return
    findings = list(settings.screener(_whole(given)))
    if given.sensitive and not (
        given.sensitive == "health" and classify.HEALTH_IDENTITY.search(wording.heard(given.text))
    ):
        label = given.sensitive if re.fullmatch(r"[A-Za-z_ ]{1,40}", given.sensitive) else SENSITIVE
        findings.append(SensitiveSpan(label, 0, len(given.text)))
    if not findings:
        # What the slot is called, or the next sentence said, may tell what a bare value is.
        findings = [SensitiveSpan(one.kind, 0, len(given.text)) for one in settings.screener(_in_its_place(given))]
    if draft.memory_type == SENSITIVE and not findings:
        findings.append(SensitiveSpan(SENSITIVE, 0, len(given.text)))
    if not findings:
        return
    draft.findings = tuple(findings)
    kinds = ", ".join(dict.fromkeys(one.kind for one in findings))
    consent = settings.consent if given.consent is None else given.consent
    if consent is None:
        draft.settle(Action.ASK, Code.SENSITIVE.because(f"{kinds}; nobody said whether it may be kept"))
    elif not consent:
        draft.settle(Action.REFUSE, Code.SENSITIVE.because(kinds))
    elif settings.vault is None:
        draft.settle(
            Action.REFUSE, Code.SENSITIVE.because(f"{kinds}; it may be kept, but there is no vault that encrypts it")
        )
    elif settings.screener("\n".join(_beside(given))):
        draft.settle(
            Action.REFUSE, Code.SENSITIVE.because(f"{kinds}; only content can be encrypted, not what is beside it")
        )
    else:
        draft.sealed = settings.vault.seal(given.content, kinds)
        draft.memory_type = SENSITIVE


def _whole(given: Candidate) -> str:
    """Return all of a candidate that would be stored; its content comes first, so that places in it stay."""
    content = given.content if isinstance(given.content, str) else json.dumps(given.content, ensure_ascii=False)
    return "\n".join([content, *_beside(given)])


_POINTS_BACK = re.compile(r"^\s*(?:it|that|this)\b|^\s*[这那]", re.IGNORECASE)


def _in_its_place(given: Candidate) -> str:
    """Return a candidate's text with the name of its slot, and with what points back to it in a source message."""
    text = wording.heard(given.text)
    placed = [f"{given.attribute}: {text}"] if given.attribute else []
    for message in given.source_messages:
        said = wording.sentences(message["content"])
        placed += [
            f"{first.rstrip('.!。！')}, {then}"
            for first, then in pairwise(said)
            if _POINTS_BACK.match(then) and (first in text or text.rstrip(".!。！") in first)
        ]
    return "\n".join(placed)


def _beside(given: Candidate) -> list[str]:
    """Return the texts of a candidate that would be stored, or shown, beside its content."""
    fields = [given.key, *(getattr(given, name) for name in WRITABLE), given.domain, given.sensitive]
    return [text for value in fields for text in texts_in(value)]


def find_expiration(draft: Draft, settings: PolicySettings) -> None:
    """Shorten the TTL of a type where the confidence is low, and that of a sensitive memory to a day."""
    given, kind = draft.candidate, draft.types[draft.memory_type].ttl
    if given.ttl is not None and draft.ttl is None:
        draft.ttl = given.ttl
    if draft.memory_type == SENSITIVE:
        # A ttl that a write gives is refreshed by reads; this one must not be.
        wanted = min([MAX_MINUTES, *(ttl for ttl in (draft.ttl, kind) if ttl is not None)])
        draft.ttl, draft.expires_in = None, wanted
    elif kind is not None and draft.ttl is None:
        shorter = classify.shortened_ttl(kind, draft.confidence, settings.hypothesis_below)
        draft.expires_in = None if shorter == kind else shorter


def admit(draft: Draft, settings: PolicySettings) -> None:
    """Refuse what is not worth its place; the user's own words, what was asked for and runs' own rows are let in."""
    given = draft.candidate
    if not given.explicit and rules.is_filler(given.text):
        draft.settle(Action.REFUSE, Code.NOT_USEFUL.because("it keeps the conversation going, and says nothing"))
        return
    importance = 0.5 if draft.importance is None else draft.importance
    age = (draft.now - given.valid_from).total_seconds() / 86_400 if given.valid_from else 0.0
    scores = settings.admission.weigh(
        draft.memory_type,
        utility=importance if given.utility is None else given.utility,
        confidence=draft.confidence,
        novelty=draft.novelty,
        age_days=age,
    )
    draft.scores["admission"] = scores
    bypass = given.explicit or given.run_id is not None or given.source == "user" or given.relation_to is not None
    wanted = settings.template(draft.memory_type, given.domain).admit
    if wanted is False:
        draft.settle(Action.REFUSE, Code.NOT_ADMITTED.because(f"its template keeps {draft.memory_type} out"))
    elif not (wanted or bypass or settings.admission.admits(scores)):
        draft.settle(
            Action.REFUSE, Code.NOT_ADMITTED.because(f"{scores['score']:.3f} is not above {scores['threshold']:g}")
        )


def apply_template(draft: Draft, settings: PolicySettings) -> None:
    """Fill in what the type and the domain say, where the candidate says nothing."""
    given = draft.candidate
    template = settings.template(draft.memory_type, given.domain)
    if template.memory_type is not None and given.memory_type is None:
        draft.memory_type = template.memory_type
    if template.importance is not None and given.importance is None:
        draft.importance = template.importance
    if template.ttl is not None and given.ttl is None:
        draft.ttl = template.ttl
    if template.pinned is not None and given.pinned is None:
        given = replace(given, pinned=template.pinned)
    merged = tuple(dict.fromkeys([*given.preconditions, *template.preconditions]))
    tags = tuple(dict.fromkeys([*given.tags, *template.tags]))
    draft.candidate = replace(given, preconditions=merged, tags=tags)


_DEFAULTS: Mapping[str, Stage] = {
    "verify": verify,
    "classify": find_type,
    "importance": find_importance,
    "confidence": find_confidence,
    "screen": hold_back,
    "expiration": find_expiration,
    "admit": admit,
}


def run_stage(name: str, draft: Draft, settings: PolicySettings) -> None:
    """Run a stage, or the user's in its place, unless it is off."""
    if getattr(settings, name):
        settings.replaced.get(name, _DEFAULTS[name])(draft, settings)


def prepare(draft: Draft, settings: PolicySettings) -> Draft:
    """Run the stages that need to know of nothing but the candidate."""
    given = draft.candidate
    draft.memory_type = given.memory_type or draft.memory_type
    draft.confidence = DEFAULT_CONFIDENCE if given.confidence is None else given.confidence
    run_stage("verify", draft, settings)
    run_stage("classify", draft, settings)
    apply_template(draft, settings)
    if given.importance is not None:
        draft.importance = given.importance
    elif draft.importance is None:
        run_stage("importance", draft, settings)
    run_stage("confidence", draft, settings)
    weigh_doubt(draft, settings)
    # Consent makes a memory a sensitive one, which lives a day at the most: so its TTL is found after that.
    run_stage("screen", draft, settings)
    run_stage("expiration", draft, settings)
    if draft.sealed is not None:
        # Also where that stage is off, or another.
        given_ttls = [ttl for ttl in (draft.ttl, draft.expires_in) if ttl is not None]
        draft.ttl, draft.expires_in = None, min([MAX_MINUTES, *given_ttls])
    draft.scores |= {"confidence": draft.confidence, "importance": draft.importance}
    return draft
