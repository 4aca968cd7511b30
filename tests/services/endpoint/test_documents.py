"""Documents as jobs: asked over HTTP, kept over a restart, bounded, deleted."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.documents.jobs import KEPT, Handle
from dragoman.services.endpoint.documents.patient_queue import pieces
from dragoman.services.endpoint.documents.reading import Reading
from dragoman.services.endpoint.documents.reading_worker import GROUP, groups
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.keys import Key
from dragoman.services.endpoint.memory import Memory
from dragoman.services.endpoint.memory_store import MemoryStore, Unit
from dragoman.services.endpoint.translation import Question
from dragoman.services.texts.documents.document import Passage

TEXT = b"The dog sees.\n\nThe man reads.\n"
QUESTION = Question((), "en", "de")


@dataclass
class Clock:
    time: float = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def documents(stage: Any, tmp_path: Path, clock: Clock) -> Iterator[Documents]:
    stage.endpoint.config.check_language = False
    made = Documents(stage.endpoint, tmp_path / "documents", clock)
    yield made
    made.stop()


@pytest.fixture
def client(stage: Any, documents: Documents) -> Any:
    stage.client.app = create_app(stage.endpoint, documents)
    return stage.client


def upload(client: Any, name: str, content: bytes, **values: str) -> Any:
    data = {"source": "en", "target": "de", **values}
    return client.post("/translate_file", data=data, files={"file": (name, content)})


def refused(documents: Documents, name: str, content: bytes, question: Question = QUESTION) -> int:
    with pytest.raises(HTTPException) as problem:
        documents.submit(name, content, question)
    return problem.value.status_code


def test_a_file_is_translated_and_downloaded(client: Any, documents: Documents) -> None:
    documents.start()
    answer = upload(client, "my file.txt", TEXT)
    assert answer.status_code == 200, answer.text
    address = answer.json()["translatedFileUrl"]
    assert address.startswith("http://endpoint/download_file/") and address.endswith(".my%20file_de.txt")
    found = client.get(address.removeprefix("http://endpoint"))
    assert found.content == TEXT.upper() and found.headers["content-type"].startswith("text/plain")
    assert "my%20file_de.txt" in found.headers["content-disposition"]


def test_the_settings_name_the_formats(client: Any, stage: Any) -> None:
    settings = client.get("/frontend/settings").json()
    assert settings["filesTranslation"] and ".docx" in settings["supportedFilesFormat"]
    stage.client.app = create_app(stage.endpoint)
    settings = client.get("/frontend/settings").json()
    assert not settings["filesTranslation"] and settings["supportedFilesFormat"] == []
    assert upload(client, "a.txt", TEXT).status_code == 403


@pytest.mark.parametrize(
    ("name", "content", "values"),
    [
        ("a.exe", b"MZ", {}),
        ("a.docx", b"PK no", {}),
        ("a.txt", "Käse".encode("latin-1"), {}),
        ("a.txt", TEXT, {"target": "fr"}),
        ("a.txt", TEXT, {"target": "!"}),
        ("../../a", TEXT, {}),
    ],
)
def test_wrong_files_are_400(client: Any, name: str, content: bytes, values: dict[str, str]) -> None:
    answer = upload(client, name, content, **values)
    assert answer.status_code == 400 and answer.json()["error"]
    assert client.post("/translate_file", data={"source": "en", "target": "de"}).status_code == 400


@pytest.mark.parametrize("closed", [True, False])
def test_a_page_of_100_000_nested_elements_is_a_400_before_it_is_a_job(
    client: Any, documents: Documents, closed: bool
) -> None:
    page = "<p>The dog.</p>" + "<b>" * 100_000 + "dog" + "</b>" * 100_000 * closed
    answer = upload(client, "a.html", page.encode())  # no thread translates: a job would wait for ever
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": "Invalid file: HTML: elements are nested deeper than 100"},
    )
    assert not list(documents.jobs)


def test_a_job_goes_from_queued_to_done_and_is_deleted_with_its_download(documents: Documents) -> None:
    handle = documents.submit("../a.txt", TEXT, QUESTION)
    assert documents.state(*handle)[:4] == ("queued", None, 30, "")
    assert documents.work() and not documents.work()
    assert documents.state(*handle).status == "done" and documents.state(*handle).name == "a_de.txt"
    assert documents.result(*handle, keep=True).content == TEXT.upper()
    assert documents.result(*handle).content == TEXT.upper()
    with pytest.raises(HTTPException):
        documents.state(*handle)


def test_a_job_is_its_owners(documents: Documents) -> None:
    handle = documents.submit("a.txt", TEXT, QUESTION)
    for wrong in (Handle(handle.id, "x"), Handle("../" + handle.id, handle.key), Handle("", ""), Handle("é" * 32, "é")):
        with pytest.raises(HTTPException) as problem:
            documents.state(*wrong)
        assert problem.value.status_code == 404


def test_a_job_that_was_running_begins_again_after_a_restart(stage: Any, documents: Documents) -> None:
    handle = documents.submit("a.txt", TEXT, QUESTION)
    stage.translator.open.clear()  # the model takes its time
    documents.start()
    wait_for_its_turn(documents, handle)
    documents.stop()
    assert documents.state(*handle).status == "translating"
    stage.translator.open.set()
    stage.endpoint.reading = Reading()
    again = Documents(stage.endpoint, documents.folder, documents.now)
    assert again.work()
    assert again.result(*handle).content == TEXT.upper()
    again.stop()


def test_a_job_in_work_is_not_begun_twice(documents: Documents, stage: Any) -> None:
    handle = documents.submit("a.txt", TEXT, QUESTION)
    stage.translator.open.clear()
    documents.start()
    wait_for_its_turn(documents, handle)
    assert not Documents(stage.endpoint, documents.folder, documents.now).work()
    stage.translator.open.set()


def test_what_fails_says_why_and_is_not_paid(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    back: list[int] = []
    monkeypatch.setattr(documents.endpoint.keys, "give_back", lambda _key, characters: back.append(characters))
    handle = documents.submit("a.txt", b"Something !bad here.", QUESTION)
    assert documents.work()
    state = documents.state(*handle)
    assert state.status == "error" and "cannot" in state.error and back == [20]
    with pytest.raises(HTTPException, match="cannot"):
        documents.result(*handle)


def test_a_clock_that_jumps_deletes_no_document(stage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.endpoint.config.check_language = False
    documents = Documents(stage.endpoint, tmp_path / "documents")
    handle = documents.submit("a.txt", TEXT, QUESTION)
    now = time.time()
    for jump in (30 * 86400, -30 * 86400):
        monkeypatch.setattr(time, "time", lambda jump=jump: now + jump)
        documents.jobs.clean()
        assert documents.state(*handle).status == "queued"
    documents.stop()


def test_jobs_are_deleted_after_an_hour_and_bounded(documents: Documents, stage: Any, clock: Clock) -> None:
    stage.endpoint.limits.documents = 2
    handle = documents.submit("a.txt", TEXT, QUESTION)
    documents.work()
    documents.submit("b.txt", TEXT, QUESTION)
    assert refused(documents, "c.txt", TEXT) == 429
    clock.time += KEPT + 1
    documents.jobs.clean()
    with pytest.raises(HTTPException):
        documents.result(*handle)
    documents.submit("c.txt", TEXT, QUESTION)
    stage.endpoint.limits.document = 10
    assert refused(documents, "d.txt", TEXT) == 413


def test_a_long_document_waits_in_pieces(documents: Documents, stage: Any) -> None:
    """The queue holds 8 lines; the document has more than a hundred."""
    content = b"The dog sees the man in the old garden.\n\n" * 150
    handle = documents.submit("a.txt", content, QUESTION)
    stage.batcher.capacity = 64
    assert documents.work()
    assert documents.result(*handle).content == content.upper()


def test_a_job_waits_for_a_model_that_is_still_loading(documents: Documents, stage: Any) -> None:
    handle = documents.submit("a.txt", TEXT, QUESTION)
    model, stage.current[0] = stage.current[0], None
    documents.start()
    assert wait(documents, handle, 0.3) == "queued"
    stage.current[0] = model
    documents.worker.wake()
    assert wait(documents, handle, 10.0) == "done"


def test_a_detected_language_must_be_the_keys(documents: Documents) -> None:
    key = Key("anna", "digest", languages=("de", "fr"))
    text = b"The dog sees the man in the garden."
    handle = documents.submit("a.txt", text, Question((), None, "de", key=key))
    assert documents.work()
    assert documents.state(*handle)[0::3] == ("error", "This API key is not for en")


@pytest.mark.parametrize(("source", "target"), [("DE", "de_DE"), ("ger", "deu"), ("de-AT", "de-CH")])
def test_a_document_in_its_target_language_is_refused(documents: Documents, source: str, target: str) -> None:
    with pytest.raises(HTTPException, match="Source and target language are equal"):
        documents.submit("a.txt", TEXT, Question((), source, target))


def test_passages_are_grouped_and_lines_cut_in_pieces() -> None:
    passages = [Passage("x" * size) for size in (GROUP - 1, 1, 1, GROUP + 5, 2)]
    assert [len(group) for group in groups(passages)] == [2, 1, 1, 1]
    assert list(groups([])) == []
    lines = ["a b c"] * 130
    assert [len(piece) for piece in pieces(lines, 64)] == [64, 64, 2]
    assert [len(piece) for piece in pieces(["word " * 900] * 3, 64)] == [1, 1, 1]
    assert list(pieces([], 64)) == []


def wait_for_its_turn(documents: Documents, handle: Handle) -> None:
    """Waits until the job is translated."""
    while documents.state(*handle).status != "translating":
        time.sleep(0.02)


def wait(documents: Documents, handle: Handle, seconds: float) -> str:
    """Returns the job's status at its end, or after so many seconds."""
    end = time.monotonic() + seconds
    while (found := documents.state(*handle).status) in ("queued", "translating") and time.monotonic() < end:
        time.sleep(0.02)
    return found


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("a.txt", "Good morning!\n\nThe man.\n", "Guten & Morgen!\n\nTHE MAN.\n"),
        (
            "a.html",
            "<p>Good morning!</p><p><b>Good</b> morning!</p>",
            "<p>Guten &amp; Morgen!</p><p><b>GOOD</b> MORNING!</p>",
        ),
        ("a.md", "# Good morning!\n\n- Good  morning!\n", "# Guten & Morgen!\n\n- Guten & Morgen!\n"),
    ],
)
def test_known_translations_answer_for_the_model(
    documents: Documents, stage: Any, store: KeyStore, name: str, content: str, wanted: str
) -> None:
    units = MemoryStore(store)
    units.put([Unit("en", "de", "Good morning!", "Guten & Morgen!")], "a.tmx")
    units.put([Unit("en", "de", "The man.", "somebody's")], "b.tmx", owner="somebody")
    stage.endpoint.memory = Memory(units)
    handle = documents.submit(name, content.encode(), QUESTION)
    assert documents.work()
    assert documents.result(*handle).content.decode() == wanted
