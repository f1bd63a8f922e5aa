"""Draws the pictures of the documentation from what the stores really do: `python docs/pictures/draw.py`.

Nothing here is told by hand but the conversation and, for what a store returns, what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import pairwise
from pathlib import Path
from textwrap import shorten

import wordllama
from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langgraph_forgetful_store import ForgetfulStore, MemoryPolicy, MemoryPolicyState
from langgraph_forgetful_store.policy import Decision, RulesExtractor

FOLDER = Path(__file__).parent
START_OF_ALL = datetime(2026, 1, 1, tzinfo=UTC)

STYLE = """
  .page { fill: #ffffff; stroke: #d1d9e0 }
  text { font-family: -apple-system, "Segoe UI", "Helvetica Neue", "Noto Sans", Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 17px; font-weight: 600 }
  .head { font-size: 15px; font-weight: 600 }
  .body { font-size: 14px }
  .small, .muted { font-size: 12.5px }
  .muted { fill: #59636e }
  .line { stroke: #d1d9e0; stroke-width: 1 }
  .bad { fill: #b42318 } .badbox { fill: #fdeceb; stroke: #f3c6c2 }
  .good { fill: #12692b } .goodbox { fill: #e8f7ec; stroke: #b7e2c3 }
  .said { fill: #eef2f6; stroke: #d8e0e8 }
  .area0, .area1, .area2, .blank { shape-rendering: crispEdges }
  .area0 { fill: #cfe3fb } .area1 { fill: #ffe0b2 } .area2 { fill: #d3efd9 } .blank { fill: #f3f5f7 }
  .axis { stroke: #59636e; stroke-width: 1.3; fill: none }
  .now { stroke: #1f2328; stroke-width: 1.3; stroke-dasharray: 5 4; fill: none }
  .dot { fill: #1f2328; stroke: #ffffff; stroke-width: 1.5 }
  .number { font-size: 12px; font-weight: 600; fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0f141a; stroke: #30363d }
    text { fill: #e6edf3 }
    .muted { fill: #9aa4af }
    .line { stroke: #30363d }
    .bad { fill: #ff9a91 } .badbox { fill: #3a1a1a; stroke: #6b2c2a }
    .good { fill: #6fdd8b } .goodbox { fill: #12301d; stroke: #22563a }
    .said { fill: #1c2530; stroke: #303c49 }
    .area0 { fill: #1d3b5e } .area1 { fill: #5c4216 } .area2 { fill: #1d4a2c } .blank { fill: #171d24 }
    .axis { stroke: #9aa4af }
    .now { stroke: #e6edf3 }
    .dot { fill: #e6edf3; stroke: #0f141a } .number { fill: #0f141a }
  }
"""


@dataclass
class Picture:
    """An SVG in the making; it brings its own background, so that it can be read on a light and on a dark page."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, style: str = "body", anchor: str = "start") -> None:
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{style}"{place}>{escape(text, quote=False)}</text>')

    def box(self, x: float, y: float, width: float, height: float, style: str, radius: float = 6) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" class="{style}"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str = "line") -> None:
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{style}"/>')

    def dot(self, x: float, y: float) -> None:
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="9" class="dot"/>')

    def __str__(self) -> str:
        body = "\n".join(f"  {part}" for part in self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
            f' height="{self.height}" role="img">\n  <title>{escape(self.title)}</title>\n  <style>{STYLE}  </style>\n'
            f'  <rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="10" class="page"/>\n'
            f"{body}\n</svg>\n"
        )


MODEL = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
ALICE = ("memories", "alice")
# With this embedder, what is less similar is about something else; it is left out of both answers.
LEAST_SIMILARITY = 0.15

CONVERSATION = [
    (0, "I live in Shanghai."),
    (0, "I'm allergic to peanuts."),
    (1, "I need to book the train to Beijing."),
    (3, "I moved to Hangzhou."),
    (3, "My card number is 4111 1111 1111 1111."),
    (9, "Please forget my allergy."),
]
DAYS = {0: "Monday", 1: "Tuesday", 3: "Thursday", 9: "a week later"}
QUESTIONS = ["Where do I live?", "What do I need to book?", "What am I allergic to?", "What is my card number?"]
WRONG = {
    "I live in Shanghai.": "no longer true",
    "I need to book the train to Beijing.": "out of date",
    "I'm allergic to peanuts.": "asked to be forgotten",
    "Please forget my allergy.": "not a fact",
    "My card number is 4111 1111 1111 1111.": "sensitive",
}


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [list(map(float, vector)) for vector in MODEL.embed(list(texts))]


@dataclass
class Told:
    """What became of the conversation in both stores."""

    done: list[str] = field(default_factory=list)
    found: list[tuple[str, list[str], list[str]]] = field(default_factory=list)


def similar(store: BaseStore, question: str) -> list[str]:
    found = store.search(ALICE, query=question, limit=2)
    return [item.value["content"] for item in found if (item.score or 0.0) >= LEAST_SIMILARITY]


def words_for(decision: Decision, store: ForgetfulStore) -> str:
    action, key = decision["action"], decision["key"]
    if action == "supersede" and key is not None:
        (old,) = [item for item in store.history(ALICE, key) if item.memory.status == "superseded"]
        return f"replaces “{old.value['content']}”"
    if action == "remember" and key is not None:
        item = store.get(ALICE, key, refresh_ttl=False)
        assert item is not None
        expires_at = item.memory.expires_at
        return "kept" if expires_at is None else f"kept for {(expires_at - item.created_at).days} days"
    return {"refuse": f"refused, {decision['reason']}", "forget": "erased"}[action]


def converse() -> Told:
    """Let a user say the same to an append-only store and to this one, and ask both a day after the last word."""
    told, now = Told(), START_OF_ALL
    append_only = InMemoryStore(index={"dims": 256, "embed": embed, "fields": ["content"]})
    policy = MemoryPolicy(("memories", "{user_id}"), extractor=RulesExtractor())
    graph = StateGraph(MemoryPolicyState).add_node("policy", policy).add_edge(START, "policy")
    with ForgetfulStore.embedded(
        index={"dims": 256, "embed": embed, "fields": ["content"]},
        scoring="similarity",
        clock=lambda: now.timestamp() * 1000,
    ) as store:
        agent = graph.compile(store=store)
        for number, (day, text) in enumerate(CONVERSATION):
            now = START_OF_ALL + timedelta(days=day, minutes=number)
            append_only.put(ALICE, str(number), {"content": text})
            state = agent.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"user_id": "alice"}})
            (decision,) = state["memory_decisions"]
            told.done.append(words_for(decision, store))
        now = START_OF_ALL + timedelta(days=10)
        for question in QUESTIONS:
            told.found.append((question, similar(append_only, question), similar(store, question)))
    return told


def shortened(text: str) -> str:
    return text.replace("1111 1111 1111", "… 1111")


def beside(told: Told) -> Picture:
    """One conversation in an append-only store and in this one."""
    said, left, right, end = 24, 366, 684, 976
    picture = Picture(1000, 0, "One conversation, kept by an append-only store and by this one")
    picture.text(said, 38, "What the user says", "head")
    picture.text(left, 38, "Append-only store", "head")
    picture.text(right, 38, "langgraph-forgetful-store", "head")
    y, shown_day = 52, None
    for (day, text), done in zip(CONVERSATION, told.done, strict=True):
        if day != shown_day:
            picture.line(said, y + 4, end, y + 4)
            picture.text(said, y + 27, DAYS[day], "muted")
            shown_day = day
        picture.text(said + 88, y + 27, shortened(text))
        picture.text(left, y + 27, "kept")
        picture.text(right, y + 27, done, "body" if done.startswith("kept") else "body good")
        y += 34
    y += 8
    picture.line(said, y, end, y)
    picture.text(said, y + 30, "The next day, the agent looks for memories", "head")
    y += 44
    for question, append_only, forgetful in told.found:
        picture.text(said, y + 22, question)
        for column, found, width in ((left, append_only, 294), (right, forgetful, 292)):
            if not found:
                picture.text(column, y + 22, "nothing", "body good")
            for at, text in enumerate(found):
                top, wrong = y + 4 + 30 * at, WRONG.get(text)
                picture.box(column, top, width, 26, "badbox" if wrong else "goodbox")
                picture.text(column + 10, top + 18, shorten(shortened(text), 31, placeholder=" …"), "small")
                style = "small bad" if wrong else "small good"
                picture.text(column + width - 10, top + 18, wrong or "true", style, "end")
        y += 30 * max(len(append_only), len(forgetful), 1) + 10
    picture.line(said, y + 6, end, y + 6)
    for row, line in enumerate(
        (
            "Drawn from a run of both: InMemoryStore with one put per message, and MemoryPolicy with RulesExtractor.",
            "Shown are the two most similar memories, by the same embedder and with the same lowest similarity.",
        )
    ):
        picture.text(said, y + 28 + 18 * row, line, "muted")
    picture.height = int(y) + 62
    return picture


FEBRUARY, MOVED, LEARNED, LAST = 31, 60, 67, 90


def moment(day: float) -> datetime:
    return START_OF_ALL + timedelta(days=day)


def date(day: float) -> str:
    return f"{moment(day).day} {moment(day):%B}"


def answers() -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    """What is recalled in each part of the plane: the days asked about, the days of the knowledge, and the answer."""
    day: float = 0
    with ForgetfulStore.embedded(clock=lambda: moment(day).timestamp() * 1000) as store:
        store.remember(ALICE, "Shanghai", subject="user", attribute="city")
        day = MOVED
        store.remember(ALICE, "Hangzhou", subject="user", attribute="city")
        day = LEARNED
        store.remember(ALICE, "Suzhou", subject="user", attribute="city", valid_from=moment(FEBRUARY))
        day = LAST
        # Nothing changes but at these moments, so the middle of each part tells of all of it.
        edges = [0, FEBRUARY, MOVED, LEARNED, LAST]
        for true_at in pairwise(edges):
            for known_at in pairwise(edges):
                found = store.recall(ALICE, as_of=moment(sum(true_at) / 2), known_at=moment(sum(known_at) / 2))
                yield true_at, known_at, " ".join(item.value["content"] for item in found)


def two_times(parts: list[tuple[tuple[int, int], tuple[int, int], str]]) -> Picture:
    """The plane of both times, and what is recalled in it."""
    x0, y0, width, height = 290, 424, 480, 320
    picture = Picture(1000, 500, "What a recall answers, by the time it asks about and the time of its knowledge")

    def x(day: float) -> float:
        return x0 + day * width / LAST

    def y(day: float) -> float:
        return y0 - day * height / LAST

    picture.text(24, 38, "recall(as_of=…, known_at=…)", "head")
    picture.text(x0, 78, "known_at: the time whose knowledge is used", "body", "middle")
    styles = {"Shanghai": "area0", "Suzhou": "area1", "Hangzhou": "area2"}
    for (left, right), (low, high), answer in parts:
        picture.box(x(left), y(high), x(right) - x(left), y(low) - y(high), styles.get(answer, "blank"), 0)
    for name, true_at, known_at in (
        ("Shanghai", 60, 26),
        ("Shanghai", 15.5, 83),
        ("Suzhou", 45.5, 83),
        ("Hangzhou", 71, 83),
    ):
        (answer,) = {answer for (a, b), (c, d), answer in parts if a <= true_at < b and c <= known_at < d}
        assert answer == name, (answer, name)
        picture.text(x(true_at), y(known_at) + 5, name, "head", "middle")
    picture.line(x0, y0, x0 + width + 12, y0, "axis")
    picture.line(x0, y0, x0, y0 - height - 12, "axis")
    picture.line(x(0), y(0), x(LAST), y(LAST), "now")
    for day in (0, FEBRUARY, MOVED, LAST):
        picture.line(x(day), y0, x(day), y0 + 6, "axis")
        picture.text(x(day), y0 + 24, date(day), "muted", "middle")
    picture.text(x0 + width / 2, y0 + 54, "as_of: the time when it was true in the world", "body", "middle")
    for day, told, shift in (
        (0, "I live in Shanghai.", 4),
        (MOVED, "I live in Hangzhou now.", 9),
        (LEARNED, "It was Suzhou from 1 February on.", 0),
    ):
        picture.line(x0 - 6, y(day), x0, y(day), "axis")
        picture.text(x0 - 12, y(day) + shift, date(day), "small", "end")
        picture.text(x0 - 80, y(day) + shift, told, "muted", "end")
    notes = x0 + width + 36
    for number, day, at, lines in (
        (1, 76, 128, ("Where on 10 February?", "As known on 18 March:", "Suzhou")),
        (2, 50, 228, ("Where on 10 February?", "As known on 20 February:", "Shanghai")),
    ):
        for dot_x, dot_y in ((x(40), y(day)), (notes + 8, at - 4)):
            picture.dot(dot_x, dot_y)
            picture.text(dot_x, dot_y + 4.5, str(number), "number", "middle")
        for row, line in enumerate(lines):
            picture.text(notes + 26, at + 19 * row, line, "head" if row == 2 else "small")
    picture.line(notes - 6, 328, notes + 18, 328, "now")
    for row, line in enumerate(("a plain recall,", "day by day")):
        picture.text(notes + 26, 332 + 18 * row, line, "small")
    return picture


def draw() -> dict[str, str]:
    """Draw all pictures; returns their SVG by the names of their files."""
    return {"beside.svg": str(beside(converse())), "two-times.svg": str(two_times(list(answers())))}


if __name__ == "__main__":
    for name, svg in draw().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
        print(f"{FOLDER.name}/{name}")
