"""Google's routes of both versions."""

from typing import Any

import pytest

from dragoman.services.endpoint.keys import Keys
from tests.services.endpoint.conftest import Stage

V2 = "/language/translate/v2"
V3 = "/v3/projects/any/locations/global"


@pytest.mark.parametrize("place", ["query", "form", "override", "json"])
def test_parameters_are_taken_from_every_place(stage: Stage, place: str) -> None:
    post = stage.client.post
    asked: dict[str, Any] = {"q": ["a dog", "the man"], "target": "de", "format": "text"}
    match place:
        case "query":
            answer = stage.client.get(f"{V2}?q=a+dog&q=the+man&target=de&format=text")
        case "form":
            answer = post(V2, data=asked)
        case "override":
            answer = post(V2, data=asked, headers={"X-HTTP-Method-Override": "GET"})
        case _:
            answer = post(V2, json=asked)
    texts = [{"translatedText": text, "detectedSourceLanguage": "en"} for text in ("A DOG", "THE MAN")]
    assert answer.json() == {"data": {"translations": texts}}


def test_a_given_source_and_model_are_not_detected(stage: Stage) -> None:
    answer = stage.client.post(V2, json={"q": "a", "target": "de", "source": "en", "model": "nmt", "format": "text"})
    assert answer.json()["data"]["translations"] == [{"translatedText": "A", "model": "nmt"}]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{V2}?target=de", "Missing required parameter: q"),
        (f"{V2}?q=a", "Missing required parameter: target"),
        (f"{V2}?q=a&target=fr", "Invalid value for target: fr is not supported"),
        (f"{V2}?q=a&target=de&format=pdf", "Invalid value for format: html or text is expected"),
    ],
)
def test_errors_are_objects(stage: Stage, path: str, message: str) -> None:
    answer = stage.client.get(path)
    errors = [{"message": message, "domain": "global", "reason": "invalid"}]
    error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT", "errors": errors}
    assert (answer.status_code, answer.json()) == (400, {"error": error})


def test_the_key_stands_in_the_query_string_or_a_header(stage: Stage) -> None:
    stage.endpoint.keys = Keys(["secret"])
    path = f"{V2}?q=a&target=de&format=text"
    assert stage.client.get(path).json()["error"]["status"] == "PERMISSION_DENIED"
    assert stage.client.get(f"{path}&key=secret").status_code == 200
    assert stage.client.request("GET", path, headers={"X-Goog-Api-Key": "secret"}).status_code == 200


def test_languages_are_named_where_a_language_for_it_is_given(stage: Stage) -> None:
    assert stage.client.get(f"{V2}/languages").json() == {
        "data": {"languages": [{"language": "de"}, {"language": "en"}]}
    }
    named = stage.client.get(f"{V2}/languages?target=de").json()["data"]["languages"]
    assert [one["name"] for one in named] == ["Deutsch", "Englisch"]


def test_detections_are_lists_of_lists(stage: Stage) -> None:
    found = stage.client.post(f"{V2}/detect", json={"q": ["The dog sees the man."]}).json()["data"]["detections"]
    assert [[one["language"] for one in text] for text in found] == [["en"]]


def test_version_three_translates_and_lists(stage: Stage) -> None:
    asked = {"contents": ["a dog"], "targetLanguageCode": "de", "mimeType": "text/plain"}
    for place in (V3, "/v3/projects/any"):
        answer = stage.client.post(f"{place}:translateText", json=asked)
        assert answer.json() == {"translations": [{"translatedText": "A DOG", "detectedLanguageCode": "en"}]}
    assert stage.client.get(f"{V3}/supportedLanguages?displayLanguageCode=fr").json()["languages"] == [
        {"languageCode": "de", "displayName": "allemand", "supportSource": False, "supportTarget": True},
        {"languageCode": "en", "displayName": "anglais", "supportSource": True, "supportTarget": False},
    ]
    found = stage.client.post(f"{V3}:detectLanguage", json={"content": "The dog sees the man."}).json()
    assert found["languages"][0]["languageCode"] == "en"
    refused = stage.client.post(f"{V3}:translateText", json={**asked, "transliterationConfig": {"x": True}})
    assert refused.json()["error"]["message"] == "Transliteration is not supported"


def test_an_unknown_method_is_an_error_of_googles_form(stage: Stage) -> None:
    answer = stage.client.post(f"{V3}:nothing", json={})
    assert (answer.status_code, answer.json()["error"]["status"]) == (404, "NOT_FOUND")
