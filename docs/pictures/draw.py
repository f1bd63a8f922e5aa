"""Draws the pictures of the documentation from what the stores really do: `python docs/pictures/draw.py`.

Nothing here is told by hand but the conversation and, for what a store returns, what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import pairwise
from pathlib import Path

import wordllama
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
  .area0 { fill: #cfe3fb } .area1 { fill: #ffe0b2 } .area2 { fill: #d3efd9 } .blank { fill: #f3f5f7 }
  .edge { stroke: #ffffff; stroke-width: 2 }
  .axis { stroke: #59636e; stroke-width: 1.3; fill: none }
  .now { stroke: #1f2328; stroke-width: 1.3; stroke-dasharray: 5 4; fill: none }
  .dot { fill: #b42318; stroke: #ffffff; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0f141a; stroke: #30363d }
    text { fill: #e6edf3 }
    .muted { fill: #9aa4af }
    .line { stroke: #30363d }
    .bad { fill: #ff9a91 } .badbox { fill: #3a1a1a; stroke: #6b2c2a }
    .good { fill: #6fdd8b } .goodbox { fill: #12301d; stroke: #22563a }
    .said { fill: #1c2530; stroke: #303c49 }
    .area0 { fill: #1d3b5e } .area1 { fill: #5c4216 } .area2 { fill: #1d4a2c } .blank { fill: #171d24 }
    .edge { stroke: #0f141a }
    .axis { stroke: #9aa4af }
    .now { stroke: #e6edf3 }
    .dot { fill: #ff9a91; stroke: #0f141a }
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
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="7" class="dot"/>')

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
# What recall nodes leave out by default; here of both stores.
LEAST_SIMILARITY = 0.15

CONVERSATION = [
    (0, "I live in Shanghai."),
    (0, "I'm allergic to peanuts."),
    (1, "I need to book the train to Beijing."),
    (3, "I moved to Hangzhou."),
    (3, "My card number is 4111 1111 1111 1111."),
    (9, "Please forget my allergy."),
]
DAYS = {0: "Monday", 1: "Tuesday", 3: "Thursday", 9: "Wednesday"}
QUESTIONS = ["Where do I live?", "What do I need to book?", "What am I allergic to?", "What is my card number?"]
WRONG = {
    "I live in Shanghai.": "no longer true",
    "I need to book the train to Beijing.": "over since last week",
    "I'm allergic to peanuts.": "asked to be forgotten",
    "Please forget my allergy.": "no memory at all",
    "My card number is 4111 1111 1111 1111.": "never to be kept",
}


def embed(texts: list[str]) -> list[list[float]]:
    vectors: list[list[float]] = MODEL.embed(list(texts)).tolist()
    return vectors


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
            state = agent.invoke({"messages": [("user", text)]}, {"configurable": {"user_id": "alice"}})
            (decision,) = state["memory_decisions"]
            told.done.append(words_for(decision, store))
        now = START_OF_ALL + timedelta(days=10)
        for question in QUESTIONS:
            told.found.append((question, similar(append_only, question), similar(store, question)))
    return told


def beside(told: Told) -> Picture:
    """One conversation in an append-only store and in this one."""
    said, left, right, end = 24, 372, 682, 976
    picture = Picture(1000, 634, "One conversation, kept by an append-only store and by this one")
    picture.text(said, 38, "What the user says", "head")
    picture.text(left, 38, "Append-only store", "head")
    picture.text(right, 38, "langgraph-forgetful-store", "head")
    y, shown_day = 52, None
    for (day, text), done in zip(CONVERSATION, told.done, strict=True):
        if day != shown_day:
            picture.line(said, y + 4, end, y + 4)
            picture.text(said, y + 30, DAYS[day], "muted")
            shown_day = day
        picture.text(said + 84, y + 30, text.replace(" 1111 1111", " …"))
        picture.text(left, y + 30, "kept", "body")
        picture.text(right, y + 30, done, "good" if done.split()[0] in ("replaces", "refused,", "erased") else "body")
        y += 36
    y += 14
    picture.line(said, y, end, y)
    picture.text(said, y + 28, "The next day, the agent asks for memories", "head")
    y += 42
    for question, wrong, right_ones in told.found:
        height = 30 * max(len(wrong), 1) + 10
        picture.text(said, y + 24, question)
        for column, found, width in ((left, wrong, 292), (right, right_ones, 294)):
            for at, text in enumerate(found or [""]):
                top = y + 4 + 30 * at
                if not text:
                    picture.text(column + 10, top + 18, "nothing", "muted")
                    continue
                bad = WRONG.get(text)
                picture.box(column, top, width, 26, "badbox" if bad else "goodbox")
                short = text if len(text) < 26 else f"{text[:24].rstrip()}…"
                picture.text(column + 10, top + 18, short, "small")
                picture.text(column + width - 10, top + 18, bad or "true", f"small {'bad' if bad else 'good'}", "end")
        y += height
    picture.height = y + 18
    return picture


CITY = {"subject": "user", "attribute": "city"}
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
    x0, y0, width, height = 210, 400, 560, 320
    picture = Picture(1000, 492, "What a recall answers, by the time it asks about and the time whose knowledge it uses")

    def x(day: float) -> float:
        return x0 + day * width / LAST

    def y(day: float) -> float:
        return y0 - day * height / LAST

    picture.text(24, 38, "recall(as_of=…, known_at=…)", "head")
    styles = {"Shanghai": "area0", "Suzhou": "area1", "Hangzhou": "area2"}
    for (left, right), (low, high), answer in parts:
        picture.box(x(left), y(high), x(right) - x(left), y(low) - y(high), styles.get(answer, "blank"), 0)
    named = [
        ("Shanghai", 45, 30),
        ("Shanghai", 15.5, 78.5),
        ("Suzhou", 45.5, 78.5),
        ("Hangzhou", 75, 78.5),
    ]
    for name, right, up in named:
        (answer,) = {answer for (a, b), (c, d), answer in parts if a <= right < b and c <= up < d}
        assert answer == name, (answer, name)
        picture.text(x(right), y(up) + 5, name, "title", "middle")
    picture.line(x0, y0, x0 + width + 14, y0, "axis")
    picture.line(x0, y0, x0, y0 - height - 14, "axis")
    picture.line(x(0), y(0), x(LAST), y(LAST), "now")
    for day in (0, FEBRUARY, MOVED, LAST):
        picture.line(x(day), y0, x(day), y0 + 6, "axis")
        picture.text(x(day), y0 + 24, date(day), "muted", "middle")
    picture.text(x0 + width / 2, y0 + 56, "as_of: the time when it was true in the world", "body", "middle")
    for day, what in ((0, "told: Shanghai"), (MOVED, "told: Hangzhou"), (LEARNED, "told: Suzhou,"), (LAST, "")):
        picture.line(x0 - 6, y(day), x0, y(day), "axis")
        shift = 7 if day == MOVED else (-5 if day == LEARNED else 4)
        picture.text(x0 - 12, y(day) + shift, f"{date(day)} {what}".strip(), "muted", "end")
    picture.text(24, 70, "known_at: the time whose", "body")
    picture.text(24, 88, "knowledge is used", "body")
    notes = x0 + width + 32
    for day, at, lines in (
        (74, 96, ("10 February,", "known on 16 March:", "Suzhou")),
        (50, 196, ("10 February,", "known on 20 February:", "Shanghai")),
    ):
        picture.dot(x(40), y(day))
        picture.line(x(40) + 8, y(day), notes - 6, at - 4, "line")
        for number, line in enumerate(lines):
            picture.text(notes, at + 18 * number, line, "head" if number == 2 else "small")
    picture.line(notes, 300, notes + 36, 300, "now")
    for number, line in enumerate(("a plain recall,", "on each day")):
        picture.text(notes + 46, 304 + 17 * number, line, "small")
    return picture


def draw() -> dict[str, str]:
    """Draw all pictures; returns their SVG by the names of their files."""
    return {"beside.svg": str(beside(converse())), "two-times.svg": str(two_times(list(answers())))}


if __name__ == "__main__":
    for name, svg in draw().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
        print(f"{FOLDER.name}/{name}")
