"""Extractors and judges, with chat models that follow a script, answer nonsense, or fail."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy import (
    ExtractionInput,
    Extractor,
    Judge,
    LLMExtractor,
    LLMJudge,
    Pair,
    Relation,
    RulesExtractor,
    RulesJudge,
)
from langgraph_forgetful_store.policy.extraction import exchange_of
from tests.support.scripted_model import ScriptedModel, script


def said(*texts, role="user"):
    return tuple({"id": f"m{at}", "content": text, "role": role} for at, text in enumerate(texts))


class FailingModel(ScriptedModel):
    """Raises, whatever it is asked."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **settings: Any) -> Any:
        self.asked.append(messages)
        raise TimeoutError("too slow")


def failing():
    return FailingModel(replies=[])


def judged(*relations):
    return [
        ("Judged", {"pairs": [{"index": at, "relation": one, "reason": "why"} for at, one in enumerate(relations)]})
    ]


def test_the_rules_extract_facts_and_requests_in_both_languages():
    found = RulesExtractor().extract(
        ExtractionInput(
            said(
                "Hi! My name is Ada. Where do you live?",
                "我搬到上海了。忘掉我的地址。",
                "记住我对花生过敏",
                "that is done. You misremember.",
            )
        )
    )
    assert [one.text for one in found.candidates] == ["My name is Ada.", "我搬到上海了。", "我对花生过敏"]
    assert [one.slot for one in found.candidates] == [("user", "name"), ("user", "home_city"), None]
    assert [one.explicit for one in found.candidates] == [None, None, True]
    assert [one.message_ids for one in found.candidates] == [("m0",), ("m1",), ("m2",)]
    assert [(one["action"], one.get("about")) for one in found.actions] == [
        ("forget", "我的地址"),
        ("archive", ""),
        ("feedback", None),
    ]


def test_the_rules_extract_nothing_from_the_assistant_or_from_small_talk():
    assert RulesExtractor().extract(ExtractionInput(said("I live in Paris", role="assistant"))).candidates == ()
    assert (
        RulesExtractor()
        .extract(ExtractionInput(said("continue", "this is fine", "继续", "Do I live in Paris?")))
        .candidates
        == ()
    )


def test_an_exchange_starts_after_what_was_seen():
    messages = [
        SystemMessage("be kind", id="s"),
        HumanMessage("one", id="a"),
        AIMessage("two", id="b"),
        HumanMessage("three", id="c"),
        ToolMessage("four", id="d", tool_call_id="t"),
    ]
    assert [one["id"] for one in exchange_of(messages, "b").latest] == ["c", "d"]
    assert [one["id"] for one in exchange_of(messages, None).latest] == ["c", "d"]
    assert [one["id"] for one in exchange_of(messages, "gone").latest] == ["c", "d"]
    assert exchange_of(messages, "d").latest == ()
    assert [one["id"] for one in exchange_of(messages, "b", window=2).context] == ["c", "d"]
    assert [one["role"] for one in exchange_of(messages, "s").latest] == ["user", "assistant", "user", "tool"]


FACT = {
    "content": "The user lives in Rome",
    "subject": "user",
    "attribute": "home_city",
    "message_ids": ["m1"],
    "confidence": 0.9,
}


def test_a_model_extracts_facts_with_their_messages():
    model = script(
        [("Extracted", {"facts": [FACT, {"content": " "}], "actions": [{"action": "forget", "about": "address"}]})]
    )
    found = LLMExtractor(model).extract(
        ExtractionInput(said("hello", "I live in Rome"), said("hello"), "They met before.")
    )
    (one,) = found.candidates
    assert (one.text, one.slot, one.model_confidence) == ("The user lives in Rome", ("user", "home_city"), 0.9)
    assert (one.message_ids, one.source) == (("m1",), "user")
    assert found.actions[0]["action"] == "forget"
    assert found.error is None
    shown = json.loads(model.asked[0][1].text)
    assert [message["id"] for message in shown["latest"]] == ["m0", "m1"]
    assert shown["summary"] == "They met before."


def test_a_malformed_answer_is_asked_for_once_more():
    model = script("no tool call", [("Extracted", {"facts": [FACT]})])
    found = LLMExtractor(model).extract(ExtractionInput(said("hello", "I live in Rome")))
    assert len(found.candidates) == 1
    assert len(model.asked) == 2


@pytest.mark.parametrize(
    "model",
    [
        lambda: script("nonsense", "nonsense"),
        lambda: script([("Extracted", {"facts": 7})], "x"),
        failing,
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_model_that_fails_twice_makes_an_extraction_with_an_error(model, asynchronous):
    made = model()
    extractor, exchange = LLMExtractor(made), ExtractionInput(said("I live in Rome"))
    found = asyncio.run(extractor.aextract(exchange)) if asynchronous else extractor.extract(exchange)
    assert found.candidates == ()
    assert found.error
    assert len(made.asked) == 2


def test_a_long_exchange_is_asked_about_in_parts():
    model = script(*[[("Extracted", {"facts": []})]] * 3)
    LLMExtractor(model, batch_size=2).extract(ExtractionInput(said("a", "b", "c", "d", "e")))
    assert sorted(len(json.loads(asked[1].text)["latest"]) for asked in model.asked) == [1, 2, 2]


def test_a_model_judges_all_pairs_at_once():
    model = script(judged("UPDATE", None, "DUPLICATE"))
    verdicts = LLMJudge(model).judge([Pair("a", "b"), Pair("c", "d"), Pair("e", "f")])
    assert [one.relation for one in verdicts] == [Relation.UPDATE, None, Relation.DUPLICATE]
    assert [one.doubt for one in verdicts] == [False, True, False]
    assert len(model.asked) == 1


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_judge_that_forgets_a_pair_is_asked_again(asynchronous):
    model = script(judged("UPDATE"), judged("UPDATE", "ADD"))
    judge, pairs = LLMJudge(model), [Pair("a", "b"), Pair("c", "d")]
    verdicts = asyncio.run(judge.ajudge(pairs)) if asynchronous else judge.judge(pairs)
    assert [one.relation for one in verdicts] == [Relation.UPDATE, Relation.ADD]


@pytest.mark.parametrize(
    "model",
    [lambda: script("?", "?"), lambda: script(judged("MAYBE"), judged("MAYBE")), failing],
)
def test_a_judge_that_fails_twice_abstains(model):
    verdicts = LLMJudge(model()).judge([Pair("a", "b"), Pair("c", "d")])
    assert [(one.relation, one.doubt) for one in verdicts] == [(None, True)] * 2
    assert all(one.reason.startswith("the judge failed") for one in verdicts)


def test_only_the_part_that_failed_is_asked_about_again():
    model = script(judged("UPDATE"), "?", judged("ADD"))
    verdicts = LLMJudge(model, batch_size=1).judge([Pair("a", "b"), Pair("c", "d")])
    assert sorted(str(one.relation) for one in verdicts) == ["ADD", "UPDATE"]
    assert len(model.asked) == 3


def test_a_model_without_structured_output_is_refused():
    with pytest.raises(ConfigurationError, match="has no structured output"):
        LLMJudge(FakeListChatModel(responses=["x"]))
    with pytest.raises(ConfigurationError, match="must be a chat model"):
        LLMExtractor("gpt")


def test_all_are_what_the_protocols_ask_for():
    assert isinstance(RulesExtractor(), Extractor)
    assert isinstance(LLMExtractor(script()), Extractor)
    assert isinstance(RulesJudge(), Judge)
    assert isinstance(LLMJudge(script()), Judge)


def test_an_error_of_a_parser_does_not_repeat_what_the_model_said():
    class Repeating(ScriptedModel):
        def _generate(self, messages: list[BaseMessage], *args: Any, **settings: Any) -> Any:
            raise OutputParserException("could not read 4111 1111 1111 1111")

    exchange = ExtractionInput(said("I live in Rome"))
    assert LLMExtractor(Repeating(replies=[])).extract(exchange).error == "OutputParserException"
    (verdict,) = LLMJudge(Repeating(replies=[])).judge([Pair("a", "b")])
    assert verdict.reason == "the judge failed: OutputParserException"
