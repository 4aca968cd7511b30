"""The HTTP interface, over a translator that upper-cases."""

import asyncio
import json
import logging
import time
from typing import Any

import pytest

from dragoman.services.endpoint.app import create_app
from tests.services.endpoint.conftest import Client, Shouting, Stage, served, submit


def test_a_string_is_answered_with_a_string_and_a_list_with_a_list(stage: Stage) -> None:
    assert stage.ask(q="a dog").json() == {"translatedText": "A DOG"}
    assert stage.ask(q=["a", "b"]).json() == {"translatedText": ["A", "B"]}


def test_the_answers_headers_name_model_version_run_and_manifest(stage: Stage) -> None:
    headers = stage.ask(q="x").headers
    names = ("X-Model-Name", "X-Model-Version", "X-Run-Id", "X-Manifest-Hash")
    assert [headers[name] for name in names] == ["demo", "3", "run1", "abc"]


def test_text_is_translated_by_sentences_and_keeps_its_line_breaks(stage: Stage) -> None:
    assert (
        stage.ask(q="One dog. Two dogs.\n\n Three cats.").json()["translatedText"]
        == "ONE DOG. TWO DOGS.\n\n THREE CATS."
    )
    assert stage.translator.lines == ["One dog.", "Two dogs.", "Three cats."]
    assert stage.ask(q=" \n").json()["translatedText"] == " \n"


def test_html_keeps_its_markup_and_a_report_says_what_was_kept(stage: Stage) -> None:
    body = stage.ask(q="<p>One <b>dog</b>.</p><pre>x</pre> See {name} &amp; go.", format="html", report=True).json()
    assert body["translatedText"] == "<p>ONE <b>DOG</b>.</p><pre>x</pre> SEE {name} &amp; GO."
    assert body["report"]["complete"] is True
    assert [(one["text"], one["how"]) for one in body["report"]["placeholders"]] == [
        ("<pre>x</pre>", "copied"),
        ("{name}", "stand-in"),
    ]
    assert [(one["text"], one["how"]) for one in body["report"]["tags"]] == [("<b>", "guessed")]
    assert "report" not in stage.ask(q="Go now.").json()
    assert stage.ask(q=["1", "😀"], report="true").json()["translatedText"] == ["1", "😀"]
    assert stage.translator.lines[-1] == "Go now."  # what has no letter is not given to the model


def test_alternatives_are_given_when_asked_for(stage: Stage) -> None:
    assert stage.ask(q="Go. See.", alternatives=2).json() == {
        "translatedText": "GO. SEE.",
        "alternatives": ["GO.#1 SEE.#1", "GO.#2 SEE.#2"],
    }
    assert stage.ask(q=["Go."], alternatives=1).json() == {"translatedText": ["GO."], "alternatives": [["GO.#1"]]}


def test_auto_names_the_language_that_was_found(stage: Stage) -> None:
    answer = stage.ask(q="The dog sleeps in the house.", source="auto").json()
    assert answer["translatedText"] == "THE DOG SLEEPS IN THE HOUSE."
    assert answer["detectedLanguage"]["language"] == "en"
    assert answer["detectedLanguage"]["confidence"] > 90
    assert stage.client.post("/detect", data={"q": "42"}).json() == [{"language": "en", "confidence": 0.0}]
    found = stage.client.post("/detect", data={"q": "Der Hund schläft im Haus."}).json()
    assert [one["language"] for one in found] == ["de", "en"]
    assert 99 < sum(one["confidence"] for one in found) < 101


def test_the_openapi_document_is_where_libretranslate_has_it(stage: Stage) -> None:
    spec = stage.client.get("/spec")
    document = stage.client.get("/openapi.json").json()
    document["info"]["title"] = "LibreTranslate"  # by which its clients know an instance
    assert (spec.status_code, spec.json()) == (200, document)
    assert {"/translate", "/detect", "/languages", "/health", "/frontend/settings"} <= spec.json()["paths"].keys()


def test_unknown_paths_and_methods_are_errors_in_json(stage: Stage) -> None:
    for path, key in (("/nowhere", "error"), ("/v2/nowhere", "message")):
        answer = stage.client.get(path)
        assert (answer.status_code, list(answer.json())) == (404, [key])
    assert stage.client.get("/translate").status_code == 405


def test_a_full_queue_is_a_429_with_retry_after(stage: Stage) -> None:
    stage.translator.open.clear()
    model = stage.current[0]
    assert model is not None
    submit(stage.batcher, model, ["first"])
    while stage.batcher.queued:
        time.sleep(0.01)
    waiting = submit(stage.batcher, model, ["x"] * 8)
    answer = stage.ask(q="x")
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    stage.translator.open.set()
    waiting.result(60)
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
    stage.batcher.stop(60)
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
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/translate",
            "headers": [(b"host", b"127.0.0.1")],
            "query_string": b"",
        }
        asking = asyncio.ensure_future(stage.client.app(scope, receive, send))
        while stage.batcher.queued < 4:
            await asyncio.sleep(0.01)
        left.set()
        await asyncio.wait_for(asking, 60)

    model = stage.current[0]
    assert model is not None
    first = submit(stage.batcher, model, ["first"])
    while stage.batcher.queued:
        time.sleep(0.01)
    asyncio.run(ask_and_leave())
    assert stage.batcher.queued == 0  # while the thread is still busy with the first
    stage.translator.open.set()
    first.result(60)
    assert stage.ask(q="Then go.").status_code == 200
    assert stage.translator.lines == ["first", "Then go."]


def test_no_log_holds_what_a_user_sent(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.endpoint.config.access_log = True
    client = Client(create_app(stage.endpoint))

    message = "secret\x1b[31m\n"

    def broken(*_: object) -> None:
        raise ValueError(message)

    caplog.set_level(logging.INFO)
    client.post("/translate", params={"q": "secret", "source": "en", "target": "de", "api_key": "secret"})
    client.get("/download_file/secret?api_key=secret")
    client.request("SECRET", "/secret")
    stage.translator.one = broken  # type: ignore[method-assign, assignment]
    assert stage.ask(q="secret").status_code == 500
    stage.queue.current = broken  # type: ignore[assignment]
    answer = client.post("/detect", json={"q": "secret"})
    assert (answer.status_code, answer.json()) == (500, {"error": "Internal error"})
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("dragoman.services.")]
    asked = [line.rsplit(" ", 3)[0] for line in lines if line.startswith("127.0.0.1 ")]
    assert asked == [
        "127.0.0.1 POST /translate",
        "127.0.0.1 GET /download_file/{name}",
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
    """uvicorn believes the header X-Forwarded-For of a named proxy, whatever stands in it."""
    stage.endpoint.config.access_log = True
    caplog.set_level(logging.INFO, "dragoman.services")
    Client(create_app(stage.endpoint), told).get("/health")
    assert [one.getMessage().partition(" GET ")[0] for one in caplog.records if " GET " in one.getMessage()][
        -1
    ] == written


def test_an_answer_says_what_was_lost(stage: Stage) -> None:
    assert "losses" not in stage.ask(q="Go. See.").json()
    copied = stage.ask(q="A 犬. Go. See 犬.", report=True).json()
    assert copied["translatedText"] == "A 犬. GO. SEE 犬."
    assert [word["text"] for word in copied["report"]["words"]] == ["犬", "犬"]
    cut = stage.ask(q=["Go.", "x!long"]).json()["losses"]
    assert cut == [{}, {"truncated": 1, "warnings": [cut[1]["warnings"][0]]}]
    assert "were cut to the model's positions" in cut[1]["warnings"][0]
    value = stage.endpoint.metrics.telemetry.registry.get_sample_value
    found = {kind: value("dragoman_lost_sentences_total", {"what": kind}) for kind in ("truncated", "unknown", "loops")}
    assert found == {"truncated": 1, "unknown": 0, "loops": 0}


def test_a_new_model_answers_from_the_next_request_on(stage: Stage) -> None:
    new = Shouting(mark="!")
    new.open.set()
    stage.current[0] = served(new, "4")
    answer = stage.ask(q="x.")
    assert (answer.json()["translatedText"], answer.headers["X-Model-Version"]) == ("X.!", "4")


def test_head_says_what_get_says_without_the_body(stage: Stage) -> None:
    for path in ("/health", "/status", "/models", "/languages", "/metrics", "/spec", "/docs", "/ping", "/version"):
        head, whole = stage.client.request("HEAD", path), stage.client.get(path)
        assert (head.status_code, head.content, whole.status_code) == (200, b"", 200), path
        assert head.headers["content-type"] == whole.headers["content-type"]
    page = stage.client.request("HEAD", "/", headers={"Accept": "text/html"})
    assert (page.status_code, page.content) == (200, b"")
    stage.current[0] = None
    assert stage.client.request("HEAD", "/health").status_code == 503
    assert stage.client.request("HEAD", "/translate").status_code == 405
