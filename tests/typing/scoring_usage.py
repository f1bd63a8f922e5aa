"""What a user's type checker sees of scoring presets and of `testing`; checked by mypy and pyright, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, assert_type

import numpy as np
import pytest
import redis

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.scoring import (
    Columns,
    GenerativeAgents,
    Multiplicative,
    Scores,
    ScoringPreset,
    Similarity,
    Term,
    Weighted,
)
from langgraph_forgetful_store.testing import Clock, Face, StoreContract, WordEmbeddings, check_keys, faces


@dataclass(frozen=True)
class Newest:
    """A preset of the user's own."""

    pointwise: ClassVar[bool] = True
    weight: float = 0.5

    def score(self, rows: Columns) -> Scores:
        age = (rows.now - rows.updated_at) / 86_400_000
        return Scores.weighted_sum(
            [
                Term("similarity", rows.similarity, np.maximum(rows.similarity, 0)),
                Term("newness", age, np.exp2(-age), self.weight),
            ]
        )


def presets() -> None:
    chosen: list[str | ScoringPreset] = [
        "weighted",
        Weighted(freshness=0.3),
        Similarity(),
        GenerativeAgents(recency=1.0),
        Multiplicative(),
        Newest(),
    ]
    for one in chosen:
        ForgetfulStore(redis.Redis(), scoring=one)
    ForgetfulStore(redis.Redis(), scoring=Newest(0.2))
    details = ForgetfulStore(redis.Redis()).recall(("a",), "q", explain=True)[0].score_details
    assert_type(details, dict[str, Any] | None)


class TestOwnStore(StoreContract):
    """The contract, run against the user's own store."""

    @pytest.fixture
    def make_store(self) -> Any:
        return ForgetfulStore.embedded


def helpers() -> None:
    clock = Clock()
    embeddings = WordEmbeddings(16)
    store = ForgetfulStore.embedded(index={"dims": 16, "embed": embeddings}, clock=clock)
    clock.advance(minutes=5)
    assert_type(check_keys(redis.Redis(), "forgetful"), dict[str, int])
    Face(store, asynchronous=True).get(("a",), "k")
    with faces(asynchronous=False) as face:
        face(store).end()
