"""Looking at what the memory holds, without leaving a trace: no access is counted, no TTL refreshed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.memory import MemoryItem, MemorySearchItem
from langgraph_forgetful_store.model.status import MemoryStatus
from langgraph_forgetful_store.policy.config import PolicySettings
from langgraph_forgetful_store.policy.decide import Found, Known
from langgraph_forgetful_store.policy.draft import Draft
from langgraph_forgetful_store.policy.steps import Steps, call

Slot = tuple[str, str]
OPEN = (MemoryStatus.ACTIVE, MemoryStatus.ARCHIVED)
ANY = (*OPEN, MemoryStatus.SUPERSEDED)
# What a user wants to be forgotten may be said in words that are not near to it.
LOOKED_AT = 1000
_UNTRACED: dict[str, Any] = {"track_access": False, "refresh_ttl": False}


@dataclass(frozen=True, slots=True)
class Names:
    """Which names stand for which subjects.

    Attributes:
        aliases: The subject of each name that is not one itself.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)

    def slot(self, slot: Slot | None) -> Slot | None:
        """Return a slot by its subject's own name."""
        return None if slot is None else (self.aliases.get(slot[0], slot[0]), slot[1])

    def of(self, name: str) -> list[str]:
        """Return all names of a subject, whichever of them is given."""
        goal = self.aliases.get(name, name)
        return [goal, *(other for other, subject in self.aliases.items() if subject == goal)]

    def known(self, item: MemoryItem | MemorySearchItem) -> Known:
        """Return a memory as decisions look at it."""
        found = Known.of(item)
        return replace(found, slot=self.slot(found.slot))


def names_of(namespace: Namespace) -> Steps[Names]:
    """Return the names of a namespace's subjects."""
    return Names((yield call("aliases", namespace)))


def find(draft: Draft, namespace: Namespace, settings: PolicySettings) -> Steps[Found]:
    """Find what a candidate may be about: what it names, what holds its slot, and what is similar."""
    given = draft.candidate
    head: Known | None = None
    names = Names()
    if given.subject is not None:
        names = yield from names_of(namespace)
        draft.subject = names.aliases.get(given.subject)
    for key in (given.relation_to, given.key):
        if head is None and key is not None:
            head = yield from current(namespace, key, names)
    if given.slot is not None and (head is None or head.status is MemoryStatus.SUPERSEDED):
        head = (yield from holder(namespace, given.slot, given.run_id, names)) or head
    if draft.is_secret or settings.proposals == 0:
        return Found(head)
    options: dict[str, Any] = {"run_id": given.run_id, "status": OPEN, "memory_types": True, **_UNTRACED}
    same = yield call("recall", namespace, filter=_same(given.content), limit=3, **options)
    near = yield call("recall", namespace, given.text, limit=settings.proposals + 1, **options)
    known: dict[str, Known] = {}
    for item in (*near, *same):
        if item.namespace == namespace and (head is None or item.key != head.key):
            known.setdefault(item.key, names.known(item))
    return Found(head, tuple(known.values())[: settings.proposals + len(same)])


def _same(content: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(content, str):
        return {"content": content}
    # A name with a $ would be read as an operator; it just isn't looked for.
    return {name: {"$eq": value} for name, value in content.items() if not name.startswith("$")}


def holder(namespace: Namespace, slot: Slot, run_id: str | None, names: Names | None = None) -> Steps[Known | None]:
    """Return what holds a slot, by any of its subject's names: the current row, else an archived one."""
    if names is None:
        names = yield from names_of(namespace)
    asked: dict[str, Any] = {"subject": names.of(slot[0]), "attribute": slot[1], "memory_types": True, **_UNTRACED}
    for status in OPEN:
        items = yield call("recall", namespace, limit=20, status=status, run_id=run_id, **asked)
        for item in items:
            if item.namespace == namespace:
                return names.known(item)
    return None


def current(namespace: Namespace, key: str, names: Names | None = None) -> Steps[Known | None]:
    """Return the latest memory of a key's chain."""
    chain = yield call("history", namespace, key)
    if not chain:
        return None
    latest = next((item for item in reversed(chain) if item.memory.superseded_by is None), chain[-1])
    return (names or Names()).known(latest)


def exactly(namespace: Namespace, key: str) -> Steps[Known | None]:
    """Return the memory of a key itself, of any status."""
    item = yield from stored(namespace, key)
    return None if item is None else Known.of(item)


def stored(namespace: Namespace, key: str) -> Steps[MemoryItem | None]:
    """Return the same as the store does."""
    item: MemoryItem | None = yield call("get", namespace, key, track_access=False)
    return item


def similar_to(
    namespace: Namespace,
    about: str,
    types: list[str] | None,
    run_id: str | None,
    status: tuple[str, ...] = OPEN,
) -> Steps[list[Known]]:
    """Return memories near to what a user speaks of, the nearest first."""
    options: dict[str, Any] = {"status": status, "run_id": run_id, "limit": LOOKED_AT, **_UNTRACED}
    items = yield call("recall", namespace, about or None, memory_types=True if types is None else types, **options)
    return [Known.of(item) for item in items if item.namespace == namespace]
