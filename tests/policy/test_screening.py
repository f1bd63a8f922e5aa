"""What must not be remembered unasked, and what is kept encrypted."""

from __future__ import annotations

import re

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy import screening
from langgraph_forgetful_store.policy.config import PolicySettings
from langgraph_forgetful_store.policy.findings import SensitiveSpan, redact
from langgraph_forgetful_store.policy.screening import ScreeningIncomplete, find_sensitive
from langgraph_forgetful_store.policy.vault import Vault
from tests.support.secret_texts import HARMLESS, NAMED

pytestmark = pytest.mark.exhaustive

# Put together here, so that no scanner takes this file for a leak.
TOKEN = "gh" + "p_" + "abcdefghijklmnopqrstuvwxyz0123456789"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"


@pytest.mark.parametrize(
    ("text", "kind", "secret"),
    [
        ("My card is 4111 1111 1111 1111.", "card", "1111"),
        ("my amex: 3782-822463-10005", "card", "822463"),
        ("卡号 ４１１１１１１１１１１１１１１１", "card", "１１１１"),
        ("my SSN is 536-90-4399", "national_id", "4399"),
        ("My Aadhaar is 2341 2341 2346", "national_id", "2346"),
        ("身份证号 11010519491231002X", "national_id", "1231002"),
        ("my password is hunter2", "credential", "hunter2"),
        ("The PIN for my phone is 4711", "credential", "4711"),
        ("my seed phrase is apple pear plum", "credential", "pear"),
        ("密码是abc123", "credential", "abc123"),
        (f"use {TOKEN} for it", "credential", "abcdefghij"),
        (f"key {AWS}", "credential", "IOSFODNN7"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEpQIBAAKCAQEA", "credential", "MIIE"),
        ("I live at 12 Rose Street", "address", "12 Rose"),
        ("I live in Via Roma 12, Milano", "address", "Roma 12"),
        ("I live at Bahnhofstr 12", "address", "str 12"),
        ("My address is Hauptstr. 5, 10115 Berlin", "address", "str. 5"),
        ("My address is 5 rue de Rivoli, Paris", "address", "5 rue"),
        ("My Netflix login is tom / hunter2", "credential", "hunter2"),
        ("My wifi is Sommer2024!", "credential", "Sommer"),
        ("My locker combination is 12-34-56", "credential", "34"),
        ("My pasword is hunter2", "credential", "hunter2"),
        ("我家在中山路12号", "address", "12号"),
        ("I was diagnosed with cancer", "health", "cancer"),
        ("我得了抑郁症", "health", "抑郁症"),
        ("my salary is 5000 a month", "finance", "5000"),
        ("我的工资是五千", "finance", "五千"),
        ("I'm having an affair with Bob", "relationship", "Bob"),
        ("我离婚了", "relationship", "离婚"),
    ],
)
def test_what_is_sensitive_is_found_and_can_be_taken_out(text, kind, secret):
    found = find_sensitive(text)
    assert {one.kind for one in found} == {kind}
    assert secret in text
    assert secret not in redact(text, found)


@pytest.mark.parametrize(
    "text",
    [
        "order number 1234567890123456",
        "invoice 123456782 of May",
        "call me at 555-123-4567",
        "the meeting is on 2026-05-12 at 10:30",
        "I'm allergic to peanuts",
        "I am lactose intolerant and vegan",
        "我对青霉素过敏",
        "The password is wrong",
        "My login is tom",
        "The wifi is down since 2019",
        "I paid Bob and visited 5 places in Rome",
        "I live in Via Verde",
        "see https://example.org/some/very/long/path/with/many/words/in/it",
        "run 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "I live in Paris and like tea",
        "The broadcaster of 666 Park Avenue is ABC",
        "我住在北京",
    ],
)
def test_what_is_harmless_is_left_alone(text):
    assert find_sensitive(text) == []


def test_an_illness_beside_an_allergy_is_still_sensitive():
    assert {one.kind for one in find_sensitive("I'm allergic to nuts. I was diagnosed with cancer.")} == {"health"}


@given(st.text(max_size=300))
def test_screening_bears_any_text(text):
    found = find_sensitive(text)
    assert all(0 <= one.start < one.end <= len(text) for one in found)
    redact(text, found)


def test_redaction_joins_what_overlaps():
    assert redact("abcdefgh", [SensitiveSpan("x", 1, 4), SensitiveSpan("y", 3, 6)]) == "a[x][y]gh"


def test_without_the_extra_it_warns_once_and_says_what_it_cannot_see(monkeypatch):
    monkeypatch.setattr(screening, "has_validators", lambda: False)
    monkeypatch.setattr(screening, "warned", set())
    with pytest.warns(ScreeningIncomplete, match=r"national ids, card numbers and credentials.*\[screening\]"):
        screening.warn_if_incomplete()
    screening.warn_if_incomplete()
    assert find_sensitive("keep 4111 1111 1111 1111") == []
    # What a sentence names needs no validator.
    assert {one.kind for one in find_sensitive("my card is 4111 1111 1111 1111")} == {"card"}
    with pytest.raises(ConfigurationError, match=r"install langgraph-forgetful-store\[screening\]"):
        screening.require_validators()


def test_a_vault_gives_back_what_it_sealed_and_shows_nothing():
    vault = Vault(Fernet.generate_key())
    for content in ("my card is 4111", {"card": "4111", "n": 1}):
        sealed = vault.seal(content, "card")
        assert "4111" not in str(sealed)
        assert sealed["encrypted"] is True
        assert sealed["kind"] == "card"
        assert vault.open(sealed) == content
    assert "4111" not in repr(vault)


def test_a_vault_opens_what_older_keys_sealed_and_nothing_of_others():
    old, new = Fernet.generate_key(), Fernet.generate_key()
    sealed = Vault(old).seal("secret", "card")
    assert Vault([new, old]).open(sealed) == "secret"
    with pytest.raises(ValueError, match="another key"):
        Vault(new).open(sealed)
    with pytest.raises(ValueError, match="not encrypted"):
        Vault(new).open({"content": "secret"})


def test_a_bad_key_is_refused_and_not_repeated():
    with pytest.raises(ConfigurationError, match="must be a Fernet key") as raised:
        Vault("hunter2")
    assert "hunter2" not in str(raised.value)


def test_consent_for_all_needs_a_vault():
    with pytest.raises(ConfigurationError, match="consent needs a vault"):
        PolicySettings(consent=True)


@pytest.mark.parametrize(
    "number",
    [
        "4111  1111  1111  1111",
        "4111/1111/1111/1111",
        "4111 - 1111 - 1111 - 1111",
        "4111\t1111\n1111\t1111",
        "4111\u200b1111\u200b1111\u200b1111",
        "4111_1111,1111:1111",
        "4111*1111*1111*1111",
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "4111111111111111 12 28",
        "1 4111111111111111",
    ],
)
def test_a_card_number_is_found_however_it_is_parted_and_whatever_stands_beside_it(number):
    text = f"keep {number} please"
    found = find_sensitive(text)
    assert {one.kind for one in found} == {"card"}
    assert "1111" not in redact(text, found).replace(" ", "")


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",
        "from 2026-05-12 10:30:15 to 2026-05-13 11:45:00",
        "count 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
    ],
)
def test_other_digits_are_no_card(text):
    assert find_sensitive(text) == []


@pytest.mark.parametrize(
    ("kind", "text", "part"), [(kind, text, part) for kind, table in NAMED.items() for text, part in table.items()]
)
def test_what_a_sentence_names_is_found_with_all_of_it(kind, text, part):
    found = find_sensitive(text)
    assert kind in {one.kind for one in found}
    assert part in text
    assert part not in redact(text, found)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_sounds_like_a_secret_is_left_alone(text):
    assert find_sensitive(text) == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "I live in Rome. My password is hunter2zz, not apple12! I like tea.",
            "I live in Rome. [credential]! I like tea.",
        ),
        ("我住在罗马。我的密码改成了fishy3344。我喜欢茶。", "我住在罗马。[credential]。我喜欢茶。"),
        ("I like tea\nmy pw: zxcvbn55 or apple12\nand Rome", "I like tea\n[credential]\nand Rome"),
        ("My card number is 4111 1111 1111 1111.", "My card number is [card]."),
        ("My card is 4111 1111 1111 1111 until 09/29. I like tea.", "[card]. I like tea."),
        ("my bank acct no. 839201774412. I like tea.", "[finance]. I like tea."),
        ("Here is my password. hunter2zz. I like tea.", "[credential]. I like tea."),
    ],
)
def test_a_sentence_that_holds_a_secret_goes_as_a_whole_and_others_stay(text, left):
    assert redact(text, find_sensitive(text)) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "☕ keep 4\ufe0f\u20e32\ufe0f\u20e34\ufe0f\u20e32\ufe0f\u20e3 4242 4242 424\u200b2\ufe0f\u20e3 ☕",
            "☕ keep [card] ☕",
        ),
        ("cafe\u0301: my\u200bpin is ４７１１! ☕", "[credential]! ☕"),
        ('{"note": "keep 5105\\n1051\\n0510\\n5100\\n", "n": 1}', '{"note": "keep [card]\\n", "n": 1}'),
        ('{"note": "swordfish is my password", "n": 1}', '{"[credential]", "n": 1}'),
        ('{"n": 1, "password": "swordfish", "b": "c"}', "[credential]"),
        ("①②\u00ad③ tea. pass\u2060word: x\u200bkcd9", "①②\u00ad③ tea. [credential]"),
    ],
)
def test_spans_are_those_of_the_text_as_it_was_written(text, left):
    assert redact(text, find_sensitive(text)) == left


@pytest.mark.parametrize("before", [0, 3400, 3495, 3990, 7300])
def test_a_secret_is_found_wherever_in_a_long_text_it_stands(before):
    text = f"{'tea ' * (before // 4)}. My password is now fishy7788. {'tea ' * 1000}"
    assert "fishy" not in redact(text, find_sensitive(text))


@pytest.mark.parametrize(
    "unit",
    [
        *("7", "7 ", "7-", "password ", "password is ", "my pin is ", "'", '"', "“", " ", "\n", "a", "one ", "密码"),
        *("密码是", "a1 ", "\u200b", "key\n", "passport 1", "a@b.", "is ", "my ", "seed phrase abc ", "\\n", '", "'),
    ],
)
@pytest.mark.parametrize("start", ["", '{"my password or passport": "'])
def test_screening_bears_a_long_text_of_whatever_is_repeated(start, unit):
    # Were a pattern to try all the ways to part it, this would take minutes.
    text = start + unit * (100_000 // len(unit))
    assert all(0 <= one.start < one.end <= len(text) for one in find_sensitive(text))


def test_a_sentence_without_end_is_taken_out_to_its_last_secret():
    text = "password is apple12 " * 5000
    assert not re.search("[0-9]", redact(text, find_sensitive(text)))
