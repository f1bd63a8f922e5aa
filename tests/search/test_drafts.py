"""What is computed while the server answers: never other than what would be computed afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.codec import META_DTYPE, Meta, unpack_meta
from langgraph_forgetful_store.backend.drivers import WORK_ON_LOOP
from langgraph_forgetful_store.backend.flow import Send, Work
from langgraph_forgetful_store.model.memory_types import DAY_MS
from langgraph_forgetful_store.search import ranking
from langgraph_forgetful_store.search.admission import Admission
from langgraph_forgetful_store.search.candidates import Candidate
from langgraph_forgetful_store.search.presets import Weighted
from langgraph_forgetful_store.search.question import Question
from langgraph_forgetful_store.search.ranking import Draft, Ranking, rank
from langgraph_forgetful_store.search.scope import Base, Delta, Identity, Scope
from langgraph_forgetful_store.search.table import Fetched, Snapshot
from langgraph_forgetful_store.testing.internals import async_driver_of, sync_driver_of

NOW = 1_700_000_000_000.0
DIMS, ROWS, KEEP = 4, 300, 3
NS = b"n\0\1"
TYPES = ("generic", "emotion")
SAME_LIFE = Identity(b"epoch", b"replication")


def row(number: int, *, importance: float = 0.5, updated_at: float = NOW - 900 * DAY_MS, kind: int = 0) -> Fetched:
    meta = np.zeros(1, META_DTYPE)
    for name, value in {
        "created_at": updated_at,
        "updated_at": updated_at,
        "expires_at": np.inf,
        "ttl": np.inf,
        "confirmed_at": -np.inf,
        "retired_at": np.inf,
        "valid_until": np.inf,
        "accessed_at": -np.inf,
        "content": number,
        "importance": importance,
        "confidence": 0.8,
        "memory_type": kind,
    }.items():
        meta[name] = value
    vector = np.random.default_rng(number).standard_normal(DIMS).astype(np.float32)
    return Fetched(NS, str(number).encode(), meta.tobytes(), vector.tobytes(), b"{}", None)


def scope_of(rows: list[Fetched]) -> Scope:
    scope = Scope(DIMS)
    scope.replace(SAME_LIFE, 1, rows, scope.base)
    return scope


def change(scope: Scope, *, gone: list[int] = (), rows: list[Fetched] = ()) -> Snapshot:
    names = [(NS, str(number).encode()) for number in gone]
    version = scope.snapshot.version
    snapshot = scope.apply(SAME_LIFE, Delta(Base(scope.base.load, version), version + 1, names, rows, TYPES))
    assert snapshot is not None
    return snapshot


def question(**options: Any) -> Question:
    return Question(np.array([1, 0, 0, 0], np.float32), Weighted(), Admission(), **options)


def ranked(
    snapshot: Snapshot, asked: Question, now: float, draft: Draft | None = None
) -> tuple[list[int], list[float]]:
    ranking: Ranking = rank(snapshot, snapshot.live, asked, TYPES, now, KEEP, draft)
    return ranking.slots.tolist(), ranking.scores.tolist()


def drafted(scope: Scope, asked: Question, warm_at: float = NOW) -> Draft:
    # A search before it leaves bounds to draft from.
    ranked(scope.snapshot, question(), warm_at)
    draft = Draft(asked, KEEP)
    draft.prepare(scope.snapshot)
    return draft


CHANGES = {
    "nothing": {},
    "a new row, the best of all": {"rows": [row(1000, importance=1.0, updated_at=NOW)]},
    "the best rows are gone": {"gone": list(range(0, ROWS, 2))},
    "so many are gone that slots are numbered anew": {"gone": list(range(ROWS - 50))},
    "rows were written again": {"rows": [row(number, importance=0.9) for number in range(5)]},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    "options", [{}, {"min_similarity": 0.2}, {"goal": np.array([0, 1, 0, 0], np.float32)}], ids=str
)
def test_a_draft_changes_no_ranking_whatever_the_answer_brings(changes, options):
    scope, asked = scope_of([row(number) for number in range(ROWS)]), question(**options)
    draft = drafted(scope, asked)
    snapshot = change(scope, **changes)
    with_draft = ranked(snapshot, asked, NOW, draft)
    assert len(with_draft[0]) == KEEP
    assert with_draft == ranked(snapshot, asked, NOW)


def test_a_draft_of_bounds_that_were_reckoned_later_than_now_is_not_trusted():
    fresh = row(1000, importance=0.4, updated_at=NOW, kind=1)
    alike = [number._replace(vectors=fresh.vectors) for number in map(row, range(ROWS))]
    scope, asked = scope_of([*alike, fresh]), question()
    # What fades within minutes had faded when the bounds were reckoned; the server's clock has been set back since.
    draft = drafted(scope, asked, warm_at=NOW + DAY_MS)
    assert ranked(scope.snapshot, asked, NOW + DAY_MS, draft)[0][0] != ROWS
    assert ranked(scope.snapshot, asked, NOW, draft)[0][0] == ROWS


def test_a_ranking_takes_over_what_was_drafted(monkeypatch):
    scope, asked = scope_of([row(number) for number in range(ROWS)]), question()
    draft, calls = drafted(scope, asked), []
    monkeypatch.setattr(ranking, "similarities", lambda *given: calls.append(given))
    ranked(change(scope), asked, NOW, draft)
    assert calls == []


def asking(happened: list[str], rows: int) -> Any:
    call = scripts.stored_format(scripts.Frame("", omit=True))
    yield Send([call], Work(lambda: happened.append("meanwhile"), rows))
    happened.append("answered")


def test_what_may_be_done_meanwhile_is_done_before_the_answer_is_there(make_store):
    happened: list[str] = []
    store = make_store()
    # A script that the server does not know yet is sent twice.
    store.setup()
    sync_driver_of(store).run(asking(happened, 1))
    assert happened == ["meanwhile", "answered"]


@pytest.mark.parametrize(("rows", "first"), [(WORK_ON_LOOP, ["meanwhile"]), (WORK_ON_LOOP + 1, [])])
async def test_what_would_hold_up_the_event_loop_is_not_done_meanwhile(make_store, rows, first):
    happened: list[str] = []
    store = make_store()
    await store.setup()
    await async_driver_of(store).run(asking(happened, rows))
    assert happened == [*first, "answered"]


def test_an_item_that_was_made_too_early_is_made_again_when_its_times_have_changed():
    old, new = (unpack_meta(row(1, updated_at=at).meta) for at in (NOW, NOW + 1000))
    for read, stays in ((old, True), (new, False)):
        candidate = Candidate(NS, b"k", old, {"v": 1})
        made = candidate.made = candidate.item()
        candidate.read_again([_packed(read), None, None, None])
        item = candidate.item(2)
        assert (item is made) is stays
        assert item.updated_at.timestamp() * 1000 == read.updated_at
        assert item.memory.access_count == 2


def _packed(meta: Meta) -> bytes:
    packed = np.zeros(1, META_DTYPE)
    for name, value in meta._asdict().items():
        packed[name] = value
    return packed.tobytes()
