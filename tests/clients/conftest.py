"""A server on a socket, for clients: translations and documents."""

from collections.abc import Iterator

import pytest

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.settings import Limits
from tests.services.endpoint.conftest import DETECTOR, Shouting, only_model, served
from tests.services.listening import serving


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
    with serving(create_app(endpoint, documents)) as port:
        yield f"http://127.0.0.1:{port}", endpoint
    documents.close()
    batcher.stop(60)


@pytest.fixture
def url(server: tuple[str, Endpoint]) -> str:
    """The server's address."""
    return server[0]
