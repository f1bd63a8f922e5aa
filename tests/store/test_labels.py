"""Labels made from any text, and namespaces filled with them."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.model.labels import check_template, fill_namespace, namespace_label, namespace_unlabel

# Texts made of what is encoded, and of what encodings are made of, collide first.
TRICKY = st.text(alphabet="%.25E0A6C*langrph\0é用", max_size=12) | st.sampled_from(
    ["", "langgraph", "%6Canggraph", "*", "%2A", "%", "%25", "%2E", "%00", "%2e", "%%", "%2", "Langgraph", "**"]
)
NAMES = st.text(st.characters(), max_size=40) | TRICKY


@given(NAMES)
@example("langgraph")
@example("")
@example("%6Canggraph")
@example("\ud800")
def test_a_label_gives_its_name_back(name):
    assert namespace_unlabel(namespace_label(name)) == name


@given(NAMES, NAMES)
@example("", "%")
@example("langgraph", "%6Canggraph")
@example("*", "%2A")
@example("a.b", "a%2Eb")
def test_different_names_give_different_labels(one, other):
    assert (namespace_label(one) == namespace_label(other)) == (one == other)


@given(NAMES)
def test_a_label_holds_nothing_that_a_label_may_not_hold(name):
    label = namespace_label(name)
    assert label
    assert not {".", "\0"} & set(label)
    assert label not in {"langgraph", "*"}


@given(
    st.text(st.characters(exclude_characters="%.\0"), min_size=1).filter(lambda name: name not in ("langgraph", "*"))
)
@example("Zoë 用户 🙂")
@example("ada@example")
def test_most_names_stay_as_they_are(name):
    assert namespace_label(name) == name


def test_labels_are_stable():
    assert namespace_label("a.b@example.org") == "a%2Eb@example%2Eorg"
    assert namespace_label("50%") == "50%25"
    assert namespace_label("langgraph") == "%6Canggraph"


@pytest.mark.parametrize("label", ["a.b", "", "langgraph", "*", "100%", "%2e", "a\0b", "%2Aa"])
def test_what_no_name_gives_is_refused(label):
    with pytest.raises(ValueError, match="no label"):
        namespace_unlabel(label)


@pytest.mark.parametrize("given", [None, 7, b"a"])
def test_what_is_no_text_is_refused(given):
    with pytest.raises(TypeError, match="name must be a str"):
        namespace_label(given)
    with pytest.raises(TypeError, match="label must be a str"):
        namespace_unlabel(given)


@given(st.lists(NAMES, min_size=2, max_size=2), st.lists(NAMES, min_size=2, max_size=2))
@example(["a", "b.c"], ["a.b", "c"])
@example(["", "x"], ["x", ""])
def test_no_value_reaches_the_namespace_of_another(ours, theirs):
    template = ("memories", "{tenant}", "u-{user}")
    one, other = (fill_namespace(template, dict(zip(("tenant", "user"), pair, strict=True))) for pair in (ours, theirs))
    assert (one == other) == (ours == theirs)


@dataclass
class Context:
    user_id: str | None = None


def test_the_first_source_that_has_a_value_counts():
    template = ("memories", "{user_id}")
    assert fill_namespace(template, Context("ada"), {"user_id": "eve"}) == ("memories", "ada")
    assert fill_namespace(template, Context(), {"user_id": "eve"}) == ("memories", "eve")
    assert fill_namespace(template, None, SimpleNamespace(user_id=7)) == ("memories", "7")
    assert fill_namespace(("plain",)) == ("plain",)


def test_a_missing_value_is_named():
    with pytest.raises(ConfigurationError, match="'user_id'"):
        fill_namespace(("memories", "{user_id}"), {"thread_id": "1"}, None)


@pytest.mark.parametrize("value", [True, 1.5, ["a"], {"a": 1}, b"a"])
def test_a_value_that_is_no_name_is_refused(value):
    with pytest.raises(ConfigurationError, match="user_id of the namespace must be"):
        fill_namespace(("{user_id}",), {"user_id": value})


@pytest.mark.parametrize(
    "template",
    [
        "memories",
        (),
        ("a", ""),
        ("a", 7),
        None,
        ("{",),
        ("}",),
        ("{}",),
        ("{0}",),
        ("{a.b}",),
        ("{a[0]}",),
        ("{a!r}",),
        ("{a:>9}",),
    ],
)
def test_a_template_that_is_none_is_refused_at_once(template):
    with pytest.raises(ConfigurationError, match="namespace"):
        check_template(template)
