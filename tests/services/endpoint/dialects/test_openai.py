"""OpenAI's routes: models, chat completions that translate, vectors of texts."""

import base64
import json
from typing import Any

import numpy as np
import pytest

from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.endpoint.keys import Keys
from dragoman.services.models.loaded_encoder import LoadedEncoder
from dragoman.services.models.origin import Origin
from tests.services.endpoint.conftest import Stage


def chat(stage: Stage, content: Any = "a dog runs", **values: Any) -> Any:
    asked = {"model": "en-de", "messages": [{"role": "user", "content": content}], **values}
    return stage.client.post("/v1/chat/completions", json=asked)


def test_the_last_message_is_translated(stage: Stage) -> None:
    messages = [
        {"role": "system", "content": "Answer in rhymes."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "EINS"},
        {"role": "user", "content": "two"},
    ]
    answer = chat(stage, messages=messages, temperature=0.1)
    (choice,) = answer.json()["choices"]
    assert choice["message"] == {"role": "assistant", "content": "TWO", "refusal": None}
    assert choice["finish_reason"] == "stop"
    assert answer.headers["X-Ignored-Parameters"] == "messages but the last user's, temperature"


def test_alternatives_are_further_choices(stage: Stage) -> None:
    choices = chat(stage, "go.", n=2).json()["choices"]
    assert [(one["index"], one["message"]["content"]) for one in choices] == [(0, "GO."), (1, "GO.#1")]


def test_a_stream_says_the_same_in_pieces_and_ends(stage: Stage) -> None:
    answer = chat(stage, " a  dog\nruns ", stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, last, end = [line.removeprefix("data: ") for line in answer.text.strip().split("\n\n")]
    assert end == "[DONE]"
    assert json.loads(last)["usage"]["total_tokens"] == 6
    chunks = [json.loads(event)["choices"][0] for event in events]
    assert "".join(chunk["delta"].get("content", "") for chunk in chunks) == " A  DOG\nRUNS "
    assert chunks[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize("model", ["demo", "en-de"])
def test_a_model_has_its_name_and_its_pairs(stage: Stage, model: str) -> None:
    assert model in [one["id"] for one in stage.client.get("/v1/models").json()["data"]]
    assert stage.client.get(f"/v1/models/{model}").json()["id"] == model
    assert chat(stage, model=model).status_code == 200


def test_languages_may_stand_in_the_content(stage: Stage) -> None:
    part = {"type": "text", "text": "a", "source_lang_code": "en", "target_lang_code": "de-DE"}
    assert chat(stage, [part], model="demo").json()["choices"][0]["message"]["content"] == "A"
    assert chat(stage, [{**part, "target_lang_code": "fr"}], model="demo").status_code == 400


@pytest.mark.parametrize(
    ("values", "code", "message"),
    [
        ({"model": "gpt-4o"}, 404, "The model `gpt-4o` does not exist: there are demo, en-de"),
        ({"tools": [{"type": "function"}]}, 400, "tools is not supported"),
        ({"messages": [{"role": "system", "content": "a"}]}, 400, "the last user's message must be a text"),
        ({"messages": []}, 400, "you must provide a messages parameter"),
        ({"target_lang": "fr"}, 400, "fr is not supported"),
    ],
)
def test_what_is_not_there_is_refused(stage: Stage, values: dict[str, Any], code: int, message: str) -> None:
    answer = chat(stage, **values)
    assert answer.status_code == code
    assert message in answer.json()["error"]["message"]
    assert answer.json()["error"]["type"] == "invalid_request_error"


class Lengths:
    """Vectors that tell the number of characters."""

    width = 2

    def __call__(self, texts: Any, places: Any = None) -> Any:
        return np.array([[len(text), 0.5] for text in texts], np.float32)


def test_vectors_are_floats_or_base64(stage: Stage) -> None:
    asked = {"model": "encoder", "input": ["ab", "abc"], "encoding_format": "float"}
    assert stage.client.post("/v1/embeddings", json=asked).status_code == 404
    encoder = LoadedEncoder(Lengths(), Origin("encoder", "1", "run2", "def"))
    batcher = Batcher(LoadedEncoder.encode)
    batcher.start()
    stage.endpoint.encoder = InferenceQueue("encoder", "Cannot make vectors", lambda: encoder, batcher)
    try:
        answer = stage.client.post("/v1/embeddings", json=asked)
        assert [one["embedding"] for one in answer.json()["data"]] == [[2.0, 0.5], [3.0, 0.5]]
        assert answer.headers["X-Run-Id"] == "run2"
        packed = stage.client.post("/v1/embeddings", json={**asked, "encoding_format": "base64"}).json()
        numbers = base64.b64decode(packed["data"][1]["embedding"])
        assert np.frombuffer(numbers, "<f4").tolist() == [3.0, 0.5]
        assert stage.client.post("/v1/embeddings", json={**asked, "dimensions": 3}).status_code == 400
        assert "encoder" in [one["id"] for one in stage.client.get("/v1/models").json()["data"]]
        assert stage.client.get("/status").json()["encoder"]["status"] == "ok"
    finally:
        batcher.stop(10)


def test_the_key_is_a_bearer_token(stage: Stage) -> None:
    stage.endpoint.keys = Keys(["secret"])
    assert chat(stage).status_code == 401
    answer = stage.client.request("GET", "/v1/models", headers={"Authorization": "Bearer secret"})
    assert answer.status_code == 200
