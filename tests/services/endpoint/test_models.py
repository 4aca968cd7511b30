"""Many models in one endpoint, over translators that leave a mark: who answers, and what is said about it."""

import base64
import contextlib
import hashlib
import hmac
import threading
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from mlflow.exceptions import INVALID_PARAMETER_VALUE, MlflowException

from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint import hooks
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models import registry
from dragoman.services.models.catalogue import Catalogue
from dragoman.services.models.follower import Follower
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.origin import Origin
from dragoman.services.models.registry import ModelVersion
from dragoman.services.models.served import Served
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

    def continuing(self, prefix: str) -> "Marking":
        return Marking(f"{prefix} {self.mark}")

    def one(self, line: str, nbest: int) -> Translation:
        best = f"{self.mark} {line}"
        return Translation(
            best, 0.0, [Alternative(best, 0.0), *(Alternative(f"also {best}", 0.0) for _ in range(1, nbest))]
        )


def served(pair: str, version: str = "1", weight: float = 0.0) -> Served:
    """A model that marks what it translates."""
    source, target = pair.split(">")
    translator: Any = Marking(f"{target}{version}")

    def load() -> LoadedModel:
        origin = Origin(f"{source}-{target}", version, "run", "abc")
        return LoadedModel(translator, DecodeConfig(beam=4), origin, source, target, bytes=100)

    follower: Follower[LoadedModel] = Follower(Registry(), pair, lambda _: load())
    follower.hold(load)
    return Served(pair, follower, weight)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    models = Catalogue([served("en>de"), served("de>en"), served("fr>en"), served("en>de", "2")], memory=300)
    models.fit()
    batcher = Batcher(LoadedModel.translate)
    batcher.start()
    queue = InferenceQueue("model", "Cannot translate text", models.current, batcher, models.trouble, timeout=60)
    yield Endpoint(queue, models=models, hook=b"secret")
    batcher.stop(10)


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
    continued = ask(client, q=FRENCH, source="fr", prefix="Ein", alternatives=1).json()
    assert continued == {"translatedText": f"Ein de1 En1 {FRENCH}", "alternatives": [], "via": "en"}
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
    assert endpoint.translations is not None
    endpoint.translations.timeout = 0.5
    marked = Marking.translate

    def slow(self: Marking, *words: Any, **more: Any) -> Any:
        time.sleep(0.3)
        return marked(self, *words, **more)

    monkeypatch.setattr(Marking, "translate", slow)
    answer = ask(client, q=FRENCH, source="fr")  # two models, each of which would have the time
    assert (answer.status_code, answer.json()) == (503, {"error": "Cannot translate text: no answer in 0.5 s"})


@pytest.mark.parametrize("where", ["header", "parameter"])
def test_a_request_may_name_a_version(client: Client, where: str) -> None:
    headers = {"X-Dragoman-Version": "2"} if where == "header" else {}
    more = {"version": "en-de/2"} if where == "parameter" else {}
    assert ask(client, headers, q="a", **more).json() == {"translatedText": "de2 a"}
    assert ask(client, {"X-Dragoman-Version": "9"}, q="a").status_code == 400


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
    shown = [(one["name"], one["version"], one["loaded"], one["requests"]) for one in models]
    assert [one[:2] + one[3:] for one in shown] == [
        ("en-de", "1", 1),
        ("de-en", "1", 0),
        ("fr-en", "1", 0),
        ("en-de", "2", 0),
    ]
    assert sum(one["loaded"] for one in models) == 3
    assert sum(one["bytes"] for one in models) == 400
    assert client.get("/status").json()["models"] == models
    assert client.get("/health").status_code == 200  # an unloaded model answers when it is asked


def test_metrics_tell_of_every_model(client: Client, endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.metrics.show({"translation": endpoint.translations}, tmp_path, endpoint.models)
    ask(client, q="a dog")
    value = endpoint.metrics.telemetry.registry.get_sample_value
    labels = [{"name": name, "version": version} for name, version in (("en-de", "1"), ("en-de", "2"), ("fr-en", "1"))]
    assert [value("dragoman_model_requests_total", label) for label in labels] == [1, 0, 0]
    assert [value("dragoman_model_bytes", label) for label in labels] == [100, 100, 100]
    assert all(value("dragoman_model_info", {"kind": "translation", **label}) == 1 for label in labels)


def signed(secret: str, body: bytes, at: float | str) -> dict[str, str]:
    """The headers of MLflow's delivery."""
    at = at if isinstance(at, str) else str(int(at))
    digest = hmac.new(secret.encode(), f"id.{at}.".encode() + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"X-MLflow-Delivery-Id": "id", "X-MLflow-Timestamp": at, "X-MLflow-Signature": signature}


def test_a_webhook_that_mlflow_signed_wakes_the_followers(client: Client, endpoint: Endpoint) -> None:
    woken: list[int] = []
    assert endpoint.models is not None
    endpoint.models.wake = lambda: woken.append(1)  # type: ignore[method-assign]
    body, now = b'{"entity": "model_version_alias"}', time.time()
    assert client.post("/hooks/mlflow", content=body, headers=signed("secret", body, now)).status_code == 204
    assert woken == [1]
    times = [signed("secret", body, at) for at in (now - 900, "9" * 5000, "-1", "1e9", "")]
    for headers in (signed("other", body, now), signed("secret", b"{}", now), *times, {}):
        assert client.post("/hooks/mlflow", content=body, headers=headers).status_code == 403
    assert woken == [1]
    endpoint.hook = None
    assert Client(create_app(endpoint)).post("/hooks/mlflow", content=body).status_code == 404


class FakeMlflow(registry.Registry):
    """The webhooks of a server that does not answer at first, a page at a time."""

    def __init__(self, failures: int, *urls: str) -> None:
        super().__init__("http://mlflow", Path())
        self.failures = failures
        self.webhooks = [types.SimpleNamespace(webhook_id=str(n), url=url) for n, url in enumerate(urls)]
        self.made: list[tuple[Any, ...]] = []

    @contextlib.contextmanager
    def asking(self) -> Iterator["FakeMlflow"]:
        if self.failures:
            self.failures -= 1
            raise UserError("the registry does not answer")
        yield self

    def list_webhooks(self, page_token: str = "0") -> "Page":
        place = int(page_token)
        return Page(self.webhooks[place : place + 1], str(place + 1) if place + 1 < len(self.webhooks) else None)

    def create_webhook(self, name: str, url: str, events: list[str], secret: str) -> None:
        self.made.append(("new", url, events, secret))

    def update_webhook(self, identity: str, events: list[str], secret: str, status: str) -> None:
        self.made.append((identity, events, secret, status))


class Page(list[Any]):
    """MLflow's page of a list."""

    def __init__(self, found: Any, token: str | None) -> None:
        super().__init__(found)
        self.token = token


def test_the_endpoint_makes_its_webhook_once_mlflow_answers_and_then_looks(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "PAUSES", (0.01, 0.01))
    mlflow, done = FakeMlflow(2, "https://other/hooks/mlflow"), threading.Event()
    registration = hooks.Registration(mlflow, "https://e/hooks/mlflow", "s", done.set)
    registration.start()
    assert done.wait(10)
    registration.stop()
    assert mlflow.made == [("new", "https://e/hooks/mlflow", ["model_version_alias.created"], "s")]
    told = "serve.hook_url: no webhook yet: the registry does not answer; new versions are found by polling"
    assert [one.message for one in caplog.records if one.levelname == "WARNING"] == [told]


def test_a_webhook_of_an_earlier_start_gets_the_secret_anew() -> None:
    mlflow = FakeMlflow(0, "https://other/hooks/mlflow", "https://e/hooks/mlflow")
    mlflow.tell("https://e/hooks/mlflow", hooks.EVENT, "s")
    assert mlflow.made == [("1", ["model_version_alias.created"], "s", "ACTIVE")]


def test_an_address_that_mlflow_does_not_take_is_named() -> None:
    class Refusing(FakeMlflow):
        def create_webhook(self, *_: object, **__: object) -> None:
            raise MlflowException("Invalid webhook URL scheme: 'http'", error_code=INVALID_PARAMETER_VALUE)

    with pytest.raises(
        UserError, match=r"MLflow at http://mlflow takes no webhook to http://e \(Invalid webhook URL scheme"
    ):
        Refusing(0).tell("http://e", hooks.EVENT, "s")
