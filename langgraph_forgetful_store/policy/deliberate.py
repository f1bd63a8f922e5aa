"""From candidates and actions to decisions: the stages, the lookups and the judge, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from langgraph_forgetful_store.policy import wording
from langgraph_forgetful_store.policy.actions import WRITING, as_candidate, check_action, decide_action
from langgraph_forgetful_store.policy.candidates import Candidate, Decision, decision_id, no_answers
from langgraph_forgetful_store.policy.config import PolicyRules
from langgraph_forgetful_store.policy.decide import Found, Known, planned, settle, to_judge, with_plans
from langgraph_forgetful_store.policy.judges import Pair, Verdict, failed
from langgraph_forgetful_store.policy.lookup import Namespace, find
from langgraph_forgetful_store.policy.screening import redact
from langgraph_forgetful_store.policy.stages import Draft, Types, prepare, run_stage
from langgraph_forgetful_store.policy.steps import Consult, Steps

# Candidates of one go that share fewer words are about different things.
_ALIKE = 0.3


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and by what rules it is decided.

    Attributes:
        namespace: Where memories go.
        rules: The policy's.
        judge: The relation judge.
        types: The store's memory types.
        reserved: The store's reserved key.
        occasion: What tells this go from others, such as the checkpoint's id; used for what was taken from no message.
        recall_id: The last recall.
        answered_id: The recall that the user's last message may complain of.
    """

    namespace: Namespace
    rules: PolicyRules
    judge: Any
    types: Types
    reserved: str | None
    occasion: tuple[str, ...] = ()
    recall_id: str | None = None
    answered_id: str | None = None


@dataclass(slots=True)
class _Case:
    given: Any
    draft: Draft
    found: Found = field(default_factory=Found)
    name: str = ""


def deliberate(
    setting: Setting, candidates: Sequence[Any], actions: Sequence[Any]
) -> Steps[list[tuple[Any, Decision]]]:
    """Decide about candidates and actions; nothing is written.

    Returns:
        What was given and the decision about it, actions first. An action on several memories has several.
    """
    decided: list[tuple[Any, Decision]] = []
    writing: list[tuple[Any, Any]] = [(one, one) for one in candidates]
    for given in actions:
        try:
            action = check_action(given)
        except ValueError as error:
            decided.append((given, _invalid(given, setting, error)))
            continue
        if action["action"] in WRITING:
            writing.append((given, as_candidate(action)))
            continue
        said = {name: value for name, value in action.items() if name != "source_messages"}
        ids = [one["id"] for one in action.get("source_messages", ()) if isinstance(one, Mapping) and one.get("id")]
        name = decision_id(said, setting.namespace, ids or setting.occasion)
        found = yield from decide_action(action, setting.namespace, name, setting.answered_id, setting.reserved)
        decided += [(given, one) for one in found]
    cases: list[_Case] = []
    for given, candidate in writing:
        case = yield from _look(given, candidate, setting)
        if isinstance(case, _Case):
            cases.append(case)
        else:
            decided.append((given, case))
    yield from _judge(cases, setting)
    plans: list[tuple[Decision, Known | None]] = [(one, None) for _, one in decided]
    done: dict[str, Decision] = {}
    for case in cases:
        if case.name not in done:
            known = with_plans(case.found, case.draft, plans)
            decision = settle(case.draft, known, setting.rules, case.name)
            decision["candidate"] |= _whereabouts(setting)
            plans.append((decision, planned(decision, case.draft)))
            done[case.name] = decision
        decided.append((case.given, done[case.name]))
    return decided


def _whereabouts(setting: Setting) -> dict[str, Any]:
    where: dict[str, Any] = {"namespace": list(setting.namespace)}
    return where if setting.recall_id is None else {**where, "recall_id": setting.recall_id}


def _look(given: Any, raw: Any, setting: Setting) -> Steps[_Case | Decision]:
    """Take a candidate through the stages, and look at what is known about it."""
    try:
        candidate = Candidate.parse(raw)
    except ValueError as error:
        return _invalid(given, setting, error)
    draft = Draft(candidate, setting.types, datetime.now(UTC))
    try:
        prepare(draft, setting.rules)
    except Exception as error:
        # A stage of the user's own: what it fails on is kept for the next go.
        return _failed(given, setting, f"stage_failed: {type(error).__name__}")
    found = yield from find(draft, setting.namespace, setting.rules, setting.reserved)
    draft.novelty = round(1.0 - min(1.0, found.nearest), 6)
    try:
        run_stage("admit", draft, setting.rules)
    except Exception as error:
        return _failed(given, setting, f"stage_failed: {type(error).__name__}")
    return _Case(given, draft, found, _name(draft, found, setting))


def _name(draft: Draft, found: Found, setting: Setting) -> str:
    occasion = draft.candidate.message_ids or setting.occasion
    if not occasion and found.head is not None:
        # Said again after something else was: that is another occasion.
        occasion = (found.head.key, str(found.head.version))
    given = draft.candidate.to_json()
    if draft.is_secret:
        # An id is kept, and few digits could be found out from it.
        given = {"content": redact(draft.candidate.text, draft.findings), "slot": draft.candidate.slot}
    return decision_id(given, setting.namespace, occasion)


def _judge(cases: Sequence[_Case], setting: Setting) -> Steps[None]:
    """Have all that is similar judged, in one go."""
    wanted: list[tuple[_Case, Known, Pair]] = []
    for at, case in enumerate(cases):
        if case.found.head is not None:
            continue
        text = case.draft.candidate.text
        wanted += [
            (case, known, Pair(text, known.text, known.similarity))
            for known in to_judge(case.draft, case.found, setting.rules)
        ]
        wanted += _between(case, cases[:at])
    verdicts: dict[int, dict[str, Verdict]] = {}
    if wanted:
        pairs = [pair for *_, pair in wanted]
        try:
            given = list((yield Consult(setting.judge, "judge", (pairs,))))
            if len(given) != len(pairs) or not all(isinstance(one, Verdict) for one in given):
                raise TypeError("a judge returns one verdict for each pair")
        except Exception as error:
            given = [failed(type(error).__name__)] * len(pairs)
        for (case, known, _), verdict in zip(wanted, given, strict=True):
            verdicts.setdefault(id(case), {})[known.key] = verdict
    for case in cases:
        case.found = replace(case.found, verdicts=verdicts.get(id(case), {}))


def _between(case: _Case, earlier: Sequence[_Case]) -> list[tuple[_Case, Known, Pair]]:
    """Return the pairs of a candidate with those before it that it may be about."""
    if case.draft.outcome is not None or case.draft.is_secret:
        return []
    pairs = []
    text, slot = case.draft.candidate.text, case.draft.slot
    for other in earlier:
        theirs = other.draft.candidate
        apart = slot is not None and other.draft.slot is not None and slot != other.draft.slot
        if apart or other.draft.is_secret or wording.overlap(text, wording.words(theirs.text)) < _ALIKE:
            continue
        known = Known(theirs.key or other.name, theirs.content, slot=other.draft.slot)
        pairs.append((case, known, Pair(text, known.text)))
    return pairs


def _invalid(given: Any, setting: Setting, error: ValueError) -> Decision:
    return _undecided(given, setting, "refuse", f"invalid: {error}")


def _failed(given: Any, setting: Setting, reason: str) -> Decision:
    return _undecided(given, setting, "abstain", reason)


def _undecided(given: Any, setting: Setting, action: str, reason: str) -> Decision:
    # What was never screened must not be shown, and what is no JSON would break the checkpoint.
    name = decision_id({"given": repr(given)}, setting.namespace, setting.occasion)
    return Decision(
        id=name,
        candidate={"namespace": list(setting.namespace)},
        relation=None,
        action=action,
        key=None,
        supersedes=None,
        reason=reason[:300],
        scores={},
        answers=no_answers(),
    )
