"""Not one byte of what must not be kept is anywhere in Redis after a conversation that said it."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.fernet import Fernet
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_forgetful_store.policy import MemoryPolicy, PolicyRules, RulesExtractor, Vault
from tests.policy_graphs import INDEX, NS, config, graph

READ: dict[bytes, tuple[Any, ...]] = {
    b"string": ("GET",),
    b"hash": ("HGETALL",),
    b"zset": ("ZRANGE", 0, -1),
    b"set": ("SMEMBERS",),
    b"list": ("LRANGE", 0, -1),
    b"stream": ("XRANGE", "-", "+"),
}
# Put together here, so that no scanner takes this file for a leak.
TOKEN = "gh" + "p_" + "abcdefghijklmnopqrstuvwxyz0123456789"
SECRETS = {
    "My card is 4111 1111 1111 1111.": ["4111 1111", "1111 1111", "41111111"],
    "Remember that my card number is 4111-1111-1111-1111": ["4111-1111", "1111-1111", "41111111"],
    "my password is hunter2hunter2": ["hunter2"],
    f"Remember my token {TOKEN}": ["abcdefghij"],
    "my SSN is 536-90-4399": ["536-90", "90-4399", "536904399"],
    "记住我的身份证号是11010519491231002X": ["19491231"],
    "我的密码是abc123xyz": ["abc123"],
}


def _flat(reply: Any) -> bytes:
    if isinstance(reply, dict):
        reply = [part for pair in reply.items() for part in pair]
    if isinstance(reply, list | tuple | set):
        return b"\n".join(map(_flat, reply))
    return reply if isinstance(reply, bytes) else str(reply).encode()


def everything(maker: Any) -> bytes:
    """Return all that the server holds, by names and contents."""
    with maker.server.client() as client:
        keys = list(client.scan_iter(count=1000))
        parts = [
            _flat(client.execute_command(READ[client.type(key)][0], key, *READ[client.type(key)][1:])) for key in keys
        ]
    return b"\n".join([*keys, *parts])


@pytest.mark.parametrize("text", SECRETS)
def test_what_is_refused_leaves_no_byte_in_redis(make_any_store, text):
    store = make_any_store(index=INDEX)
    compiled = graph(store, MemoryPolicy(extractor=RulesExtractor()), InMemorySaver())
    said = {
        "messages": [HumanMessage(f"I live in Rome. {text}"), AIMessage("ok")],
        "memory_candidates": [text, {"content": {"note": text}, "tags": [text]}],
        "memory_actions": [
            {"action": "forget", "about": text},
            {"action": "retire", "key": text, "reason": text},
            {"action": "remember", "content": text, "key": text},
        ],
    }
    compiled.invoke(said, config())
    held = everything(make_any_store)
    assert b"I live in Rome" in held
    assert [part for part in SECRETS[text] if part.encode() in held] == []


@pytest.mark.parametrize("text", SECRETS)
def test_what_is_kept_with_consent_can_be_read_from_no_byte_in_redis(make_any_store, text):
    store, vault = make_any_store(index=INDEX), Vault(Fernet.generate_key())
    rules = PolicyRules(consent=True, vault=vault)
    compiled = graph(store, MemoryPolicy(extractor=RulesExtractor(), rules=rules), InMemorySaver())
    result = compiled.invoke({"memory_candidates": [text]}, config())
    assert [one["action"] for one in result["memory_decisions"]] == ["remember"]
    assert len(store.recall(NS, memory_types=["sensitive"])) == 1
    held = everything(make_any_store)
    assert [part for part in SECRETS[text] if part.encode() in held] == []
