"""Not one byte of what must not be kept is anywhere in Redis after a conversation that said it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from cryptography.fernet import Fernet
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_forgetful_store.policy import MemoryPolicy, PolicySettings, RulesExtractor, TypeDefaults, Vault
from tests.support.policy_graphs import INDEX, NS, config, graph
from tests.support.secret_texts import NAMED

pytestmark = pytest.mark.exhaustive

READ: dict[bytes, tuple[Any, ...]] = {
    b"string": ("GET",),
    b"hash": ("HGETALL",),
    b"zset": ("ZRANGE", 0, -1),
    b"set": ("SMEMBERS",),
    b"list": ("LRANGE", 0, -1),
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


def exchange(text: str) -> dict[str, Any]:
    """Return all the ways in which a text gets to a policy."""
    return {
        "messages": [HumanMessage(f"I live in Rome. {text}"), AIMessage("ok")],
        "memory_candidates": [text, {"content": {"note": text}}, {"content": {"note": text}, "tags": [text]}],
        "memory_actions": [
            {"action": "forget", "about": text},
            {"action": "retire", "key": text, "reason": text},
            {"action": "remember", "content": text, "key": text},
        ],
    }


@pytest.mark.parametrize("text", SECRETS)
def test_what_is_refused_leaves_no_byte_in_redis(make_any_store, text):
    store = make_any_store(index=INDEX)
    compiled = graph(store, MemoryPolicy(extractor=RulesExtractor()), InMemorySaver())
    compiled.invoke(exchange(text), config())
    held = everything(make_any_store)
    assert b"I live in Rome" in held
    assert [part for part in SECRETS[text] if part.encode() in held] == []


SAID = {text: part for table in NAMED.values() for text, part in table.items()}


def _holds(held: str, text: str, part: str) -> bool:
    """Whether something holds the word of a text that a part belongs to; made keys and times hold other digits."""
    word = re.search(rf"[\w-]*{re.escape(part)}[\w-]*" if part.isascii() else re.escape(part), text, re.ASCII)
    assert word is not None
    if re.search("[^0-9a-f-]", word[0]):
        return part in held
    return re.search(rf"(?<![\w.:-]){re.escape(word[0])}(?![\w-])", held, re.ASCII) is not None


def _readable(held: bytes) -> str:
    plain = held.decode(errors="replace")
    # JSON may be escaped in one place, and not in another.
    return plain + re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), plain)


def test_without_screening_each_of_them_would_be_seen(make_any_store):
    store = make_any_store(index=INDEX)
    compiled = graph(store, MemoryPolicy(extractor=RulesExtractor(), settings=PolicySettings(screen=False)))
    compiled.invoke({"memory_candidates": [{"content": text, "explicit": True} for text in SAID]}, config())
    held = _readable(everything(make_any_store)).replace("\\n", "\n")
    assert [text for text, part in SAID.items() if not _holds(held, text, part)] == []


@pytest.mark.parametrize(("text", "part"), SAID.items())
def test_what_a_sentence_names_is_held_nowhere(make_any_store, text, part):
    store = make_any_store(index=INDEX)
    compiled = graph(store, MemoryPolicy(extractor=RulesExtractor()), InMemorySaver())
    events = list(compiled.stream(exchange(text), config(), stream_mode=["custom", "updates"]))
    state = compiled.get_state(config()).values
    assert "refuse" in {one["action"] for one in state["memory_decisions"]}
    shown = {name: value for name, value in state.items() if name != "messages"}
    assert not _holds(json.dumps([shown, events], ensure_ascii=False, default=str), text, part)
    assert not _holds(str(store.audit(NS)), text, part)
    assert not _holds(_readable(everything(make_any_store)), text, part)


@pytest.mark.parametrize("text", SECRETS)
def test_what_is_kept_with_consent_can_be_read_from_no_byte_in_redis(make_any_store, text):
    store, vault = make_any_store(index=INDEX), Vault(Fernet.generate_key())
    settings = PolicySettings(consent=True, vault=vault)
    compiled = graph(store, MemoryPolicy(extractor=RulesExtractor(), settings=settings), InMemorySaver())
    result = compiled.invoke({"memory_candidates": [text]}, config())
    assert [one["action"] for one in result["memory_decisions"]] == ["remember"]
    assert len(store.recall(NS, memory_types=["sensitive"])) == 1
    held = everything(make_any_store)
    assert [part for part in SECRETS[text] if part.encode() in held] == []


@pytest.mark.parametrize(
    "said",
    [
        {"memory_candidates": [{"content": "hunter2zz", "subject": "user", "attribute": "password"}]},
        {"memory_candidates": [{"content": "8352", "subject": "phone", "attribute": "pin"}]},
        {"messages": [HumanMessage("Remember the word hunter2zz. It's my password.")]},
        {"messages": [HumanMessage("记住hunter2zz。这是我的密码。")]},
    ],
)
def test_what_stands_beside_a_bare_value_tells_that_it_is_a_secret(make_any_store, said):
    store = make_any_store(index=INDEX)
    result = graph(store, MemoryPolicy(extractor=RulesExtractor()), InMemorySaver()).invoke(said, config())
    shown = json.dumps(result["memory_decisions"])
    assert "refuse" in {one["action"] for one in result["memory_decisions"]}
    assert "hunter2zz" not in shown
    assert "8352" not in shown
    assert store.recall(NS, memory_types=[*store.memory_types]) == []


def sensitive(draft: Any, settings: Any) -> None:
    draft.memory_type = "sensitive"


@pytest.mark.parametrize(
    "settings",
    [
        PolicySettings(templates={("*", "hr"): TypeDefaults(memory_type="sensitive")}),
        PolicySettings(replaced={"classify": sensitive}),
    ],
    ids=["template", "stage"],
)
def test_what_a_template_or_a_stage_makes_sensitive_is_not_kept_in_plain_text(make_any_store, settings):
    store = make_any_store(index=INDEX)
    given = {"content": "Eve is to be promoted", "domain": "hr", "explicit": True}
    result = graph(store, MemoryPolicy(settings=settings)).invoke({"memory_candidates": [given]}, config())
    assert [one["action"] for one in result["memory_decisions"]] == ["refuse"]
    assert b"promoted" not in everything(make_any_store)
