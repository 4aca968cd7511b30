"""Programs that are no packages of a registry: what they send, word for word, and what they read of the answer."""

import pytest

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


def test_weblate_sends_placeholders_as_empty_elements(stage: Stage) -> None:
    """DeepL's service of Weblate: languages first, then a list of texts as XML."""

    def get(path: str) -> list[dict[str, str]]:
        answer = stage.client.request("GET", f"/v2/{path}", headers=DEEPL)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, str]] = answer.json()
        return found

    assert [one["language"] for one in get("languages?type=source&enable_beta_languages=1")] == ["EN"]
    assert [one.get("supports_formality") for one in get("languages?type=target")] == [False]
    asked = {
        "text": ['The dog <x id="8"></x> sees.', "Good morning"],
        "source_lang": "EN",
        "target_lang": "DE",
        "formality": "default",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
        "context": "a game",
        "model_type": "prefer_quality_optimized",
    }
    answer = stage.client.post("/v2/translate", json=asked, headers=DEEPL)
    first, second = [one["text"] for one in answer.json()["translations"]]
    assert "DOG" in first and first.count('<x id="8"></x>') == 1 and second == "GOOD MORNING"
