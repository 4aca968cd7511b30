"""A neighbour's p99 beside a hostile text against alone, ms; also the seconds to start a base model and to stop.

One client asks for short sentences, alone and while another sends 'a' x 4,990 again and again, in turns (five of each).
The model is `transformer_base` by a beam of 4, with random weights. SIGTERM comes while 50 kept-alive connections are
idle.

    python -m bench endpoint_limits [--quick] [tiny | base]
"""

import contextlib
import http.client
import json
import random
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from bench.endpoint import SIZES, made_up, save_random, serving
from bench.result import Result

IDLE = 50
HOSTILE = "a" * 4990


def run(quick: bool, args: list[str]) -> Result:
    """Milliseconds of a neighbour's p99 beside a hostile text against alone."""
    name = args[0] if args else "base"
    if name not in SIZES or len(args) > 1:
        raise SystemExit(
            f"bench endpoint_limits: {' '.join(args)!r} is not known. Choices: --quick, {', '.join(SIZES)}"
        )
    size, questions = SIZES[name], 20 if quick else 100
    found: dict[str, list[float]] = {"alone": [], "beside": []}
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle"
        save_random(bundle, size)
        began = time.perf_counter()
        with serving(bundle, Path(folder), [f"decode.beam={size.beam}"]) as (address, server):
            started = time.perf_counter() - began
            ask(address, questions)  # warms up
            for _ in range(1 if quick else 5):
                found["alone"].append(p99(ask(address, questions)))
                with hostile(address):
                    found["beside"].append(p99(ask(address, questions)))
            idle = [connect(address) for _ in range(IDLE)]
            began = time.perf_counter()
            server.terminate()
            server.wait(60)
            stopped = time.perf_counter() - began
            for each in idle:
                each.close()
    print(
        f"transformer_{name}: {started:.1f} s from the command to the address, {stopped:.1f} s from SIGTERM to the end"
    )
    alone, beside = (statistics.median(values) for values in found.values())
    for who, values in found.items():
        print(f"p99 {who:<7} {', '.join(f'{value:.0f}' for value in values)} ms, {questions} sentences each")
    return Result(
        "endpoint_limits", beside, alone, "ms, a neighbour's p99 beside a hostile text, and alone", "baseline"
    )


def ask(address: str, questions: int) -> list[float]:
    """Returns the milliseconds of each question, one after the other on one connection."""
    rng, place = random.Random(1), urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    took = []
    with contextlib.closing(connection):
        for _ in range(questions):
            text = " ".join(made_up(rng, place) for place in range(10))
            began = time.perf_counter()
            translate(connection, f"{text}.")
            took.append(1000 * (time.perf_counter() - began))
    return took


def translate(connection: http.client.HTTPConnection, text: str) -> int:
    """Returns the status of the answer."""
    body = json.dumps({"q": text, "source": "en", "target": "de"})
    connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[-1]


@contextlib.contextmanager
def hostile(address: str) -> Iterator[None]:
    """Sends hostile texts during the block, each as soon as the one before is answered."""
    place, ended = urlsplit(address), threading.Event()

    def send() -> None:
        while not ended.is_set():
            connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=120)
            with contextlib.closing(connection):
                translate(connection, HOSTILE)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        time.sleep(1.0)
        yield
    finally:
        ended.set()
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
