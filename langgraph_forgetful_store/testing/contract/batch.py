"""Batches: order, phases, and all or nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp

from langgraph_forgetful_store.testing.contract.base import NS, Make, Section, keys, refuses, snapshot
from langgraph_forgetful_store.testing.contract.embedders import PlannedEmbeddings, index, raises
from langgraph_forgetful_store.testing.face import Face

# The argument types are wrong on purpose.
BAD_OPS: dict[str, tuple[type[Exception], Any]] = {
    "unknown type": (ValueError, "get"),
    "label with a dot": (ValueError, PutOp(("a.b",), "k", {})),
    "get with an empty label": (ValueError, GetOp(("",), "k")),
    "search prefix with a NUL": (ValueError, SearchOp(("a\0",))),
    "list suffix with a dot": (ValueError, ListNamespacesOp((MatchCondition("suffix", ("a.b",)),))),
    "value is a list": (TypeError, PutOp(NS, "bad", cast(Any, [1]))),
    "value holds a set": (TypeError, PutOp(NS, "bad", {"x": {1}})),
    "value holds a NaN": (ValueError, PutOp(NS, "bad", {"x": math.nan})),
    "index is a str": (TypeError, PutOp(NS, "bad", {}, index=cast(Any, "text"))),
    "negative limit": (ValueError, SearchOp(NS, limit=-1)),
    "negative offset": (ValueError, SearchOp(NS, offset=-1)),
    "negative list limit": (ValueError, ListNamespacesOp(limit=-1)),
    "negative list offset": (ValueError, ListNamespacesOp(offset=-1)),
    "max_depth 0": (ValueError, ListNamespacesOp(max_depth=0)),
    "unknown operator": (ValueError, SearchOp(NS, filter={"absent": {"$near": 1}})),
    "filter is a list": (TypeError, SearchOp(NS, filter=cast(Any, [1]))),
    "negative ttl": (ValueError, PutOp(NS, "bad", {}, ttl=-1)),
    "NaN ttl": (ValueError, PutOp(NS, "bad", {}, ttl=math.nan)),
    "ttl is a str": (TypeError, PutOp(NS, "bad", {}, ttl=cast(Any, "1"))),
}


class BatchContract(Section):
    """Contract 1-7."""

    def test_a_batch_takes_any_iterable_and_answers_in_order(self, store: Face) -> None:
        """Contract 1."""
        kinds: tuple[Any, ...] = (list, tuple, iter, dict.fromkeys, lambda ops: (op for op in ops))
        store.put(NS, "a", {"x": 1})
        ops = [GetOp(NS, "a"), PutOp(NS, "b", None), GetOp(NS, "none"), SearchOp(NS), ListNamespacesOp()]
        for kind in kinds:
            got, deleted, absent, found, listed = store.batch(kind(ops))
            assert got.key == "a"
            assert deleted is None
            assert absent is None
            assert keys(found) == ["a"]
            assert listed == [NS]

    def test_an_empty_batch_is_an_empty_list(self, store: Face) -> None:
        """Contract 1."""
        assert store.batch([]) == []
        assert store.batch(iter(())) == []

    def test_puts_and_deletes_give_none(self, store: Face) -> None:
        """Contract 1."""
        assert store.batch([PutOp(NS, "a", {}), PutOp(NS, "b", {}), PutOp(NS, "a", None)]) == [None, None, None]
        assert store.put(NS, "a", {}) is None
        assert store.delete(NS, "a") is None

    def test_many_results_stand_in_the_order_of_their_ops(self, store: Face) -> None:
        """Contract 1."""
        store.batch([PutOp(NS, str(at), {"at": at}) for at in range(700)])
        order = [(at * 257) % 700 for at in range(700)]
        assert [item.value["at"] for item in store.batch(GetOp(NS, str(at)) for at in order)] == order

    def test_reads_of_a_batch_see_the_state_before_its_puts_wherever_they_stand(self, store: Face) -> None:
        """Contract 2."""
        for first in range(5):
            old, new, gone = ((f"at {first}", name) for name in ("old", "new", "gone"))
            store.batch([PutOp(old, "k", {"v": 0}), PutOp(gone, "k", {"v": 0})])
            prefix = MatchCondition("prefix", old[:1])
            ops: list[Op] = [GetOp(old, "k"), SearchOp(old[:1]), ListNamespacesOp((prefix,)), GetOp(new, "k")]
            puts: list[Op] = [PutOp(old, "k", {"v": 1}), PutOp(new, "k", {"v": 1}), PutOp(gone, "k", None)]
            results = store.batch([*ops[:first], *puts, *ops[first:]])
            got, found, listed, absent = results[:first] + results[first + len(puts) :]
            assert got.value == {"v": 0}
            assert sorted(item.namespace for item in found) == [gone, old]
            assert all(item.value == {"v": 0} for item in found)
            assert listed == [gone, old]
            assert absent is None
            assert {(item.namespace, item.value["v"]) for item in store.search(old[:1])} == {(old, 1), (new, 1)}

    def test_reads_between_the_puts_of_a_batch_see_the_state_before_it_too(self, store: Face) -> None:
        """Contract 2."""
        store.put(NS, "k", {"v": 0})
        ops = [op for v in range(1, 4) for op in (PutOp(NS, "k", {"v": v}), GetOp(NS, "k"), PutOp(NS, "k", None))]
        assert [item.value["v"] for item in store.batch(ops)[1::3]] == [0, 0, 0]

    def test_of_puts_of_one_row_the_last_one_wins_deletes_included(self, store: Face) -> None:
        """Contract 3."""
        for order in itertools.permutations((None, 1, 2)):
            store.put(NS, "k", {"v": 0})
            store.batch([PutOp(NS, "k", None if v is None else {"v": v}) for v in order])
            item = store.get(NS, "k")
            assert (item and item.value["v"]) == order[-1]
            assert len(store.search(NS)) == (order[-1] is not None)

    def test_rows_of_other_namespaces_and_keys_are_not_deduplicated(self, store: Face) -> None:
        """Contract 3."""
        rows = [(("a",), "k"), (("a",), "K"), (("a", "k"), "k"), (("A",), "k")]
        store.batch([PutOp(ns, key, {"at": at}) for at, (ns, key) in enumerate(rows)])
        assert [store.get(ns, key).value["at"] for ns, key in rows] == [0, 1, 2, 3]

    def test_only_the_put_that_wins_is_embedded(self, make: Make) -> None:
        """Contract 3."""
        embedder = PlannedEmbeddings()
        store = make(index=index(embedder))
        store.batch([PutOp(NS, "k", {"text": text}) for text in ("first", "second", "last")])
        assert embedder.documents == [["last"]]
        store.batch([PutOp(NS, "k", {"text": "more"}), PutOp(NS, "k", None)])
        assert embedder.documents == [["last"]]

    def test_a_value_of_none_deletes(self, store: Face) -> None:
        """Contract 4."""
        ways: tuple[Callable[[], Any], ...] = (
            lambda: store.batch([PutOp(NS, "k", None)]),
            lambda: store.put(NS, "k", None),
            lambda: store.delete(NS, "k"),
        )
        for delete in ways:
            store.batch([PutOp(NS, "k", {"v": 1}), PutOp(NS, "other", {"v": 2})])
            delete()
            assert store.get(NS, "k") is None
            assert keys(store.search(NS)) == ["other"]

    def test_deleting_what_is_absent_is_silent(self, store: Face) -> None:
        """Contract 4."""
        store.put(NS, "k", {})
        store.delete(NS, "absent")
        store.delete(("no", "such"), "k")
        store.put(NS, "absent", None)
        store.batch([PutOp(NS, "absent", None), PutOp(("no", "such"), "k", None)])
        assert keys(store.search(())) == ["k"]

    def test_duplicate_reads_each_get_their_result(self, store: Face) -> None:
        """Contract 5."""
        store.put(NS, "k", {"v": 1})
        reads: list[Op] = [GetOp(NS, "k"), GetOp(NS, "none"), SearchOp(NS), ListNamespacesOp()]
        results = store.batch(reads * 3)
        assert [item.value for item in results[::4]] == [{"v": 1}] * 3
        assert results[1::4] == [None] * 3
        assert [keys(found) for found in results[2::4]] == [["k"]] * 3
        assert results[3::4] == [[NS]] * 3

    def test_an_op_of_an_unknown_type_raises(self, store: Face) -> None:
        """Contract 6."""
        for op in (None, "get", 7, (NS, "k"), {"namespace": NS}, object()):
            refuses(ValueError, store.batch, [op])
            refuses(ValueError, store.batch, [PutOp(NS, "k", {}), op, GetOp(NS, "k")])
        assert store.get(NS, "k") is None

    def test_one_bad_op_and_nothing_of_the_batch_is_written(self, store: Face) -> None:
        """Contract 7: whatever is wrong with it, and wherever it stands."""
        store.batch([PutOp(NS, "old", {"v": 0}), PutOp(NS, "doomed", {"v": 0})])
        before = snapshot(store)
        ops: list[Any] = [PutOp(NS, "old", {"v": 1}), PutOp(("new",), "k", {"v": 1}), PutOp(NS, "doomed", None)]
        for name, (error, bad) in BAD_OPS.items():
            for place in (0, 1, len(ops)):
                refuses(error, store.batch, [*ops[:place], bad, *ops[place:]])
                assert snapshot(store) == before, name
        assert store.list_namespaces() == [NS]

    def test_an_embedder_that_raises_writes_nothing(self, make: Make) -> None:
        """Contract 7: the old value and vector stay."""
        embedder_that_fails_changes_nothing(
            partial(make, **self.plain_cosine), RuntimeError, raises(RuntimeError("no model today"))
        )

    def test_an_embedder_that_answers_nonsense_writes_nothing(self, make: Make) -> None:
        """Contract 7."""
        for spoil in (
            lambda vectors: [vector[:-1] for vector in vectors],
            lambda vectors: [[*vector, 0.5] for vector in vectors],
            lambda vectors: [[math.nan] * len(vector) for vector in vectors],
            lambda vectors: [[math.inf] * len(vector) for vector in vectors],
        ):
            embedder_that_fails_changes_nothing(partial(make, **self.plain_cosine), ValueError, spoil)

    def test_an_embedder_that_returns_too_few_vectors_writes_nothing(self, make: Make) -> None:
        """Contract 7."""
        embedder = PlannedEmbeddings()
        store = make(index=index(embedder))
        embedder.spoil = lambda vectors: vectors[:-1]
        refuses(ValueError, store.batch, [PutOp(NS, text, {"text": text}) for text in ("tea", "milk")])
        assert snapshot(store) == []

    def test_wrong_dimensions_are_named_with_both_numbers(self, make: Make) -> None:
        """Contract 7."""
        embedder = PlannedEmbeddings(dims=5)
        store = make(index=index(embedder, dims=4))
        for message in (
            refuses(ValueError, store.put, NS, "k", {"text": "tea"}),
            refuses(ValueError, store.search, NS, query="tea"),
        ):
            assert "4" in message
            assert "5" in message


def embedder_that_fails_changes_nothing(make: Make, error: type[Exception], spoil: Callable[[Any], Any]) -> None:
    """Check puts, searches and batches against an embedder that is spoilt."""
    embedder = PlannedEmbeddings()
    store = make(index=index(embedder))
    store.batch([PutOp(NS, "old", {"text": "green tea"}), PutOp(NS, "doomed", {"text": "coffee"})])
    before = snapshot(store)
    scores = [(item.key, item.score) for item in store.search(NS, query="green tea")]
    embedder.spoil = spoil
    refuses(error, store.put, NS, "old", {"text": "black tea"})
    refuses(error, store.batch, [PutOp(NS, "old", {"text": "milk"}), PutOp(NS, "new", {}), PutOp(NS, "doomed", None)])
    refuses(error, store.search, NS, query="tea")
    refuses(error, store.batch, [PutOp(NS, "new", {}, index=False), SearchOp(NS, query="tea")])
    embedder.spoil = lambda vectors: vectors
    assert snapshot(store) == before
    assert [(item.key, item.score) for item in store.search(NS, query="green tea")] == scores
