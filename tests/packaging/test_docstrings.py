"""The public documentation: every argument has a sentence, every twin its method's text, every error its name."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, is_typeddict

import pytest

import langgraph_forgetful_store
from langgraph_forgetful_store import ForgetfulStore, ForgetfulStoreError
from langgraph_forgetful_store.policy import LifecycleStore
from tests.support.pages import ROOT

PACKAGE = langgraph_forgetful_store.__name__
MODULES = ("", ".policy", ".scoring", ".testing")
HEADINGS = ("Args", "Keyword Args", "Attributes", "Returns", "Yields", "Raises")
LEAST_WORDS = 4


def sections(text: str | None) -> dict[str, str]:
    """The sections of a docstring in Google's style, by their headings; ``""`` is what stands before them."""
    parts = re.split(rf"^({'|'.join(HEADINGS)}):$", inspect.cleandoc(text or ""), flags=re.MULTILINE)
    return {"": parts[0], **{name: textwrap.dedent(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}}


def entries(section: str) -> dict[str, str]:
    """What a section says of each name."""
    found: dict[str, str] = {}
    name = ""
    for line in section.strip("\n").splitlines():
        if line and not line[0].isspace() and ":" in line:
            name, _, text = line.partition(":")
            name = name.lstrip("*").partition(" ")[0] if " (" in name else name.lstrip("*")
            found[name] = text.strip()
        elif name:
            found[name] += " " + line.strip()
    return found


def exported() -> Iterator[tuple[str, Any]]:
    for suffix in MODULES:
        module = importlib.import_module(PACKAGE + suffix)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                yield f"{PACKAGE}{suffix}.{name}", thing


def is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith(PACKAGE)


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods of a class that this library defines; tests of a contract are none."""
    for name in dir(kind):
        if name.startswith(("_", "test_")):
            continue
        found = inspect.getattr_static(kind, name)
        found = getattr(found, "__func__", found)
        found = found.fget if isinstance(found, property) else found
        if inspect.isfunction(found) and is_ours(found):
            yield name, found


def fields_of(kind: type) -> list[str]:
    """The fields that a class is made of, where it is one of records."""
    if dataclasses.is_dataclass(kind):
        return [one.name for one in dataclasses.fields(kind) if not one.name.startswith("_")]
    if is_typeddict(kind):
        return list(kind.__annotations__)
    return list(getattr(kind, "_fields", ()))


def arguments(function: Callable[..., Any]) -> list[str]:
    return [
        name
        for name in inspect.signature(function).parameters
        if name not in ("self", "cls") and not name.startswith("_")
    ]


def documented() -> Iterator[tuple[str, Any, list[str], str]]:
    """Each public thing: its name, itself, what must be documented of it, and below which heading."""
    seen: set[int] = set()
    for name, thing in exported():
        if not inspect.isclass(thing):
            yield name, thing, arguments(thing), "Args"
            continue
        if not is_ours(thing):
            continue
        if fields_of(thing):
            yield name, thing, fields_of(thing), "Attributes"
        elif (made := vars(thing).get("__init__")) is not None and is_ours(made):
            yield name, thing, arguments(made), "Args"
        else:
            yield name, thing, [], "Args"
        # `ForgetfulStore` documents what this protocol asks of a store.
        for method, function in () if thing is LifecycleStore else methods(thing):
            if id(function) not in seen:
                seen.add(id(function))
                yield f"{name}.{method}", function, arguments(function), "Args"


DOCUMENTED = list(documented())
STORE = dict(methods(ForgetfulStore))
TWINS = sorted(name for name in STORE if f"a{name}" in STORE)


def test_there_is_much_to_document() -> None:
    assert len(DOCUMENTED) > 150
    assert sum(len(names) for _, _, names, _ in DOCUMENTED) > 300
    assert len(TWINS) > 30


@pytest.mark.parametrize(("name", "thing", "names", "heading"), DOCUMENTED, ids=[one[0] for one in DOCUMENTED])
def test_everything_public_has_a_sentence(name: str, thing: Any, names: list[str], heading: str) -> None:
    told = sections(thing.__doc__)
    assert len(told[""].split()) >= LEAST_WORDS, f"{name} is not described"
    described = entries(told.get(heading, ""))
    assert not [one for one in names if one not in described], f"{name} leaves arguments undocumented"
    short = {one: described[one] for one in names if len(described[one].split()) < LEAST_WORDS}
    assert not short, f"{name} documents arguments in fewer than {LEAST_WORDS} words"
    assert not set(described) - set(names), f"{name} documents what it does not take"


@pytest.mark.parametrize("name", TWINS)
def test_an_async_twin_says_what_its_method_says(name: str) -> None:
    own, twin = sections(STORE[name].__doc__), sections(STORE[f"a{name}"].__doc__)
    assert own[""].split("\n\n")[0] in twin[""]
    assert f"async twin of `{name}`" in twin[""]
    assert {heading: own[heading] for heading in own if heading} == {name: twin[name] for name in twin if name}


def test_the_store_and_its_reference_list_all_methods_by_content() -> None:
    _, *groups = sections(ForgetfulStore.__doc__)[""].split("\n- ")
    listed = re.findall(r"`(\w+)`", " ".join(groups))
    properties = [name for name in STORE if isinstance(inspect.getattr_static(ForgetfulStore, name), property)]
    assert sorted(listed) == sorted(set(STORE) - {f"a{name}" for name in TWINS} - set(properties))
    page = (ROOT / "docs" / "reference" / "store.md").read_text()
    assert re.findall(r"^        - (\w+)$", page, re.MULTILINE) == [*listed, *properties]


OPTIONS = {
    "recall": langgraph_forgetful_store.RecallOptions,
    "remember": langgraph_forgetful_store.WriteOptions,
    "supersede": langgraph_forgetful_store.WriteOptions,
    "from_conn_string": langgraph_forgetful_store.StoreSettings,
    "embedded": langgraph_forgetful_store.StoreSettings,
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_method_tells_the_options_that_it_takes(name: str) -> None:
    described = entries(sections(STORE[name].__doc__)["Keyword Args"])
    assert list(described) == list(OPTIONS[name].__annotations__)
    assert described == entries(sections(OPTIONS[name].__doc__)["Attributes"])


def raised_in(function: Callable[..., Any]) -> set[str]:
    """The errors that a function raises by name in its own body, other than what it passes on."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
    names = [one.func if isinstance(one, ast.Call) else one for one in raised]
    return {one.id for one in names if isinstance(one, ast.Name) and one.id[0].isupper()}


def raises_section(thing: Any) -> str:
    return sections(thing.__doc__).get("Raises", "")


@pytest.mark.parametrize(
    ("name", "thing"), [(name, thing) for name, thing, *_ in DOCUMENTED], ids=[one[0] for one in DOCUMENTED]
)
def test_what_is_raised_is_documented(name: str, thing: Any) -> None:
    checks = "__post_init__" if dataclasses.is_dataclass(thing) else "__init__"
    function = vars(thing).get(checks) if inspect.isclass(thing) else thing
    if inspect.isfunction(function) and is_ours(function):
        missing = {error for error in raised_in(function) if error not in raises_section(thing)}
        assert not missing, f"{name} does not say when it raises {missing}"


NAMESPACE = ("memories", "alice")
# For each method of the store that takes a namespace: what it is given beside it.
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    **dict.fromkeys(
        ("get", "delete", "history", "archive", "restore", "pin", "unpin", "demote", "anchor", "confirm", "deny"),
        (("absent",), {}),
    ),
    **dict.fromkeys(("retire", "undo_supersede", "neighbors", "forget"), (("absent",), {})),
    "put": (("key", {"v": 1}), {}),
    "remember": (("a text",), {}),
    "supersede": (("absent", "a text"), {}),
    "set_ttl": (("absent", 5), {}),
    "search": ((), {}),
    "recall": ((), {}),
    "alias": (("one", "other"), {}),
    "unalias": (("one",), {}),
    "aliases": ((), {}),
    "link": (("absent", "relates", "other"), {}),
    "unlink": (("absent", "relates", "other"), {}),
    "forget_all": ((), {}),
    "erased_before": ((["message"], "a text"), {}),
    "end_run": (("run",), {}),
    "audit": ((), {}),
}


def test_every_method_that_takes_a_namespace_is_tried() -> None:
    taking = {name for name in STORE if not name.startswith("a") or name in ("archive", "anchor", "alias", "audit")}
    taking = {name for name in taking if set(arguments(STORE[name])) & {"namespace", "namespace_prefix"}}
    assert taking == set(CALLS) - {"aliases"}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_method_documents_the_errors_that_it_raises(name: str, make_any_store: Any) -> None:
    store, (given, options) = make_any_store(), CALLS[name]
    for namespace in (NAMESPACE, ("",), (1,)):
        for method, call in ((name, getattr(store, name)), (f"a{name}", getattr(store, f"a{name}"))):
            raised = error_of(lambda call=call, namespace=namespace: call(namespace, *given, **options))
            assert raised in (None, *re.findall(r"\w+Error", raises_section(STORE[method])))


def error_of(call: Callable[[], Any]) -> str | None:
    """The name of the error that a call raises, sync or async."""
    try:
        result = call()
        if inspect.iscoroutine(result):
            asyncio.run(result)
    except (ForgetfulStoreError, ValueError, TypeError) as error:
        return type(error).__name__
    return None


def test_the_store_s_protocol_asks_for_what_the_store_has() -> None:
    asked = {name for name, _ in methods(LifecycleStore)}
    assert len(asked) > 30
    assert not {name for name in asked if not hasattr(ForgetfulStore, name)}


def test_help_on_the_store_names_every_method() -> None:
    text = inspect.cleandoc(ForgetfulStore.__doc__ or "")
    own = {name for name in STORE if not (name[0] == "a" and name[1:] in STORE)}
    unnamed = {name for name in own if not inspect.isdatadescriptor(inspect.getattr_static(ForgetfulStore, name))}
    assert not {name for name in unnamed - {"record"} if f"`{name}`" not in text}


RIDDLES = {
    r"\bslid(?:e|es|ing)\b(?! (?:window|sum))": "refresh a TTL",
    r"\bslides?\b": "refresh a TTL",
    r"\b(?:life|lives) of (?:a|the) memor": "lifecycle",
    r"\ba go\b|\bin one go\b": "one invocation",
    r"\bhears?\b|\bheard\b": "recognise",
    r"\bsome ?body else's doing\b": "plain words",
    r"^(?:Where|Which|It|Any|What|Why|How|Likewise)\.$": "a sentence",
}


@pytest.mark.parametrize(("name", "thing"), [one[:2] for one in DOCUMENTED], ids=[one[0] for one in DOCUMENTED])
def test_public_documentation_keeps_to_the_words_of_the_field(name: str, thing: Any) -> None:
    text = thing.__doc__ or ""
    found = {pattern: better for pattern, better in RIDDLES.items() if re.search(pattern, text)}
    assert not found, f"{name} has words for which the field has others"
