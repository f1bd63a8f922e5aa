"""What is erased with a memory: its chain, what was merged into it, and the summaries made from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langgraph_forgetful_store.backend.codec import dump_value, load_value
from langgraph_forgetful_store.backend.flow import Embed, Flow
from langgraph_forgetful_store.backend.keys import encode_json, encode_namespace, encode_text
from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.operations.history import Link, links
from langgraph_forgetful_store.operations.indexing import Indexed, Paths
from langgraph_forgetful_store.operations.plan import IN, MERGED, MERGED_REASON, OUT, Plan, Stored
from langgraph_forgetful_store.operations.session import Session
from langgraph_forgetful_store.operations.transact import ask_row, look, stored_item, told

# Contents below it are found everywhere.
LEAST_BYTES = 8
# Fields that may tell who or what a memory is about.
_TOLD_BY = ("subject", "attribute", "tags", "preconditions", "source_refs", "run_id")
Rederive = Callable[[MemoryItem, list[MemoryItem]], str | Mapping[str, Any] | None]


def closure(
    session: Session, encoded: bytes, keys: Iterable[str], made_from: set[str]
) -> Flow[tuple[dict[str, Stored], dict[str, list[Link]], set[str]]]:
    """Find what was said in the slots or chains of rows, what was merged into it, and the summaries made from it.

    Args:
        session: The store's.
        encoded: The namespace.
        keys: Of the rows.
        made_from: Which of them are summaries.

    Returns:
        The rows, their links, and which of them are summaries.
    """
    found: dict[str, Stored] = {}
    known: dict[str, list[Link]] = {}
    summaries = set(made_from)
    pending = list(keys)
    while pending:
        fresh: dict[str, Stored] = {}
        for key in pending:
            if key in fresh:
                continue
            own = {row.key: row for row in (yield from told(session, encoded, key))[1]}
            if key in own and own[key].meta.reason == MERGED_REASON:
                # What it was merged into says something of its own.
                subject = own[key].rest.get("subject")
                own = {one: row for one, row in own.items() if row.rest.get("subject") == subject}
            if key in summaries:
                summaries.update(own)
            fresh |= {one: row for one, row in own.items() if one not in found}
        found |= fresh
        known |= yield from links(session, encoded, fresh)
        pending = []
        for key, row in fresh.items():
            near = [row.rest.get("supersedes")]
            if not any(link[0] == OUT and link[1] == MERGED for link in known[key]):
                near.append(row.rest.get("superseded_by"))
            pending += [other for other in near if other is not None and other not in found]
            for direction, relation, other in known[key]:
                if direction == IN and relation in {MERGED, "summarizes"} and other not in found:
                    pending.append(other)
                    if relation == "summarizes":
                        summaries.add(other)
        pending = list(dict.fromkeys(pending))
    return found, known, summaries


def rederived(
    session: Session,
    labels: Namespace,
    plan: Plan,
    summaries: set[str],
    found: Mapping[str, Stored],
    known: Mapping[str, Sequence[Link]],
    erased: Mapping[str, None],
    rederive: Rederive | None,
) -> Flow[set[str]]:
    """Plan the summaries that are to be made anew from what is left of their sources, and return their keys."""
    kept: set[str] = set()
    if rederive is None:
        return kept
    encoded = encode_namespace(labels)
    for key in summaries & found.keys():
        row = found[key]
        # What a summary said before is not made anew.
        if row.gone or row.value is None or "superseded_by" in row.rest:
            continue
        sources: dict[str, None] = {}
        for one in _own_line(found, key):
            sources |= dict.fromkeys(found[one].rest.get("source_refs", ()))
            for direction, relation, other in known.get(one, ()):
                if direction == OUT and relation == "summarizes":
                    sources[other] = None
        sources = {other: None for other in sources if other not in found and other not in erased}
        seen = yield from look(session, encoded, [ask_row(other) for other in sources], values=True)
        rows = [one.row for one in seen.found if one.row is not None and not one.row.gone]
        left = [stored_item(session, labels, one, seen.now) for one in rows]
        content = rederive(stored_item(session, labels, row, seen.now), left)
        if content is None:
            continue
        if not isinstance(content, str | Mapping):
            raise TypeError(f"rederive must return a str, a dict or None, and not be async; it returned {content!r}")
        value = dump_value({"content": content} if isinstance(content, str) else content)
        indexed = Indexed.of(load_value(value), Paths.parse(None, session), session)
        vectors = (yield Embed(indexed.texts))[0] if indexed.texts else ()
        change = plan.change(row, updated_at=plan.now, version=row.meta.version + 1)
        change.value, change.search_index = value, indexed.pack(vector.tobytes() for vector in vectors)
        refs = [one for one in row.rest.get("source_refs", ()) if one in sources]
        for name in ("source_refs", "supersedes", "superseded_by", "took"):
            change.rest.pop(name, None)
        if refs:
            change.rest["source_refs"] = refs
        kept.add(key)
    return kept


def _own_line(found: Mapping[str, Stored], key: str) -> list[str]:
    """Return the keys of a summary and of what it said before."""
    keys = [key]
    while True:
        before: str | None = found[keys[-1]].rest.get("supersedes")
        if before is None or before not in found or before in keys:
            return keys
        keys.append(before)


def traces(row: Stored) -> Iterator[bytes]:
    """Return what a row's bytes could be told by, as it lies in Redis: its key, its texts, and its lifecycle's."""
    parts: list[Any] = [row.key] if row.value is None else [row.key, load_value(row.value)]
    parts += [row.rest[name] for name in _TOLD_BY if name in row.rest]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            parts += part.values()
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, str):
            # Plain, and as JSON writes it.
            for text in {encode_text(part), encode_json(part)[1:-1]}:
                if len(text) >= LEAST_BYTES:
                    yield text
