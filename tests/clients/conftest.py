"""A server on a socket, for clients: translations, documents, glossaries and vectors of texts."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import uvicorn

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.glossaries import Glossaries
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.http.listening import bind
from dragoman.services.models.loaded_encoder import LoadedEncoder
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.origin import Origin
from dragoman.services.settings import Limits
from tests.services.endpoint.conftest import DETECTOR, Shouting, only_model, served


class Lengths:
    """Vectors that tell the number of characters."""

    width = 2

    def __call__(self, texts: Any, places: Any = None) -> Any:
        return np.array([[len(text), 0.5] for text in texts], np.float32)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Endpoint]]:
    """The server's address, and what answers there."""
    folder, translator = tmp_path_factory.mktemp("endpoint"), Shouting()
    translator.open.set()
    model, encoder = served(translator), LoadedEncoder(Lengths(), Origin("text-en-skipgram", "1", "run2", "def"))
    batchers = Batcher(LoadedModel.translate, limit=64, capacity=8), Batcher(LoadedEncoder.encode)
    for batcher in batchers:
        batcher.start()
    queue = InferenceQueue("model", "Cannot translate text", lambda: model, batchers[0], timeout=10)
    limits = Limits(characters=200, texts=4, alternatives=2, body=1000)
    endpoint = Endpoint(queue, limits=limits, detector=DETECTOR, models=only_model(queue))
    endpoint.glossaries = Glossaries(KeyStore(f"sqlite:///{folder / 'endpoint.db'}"))
    endpoint.encoder = InferenceQueue("encoder", "Cannot make vectors", lambda: encoder, batchers[1])
    documents = Documents(endpoint, folder / "documents")
    documents.start()
    listening = bind("127.0.0.1", 0)
    http = uvicorn.Server(uvicorn.Config(create_app(endpoint, documents), log_level="critical", lifespan="off"))
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listening]})
    thread.start()
    while not http.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", endpoint
    http.should_exit = True
    thread.join(10)
    documents.stop()
    for batcher in batchers:
        batcher.stop(10)


@pytest.fixture
def url(server: tuple[str, Endpoint]) -> str:
    """The server's address."""
    return server[0]
