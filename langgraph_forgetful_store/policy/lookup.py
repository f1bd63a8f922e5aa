"""Looking at what the memory holds, without leaving a trace: no access is counted, no TTL slides."""

from __future__ import annotations

from typing import Any

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy.config import PolicyRules
from langgraph_forgetful_store.policy.decide import Found, Known
from langgraph_forgetful_store.policy.stages import Draft
from langgraph_forgetful_store.policy.steps import Steps, call

Namespace = tuple[str, ...]
OPEN = ("active", "archived")
# A read that says what is to be known counts no access; all that is known now is known then.
_UNTRACED = "9999-12-31T00:00:00+00:00"


def find(draft: Draft, namespace: Namespace, settings: PolicyRules, reserved: str | None) -> Steps[Found]:
    """Find what a candidate may be about: what it names, what holds its slot, and what is similar."""
    given = draft.candidate
    head: Known | None = None
    for key in (given.relation_to, given.key):
        if head is None and key is not None:
            head = yield from current(namespace, key)
    if head is None and given.slot is not None:
        head = yield from holder(namespace, given.slot, given.run_id, reserved)
    if draft.is_secret or settings.proposals == 0:
        return Found(head)
    options: dict[str, Any] = {"run_id": given.run_id, "known_at": _UNTRACED, "status": OPEN}
    every_type = _fields(reserved, memory_type={"$exists": True})
    same = yield call("recall", namespace, filter={**_same(given.content), **every_type}, limit=3, **options)
    near = yield call("recall", namespace, given.text, filter=every_type, limit=settings.proposals + 1, **options)
    known: dict[str, Known] = {}
    for item in (*near, *same):
        if item.namespace == namespace and (head is None or item.key != head.key):
            known.setdefault(item.key, Known.of(item))
    return Found(head, tuple(known.values())[: settings.proposals + len(same)])


def _same(content: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(content, str):
        return {"content": content}
    # A name with a $ would be read as an operator; it just isn't looked for.
    return {name: {"$eq": value} for name, value in content.items() if not name.startswith("$")}


def _fields(reserved: str | None, **conditions: Any) -> dict[str, Any]:
    if reserved is None:
        raise ConfigurationError(
            "a policy needs the store's reserved key, which says what of the lifecycle is looked for"
        )
    return {reserved: conditions}


def holder(
    namespace: Namespace, slot: tuple[str, str], run_id: str | None, reserved: str | None
) -> Steps[Known | None]:
    """Return what holds a slot: the current row, else an archived one."""
    where = _fields(reserved, subject=slot[0], attribute=slot[1], memory_type={"$exists": True})
    for status in OPEN:
        items = yield call("recall", namespace, filter=where, limit=20, status=status, run_id=run_id, refresh_ttl=False)
        for item in items:
            if item.namespace == namespace:
                return Known.of(item)
    return None


def current(namespace: Namespace, key: str) -> Steps[Known | None]:
    """Return the latest memory of a key's chain."""
    chain = yield call("history", namespace, key)
    if not chain:
        return None
    latest = next((item for item in reversed(chain) if item.memory.superseded_by is None), chain[-1])
    return Known.of(latest)


def exactly(namespace: Namespace, key: str) -> Steps[Known | None]:
    """Return the memory of a key itself, of any status."""
    chain = yield call("history", namespace, key)
    return next((Known.of(item) for item in chain if item.key == key), None)


def similar_to(
    namespace: Namespace, about: str, types: list[str] | None, run_id: str | None, reserved: str | None, limit: int = 20
) -> Steps[list[Known]]:
    """Return memories near to what a user speaks of, the nearest first."""
    options: dict[str, Any] = {"known_at": _UNTRACED, "status": OPEN, "run_id": run_id, "limit": limit}
    if types is None:
        options["filter"] = _fields(reserved, memory_type={"$exists": True})
    else:
        options["memory_types"] = types
    items = yield call("recall", namespace, about or None, **options)
    return [Known.of(item) for item in items if item.namespace == namespace]
