"""A server on a socket, for clients: translations and documents."""

import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.http.listening import bind
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.settings import Limits
from tests.services.endpoint.conftest import DETECTOR, Shouting, only_model, served


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Endpoint]]:
    """The server's address, and what answers there."""
    folder, translator = tmp_path_factory.mktemp("endpoint"), Shouting()
    translator.open.set()
    model, batcher = served(translator), Batcher(LoadedModel.translate, limit=64, capacity=8)
    batcher.start()
    queue = InferenceQueue(batcher, lambda: model, timeout=10)
    limits = Limits(characters=200, texts=4, alternatives=2, body=1000)
    endpoint = Endpoint(only_model(queue), queue, limits=limits, detector=DETECTOR)
    documents = Documents(endpoint, folder / "documents")
    listening = bind("127.0.0.1", 0)
    http = uvicorn.Server(uvicorn.Config(create_app(endpoint, documents), log_level="critical", lifespan="off"))
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listening]})
    thread.start()
    while not http.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", endpoint
    http.should_exit = True
    thread.join(60)
    documents.close()
    batcher.stop(60)


@pytest.fixture
def url(server: tuple[str, Endpoint]) -> str:
    """The server's address."""
    return server[0]
