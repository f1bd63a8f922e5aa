"""The middleware of `create_agent`: recall before the model, policy after the agent, on real servers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any, TypedDict

import pytest
import redis
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy.extraction import RulesExtractor
from langgraph_forgetful_store.policy.middleware import MemoryMiddleware
from langgraph_forgetful_store.policy.node import MemoryPolicy
from langgraph_forgetful_store.policy.recall_node import RecallMemories
from langgraph_forgetful_store.policy.tools import memory_tools
from tests.support.recalling_graph import ADA, INDEX, NS
from tests.support.scripted_model import script


@pytest.fixture
def store(make_store):
    return make_store(index=INDEX)


@pytest.fixture
def one_store(make_any_store):
    return make_any_store(index=INDEX)


def hello(text="green tea"):
    return {"messages": [HumanMessage(text)]}


def system_of(model, call=0):
    """Return the system message of a call of the model; ``""`` where there was none."""
    first = model.asked[call][0]
    return first.content if isinstance(first, SystemMessage) else ""


class Policy:
    """A policy that notes what it is given, and says what it is told to."""

    def __init__(self, update: dict[str, Any] | None) -> None:
        self.seen: list[dict[str, Any]] = []
        self.update = update
        self.runnable = RunnableLambda(self._run)

    def _run(self, state: dict[str, Any]) -> dict[str, Any] | None:
        self.seen.append(dict(state))
        return self.update


def test_memories_can_stand_in_a_message_of_their_own_before_the_users_last_one(store, invoke):
    store.remember(NS, "Ada likes green tea", source="user")
    model = script([("recall", {"query": "tea"})], "Here is your tea.")
    memory = MemoryMiddleware(RecallMemories(), place="message", tools=memory_tools(only=["recall"]))
    agent = create_agent(model, middleware=[memory], system_prompt="Be brief.", store=store)
    earlier = [("user", "hello"), ("assistant", "Hello.")]
    out = invoke(agent, {"messages": [*earlier, ("user", "green tea")]}, ADA)
    for call, after in ((0, ["human"]), (1, ["human", "ai", "tool"])):
        said = model.asked[call]
        assert [message.type for message in said] == ["system", "human", "ai", "human", *after]
        assert said[0].content == "Be brief."
        assert said[3].content == out["memory_context"]
    assert [message.type for message in out["messages"]] == ["human", "ai", "human", "ai", "tool", "ai"]


def test_the_model_is_told_what_the_message_is_about(store, invoke):
    store.remember(NS, "Ada likes green tea", source="user")
    model = script("Here is your tea.")
    agent = create_agent(model, middleware=[MemoryMiddleware(RecallMemories())], system_prompt="Be brief.", store=store)
    out = invoke(agent, hello(), ADA)
    said = system_of(model)
    assert said.startswith("Be brief.\n\nWhat was remembered earlier")
    assert '"Ada likes green tea"' in said
    assert out["memory_context"] in said
    assert [one["value"] for one in out["recalled_memories"]] == [{"content": "Ada likes green tea"}]
    # It is told to the model, and is no part of the conversation.
    assert [message.content for message in out["messages"]] == ["green tea", "Here is your tea."]


def test_without_memories_nothing_is_added(one_store, invoke):
    model = script("hi", "hi")
    bare = create_agent(model, middleware=[MemoryMiddleware(RecallMemories())], store=one_store)
    assert invoke(bare, hello(), ADA)["memory_context"] == ""
    assert system_of(model) == ""
    prompted = create_agent(
        model, middleware=[MemoryMiddleware(RecallMemories())], system_prompt="Be brief.", store=one_store
    )
    invoke(prompted, hello(), ADA)
    assert system_of(model, 1) == "Be brief."


def test_a_system_message_of_blocks_keeps_its_blocks(one_store, invoke):
    one_store.remember(NS, "green tea")
    block = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    model = script("hi")
    prompt = SystemMessage([block])
    agent = create_agent(model, middleware=[MemoryMiddleware(RecallMemories())], system_prompt=prompt, store=one_store)
    invoke(agent, hello(), ADA)
    first, added = system_of(model)
    assert first == block
    assert "green tea" in added["text"]
    assert prompt.content == [block]


def test_what_a_tool_supersedes_is_told_to_the_model_no_more(store, invoke):
    key = store.remember(NS, "Ada lives in Oslo").key
    model = script([("supersede", {"key": key, "content": "Ada lives in Rome"})], "Rome it is.")
    middleware = MemoryMiddleware(RecallMemories(with_keys=True), tools=memory_tools())
    agent = create_agent(model, middleware=[middleware], store=store)
    out = invoke(agent, hello("Ada lives in Rome now"), ADA)
    assert key in system_of(model, 0)
    assert "Oslo" in system_of(model, 0)
    assert "Rome" in system_of(model, 1)
    assert "Oslo" not in system_of(model, 1)
    assert [message.status for message in out["messages"] if isinstance(message, ToolMessage)] == ["success"]


def test_a_message_anchors_once_however_often_the_model_is_called(one_store, invoke):
    key = one_store.remember(NS, "green tea", tags=["drinks"], importance=0.1).key
    model = script([("archive", {"key": key})], "done")
    agent = create_agent(model, middleware=[MemoryMiddleware(RecallMemories(), tools=memory_tools())], store=one_store)
    invoke(agent, hello("no more drinks"), ADA)
    # It was anchored before the first call only: what the agent archived since is not brought back.
    assert one_store.get(NS, key).memory.status == "archived"
    assert [record.action for record in one_store.audit(NS) if record.key == key].count("anchor") == 1


def test_the_policy_runs_once_when_the_agent_is_done(one_store, invoke):
    one_store.remember(NS, "green tea")
    decision = {"id": "1", "action": "remember"}
    policy = Policy({"memory_decisions": [decision]})
    model = script([("recall", {"query": "tea"})], "done")
    middleware = MemoryMiddleware(RecallMemories(), policy.runnable, tools=memory_tools())
    out = invoke(create_agent(model, middleware=[middleware], store=one_store), hello(), ADA)
    assert out["memory_decisions"] == [decision]
    (seen,) = policy.seen
    assert [message.type for message in seen["messages"]] == ["human", "ai", "tool", "ai"]
    assert seen["recalled_memories"] == out["recalled_memories"] != []


def test_candidates_and_actions_of_the_caller_are_dealt_with_once(store, invoke):
    pinned = store.remember(NS, "Ada is allergic to nuts").key
    middleware = MemoryMiddleware(policy=MemoryPolicy())
    agent = create_agent(script("a", "b"), middleware=[middleware], store=store, checkpointer=InMemorySaver())
    candidate = {"content": "Ada likes green tea", "memory_type": "preference", "source": "user", "explicit": True}
    given = {"memory_candidates": [candidate], "memory_actions": [{"action": "pin", "key": pinned}]}
    config = {"configurable": {"user_id": "ada", "thread_id": "1"}}
    out = invoke(agent, {**hello(), **given}, config)
    assert {one["action"] for one in out["memory_decisions"]} == {"remember", "pin"}
    assert (out["memory_candidates"], out["memory_actions"]) == ([], [])
    assert store.get(NS, pinned).memory.pinned
    assert {item.value["content"] for item in store.search(NS)} == {"Ada likes green tea", "Ada is allergic to nuts"}
    assert len(invoke(agent, hello("and now?"), config)["memory_decisions"]) == 2


def test_what_the_user_says_is_kept_and_told_in_the_next_session(store, invoke):
    model = script("Noted.", "Green tea.")
    middleware = [MemoryMiddleware(RecallMemories(), MemoryPolicy(extractor=RulesExtractor()))]
    agent = create_agent(model, middleware=middleware, store=store)
    out = invoke(agent, hello("Please remember that I like green tea."), ADA)
    assert [one["action"] for one in out["memory_decisions"]] == ["remember"]
    invoke(agent, hello("do I like green tea"), ADA)
    assert system_of(model, 0) == ""
    assert "like green tea" in system_of(model, 1)


def test_a_policy_that_says_nothing_changes_nothing(one_store, invoke):
    agent = create_agent(script("done"), middleware=[MemoryMiddleware(policy=Policy(None).runnable)], store=one_store)
    out = invoke(agent, hello(), ADA)
    assert [message.content for message in out.pop("messages")] == ["green tea", "done"]
    assert not any(out.values())


def test_the_memories_of_a_turn_replace_those_of_the_one_before(one_store, invoke):
    one_store.remember(NS, "Ada likes green tea")
    model = script("a", "b")
    middleware = [MemoryMiddleware(RecallMemories())]
    agent = create_agent(model, middleware=middleware, store=one_store, checkpointer=InMemorySaver())
    config = {"configurable": {"user_id": "ada", "thread_id": "1"}}
    invoke(agent, hello("green tea"), config)
    out = invoke(agent, hello("zebra crossing"), config)
    assert "green tea" in system_of(model, 0)
    assert system_of(model, 1) == out["memory_context"] == ""


class Context(TypedDict):
    user_id: str


def test_the_user_may_come_from_the_runtimes_context(one_store, invoke):
    one_store.remember(NS, "green tea of Ada")
    one_store.remember(("memories", "eve"), "green tea of Eve")
    model = script("hi")
    agent = create_agent(
        model, middleware=[MemoryMiddleware(RecallMemories())], store=one_store, context_schema=Context
    )
    invoke(agent, hello(), context=Context(user_id="ada"))
    assert "of Ada" in system_of(model)
    assert "of Eve" not in system_of(model)


def test_other_middleware_works_beside_it(one_store, invoke):
    class Noting(AgentMiddleware):
        seen: list[str]

        def wrap_model_call(self, request, handler):
            self.seen = [request.system_prompt]
            return handler(request)

        async def awrap_model_call(self, request, handler):
            self.seen = [request.system_prompt]
            return await handler(request)

    one_store.remember(NS, "green tea")
    noting = Noting()
    middleware = [MemoryMiddleware(RecallMemories()), noting]
    invoke(create_agent(script("hi"), middleware=middleware, store=one_store), hello(), ADA)
    assert "green tea" in noting.seen[0]


async def test_many_agents_at_once_keep_apart(make_any_store):
    async with make_any_store(index=INDEX) as store:
        models = [script("hi") for _ in range(10)]
        for at in range(10):
            await store.aremember(("memories", f"u{at}"), f"green tea number {at}")
        await asyncio.gather(
            *(
                create_agent(model, middleware=[MemoryMiddleware(RecallMemories())], store=store).ainvoke(
                    hello(), {"configurable": {"user_id": f"u{at}"}}
                )
                for at, model in enumerate(models)
            )
        )
        assert all(f"number {at}" in system_of(model) for at, model in enumerate(models))


def test_a_server_that_is_down_raises_before_the_model_is_called(launch, open_store, invoke):
    server = launch("valkey-9.1")
    store = open_store(server.client(retry=None, socket_connect_timeout=1), index=INDEX)
    store.remember(NS, "green tea")
    server.kill()
    model = script("hi")
    with pytest.raises(redis.ConnectionError):
        invoke(create_agent(model, middleware=[MemoryMiddleware(RecallMemories())], store=store), hello(), ADA)
    assert model.asked == []


@pytest.mark.parametrize("bad", [{"recall": "all"}, {"policy": print}, {"place": "top"}])
def test_unusable_settings_are_refused_at_once(bad):
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        MemoryMiddleware(**bad)


def test_without_langchain_the_package_works_and_the_middleware_says_what_to_install():
    code = """
import sys

class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "langchain":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing)
import langgraph_forgetful_store
from langgraph_forgetful_store.policy import recall_node, tools
from langgraph_forgetful_store import ConfigurationError
try:
    import langgraph_forgetful_store.policy.middleware
except ConfigurationError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "langgraph-forgetful-store[langchain]" in out.stdout


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ('sys.modules["langchain.agents.middleware"] = None', "langchain.agents.middleware"),
        (
            'sys.modules["langchain.agents.middleware"] = types.ModuleType("old")',
            "cannot import name 'AgentMiddleware'",
        ),
    ],
    ids=["a part is missing", "a name is missing"],
)
def test_a_langchain_that_is_installed_but_fails_keeps_its_own_error(broken, says):
    code = f"import sys, types\n{broken}\nimport langgraph_forgetful_store.policy.middleware"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = out.stderr.strip().splitlines()[-1]
    assert last.startswith(("ImportError", "ModuleNotFoundError"))
    assert says in last
