"""What may be asked of /translate, in which forms, and what is said of mistakes."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.services.endpoint.keys import Keys
from dragoman.services.endpoint.requests import TranslationRequest, validate
from tests.services.endpoint.conftest import Stage


def test_form_and_query_string_and_multipart_are_read_like_json(stage: Stage) -> None:
    values = {"q": "grün & blau", "source": "en", "target": "de", "api_key": ""}
    for answer in (
        stage.client.post("/translate", data=values),
        stage.client.post("/translate", params=values),
        stage.client.post("/translate", files={key: (None, value) for key, value in values.items()}),
    ):
        assert (answer.status_code, answer.json()["translatedText"]) == (200, "GRÜN & BLAU")
    several = stage.client.post("/translate", data={**values, "q": ["a", "b"]})
    assert several.json() == {"translatedText": ["A", "B"]}


@pytest.mark.parametrize(
    ("values", "status", "message"),
    [
        ({"source": "en", "target": "de"}, 400, "Invalid request: missing q parameter"),
        ({"q": "x", "target": "de"}, 400, "Invalid request: missing source parameter"),
        ({"q": "x", "source": "en"}, 400, "Invalid request: missing target parameter"),
        ({"q": "x", "source": "fr", "target": "de"}, 400, "fr is not supported"),
        ({"q": "x", "source": "en", "target": "en"}, 400, "en is not supported"),
        (
            {"q": "x", "source": "en", "target": "de", "format": "rtf"},
            400,
            "format must be text, html, xml or markdown",
        ),
        (
            {"q": "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "source": "en", "target": "de", "format": "xml"},
            400,
            "Invalid request: XML: a document type is not accepted",
        ),
        ({"q": [1], "source": "en", "target": "de"}, 400, "q must be a string or a list of strings"),
        ({"q": {"a": 1}, "source": "en", "target": "de"}, 400, "q must be a string or a list of strings"),
        ({"q": "x" * 201, "source": "en", "target": "de"}, 400, "201 characters are too many; at most 200"),
        ({"q": ["x"] * 5, "source": "en", "target": "de"}, 400, "5 texts are too many; at most 4"),
        ({"q": "x", "source": "en", "target": "de", "alternatives": 3}, 400, "alternatives parameter must be <= 2"),
        ({"q": "x", "source": "en", "target": "de", "alternatives": "few"}, 400, "alternatives must be a whole number"),
        ({"q": "x" * 2000, "source": "en", "target": "de"}, 413, "the body exceeds 1000 bytes"),
        ({"q": "Go. " * 9, "source": "en", "target": "de"}, 400, "9 sentences are too many; at most 8"),
        ({"q": "Go !bad", "source": "en", "target": "de"}, 500, "Cannot translate text: cannot"),
        (["q"], 400, "the body is not a JSON object"),
    ],
)
def test_mistakes_are_answered_in_librettranslates_words(stage: Stage, values: Any, status: int, message: str) -> None:
    answer = stage.client.post("/translate", json=values)
    assert answer.status_code == status
    assert message in answer.json()["error"]
    assert stage.ask(q="x").status_code == 200


def test_a_list_of_many_mistakes_stops_at_the_first() -> None:
    with pytest.raises(ValidationError) as refused:
        TranslationRequest.model_validate({"q": [1] * 1000, "source": "en", "target": "de"})
    assert refused.value.error_count() == 2  # q is no string, and its first entry is none


@pytest.mark.parametrize("name", ["true", "True", "1", True])
def test_switches_and_numbers_are_read_as_forms_write_them(name: Any) -> None:
    values = {"q": "x", "source": "EN", "target": "de", "alignment": name, "alternatives": "2"}
    request = validate(TranslationRequest, values)
    assert (request.alignment, request.alternatives, request.source) == (True, 2, "en")
    empty = validate(TranslationRequest, {**values, "alignment": "", "alternatives": ""})
    assert (empty.alignment, empty.alternatives) == (False, 0)


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[" * 900])
def test_a_body_that_is_no_json_is_a_400(stage: Stage, body: bytes) -> None:
    answer = stage.client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


SENT = {
    "q": "x",
    "source": "en",
    "target": "de",
    "format": "text",
    "alternatives": 1,
    "alignment": False,
    "api_key": "",
}


@pytest.mark.parametrize("name", [*SENT, "\ud800"])
def test_a_lone_surrogate_in_any_parameter_is_a_400_that_repeats_nothing(stage: Stage, name: str) -> None:
    body = json.dumps({**SENT, name: "\x1b[31m\nsecret\ud800"})
    answer = stage.client.post("/translate", content=body, headers={"content-type": "application/json"})
    expected = "Invalid request: the body holds a lone surrogate, which is no Unicode text"
    assert (answer.status_code, answer.json()) == (400, {"error": expected})


@pytest.mark.parametrize("name", SENT)
def test_no_refusal_repeats_what_was_sent(stage: Stage, name: str) -> None:
    if name == "api_key":
        stage.endpoint.keys = Keys(["another"])
    answer = stage.ask(**{**SENT, name: ["\x9b2J secret"] * 9 if name == "q" else "\x9b2J secret"})
    assert answer.status_code in (400, 403)
    assert "secret" not in answer.text


@pytest.mark.parametrize("charset", ["idna", "unicode_escape", "nonsense"])
def test_a_form_in_any_charset_is_read_or_a_400(stage: Stage, charset: str) -> None:
    part = 'Content-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    fields = {"q": "xn--9999999999a\\ud800", "source": "en", "target": "de"}
    parts = "".join("--x\r\n" + part.format(*item) for item in fields.items())
    kind = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
    answer = stage.client.post("/translate", content=parts + "--x--\r\n", headers=kind)
    statuses = {"idna": (200, 400), "unicode_escape": (400,), "nonsense": (200,)}  # Python 3.13 reads it as idna
    assert answer.status_code in statuses[charset], answer.text
