"""Terms that a request brings along, and those of the server's file."""

from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.services.endpoint.endpoint import TermsFile
from tests.services.endpoint.conftest import Stage
from tests.services.texts.test_glossary import TBX


def terms(stage: Stage, **values: object) -> list[tuple[str, str]]:
    asked = {"q": "The dog sees a cat in the house.", "source": "en", "target": "de", "report": True, **values}
    answer = stage.client.post("/translate", json=asked).json()
    return [(one["source"], one["text"]) for one in answer["report"].get("terms", ())]


def test_a_requests_terms_go_before_those_of_the_file(stage: Stage, tmp_path: Path) -> None:
    assert terms(stage, terms={"dog": "Köter"}) == [("dog", "Köter")]
    assert terms(stage, terms="dog = Köter\r\n\ncat\tMieze\n") == [("dog", "Köter"), ("cat", "Mieze")]
    assert terms(stage, terms="") == []
    (tmp_path / "terms.tsv").write_text("dog\tHund\ncat\tKatze\n")
    stage.endpoint.terms = TermsFile(str(tmp_path / "terms.tsv"))
    assert terms(stage) == [("dog", "Hund"), ("cat", "Katze")]
    assert terms(stage, terms={"dog": "Köter"}, source="auto") == [("dog", "Köter"), ("cat", "Katze")]
    deepl = stage.client.post("/v2/translate", json={"text": "the dog", "target_lang": "DE"}).json()
    assert "Hund" in deepl["translations"][0]["text"]


def test_a_file_of_terms_is_read_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("dog\tHund\n")
    (tmp_path / "terms.tbx").write_text(TBX)
    one, several = [("en", "de")], [("en", "de"), ("de", "en")]
    TermsFile(str(tmp_path / "terms.tsv")).check(one)
    TermsFile(str(tmp_path / "terms.tbx")).check(several)
    for name, pairs, message in (
        ("none.tsv", one, "cannot be read"),
        ("terms.tsv", several, "names no languages, and en-de, de-en are served; write it as .tbx"),
        ("terms.tbx", [("ru", "uk")], "has no term from ru to uk"),
    ):
        with pytest.raises(UserError, match=rf"serve\.glossary=.*{name}.*{message}"):
            TermsFile(str(tmp_path / name)).check(pairs)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"terms": "dog"}, "Invalid request: terms, entry 1: a term is empty"),
        ({"terms": ["dog"]}, "Invalid request: terms must be an object of strings, or lines"),
    ],
)
def test_mistakes_are_named(stage: Stage, values: dict[str, object], message: str) -> None:
    asked = {"q": "The dog.", "source": "en", "target": "de", **values}
    answer = stage.client.post("/translate", json=asked)
    assert answer.status_code == 400 and answer.json()["error"].startswith(message)
