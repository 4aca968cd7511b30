"""Documents over HTTP: each is one request, translated in a child process, kept until it is downloaded."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.documents import documents as module
from dragoman.services.endpoint.documents import worker
from dragoman.services.endpoint.documents.documents import KEPT, Documents
from dragoman.services.endpoint.endpoint import TermsFile
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.subprocesses.worker import answer_or_refuse

TEXT = b"The dog sees.\n\nThe man reads.\n"
STUB = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"asks": {"characters": 7, "sample": ""}}), flush=True)
    sys.stdin.readline()
    while WAIT:
        pass
    sys.exit(1)
"""


@pytest.fixture
def documents(stage: Any, tmp_path: Path) -> Iterator[Documents]:
    stage.endpoint.config.check_language = False
    made = Documents(stage.endpoint, tmp_path / "documents")
    yield made
    made.close()


@pytest.fixture
def client(stage: Any, documents: Documents) -> Any:
    stage.client.app = create_app(stage.endpoint, documents)
    return stage.client


def upload(client: Any, name: str, content: bytes, **values: str) -> Any:
    data = {"source": "en", "target": "de", **values}
    return client.post("/translate_file", data=data, files={"file": (name, content)})


def download(client: Any, answer: Any) -> Any:
    assert answer.status_code == 200, answer.text
    return client.get(answer.json()["translatedFileUrl"].removeprefix("http://endpoint"))


def stored(documents: Documents) -> list[Path]:
    assert documents.folder is not None
    return list(documents.folder.iterdir()) if documents.folder.exists() else []


def test_a_file_is_translated_and_downloaded(client: Any) -> None:
    answer = upload(client, "my file.txt", TEXT)
    address = answer.json()["translatedFileUrl"]
    assert address.startswith("http://127.0.0.1/download_file/") and address.endswith(".my%20file_de.txt")
    found = download(client, answer)
    assert found.content == TEXT.upper() and found.headers["content-type"].startswith("text/plain")
    assert "my%20file_de.txt" in found.headers["content-disposition"]
    page = upload(client, "a.html", b"<p>The <b>dog</b> sleeps.</p>", source="auto")
    assert download(client, page).content == b"<p>THE <b>DOG</b> SLEEPS.</p>"


def test_a_document_gets_the_servers_terms(client: Any, stage: Any, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("dog\tHund\n")
    stage.endpoint.terms = TermsFile(str(tmp_path / "terms.tsv"))
    assert download(client, upload(client, "a.txt", b"The dog sees a man.")).content == b"THE Hund SEES A MAN."


def test_the_settings_name_the_formats(client: Any, stage: Any) -> None:
    settings = client.get("/frontend/settings").json()
    assert settings["filesTranslation"] and ".docx" in settings["supportedFilesFormat"]
    stage.client.app = create_app(stage.endpoint)
    settings = client.get("/frontend/settings").json()
    assert not settings["filesTranslation"] and settings["supportedFilesFormat"] == []
    assert upload(client, "a.txt", TEXT).status_code == 403


@pytest.mark.parametrize(
    ("name", "content", "values", "message"),
    [
        ("a.exe", b"MZ", {}, ".exe is not supported"),
        ("a.docx", b"PK no", {}, "Cannot translate document: "),
        ("a.txt", "Käse".encode("latin-1"), {}, "Cannot translate document: "),
        ("a.txt", TEXT, {"target": "fr"}, "fr is not supported"),
        ("a.txt", TEXT, {"target": "!"}, "target must be a language code"),
        ("a.txt", TEXT, {"source": "ger", "target": "deu"}, "Source and target language are equal."),
        ("../../a", TEXT, {}, "a name without an ending is not supported"),
        ("a.html", b"<b>" * 100_000 + b"dog", {}, "HTML: elements are nested deeper than 100"),
    ],
)
def test_wrong_files_are_400(
    client: Any, documents: Documents, name: str, content: bytes, values: dict[str, str], message: str
) -> None:
    answer = upload(client, name, content, **values)
    assert answer.status_code == 400 and message in answer.json()["error"]
    assert client.post("/translate_file", data={"source": "en", "target": "de"}).status_code == 400
    assert not stored(documents)


def test_an_address_that_was_never_given_is_a_404(client: Any, documents: Documents) -> None:
    answer = upload(client, "a.txt", TEXT)
    (path,) = stored(documents)
    assert len(path.stem) == 64 and path.suffix == ".txt" and str(path.stem) in answer.text
    for name in ("x.a.txt", f"{path.stem}.a.html", f"{path.stem}", f"..%2f{path.stem}.txt", f"{'é' * 64}.a.txt"):
        assert client.get(f"/download_file/{name}").status_code == 404, name


def test_a_key_pays_for_a_document_that_is_translated_and_for_no_other(
    client: Any, stage: Any, store: KeyStore
) -> None:
    secret = store.add("anna", characters=50)
    stage.read_keys(store)
    key = stage.endpoint.keys.find(secret)
    assert upload(client, "a.txt", b"Something !bad here.", api_key=secret).status_code == 500
    assert stage.endpoint.keys.usage(key) == (0, 50)
    assert upload(client, "a.txt", TEXT, api_key=secret).status_code == 200
    assert stage.endpoint.keys.usage(key)[0] == 30
    refused = upload(client, "a.txt", TEXT, api_key=secret)
    assert (refused.status_code, refused.json()["error"][:14]) == (429, "Quota exceeded")
    assert upload(client, "a.txt", TEXT).status_code == 403


def test_translations_wait_an_hour_for_their_download_and_are_bounded(
    client: Any, documents: Documents, stage: Any
) -> None:
    def is_there(answer: Any) -> bool:
        url = answer.json()["translatedFileUrl"].removeprefix("http://endpoint")
        return client.get(url).status_code == 200

    stage.endpoint.limits.documents = 2
    first = upload(client, "a.txt", TEXT)
    (path,) = stored(documents)
    os.utime(path, (time.time() - KEPT / 2,) * 2)
    second, third = upload(client, "b.txt", TEXT), upload(client, "c.txt", TEXT)
    assert [is_there(answer) for answer in (first, second, third)] == [False, True, True]
    for path in stored(documents):
        os.utime(path, (time.time() - KEPT - 1,) * 2)
    assert is_there(upload(client, "d.txt", TEXT)) and not is_there(third)
    stage.endpoint.limits.document = 10
    assert upload(client, "d.txt", TEXT).status_code == 413


def test_a_long_document_waits_in_pieces(client: Any, stage: Any) -> None:
    """The queue holds 8 lines; the document has more than a hundred."""
    content = b"The dog sees the man in the old garden.\n\n" * 150
    assert download(client, upload(client, "a.txt", content)).content == content.upper()


@pytest.mark.parametrize(("waits", "status", "message"), [(0, 503, "the process has ended"), (1, 503, "no answer in")])
def test_a_child_that_dies_or_takes_too_long_costs_its_sender_an_answer(
    client: Any, documents: Documents, stage: Any, waits: int, status: int, message: str
) -> None:
    real, stage.endpoint.config.document_timeout = documents.pool.command, 60.0 if not waits else 2.0
    documents.pool.command = [sys.executable, "-c", STUB.replace("WAIT", str(waits))]
    answer = upload(client, "a.txt", TEXT)
    assert (answer.status_code, message in answer.json()["error"]) == (status, True), answer.text
    assert answer.headers.get("Retry-After", "60") == "60" and not documents.pool._free
    documents.pool.command, stage.endpoint.config.document_timeout = real, 60.0
    assert upload(client, "a.txt", TEXT).status_code == 200


def test_a_document_beyond_its_time_of_a_processor_is_refused(client: Any, documents: Documents) -> None:
    code = "import resource, signal; from dragoman.services.subprocesses import worker as w\n"
    code += "def work(question, _):\n    while True: pass\n"
    documents.pool.command = [sys.executable, "-c", f"{code}w.serve(work, 'it', 0.2)"]
    answer = upload(client, "a.txt", TEXT)
    assert (answer.status_code, "s of a processor" in answer.json()["error"]) == (400, True), answer.text


def test_a_client_that_leaves_ends_its_documents_child(documents: Documents, stage: Any) -> None:
    stage.translator.open.clear()

    async def leave() -> None:
        key = stage.endpoint.keys.admit("")
        task = asyncio.ensure_future(documents.translate("a.txt", TEXT, "en", "de", key))
        while not stage.batcher.queued and not stage.translator.lines and not documents.pool._all:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    stage.translator.open.set()
    deadline = time.monotonic() + 20
    while documents.pool._all:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_document_that_cannot_be_stored_is_a_503(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "atomic_write", full)
    answer = upload(client, "a.txt", TEXT)
    assert (answer.status_code, "cannot be stored" in answer.json()["error"]) == (503, True)


def test_a_document_that_needs_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(worker, "read_document", fail)
    found = answer_or_refuse(
        lambda question: worker.answer(question, None),  # type: ignore[arg-type]  # it asks nothing
        {"name": "a", "content": ""},
        "reading it",
        1 << 30,
    )
    assert found == {"refused": "reading it needs more than 1 GiB of memory", "spent": True}


def test_a_child_reads_no_file_of_the_server(client: Any, tmp_path: Path) -> None:
    secret = tmp_path / "server.po"
    secret.write_text('msgid "A sentence of the server."\nmsgstr ""\n')
    answer = upload(client, "mine.po", str(secret).encode())
    assert answer.status_code == 400 and "Syntax error in po file" in answer.json()["error"]
