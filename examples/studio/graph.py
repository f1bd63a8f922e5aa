"""An agent without a model: it keeps what you tell it and answers questions from that, in every thread of a user.

Say "I moved to Ghent last autumn.", open a new thread and ask "Which town do I live in?". Or say "The door code is
4471 for the next 2 minutes.", and ask for it now, and in two minutes.
"""

import re
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore


async def reply(state: MessagesState, config: RunnableConfig, *, store: BaseStore) -> dict[str, Any]:
    text = str(state["messages"][-1].text)
    # The server fills this in from its authentication; without any it is empty.
    namespace = ("users", config.get("configurable", {}).get("user_id") or "demo", "memories")
    if text.rstrip().endswith("?"):
        found = await store.asearch(namespace, query=text, limit=3)
        lines = [f"{item.score:.2f}  {item.value['text']}" for item in found]
        return {"messages": [AIMessage("\n".join(lines) or "I remember nothing about that.")]}
    limit = re.search(r"for the next (\d+) minutes?", text)
    ttl = float(limit[1]) if limit else None
    await store.aput(namespace, str(uuid4()), {"text": text}, ttl=ttl)
    return {"messages": [AIMessage(f"I'll remember that for {ttl:g} minutes." if ttl else "I'll remember that.")]}


graph = StateGraph(MessagesState).add_node(reply).add_edge(START, "reply").compile()
