"""DeepL's routes: what its clients send and read, and what is refused."""

from typing import Any

import pytest

from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.keys import Keys
from tests.services.endpoint.conftest import Stage

KEY = "0" * 8


def translate(stage: Stage, **values: Any) -> Any:
    return stage.client.post("/v2/translate", json={"text": ["a dog"], "target_lang": "DE", **values})


def test_a_list_of_texts_is_translated_in_order(stage: Stage) -> None:
    answer = translate(stage, text=["a dog", "b"], source_lang="EN", show_billed_characters=True)
    assert answer.json() == {
        "translations": [
            {"detected_source_language": "EN", "text": "A DOG", "billed_characters": 5},
            {"detected_source_language": "EN", "text": "B", "billed_characters": 1},
        ]
    }
    assert answer.headers["X-Model-Name"] == "demo"


def test_a_form_may_repeat_the_text(stage: Stage) -> None:
    answer = stage.client.post(
        "/v2/translate", data={"text": ["a", "b"], "target_lang": "de-DE", "source_lang": "EN-us"}
    )
    assert [one["text"] for one in answer.json()["translations"]] == ["A", "B"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, ["a dog.", "a man.", "Go.", "go."]),
        ({"split_sentences": "1"}, ["a dog.", "a man.", "Go.", "go."]),
        ({"split_sentences": "nonewlines"}, ["a dog a man.", "Go.", "go."]),
        ({"split_sentences": 0}, ["a dog a man. Go."]),
    ],
)
def test_sentences_are_split_as_deepl_documents_it(stage: Stage, given: dict[str, Any], wanted: list[str]) -> None:
    translate(stage, text=["a dog\na man. Go."], source_lang="EN", **given)
    assert list(dict.fromkeys(stage.translator.lines)) == wanted  # a short text is asked in two forms


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"target_lang": "XX"}, "Value for 'target_lang' not supported."),
        ({"source_lang": "XX"}, "Value for 'source_lang' not supported."),
        ({"target_lang": None}, "Parameter 'target_lang' not specified."),
        ({"text": None}, "Parameter 'text' not specified."),
        ({"formality": "More"}, "Target language 'DE' doesn't support formality."),
        ({"formality": "rude"}, "Value for 'formality' not supported."),
        ({"split_sentences": "2"}, "Value for 'split_sentences' not supported."),
        ({"tag_handling": "sgml"}, "Value for 'tag_handling' not supported."),
        ({"style_id": "x"}, "Value for 'style_id' not supported: this server has no style rules."),
        ({"glossary_id": "x"}, "Value for 'glossary_id' not supported: this server has no stored glossaries."),
        ({"text": ["a"] * 5}, "Invalid request: 5 texts are too many; at most 4 are allowed"),
    ],
)
def test_what_cannot_be_done_is_refused(stage: Stage, values: dict[str, Any], message: str) -> None:
    answer = translate(stage, **values)
    assert (answer.status_code, answer.json()) == (400, {"message": message})


def test_parameters_without_an_effect_are_named(stage: Stage) -> None:
    answer = translate(stage, context="At the vet's", formality="prefer_more", model_type="prefer_quality_optimized")
    assert answer.headers["X-Ignored-Parameters"] == "context, formality, model_type"
    assert answer.json()["translations"][0]["model_type_used"] == "quality_optimized"
    assert "X-Ignored-Parameters" not in translate(stage).headers


def test_version_one_takes_what_is_nearly_xml(stage: Stage) -> None:
    text = "<b>a dog<br> runs</b>"
    found = translate(stage, text=[text], tag_handling="xml")
    assert found.json()["translations"][0]["text"] == "<b>A DOG<br> RUNS</b>"
    strict = translate(stage, text=[text], tag_handling="xml", tag_handling_version="v2")
    assert strict.status_code == 400
    assert "mismatched tag" in strict.json()["message"]


def test_sizes_have_their_own_codes(stage: Stage) -> None:
    assert translate(stage, text=["a" * 201]).status_code == 413
    long = stage.client.post("/v2/translate", json={"text": ["a" * 2000], "target_lang": "DE"})
    assert (long.status_code, list(long.json())) == (413, ["message"])


def test_a_key_is_taken_from_the_header_or_the_form(stage: Stage) -> None:
    stage.endpoint.keys = Keys([KEY])
    assert translate(stage).status_code == 403
    form = {"text": "a", "target_lang": "DE"}
    for headers, extra, code in (
        ({"Authorization": f"DeepL-Auth-Key {KEY}"}, {}, 200),
        ({"Authorization": "DeepL-Auth-Key wrong"}, {}, 403),
        ({}, {"auth_key": KEY}, 200),
    ):
        answer = stage.client.post("/v2/translate", data={**form, **extra}, headers=headers)
        assert answer.status_code == code
    assert list(answer.json()) == ["translations"]


def test_a_key_whose_characters_are_used_up_is_a_456(stage: Stage, store: KeyStore) -> None:
    secret = store.add("small", characters=6)
    stage.read_keys(store)
    headers = {"Authorization": f"DeepL-Auth-Key {secret}"}
    form = {"text": "a dog", "target_lang": "DE"}
    assert stage.client.post("/v2/translate", data=form, headers=headers).status_code == 200
    usage = stage.client.request("GET", "/v2/usage", headers=headers).json()
    assert usage == {"character_count": 5, "character_limit": 6}
    answer = stage.client.post("/v2/translate", data=form, headers=headers)
    assert (answer.status_code, list(answer.json())) == (456, ["message"])
    libre = {"q": "a dog", "source": "en", "target": "de", "api_key": secret}
    assert stage.client.post("/translate", json=libre).status_code == 429


def test_usage_counts_characters(stage: Stage) -> None:
    before = stage.client.get("/v2/usage").json()["character_count"]
    translate(stage, text=["12345"])
    assert stage.client.get("/v2/usage").json() == {"character_count": before + 5, "character_limit": 10**12}


def test_languages_have_the_names_that_its_clients_know(stage: Stage) -> None:
    get = stage.client.get
    assert get("/v2/languages").json() == [{"language": "EN", "name": "English"}]
    assert get("/v2/languages?type=target").json() == [
        {"language": "DE", "name": "German", "supports_formality": False}
    ]
    assert get("/v2/languages?type=both").status_code == 400
    object.__setattr__(stage.current[0], "target", "pt")
    assert [one["language"] for one in get("/v2/languages?type=target").json()] == ["PT", "PT-BR", "PT-PT"]
    for target in ("PT-PT", "PT-BR", "por", "pt_BR"):
        answer = stage.client.post("/v2/translate", json={"text": ["a"], "target_lang": target})
        assert answer.status_code == 200, (target, answer.text)
