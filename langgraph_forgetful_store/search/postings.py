"""Which rows hold which words, and how rows score by the words of a query.

Postings are an immutable block, sorted by term, and a tail that is looked through; both only grow, as the rows of a
table do, so a reader of an older view sees what it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from langgraph_forgetful_store.search.lexical import Query, split_packed

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Slots = npt.NDArray[np.intp]

# Okapi BM25: how soon more of one word adds no more, and how much a row's length counts.
K1, B = 0.9, 0.4
# Of a query, its rarest terms alone: a long one would ask for half the postings.
MOST_TERMS = 32
# What a row has to reach to be half as relevant by words as can be: so much, or this share of what a query can give.
HALF, HALF_SHARE = 6.0, 0.15
# The tail is looked through entry by entry, so it is sorted in when it has grown to so much, or this share of all.
TAIL, TAIL_SHARE = 1024, 32


class Hits(NamedTuple):
    """Postings of some terms: one entry each.

    Attributes:
        terms: Which of the terms.
        slots: Of which row.
        counts: How often the row holds it.
    """

    terms: npt.NDArray[np.intp]
    slots: npt.NDArray[Any]
    counts: npt.NDArray[Any]


class _Block(NamedTuple):
    crcs: npt.NDArray[np.uint32]
    slots: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint8]

    @classmethod
    def empty(cls, room: int = 0) -> _Block:
        return cls(np.empty(room, np.uint32), np.empty(room, np.uint32), np.empty(room, np.uint8))

    def upto(self, size: int) -> _Block:
        return self.taken(slice(size))

    def joined(self, more: _Block) -> _Block:
        return _Block(
            np.concatenate([self.crcs, more.crcs]),
            np.concatenate([self.slots, more.slots]),
            np.concatenate([self.counts, more.counts]),
        )

    def taken(self, at: Any) -> _Block:
        return _Block(self.crcs[at], self.slots[at], self.counts[at])

    def ordered(self) -> _Block:
        # Stable: of one term, rows stay in the order of their slots.
        return self.taken(np.argsort(self.crcs, kind="stable"))


class _Located(NamedTuple):
    first: Slots
    sizes: Slots
    terms: Slots
    later: Slots

    @property
    def counts(self) -> list[int]:
        """How many rows hold each term."""
        sizes = self.sizes
        if len(self.terms):
            sizes = sizes + np.bincount(self.terms, minlength=len(sizes))
        counts: list[int] = sizes.tolist()
        return counts


_NOWHERE: Slots = np.zeros(0, np.intp)


class View(NamedTuple):
    """Postings as they were at one time.

    Attributes:
        block: Sorted by term.
        tail: What came after it.
        lengths: How many words each row has, shape (rows,).
        total: The sum of these.
    """

    block: _Block
    tail: _Block
    lengths: npt.NDArray[np.uint16]
    total: int

    def locate(self, crcs: npt.NDArray[np.uint32]) -> _Located:
        """Return where the postings of terms stand: in the block from where on and how many, and in the tail."""
        first = np.searchsorted(self.block.crcs, crcs, "left")
        sizes = np.searchsorted(self.block.crcs, crcs, "right") - first
        if not len(self.tail.crcs):
            return _Located(first, sizes, _NOWHERE, _NOWHERE)
        return _Located(first, sizes, *np.nonzero(self.tail.crcs == crcs[:, None]))

    def gather(self, located: _Located, order: Sequence[int]) -> Hits:
        """Return postings of some terms, term by term in an order, and of each in the order of the slots."""
        first, sizes = located.first[order], located.sizes[order]
        ends = sizes.cumsum()
        at = np.arange(int(ends[-1])) + (first - ends + sizes).repeat(sizes)
        hits = Hits(np.arange(len(order)).repeat(sizes), self.block.slots[at], self.block.counts[at])
        if not len(located.terms):
            return hits
        place = np.full(len(located.sizes), -1)
        place[order] = np.arange(len(order))
        terms = place[located.terms]
        kept = np.flatnonzero(terms >= 0)
        later = located.later[kept]
        joined = np.concatenate([hits.terms, terms[kept]])
        turn = joined.argsort(kind="stable")
        return Hits(
            joined[turn],
            np.concatenate([hits.slots, self.tail.slots[later]])[turn],
            np.concatenate([hits.counts, self.tail.counts[later]])[turn],
        )


class Postings:
    """The words of a table's rows."""

    def __init__(self) -> None:
        self._block = _Block.empty()
        self._tail = _Block.empty()
        self._tail_size = 0
        self._lengths: npt.NDArray[np.uint16] = np.empty(0, np.uint16)
        self._size = 0
        self._total = 0

    @property
    def held(self) -> int:
        """How many bytes it holds, with what is in reserve."""
        return sum(part.nbytes for part in (*self._block, *self._tail, self._lengths))

    def append(self, rows: Sequence[bytes | None]) -> None:
        """Add rows by their packed words, all or, where one is corrupt, none.

        Raises:
            CorruptRecordError: A row's words are nothing that the store writes.
        """
        lengths = np.zeros(len(rows), np.uint16)
        sizes = np.zeros(len(rows), np.intp)
        crcs: list[bytes] = []
        counts: list[bytes] = []
        for at, data in enumerate(rows):
            if data:
                lengths[at], packed, more = split_packed(data)
                sizes[at] = len(more)
                crcs.append(packed)
                counts.append(more)
        slots = np.repeat(np.arange(self._size, self._size + len(rows), dtype=np.uint32), sizes)
        fresh = _Block(np.frombuffer(b"".join(crcs), "<u4"), slots, np.frombuffer(b"".join(counts), np.uint8))
        self._lengths = grown(self._lengths, self._size, lengths)
        self._size += len(rows)
        self._total += int(lengths.sum(dtype=np.int64))
        self._tail = _Block(*(grown(part, self._tail_size, more) for part, more in zip(self._tail, fresh, strict=True)))
        self._tail_size += len(slots)
        if self._tail_size > max(TAIL, len(self._block.crcs) // TAIL_SHARE):
            self._block = self._block.joined(self._tail.upto(self._tail_size)).ordered()
            self._tail, self._tail_size = _Block.empty(), 0

    def view(self) -> View:
        """Return it as it is now."""
        return View(self._block, self._tail.upto(self._tail_size), self._lengths[: self._size], self._total)

    def picked(self, slots: Slots) -> Postings:
        """Return the postings of some of the rows, in their order."""
        picked = Postings()
        place = np.full(self._size, -1, np.int64)
        place[slots] = np.arange(len(slots))
        joined = self._block.joined(self._tail.upto(self._tail_size))
        moved = place[joined.slots]
        kept = np.flatnonzero(moved >= 0)
        # Slots keep their order, so the terms alone have to be sorted.
        picked._block = _Block(joined.crcs[kept], moved[kept].astype(np.uint32), joined.counts[kept]).ordered()
        picked._lengths, picked._size = self._lengths[slots], len(slots)
        picked._total = int(picked._lengths.sum(dtype=np.int64))
        return picked


def grown(array: Any, size: int, more: Any) -> Any:
    """Return an array that begins with `size` entries of `array`, then `more`; in place where there is room."""
    if size + len(more) > len(array):
        # Readers of older snapshots go on reading the old array.
        room = size // 4 + 4 if size else 0
        larger = np.empty((size + len(more) + room, *more.shape[1:]), more.dtype)
        larger[:size] = array[:size]
        array = larger
    array[size : size + len(more)] = more
    return array


class Lexical(NamedTuple):
    """How rows score by words.

    Attributes:
        share: Of each slot, from 0 (it holds no word of the query) to 1; whatever for slots that do not count.
        hits: What was found of the terms that count, rarest term first.
        idf: Of each of these terms.
        words: What each is called.
        is_stem: Whether it is a stem, or a surface.
        size: How many slots there are.
    """

    share: Array
    hits: Hits
    idf: tuple[float, ...]
    words: tuple[str, ...]
    is_stem: tuple[bool, ...]
    size: int

    def coverage(self) -> Array:
        """Return of each slot how much of the query's idf it holds, over stems alone."""
        weights = [idf if counts else 0.0 for idf, counts in zip(self.idf, self.is_stem, strict=True)]
        total = sum(weights)
        if not total:
            return np.zeros(self.size)
        found = np.bincount(self.hits.slots, weights=np.array(weights)[self.hits.terms], minlength=self.size)
        return found / total

    def matched(self, slot: int) -> list[str]:
        """Return the words of the query that a row holds, rarest first."""
        terms = self.hits.terms[self.hits.slots == slot].tolist()
        return list(dict.fromkeys(self.words[term] for term in terms))


def _rarest(found: Sequence[int]) -> list[int]:
    """Return the terms that count, rarest first; of equally rare ones the least CRC32, in whose order they stand."""
    return sorted(range(len(found)), key=found.__getitem__)[:MOST_TERMS]


def by_words(view: View, query: Query, mask: Mask) -> Lexical:
    """Score rows by the words of a query.

    Args:
        view: The rows' words.
        query: Its terms.
        mask: The rows that the query may return: how rare a word is, and how long rows are, is counted over them.
    """
    located = view.locate(query.crcs)
    size, rows = len(view.lengths), int(np.count_nonzero(mask))
    if rows == size:
        found, words = located.counts, view.total
        order = _rarest(found)
        hits = view.gather(located, order)
    else:
        hits = view.gather(located, range(len(query.shares)))
        kept = np.flatnonzero(mask[hits.slots])
        hits = Hits(hits.terms[kept], hits.slots[kept], hits.counts[kept])
        found = np.bincount(hits.terms, minlength=len(query.shares)).tolist()
        words = int(view.lengths[mask].sum(dtype=np.int64))
        order = _rarest(found)
        # One byte a term, which is sorted by counting; what is left out goes to the end.
        rank = np.full(len(found), MOST_TERMS, np.uint8)
        rank[order] = range(len(order))
        terms = rank[hits.terms]
        turn = terms.argsort(kind="stable")[: int(np.count_nonzero(terms < MOST_TERMS))]
        hits = Hits(terms[turn].astype(np.intp), hits.slots[turn], hits.counts[turn])
    average = words / rows if words else 1.0
    idf = tuple(math.log(1.0 + (rows - found[at] + 0.5) / (found[at] + 0.5)) for at in order)
    shares = [query.shares[at] for at in order]
    weights = [share * one * (K1 + 1.0) for share, one in zip(shares, idf, strict=True)]
    most = 0.0
    for weight in weights:
        most += weight
    counts = hits.counts.astype(np.float64)
    parts = np.array(weights)[hits.terms] * counts
    parts /= counts + K1 * ((1.0 - B) + B * view.lengths[hits.slots] / average)
    # In the order in which they stand, so the sums are those of any engine, to the bit.
    share = np.bincount(hits.slots, weights=parts, minlength=size) if len(parts) else np.zeros(size)
    share /= share + min(HALF, HALF_SHARE * most)
    return Lexical(
        share, hits, idf, tuple(query.words[at] for at in order), tuple(share == 1.0 for share in shares), size
    )
