"""Terms that a request brings along, and those of a glossary that it names."""

import pytest

from dragoman.services.endpoint.glossaries import Dictionary, Glossaries
from dragoman.services.endpoint.key_store import KeyStore
from tests.services.endpoint.conftest import Stage


@pytest.fixture
def glossary(stage: Stage, store: KeyStore) -> str:
    stage.endpoint.glossaries = Glossaries(store)
    return stage.endpoint.glossaries.create("", "pets", [Dictionary("en", "de", {"dog": "Hund", "cat": "Katze"})]).id


def terms(stage: Stage, **values: object) -> list[tuple[str, str]]:
    asked = {"q": "The dog sees a cat in the house.", "source": "en", "target": "de", "report": True, **values}
    answer = stage.client.post("/translate", json=asked).json()
    return [(one["source"], one["text"]) for one in answer["report"].get("terms", ())]


def test_terms_come_along_or_are_stored(stage: Stage, glossary: str) -> None:
    assert terms(stage, terms={"dog": "Köter"}) == [("dog", "Köter")]
    assert terms(stage, terms="dog = Köter\r\n\ncat\tMieze\n") == [("dog", "Köter"), ("cat", "Mieze")]
    assert terms(stage, glossary=glossary) == [("dog", "Hund"), ("cat", "Katze")]
    assert terms(stage, glossary=glossary, terms={"dog": "Köter"}) == [("dog", "Köter"), ("cat", "Katze")]
    assert terms(stage, glossary=glossary, source="auto") == [("dog", "Hund"), ("cat", "Katze")]
    assert terms(stage, terms="", glossary=None) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"glossary": "none"}, "Invalid request: glossary: Glossary not found"),
        ({"terms": "dog"}, "Invalid request: terms, entry 1: a term is empty"),
        ({"terms": ["dog"]}, "Invalid request: terms must be an object of strings, or lines"),
    ],
)
def test_mistakes_are_named(stage: Stage, glossary: str, values: dict[str, object], message: str) -> None:
    asked = {"q": "The dog.", "source": "en", "target": "de", **values}
    answer = stage.client.post("/translate", json=asked)
    assert answer.status_code == 400 and answer.json()["error"].startswith(message)
