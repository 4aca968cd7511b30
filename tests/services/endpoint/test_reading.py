"""Documents are read in child processes: one that takes any time and memory costs its sender an answer."""

import asyncio
import gc
import json
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from dragoman.model.inference.translator import Translation
from dragoman.services.endpoint import route_translator, spoken
from dragoman.services.endpoint.documents import jobs, reading_worker
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.documents.reading import Reading
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.translation import Question
from dragoman.services.subprocesses.pool import Pool, PoolClosedError, TooLongError
from dragoman.services.subprocesses.worker import answer_or_refuse
from dragoman.services.texts.documents.archive import Archive
from dragoman.services.texts.documents.document import DocumentError
from tests.services.endpoint.conftest import Stage
from tests.services.texts.readers import READERS, read

QUESTION = Question((), "en", "de")
STUB = """
import json, sys
print("ready", flush=True)
for line in sys.stdin:
    do = json.loads(line)["do"]
    while do in ("compute", "translate"):
        pass
    if do == "ask":
        print(json.dumps({"asks": {}}), flush=True)
        do = "stopped" if "stop" in json.loads(sys.stdin.readline()) else do
    if do == "die":
        sys.exit(1)
    print(json.dumps({do: 7}), flush=True)
"""


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool("none", 3, 0.2)
    pool.command = [sys.executable, "-c", STUB]
    yield pool
    pool.close()


def reading(stage: Stage, pool: Pool) -> Endpoint:
    """Returns the endpoint, whose texts this pool reads."""
    stage.endpoint.reading = Reading(pool)
    return stage.endpoint


def test_a_document_beyond_its_time_is_refused_and_the_next_one_is_read(pool: Pool) -> None:
    mine = Reading(pool)
    with pytest.raises(TooLongError, match=r"0\.2 s of a processor"):
        pool.ask({"do": "compute"})
    assert mine.count("a.txt", b"", 10, "anna") == 7
    assert json.loads(pool.ask({"do": "die"}) or "{}") == {}
    assert mine.count("a.txt", b"", 10, "anna") == 7


def test_a_server_that_stops_waits_for_no_document(stage: Stage, tmp_path: Path, pool: Pool) -> None:
    documents = Documents(reading(stage, pool), tmp_path / "documents")
    handle = documents.submit("a.txt", b"x", QUESTION)
    pool.computing = 1e9
    documents.start()
    while documents.state(*handle).status != "translating":
        time.sleep(0.01)
    documents.stop(timeout=20)
    thread = documents.worker._thread
    assert thread is not None and not thread.is_alive()
    job = documents.jobs.load(handle.id)
    assert job is not None and (job.status, job.attempts) == ("translating", 0)  # stopped in order, and begun again
    with pytest.raises(PoolClosedError):
        pool.ask({"do": "count"})


def test_a_document_whose_process_ends_is_begun_again_three_times(stage: Stage, tmp_path: Path, pool: Pool) -> None:
    documents = Documents(reading(stage, pool), tmp_path / "documents")
    handle = documents.submit("mine.txt", b"x", QUESTION)
    pool.command = [
        sys.executable,
        "-c",
        STUB.replace('do == "die"', 'do == "translate"').replace('"compute", "translate"', '""'),
    ]
    pool._free.pop().end()
    for attempt in (1, 2, 3):
        assert documents.work()
        job = documents.jobs.load(handle.id)
        assert job is not None and (job.status, job.attempts) == ("translating", attempt)
    assert documents.work()
    assert documents.state(*handle)[0::3] == ("error", "mine.txt: the server or its process has ended 3 times over it")


def test_a_document_that_cannot_be_stored_is_not_paid_and_leaves_nothing(
    stage: Stage, tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    documents = Documents(reading(stage, pool), tmp_path / "documents")
    back: list[int] = []
    monkeypatch.setattr(documents.endpoint.keys, "give_back", lambda _key, characters: back.append(characters))
    monkeypatch.setattr(jobs, "atomic_write", full)
    with pytest.raises(HTTPException, match="cannot be stored") as problem:
        documents.submit("mine.txt", b"x", QUESTION)
    assert problem.value.status_code == 503 and back == [7] and not list(documents.jobs)


def test_a_signal_to_the_whole_group_ends_no_process_in_the_middle(tmp_path: Path) -> None:
    code = "import os, signal; from dragoman.services.subprocesses import worker as w; "
    code += "w.serve(lambda question, _: os.kill(os.getpid(), signal.SIGTERM) or question, 'it')"
    said = subprocess.run([sys.executable, "-c", code], input='{"a": 1}\n', capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ['{"ready": true}', '{"a": 1}']


def test_a_document_that_needs_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(reading_worker, "read_document", fail)
    found = answer_or_refuse(
        lambda question: reading_worker.answer(question, None),  # type: ignore[arg-type]  # it asks nothing
        {"do": "count", "name": "a", "content": ""},
        "reading it",
        1 << 30,
    )
    assert found == {"refused": "reading it needs more than 1 GiB of memory", "spent": True}


def test_an_uploaded_document_goes_through_a_real_child(stage: Stage, tmp_path: Path) -> None:
    documents = Documents(stage.endpoint, tmp_path / "documents")
    page = b"<p>The <b>dog</b> sleeps.</p>"
    try:
        handle = documents.submit("a.html", page, QUESTION)
        assert documents.work()
        assert documents.result(*handle).content == b"<p>THE <b>DOG</b> SLEEPS.</p>"
        secret = tmp_path / "server.po"
        secret.write_text('msgid "A sentence of the server."\nmsgstr ""\n')
        with pytest.raises(HTTPException, match="Syntax error in po file"):
            documents.submit("mine.po", str(secret).encode(), QUESTION)
    finally:
        documents.stop()


def test_texts_that_cost_much_are_prepared_in_a_process_as_the_server_would(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["The <b>dog</b> has 7 cats. " * 3, "<b>a</b>" * 14]
    asked = {"q": texts, "format": "html", "report": True, "terms": {"dog": "Hund"}, "alternatives": 1}
    try:
        there = stage.ask(**asked)
        with monkeypatch.context() as patch:
            for module in (route_translator, spoken):
                patch.setattr(module, "HERE", 10**6)
            assert stage.ask(**asked).json() == there.json()
        with monkeypatch.context() as patch:
            patch.setattr(route_translator, "translate", None)  # nothing is prepared by the server
            assert there.status_code == 200 and stage.ask(**asked).json() == there.json()
            refused = stage.ask(q="<b>a" + "<i>a</i>" * 24, format="xml")
            assert (refused.status_code, refused.json()["error"][:32]) == (400, "Invalid request: XML: mismatched")
        monkeypatch.setattr(stage.translator, "one", lambda line, nbest: Translation(line, 0.0, loops=True))
        plain = ["The dog sees the man and the cat."] * 4
        with monkeypatch.context() as patch:
            patch.setattr(route_translator, "HERE", 0)  # many sentences, which the model was asked at first
            assert stage.ask(q=plain).json()["translatedText"] == plain
    finally:
        stage.endpoint.reading.pool.close()
    assert stage.ask(**asked).status_code == 503


def test_a_request_that_nobody_waits_for_leaves_its_process_to_others(
    stage: Stage, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """One that computes is ended; one that waits for a model goes on with the next question."""
    mine, began = Reading(pool), threading.Event()
    pool.most, pool.computing = 2, 1e9

    async def reply(_: dict[str, Any]) -> dict[str, Any]:
        began.set()
        await asyncio.sleep(1e9)
        return {}

    async def leave(do: str, until: Callable[[], bool]) -> None:
        task = asyncio.ensure_future(mine._ask(do, {}, "anna", reply))
        while not until():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def all_of_it() -> None:
        await leave("ask", began.is_set)
        while not pool._free:
            await asyncio.sleep(0.01)
        (process,) = pool._all
        assert await mine._ask("count", {}, "anna") == 7 and pool._all == {process}
        await leave("compute", lambda: bool(pool._all) and not pool._free)
        waiting = asyncio.ensure_future(mine._ask("count", {}, "anna"))  # for the turn of the one that is ended
        assert await waiting == 7 and process not in pool._all and not pool._held.total()

    asyncio.run(asyncio.wait_for(all_of_it(), 60))
    gc.collect()
    unseen = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert not unseen, "an exception that nobody looked at"


def test_a_process_that_loads_is_not_ended_for_a_request_that_nobody_waits_for(pool: Pool, tmp_path: Path) -> None:
    """On a full machine no process would ever be ready: each request ended what the one before had begun."""
    mine, gate = Reading(pool), tmp_path / "gate"
    pool.command[-1] = f"import os\nwhile not os.path.exists({str(gate)!r}):\n    pass\n{STUB}"

    async def all_of_it() -> None:
        task = asyncio.ensure_future(mine._ask("compute", {}, "anna"))
        while not pool._all:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (process,) = pool._all
        gate.touch()
        assert await mine._ask("count", {}, "anna") == 7 and process in pool._all and process.alive()

    asyncio.run(asyncio.wait_for(all_of_it(), 60))


def false_size(method: int, packed: bytes, declared: int) -> bytes:
    """Returns a .docx whose document says another size than it has."""
    name = b"word/document.xml"
    facts = (0, 0x21, 0, len(packed), declared, len(name), 0)
    head = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, method, *facts) + name
    entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, method, *facts, 0, 0, 0, 0, 0) + name
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(entry), len(head) + len(packed), 0)
    return head + packed + entry + end


def test_a_member_is_unpacked_no_further_than_its_size() -> None:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(deflate.compress(bytes(1 << 20)) for _ in range(64)) + deflate.flush()
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError, match="damaged"):
            Archive(false_size(8, packed, 1000)).read("word/document.xml")
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [12, 14, 93])
def test_methods_that_unpack_whole_are_refused(method: int) -> None:
    with pytest.raises(DocumentError, match="a compression of the zip archive is not supported"):
        Archive(false_size(method, b"BZh9", 1000))


@pytest.mark.parametrize("name", READERS)
def test_no_reader_takes_a_text_for_a_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text('msgid "A sentence of the server."\nmsgstr ""\n')
    read(name, "a warm start")  # what is loaded when it is first needed
    asked: list[str] = []
    real = os.stat

    def stat(path: Any, **more: Any) -> os.stat_result:
        asked.append(str(path))
        return real(path, **more)

    monkeypatch.setattr(os, "stat", stat)
    watched = list[str]()
    WATCHERS.append(watched)
    try:
        for text in (str(secret), f"file://{secret}", f"{secret}\n"):
            read(name, text)
    finally:
        WATCHERS.remove(watched)
    assert not [place for place in asked + watched if str(secret) in place]


WATCHERS: list[list[str]] = []  # of files that are opened


def _watch(event: str, values: tuple[Any, ...]) -> None:
    if event == "open":
        for one in WATCHERS:
            one.append(str(values[0]))


sys.addaudithook(_watch)  # there is no way to remove one

STUCK = """
import asyncio, socket, sys
from dragoman.services.http.listening import Server

async def app(scope, receive, send):
    if scope["type"] == "http":
        print("working", flush=True)
        await asyncio.to_thread(stuck)

def stuck():
    while True:
        pass

listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
Server(app, listening, connections=10, patience=5, grace=0.5).serve_requests()
"""


def test_sigterm_ends_a_server_whose_threads_compute_without_an_end() -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with server:
        assert server.stdout is not None
        with socket.create_connection(("127.0.0.1", int(server.stdout.readline()))) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert server.stdout.readline() == "working\n"
            server.send_signal(signal.SIGTERM)
            server.wait(60)
