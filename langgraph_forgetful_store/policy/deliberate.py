"""From candidates and actions to decisions: the stages, the lookups and the judge, in their order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from langgraph.errors import GraphBubbleUp

from langgraph_forgetful_store.errors import (
    ConfigurationError,
    IllegalTransitionError,
    MemoryNotFoundError,
    is_embedding_error,
)
from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.memory import MemoryItem, read_recall_id
from langgraph_forgetful_store.policy import wording
from langgraph_forgetful_store.policy.actions import WRITING, as_candidate, check_action, decide_action
from langgraph_forgetful_store.policy.candidates import (
    DECIDED,
    PROPOSED,
    Candidate,
    Decision,
    Invalid,
    decision_id,
    no_answers,
    source_messages,
)
from langgraph_forgetful_store.policy.codes import Action, Code
from langgraph_forgetful_store.policy.config import PolicySettings
from langgraph_forgetful_store.policy.decide import Found, Known, planned, settle, to_judge, with_plans
from langgraph_forgetful_store.policy.draft import Draft, Types
from langgraph_forgetful_store.policy.findings import redact
from langgraph_forgetful_store.policy.judges import Pair, Relation, Verdict, failed
from langgraph_forgetful_store.policy.lookup import exactly, find, stored
from langgraph_forgetful_store.policy.stages import prepare, run_stage
from langgraph_forgetful_store.policy.steps import Consult, Steps
from langgraph_forgetful_store.policy.vault import is_sealed

# Candidates of one go that share fewer words are about different things.
_ALIKE = 0.3
# What the store says of something that it can't look for or do; servers that are down raise others.
UNUSABLE = (ValueError, TypeError, MemoryNotFoundError, IllegalTransitionError)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and by what settings it is decided.

    Attributes:
        namespace: Where memories go.
        settings: The policy's.
        judge: The relation judge.
        types: The store's memory types.
        reserved: The store's reserved key.
        occasion: What tells this go from others, such as the checkpoint's id; used for what was taken from no message.
        recall_id: The last recall.
        answered_id: The recall that the user's last message may complain of.
        again: The id of the decision about a candidate that is made once more.
    """

    namespace: Namespace
    settings: PolicySettings
    judge: Any
    types: Types
    reserved: str | None
    occasion: tuple[str, ...] = ()
    recall_id: str | None = None
    answered_id: str | None = None
    again: str | None = None


@dataclass(slots=True)
class _Case:
    given: Any
    draft: Draft
    found: Found = field(default_factory=Found)
    name: str = ""
    done: Decision | None = None


# Made keys have no meaning, and now and then the check digit of something that has.
_MADE = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def cleaned(value: Any, settings: PolicySettings) -> Any:
    """Return plain JSON with what is sensitive taken out of each of its texts and numbers."""
    if not settings.screen or "screen" in settings.replaced or value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, Mapping):
        if settings.vault is not None and settings.vault.opens(value):
            return value
        return {
            cleaned(name, settings): part if name == "recall_id" and _is_recall(part) else cleaned(part, settings)
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [cleaned(part, settings) for part in value]
    text = str(value)
    if _MADE.fullmatch(text) or not (found := settings.screener(text)):
        return value
    return redact(text, found)


def _is_recall(value: object) -> bool:
    try:
        read_recall_id(value)
    except ValueError:
        return False
    return True


def clean(decision: Decision, settings: PolicySettings) -> Decision:
    """Return a decision as states, checkpoints, streams and records may hold it; where it acts stays as it is."""
    plain: Decision = cleaned(decision, settings)
    candidate = {**plain["candidate"], "namespace": decision["candidate"]["namespace"]}
    return {**plain, "id": decision["id"], "candidate": candidate}


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
        except Invalid as error:
            decided.append((given, _invalid(given, setting, error.field)))
            continue
        if action["action"] in WRITING:
            writing.append((given, as_candidate(action)))
            continue
        try:
            decided += [(given, one) for one in (yield from _act(action, setting))]
        except UNUSABLE as error:
            _raise_what_is_not_the_inputs(error)
            decided.append((given, _invalid(given, setting, "action")))
    cases: list[_Case] = []
    for given, candidate in writing:
        try:
            case = yield from _look(given, candidate, setting)
        except UNUSABLE as error:
            _raise_what_is_not_the_inputs(error)
            case = _invalid(given, setting, "candidate")
        if isinstance(case, _Case):
            cases.append(case)
        else:
            decided.append((given, case))
    yield from _judge(cases, setting)
    plans: list[tuple[Decision, Known | None]] = [(one, None) for _, one in decided]
    done: dict[str, Decision] = {}
    for case in cases:
        if case.done is not None:
            plans.append((case.done, None))
            done[case.name] = case.done
        elif case.name not in done:
            known = with_plans(case.found, case.draft, plans)
            decision = settle(case.draft, known, setting.settings, case.name)
            decision["candidate"] |= {**_whereabouts(setting), **_proposal(case, decision)}
            plans.append((decision, planned(decision, case.draft)))
            done[case.name] = decision
        decided.append((case.given, done[case.name]))
    return decided


def _raise_what_is_not_the_inputs(error: Exception) -> None:
    """Raise a `ValueError` or `TypeError` that is not about what was given, but the store's settings or embedder."""
    if isinstance(error, ConfigurationError) or is_embedding_error(error):
        raise error


def _act(action: dict[str, Any], setting: Setting) -> Steps[list[Decision]]:
    ids = [one["id"] for one in source_messages(action.get("source_messages")) if one.get("id")]
    # An id is kept, and few digits could be found out from it.
    said = cleaned({name: value for name, value in action.items() if name != "source_messages"}, setting.settings)
    name = decision_id(said, setting.namespace, ids or setting.occasion)
    return (yield from decide_action(action, setting.namespace, name, setting.answered_id))


def _whereabouts(setting: Setting) -> dict[str, Any]:
    where: dict[str, Any] = {"namespace": list(setting.namespace)}
    return where if setting.recall_id is None else {**where, "recall_id": setting.recall_id}


def _proposal(case: _Case, decision: Decision) -> dict[str, Any]:
    """Return what was proposed beside what will be written, without which it could not be decided once more."""
    if decision["action"] not in WRITING:
        # These show all of it.
        return {}
    given, written = case.draft.candidate.to_json(), decision["candidate"]
    given.pop("source_messages", None)
    if case.draft.sealed is not None:
        given.pop("content")
    plain = {name: value for name, value in {"tags": [], **given}.items() if written.get(name, []) != value}
    if isinstance(case.given, Mapping) and "action" in case.given:
        plain["action"] = case.given["action"]
    return {PROPOSED: plain} if plain else {}


def proposed(decision: Decision) -> dict[str, Any]:
    """Return what a decision was made about, as far as it tells."""
    candidate = {name: value for name, value in decision["candidate"].items() if name not in DECIDED}
    if is_sealed(candidate.get("content")) and "expires_in" in decision["candidate"]:
        candidate["ttl"] = decision["candidate"]["expires_in"]
    if "action" in candidate:
        return candidate if decision["key"] is None else {**candidate, "key": decision["key"]}
    candidate |= decision["candidate"].get(PROPOSED, {})
    if candidate.get("action") == Action.SUPERSEDE:
        # An action names what is replaced by key.
        names = {"relation_to": "key", "key": "new_key"}
        return {names.get(name, name): value for name, value in candidate.items()}
    return candidate


def _done_before(draft: Draft, item: MemoryItem, setting: Setting, name: str) -> Decision:
    """Return the decision about a candidate that was written before, as by a run that was cut off after that."""
    replaced = item.memory.supersedes
    return Decision(
        id=name,
        candidate={**draft.written(), "content": Known.of(item).content, **_whereabouts(setting)},
        relation=str(Relation.ADD if replaced is None else Relation.UPDATE),
        action=str(Action.REMEMBER if replaced is None else Action.SUPERSEDE),
        key=name,
        supersedes=replaced,
        reason=Code.DONE.because("it was written before"),
        scores=draft.scores,
        answers=draft.answers(useful=True, correction=replaced is not None),
    )


def _look(given: Any, raw: Any, setting: Setting) -> Steps[_Case | Decision]:
    """Take a candidate through the stages, and look at what is known about it."""
    try:
        candidate = Candidate.parse(raw)
    except Invalid as error:
        return _invalid(given, setting, error.field)
    if isinstance(candidate.content, Mapping) and setting.reserved in candidate.content:
        return _invalid(given, setting, "content")
    if isinstance(given, Mapping) and given.get("action") == Action.SUPERSEDE:
        known = yield from exactly(setting.namespace, candidate.relation_to or "")
        if known is None:
            return _undecided(given, setting, Action.REFUSE, Code.NOT_FOUND.because("there is no such memory"))
    draft = Draft(candidate, setting.types, datetime.now(UTC))
    try:
        prepare(draft, setting.settings)
    except GraphBubbleUp:
        # A stage may ask the user.
        raise
    except Exception as error:
        # A stage of the user's own: what it fails on is kept for the next go.
        return _failed(given, setting, Code.STAGE_FAILED.because(type(error).__name__))
    name = _name(draft, setting)
    found = yield from find(draft, setting.namespace, setting.settings)
    # After that, as a branch beside this one may have written what has been found. Keys that are made from a decision's
    # id are nobody else's.
    if (written := (yield from stored(setting.namespace, name))) is not None:
        return _Case(given, draft, name=name, done=_done_before(draft, written, setting, name))
    yield from _keyed(draft, found, setting.namespace)
    draft.novelty = round(1.0 - min(1.0, found.nearest), 6)
    try:
        run_stage("admit", draft, setting.settings)
    except GraphBubbleUp:
        raise
    except Exception as error:
        return _failed(given, setting, Code.STAGE_FAILED.because(type(error).__name__))
    return _Case(given, draft, found, name)


def _keyed(draft: Draft, found: Found, namespace: Namespace) -> Steps[None]:
    """Have a key that is an earlier one of a chain stand for the chain, as it can't be written again."""
    given, head = draft.candidate, found.head
    if head is None or given.relation_to is not None or given.key in (None, head.key):
        return
    if (yield from exactly(namespace, given.key)) is not None:
        draft.candidate = replace(given, key=head.key)


def _name(draft: Draft, setting: Setting) -> str:
    if setting.again is not None:
        return setting.again
    given = draft.candidate.to_json()
    if draft.is_secret:
        given = {"content": draft.shown_content(), "slot": cleaned(draft.candidate.slot, setting.settings)}
    return decision_id(given, setting.namespace, draft.candidate.message_ids or setting.occasion)


def _judge(cases: Sequence[_Case], setting: Setting) -> Steps[None]:
    """Have all that is similar judged, in one go."""
    wanted: list[tuple[_Case, Known, Pair]] = []
    for at, case in enumerate(cases):
        if case.found.head is not None or case.done is not None:
            continue
        text = case.draft.candidate.text
        wanted += [
            (case, known, Pair(text, known.text, known.similarity))
            for known in to_judge(case.draft, case.found, setting.settings)
        ]
        wanted += _between(case, cases[:at])
    verdicts: dict[int, dict[str, Verdict]] = {}
    if wanted:
        pairs = [pair for *_, pair in wanted]
        try:
            given = list((yield Consult(setting.judge, "judge", (pairs,))))
            if len(given) != len(pairs) or not all(isinstance(one, Verdict) for one in given):
                raise TypeError("a judge returns one verdict for each pair")
        except GraphBubbleUp:
            raise
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


def _invalid(given: Any, setting: Setting, field: str) -> Decision:
    return _undecided(given, setting, Action.REFUSE, Code.INVALID.because(field))


def _failed(given: Any, setting: Setting, reason: str) -> Decision:
    return _undecided(given, setting, Action.ABSTAIN, reason)


def _undecided(given: Any, setting: Setting, action: Action, reason: str) -> Decision:
    # What was never screened must not be shown, and what is no JSON would break the checkpoint.
    name = decision_id({"given": cleaned(repr(given), setting.settings)}, setting.namespace, setting.occasion)
    return Decision(
        id=name,
        candidate={"namespace": list(setting.namespace)},
        relation=None,
        action=str(action),
        key=None,
        supersedes=None,
        reason=reason,
        scores={},
        answers=no_answers(),
    )
