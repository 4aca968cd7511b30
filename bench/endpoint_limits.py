"""A neighbour's p99 beside hostile input against alone, ms; also memory, and the seconds to start and to stop.

One client asks for short sentences, alone and while another sends one kind of hostile input again and again, in turns.
The model has random weights. Each kind is at work when SIGTERM comes, to a server of its own; at last 50 kept-alive
connections are idle.

    python -m bench endpoint_limits [--quick] [tiny | base] [KIND...]
"""

import contextlib
import http.client
import io
import json
import os
import random
import socket
import statistics
import struct
import tempfile
import threading
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil

from bench.endpoint import SIZES, made_up, save_random, serving
from bench.result import Result

IDLE = 50
STRANGER = "127.0.0.66"  # the hostile client's address: clients take turns by address
STOP = 8.0  # serve.stop_timeout
MIB = 1 << 20
ROOM = [f"serve.stop_timeout={STOP:g}"]


class Request(NamedTuple):
    """What a hostile client sends."""

    path: str
    body: bytes
    kind: str = "application/json"


def text(q: str, form: str = "text", **more: object) -> Request:
    return Request("/translate", json.dumps({"q": q, "source": "en", "target": "de", "format": form, **more}).encode())


def document(name: str, content: bytes) -> Request:
    """Returns the upload of a document."""
    fields = (("source", "", b"en"), ("target", "", b"de"), ("file", f'; filename="{name}"', content))
    parts = b"".join(
        f'--x\r\nContent-Disposition: form-data; name="{field}"{more}\r\n\r\n'.encode() + value + b"\r\n"
        for field, more, value in fields
    )
    return Request("/translate_file", parts + b"--x--\r\n", "multipart/form-data; boundary=x")


def false_size() -> bytes:
    """Returns a .docx that says 1,000 bytes and unpacks to 1 GiB."""
    deflate, name = zlib.compressobj(9, zlib.DEFLATED, -15), b"word/document.xml"
    content = b"".join(deflate.compress(bytes(MIB)) for _ in range(1024)) + deflate.flush()
    facts = (0, 0x21, 0, len(content), 1000, len(name), 0)
    head = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 8, *facts) + name
    entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 8, *facts, 0, 0, 0, 0, 0) + name
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(entry), len(head) + len(content), 0)
    return head + content + entry + end


def packed() -> bytes:
    """Returns a .docx of 90 MiB of markup in one paragraph."""
    file = io.BytesIO()
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        runs = "<w:r><w:t>a</w:t></w:r>" * (90 * MIB // 23)
        archive.writestr("word/document.xml", f"<w:document {space}><w:body><w:p>{runs}</w:p></w:body></w:document>")
    return file.getvalue()


def xliff() -> bytes:
    """Returns an XLIFF file of 400 namespaces and 2,000 codes."""
    spaces = " ".join(f'xmlns:n{number}="urn:{number}"' for number in range(400))
    codes = "".join(f'<g id="{number}">a</g>' for number in range(2000))
    unit = f'<trans-unit id="1"><source>{codes}</source></trans-unit>'
    return f'<xliff version="1.2" {spaces}><file><body>{unit}</body></file></xliff>'.encode()


HOSTILE: dict[str, Callable[[], Request]] = {
    "reference": lambda: text(
        "The dog sleeps in the garden and the cat is on the roof of the house. " * 70
    ),  # harmless
    "word": lambda: text("a" * 4990),
    "blanks": lambda: text("x <a" + " " * 4980 + "b"),
    "blanks-html": lambda: text("x <a" + " " * 4980 + "b", "html"),
    "blanks-markdown": lambda: text("x <a" + " " * 4980 + "b", "markdown"),
    "comments": lambda: text("<!--x>" * 830, "html"),
    "tags": lambda: text("<b>a</b>" * 620, "html"),
    "xml": lambda: text("<b>a</b>" * 620, "xml"),
    "marks": lambda: text("*a* [b](c) `d` " * 330, "markdown"),
    "masks": lambda: text("{a} %s 7 a@b.de http://a.de " * 180),
    "terms": lambda: text("dog x " * 830, terms={f"dog {number:x}": "a" for number in range(9000)}),
    "document-comments": lambda: document("a.html", b"<!--x>" * 160_000),
    "document-text": lambda: document("a.txt", b"{a} %s 7 <b> dog. " * 55_000),
    "document-xliff": lambda: document("a.xliff", xliff()),
    "document-false-size": lambda: document("a.docx", false_size()),
    "document-large": lambda: document("a.docx", packed()),
    "document-path": lambda: document("a.po", b"/etc/passwd"),
}


def run(quick: bool, args: list[str]) -> Result:
    """Milliseconds of a neighbour's p99 beside the worst hostile input, and alone."""
    known = {*SIZES, *HOSTILE}
    if wrong := [word for word in args if word not in known]:
        raise SystemExit(f"bench endpoint_limits: {wrong[0]!r} is not known. Choices: --quick, {', '.join(known)}")
    name = next((word for word in args if word in SIZES), "base")
    kinds = [word for word in args if word in HOSTILE] or list(HOSTILE)
    size, questions, rounds = SIZES[name], 20 if quick else 100, 1 if quick else 5
    results: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle"
        save_random(bundle, size)
        settings = [f"decode.beam={size.beam}", *ROOM]
        print(f"{'':<20} {'alone':>7} {'beside':>7} {'ratio':>6} {'server':>8} {'children':>8} {'stop':>6} statuses")
        for kind in kinds:
            request = HOSTILE[kind]()
            with serving(bundle, Path(folder), settings) as (address, server):
                found = beside(address, server, request, questions, rounds)
                with hostile(address, request):
                    time.sleep(0.5)
                    stopped = seconds_to_stop(server)
            results.append((found.beside, found.alone))
            took = f"{found.alone:>7.1f} {found.beside:>7.1f} {found.beside / found.alone:>6.2f}"
            memory = f"{found.server / MIB:>+7.0f}M {found.children / MIB:>7.0f}M"
            print(f"{kind:<20} {took} {memory} {stopped:>5.1f}s {dict(found.statuses)}", flush=True)
        began = time.perf_counter()
        with serving(bundle, Path(folder), settings) as (address, server):
            started = time.perf_counter() - began
            idle = [connect(address) for _ in range(IDLE)]
            stopped = seconds_to_stop(server)
            for each in idle:
                each.close()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"load of the machine over 1, 5 and 15 minutes: {load}")
    print(f"transformer_{name}: {started:.1f} s to the address, {stopped:.1f} s to stop beside {IDLE} idle connections")
    worst, alone = max(results, key=lambda pair: pair[0] / pair[1])
    return Result(
        "endpoint_limits", worst, alone, "ms, a neighbour's p99 beside the worst hostile input, and alone", "baseline"
    )


class Found(NamedTuple):
    """Medians of p99 in ms, and the most bytes: what the server grew by, and its children."""

    alone: float
    beside: float
    server: int
    children: int
    statuses: Counter[int]


def beside(address: str, server: psutil.Process, request: Request, questions: int, rounds: int) -> Found:
    """Returns what a neighbour of hostile input sees."""
    ask(address, questions)  # warms up
    took: dict[str, list[float]] = {"alone": [], "beside": []}
    before, statuses = server.memory_info().rss, Counter[int]()
    for _ in range(rounds):
        took["alone"].append(p99(ask(address, questions)))
        with hostile(address, request) as answered, watched(server) as most:
            took["beside"].append(p99(ask(address, questions)))
        statuses += answered
    alone, crowded = (statistics.median(values) for values in took.values())
    return Found(alone, crowded, most["server"] - before, most["children"], statuses)


@contextlib.contextmanager
def watched(server: psutil.Process) -> Iterator[dict[str, int]]:
    """Yields the most memory of a server and of its children, seen during the block."""
    most, ended = {"server": 0, "children": 0}, threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            with contextlib.suppress(psutil.Error):
                most["server"] = max(most["server"], server.memory_info().rss)
                children = sum(child.memory_info().rss for child in server.children(recursive=True))
                most["children"] = max(most["children"], children)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def seconds_to_stop(server: psutil.Process) -> float:
    began = time.perf_counter()
    server.terminate()
    server.wait(60)
    return time.perf_counter() - began


def ask(address: str, questions: int) -> list[float]:
    """Returns the milliseconds of each question, one after the other on one connection."""
    rng, place = random.Random(1), urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    took = []
    with contextlib.closing(connection):
        for _ in range(questions):
            words = " ".join(made_up(rng, place) for place in range(10))
            began = time.perf_counter()
            send(connection, text(f"{words}."))
            took.append(1000 * (time.perf_counter() - began))
    return took


def send(connection: http.client.HTTPConnection, request: Request) -> int:
    """Returns the status of the answer."""
    connection.request("POST", request.path, request.body, {"Content-Type": request.kind})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[-1]


@contextlib.contextmanager
def hostile(address: str, request: Request) -> Iterator[Counter[int]]:
    """Sends a request during the block, each time as soon as it is answered; yields the answers' statuses."""
    place, ended, statuses = urlsplit(address), threading.Event(), Counter[int]()
    connections: list[http.client.HTTPConnection] = []

    def again() -> None:
        while not ended.is_set():
            connection = http.client.HTTPConnection(
                place.hostname or "", place.port, timeout=120, source_address=(STRANGER, 0)
            )
            connections[:] = [connection]
            with contextlib.closing(connection):
                try:
                    status = send(connection, request)
                except (OSError, http.client.HTTPException):  # it stops, or the block ends
                    status = 0
            if not ended.is_set():
                statuses[status] += 1
            if status in (0, 429):  # 429: as many documents as are kept
                time.sleep(0.05)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        time.sleep(1.0)
        yield statuses
    finally:
        ended.set()
        for sock in [connection.sock for connection in connections]:
            if sock is not None:  # a document may take minutes
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        thread.join()


def connect(address: str) -> socket.socket:
    """Returns a connection that has been answered once, and is kept alive."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    connection.request("GET", "/health")
    connection.getresponse().read()
    assert connection.sock is not None
    kept: socket.socket = connection.sock
    return kept
