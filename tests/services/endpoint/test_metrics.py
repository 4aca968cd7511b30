"""What /metrics of the endpoint says after requests were answered and refused."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dragoman.model.errors import UserError
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.endpoint.keys import Keys
from dragoman.services.endpoint.metrics import Metrics
from dragoman.services.endpoint.opening import follow_models, run_batcher
from dragoman.services.models.follower import Follower
from dragoman.services.models.registry import ModelVersion
from dragoman.services.settings import Limits, ServeConfig
from dragoman.services.telemetry import Telemetry

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
Asked = tuple[httpx.Client, Telemetry]


@pytest.fixture(scope="module")
def asked(bundle: Path) -> Iterator[Asked]:
    """An endpoint over a real model that was asked this and that."""
    from starlette.testclient import TestClient

    metrics = Metrics()
    config = ServeConfig(bundle=str(bundle))
    with (
        follow_models(config, DecodeConfig(), (), None, metrics) as models,
        run_batcher(config, metrics) as batcher,
    ):
        queue = InferenceQueue(batcher, models.current, models.trouble)
        limits = Limits(characters=50, body=1000)
        endpoint = Endpoint(models, queue, limits, keys=Keys(["k"]), metrics=metrics)
        metrics.show(queue, models, bundle)
        with TestClient(create_app(endpoint)) as client:
            ask = {"source": "en", "target": "de", "api_key": "k"}
            for q in ("the dog", ["a house", "the man"]):
                answer = client.post("/translate", json={"q": q, **ask})
                assert answer.status_code == 200, answer.text
            assert client.post("/translate", json={"q": "x" * 51, **ask}).status_code == 400
            assert client.post("/translate", json={"q": "x", **ask, "api_key": "no"}).status_code == 403
            assert client.post("/translate", content=b"x" * 1001).status_code == 413
            assert client.get("/zebra").status_code == 404
            yield client, metrics.telemetry


def test_every_metric_says_what_was_asked(asked: Asked, bundle: Path) -> None:
    client, telemetry = asked
    value = telemetry.registry.get_sample_value
    assert value("dragoman_queue_lines") == 0
    assert value("dragoman_queue_wait_seconds_count") == 2
    assert value("dragoman_batch_lines_sum") == 3
    assert value("dragoman_decode_seconds_count") == 2
    assert value("dragoman_characters_total", {"direction": "in"}) == len("the doga housethe man")
    out = value("dragoman_characters_total", {"direction": "out"})
    assert out is not None and out > 0
    counted = {reason: value("dragoman_refused_total", {"reason": reason}) for reason in ("invalid", "key", "unknown")}
    assert counted == {"invalid": 1, "key": 1, "unknown": 1}
    assert value("dragoman_refused_total", {"reason": "too_large"}) == 1
    assert value("dragoman_refused_total", {"reason": "queue_full"}) == 0
    facts = client.get("/status?api_key=k").json()["model"]
    labels = {"name": "small", "version": facts["version"]}
    assert value("dragoman_model_info", labels) == 1
    assert value("dragoman_disk_free_bytes", {"folder": "cache"})
    text = client.get("/metrics?api_key=k").text
    assert 'http_request_method="POST"' in text
    assert "zebra" not in text and "house" not in text


def test_versions_that_come_to_answer_and_that_cannot_are_counted() -> None:
    metrics = Metrics()

    class Shelf:
        number = 1

        def resolve(self, reference: str) -> ModelVersion:
            return ModelVersion(reference, str(self.number), "r")

    def load(version: ModelVersion) -> str:
        if version.version == "2":
            raise UserError("not sound")
        return version.version

    shelf = Shelf()
    follower: Follower[str] = Follower(shelf, "m", load)
    follower.swapped = metrics.swapped
    for number in (1, 1, 2, 2, 3):
        shelf.number = number
        follower.poll()
    value = metrics.telemetry.registry.get_sample_value
    assert value("dragoman_model_swaps_total", {"result": "ok"}) == 2
    assert value("dragoman_model_swaps_total", {"result": "failed"}) == 1
