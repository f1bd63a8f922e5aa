"""What is erased with a memory: its chain, what was merged into it, and the summaries made from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langgraph_forgetful_store.backend.codec import dump_value, load_value
from langgraph_forgetful_store.backend.flow import Embed, Flow
from langgraph_forgetful_store.backend.keys import encode_json, encode_namespace, encode_text
from langgraph_forgetful_store.model.checks import Namespace
from langgraph_forgetful_store.model.memory import MemoryItem
from langgraph_forgetful_store.operations.commit import NOW, Ask, Plan, Stored, look, stored_item, whole_chain
from langgraph_forgetful_store.operations.history import IN, MERGED, OUT, unpack_links
from langgraph_forgetful_store.operations.session import Session
from langgraph_forgetful_store.operations.writing import texts_of

# Contents below it are found everywhere.
LEAST_BYTES = 8
# Fields that may tell who or what a memory is about.
_TOLD_BY = ("subject", "attribute", "tags", "preconditions", "source_refs", "run_id")
Rederive = Callable[[MemoryItem, list[MemoryItem]], str | Mapping[str, Any] | None]


def closure(
    session: Session, encoded: bytes, keys: Iterable[str], made_from: set[str]
) -> Flow[tuple[dict[str, Stored], dict[str, bytes | None], set[str]]]:
    """Find the chains of rows, what was merged into them, and the summaries made from them.

    Args:
        session: The store's.
        encoded: The namespace.
        keys: Of the rows.
        made_from: Which of them are summaries.

    Returns:
        The rows, their links as they are stored, and which of them are summaries.
    """
    found: dict[str, Stored] = {}
    links: dict[str, bytes | None] = {}
    summaries = set(made_from)
    pending = list(keys)
    while pending:
        lines = []
        for key in pending:
            own = one_line((yield from whole_chain(session.frame(), encoded, key))[1], key)
            if key in summaries:
                summaries.update(row.key for row in own)
            lines.append(own)
        fresh = {row.key: row for own in lines for row in own if row.key not in found}
        found |= fresh
        asked: list[Ask] = [("l", key, "") for key in fresh]
        told = (yield from look(session.frame(), encoded, asked)).found if asked else []
        links |= dict(zip(fresh, told, strict=True))
        pending = []
        for key in fresh:
            for direction, relation, other in unpack_links(links[key]):
                if direction == IN and relation in {MERGED, "summarizes"} and other not in found:
                    pending.append(other)
                    if relation == "summarizes":
                        summaries.add(other)
    return found, links, summaries


def one_line(rows: Sequence[Stored], key: str) -> list[Stored]:
    """Return the rows of one chain; what its rows were merged into says something of its own, and stays."""
    beside: dict[str, list[str]] = {}
    for row in rows:
        if "supersedes" in row.rest:
            beside.setdefault(row.key, []).append(row.rest["supersedes"])
            beside.setdefault(row.rest["supersedes"], []).append(row.key)
    keys, pending = {key}, [key]
    while pending:
        fresh = [one for one in beside.get(pending.pop(), ()) if one not in keys]
        keys.update(fresh)
        pending += fresh
    return [row for row in rows if row.key in keys]


def rederived(
    session: Session,
    labels: Namespace,
    plan: Plan,
    summaries: set[str],
    found: Mapping[str, Stored],
    links: Mapping[str, bytes | None],
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
        for one in (row.key for row in one_line(list(found.values()), key)):
            sources |= dict.fromkeys(found[one].rest.get("source_refs", ()))
            for direction, relation, other in unpack_links(links.get(one)):
                if direction == OUT and relation == "summarizes":
                    sources[other] = None
        sources = {other: None for other in sources if other not in found and other not in erased}
        seen = yield from look(session.frame(), encoded, [("r", other, "") for other in sources], values=True)
        left = [stored_item(session, labels, one, seen.now) for chain in seen.found for one in chain.living]
        content = rederive(stored_item(session, labels, row, seen.now), left)
        if content is None:
            continue
        if not isinstance(content, str | Mapping):
            raise TypeError(f"rederive must return a str, a dict or None, and not be async; it returned {content!r}")
        value = dump_value({"content": content} if isinstance(content, str) else content)
        texts = texts_of(value, None, session)
        vectors = (yield Embed(texts))[0] if texts else ()
        change = plan.change(row, updated_at=NOW, version=row.meta.version + 1)
        change.value, change.vectors = value, b"".join(vector.tobytes() for vector in vectors)
        refs = [one for one in row.rest.get("source_refs", ()) if one in sources]
        for name in ("source_refs", "supersedes", "superseded_by"):
            change.rest.pop(name, None)
        if refs:
            change.rest["source_refs"] = refs
        kept.add(key)
    return kept


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
