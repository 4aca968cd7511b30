"""A server on a socket, for clients: translations, documents, glossaries and vectors of texts."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.glossaries import Glossaries
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.http.listening import bind
from dragoman.services.models.loaded_encoder import LoadedEncoder
from dragoman.services.models.origin import Origin
from tests.services.endpoint.conftest import Stage
from tests.services.endpoint.conftest import stage as stage  # a fixture


class Lengths:
    """Vectors that tell the number of characters."""

    width = 2

    def __call__(self, texts: Any, places: Any = None) -> Any:
        return np.array([[len(text), 0.5] for text in texts], np.float32)


@pytest.fixture
def url(stage: Stage, tmp_path: Path) -> Iterator[str]:
    """The server's address."""
    stage.endpoint.glossaries = Glossaries(KeyStore(f"sqlite:///{tmp_path / 'endpoint.db'}"))
    encoder = LoadedEncoder(Lengths(), Origin("text-en-skipgram", "1", "run2", "def"))
    batcher = Batcher(LoadedEncoder.encode)
    batcher.start()
    stage.endpoint.encoder = InferenceQueue("encoder", "Cannot make vectors", lambda: encoder, batcher)
    documents = Documents(stage.endpoint, tmp_path / "documents")
    documents.start()
    listening = bind("127.0.0.1", 0)
    app = create_app(stage.endpoint, documents)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    documents.stop()
    batcher.stop(10)
