"""Bad arguments of the policy, its rules, tools and contexts, one by one: the error names the argument, what came and
what is allowed, comes at once, and nothing stored changes."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
from cryptography.fernet import Fernet
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.memory import InMemoryStore

from langgraph_forgetful_store import (
    ConfigurationError,
    ForgetfulStore,
    MemoryPolicy,
    MemoryType,
    RecallMemories,
    assemble_context,
    memory_tools,
)
from langgraph_forgetful_store.policy import (
    Admission,
    Calibration,
    Extraction,
    MemoryMiddleware,
    PolicySettings,
    RulesExtractor,
    RulesJudge,
    TypeDefaults,
    Vault,
    calibrate,
    find_sensitive,
)
from langgraph_forgetful_store.testing import WordEmbeddings
from tests.support.recalling_graph import ADA, INDEX, NS
from tests.support.refused_input import Case, dump, each, one, refuses
from tests.support.scripted_model import script

KEY = Fernet.generate_key().decode()
HUGE = 10**400


async def waits(*given: Any) -> tuple[()]:
    """What is async, and so would give a coroutine where a result is expected."""
    return ()


def given(make: Any, name: str) -> Any:
    return lambda bad: make(**{name: bad})


def bad(make: Any, name: str, values: list[Any], *words: str) -> list[Case]:
    return each(name, values, given(make, name), ConfigurationError, *words)


def settings_of_stage(stage: Any) -> PolicySettings:
    return PolicySettings(replaced={"verify": stage})


def settings_of_template(name: str) -> Any:
    return lambda value: PolicySettings(templates={("fact", "*"): TypeDefaults(**{name: value})})


FRACTION = "a number from 0 to 1"
POLICY = [
    *bad(MemoryPolicy, "extractor", ["x", 5, {}, RulesExtractor], "a method extract, a function, or None"),
    *bad(MemoryPolicy, "judge", ["x", 5, {}, RulesJudge], "a method judge, a function, or None"),
    *bad(MemoryPolicy, "settings", [{}, "strict", 5, PolicySettings], "a PolicySettings or None"),
    *one("extractor model", lambda: MemoryPolicy(extractor=script("x")), ConfigurationError,
         "extractor must be an object with a method extract", "ScriptedModel", "extractor=LLMExtractor(model)"),
    *one("judge model", lambda: MemoryPolicy(judge=script("x").bind()), ConfigurationError,
         "judge must be an object with a method judge", "Binding", "judge=LLMJudge(model)"),
]  # fmt: skip
STORES = [
    case
    for make in (MemoryPolicy, RecallMemories, memory_tools)
    for value, kind in ((5, "int"), (InMemoryStore(), "InMemoryStore"))
    for case in one(f"{make.__name__} {kind}", functools.partial(make, store=value), ConfigurationError,
                    "store must be a ForgetfulStore", kind)
]  # fmt: skip
RULES = [
    *bad(PolicySettings, "verify", ["no", 1, None], "True or False"),
    *bad(PolicySettings, "consent", ["yes", 1, 0], "True, False or None"),
    *bad(PolicySettings, "admission", [0.5, None, {}, Admission], "an Admission"),
    *bad(PolicySettings, "calibration", [0.85, {}, Calibration], "a Calibration", "or None"),
    *bad(PolicySettings, "screener", [None, 5, "x"], "a function from a text to findings", "screen=False"),
    *bad(PolicySettings, "screener", [waits], "not an async one"),
    *bad(PolicySettings, "hypothesis_below", ["x", None, True, -0.1, 1.1, math.nan, HUGE], FRACTION),
    *bad(PolicySettings, "proposals", ["x", None, True, -1, 1.5], "a whole number from 0"),
    *bad(PolicySettings, "resolution", ["x", None, []], "one of recency, source, confidence"),
    *bad(PolicySettings, "replaced", [None, 5, "verify", ["verify"]], "a dict of functions by any of verify"),
    *one("replaced name", lambda: PolicySettings(replaced={"verfy": print}), ConfigurationError,
         "replaced", "'verfy'", "known are verify, classify"),
    *each("replaced['verify']", [None, 5, "x"], settings_of_stage, ConfigurationError, "a function", "verify=False"),
    *each("replaced['verify']", [waits], settings_of_stage, ConfigurationError, "a function", "not an async one"),
    *bad(PolicySettings, "templates", [None, 5, "x", [TypeDefaults()]], "a dict of (type, domain)", "to TypeDefaults"),
    *one("template", lambda: PolicySettings(templates={("a", "b"): {}}), ConfigurationError,
         "templates", "('a', 'b'): {}", "to TypeDefaults"),
    *one("template key", lambda: PolicySettings(templates={("a", None): TypeDefaults()}), ConfigurationError,
         "templates", "('a', None)", "two non-empty str"),
    *each("importance", [7, "x", True, math.nan], settings_of_template("importance"), ConfigurationError, FRACTION),
    *each("ttl", ["x", True, -1, math.nan, math.inf], settings_of_template("ttl"), ConfigurationError,
          "a number of minutes"),
    *each("tags", ["abc", 5, [1], [""]], settings_of_template("tags"), ConfigurationError, "a list of non-empty str"),
    *each("preconditions", ["abc"], settings_of_template("preconditions"), ConfigurationError, "a list of non-empty"),
    *each("memory_type", [5, ""], settings_of_template("memory_type"), ConfigurationError, "a non-empty str"),
    *each("pinned", ["x", 1], settings_of_template("pinned"), ConfigurationError, "True or False"),
    *each("admit", ["x", 1], settings_of_template("admit"), ConfigurationError, "True, False or None"),
]  # fmt: skip
PARTS = [
    *bad(Admission, "threshold", ["x", None, True, -1, 2], FRACTION),
    *bad(Admission, "weights", [None, 5, [0.1]], "a dict of numbers by factor"),
    *bad(Admission, "priors", [None, 5, [0.1]], "a dict of numbers by memory type"),
    *one("weight", lambda: Admission(weights={"utility": 2}), ConfigurationError, "weights['utility']", "got 2"),
    *one("prior", lambda: Admission(priors={"generic": 2}), ConfigurationError, "priors['generic']", "got 2", FRACTION),
    *one("factor", lambda: Admission(weights={"luck": 1}), ConfigurationError, "weights need utility", "got luck"),
    *one("generic", lambda: Admission(priors={"fact": 1}), ConfigurationError, "priors need", "'generic'", "got fact"),
    *bad(Calibration, "threshold", ["x", None, True, 2, -1.1, math.nan, HUGE], "a number from -1 to 1"),
    *bad(Calibration, "precision", ["x", 2], FRACTION),
    *bad(Calibration, "pairs", ["x", -1, 1.5], "a whole number from 0"),
]  # fmt: skip
RECALL = [
    *bad(RecallMemories, "limit", ["x", -1, 1.5, None, True], "a whole number from 0"),
    *bad(RecallMemories, "offset", ["x", -1], "a whole number from 0"),
    *bad(RecallMemories, "status", [("x",), ("active", "gone"), ()], "any of active, archived, superseded"),
    *bad(RecallMemories, "status", [5], "a list of non-empty str"),
    *bad(RecallMemories, "min_confidence", [4, "x", True, HUGE], FRACTION),
    *bad(RecallMemories, "min_similarity", [4, "x", HUGE], "a number from -1 to 1"),
    *bad(RecallMemories, "archived_above", [4, "x"], "a number from -1 to 1"),
    *bad(RecallMemories, "memory_types", [5, (1,), ("",)], "a list of"),
    *bad(RecallMemories, "tags", [5, (1,)], "a list of"),
    *bad(RecallMemories, "filter", [5, "x", [1]], "a dict"),
    *one("filter operator", lambda: RecallMemories(filter={"a": {"$near": 1}}), ConfigurationError, "$near", "$eq"),
    *bad(RecallMemories, "as_of", ["last week", 5, "2026-05-01T10:00:00"], "ISO 8601"),
    *bad(RecallMemories, "rerank", [5, "x"], "a function or None"),
    *bad(RecallMemories, "track_access", ["x", 1], "True or False"),
    *bad(RecallMemories, "refresh_ttl", ["x", 1], "True, False or None"),
    *bad(RecallMemories, "goal", [5, ""], "a non-empty str or None"),
    *bad(RecallMemories, "allow", [5, "x"], "a function of a memory or None"),
    *bad(RecallMemories, "allow", [waits], "not an async one"),
    *bad(RecallMemories, "neighbors", ["x", None], "True or False"),
    *bad(RecallMemories, "anchor", ["x", 1], "True or False"),
    *bad(RecallMemories, "with_keys", ["x", 1], "True or False"),
    *bad(RecallMemories, "messages_key", [5, "", None], "a non-empty str"),
    *bad(RecallMemories, "max_tokens", ["x", -1, 1.5], "a whole number from 0"),
    *bad(RecallMemories, "min_relevance", ["x", 7], "a number from -1 to 1"),
    *one("option", lambda: RecallMemories(colour="red"), ConfigurationError, "'colour'", "limit", "min_confidence"),
]  # fmt: skip
TOOLS = [
    *bad(memory_tools, "only", [None, 5, "recall", ["recall", "erase"], [1], ["pin", "pin"]],
         "any of remember, recall, supersede, archive, restore, forget, pin, confirm"),
    *bad(memory_tools, "prefix", [5, None, "a b!", "mem.", "記", "a\n", "x" * 56], "letters of ASCII, digits, _ and -"),
    *bad(memory_tools, "screener", [5, "x"], "a function from a text to findings or None"),
    *bad(memory_tools, "screener", [waits], "not an async one"),
    *bad(memory_tools, "max_tokens", ["x", -1, 1.5], "a whole number from 0"),
    *bad(memory_tools, "min_relevance", ["x", 7], "a number from -1 to 1"),
    *bad(memory_tools, "count_tokens", ["x", 5, int, waits], "a function of a text, a language model or None"),
]  # fmt: skip


@pytest.mark.parametrize(
    "table",
    [POLICY, STORES, RULES, PARTS, RECALL, TOOLS],
    ids=["policy", "stores", "rules", "parts", "recall", "tools"],
)
def test_a_bad_setting_is_refused_at_once(table: list[Case]) -> None:
    for name, call, error, words in table:
        refuses(call, error, *words, case=name)


@pytest.mark.parametrize("key", [5, None, KEY[:-1], [], [KEY, "other"], [5], {"key": KEY}, b"x"], ids=str)
def test_a_key_that_is_none_is_refused_and_not_repeated(key: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=f"^key must be a Fernet key .* got an? {type(key).__name__}"
    ) as raised:
        Vault(key)
    assert KEY[:-1] not in str(raised.value)


@pytest.mark.parametrize("consent", [True, False, None])
def test_a_key_in_place_of_a_vault_is_refused_and_not_repeated(consent: bool | None) -> None:
    with pytest.raises(ConfigurationError, match=r"vault must be a Vault or None, got a str.*Vault\(key\)") as raised:
        PolicySettings(consent=consent, vault=KEY)
    assert KEY not in str(raised.value)


def test_what_is_allowed_is_taken() -> None:
    async def extract(exchange: Any) -> Extraction:
        return Extraction()

    MemoryPolicy(extractor=extract, judge=lambda pairs: [])
    MemoryPolicy(
        extractor=RulesExtractor(), judge=RulesJudge(), settings=PolicySettings(vault=Vault([KEY]), consent=True)
    )
    PolicySettings(
        replaced={"verify": lambda draft, settings: None}, screener=find_sensitive, calibration=Calibration(-1)
    )
    PolicySettings(hypothesis_below=0, admission=Admission(threshold=1), templates={("*", "*"): TypeDefaults(ttl=0)})
    RecallMemories(status="archived", memory_types="fact", min_confidence=1, limit=0, filter={"$memory": {"pinned": 1}})
    assert [tool.name for tool in memory_tools(only=iter(["pin"]), prefix="x" * 55, screener=None)] == [
        "x" * 55 + "pin"
    ]


def test_lists_of_a_template_may_be_lists() -> None:
    settings = PolicySettings(templates={("*", "*"): TypeDefaults(tags=["a"]), ("fact", "*"): TypeDefaults(tags=["b"])})
    assert settings.template("fact", None).tags == ("a", "b")


PAIRS = [("a b", "a b c", True), ("a b", "x y", False)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"embedder": 5}, ("embedder", "an Embeddings or a function", "got 5")),
        ({"embedder": WordEmbeddings}, ("embedder", "an Embeddings or a function", "WordEmbeddings")),
        ({"embedder": waits}, ("embedder", "an Embeddings or a function", "waits")),
        ({"embedder": lambda texts: [[1.0]]}, ("embedder", "each of 3 texts", "(1, 1)")),
        ({"embedder": lambda texts: [[1.0], [1.0, 2.0], []]}, ("embedder", "equally long lists of numbers")),
        ({"embedder": lambda texts: [[math.nan]] * 3}, ("embedder", "finite")),
        ({"labelled_pairs": None}, ("labelled_pairs", "two texts and a bool", "None")),
        ({"labelled_pairs": [("a", "b")]}, ("labelled_pairs", "two texts and a bool", "('a', 'b')")),
        ({"labelled_pairs": [(1, "b", True)]}, ("labelled_pairs", "two texts and a bool", "(1, 'b', True)")),
        ({"labelled_pairs": [("a", "b", "no")]}, ("labelled_pairs", "two texts and a bool", "('a', 'b', 'no')")),
        ({"labelled_pairs": ["abc"]}, ("labelled_pairs", "two texts and a bool", "'abc'")),
        ({"labelled_pairs": []}, ("pairs of both kinds", "0 of 0")),
        ({"min_precision": "x"}, ("min_precision", FRACTION, "'x'")),
        ({"min_precision": 7}, ("min_precision", FRACTION, "got 7")),
    ],
)
def test_bad_arguments_of_a_calibration_are_refused(change: dict[str, Any], words: tuple[str, ...]) -> None:
    arguments = {"embedder": WordEmbeddings(8), "labelled_pairs": PAIRS, **change}
    refuses(lambda: calibrate(**arguments), ValueError, *words)


def test_labels_of_pairs_may_be_0_and_1() -> None:
    assert calibrate(WordEmbeddings(8), [(one, other, int(label)) for one, other, label in PAIRS]).precision == 1


@pytest.mark.parametrize("answer", [None, "5", -1, 1.5, True, [5]], ids=repr)
def test_a_counter_that_returns_no_number_is_named(make_any_store: Any, invoke: Any, answer: Any) -> None:
    words = ("count_tokens must return a whole number from 0", repr(answer))
    for make in (functools.partial(assemble_context, [], max_tokens=100), RecallMemories, memory_tools):
        refuses(functools.partial(make, count_tokens=lambda text: answer), ConfigurationError, *words)
    # One that goes wrong later is no matter for the model.
    store = make_any_store(index=INDEX)
    store.remember(NS, "Ada likes tea")
    (recall,) = memory_tools(only=["recall"], store=store, count_tokens=lambda text: answer if "tea" in text else 1)
    refuses(lambda: invoke(recall, {"query": "Ada likes tea"}, ADA), ConfigurationError, *words)


@pytest.mark.parametrize(
    "items",
    [None, 5, "x", {"key": "k"}, ["x"], [None], [{}], [{"a": 1}], [{"key": "k", "value": "v", "namespace": ["a"]}]],
    ids=repr,
)
def test_what_is_no_memory_is_refused_by_a_context(items: Any) -> None:
    came = items[0] if isinstance(items, list) else items
    refuses(
        lambda: assemble_context(items, max_tokens=100), ValueError, "items must", "recall, search or get", repr(came)
    )


@pytest.mark.parametrize(
    "change",
    [{"value": "tea"}, {"created_at": "monday"}, {"memory": {"confidence": "much"}}, {"memory": 5}, {"score": "high"},
     {"memory": {"status": "gone"}}, {"colour": "red"}],
)  # fmt: skip
def test_a_dict_that_no_item_gave_is_refused_by_a_context(make_any_store: Any, change: dict[str, Any]) -> None:
    plain = make_any_store().remember(NS, "Ada likes tea").dict() | change
    words = ("items must hold what recall, search or get returned", "Ada")
    refuses(lambda: assemble_context([plain], max_tokens=100), ValueError, *words[: 1 if "value" in change else 2])


@pytest.mark.parametrize("related", [5, "x", {("a", "k"): 5}, {("a", "k"): [5]}, {("a", "k"): [("updates", "x")]}])
def test_links_that_are_none_are_refused_by_a_context(related: Any) -> None:
    words = "related must be a dict of lists of (relation, memory) by (namespace, key)"
    refuses(lambda: assemble_context([], max_tokens=100, related=related), ValueError, words)


def test_a_context_is_made_of_what_a_state_holds(make_any_store: Any) -> None:
    store = make_any_store(index=INDEX)
    store.remember(NS, "Ada is allergic to nuts", memory_type="identity", source="user", confidence=0.4)
    store.remember(NS, "Ada likes tea", valid_from="2020-01-01", tags=["tea"])
    items = store.recall(NS, "Ada likes tea")
    assert len(items) == 2
    make = functools.partial(assemble_context, max_tokens=500, with_keys=True, min_relevance=None)
    told = make(items)
    assert make([item.dict() for item in items]) == told
    state = RecallMemories(store=store, min_relevance=None).invoke({"messages": [("user", "Ada likes tea")]}, ADA)
    assert make(state["recalled_memories"]) == told
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    assert make([store.get(NS, item.key).dict() for item in items]).count('key "') == 2
    assert make(strict.loads_typed(strict.dumps_typed(items))) == told


@pytest.fixture
def ask(make_store: Any, invoke: Any) -> Any:
    """Calls a tool as a model would, checks that it is refused and nothing stored changes, and returns the answer."""

    def call(name: str, args: dict[str, Any], **settings: Any) -> str:
        store = make_store(index=INDEX, **settings)
        (tool,) = memory_tools(only=[name], store=store)
        before = dump(make_store)
        message = invoke(tool, {"name": name, "args": args, "id": "1", "type": "tool_call"}, ADA)
        assert isinstance(message, ToolMessage)
        assert message.status == "error"
        assert dump(make_store) == before
        return message.text

    return call


@pytest.mark.parametrize("made_up", ["preferences", "Preference", "", "SENSITIVE", " fact"])
def test_a_made_up_type_is_answered_with_the_types_of_the_store(ask: Any, made_up: str) -> None:
    args = {"content": "Ada likes tea", "memory_type": made_up}
    answer = ask("remember", args, memory_types={"rumour": MemoryType(ttl=60)})
    assert "memory_type must be one of generic, identity, preference, fact, " in answer
    assert f"rumour, got {made_up!r}. Nothing was kept" in answer
    assert "sensitive" not in answer.replace(made_up, "")


def test_a_type_of_the_stores_own_is_remembered(make_any_store: Any, invoke: Any) -> None:
    store = make_any_store(memory_types={"rumour": MemoryType(ttl=60)})
    (remember,) = memory_tools(only=["remember"], store=store)
    assert "remembered" in invoke(remember, {"content": "Ada likes tea", "memory_type": "rumour"}, ADA)
    assert [item.memory.memory_type for item in store.search(NS)] == ["rumour"]


WHEN = "must be a date such as 2026-05-01, or a time with its offset such as 2026-05-01T10:00:00+02:00"


@pytest.mark.parametrize("when", ["2026-05-01T10:00:00", "2026-05-01 10:00", "May 2026", "last week", "", "2026-13-01"])
@pytest.mark.parametrize(("name", "argument"), [("remember", "valid_from"), ("recall", "as_of")])
def test_a_time_that_could_be_any_is_answered_with_one_that_would_do(
    ask: Any, name: str, argument: str, when: str
) -> None:
    args = {"remember": {"content": "Ada likes tea"}, "recall": {"query": "tea"}}[name]
    answer = ask(name, {**args, argument: when})
    assert f"{argument} {WHEN}, got {when!r}. Nothing has changed" in answer


@pytest.mark.parametrize("when", ["2026-05-01", "2026-05-01T10:00:00+02:00", "2026-05-01T10:00:00Z"])
def test_a_time_as_the_schema_describes_it_is_taken(make_any_store: Any, invoke: Any, when: str) -> None:
    remember, recall = memory_tools(only=["remember", "recall"], store=make_any_store())
    for tool, argument, args in ((remember, "valid_from", {"content": "x"}), (recall, "as_of", {"query": "x"})):
        assert "2026-05-01T10:00:00+02:00" in tool.args_schema.model_fields[argument].description
        assert "must be" not in invoke(tool, {**args, argument: when}, ADA)


def audited(store: Any) -> list[tuple[str, str]]:
    return [(record.action, record.reason) for record in store.audit(NS)]


def test_the_sensitive_type_is_refused_by_a_tool_that_can_not_encrypt(make_any_store: Any, invoke: Any) -> None:
    store = make_any_store(index=INDEX)
    remember, supersede = memory_tools(only=["remember", "supersede"], store=store)
    answer = invoke(remember, {"content": "Ada's locker opens with sixty", "memory_type": "sensitive"}, ADA)
    assert "Not kept" in answer
    assert "encrypted and with the user's consent only" in answer
    assert "tell the user that it was not kept" in answer
    assert store.recall(NS, memory_types=["sensitive"]) == []
    assert audited(store) == [("refuse", "sensitive: sensitive")]
    # What takes the place of a sensitive memory is one, too.
    sealed = Vault(KEY).seal("Ada's locker opens with sixty", "credential")
    key = store.remember(NS, sealed, memory_type="sensitive").key
    assert "Not kept" in invoke(supersede, {"key": key, "content": "Ada's locker opens with seventy"}, ADA)
    assert [item.value for item in store.history(NS, key)] == [sealed]
    assert "seventy" not in str(store.audit(NS))


def test_the_sensitive_type_is_kept_where_screening_is_switched_off(make_any_store: Any, invoke: Any) -> None:
    store: ForgetfulStore = make_any_store()
    (remember,) = memory_tools(only=["remember"], store=store, screener=None)
    assert "remembered" in invoke(remember, {"content": "Ada's locker", "memory_type": "sensitive"}, ADA)
    assert len(store.recall(NS, memory_types=["sensitive"])) == 1


def test_the_reprs_of_nodes_and_settings_say_what_they_are_and_hide_keys() -> None:
    key = Fernet.generate_key()
    settings = PolicySettings(verify=False, consent=True, vault=Vault([key, key.decode()]))
    assert repr(PolicySettings()) == "PolicySettings()"
    assert repr(settings) == "PolicySettings(verify=False, consent=True, vault=Vault(2 keys))"
    store = ForgetfulStore.from_conn_string("redis://keeper:s3cret@db.example")
    policy = MemoryPolicy(extractor=RulesExtractor(), settings=settings, store=store)
    recall = RecallMemories(("notes", "{user_id}"), max_tokens=300, limit=5, store=store)
    middleware = MemoryMiddleware(recall, policy, tools=memory_tools(only=["pin"]))
    assert repr(policy) == (
        "MemoryPolicy(('memories', '{user_id}'), extractor=RulesExtractor, judge=RulesJudge,"
        f" settings={settings!r}, store={store!r})"
    )
    assert repr(recall) == f"RecallMemories(('notes', '{{user_id}}'), max_tokens=300, limit=5, store={store!r})"
    assert repr(middleware) == f"MemoryMiddleware(recall={recall!r}, policy={policy!r}, tools=['pin'])"
    assert not [secret for secret in ("s3cret", key.decode()) if secret in repr(middleware)]
