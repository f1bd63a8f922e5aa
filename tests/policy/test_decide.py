"""From a candidate and what is known to a decision: no store, no model."""

from __future__ import annotations

import json

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.policy import PolicySettings, Relation, TypeDefaults, Vault, Verdict
from langgraph_forgetful_store.policy.calibration import Calibration
from langgraph_forgetful_store.policy.candidates import Candidate
from langgraph_forgetful_store.policy.decide import Found, Known, settle
from langgraph_forgetful_store.policy.draft import Draft
from langgraph_forgetful_store.policy.judges import compare
from langgraph_forgetful_store.policy.stages import prepare, run_stage
from tests.support.policy_graphs import shows_card

HOME = ("user", "home_city")
PARIS = Known("k1", "I live in Paris", version=3, memory_type="identity", confidence=0.95, source="user", slot=HOME)


def decide(raw, found=None, settings=None, judge=None):
    """Decide as the node does; where there is no judge, the rules judge what is similar."""
    settings, found = settings or PolicySettings(), found or Found()
    draft = prepare(Draft(Candidate.parse(raw)), settings)
    draft.novelty = 1 - found.nearest
    run_stage("admit", draft, settings)
    verdicts = {one.key: judge or compare(draft.candidate.text, one.text) for one in found.similar}
    return settle(draft, Found(found.head, found.similar, verdicts), settings, "id")


def user(text, **more):
    return {"content": text, "source": "user", **more}


def test_a_decision_has_its_fields_and_is_plain_json():
    made = decide(user("I live in Rome"), Found(PARIS))
    assert json.loads(json.dumps(made)) == made
    assert set(made) == {"id", "candidate", "relation", "action", "key", "supersedes", "reason", "scores", "answers"}
    assert set(made["answers"]) == {"useful_later", "duplicate", "correction", "short_task", "expiry", "profile"}
    assert made["answers"] | {"expiry": None} == {
        "useful_later": True,
        "duplicate": False,
        "correction": True,
        "short_task": False,
        "expiry": None,
        "profile": True,
    }


@pytest.mark.parametrize(
    ("text", "action", "relation"),
    [
        ("I live in Rome", "supersede", "UPDATE"),
        ("我搬到上海了", "supersede", "UPDATE"),
        ("Actually, I live in Rome", "supersede", "CONTRADICT"),
        ("I no longer live in Paris", "retire", "NEGATE"),
        ("I no longer live in Rome", "refuse", "NEGATE"),
        ("I live in Paris.", "merge", "DUPLICATE"),
    ],
)
def test_a_slot_decides_by_itself(text, action, relation):
    made = decide(user(text), Found(PARIS))
    assert (made["action"], made["relation"]) == (action, relation)
    if action == "supersede":
        assert (made["key"], made["supersedes"], made["candidate"]["expected_version"]) == ("id", "k1", 3)
    if action in ("retire", "merge"):
        assert made["key"] == "k1"


def test_nothing_similar_is_added():
    made = decide(user("I like tea"))
    assert (made["action"], made["relation"], made["key"]) == ("remember", "ADD", "id")
    assert made["candidate"]["memory_type"] == "preference"


TEA = Known("k2", "I like tea", memory_type="preference", confidence=0.95, source="user", similarity=0.93)


@pytest.mark.parametrize(
    ("relation", "action"),
    [
        (Relation.ADD, "remember"),
        (Relation.UPDATE, "supersede"),
        (Relation.CONTRADICT, "supersede"),
        (Relation.NEGATE, "retire"),
        (Relation.SUPPLEMENT, "remember"),
        (Relation.DUPLICATE, "merge"),
    ],
)
def test_without_a_slot_the_judge_decides(relation, action):
    made = decide({"content": "the user likes tea a lot"}, Found(similar=(TEA,)), judge=Verdict(relation, "so it is"))
    assert made["action"] == action
    assert made["relation"] == str(relation)


@pytest.mark.parametrize(
    ("verdict", "similarity", "flagged"),
    [
        (Verdict(None), 0.84, False),
        (Verdict(None), 0.85, True),
        (Verdict(None, "the judge failed", doubt=True), 0.2, True),
    ],
)
def test_in_doubt_both_stay_and_the_new_one_is_flagged(verdict, similarity, flagged):
    near = Known("k2", "something alike", similarity=similarity)
    made = decide({"content": "something else", "memory_type": "fact"}, Found(similar=(near,)), judge=verdict)
    assert made["action"] == "remember"
    assert made["reason"].startswith("conflict") == flagged
    assert ("conflict" in made["candidate"].get("tags", ())) == flagged


def test_a_calibrated_threshold_takes_the_place_of_the_literal_one():
    near = Known("k2", "something alike", similarity=0.6)
    settings = PolicySettings(calibration=Calibration(0.55))
    made = decide({"content": "something else", "memory_type": "fact"}, Found(similar=(near,)), settings, Verdict(None))
    assert made["reason"].startswith("conflict")


def test_similarity_alone_replaces_nothing():
    near = Known("k2", "The office is on the third floor", similarity=0.99)
    made = decide({"content": "The canteen is on the third floor", "memory_type": "fact"}, Found(similar=(near,)))
    assert (made["action"], made["supersedes"]) == ("remember", None)


@pytest.mark.parametrize(("confidence", "kept_as"), [(0.499, "hypothesis"), (0.5, "fact")])
def test_low_confidence_makes_a_hypothesis(confidence, kept_as):
    made = decide({"content": "The shop is open", "memory_type": "fact", "confidence": confidence})
    assert made["action"] == "remember"
    assert made["candidate"]["memory_type"] == kept_as


def test_low_confidence_is_refused_where_the_rules_say_so():
    refused = decide(
        {"content": "The shop is open", "confidence": 0.499}, settings=PolicySettings(low_confidence="refuse")
    )
    kept = decide({"content": "The shop is open", "confidence": 0.5}, settings=PolicySettings(low_confidence="refuse"))
    assert (refused["action"], kept["action"]) == ("refuse", "remember")
    assert refused["reason"].startswith("low_confidence")


ALLERGY = ["I may be allergic to penicillin", "我可能对青霉素过敏"]


@pytest.mark.parametrize("text", [*ALLERGY, "I think I might like jazz.", "我可能喜欢爵士乐"])
def test_a_hedge_is_kept_word_for_word_and_caps_the_confidence(text):
    made = decide(user(text))
    assert made["action"] == "remember"
    assert made["candidate"]["content"] == text
    assert made["candidate"]["confidence"] == 0.4


@pytest.mark.parametrize("text", ["I think I might like jazz.", "我可能喜欢爵士乐", "I may live in Rome"])
def test_a_hedge_makes_a_hypothesis(text):
    made = decide(user(text))
    assert made["candidate"]["memory_type"] == "hypothesis"
    assert made["answers"]["expiry"] < 7 * 1440
    assert made["reason"].endswith("kept as a guess")


@pytest.mark.parametrize("settings", [PolicySettings(), PolicySettings(low_confidence="refuse")])
@pytest.mark.parametrize("text", ALLERGY)
def test_an_allergy_that_is_in_doubt_is_not_gone_in_a_week(text, settings):
    made = decide(user(text), settings=settings)
    assert (made["candidate"]["memory_type"], made["answers"]["expiry"]) == ("identity", None)
    assert made["candidate"]["importance"] >= 0.8
    assert made["reason"].endswith("to be confirmed")


MAYBE = Known("k4", "I may be allergic to penicillin", memory_type="identity", confidence=0.4, similarity=0.9)
SURELY = Known("k5", "I'm allergic to penicillin", memory_type="identity", confidence=0.95, similarity=0.9)


@pytest.mark.parametrize(
    ("text", "known", "action", "relation"),
    [
        ("I'm allergic to penicillin", MAYBE, "supersede", "UPDATE"),
        ("I am allergic to penicillin", SURELY, "merge", "DUPLICATE"),
        ("I may be allergic to penicillin", SURELY, "refuse", "DUPLICATE"),
        ("I think I'm no longer allergic to penicillin", SURELY, "remember", "NEGATE"),
        ("I'm no longer allergic to penicillin", SURELY, "retire", "NEGATE"),
        ("I think I'm no longer allergic to penicillin", MAYBE, "retire", "NEGATE"),
    ],
)
def test_a_guess_neither_confirms_nor_denies_what_is_sure(text, known, action, relation):
    made = decide(user(text), Found(similar=(known,)))
    assert (made["action"], made["relation"]) == (action, relation)
    assert ("conflict" in made["candidate"].get("tags", ())) == (action == "remember")


def test_a_guess_replaces_nothing():
    made = decide(user("I might move: I live in Rome maybe"), Found(PARIS))
    assert (made["action"], made["supersedes"]) == ("remember", None)
    assert made["candidate"]["tags"] == ["conflict"]
    assert "subject" not in made["candidate"]


def test_what_is_sure_takes_the_place_of_a_guess():
    guess = Known("k3", "I may live in Rome", memory_type="hypothesis", confidence=0.4, slot=HOME)
    assert decide(user("I live in Rome"), Found(guess))["action"] == "supersede"


@pytest.mark.parametrize(
    ("resolution", "source", "confidence", "action"),
    [
        ("recency", "model", 0.6, "supersede"),
        ("source", "model", 0.99, "refuse"),
        ("source", "tool", 0.99, "refuse"),
        ("source", "user", 0.6, "supersede"),
        ("confidence", "user", 0.94, "refuse"),
        ("confidence", "model", 0.95, "supersede"),
    ],
)
def test_a_conflict_is_resolved_as_the_rules_say(resolution, source, confidence, action):
    raw = {
        "content": "User lives in Rome",
        "source": source,
        "confidence": confidence,
        "subject": HOME[0],
        "attribute": HOME[1],
    }
    made = decide(raw, Found(PARIS), PolicySettings(resolution=resolution))
    assert made["action"] == action
    assert made["reason"].startswith("old_wins") == (action == "refuse")


def test_what_adds_to_a_memory_can_enrich_it():
    raw, found = {"content": "Green tea above all", "memory_type": "preference"}, Found(similar=(TEA,))
    made = decide(raw, found, PolicySettings(supplement="enrich"), Verdict(Relation.SUPPLEMENT))
    assert (made["action"], made["supersedes"]) == ("supersede", "k2")
    assert made["candidate"]["content"] == "I like tea. Green tea above all"


def test_what_no_message_holds_is_refused():
    made = decide(user("I live in Berlin", source_messages=["I live in Paris"]))
    assert made["action"] == "refuse"
    assert made["reason"].startswith("unsupported")
    assert (
        decide(user("I live in Berlin", source_messages=["I live in Paris"]), settings=PolicySettings(verify=False))[
            "action"
        ]
        == "remember"
    )


@pytest.mark.parametrize(
    ("raw", "action", "code"),
    [
        ("continue", "refuse", "not_useful"),
        ("this is fine", "refuse", "not_useful"),
        (user("继续"), "refuse", "not_useful"),
        ("User: hello\nAssistant: hi, how can I help?", "refuse", "not_admitted"),
        ({"content": "I feel tired", "source": "model"}, "refuse", "not_admitted"),
        ({"content": "I feel tired", "source": "user"}, "remember", "new"),
        ({"content": "I feel tired", "source": "model", "explicit": True}, "remember", "new"),
        ({"content": "I feel tired", "source": "model", "run_id": "r1"}, "remember", "new"),
        ({"content": "Summary: all went well"}, "remember", "new"),
    ],
)
def test_what_is_not_worth_its_place_is_refused(raw, action, code):
    made = decide(raw)
    assert (made["action"], made["reason"].partition(":")[0]) == (action, code)
    if code == "not_admitted":
        assert set(made["scores"]["admission"]["factors"]) == {"utility", "confidence", "novelty", "recency", "prior"}


def test_a_summary_is_no_fact_and_something_temporary_is_not_kept_long():
    assert decide({"content": "Summary: all went well"})["candidate"]["memory_type"] == "summary"
    week = decide(user("I'm preparing the app review this week"))
    assert week["answers"]["short_task"]
    assert week["answers"]["expiry"] == 7 * 1440


CARD = "my card is 4111 1111 1111 1111"


def test_a_card_number_is_refused_and_shown_nowhere():
    made = decide(user(CARD, explicit=True))
    assert made["action"] == "refuse"
    assert made["reason"] == "sensitive: card"
    assert not shows_card(json.dumps(made))


def test_nobody_said_whether_it_may_be_kept_so_it_asks():
    assert decide(user(CARD), settings=PolicySettings(consent=None))["action"] == "ask"
    assert decide(user(CARD, consent=False), settings=PolicySettings(consent=None))["action"] == "refuse"


def test_with_consent_it_is_encrypted_and_short_lived():
    vault = Vault(Fernet.generate_key())
    settings = PolicySettings(consent=None, vault=vault)
    made = decide(user(CARD, consent=True, ttl=99999), settings=settings)
    assert made["action"] == "remember"
    written = made["candidate"]
    assert not shows_card(json.dumps(made))
    assert vault.open(written["content"]) == CARD
    assert (written["memory_type"], written["index"], written["expires_in"]) == ("sensitive", False, 1440)
    assert "ttl" not in written
    again = decide({**written, "namespace": ["m"]}, settings=settings)
    assert again["candidate"]["content"] == written["content"]


def test_consent_without_a_vault_keeps_nothing():
    made = decide(user(CARD, consent=True))
    assert made["action"] == "refuse"
    assert "no vault" in made["reason"]


def test_what_an_extractor_labels_is_held_back_but_an_allergy_is_kept():
    assert decide(user("I take metformin", sensitive="health"))["reason"] == "sensitive: health"
    kept = decide(user("I'm allergic to peanuts", sensitive="health"))
    assert (kept["action"], kept["candidate"]["memory_type"]) == ("remember", "identity")


def test_a_secret_in_a_tag_is_found_too():
    made = decide({"content": "a note", "memory_type": "fact", "tags": ["4111111111111111"]})
    assert made["action"] == "refuse"
    assert "4111111111111111" not in json.dumps(made)


@pytest.mark.parametrize(
    ("text", "memory_type"),
    [("I live in Rome", "identity"), ("I like tea", "preference"), ("remember: the sky is blue", "fact")],
)
def test_a_stage_that_is_off_does_nothing(text, memory_type):
    off = PolicySettings(
        classify=False, importance=False, confidence=False, expiration=False, admit=False, screen=False
    )
    made = decide(user(text), settings=off)
    assert made["candidate"]["memory_type"] == "generic"
    assert "importance" not in made["candidate"]
    assert decide(user(text))["candidate"]["memory_type"] == memory_type


def test_conflicts_and_duplicates_can_be_off():
    apart = decide(user("I live in Rome"), Found(PARIS), PolicySettings(conflicts=False))
    assert (apart["action"], apart["candidate"]["tags"]) == ("remember", ["conflict"])
    twice = decide(user("I like tea"), Found(similar=(TEA,)), PolicySettings(duplicates=False))
    assert twice["action"] == "remember"


def test_a_stage_can_be_replaced():
    def always_a_tool(draft, settings):
        draft.memory_type = "tool"

    assert (
        decide("anything", settings=PolicySettings(replaced={"classify": always_a_tool}))["candidate"]["memory_type"]
        == "tool"
    )
    with pytest.raises(ConfigurationError, match="unknown stages 'clasify'; known are verify"):
        PolicySettings(replaced={"clasify": always_a_tool})


def test_templates_are_layered_by_type_and_domain():
    settings = PolicySettings(
        templates={
            ("*", "*"): TypeDefaults(tags=("all",), importance=0.1),
            ("preference", "*"): TypeDefaults(importance=0.2, ttl=60),
            ("*", "travel"): TypeDefaults(importance=0.3, tags=("trip",)),
            ("preference", "travel"): TypeDefaults(importance=0.4),
            ("opinion", "*"): TypeDefaults(admit=False),
        }
    )
    plain = decide(user("I like tea"), settings=settings)["candidate"]
    travel = decide(user("I like window seats", domain="travel"), settings=settings)["candidate"]
    own = decide(user("I like tea", importance=0.9), settings=settings)["candidate"]
    assert (plain["importance"], plain["ttl"], plain["tags"]) == (0.2, 60, ["all"])
    assert (travel["importance"], travel["tags"]) == (0.4, ["all", "trip"])
    assert own["importance"] == 0.9
    assert decide(user("This shop is overrated"), settings=settings)["reason"].startswith("not_admitted")


@given(st.text(min_size=1, max_size=80).filter(str.strip), st.sampled_from([None, "user", "tool", "model"]))
def test_any_text_gets_a_decision_that_is_plain_json(text, source):
    for found in (Found(), Found(PARIS), Found(similar=(TEA,))):
        made = decide({"content": text, "source": source}, found)
        assert json.loads(json.dumps(made)) == made
        assert made["action"] in {"remember", "supersede", "merge", "retire", "refuse"}


PARTS = ["a", "1", "1 ", "I ", "The of ", "I moved from a ", "我住在北京", "ok ", "user: a\n", "12 A "]


@pytest.mark.parametrize("part", PARTS)
def test_a_page_of_nonsense_gets_a_decision(part):
    text = (part * 100_000)[:100_000]
    near = Known("k2", f"{text} b", similarity=0.99)
    made = decide({"content": text, "source_messages": [text]}, Found(similar=(near,)))
    assert made["action"] in {"remember", "refuse"}
