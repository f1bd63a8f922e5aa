"""Namespaces: what is one, how prefixes match, and how they are listed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp

from langgraph_forgetful_store.testing.contract.base import NS, Section, keys, refuses
from langgraph_forgetful_store.testing.face import Face

Path = tuple[str, ...]

BAD_LABELS: tuple[Any, ...] = ("", ".", "a.b", "a.", ".a", "\0", "a\0b", 1, 1.5, None, b"a", ("a",), ["a"], True)

BY_METHOD: dict[str, Callable[[Face, Any], Any]] = {
    "get": lambda store, ns: store.get(ns, "k"),
    "search": lambda store, ns: store.search(ns),
    "put": lambda store, ns: store.put(ns, "k", {}),
    "delete": lambda store, ns: store.delete(ns, "k"),
    "list prefix": lambda store, ns: store.list_namespaces(prefix=ns),
    "list suffix": lambda store, ns: store.list_namespaces(suffix=ns),
}

BY_RAW_OP: dict[str, Callable[[Any], Op]] = {
    "get": lambda ns: GetOp(ns, "k"),
    "search": lambda ns: SearchOp(ns),
    "put": lambda ns: PutOp(ns, "k", {}),
    "delete": lambda ns: PutOp(ns, "k", None),
    "list prefix": lambda ns: ListNamespacesOp((MatchCondition("prefix", ns),)),
    "list suffix": lambda ns: ListNamespacesOp((MatchCondition("suffix", ns),)),
}

LABELS = (
    "users", "Users", "USERS", "user", "users1", "memory", "memories", "aa", "bb", "bbc", "%", "%%", "_", "__", "*",
    "**", "?", "[", "]", "[a]", "[a-z]", "|", "a|b", "\\", "\\\\", "a\\", "😀", "👩‍👩‍👧", "é", "e\u0301", "\x01",
    "\x02", " ", "a b", ":", "{", "}", "{0}", "-", "!", "~", "\x7f", "\x80", "\xff", "\u00ac", "\u00ad", "\u07ff",
    "\u0800", "\ud800", "\uffff", "\U00010000", "\U0010ffff", "langgraphs", "x" * 10_000, "x" * 9_999,
)  # fmt: skip

TREE: tuple[Path, ...] = (
    ("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "d"), ("a", "b", "d", "e"), ("a", "c"), ("a", "c", "b"), ("b",),
    ("b", "a"), ("b", "a", "b"), ("ab",), ("ab", "c"), ("A", "b"), ("a!",), ("a", "*"), ("x", "y", "a", "b"),
    ("é", "b"),
)  # fmt: skip


def fill(store: Face, namespaces: Sequence[Path]) -> None:
    """Put one row into each namespace."""
    store.batch([PutOp(ns, "k", {"ns": list(ns)}) for ns in namespaces])


def matches(pattern: Sequence[str], namespace: Path, *, suffix: bool = False) -> bool:
    """Tell what a condition means, slowly."""
    labels = namespace[::-1] if suffix else namespace
    path = tuple(pattern)[::-1] if suffix else tuple(pattern)
    return len(path) <= len(labels) and all(one in ("*", label) for one, label in zip(path, labels, strict=False))


class NamespaceContract(Section):
    """Contract 14-20."""

    def test_what_is_no_label_is_refused(self, store: Face) -> None:
        """Contract 14: by every method, in every place of a namespace."""
        for call in BY_METHOD.values():
            for bad in BAD_LABELS:
                for namespace in ((bad,), ("a", bad), (bad, "a"), ("a", bad, "b")):
                    refuses(InvalidNamespaceError, call, store, namespace)
        assert store.list_namespaces() == []

    def test_what_is_no_label_is_refused_in_raw_ops(self, store: Face) -> None:
        """Contract 14."""
        for make_op in BY_RAW_OP.values():
            for bad in BAD_LABELS:
                for namespace in ((bad,), ("a", bad), (bad, "a"), ("a", bad, "b")):
                    refuses(InvalidNamespaceError, store.batch, [make_op(namespace)])
        assert store.list_namespaces() == []

    def test_put_refuses_the_root_and_the_label_langgraph(self, store: Face) -> None:
        """Contract 15."""
        for namespace in ((), ("langgraph",), ("langgraph", "a")):
            refuses(InvalidNamespaceError, store.put, namespace, "k", {})
        assert store.list_namespaces() == []

    def test_the_label_langgraph_is_refused_only_as_a_root_and_as_it_is(self, store: Face) -> None:
        """Contract 15."""
        namespaces = [("a", "langgraph"), ("Langgraph",), ("langgraph ",), ("langgraph1", "a")]
        for namespace in namespaces:
            store.put(namespace, "k", {})
        assert store.list_namespaces() == sorted(namespaces)

    def test_only_put_refuses_them(self, store: Face) -> None:
        """Contract 15."""
        assert store.list_namespaces(prefix=("langgraph",)) == []
        assert store.get((), "k") is None
        assert store.get(("langgraph",), "k") is None
        assert store.search(("langgraph",)) == []
        store.delete((), "k")
        store.delete(("langgraph",), "k")
        store.delete(("langgraph", "a"), "k")

    def test_raw_puts_accept_them(self, store: Face) -> None:
        """Contract 15."""
        namespaces: tuple[Path, ...] = ((), ("langgraph",), ("langgraph", "a"))
        store.batch([PutOp(namespace, "k", {"v": at}) for at, namespace in enumerate(namespaces)])
        assert store.list_namespaces() == list(namespaces)
        for at, namespace in enumerate(namespaces):
            assert store.get(namespace, "k").value == {"v": at}
            assert store.batch([GetOp(namespace, "k")])[0].namespace == namespace
            assert namespace in [item.namespace for item in store.search(namespace)]
            store.delete(namespace, "k")
            assert store.get(namespace, "k") is None
        assert store.search(()) == []

    def test_a_search_prefix_matches_whole_labels_literally(self, store: Face) -> None:
        """Contract 16: every label alone and below some others, under every prefix."""
        assert len(set(LABELS)) == len(LABELS)
        namespaces = [(label,) for label in LABELS] + [
            (first, label) for first in ("users", "%", "*", "aa", "😀", "\\") for label in LABELS
        ]
        fill(store, namespaces)
        for prefix in [*namespaces, (), ("absent",), ("users", "absent"), ("users", "aa", "bb")]:
            expected = [ns for ns in namespaces if ns[: len(prefix)] == prefix]
            found = store.search(prefix, limit=1000)
            assert sorted(item.namespace for item in found) == sorted(expected)
            assert all(tuple(item.value["ns"]) == item.namespace for item in found)

    def test_a_search_never_returns_what_only_looks_like_its_prefix(self, store: Face) -> None:
        """Contract 16."""
        pairs: tuple[tuple[Path, Path], ...] = (
            (("aa", "bbc"), ("aa", "bb")), (("users", "Alice"), ("users", "alice")), (("memory",), ("memories",)),
            (("memories",), ("memory",)), (("ab", "c"), ("a", "bc")), (("a",), ("a", "a")), (("axb",), ("a_b",)),
            (("axb",), ("a%",)), (("axb",), ("a*",)), (("axb",), ("a?b",)), (("a",), ("[a]",)), (("b", "a"), ("a",)),
        )  # fmt: skip
        for stored, prefix in pairs:
            store.put(stored, "k", {})
            assert store.search(prefix) == []
            assert store.search(prefix, filter={"v": {"$ne": 1}}) == []
            assert store.search(stored)[0].namespace == stored
            store.delete(stored, "k")

    def test_a_list_as_a_prefix_is_coerced_to_a_tuple(self, store: Face) -> None:
        """Contract 16."""
        fill(store, TREE)
        found = store.search(["a", "b"], limit=100)
        assert sorted(item.namespace for item in found) == [ns for ns in sorted(TREE) if ns[:2] == ("a", "b")]
        assert len(store.search([], limit=100)) == len(TREE)
        assert len(store.batch([SearchOp(["a", "b"], limit=100)])[0]) == len(found)  # type: ignore[arg-type]

    def test_list_namespaces_ands_prefix_and_suffix(self, store: Face) -> None:
        """Contract 17: `*` is one label, a prefix is open-ended, a suffix anchored, an empty path no condition."""
        fill(store, TREE)
        paths: tuple[Path, ...] = (
            (), ("a",), ("b",), ("A",), ("a", "b"), ("b", "c"), ("a", "b", "d", "e"), ("*",), ("*", "b"), ("a", "*"),
            ("b", "*"), ("a", "*", "d"), ("*", "*", "*"), ("*", "*", "*", "*", "*"), ("*", "d"), ("absent",),
        )  # fmt: skip
        for prefix, suffix in itertools.product((None, *paths), repeat=2):
            expected = [
                ns for ns in sorted(TREE) if matches(prefix or (), ns) and matches(suffix or (), ns, suffix=True)
            ]
            assert store.list_namespaces(prefix=prefix, suffix=suffix) == expected, (prefix, suffix)

    def test_raw_conditions_are_all_anded(self, store: Face) -> None:
        """Contract 17."""
        fill(store, TREE)
        conditions = (
            MatchCondition("prefix", ("a",)),
            MatchCondition("prefix", ("*", "b")),
            MatchCondition("suffix", ()),
            MatchCondition("prefix", ()),
            MatchCondition("suffix", ("*", "*")),
            MatchCondition("suffix", ("d",)),
        )
        assert store.batch([ListNamespacesOp(conditions)]) == [[("a", "b", "d")]]
        contrary = (MatchCondition("prefix", ("a",)), MatchCondition("prefix", ("b",)))
        assert store.batch([ListNamespacesOp(contrary)]) == [[]]

    def test_a_path_given_as_a_str_is_read_as_its_characters(self, store: Face) -> None:
        """Contract 17."""
        fill(store, TREE)
        assert store.list_namespaces(prefix="ac") == [("a", "c"), ("a", "c", "b")]
        assert store.list_namespaces(suffix="*d") == [("a", "b", "d")]
        assert store.batch([ListNamespacesOp((MatchCondition("prefix", "ac"),))])[0] == [("a", "c"), ("a", "c", "b")]  # type: ignore[arg-type]
        assert store.list_namespaces(prefix="", suffix="") == sorted(TREE)

    def test_an_unknown_match_type_is_refused(self, store: Face) -> None:
        """Contract 17."""
        fill(store, TREE)
        refuses(ValueError, store.batch, [ListNamespacesOp((MatchCondition("infix", ("a",)),))])  # type: ignore[arg-type]

    def test_max_depth_truncates_then_names_are_deduplicated_and_sorted(self, store: Face) -> None:
        """Contract 18."""
        fill(store, TREE)
        for depth in (1, 2, 3, 4, 9):
            assert store.list_namespaces(max_depth=depth) == sorted({ns[:depth] for ns in TREE})
            below = {ns[:depth] for ns in TREE if ns[0] == "a" and ns[-1] == "b"}
            assert store.list_namespaces(prefix=("a",), suffix=("b",), max_depth=depth) == sorted(below)

    def test_namespaces_are_sorted_as_tuples(self, store: Face) -> None:
        """Contract 18."""
        namespaces = [(label,) for label in LABELS] + [("aa", label) for label in LABELS]
        fill(store, namespaces)
        assert store.list_namespaces(limit=1000) == sorted(namespaces)
        assert store.list_namespaces(limit=1000, max_depth=1) == sorted({ns[:1] for ns in namespaces})

    def test_offset_and_limit_come_last(self, store: Face) -> None:
        """Contract 18: over truncated, deduplicated names; pages join up."""
        namespaces = [(f"n{at % 23:02}", f"m{at % 7}", str(at)) for at in range(110)]
        fill(store, namespaces)
        for options in ({"max_depth": 1}, {"max_depth": 2}, {}, {"suffix": ("m3", "*")}, {"prefix": ("n03",)}):
            every = store.list_namespaces(limit=1000, **options)
            for size in (1, 7, 100):
                pages = [store.list_namespaces(limit=size, offset=at, **options) for at in range(0, len(every), size)]
                assert [name for page in pages for name in page] == every
                assert store.list_namespaces(limit=size, offset=len(every), **options) == []
        assert store.list_namespaces(limit=0) == []

    def test_the_default_limit_is_100(self, store: Face) -> None:
        """Contract 18."""
        namespaces = [(f"{at:03}",) for at in range(120)]
        fill(store, namespaces)
        assert store.list_namespaces() == namespaces[:100]
        assert store.list_namespaces(offset=50) == namespaces[50:]
        assert store.batch([ListNamespacesOp()]) == [namespaces[:100]]

    def test_impossible_numbers_are_refused(self, store: Face) -> None:
        """Contract 19."""
        store.put(NS, "k", {})
        impossible: list[dict[str, int]] = [{"limit": -1}, {"offset": -1}, {"limit": -5, "offset": -5}]
        for numbers in impossible:
            refuses(ValueError, store.search, NS, **numbers)
            refuses(ValueError, store.batch, [SearchOp(NS, **numbers)])  # type: ignore[arg-type]
        for numbers in [*impossible, {"max_depth": 0}, {"max_depth": -1}]:
            refuses(ValueError, store.list_namespaces, **numbers)
            refuses(ValueError, store.batch, [ListNamespacesOp(**numbers)])  # type: ignore[arg-type]

    def test_a_namespace_is_listed_while_it_holds_an_item(self, store: Face) -> None:
        """Contract 20."""
        store.batch([PutOp(("a", "b"), "k", {}), PutOp(("a", "b"), "other", {}), PutOp(("a",), "k", {})])
        assert store.list_namespaces() == [("a",), ("a", "b")]
        store.delete(("a", "b"), "k")
        assert store.list_namespaces() == [("a",), ("a", "b")]
        store.delete(("a", "b"), "other")
        assert store.list_namespaces() == [("a",)]
        assert store.list_namespaces(max_depth=2) == [("a",)]
        store.delete(("a",), "k")
        assert store.list_namespaces() == []
        assert store.list_namespaces(max_depth=1) == []
        store.put(("a", "b"), "k", {})
        assert store.list_namespaces() == [("a", "b")]
        assert keys(store.search(())) == ["k"]

    def test_parents_of_a_namespace_are_not_listed(self, store: Face) -> None:
        """Contract 20."""
        store.put(("a", "b", "c"), "k", {})
        assert store.list_namespaces() == [("a", "b", "c")]
        assert store.get(("a", "b"), "k") is None

    def test_reads_and_deletes_never_create_a_namespace(self, store: Face) -> None:
        """Contract 20."""
        store.get(("got",), "k")
        store.search(("searched",))
        store.search(("searched",), filter={"a": 1})
        store.delete(("deleted",), "k")
        store.list_namespaces(prefix=("listed",))
        store.batch([GetOp(("batch",), "k"), PutOp(("batch",), "k", None)])
        assert store.list_namespaces() == []
        assert store.search(()) == []
