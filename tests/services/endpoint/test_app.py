"""The HTTP interface, over a translator that upper-cases."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import ValidationError

from model.inference.translator import Alternative, Translation
from model.settings import DecodeConfig
from services.endpoint.app import Endpoint, create_app
from services.endpoint.batcher import Batcher
from services.endpoint.inference_queue import InferenceQueue
from services.endpoint.requests import TranslationRequest, validate
from services.models.loaded_model import LoadedModel
from services.models.origin import Origin
from services.settings import Limits


@dataclass
class Shouting:
    """A translator: TEXT for text; `!bad` fails; alternatives carry their rank."""

    mark: str = ""
    open: threading.Event = field(default_factory=threading.Event)
    lines: list[str] = field(default_factory=list)

    def translate(self, lines: Sequence[str], decode: DecodeConfig, on_error: str = "raise") -> list[Translation]:
        assert self.open.wait(10)
        self.lines += lines
        return [self.one(line, decode.nbest) for line in lines]

    def one(self, line: str, nbest: int) -> Translation:
        if "!bad" in line:
            return Translation("", 0.0, error="cannot")
        texts = [line.upper() + self.mark] + [f"{line.upper()}{self.mark}#{rank}" for rank in range(1, nbest)]
        return Translation(texts[0], 0.0, [Alternative(text, 0.0) for text in texts])


def served(translator: Any, version: str = "3") -> LoadedModel:
    return LoadedModel(translator, DecodeConfig(beam=4), Origin("demo", version, "run1", "abc"), "en", "de")


@dataclass
class Client:
    """Asks the application without a socket."""

    app: FastAPI

    def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://endpoint") as client:
                return await client.request(method, path, **arguments)

        return asyncio.run(ask())

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)

    def post(self, path: str, **arguments: Any) -> httpx.Response:
        return self.request("POST", path, **arguments)


@dataclass
class Stage:
    """A client, and what stands behind the application."""

    client: Client
    translator: Shouting
    endpoint: Endpoint
    queue: InferenceQueue[LoadedModel, str, Translation]
    batcher: Batcher[LoadedModel, str, Translation]
    current: list[LoadedModel | None]
    trouble: list[str | None]

    def ask(self, **values: Any) -> Any:
        return self.client.post("/translate", json={"source": "en", "target": "de", **values})


@pytest.fixture
def stage() -> Iterator[Stage]:
    translator = Shouting()
    translator.open.set()
    current: list[LoadedModel | None] = [served(translator)]
    trouble: list[str | None] = [None]
    batcher = Batcher(LoadedModel.translate, limit=64, capacity=8)
    batcher.start()
    queue = InferenceQueue(
        "model", "Cannot translate text", lambda: current[0], batcher, lambda: trouble[0], timeout=10
    )
    endpoint = Endpoint(queue, limits=Limits(characters=200, texts=4, alternatives=2, body=1000))
    yield Stage(Client(create_app(endpoint)), translator, endpoint, queue, batcher, current, trouble)
    translator.open.set()
    batcher.stop(10)


def test_a_string_is_answered_with_a_string_and_a_list_with_a_list(stage: Stage) -> None:
    assert stage.ask(q="a dog").json() == {"translatedText": "A DOG"}
    assert stage.ask(q=["a", "b"]).json() == {"translatedText": ["A", "B"]}


def test_form_and_query_string_and_multipart_are_read_like_json(stage: Stage) -> None:
    values = {"q": "grün & blau", "source": "en", "target": "de", "api_key": ""}
    for answer in (
        stage.client.post("/translate", data=values),
        stage.client.post("/translate", params=values),
        stage.client.post("/translate", files={key: (None, value) for key, value in values.items()}),
    ):
        assert (answer.status_code, answer.json()) == (200, {"translatedText": "GRÜN & BLAU"})
    several = stage.client.post("/translate", data={**values, "q": ["a", "b"]})
    assert several.json() == {"translatedText": ["A", "B"]}


def test_the_answers_headers_name_model_version_run_and_manifest(stage: Stage) -> None:
    headers = stage.ask(q="x").headers
    names = ("X-Model-Name", "X-Model-Version", "X-Run-Id", "X-Manifest-Hash")
    assert [headers[name] for name in names] == ["demo", "3", "run1", "abc"]


def test_text_is_translated_by_sentences_and_keeps_its_line_breaks(stage: Stage) -> None:
    assert stage.ask(q="One dog. Two dogs.\n\n Three.").json()["translatedText"] == "ONE DOG. TWO DOGS.\n\n THREE."
    assert stage.translator.lines == ["One dog.", "Two dogs.", "Three."]
    assert stage.ask(q=" \n").json()["translatedText"] == " \n"


def test_alternatives_are_given_when_asked_for(stage: Stage) -> None:
    assert stage.ask(q="Go. See.", alternatives=2).json() == {
        "translatedText": "GO. SEE.",
        "alternatives": ["GO.#1 SEE.#1", "GO.#2 SEE.#2"],
    }
    assert stage.ask(q=["a"], alternatives=1).json() == {"translatedText": ["A"], "alternatives": [["A#1"]]}


def test_auto_names_the_language_that_was_assumed(stage: Stage) -> None:
    assumed = {"confidence": 0.0, "language": "en"}
    assert stage.ask(q="x", source="auto").json()["detectedLanguage"] == assumed
    assert stage.client.post("/detect", data={"q": "x"}).json() == [assumed]


@pytest.mark.parametrize(
    ("values", "status", "message"),
    [
        ({"source": "en", "target": "de"}, 400, "Invalid request: missing q parameter"),
        ({"q": "x", "target": "de"}, 400, "Invalid request: missing source parameter"),
        ({"q": "x", "source": "en"}, 400, "Invalid request: missing target parameter"),
        ({"q": "x", "source": "fr", "target": "de"}, 400, "fr is not supported"),
        ({"q": "x", "source": "en", "target": "en"}, 400, "en is not supported"),
        (
            {"q": "x", "source": "en", "target": "de", "format": "html"},
            400,
            "not supported: HTML is not translated",
        ),
        ({"q": [1], "source": "en", "target": "de"}, 400, "q must be a string or a list of strings"),
        ({"q": {"a": 1}, "source": "en", "target": "de"}, 400, "q must be a string or a list of strings"),
        ({"q": "x" * 201, "source": "en", "target": "de"}, 400, "request (201) exceeds text limit (200)"),
        ({"q": ["x"] * 5, "source": "en", "target": "de"}, 400, "request (5) exceeds batch limit (4)"),
        ({"q": "x", "source": "en", "target": "de", "alternatives": 3}, 400, "alternatives parameter must be <= 2"),
        ({"q": "x", "source": "en", "target": "de", "alternatives": "few"}, 400, "alternatives must be a whole number"),
        ({"q": "x" * 2000, "source": "en", "target": "de"}, 413, "the body exceeds 1000 bytes"),
        ({"q": "Go. " * 9, "source": "en", "target": "de"}, 400, "9 sentences exceed the limit (8)"),
        ({"q": "!bad", "source": "en", "target": "de"}, 500, "Cannot translate text: cannot"),
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
        TranslationRequest.within(Limits()).model_validate({"q": [1] * 1000, "source": "en", "target": "de"})
    assert refused.value.error_count() == 2  # q is no string, and its first entry is none


@pytest.mark.parametrize("name", ["true", "True", "1", True])
def test_switches_and_numbers_are_read_as_forms_write_them(name: Any) -> None:
    values = {"q": "x", "source": "EN", "target": "de", "alignment": name, "alternatives": "2"}
    request = validate(TranslationRequest.within(Limits(alternatives=3)), values)
    assert (request.aligned, request.alternatives, request.source) == (True, 2, "en")
    empty = validate(TranslationRequest.within(Limits()), {**values, "alignment": "", "alternatives": ""})
    assert (empty.aligned, empty.alternatives) == (False, 0)


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
    stage.endpoint.keys = [""] if name != "api_key" else ["another"]
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
    assert answer.status_code == (200 if charset == "nonsense" else 400), answer.text


def test_the_openapi_document_is_where_libretranslate_has_it(stage: Stage) -> None:
    spec = stage.client.get("/spec")
    assert (spec.status_code, spec.json()) == (200, stage.client.get("/openapi.json").json())
    assert {"/translate", "/detect", "/languages", "/health", "/frontend/settings"} <= spec.json()["paths"].keys()


def test_unknown_paths_and_methods_are_errors_in_json(stage: Stage) -> None:
    assert (stage.client.get("/nowhere").status_code, list(stage.client.get("/nowhere").json())) == (404, ["error"])
    assert stage.client.get("/translate").status_code == 405


def test_a_key_is_asked_for_where_keys_are_set(stage: Stage) -> None:
    stage.endpoint.keys = ["secret"]
    assert stage.ask(q="x").status_code == 403
    assert stage.ask(q="x", api_key="wrong").json() == {"error": "Invalid API key"}
    assert stage.ask(q="x", api_key="secret").status_code == 200


def test_languages_and_settings_are_the_models(stage: Stage) -> None:
    assert stage.client.get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    settings = stage.client.get("/frontend/settings").json()
    assert settings["charLimit"] == 200
    assert settings["language"]["target"] == {"code": "de", "name": "German"}


def test_a_full_queue_is_a_429_with_retry_after(stage: Stage) -> None:
    stage.translator.open.clear()
    model = stage.current[0]
    assert model is not None
    stage.batcher.submit(model, ["first"])
    while stage.batcher.queued:
        time.sleep(0.01)
    waiting = stage.batcher.submit(model, ["x"] * 8)
    answer = stage.ask(q="x")
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    stage.translator.open.set()
    waiting.result(10)
    assert stage.ask(q="x").status_code == 200


def test_an_answer_that_takes_too_long_is_a_503_and_leaves_the_queue(stage: Stage) -> None:
    stage.queue.timeout = 0.05
    stage.translator.open.clear()
    assert stage.ask(q="first").status_code == 503
    assert stage.ask(q="second").status_code == 503
    stage.translator.open.set()
    stage.queue.timeout = 10
    assert stage.ask(q="third").status_code == 200
    assert "second" not in stage.translator.lines


def test_health_and_status_are_503_until_a_model_is_loaded_and_again_when_the_thread_has_ended(stage: Stage) -> None:
    health, status = stage.client.get("/health"), stage.client.get("/status")
    assert (health.status_code, health.json()) == (200, {"status": "ok"})  # LibreTranslate's body, and no more
    assert (status.status_code, status.json()["status"]) == (200, "ok")
    assert status.json()["model"]["version"] == "3"
    assert status.json()["model"]["run_id"] == "run1"

    stage.trouble[0] = "version 4: broken"
    assert stage.client.get("/status").json()["reload_error"] == "version 4: broken"
    assert stage.client.get("/health").json() == {"status": "ok"}

    model, stage.current[0] = stage.current[0], None
    health, status = stage.client.get("/health"), stage.client.get("/status")
    assert (health.status_code, health.json()) == (503, {"status": "loading"})
    assert (status.status_code, status.json()["status"]) == (503, "loading")
    assert stage.ask(q="x").status_code == 503
    assert stage.client.get("/languages").status_code == 503

    stage.current[0] = model
    stage.batcher.stop(10)
    assert (stage.client.get("/health").status_code, stage.client.get("/status").status_code) == (503, 503)
    assert stage.ask(q="x").status_code == 503


def test_a_client_that_has_left_frees_its_place_and_is_not_translated(stage: Stage) -> None:
    stage.translator.open.clear()
    left = asyncio.Event()
    body = json.dumps({"q": ["gone"] * 4, "source": "en", "target": "de"}).encode()
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    async def ask_and_leave() -> None:
        scope = {"type": "http", "method": "POST", "path": "/translate", "headers": [], "query_string": b""}
        asking = asyncio.ensure_future(stage.client.app(scope, receive, send))
        while stage.batcher.queued < 4:
            await asyncio.sleep(0.01)
        left.set()
        await asyncio.wait_for(asking, 10)

    model = stage.current[0]
    assert model is not None
    first = stage.batcher.submit(model, ["first"])
    while stage.batcher.queued:
        time.sleep(0.01)
    asyncio.run(ask_and_leave())
    assert stage.batcher.queued == 0  # while the thread is still busy with the first
    stage.translator.open.set()
    first.result(10)
    assert stage.ask(q="then").status_code == 200
    assert stage.translator.lines == ["first", "then"]


def test_a_body_that_does_not_come_is_a_408(stage: Stage) -> None:
    stage.endpoint.receive_timeout = 0.05
    client = Client(create_app(stage.endpoint))

    async def dripping() -> AsyncIterator[bytes]:
        yield b'{"q": "x'
        await asyncio.sleep(60)

    answer = client.post("/translate", content=dripping())
    assert (answer.status_code, answer.headers["connection"]) == (408, "close")
    assert "did not come in 0.05 s" in answer.json()["error"]


def test_no_log_holds_what_a_user_sent(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.endpoint.access_log = True
    client = Client(create_app(stage.endpoint))

    message = "secret\x1b[31m\n"

    def broken(*_: object) -> None:
        raise ValueError(message)

    caplog.set_level(logging.INFO)
    client.post("/translate", params={"q": "secret", "source": "en", "target": "de", "api_key": "secret"})
    client.get("/vectors/secret?api_key=secret")
    client.request("SECRET", "/secret")
    stage.translator.one = broken  # type: ignore[method-assign, assignment]
    assert stage.ask(q="secret").status_code == 500
    stage.queue.current = broken  # type: ignore[assignment]
    answer = client.post("/detect", json={"q": "secret"})
    assert (answer.status_code, answer.json()) == (500, {"error": "Internal error"})
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("services.")]
    asked = [line.rsplit(" ", 3)[0] for line in lines if line.startswith("127.0.0.1 ")]
    assert asked == [
        "127.0.0.1 POST /translate",
        "127.0.0.1 GET /vectors/{word:path}",
        "127.0.0.1 ? (no such route)",
        "127.0.0.1 POST /detect",
    ]
    assert any(line.startswith("POST /detect failed: ValueError\n") for line in lines)
    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "asyncio"))]  # the client's
    written = "".join(map(logging.Formatter().format, ours))
    assert "secret" not in written
    assert "\x1b" not in written


@pytest.mark.parametrize(
    ("told", "written"), [("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::1"), ("10.0.0.1 GET /secret 200", "-")]
)
def test_the_log_names_a_client_by_address_or_not_at_all(
    stage: Stage, caplog: pytest.LogCaptureFixture, told: str, written: str
) -> None:
    """uvicorn believes the header X-Forwarded-For of a proxy on this machine, whatever stands in it."""
    stage.endpoint.access_log = True
    transport = httpx.ASGITransport(create_app(stage.endpoint), client=(told, 0))

    async def ask() -> None:
        async with httpx.AsyncClient(transport=transport, base_url="http://endpoint") as client:
            await client.get("/health")

    caplog.set_level(logging.INFO, "services")
    asyncio.run(ask())
    assert [one.getMessage().partition(" GET ")[0] for one in caplog.records if " GET " in one.getMessage()][
        -1
    ] == written


def test_a_new_model_answers_from_the_next_request_on(stage: Stage) -> None:
    new = Shouting(mark="!")
    new.open.set()
    stage.current[0] = served(new, "4")
    answer = stage.ask(q="x")
    assert (answer.json()["translatedText"], answer.headers["X-Model-Version"]) == ("X!", "4")
