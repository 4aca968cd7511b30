"""Attacks on a running endpoint: each is refused, its neighbours are answered, and memory stays as it is."""

import asyncio
import contextlib
import gzip
import io
import json
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import uvloop

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.http.listening import Server, bind
from dragoman.services.texts.documents.archive import MOST_BYTES

PATIENCE = 60  # seconds; nothing here takes long, but the machine may be busy
MIB = 1 << 20
FLAT = 48 * MIB  # that the process may grow by
PIECE = b"x" * 65_536
Stage = SimpleNamespace  # as conftest.py has it


@contextlib.asynccontextmanager
async def served(stage: Stage, folder: Path, patience: float = PATIENCE) -> AsyncIterator[int]:
    """Yields the port of a server over the stage's endpoint."""
    stage.endpoint.config.receive_timeout = patience
    stage.endpoint.config.check_language = False  # its library takes 75 MB
    documents = Documents(stage.endpoint, folder)
    app = create_app(stage.endpoint, documents)
    with contextlib.closing(bind("127.0.0.1", 0)) as listening:
        server = Server(app, listening, connections=4096, per_address=128, grace=1, header=patience)
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup([listening])
        try:
            yield listening.getsockname()[1]
        finally:
            await server.shutdown([listening])
            documents.close()


async def ask(port: int, head: str, body: bytes) -> bytes:
    """Returns the answer to one request, as it came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            f"POST {head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        )
        writer.write(body)
        return await reader.read()
    finally:
        writer.close()


async def translate(port: int, **values: object) -> bytes:
    body = json.dumps({"source": "en", "target": "de", **values}).encode()
    return await ask(port, "/translate HTTP/1.1\r\nContent-Type: application/json", body)


async def upload(port: int, name: str, content: bytes) -> bytes:
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in (("source", "en"), ("target", "de"))
    )
    parts += f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    head = "/translate_file HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x"
    return await ask(port, head, parts.encode() + content + b"\r\n--x--\r\n")


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Runs the test on the endpoint's event loop; the process must not grow."""
    before = psutil.Process().memory_info().rss
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(test(), PATIENCE))
    assert psutil.Process().memory_info().rss - before < FLAT


def is_refused(answer: bytes, *statuses: int) -> bool:
    return answer.startswith(tuple(f"HTTP/1.1 {status} ".encode() for status in statuses))


@pytest.mark.parametrize(
    ("path", "head", "piece"),
    [
        ("/translate_file", "Content-Length: 1000000000", PIECE),
        ("/translate", "Transfer-Encoding: chunked", f"{len(PIECE):x}\r\n".encode() + PIECE + b"\r\n"),
    ],
)
def test_a_body_of_a_gigabyte_is_a_413_before_it_is_there(
    stage: Stage, tmp_path: Path, path: str, head: str, piece: bytes
) -> None:
    async def test() -> None:
        async with served(stage, tmp_path) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode())
            answer = asyncio.ensure_future(reader.read())
            sent = 0
            with contextlib.suppress(ConnectionError):
                while not answer.done() and sent < 10**9:
                    writer.write(piece)
                    sent += len(piece)
                    await writer.drain()
            assert sent < 64 * MIB
            with contextlib.suppress(ConnectionError):
                assert is_refused(await answer, 413)
            writer.close()
            assert is_refused(await translate(port, q="The dog."), 200)

    run(test)


def test_a_body_that_comes_byte_by_byte_is_a_408(stage: Stage, tmp_path: Path) -> None:
    async def drip(port: int, start: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(start)
        answer = asyncio.ensure_future(reader.read())
        with contextlib.suppress(ConnectionError):
            while not answer.done():
                writer.write(b"a")
                await asyncio.sleep(0.02)
        writer.close()
        with contextlib.suppress(ConnectionError):  # it was still sending when the server closed
            return await answer
        return b""

    async def test() -> None:
        async with served(stage, tmp_path, patience=0.3) as port:
            body = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n"
            drips = [asyncio.ensure_future(drip(port, body)) for _ in range(8)]
            assert is_refused(await translate(port, q="The dog."), 200)
            answers = [await one for one in drips]
            assert all(is_refused(one, 408) for one in answers if one)
            assert any(answers)

    run(test)


def test_a_gzip_bomb_is_not_unpacked(stage: Stage, tmp_path: Path) -> None:
    stage.endpoint.limits.body = 262_144
    bomb = gzip.compress(bytes(FLAT + 8 * MIB))
    assert len(bomb) < stage.endpoint.limits.body

    async def test() -> None:
        async with served(stage, tmp_path) as port:
            head = "/translate HTTP/1.1\r\nContent-Type: application/json\r\nContent-Encoding: gzip"
            assert is_refused(await ask(port, head, bomb), 400)

    run(test)


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
BOMB = f'<!DOCTYPE x [<!ENTITY e0 "lol">{ENTITIES}]><x>&e9;</x>'
SECRET = "root:x:0"
XXE = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>A dog: &e;</x>'


def huge() -> bytes:
    """Returns more than all members of an archive may have together."""
    return b"<w>" + bytes(MOST_BYTES) + b"</w>"


def packed(name: str, content: bytes, others: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, text in {**others, name: content}.items():
            archive.writestr(each, text)
    return file.getvalue()


MIMETYPE = {"mimetype": b"application/vnd.oasis.opendocument.text"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", lambda: packed("word/document.xml", huge(), {"[Content_Types].xml": b"<Types/>"})),
        ("a.odt", lambda: packed("content.xml", BOMB.encode(), MIMETYPE)),
        ("a.xliff", XXE.encode),
    ],
    ids=["zip .docx", "entities .odt", "XXE .xliff"],
)
def test_a_document_that_attacks_its_reader_is_refused(
    stage: Stage, tmp_path: Path, name: str, content: Callable[[], bytes]
) -> None:
    given = content()

    async def test() -> None:
        async with served(stage, tmp_path) as port:
            answer = await upload(port, name, given)
            assert is_refused(answer, 400, 413)
            assert SECRET.encode() not in answer
            assert is_refused(await translate(port, q="The dog."), 200)

    run(test)
    assert not list(tmp_path.iterdir())
