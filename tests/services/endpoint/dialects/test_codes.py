"""Languages are compared as languages in every dialect, however a client spells them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.glossaries import Glossaries
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.memory import Memory
from dragoman.services.endpoint.memory_store import MemoryStore
from tests.services.endpoint.conftest import Stage

ENGLISH = ("EN", "EN-us", "en_GB", "eng", "en-Latn-US")
GERMAN = ("DE", "de-DE", "DE_at", "deu", "ger", "de-Latn")
CODES = [*((code, "de") for code in ENGLISH), *(("en", code) for code in GERMAN)]
V3 = "/v3/projects/any/locations/global:translateText"
Ask = Callable[[Any, str, str], httpx.Response]


def post(path: str, **fields: str) -> Ask:
    """The request with the languages put into its fields, `S` and `T`."""

    def ask(client: Any, source: str, target: str) -> httpx.Response:
        named = {"S": source, "T": target, "P": f"{source}-{target}"}
        content = {name: named.get(value, value) for name, value in fields.items()}
        listed = {name: [value] if name in ("contents",) else value for name, value in content.items()}
        found: httpx.Response = client.post(path, json=listed)
        return found

    return ask


def chat(client: Any, source: str, target: str) -> httpx.Response:
    asked = {"model": f"{source}-{target}", "messages": [{"role": "user", "content": "a dog"}]}
    found: httpx.Response = client.post("/v1/chat/completions", json=asked)
    return found


def invoke(client: Any, source: str, target: str) -> httpx.Response:
    asked = {"inputs": ["a dog"], "params": {"source": source, "target": target}}
    found: httpx.Response = client.post("/invocations", json=asked)
    return found


DIALECTS: dict[str, Ask] = {
    "LibreTranslate": post("/translate", q="a dog", source="S", target="T"),
    "DeepL": post("/v2/translate", text="a dog", source_lang="S", target_lang="T"),
    "Google": post("/language/translate/v2", q="a dog", source="S", target="T", format="text"),
    "Google v3": post(V3, contents="a dog", sourceLanguageCode="S", targetLanguageCode="T", mimeType="text/plain"),
    "OpenAI": chat,
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


@pytest.mark.parametrize(("source", "target"), [("eng", "de-DE"), ("EN-us", "ger")])
def test_keys_glossaries_documents_and_known_translations_compare_them_too(
    stage: Stage, store: KeyStore, tmp_path: Path, source: str, target: str, request: pytest.FixtureRequest
) -> None:
    secret = store.add("anna", languages=["en", "de"])
    stage.read_keys(store)
    stage.endpoint.glossaries = Glossaries(store)
    stage.endpoint.memory = Memory(MemoryStore(store))
    stage.endpoint.config.suggestions = True
    documents = Documents(stage.endpoint, tmp_path / "documents")
    request.addfinalizer(documents.stop)
    stage.client.app = create_app(stage.endpoint, documents)
    pair, key = {"source_lang": source, "target_lang": target}, {"auth_key": secret}
    made = stage.client.post(
        "/v2/glossaries", json={"name": "g", **pair, **key, "entries": "dog\tHund", "entries_format": "tsv"}
    ).json()
    assert (made["source_lang"], made["target_lang"]) == ("en", "de")
    asked = {"text": "the dog", "source_lang": "en-GB", "target_lang": "DE", "glossary_id": made["glossary_id"], **key}
    assert "Hund" in stage.client.post("/v2/translate", json=asked).text
    answer = stage.client.post("/v2/document", data={**pair, **key}, files={"file": ("a.txt", b"a dog")})
    assert answer.status_code == 200, answer.text
    better = {"q": "good morning", "s": "Moin", "source": source, "target": target, "api_key": secret}
    assert stage.client.post("/suggest", json=better).status_code == 200
    known = {"q": "good morning", "source": "en_US", "target": "deu", "api_key": secret}
    assert stage.client.post("/translate", json=known).json()["translatedText"] == "Moin"
