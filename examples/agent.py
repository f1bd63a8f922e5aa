"""An agent that remembers, is corrected, forgets, and answers from what holds now.

There is nothing to start and no key to set: the server is embedded, the embedder is a small local one, and the chat
model is scripted: it does what a real one would with the memories and the tools it is given, but word for word. One
line, marked below, switches to a real model; nothing else changes.
"""

import json
import re
from pathlib import Path
from typing import Any

import wordllama
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_forgetful_store import ForgetfulStore, MemoryPolicy, MemoryPolicyState, RecallMemories, memory_tools
from langgraph_forgetful_store.policy import Decision, RulesExtractor

ALICE = ("memories", "alice")
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
    "A week later": [
        "Where do I live?",
        "What do I need to book?",
        "What am I allergic to?",
        "Please forget my allergy.",
        "What am I allergic to?",
    ],
}


# A line of the context: the text, the day, the source, and the key among the notes.
MEMORY = re.compile(r'^"(?P<memory>.*?)" .*\[key "(?P<key>\w+)"', re.M)


class Scripted(BaseChatModel):
    """Replaces the memory that a correction is about, and answers questions from the memories in its prompt."""

    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **settings: Any) -> ChatResult:
        known = [one.groupdict() for one in MEMORY.finditer(messages[0].text)]
        said, reply = messages[-1], AIMessage("OK.")
        if said.type == "tool":
            reply = AIMessage(f"I have put that right: {known[0]['memory']}")
        elif moved := re.match(r"Actually, I moved to (\w+)", said.text):
            (home,) = [one for one in known if "I live in" in one["memory"]]
            change = {"key": home["key"], "content": f"I live in {moved[1]}.", "reason": "updated", "source": "user"}
            reply = AIMessage("", tool_calls=[{"name": "supersede", "args": change, "id": "1"}])
        elif said.text.endswith("?"):
            words = [word for word in re.findall(r"\w+", said.text) if len(word) > 3]
            found = [one["memory"] for one in known if any(word in one["memory"] for word in words)]
            reply = AIMessage(f"You told me: {found[0]}" if found else "I know nothing about that.")
        return ChatResult(generations=[ChatGeneration(message=reply)])

    @property
    def _llm_type(self) -> str:
        return "scripted"


# For a real model change this line: init_chat_model("openai:gpt-5"), from langchain.chat_models.
model: BaseChatModel = Scripted()


def embed(texts: list[str]) -> list[list[float]]:
    return [list(map(float, vector)) for vector in EMBEDDER.embed(texts)]


EMBEDDER = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
TOOLS = memory_tools(only=("recall", "supersede"))


def respond(state: MemoryPolicyState) -> dict[str, Any]:
    prompt = SystemMessage("Answer briefly, from what is known of the user.\n" + state.get("memory_context", ""))
    return {"messages": [model.bind_tools(TOOLS).invoke([prompt, *state.get("messages", [])])]}


def build(store: ForgetfulStore) -> Any:
    builder = StateGraph(MemoryPolicyState)
    builder.add_node("recall", RecallMemories(with_keys=True))
    builder.add_node("model", respond)
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_node("policy", MemoryPolicy(extractor=RulesExtractor()))
    builder.add_edge(START, "recall").add_edge("recall", "model").add_edge("tools", "recall")
    builder.add_conditional_edges("model", tools_condition, {"tools": "tools", "__end__": "policy"})
    return builder.compile(store=store, checkpointer=InMemorySaver())


def show(who: str, what: str, why: str = "") -> None:
    print(f"  {who:<12} {what:<40} {why}".rstrip())


def show_decision(store: ForgetfulStore, decision: Decision) -> None:
    what, key = decision["candidate"].get("content"), decision["key"]
    if what is None and key is not None:
        what = next((item.value["content"] for item in store.history(ALICE, key) if item.key == key), "(erased)")
    show(f"- {decision['action']}", what or "", decision["reason"])


def main() -> None:
    index: Any = {"dims": 256, "embed": embed, "fields": ["content"]}
    with ForgetfulStore.embedded(index=index) as store:
        graph = build(store)
        for session, turns in SESSIONS.items():
            print(session)
            config = {"configurable": {"thread_id": session, "user_id": "alice"}}
            for text in turns:
                show("user", text)
                said = {"messages": [("user", text)]}
                for mode, part in graph.stream(said, config, stream_mode=["updates", "custom"]):
                    if mode == "custom":
                        show_decision(store, part["memory_decision"])
                        continue
                    for message in part.get("model", part.get("tools", {})).get("messages", ()):
                        if message.type == "tool":
                            memory = json.loads(message.text)["memory"] if message.text.startswith("{") else ""
                            show(f"- {message.name}", memory, "called by the model, in the middle of its loop")
                        elif message.text:
                            show("agent", message.text)
        print("What is left")
        kinds = ("identity", "task", "hypothesis")
        for item in store.recall(ALICE, status=("active", "archived", "superseded"), memory_types=kinds):
            show("", item.value["content"], f"{item.memory.memory_type}, {item.memory.status}")


if __name__ == "__main__":
    main()
