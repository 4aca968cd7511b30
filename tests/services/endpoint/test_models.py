"""Many models in one endpoint, over translators that leave a mark: who answers, and what is said about it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from dragoman.model.inference.translator import Alternative, Translation
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models.catalogue import Catalogue, Served
from dragoman.services.models.follower import Follower
from dragoman.services.models.loaded_model import LoadedModel, Origin
from dragoman.services.models.registry import ModelVersion
from dragoman.services.texts.report import merge_reports
from tests.services.endpoint.conftest import Client

ENGLISH = "The dog sleeps in the house of my friend."
GERMAN = "Der Hund schläft im Haus meines Freundes."
FRENCH = "Le chien dort dans la maison de mon ami."


class Registry:
    """Names one version for every reference."""

    def resolve(self, reference: str) -> ModelVersion:
        return ModelVersion(reference, "1", "run")


@dataclass
class Marking:
    """A translator that puts its target language and version before the text."""

    mark: str

    def translate(self, lines: Sequence[str], decode: DecodeConfig, on_error: str = "raise", **_: object) -> list[Any]:
        return [self.one(line, decode.nbest) for line in lines]

    def one(self, line: str, nbest: int) -> Translation:
        best = f"{self.mark} {line}"
        return Translation(
            best, 0.0, [Alternative(best, 0.0), *(Alternative(f"also {best}", 0.0) for _ in range(1, nbest))]
        )


def served(pair: str, version: str = "1") -> Served:
    """A model that marks what it translates."""
    source, target = pair.split(">")
    translator: Any = Marking(f"{target}{version}")
    origin = Origin(f"{source}-{target}", version, "run", "abc")
    model = LoadedModel(translator, DecodeConfig(beam=4), origin, source, target, bytes=100)
    follower: Follower[LoadedModel] = Follower(Registry(), pair, lambda _: model)
    follower.current = model
    return Served(pair, follower)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    models = Catalogue([served("en>de"), served("de>en"), served("fr>en"), served("en>de", "2")])
    batcher = Batcher(LoadedModel.translate)
    batcher.start()
    yield Endpoint(models, InferenceQueue(batcher, models.current, models.trouble, timeout=60))
    batcher.stop(60)


@pytest.fixture
def client(endpoint: Endpoint) -> Client:
    return Client(create_app(endpoint))


def ask(client: Client, headers: dict[str, str] | None = None, **values: object) -> httpx.Response:
    return client.post("/translate", json={"source": "en", "target": "de", **values}, headers=headers)


def test_each_direction_has_its_model(client: Client) -> None:
    assert ask(client, q="a dog").json() == {"translatedText": "de1 a dog"}
    answer = ask(client, q="ein Hund", source="DEU", target="en-US")
    assert answer.json() == {"translatedText": "en1 ein Hund"}
    assert answer.headers["X-Model-Name"] == "de-en"


def test_a_pair_without_a_model_goes_over_another_language_and_says_so(client: Client) -> None:
    answer = ask(client, q=FRENCH, source="fr")
    assert answer.json() == {"translatedText": f"De1 En1 {FRENCH}", "via": "en"}
    assert answer.headers["X-Dragoman-Via"] == "en"
    assert answer.headers["X-Model-Name"] == "fr-en+en-de"
    assert ask(client, q="un", source="fr", alternatives=1).json()["alternatives"] == ["also de1 en1 un"]
    refused = ask(client, q=FRENCH, source="fr", alignment=True)
    assert (refused.status_code, "in the middle (en)" in refused.json()["error"]) == (400, True)


def test_the_report_of_two_models_covers_both(client: Client) -> None:
    answer = ask(client, q="Un chien {a} 犬犬犬犬 dort.", source="fr", report=True, terms={"chien": "Köter"}).json()
    report = answer["report"]
    assert answer["translatedText"] == "De1 En1 Un Köter {a} 犬犬犬犬 dort."
    assert [(one["source"], one["text"]) for one in report["terms"]] == [("chien", "Köter")]
    for one in (*report["terms"], *report["placeholders"]):
        assert answer["translatedText"][one["start"] : one["end"]] == one["text"]
    first = {"complete": False, "lost": ["{b}"], "long": ["x"], "words": [{"text": "Łódź"}], "sentences": 1}
    merged = merge_reports(first, {"complete": True, "sentences": 2, "loops": ["y"]}, "Lodz")
    assert merged == {"complete": False, "sentences": 2, "lost": ["{b}", "Łódź"], "long": ["x"], "loops": ["y"]}


def test_the_seconds_of_a_request_are_counted_over_all_its_models(
    client: Client, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.queue.timeout = 0.5
    marked = Marking.translate

    def slow(self: Marking, *words: Any, **more: Any) -> Any:
        time.sleep(0.3)
        return marked(self, *words, **more)

    monkeypatch.setattr(Marking, "translate", slow)
    answer = ask(client, q=FRENCH, source="fr")  # two models, each of which would have the time
    assert (answer.status_code, answer.json()) == (503, {"error": "Cannot translate text: no answer in 0.5 s"})


def test_auto_takes_each_text_of_a_list_for_what_it_is(client: Client) -> None:
    answer = ask(client, q=[ENGLISH, FRENCH, GERMAN, "42"], source="auto").json()
    translated = [f"De1 {ENGLISH}", f"De1 En1 {FRENCH}", GERMAN, "42"]
    assert answer["translatedText"] == translated
    assert [one["language"] for one in answer["detectedLanguage"]] == ["en", "fr", "de", "en"]
    assert answer["via"] == ["", "en", "", ""]
    assert answer["losses"][2] == {
        "copied": 1,
        "language": "de",
        "warnings": ["the text is German already and was copied"],
    }
    assert [bool(one) for one in answer["losses"]] == [False, False, True, False]


def test_the_language_of_html_is_that_of_its_words(client: Client) -> None:
    html = f'<div class="the house of the man"><p title="x">{GERMAN}</p><code>if the dog sleeps: return</code></div>'
    answer = ask(client, q=html, source="auto", format="html").json()
    assert answer["detectedLanguage"]["language"] == "de"
    assert answer["translatedText"] == html  # it is German already
    deep = ask(client, q="<b>" * 500 + "x", format="html")
    assert deep.status_code == 400


def test_a_language_that_nothing_translates_is_copied_and_reported(client: Client) -> None:
    text = "Il cane dorme nella casa del mio amico."
    answer = ask(client, q=text, source="auto").json()
    assert answer["translatedText"] == text
    assert answer["detectedLanguage"]["language"] == "it"
    assert "looks like Italian, which no model here translates into German" in answer["losses"]["warnings"][0]


def test_a_text_that_is_not_in_the_named_language_is_translated_as_asked_and_reported(
    client: Client, endpoint: Endpoint
) -> None:
    answer = ask(client, q=[GERMAN, ENGLISH]).json()
    assert answer["translatedText"] == [f"De1 {GERMAN}", f"De1 {ENGLISH}"]
    warnings = ["the text looks like German, not English"]
    assert answer["losses"] == [{"wrong_language": 1, "language": "de", "warnings": warnings}, {}]
    endpoint.config.check_language = False
    assert "losses" not in ask(client, q=GERMAN).json()


def test_a_text_in_the_target_language_by_the_clients_own_word_is_copied(client: Client) -> None:
    assert ask(client, q=ENGLISH, source="en-GB", target="en-GB").json() == {"translatedText": ENGLISH}


def test_languages_settings_status_and_models_tell_of_all(client: Client) -> None:
    ask(client, q="a dog")
    languages = {one["code"]: one["targets"] for one in client.get("/languages").json()}
    assert languages == {"en": ["de"], "de": ["en"], "fr": ["en", "de"]}
    assert client.get("/frontend/settings").json()["language"]["source"] == {"code": "en", "name": "English"}
    models = client.get("/models").json()
    shown = [(one["name"], one["version"], one["requests"]) for one in models]
    assert shown == [("en-de", "1", 1), ("de-en", "1", 0), ("fr-en", "1", 0), ("en-de", "2", 0)]
    assert sum(one["bytes"] for one in models) == 400
    assert client.get("/status").json()["models"] == models
    assert client.get("/health").status_code == 200
