"""Programs that are no packages of a registry: what they send, word for word, and what they read of the answer."""

from urllib.parse import urlencode

import pytest

from dragoman.services.endpoint.glossaries import Glossaries
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.keys import Keys
from tests.services.endpoint.conftest import Stage

KEY = "k" * 8
DEEPL = {"Authorization": f"DeepL-Auth-Key {KEY}"}


@pytest.fixture(autouse=True)
def key(stage: Stage) -> None:
    stage.endpoint.keys = Keys([KEY])
    stage.endpoint.config.check_language = False


def test_mastodon_sends_a_post_as_html(stage: Stage) -> None:
    """One post, and since 4.2 its parts as a list: content, title of the warning, options of the poll."""
    asked = {"source": "en", "target": "de", "format": "html", "api_key": KEY}
    post = '<p>The dog <a href="https://example.org/@a" class="mention">@<span>a</span></a> sees.</p>'
    answer = stage.client.post("/translate", json={**asked, "q": post})
    text = answer.json()["translatedText"]
    assert text.startswith("<p>THE DOG <a href=") and 'class="mention"' in text and text.endswith("SEES.</p>")
    listed = stage.client.post("/translate", json={**asked, "q": [post, "dogs", "yes"], "source": "auto"}).json()
    assert listed["translatedText"][1:] == ["DOGS", "YES"] and len(listed["detectedLanguage"]) == 3
    refused = stage.client.post("/translate", json={**asked, "q": post, "api_key": None})
    assert refused.status_code == 403
    targets = {one["code"]: one["targets"] for one in stage.client.get("/languages").json()}
    assert targets["en"] == ["de"]


def test_weblate_sends_placeholders_as_empty_elements(stage: Stage, store: KeyStore) -> None:
    """DeepL's service of Weblate: languages, pairs and glossaries first, then a list of texts as XML."""
    stage.endpoint.glossaries = Glossaries(store)

    def get(path: str) -> list[dict[str, str]]:
        answer = stage.client.request("GET", f"/v2/{path}", headers=DEEPL)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, str]] = next(iter(answer.json().values())) if "gloss" in path else answer.json()
        return found

    assert [one["language"] for one in get("languages?type=source&enable_beta_languages=1")] == ["EN"]
    assert [one.get("supports_formality") for one in get("languages?type=target")] == [False]
    assert get("glossary-language-pairs") == [{"source_lang": "en", "target_lang": "de"}]
    made = {"name": "weblate:1", "source_lang": "EN", "target_lang": "DE", "entries": "dog\tHund"}
    assert stage.client.post("/v2/glossaries", json={**made, "entries_format": "tsv"}, headers=DEEPL).is_success
    (glossary,) = get("glossaries")
    asked = {
        "text": ['The dog <x id="8"></x> sees.', "Good morning"],
        "source_lang": "EN",
        "target_lang": "DE",
        "formality": "default",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
        "context": "a game",
        "glossary_id": glossary["glossary_id"],
        "model_type": "prefer_quality_optimized",
    }
    answer = stage.client.post("/v2/translate", json=asked, headers=DEEPL)
    first, second = [one["text"] for one in answer.json()["translations"]]
    assert "Hund" in first and first.count('<x id="8"></x>') == 1 and second == "GOOD MORNING"
    assert stage.client.request("DELETE", f"/v2/glossaries/{glossary['glossary_id']}", headers=DEEPL).is_success


def test_weblate_asks_google_by_get(stage: Stage) -> None:
    query = urlencode({"key": KEY, "q": "The dog.", "source": "en", "target": "de", "format": "text"})
    answer = stage.client.get(f"/language/translate/v2?{query}")
    assert answer.json()["data"]["translations"] == [{"translatedText": "THE DOG."}]
    codes = stage.client.get(f"/language/translate/v2/languages?key={KEY}").json()["data"]["languages"]
    assert {one["language"] for one in codes} == {"en", "de"}


def test_omegat_overrides_the_method(stage: Stage) -> None:
    form = urlencode({"key": KEY, "source": "en", "target": "de", "q": "a <b>dog</b>", "format": "html"})
    headers = {"X-HTTP-Method-Override": "GET", "Content-Type": "application/x-www-form-urlencoded"}
    answer = stage.client.post("/language/translate/v2", content=form, headers=headers)
    assert answer.json()["data"]["translations"] == [{"translatedText": "A <b>DOG</b>"}]
