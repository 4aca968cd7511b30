"""DeepL's lists of languages, version 2 and 3."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.documents.documents import Documents
from tests.services.endpoint.conftest import Stage

REST = ["glossary", "tag_handling"]  # no formality: no model here has it


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


def test_version_three_says_what_each_language_is_good_for(stage: Stage) -> None:
    found = languages(stage, "translate_text")
    assert found == {"de": (False, True, REST), "en": (True, False, ["auto_detection", *REST])}
    object.__setattr__(stage.current[0], "target", "en-GB")
    object.__setattr__(stage.current[0], "source", "xx")
    assert languages(stage, "translate_text")["xx"][2] == REST  # it cannot be identified
    assert set(languages(stage, "glossary")) == {"xx", "en"}


def test_version_three_names_regions_as_targets_alone(stage: Stage) -> None:
    object.__setattr__(stage.current[0], "target", "en")
    object.__setattr__(stage.current[0], "source", "de")
    found = languages(stage, "translate_text")
    assert [code for code, (source, _, _) in found.items() if source] == ["de"]
    assert [code for code, (_, target, _) in found.items() if target] == ["en", "en-GB", "en-US"]


def test_documents_are_listed_where_they_are_translated(stage: Stage, tmp_path: Path) -> None:
    assert languages(stage, "translate_document") == {}
    assert names(stage) == ["glossary", "translate_text"]
    stage.client.app = create_app(stage.endpoint, Documents(stage.endpoint, tmp_path / "documents"))
    assert set(languages(stage, "translate_document")) == {"en", "de"}
    assert names(stage) == ["glossary", "translate_document", "translate_text"]


@pytest.mark.parametrize("resource", ["voice", "write", "style_rules"])
def test_other_products_have_no_language(stage: Stage, resource: str) -> None:
    assert languages(stage, resource) == {}


@pytest.mark.parametrize("query", ["", "?resource=songs", "?product=translate_text"])
def test_a_resource_must_be_named(stage: Stage, query: str) -> None:
    answer = stage.client.get(f"/v3/languages{query}")
    assert (answer.status_code, list(answer.json())) == (400, ["message"])
    assert "'resource'" in answer.json()["message"]


def languages(stage: Stage, resource: str) -> dict[str, tuple[bool, bool, list[str]]]:
    """The codes of a resource, with their directions and features."""
    answer = stage.client.get(f"/v3/languages?resource={resource}")
    assert answer.status_code == 200
    return {
        one["lang"]: (one["usable_as_source"], one["usable_as_target"], list(one["features"])) for one in answer.json()
    }


def names(stage: Stage) -> Any:
    return [one["name"] for one in stage.client.get("/v3/languages/resources").json()]
