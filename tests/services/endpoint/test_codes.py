"""Languages are compared as languages in every dialect, however a client spells them."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.services.endpoint.conftest import Stage

ENGLISH = ("EN", "EN-us", "en_GB", "eng", "en-Latn-US")
GERMAN = ("DE", "de-DE", "DE_at", "deu", "ger", "de-Latn")
CODES = [*((code, "de") for code in ENGLISH), *(("en", code) for code in GERMAN)]
Ask = Callable[[Any, str, str], httpx.Response]


def post(path: str, **fields: str) -> Ask:
    """The request with the languages put into its fields, `S` and `T`."""

    def ask(client: Any, source: str, target: str) -> httpx.Response:
        named = {"S": source, "T": target}
        content = {name: named.get(value, value) for name, value in fields.items()}
        found: httpx.Response = client.post(path, json=content)
        return found

    return ask


def invoke(client: Any, source: str, target: str) -> httpx.Response:
    asked = {"inputs": ["a dog"], "params": {"source": source, "target": target}}
    found: httpx.Response = client.post("/invocations", json=asked)
    return found


DIALECTS: dict[str, Ask] = {
    "LibreTranslate": post("/translate", q="a dog", source="S", target="T"),
    "DeepL": post("/v2/translate", text="a dog", source_lang="S", target_lang="T"),
    "MLflow": invoke,
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_spelling_of_a_language_is_that_language(stage: Stage, dialect: str) -> None:
    for source, target in CODES:
        answer = DIALECTS[dialect](stage.client, source, target)
        assert answer.status_code == 200, (source, target, answer.text)
        assert "A DOG" in answer.text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_another_language_is_refused(stage: Stage, dialect: str) -> None:
    object.__setattr__(stage.current[0], "target", "zh-Hans")
    assert DIALECTS[dialect](stage.client, "en", "zh_CN").status_code == 200
    for target in ("nl", "zh-Hant"):
        assert DIALECTS[dialect](stage.client, "en", target).status_code in (400, 404), target
