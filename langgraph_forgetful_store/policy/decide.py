"""Deciding, once it is known what the memory holds: pure, so that a dry run and the real one cannot differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from langgraph_forgetful_store.model.fields import DEFAULT_CONFIDENCE, Reason
from langgraph_forgetful_store.model.memory import MemoryItem, MemorySearchItem
from langgraph_forgetful_store.model.memory_types import GENERIC, HYPOTHESIS
from langgraph_forgetful_store.model.status import MemoryStatus
from langgraph_forgetful_store.policy import rules, wording
from langgraph_forgetful_store.policy.candidates import Decision, text_of
from langgraph_forgetful_store.policy.codes import Action, Code
from langgraph_forgetful_store.policy.config import PolicySettings
from langgraph_forgetful_store.policy.draft import Draft
from langgraph_forgetful_store.policy.facts import normalise
from langgraph_forgetful_store.policy.judges import Relation, Verdict, compare
from langgraph_forgetful_store.policy.stages import CONFLICT_TAG
from langgraph_forgetful_store.policy.statements import parse_fact
from langgraph_forgetful_store.policy.vault import is_sealed

_TRUST = {"user": 4, "tool": 3, "database": 3, "web": 2, "model": 1}
_REPLACES = (Relation.UPDATE, Relation.CONTRADICT)
# As what a memory is closed that something new relates to so.
CLOSES_AS = {
    Relation.UPDATE: Reason.UPDATED,
    Relation.CONTRADICT: Reason.CONTRADICTED,
    Relation.SUPPLEMENT: Reason.MERGED,
}
_WRITES = (Action.REMEMBER, Action.SUPERSEDE)


@dataclass(frozen=True, slots=True)
class Known:
    """A memory as decisions look at it.

    Attributes:
        similarity: To the candidate, where there is one.
        sealed: Whether its content is encrypted.
        followed: Whether another has taken its place.
    """

    key: str
    content: str | dict[str, Any]
    version: int = 1
    status: MemoryStatus = MemoryStatus.ACTIVE
    memory_type: str = GENERIC
    confidence: float = DEFAULT_CONFIDENCE
    source: str | None = None
    slot: tuple[str, str] | None = None
    run_id: str | None = None
    tags: tuple[str, ...] = ()
    similarity: float | None = None
    sealed: bool = False
    followed: bool = False

    @classmethod
    def of(cls, item: MemoryItem | MemorySearchItem) -> Self:
        """Read it from an item."""
        memory = item.memory
        subject, attribute = memory.subject, memory.attribute
        # A text is stored as {"content": text}.
        plain = set(item.value) == {"content"} and isinstance(item.value["content"], str)
        return cls(
            item.key,
            item.value["content"] if plain else item.value,
            memory.version,
            memory.status,
            memory.memory_type,
            memory.confidence,
            memory.source,
            None if subject is None or attribute is None else (subject, attribute),
            memory.run_id,
            memory.tags,
            getattr(item, "similarity", None),
            is_sealed(item.value),
            memory.superseded_by is not None,
        )

    @property
    def text(self) -> str:
        """What it says."""
        return text_of(self.content)


@dataclass(frozen=True, slots=True)
class Found:
    """What the memory holds that a candidate may be about.

    Attributes:
        head: What holds its slot, or what it was said to be about.
        similar: Others, the nearest first.
        verdicts: What the judge says of each of `similar`, by key.
    """

    head: Known | None = None
    similar: tuple[Known, ...] = ()
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)

    @property
    def nearest(self) -> float:
        """The similarity of the nearest; 0 where there is none."""
        known = [one.similarity for one in (self.head, *self.similar) if one is not None and one.similarity is not None]
        return max([0.0, *known])


def to_judge(draft: Draft, found: Found, settings: PolicySettings) -> list[Known]:
    """Return which of the similar memories the judge is to compare with: slots that differ have decided already."""
    if draft.outcome is not None or draft.is_secret:
        return []
    slot = draft.slot
    return [
        one
        for one in found.similar
        if not one.sealed
        and (one.similarity is None or one.similarity >= settings.proposes_from)
        and (slot is None or one.slot is None or slot == one.slot)
    ]


@dataclass(frozen=True, slots=True)
class _Choice:
    action: str
    code: Code | None
    said: str
    relation: Relation | None = None
    old: Known | None = None

    @property
    def reason(self) -> str:
        """Why, for people; what a stage has settled says its code itself."""
        return self.said if self.code is None else self.code.because(self.said)


def settle(draft: Draft, found: Found, settings: PolicySettings, name: str) -> Decision:
    """Return the decision about a candidate.

    Args:
        draft: The candidate, through all stages.
        found: What the memory holds.
        settings: The rules.
        name: The decision's id.
    """
    choice = _choose(draft, found, settings)
    acts = choice.action in (*_WRITES, Action.RETIRE, Action.MERGE)
    candidate = draft.written() if choice.action in _WRITES else draft.shown()
    if choice.relation is not None and choice.old is not None and choice.action == Action.REMEMBER:
        candidate = _beside(draft, candidate, choice)
    if choice.action == Action.SUPERSEDE and choice.relation is Relation.SUPPLEMENT and choice.old is not None:
        candidate["content"] = _enriched(choice.old, draft)
    if choice.old is not None and choice.action != Action.REMEMBER:
        candidate["expected_version"] = choice.old.version
    key: str | None = None
    if choice.action in (Action.RETIRE, Action.MERGE) and choice.old is not None:
        key = choice.old.key
    elif choice.action in _WRITES:
        # What stands beside another memory, or in its place, is not written over it.
        key = name if draft.candidate.key in (None, choice.old.key if choice.old else None) else draft.candidate.key
    similarity = choice.old.similarity if choice.old else None
    return Decision(
        id=name,
        candidate=candidate,
        relation=None if choice.relation is None else str(choice.relation),
        action=str(choice.action),
        key=key,
        supersedes=choice.old.key if choice.action == Action.SUPERSEDE and choice.old else None,
        reason=choice.reason,
        scores={**draft.scores, "similarity": similarity, "nearest": found.nearest},
        answers=draft.answers(
            useful=acts,
            duplicate=choice.relation is Relation.DUPLICATE,
            correction=choice.relation in (*_REPLACES, Relation.NEGATE),
        ),
    )


def _choose(draft: Draft, found: Found, settings: PolicySettings) -> _Choice:
    if draft.outcome is not None:
        action, reason = draft.outcome
        return _Choice(action, None, reason)
    if found.head is not None:
        return _against_head(draft, found.head, settings)
    choice = _against_similar(draft, found, settings)
    if choice is not None:
        return choice
    if _only_denies(draft):
        return _Choice(Action.REFUSE, Code.NOTHING_DENIED, "it denies what no memory says", Relation.NEGATE)
    return _Choice(Action.REMEMBER, Code.NEW, f"nothing known is about it{_caveat(draft)}", Relation.ADD)


def _caveat(draft: Draft) -> str:
    if not draft.is_guess:
        return ""
    return "; to be confirmed" if draft.unsure else "; kept as a guess"


def _only_denies(draft: Draft) -> bool:
    if draft.candidate.negates is not None:
        return draft.candidate.negates
    fact = parse_fact(wording.heard(draft.candidate.text)) if draft.candidate.slot is None else None
    return fact is not None and fact.denied and fact.single


def _against_head(draft: Draft, head: Known, settings: PolicySettings) -> _Choice:
    """Decide about what names the slot of a memory, or that memory itself: no similarity is asked."""
    where = "slot {}/{}".format(*head.slot) if head.slot else f"memory {head.key}"
    if head.status is MemoryStatus.SUPERSEDED and not _only_denies(draft):
        # It was retired, so nothing current is replaced.
        return _Choice(Action.SUPERSEDE, Code.UPDATED, f"{where} held no longer", Relation.UPDATE, head)
    if draft.is_secret or head.sealed:
        return _replace(draft, head, Relation.UPDATE, f"{where} was taken", settings)
    if _only_denies(draft):
        if head.status is not MemoryStatus.SUPERSEDED and _denies(draft.candidate.text, head.text):
            return _retire(draft, head, f"{where} says so no longer", settings)
        return _Choice(Action.REFUSE, Code.NOTHING_DENIED, f"{where} says something else", Relation.NEGATE, head)
    same = compare(draft.candidate.text, head.text)
    if same.relation is Relation.DUPLICATE or _same_words(draft, head):
        return _merge(draft, head, f"{where} says so already", settings)
    correction = (
        draft.candidate.corrects
        or same.relation is Relation.CONTRADICT
        or rules.is_correction(wording.heard(draft.candidate.text))
    )
    relation = Relation.CONTRADICT if correction else Relation.UPDATE
    return _replace(draft, head, relation, f"{where} said otherwise", settings)


def _same_words(draft: Draft, known: Known) -> bool:
    return normalise(draft.candidate.text) == normalise(known.text)


def _denies(text: str, known: str) -> bool:
    """Whether a denial is one of what is known: the same value, or nearly all of its telling words."""
    one, other = parse_fact(wording.heard(text)), parse_fact(wording.heard(known))
    if one is not None and other is not None and one.place == other.place:
        return one.says_same(other)
    if one is not None:
        return set(wording.words(one.value)) <= set(wording.words(known))
    # What is denied without a value, as by a slot alone, is whatever is there.
    return wording.overlap(known, wording.words(text)) >= 0.5


_ORDER = (Relation.DUPLICATE, Relation.NEGATE, Relation.CONTRADICT, Relation.UPDATE, None, Relation.SUPPLEMENT)


def _against_similar(draft: Draft, found: Found, settings: PolicySettings) -> _Choice | None:
    judged = [(one, verdict) for one in found.similar if (verdict := dict(found.verdicts).get(one.key)) is not None]
    for relation in _ORDER:
        for known, verdict in judged:
            if verdict.relation is not relation:
                continue
            if relation is None:
                if verdict.doubt or (known.similarity is not None and known.similarity >= settings.in_doubt_from):
                    return _Choice(
                        Action.REMEMBER, Code.CONFLICT, "both stay; the judge is not sure", Relation.ADD, known
                    )
            elif (choice := _judged(draft, known, verdict, settings)) is not None:
                return choice
    return None


def _judged(draft: Draft, known: Known, verdict: Verdict, settings: PolicySettings) -> _Choice | None:
    # A judge's own words may repeat what it read, which must not reach states and records.
    relation, said = verdict.relation, "the judge says so"
    if relation is Relation.DUPLICATE:
        return _merge(draft, known, said, settings) if settings.duplicates else None
    if relation is Relation.NEGATE:
        return _retire(draft, known, said, settings)
    if relation in _REPLACES:
        return _replace(draft, known, relation, said, settings)
    texts = isinstance(known.content, str) and isinstance(draft.candidate.content, str)
    if settings.supplement == "enrich" and texts and not draft.is_guess:
        return _Choice(Action.SUPERSEDE, Code.ENRICHED, said, Relation.SUPPLEMENT, known)
    return _Choice(Action.REMEMBER, Code.SUPPLEMENT, said, Relation.SUPPLEMENT, known)


def _merge(draft: Draft, known: Known, said: str, settings: PolicySettings) -> _Choice:
    if _is_guess(known) and not draft.is_guess:
        return _Choice(Action.SUPERSEDE, Code.CONFIRMED, "it was a guess", Relation.UPDATE, known)
    if draft.is_guess and not _is_guess(known):
        return _Choice(Action.REFUSE, Code.DUPLICATE, f"{said}, and is surer of it", Relation.DUPLICATE, known)
    if not settings.duplicates and known.slot is None:
        return _Choice(Action.REMEMBER, Code.DUPLICATE, said, Relation.DUPLICATE, known)
    return _Choice(Action.MERGE, Code.DUPLICATE, said, Relation.DUPLICATE, known)


def _is_guess(known: Known) -> bool:
    return known.memory_type == HYPOTHESIS or (not known.sealed and rules.is_hedged(wording.heard(known.text)))


def _retire(draft: Draft, known: Known, said: str, settings: PolicySettings) -> _Choice:
    if draft.is_guess and not _is_guess(known):
        return _Choice(Action.REMEMBER, Code.CONFLICT, "both stay; a guess denies nothing", Relation.NEGATE, known)
    if not settings.conflicts:
        return _Choice(Action.REFUSE, Code.NEGATED, f"{said}; conflicts are not resolved", Relation.NEGATE, known)
    return _Choice(Action.RETIRE, Code.NEGATED, said, Relation.NEGATE, known)


def _replace(draft: Draft, known: Known, relation: Relation, said: str, settings: PolicySettings) -> _Choice:
    if draft.is_guess and not _is_guess(known):
        return _Choice(Action.REMEMBER, Code.CONFLICT, "both stay; a guess replaces nothing", relation, known)
    if not settings.conflicts:
        return _Choice(Action.REMEMBER, Code.CONFLICT, "both stay; conflicts are not resolved", relation, known)
    if why := _old_wins(draft, known, settings):
        return _Choice(Action.REFUSE, Code.OLD_WINS, why, relation, known)
    return _Choice(Action.SUPERSEDE, Code(CLOSES_AS[relation]), said, relation, known)


def _old_wins(draft: Draft, known: Known, settings: PolicySettings) -> str | None:
    if settings.resolution == "source":
        new, old = _TRUST.get(draft.candidate.source or "", 0), _TRUST.get(known.source or "", 0)
        return f"{known.source} is trusted more than {draft.candidate.source}" if new < old else None
    if settings.resolution == "confidence" and draft.confidence < known.confidence:
        return f"it is surer ({known.confidence:g} to {draft.confidence:g})"
    return None


def _beside(draft: Draft, candidate: dict[str, Any], choice: _Choice) -> dict[str, Any]:
    """Return what is written for a memory that stands beside one it does not agree with."""
    if choice.code is not Code.CONFLICT:
        return candidate
    tags = [*candidate.get("tags", ()), CONFLICT_TAG]
    kept = {**candidate, "tags": list(dict.fromkeys(tags))}
    # With its slot it would take the other's place.
    if choice.old is not None and choice.old.slot == draft.slot:
        kept.pop("subject", None)
        kept.pop("attribute", None)
    return kept


def _enriched(known: Known, draft: Draft) -> str:
    return f"{known.text.rstrip(' .。')}. {draft.candidate.text}"


def planned(decision: Decision, draft: Draft) -> Known | None:
    """Return the memory as it will be once a decision is done, so that later ones of the same go can see it."""
    if decision["action"] not in _WRITES or decision["key"] is None:
        return None
    written = decision["candidate"]
    subject, attribute = written.get("subject"), written.get("attribute")
    return Known(
        decision["key"],
        written["content"],
        memory_type=draft.memory_type,
        confidence=draft.confidence,
        source=draft.candidate.source,
        slot=None if subject is None or attribute is None else draft.slot,
        run_id=draft.candidate.run_id,
        sealed=draft.sealed is not None,
        version=written.get("expected_version", 0) + 1,
    )


def with_plans(found: Found, draft: Draft, plans: Sequence[tuple[Decision, Known | None]]) -> Found:
    """Return what will have been found once earlier decisions of the same go are done."""
    gone = {key for decision, _ in plans for key in (decision["supersedes"], _closed(decision)) if key}
    made = [known for _, known in plans if known is not None and known.key not in gone]
    head = None if found.head is not None and found.head.key in gone else found.head
    slot = draft.slot
    for known in made:
        if slot is not None and known.slot == slot:
            head = known
    similar = [one for one in found.similar if one.key not in gone]
    # Nothing is known of how similar these are; the judge may look at all that one invocation brings.
    similar += [replace(known, similarity=None) for known in made if known is not head]
    return Found(head, tuple(similar), found.verdicts)


def _closed(decision: Decision) -> str | None:
    return decision["key"] if decision["action"] in (Action.RETIRE, Action.FORGET, Action.ARCHIVE) else None
