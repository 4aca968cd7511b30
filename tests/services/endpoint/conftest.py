"""The application over a translator that upper-cases, asked without a socket."""

import asyncio
import functools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from dragoman.model.inference.translator import Alternative, Translation
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.detection import Detector
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.keys import Keys
from dragoman.services.models.catalogue import Catalogue, Served
from dragoman.services.models.loaded_model import LoadedModel, Origin
from dragoman.services.settings import Limits

DETECTOR = Detector()  # one for all tests: its model takes a second to load, and 74 MB


@dataclass
class Shouting:
    """A translator: TEXT for text; `!bad` fails, `!long` is cut, 犬 is unknown; alternatives carry their rank."""

    mark: str = ""
    open: threading.Event = field(default_factory=threading.Event)
    lines: list[str] = field(default_factory=list)

    def translate(self, lines: Sequence[str], decode: DecodeConfig, on_error: str = "raise") -> list[Translation]:
        assert self.open.wait(60)
        self.lines += lines
        return [self.one(line, decode.nbest) for line in lines]

    def one(self, line: str, nbest: int) -> Translation:
        if "!bad" in line:
            return Translation("", 0.0, error="cannot")
        texts = [line.upper() + self.mark] + [f"{line.upper()}{self.mark}#{rank}" for rank in range(1, nbest)]
        missing = ("犬",) if "犬" in line else ()
        nbest = [Alternative(text, 0.0) for text in texts]
        return Translation(texts[0], 0.0, nbest, "!long" in line, unknown=len(missing), missing=missing)


def served(translator: Any, version: str = "3") -> LoadedModel:
    return LoadedModel(translator, DecodeConfig(beam=4), Origin("demo", version, "run1", "abc"), "en", "de")


@dataclass(frozen=True)
class QueuesModel:
    """The model that a queue has, as the only one of a catalogue."""

    queue: InferenceQueue

    @property
    def current(self) -> LoadedModel | None:
        return self.queue.current()

    @property
    def error(self) -> str | None:
        return self.queue.trouble()


def only_model(queue: InferenceQueue) -> Catalogue:
    model: Any = QueuesModel(queue)
    return Catalogue([Served("", model)])


@functools.cache
def event_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def submit(batcher: Batcher[Any, Any, Any], engine: Any, items: Sequence[Any], *more: Any, **named: Any) -> Future[Any]:
    """Asks as a coroutine does, on another thread's event loop; raises what is refused at once."""

    async def begin() -> asyncio.Future[Any]:
        task = asyncio.ensure_future(batcher.ask(engine, items, *more, **named))
        await asyncio.sleep(0)  # now its items are queued
        if task.done():
            task.result()
        return task

    async def end() -> Any:
        return await task

    task = asyncio.run_coroutine_threadsafe(begin(), event_loop()).result(60)
    return asyncio.run_coroutine_threadsafe(end(), event_loop())


@dataclass
class Client:
    """Asks the application without a socket."""

    app: ASGIApp
    address: str = "127.0.0.1"

    def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(self.address, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
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
    queue: InferenceQueue
    batcher: Batcher[LoadedModel, str, Translation]
    current: list[LoadedModel | None]
    trouble: list[str | None]

    def read_keys(self, store: KeyStore) -> None:
        """Lets the endpoint ask for the store's keys."""
        self.endpoint.keys = Keys(store=store)
        self.endpoint.keys.exchange()

    def ask(self, **values: Any) -> Any:
        return self.client.post("/translate", json={"source": "en", "target": "de", **values})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyStore]:
    with closing(KeyStore(f"sqlite:///{tmp_path}/endpoint.db")) as store:
        yield store


@pytest.fixture
def stage() -> Iterator[Stage]:
    translator = Shouting()
    translator.open.set()
    current: list[LoadedModel | None] = [served(translator)]
    trouble: list[str | None] = [None]
    batcher = Batcher(LoadedModel.translate, limit=64, capacity=8)
    batcher.start()
    queue = InferenceQueue(batcher, lambda: current[0], lambda: trouble[0], timeout=60)
    limits = Limits(characters=200, texts=4, alternatives=2, body=1000)
    endpoint = Endpoint(only_model(queue), queue, limits=limits, detector=DETECTOR)
    yield Stage(Client(create_app(endpoint)), translator, endpoint, queue, batcher, current, trouble)
    translator.open.set()
    batcher.stop(60)
