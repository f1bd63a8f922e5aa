"""Equal vectors score equally, whichever way they came and whatever engine reads them."""

from __future__ import annotations

import numpy as np
import pytest

from langgraph_forgetful_store.search.scoring import cosine, normalise

DIMS = 33


class Dense:
    """Texts as random vectors: their lengths have to be rounded."""

    def __call__(self, texts: list[str]) -> list[list[float]]:
        return [np.random.default_rng(list(text.encode())).standard_normal(DIMS).tolist() for text in texts]


@pytest.mark.parametrize("dims", [3, 33, 384])
def test_a_row_is_scaled_alike_alone_and_among_others(dims):
    dice = np.random.default_rng(dims)
    rows = (dice.standard_normal((2500, dims)) * 10.0 ** dice.integers(-18, 19, (2500, 1))).astype(np.float32)
    together = normalise(rows)
    shifted = np.empty(rows.size + 1, np.float32)[1:].reshape(rows.shape)
    shifted[:] = rows
    assert (normalise(shifted) == together).all()
    assert (np.concatenate([normalise(row[None]) for row in rows]) == together).all()
    assert np.linalg.norm(together.astype(float), axis=1) == pytest.approx(1.0, abs=1e-6)
    for start in range(0, 2000, 7):
        assert (cosine(together[0], together[start : start + 3]) == cosine(together[0], together)[start:][:3]).all()


def test_what_ranks_above_equal_vectors_is_the_later_write_in_every_engine(make_any_store):
    settings = {"index": {"dims": DIMS, "embed": Dense(), "fields": ["t"], "embedder_id": "dense"}}
    near = make_any_store(scoring="similarity", **settings)
    scan = make_any_store(scoring="similarity", cache_bytes=0, **settings)
    for n in range(20):
        ns = ("notes", f"{n}")
        near.put(ns, "first", {"t": f"text {n}"})
        near.put(ns, "other", {"t": f"another {n}"})
        # These two come in one load, the next one alone, by a sync.
        near.search(ns, query="warm")
        near.put(ns, "second", {"t": f"text {n}"})
        found = near.search(ns, query=f"question {n}")
        scores = {item.key: item.score for item in found}
        assert scores["first"] == scores["second"]
        keys = [item.key for item in found]
        assert keys.index("second") + 1 == keys.index("first")
        assert [(item.key, item.score) for item in scan.search(ns, query=f"question {n}")] == [
            (item.key, item.score) for item in found
        ]
