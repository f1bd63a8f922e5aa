"""An agent that remembers, is corrected, forgets, and answers from what holds now.

There is nothing to start and no key to set: the server is embedded, the embedder is a small local one, and the chat
model is scripted: it answers from the memories in its prompt, as a real one would, but word for word. One line, marked
below, switches to a real model; nothing else changes.
"""

import ast
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import wordllama
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langgraph_forgetful_store import ForgetfulStore, MemoryPolicy, MemoryPolicyState, RecallMemories
from langgraph_forgetful_store.policy import RulesExtractor

SESSIONS = {
    "Monday": [
        "Hi! I live in Shanghai. I'm allergic to peanuts.",
        "I need to book the train to Beijing.",
        "Where do I live?",
    ],
    "Thursday": [
        "Actually, I moved to Hangzhou.",
        "My card number is 4111 1111 1111 1111.",
        "I think I might like jazz.",
        "Booking the train to Beijing is done.",
    ],
    "a week later": [
        "Where do I live?",
        "What am I allergic to?",
        "What do I need to book?",
        "Please forget my allergy.",
        "What am I allergic to?",
    ],
}
MODEL = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


def embed(texts: list[str]) -> list[list[float]]:
    found: list[list[float]] = MODEL.embed(texts).tolist()
    return found


class Scripted(BaseChatModel):
    """Answers a question by repeating the first memory in its prompt, and anything else by "Noted."."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        known = [json.loads(line) for line in str(messages[0].content).splitlines() if line.startswith("{")]
        answer = "Noted."
        if str(messages[-1].content).rstrip().endswith("?"):
            answer = f"You told me: {known[0]['memory']}" if known else "I don't know that."
        return ChatResult(generations=[ChatGeneration(message=AIMessage(answer))])

    @property
    def _llm_type(self) -> str:
        return "scripted"


model: BaseChatModel = Scripted()
# A real one: model = init_chat_model("openai:gpt-5")


class State(MemoryPolicyState):
    memory_context: str


def respond(state: State) -> dict[str, Any]:
    prompt = SystemMessage("Answer briefly, from what is known of the user.\n" + state.get("memory_context", ""))
    return {"messages": [model.invoke([prompt, *state["messages"][-1:]])]}


def main() -> None:
    index: Any = {"dims": 256, "embed": embed, "fields": ["content"]}
    with ForgetfulStore.embedded(index=index) as store:
        builder = StateGraph(State)
        builder.add_node("recall", RecallMemories())
        builder.add_node("respond", respond)
        builder.add_node("policy", MemoryPolicy(extractor=RulesExtractor()))
        builder.add_edge(START, "recall").add_edge("recall", "respond").add_edge("respond", "policy")
        graph = builder.compile(store=store, checkpointer=InMemorySaver())
        for session, turns in SESSIONS.items():
            print(f"\n{session}")
            for text in turns:
                config = {"configurable": {"thread_id": session, "user_id": "alice"}}
                print(f"  user:  {text}")
                for mode, part in graph.stream({"messages": [("user", text)]}, config, stream_mode=["updates", "custom"]):
                    if mode == "updates" and "respond" in part:
                        print(f"  agent: {part['respond']['messages'][0].content}")
                    elif mode == "custom" and "memory_decision" in part:
                        d = part["memory_decision"]
                        print("     ->", d["action"], d.get("relation"), d["reason"], d["candidate"].get("content"), d["supersedes"])
        print([i.value for i in store.recall(("memories", "alice"), status=("active","archived","superseded"))])


if __name__ == "__main__":
    main()
