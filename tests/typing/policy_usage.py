"""What a user's type checker sees of the policy, the nodes and the tools; checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_type

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from langgraph_forgetful_store import (
    ForgetfulStore,
    MemoryPolicy,
    MemoryPolicyState,
    RecallMemories,
    assemble_context,
    memory_tools,
)
from langgraph_forgetful_store.policy import (
    Admission,
    AnyExtractor,
    AnyJudge,
    Calibration,
    Candidate,
    Decision,
    Draft,
    Extraction,
    ExtractionInput,
    Judge,
    LifecycleStore,
    LLMExtractor,
    LLMJudge,
    MemoryMiddleware,
    Pair,
    PolicySettings,
    Relation,
    RulesExtractor,
    RulesJudge,
    Screener,
    SensitiveSpan,
    SourceMessage,
    Stage,
    TypeDefaults,
    Vault,
    Verdict,
    calibrate,
    find_sensitive,
    pending,
)


class OwnExtractor:
    def extract(self, given: ExtractionInput) -> Extraction:
        message: SourceMessage = given.latest[0]
        return Extraction((Candidate(content=message["content"]),))


class OwnAsyncExtractor:
    async def aextract(self, exchange: ExtractionInput) -> Extraction:
        return Extraction()


def extract(exchange: ExtractionInput) -> Extraction:
    return Extraction(actions=({"action": "archive", "key": "k"},))


async def aextract(exchange: ExtractionInput) -> Extraction:
    return Extraction()


class OwnJudge:
    def judge(self, given: Sequence[Pair]) -> list[Verdict]:
        return [Verdict(Relation.ADD, "new", False) for _ in given]


class OwnAsyncJudge:
    async def ajudge(self, pairs: Sequence[Pair]) -> list[Verdict]:
        return [Verdict(None, doubt=pair.similarity is None) for pair in pairs]


def judge(pairs: Sequence[Pair]) -> list[Verdict]:
    return RulesJudge().judge(pairs)


def parts(model: BaseChatModel) -> None:
    extractors: list[AnyExtractor] = [
        RulesExtractor(),
        LLMExtractor(model, batch_size=5),
        OwnExtractor(),
        OwnAsyncExtractor(),
        extract,
        aextract,
    ]
    judges: list[AnyJudge] = [RulesJudge(), LLMJudge(model), OwnJudge(), OwnAsyncJudge(), judge]
    for extractor in extractors:
        for one in judges:
            MemoryPolicy(extractor=extractor, judge=one)
    MemoryPolicy(("memories", "{user_id}"), extractor=OwnExtractor(), judge=OwnAsyncJudge())
    MemoryPolicy(extractor=extract, judge=judge)
    MemoryPolicy(extractor=aextract)
    by_protocol: Judge = OwnJudge()
    MemoryPolicy(judge=by_protocol, store=ForgetfulStore.embedded())


def takes_a_lifecycle_store(store: LifecycleStore) -> None:
    MemoryPolicy(store=store)
    RecallMemories(store=store)
    memory_tools(store=store)


def stores(store: ForgetfulStore) -> None:
    takes_a_lifecycle_store(store)


def important(draft: Draft, settings: PolicySettings) -> None:
    draft.importance = 0.9
    if draft.candidate.domain == "joke":
        draft.settle("refuse", "joke: not kept")


def no_names(text: str) -> list[SensitiveSpan]:
    return [*find_sensitive(text), SensitiveSpan("name", 0, 3)]


def settings(vault: Vault) -> None:
    stage: Stage = important
    screener: Screener = no_names
    given = PolicySettings(
        verify=False,
        resolution="source",
        consent=True,
        vault=vault,
        admission=Admission(threshold=0.5),
        calibration=Calibration(0.9),
        templates={("fact", "work"): TypeDefaults(ttl=60, tags=("work",))},
        screener=screener,
    )
    assert_type(given.template("fact", None), TypeDefaults)
    stage(Draft(Candidate(content="a text")), given)
    MemoryPolicy(settings=given)


def vaults(store: ForgetfulStore) -> None:
    vault = Vault(["new key", b"old key"])
    vault.reveal(store, ("memories", "alice"), "k", why="the user asked")


def thresholds() -> None:
    pairs = [("a", "b", True), ("a", "c", False)]
    assert_type(calibrate(lambda texts: [[1.0] for _ in texts], pairs, min_precision=0.9).threshold, float)


class State(MemoryPolicyState):
    """A state of the user's own."""

    topic: str


def respond(state: State) -> dict[str, Any]:
    told = state.get("memory_context", "")
    return {"messages": [("ai", told)], "memory_candidates": [{"content": "a text", "tags": ["a"]}]}


def more_to_decide(state: State) -> str:
    return "decide" if pending(state.get("memory_candidates")) else END


def graph(store: ForgetfulStore, model: BaseChatModel) -> None:
    tools = memory_tools(("memories", "{user_id}"), only=["recall", "supersede"], prefix="my_", screener=None)
    assert_type(tools, list[BaseTool])
    builder = StateGraph(State)
    builder.add_node("recall", RecallMemories(("memories", "{user_id}"), limit=5, max_tokens=500, with_keys=True))
    builder.add_node("respond", respond)
    builder.add_node("tools", ToolNode(tools))
    builder.add_node("decide", MemoryPolicy(extractor=LLMExtractor(model)))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "respond")
    builder.add_conditional_edges("respond", more_to_decide)
    compiled = builder.compile(store=store)
    compiled.invoke({"messages": [HumanMessage("hello")], "topic": "home"}, {"configurable": {"user_id": "alice"}})


def plain_graph(store: ForgetfulStore) -> None:
    builder = StateGraph(MessagesState).add_node("recall", RecallMemories()).add_edge(START, "recall")
    builder.compile(store=store)


def decisions(policy: MemoryPolicy) -> None:
    made = policy.decide({"messages": [("user", "I live in Ghent")]}, {"configurable": {"user_id": "alice"}})
    assert_type(made, list[Decision])
    assert_type(policy.apply(made), list[Decision])
    for one in made:
        assert_type(one["action"], str)
        assert_type(one["answers"]["useful_later"], bool)


def agent(store: ForgetfulStore, model: BaseChatModel) -> None:
    memory = MemoryMiddleware(RecallMemories(), MemoryPolicy(), tools=memory_tools())
    create_agent(model, middleware=[memory], store=store)


def context(state: MemoryPolicyState) -> str:
    return assemble_context(state.get("recalled_memories", []), max_tokens=300, min_relevance=None, order="best_first")
