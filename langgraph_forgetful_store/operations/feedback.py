"""Learning from how a recall was received."""

from __future__ import annotations

from langgraph_forgetful_store.backend.flow import Flow
from langgraph_forgetful_store.backend.keys import decode_namespace, decode_text
from langgraph_forgetful_store.model.checks import check_key
from langgraph_forgetful_store.model.memory import MemoryItem, read_recall_id
from langgraph_forgetful_store.model.packing import note_done, was_done
from langgraph_forgetful_store.operations.plan import Plan
from langgraph_forgetful_store.operations.session import Session, open_store
from langgraph_forgetful_store.operations.transact import Seen, ask_row, transact
from langgraph_forgetful_store.operations.transitions import (
    CONFIRMED_CONFIDENCE,
    CONFIRMED_IMPORTANCE,
    DENIED_CONFIDENCE,
    check_idempotency_key,
    clamped,
)

# What was no use matters less, by as much as what was some use matters more; ours.
DENIED_IMPORTANCE = 0.05


def feedback(
    session: Session, recall_id: object, value: object, keys: object = None, idempotency_key: object = None
) -> Flow[list[MemoryItem]]:
    """Move confidence and importance of what a recall returned; see `ForgetfulStore.feedback`."""
    once = check_idempotency_key(idempotency_key)
    if isinstance(value, bool) or value not in (1, -1):
        raise ValueError(f"value must be 1 or -1, got {value!r}")
    only = None
    if keys is not None:
        if isinstance(keys, str) or not hasattr(keys, "__iter__"):
            raise ValueError(f"keys must be a list of keys or None, got {keys!r}")
        only = {check_key(key) for key in keys}
    lives = [
        (decode_namespace(namespace), decode_text(key), created)
        for namespace, key, created in read_recall_id(recall_id)
        if only is None or decode_text(key) in only
    ]
    yield from open_store(session)
    changed: list[MemoryItem] = []
    for namespace in dict.fromkeys(life[0] for life in lives):
        created_at = {key: created for space, key, created in lives if space == namespace}

        def make(seen: Seen, created_at: dict[str, float] = created_at) -> Plan:
            plan = Plan(seen.now)
            for row in (one.row for one in seen.found if one.row is not None and not one.row.gone):
                # One that was forgotten and written anew was not what was recalled.
                if row.meta.created_at != created_at[row.key]:
                    continue
                plan.wanted.append(row.key)
                if was_done(row.rest, once):
                    continue
                more = value == 1
                confidence = row.meta.confidence + (CONFIRMED_CONFIDENCE if more else -DENIED_CONFIDENCE)
                importance = row.meta.importance + (CONFIRMED_IMPORTANCE if more else -DENIED_IMPORTANCE)
                change = plan.change(row, confidence=clamped(confidence), importance=clamped(importance))
                note_done(change.rest, once)
                plan.record("feedback", row.key, "positive" if more else "negative", recall=str(recall_id)[:64])
            return plan

        changed += yield from transact(session, namespace, [ask_row(key) for key in created_at], make)
    return changed
