"""The memories that searches are timed over: numbered, so that their vectors and the right answers can be made anew.

Vectors lie in clusters, as those of texts do. Imported by the process of a peer too, which has an environment of its
own: nothing here needs more than numpy and LangGraph's base classes.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp

DIMS = 384
CLUSTERS = 200
IN_NAMESPACE = 1000
TOPICS = 40
TURNS = 400
QUERIES = 20
LIMIT = 10
FIELDS = ["content"]
_SEED = 7
_NUMBER = re.compile(r"\b\d{7}\b")
Namespace = tuple[str, ...]
Search = Callable[..., Sequence[Any]]


def query_text(number: int) -> str:
    """Name one of the queries."""
    return f"query {number % QUERIES}"


class Corpus(Embeddings):
    """Memories by number, with an embedder that takes no time: it knows the vectors of all texts.

    Args:
        size: How many memories there are.
        large: Whether they lie in one namespace, and not in one of `IN_NAMESPACE` a user.
    """

    def __init__(self, size: int, *, large: bool) -> None:
        self.size = size
        self.large = large
        random = np.random.default_rng(_SEED)
        centres = random.standard_normal((CLUSTERS, DIMS), np.float32)
        self.vectors = random.standard_normal((size, DIMS), np.float32)
        self.vectors += centres[np.arange(size) * 7919 % CLUSTERS]
        self.vectors /= np.linalg.norm(self.vectors, axis=1, keepdims=True)
        self._queries = centres[:QUERIES] + random.standard_normal((QUERIES, DIMS), np.float32)
        self._queries /= np.linalg.norm(self._queries, axis=1, keepdims=True)
        self._as_lists = self._queries.tolist()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if texts[0].startswith("query"):
            return [self.embed_query(text) for text in texts]
        return self.vectors[[_number(text) % self.size for text in texts]].tolist()

    def embed_query(self, text: str) -> list[float]:
        return self._as_lists[int(text.split()[1])]

    @property
    def scopes(self) -> dict[str, tuple[Namespace, int]]:
        """The prefixes that are searched, and how many memories lie below each."""
        if self.large:
            return {"one large namespace": (("archive", "everyone"), self.size)}
        users = {"one user's scope": (self.namespace(0), min(IN_NAMESPACE, self.size))}
        return users if self.size <= IN_NAMESPACE else {**users, "the whole prefix": (("memories",), self.size)}

    def namespace(self, number: int) -> Namespace:
        """Return where a memory lies; of equal width, since some stores take a prefix for a prefix of a text."""
        return ("archive", "everyone") if self.large else ("memories", f"user_{number // IN_NAMESPACE:04}")

    def puts(self, *, ttl: float | None, importance: bool) -> Iterator[PutOp]:
        """Make puts of fresh keys, in the order of their numbers.

        Args:
            ttl: In minutes.
            importance: Whether values say how important they are, in `ForgetfulStore`'s way.
        """
        for number in range(self.size):
            value = memory(number)
            if importance:
                value["$memory"] = {"importance": importance_of(number)}
            yield PutOp(self.namespace(number), str(uuid.uuid4()), value, ttl=ttl)

    def recall(
        self,
        search: Search,
        prefix: Namespace,
        count: int,
        *,
        composite: bool,
        matches: Callable[[dict[str, Any]], bool] | None = None,
        queries: int = QUERIES,
        **options: Any,
    ) -> float:
        """Return the mean recall@10 of a search against brute force over the first `count` memories.

        Args:
            search: A store's.
            prefix: What is searched.
            count: How many memories lie below it.
            composite: Whether the right order is that of the preset ``weighted``, and not plain cosine.
            matches: The filter that `options` hold, in Python.
            queries: How many are tried.
            **options: Given to the search.
        """
        shares = []
        importances = 0.2 * np.array([importance_of(row) for row in range(count)])
        out = None if matches is None else np.array([not matches(memory(row)) for row in range(count)])
        for number in range(queries):
            scores = np.vecdot(self.vectors[:count], self._queries[number]).astype(np.float64)
            if composite:
                # All other parts of the score are the same for all rows, but for the seconds between their writing.
                scores = 0.4 * np.clip(scores, 0, 1) + importances
            if out is not None:
                scores[out] = -np.inf
            wanted = min(LIMIT, int(np.count_nonzero(scores > -np.inf)))
            least = np.sort(scores)[-wanted] - 1e-5
            items = search(prefix, query=query_text(number), limit=LIMIT, **options)
            found = {_number(item.value["content"]) for item in items}
            shares.append(sum(scores[row] >= least for row in found if row < count) / wanted)
        return float(np.mean(shares))


def memory(number: int) -> dict[str, Any]:
    """Make a value of about 170 bytes of JSON."""
    content = f"{number:07} the user said that the meeting about {uuid.uuid4()} has moved to Thursday, upstairs"
    return {"content": content, "topic": f"t{number % TOPICS}", "turn": number * 31 % TURNS}


def importance_of(number: int) -> float:
    """Return how important a memory is."""
    return (number * 37 % 101) / 100


def _number(content: str) -> int:
    # Some stores embed the whole value.
    found = _NUMBER.search(content)
    assert found is not None
    return int(found[0])
