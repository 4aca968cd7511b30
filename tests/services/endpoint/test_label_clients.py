"""Hugging Face's client, unmodified, asks a server on a socket for classes and tags."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.http.listening import bind
from tests.services.endpoint.test_label_routes import label_queue

hub = pytest.importorskip("huggingface_hub", reason="pip install -r requirements-dev.lock")


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    with label_queue(request.param) as queue:
        listening = bind("127.0.0.1", 0)
        app = create_app(Endpoint(None, labels=queue))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield hub.InferenceClient(f"http://127.0.0.1:{listening.getsockname()[1]}/models/demo", token="none")
        server.should_exit = True
        thread.join(10)


@pytest.mark.parametrize("client", ["classes"], indirect=True)
def test_text_classification(client: Any) -> None:
    found = client.text_classification("Who is it?")
    assert [(one.label, one.score) for one in found] == [("question", 0.9), ("statement", 0.1)]
    assert [one.label for one in client.text_classification("I.", top_k=1)] == ["statement"]


@pytest.mark.parametrize("client", ["tags"], indirect=True)
def test_token_classification(client: Any) -> None:
    found = client.token_classification("Peter Blackburn's in Berlin.", aggregation_strategy="simple")
    assert [(one.entity_group, one.word, one.start, one.end) for one in found] == [
        ("PER", "Peter Blackburn", 0, 15),
        ("LOC", "Berlin", 21, 27),
    ]
