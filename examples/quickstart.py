"""One user, two threads, one memory: recall by meaning across threads, and forgetting on time.

There is nothing to start and no key to set: the server is embedded, the embedder is a small local one, and in place
of a language model a scripted one repeats the assistant's lines of the recorded conversation.
"""

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import wordllama
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore

from langgraph_forgetful_store import ForgetfulStore

CONVERSATION = Path(__file__).parent / "data" / "conversation.jsonl"
USER = "mira"
# Scores mean something else with every embedder; this one gives unrelated texts less.
SIMILAR = 0.2


class Clock:
    """Stands in for the server's time, so that half an hour passes at once."""

    ms = 0.0

    def __call__(self) -> float:
        return self.ms

    def __str__(self) -> str:
        return datetime.fromtimestamp(self.ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]

    def move_to(self, moment: datetime) -> None:
        self.ms = moment.timestamp() * 1000


class State(MessagesState):
    learned: list[dict[str, Any]]
    question: str
    recalled: list[dict[str, Any]]


Agent = CompiledStateGraph[State, None, MessagesState, State]


def namespace(config: RunnableConfig) -> tuple[str, ...]:
    return ("users", config.get("configurable", {})["user_id"], "memories")


def sentences(state: State) -> list[str]:
    return re.split(r"(?<=[.!?]) ", str(state["messages"][-1].content))


def remember(state: State, config: RunnableConfig, *, store: BaseStore) -> dict[str, Any]:
    """Keep what users say of themselves, for as long as they say; a real agent would let its model choose."""
    learned = []
    for number, text in enumerate(sentences(state)):
        if not text.endswith("?") and re.search(r"\b(I|my|me)\b", text, re.IGNORECASE):
            limit = re.search(r"for the next (\d+) minutes", text)
            ttl = float(limit[1]) if limit else None
            memory = {"text": text, "thread": config.get("configurable", {})["thread_id"]}
            key = f"{state['messages'][-1].id}-{number}"
            store.put(namespace(config), key, memory, ttl=ttl)
            learned.append({**memory, "ttl": ttl})
    return {"learned": learned}


def recall(state: State, config: RunnableConfig, *, store: BaseStore) -> dict[str, Any]:
    """Look up what is close in meaning to the question, whatever thread it was said in."""
    question = sentences(state)[-1]
    if not question.endswith("?"):
        return {"question": "", "recalled": []}
    floor = {"$memory": {"min_similarity": SIMILAR}}
    found = store.search(namespace(config), query=question, filter=floor, limit=2)
    similar = [{**item.value, "score": item.score} for item in found]
    return {"question": question, "recalled": similar}


def build(model: BaseChatModel, store: BaseStore) -> Agent:
    def respond(state: State) -> dict[str, Any]:
        known = "\n".join(memory["text"] for memory in state["recalled"])
        return {"messages": [model.invoke([SystemMessage(f"You remember:\n{known}"), *state["messages"]])]}

    builder = StateGraph(State, input_schema=MessagesState)
    builder.add_node(remember).add_node(recall).add_node(respond)
    builder.add_edge(START, "remember").add_edge("remember", "recall").add_edge("recall", "respond")
    return builder.compile(checkpointer=InMemorySaver(), store=store)


def load_embedder() -> Callable[[list[str]], list[list[float]]]:
    # The wheel holds the weights, so nothing is downloaded.
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return lambda texts: [list(map(float, vector)) for vector in model.embed(texts, norm=True)]


def tell(agent: Agent, clock: Clock, turn: dict[str, str]) -> None:
    """Let the user say a turn, at its time, and print what memory made of it."""
    clock.move_to(datetime.fromisoformat(turn["at"]))
    config: RunnableConfig = {"configurable": {"thread_id": turn["thread"], "user_id": USER}}
    state = agent.invoke({"messages": [HumanMessage(turn["content"])]}, config)
    for memory in state["learned"]:
        lives = f"   [ttl {memory['ttl']:g} minutes]" if memory["ttl"] else ""
        print(f"   {clock}  {memory['text']}{lives}")
    if state["question"]:
        print(f"   {clock}  {state['question']}")
        for memory in state["recalled"]:
            print(f"{memory['score']:15.2f}  {memory['thread']}: {memory['text']}")
        if not state["recalled"]:
            print(f"{'-':>15}  no memory answers")


def main() -> None:
    turns = [json.loads(line) for line in CONVERSATION.read_text(encoding="utf-8").splitlines()]
    replies = iter([turn["content"] for turn in turns if turn["role"] == "assistant"])
    said = {
        thread: [turn for turn in turns if (turn["thread"], turn["role"]) == (thread, "user")]
        for thread in ("monday", "thursday")
    }
    coffee_break = said["thursday"].pop()
    clock = Clock()
    embed = load_embedder()
    with ForgetfulStore.embedded(
        index={"dims": 256, "embed": embed, "fields": ["text"]},
        # What was said to hold for half an hour holds no longer for having been asked about.
        ttl={"refresh_on_read": False},
        clock=clock,
    ) as store:
        started = time.perf_counter()
        store.setup()
        print("LangGraph memory on an embedded Valkey server")
        print(f"   server        a child process on a unix socket, ready in {time.perf_counter() - started:.2f} s")
        print("   embedder      wordllama, 256 dimensions, offline")
        print(f"   conversation  {len(turns)} turns of one user, {USER}, in two threads: {' and '.join(said)}")
        agent = build(GenericFakeChatModel(messages=replies), store)

        print("\n1. Thread monday: what the user says of herself becomes memories")
        for turn in said["monday"]:
            tell(agent, clock, turn)

        print("\n2. Thread thursday: her questions, and the memories that answer them (cosine, thread, text)")
        for turn in said["thursday"]:
            tell(agent, clock, turn)

        print("\n3. The door code of thread thursday: 30 minutes, to the millisecond, with no sweeper running")
        (code,) = store.search(("users", USER, "memories"), query="What is the door code?", limit=1)
        expires_at = code.memory.expires_at
        assert expires_at is not None
        for moment in (expires_at - timedelta(milliseconds=1), expires_at):
            clock.move_to(moment)
            item = store.get(code.namespace, code.key)
            print(f"   {clock}  get: {item and item.value['text']}")
        tell(agent, clock, coffee_break)
        print(f"   sweep_ttl() deletes {store.sweep_ttl()} row; that frees memory, no read had to wait for it")


if __name__ == "__main__":
    main()
