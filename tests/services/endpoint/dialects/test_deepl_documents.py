"""DeepL's documents: upload, status, download, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.glossaries import Dictionary, Glossaries
from dragoman.services.endpoint.key_store import KeyStore
from tests.services.endpoint.conftest import Stage

TEXT = b"The dog sees.\n\nThe man reads.\n"
PAIR = {"source_lang": "EN", "target_lang": "DE"}


@pytest.fixture
def documents(stage: Stage, store: KeyStore, tmp_path: Path) -> Iterator[Documents]:
    stage.endpoint.config.check_language = False
    stage.endpoint.limits.document = 10_000
    stage.endpoint.glossaries = Glossaries(store)
    made = Documents(stage.endpoint, tmp_path / "documents")
    stage.client.app = create_app(stage.endpoint, made)
    yield made
    made.stop()


def upload(stage: Stage, name: str = "a.txt", content: bytes = TEXT, **values: Any) -> Any:
    data = {name: value for name, value in {**PAIR, **values}.items() if value is not None}
    return stage.client.post("/v2/document", data=data, files={"file": (name, content)})


def status(stage: Stage, handle: Any, path: str = "") -> Any:
    return stage.client.post(
        f"/v2/document/{handle['document_id']}{path}", json={"document_key": handle["document_key"]}
    )


def test_a_document_goes_from_queued_to_done_and_is_downloaded_once(stage: Stage, documents: Documents) -> None:
    handle = upload(stage, target_lang="de-DE").json()
    assert [len(handle[name]) for name in ("document_id", "document_key")] == [32, 64]
    assert status(stage, handle).json() == {"document_id": handle["document_id"], "status": "queued"}
    assert status(stage, handle, "/result").status_code == 503
    assert documents.work()
    done = {"document_id": handle["document_id"], "status": "done", "seconds_remaining": 0, "billed_characters": 30}
    assert status(stage, handle).json() == done
    query = f"?document_key={handle['document_key']}"
    assert stage.client.get(f"/v2/document/{handle['document_id']}{query}").json() == done
    found = status(stage, handle, "/result")
    assert found.content == TEXT.upper() and found.headers["content-disposition"].endswith("a_de-DE.txt")
    assert status(stage, handle, "/result").status_code == 404


def test_the_time_that_is_left_is_said_while_it_is_translated(stage: Stage, documents: Documents) -> None:
    handle = upload(stage).json()
    job = documents.jobs.load(handle["document_id"])
    assert job is not None
    job.status, job.began, job.share = "translating", documents.now() - 30, 0.75
    documents.jobs.save(handle["document_id"], job)
    found = status(stage, handle).json()
    assert (found["status"], found["seconds_remaining"]) == ("translating", 10)
    job.share = 0.0
    documents.jobs.save(handle["document_id"], job)
    assert status(stage, handle).json()["seconds_remaining"] == 30


@pytest.mark.usefixtures("documents")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"target_lang": None}, "Parameter 'target_lang' not specified."),
        ({"target_lang": "XX"}, "Value for 'target_lang' not supported."),
        ({"source_lang": "DE"}, "Value for 'source_lang' not supported."),
        ({"formality": "less"}, "Target language 'DE' doesn't support formality."),
        ({"style_id": "x"}, "Value for 'style_id' not supported: this server has no style rules."),
        (
            {"output_format": "html"},
            "Value for 'output_format' not supported: a .txt file is translated as a .txt file.",
        ),
        ({"source_lang": None, "glossary_id": "x"}, "Use of a glossary requires the source_lang parameter"),
        ({"name": "a.exe"}, "Invalid file: .exe is not supported"),
        ({"name": "a.docx"}, "Invalid file: "),
    ],
)
def test_what_cannot_be_done_is_refused(stage: Stage, values: dict[str, Any], message: str) -> None:
    answer = upload(stage, **values)
    assert answer.status_code == 400 and answer.json()["message"].startswith(message), answer.text


@pytest.mark.usefixtures("documents")
def test_a_form_without_a_file_is_refused(stage: Stage) -> None:
    answer = stage.client.post("/v2/document", data={"target_lang": "DE"}, files={"other": ("a", b"")})
    assert (answer.status_code, answer.json()) == (400, {"message": "Invalid file data."})


@pytest.mark.usefixtures("documents")
def test_wishes_are_taken_and_named(stage: Stage) -> None:
    answer = upload(stage, formality="prefer_less", enable_document_minification="true", output_format="TXT")
    assert answer.status_code == 200
    assert answer.headers["X-Ignored-Parameters"] == "enable_document_minification, formality"
    assert "X-Ignored-Parameters" not in upload(stage).headers


def test_the_glossaries_of_a_document_are_applied_in_order(stage: Stage, documents: Documents) -> None:
    store = stage.endpoint.glossaries
    terms = ({"dog": "Hündchen"}, {"dog": "Hund", "man": "Herr"})
    ids = [store.create("", "g", [Dictionary("en", "de", one)]).id for one in terms]
    handle = upload(stage, glossary_ids=",".join(ids), target_lang="DE").json()
    assert documents.work()
    text = status(stage, handle, "/result").text
    assert "Hündchen" in text and "Herr" in text and "Hund " not in text
    assert upload(stage, glossary_id="00000000-0000-0000-0000-000000000000").status_code == 404


def test_a_text_in_the_target_language_is_an_error_of_the_job(stage: Stage, documents: Documents) -> None:
    handle = upload(stage, content=b"Der Hund sieht den Mann im Garten.", source_lang=None).json()
    assert documents.work()
    found = status(stage, handle).json()
    assert found["status"] == "error" and found["error_message"] == "Source and target language are equal."
    assert found["message"] == found["error_message"]
    assert status(stage, handle, "/result").status_code == 400


def test_a_document_is_its_owners_and_paid(stage: Stage, documents: Documents, store: KeyStore) -> None:
    handle = upload(stage).json()
    assert status(stage, {**handle, "document_key": "AB" * 32}).status_code == 404
    assert stage.client.post(f"/v2/document/{handle['document_id']}").status_code == 400
    secret = store.add("small", characters=40, languages=["en", "de"])
    stage.read_keys(store)
    assert upload(stage).status_code == 403
    assert upload(stage, auth_key=secret).status_code == 200
    answer = upload(stage, auth_key=secret)
    assert (answer.status_code, list(answer.json())) == (456, ["message"])


def test_a_server_without_documents_says_so(stage: Stage) -> None:
    answer = upload(stage)
    assert answer.status_code == 403 and "disabled" in answer.json()["message"]


def test_the_owner_is_told_that_there_was_nothing_to_translate(stage: Stage, documents: Documents) -> None:
    handle = upload(stage, "a.json", b'{"size": 42}').json()
    assert documents.work()
    assert status(stage, handle).json()["notes"] == ["no text to translate was found in it"]
