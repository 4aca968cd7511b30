"""Word vectors over HTTP: alone, and beside a translation model."""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint import queues, serve
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.endpoint import Endpoint, VectorsQueue
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.endpoint.keys import Keys
from dragoman.services.models.loaded_vectors import LoadedVectors, Refused, load_vectors_model
from dragoman.services.models.questions import AnalogyOf, NeighboursOf, Question, VectorOf
from dragoman.services.models.registry import ModelVersion
from dragoman.services.settings import Limits, ServeConfig
from tests.services.endpoint.conftest import Client, submit

NAMES = ("X-Model-Name", "X-Model-Version", "X-Run-Id", "X-Manifest-Hash")


@dataclass
class Stage:
    """An endpoint of word vectors alone; `open` holds their thread while it is not set."""

    endpoint: Endpoint
    queue: VectorsQueue
    current: list[LoadedVectors | None]
    open: threading.Event

    @cached_property
    def client(self) -> Client:
        return Client(create_app(self.endpoint))

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        return self.client.request("GET", path, params=parameters)

    def post(self, path: str, **values: Any) -> httpx.Response:
        return self.client.post(path, content=json.dumps(values))


@pytest.fixture
def stage(vectors: Path) -> Iterator[Stage]:
    current: list[LoadedVectors | None] = [load_vectors_model(vectors)]
    gate = threading.Event()
    gate.set()

    def answer(served: LoadedVectors, questions: Sequence[Question], nbest: int) -> Any:
        assert gate.wait(10)
        return served.answer(questions, nbest)

    batcher: Any = Batcher(answer, limit=2, capacity=2)
    batcher.start()
    queue: VectorsQueue = InferenceQueue(
        "set of word vectors", "Cannot search", lambda: current[0], batcher, timeout=10
    )
    yield Stage(Endpoint(None, queue, Limits(neighbours=5, body=1000)), queue, current, gate)
    gate.set()
    batcher.stop(10)


def test_a_words_vector_comes_with_rank_and_count(stage: Stage) -> None:
    expected = {"word": "größe", "rank": 6, "count": 100, "width": 4, "vector": [0.4, 0.1, 0.3, 0.1]}
    answer = stage.get("/vectors/größe")
    assert (answer.status_code, answer.json()) == (200, expected)
    assert stage.get("/vectors/cat/dog").json()["vector"] == [0.0, 1.0, 1.0, 1.0]
    assert stage.get("/vectors/cat%2Fdog").json()["word"] == "cat/dog"


def test_neighbours_of_a_word_and_of_a_vector(stage: Stage) -> None:
    first = {"word": "woman", "similarity": 0.816497}
    assert stage.get("/neighbours", word="queen", k=1).json() == {"word": "queen", "neighbours": [first]}
    assert stage.post("/neighbours", word="queen", k=1).json()["neighbours"] == [first]
    found = stage.post("/neighbours", vector=[2, 2, 0, 2], k=2).json()
    assert [one["word"] for one in found["neighbours"]] == ["queen", "woman"]
    assert found["neighbours"][0]["similarity"] == 1.0
    found = stage.post("/neighbours", vector=[1, 1, 0, 1], exclude=["queen", "woman", "nothing"], k=1).json()
    assert found["neighbours"][0]["word"] == "king"
    assert len(stage.get("/neighbours", word="queen").json()["neighbours"]) == 5  # no more than the limit
    assert stage.get("/neighbours", word="queen", restrict=1).json()["neighbours"][0]["word"] == "man"


def test_an_analogy_is_answered_by_either_method(stage: Stage) -> None:
    asked = {"a": "man", "b": "king", "c": "woman"}
    assert stage.get("/analogy", **asked).json() == {
        **asked,
        "method": "3cosadd",
        "answers": [{"word": "queen", "score": 0.975287}],
    }
    found = stage.post("/analogy", **asked, method="3cosmul", k=2).json()
    assert (found["method"], found["answers"][0]["word"], len(found["answers"])) == ("3cosmul", "queen", 2)


def test_the_answers_headers_name_model_version_run_and_manifest(stage: Stage) -> None:
    headers = stage.get("/neighbours", word="man").headers
    served = stage.current[0]
    assert served is not None
    assert [headers[name] for name in NAMES] == ["words", served.origin.version, "v" * 32, "cd" * 32]


@pytest.mark.parametrize(
    ("path", "values", "status", "message"),
    [
        ("/neighbours", {"word": "quen"}, 404, "Did you mean 'queen'"),
        ("/neighbours", {"word": "\ud800"}, 400, "lone surrogate"),
        ("/neighbours", {"word": "man", "exclude": ["\ud800"]}, 400, "lone surrogate"),
        ("/neighbours", {"word": "\x1b[2J\n"}, 404, r"'\x1b[2J\n' is not among the 7 words"),
        ("/analogy", {"a": "man", "b": "kin", "c": "woman"}, 404, "'kin' is not among"),
        ("/neighbours", {}, 400, "give either word or vector"),
        ("/neighbours", {"word": "man", "vector": [1]}, 400, "give either word or vector"),
        ("/neighbours", {"word": 1}, 400, "word must be a string"),
        ("/neighbours", {"word": ""}, 400, "missing word parameter"),
        ("/neighbours", {"vector": [1, 2]}, 400, "these have 4 numbers each"),
        ("/neighbours", {"vector": [0, 0.0, 0, 0]}, 400, "zeros have no direction"),
        ("/neighbours", {"vector": "1,2"}, 400, "vector must be a list of finite numbers"),
        ("/neighbours", {"vector": [True, 1, 1, 1]}, 400, "vector must be a list of finite numbers"),
        ("/neighbours", {"vector": [1, 2, 3, 10**400]}, 400, "vector must be a list of finite numbers"),
        ("/neighbours", {"word": "man", "exclude": [1]}, 400, "exclude must be a list of words"),
        ("/neighbours", {"word": "man", "k": 0}, 400, "k must be a whole number, 1 or more"),
        ("/neighbours", {"word": "man", "k": 6}, 400, "k parameter must be <= 5"),
        ("/neighbours", {"word": "man", "k": "many"}, 400, "k must be a whole number"),
        ("/neighbours", {"word": "man", "restrict": -1}, 400, "restrict must be a whole number, 0 or more"),
        ("/analogy", {"a": "man", "b": "king"}, 400, "missing c parameter"),
        ("/analogy", {"a": "man", "b": "king", "c": "woman", "method": "x"}, 400, "one of 3cosadd, 3cosmul"),
        ("/neighbours", {"word": "x" * 1000}, 413, "the body exceeds 1000 bytes"),
    ],
)
def test_mistakes_are_named(stage: Stage, path: str, values: dict[str, Any], status: int, message: str) -> None:
    answer = stage.post(path, **values)
    assert answer.status_code == status
    assert message in answer.json()["error"]


def test_an_unknown_words_vector_is_a_404_and_a_lone_k_in_the_query_string_a_400(stage: Stage) -> None:
    answer = stage.get("/vectors/quen")
    assert (answer.status_code, "queen" in answer.json()["error"]) == (404, True)
    assert stage.get("/neighbours", k=3).status_code == 400
    nan = stage.client.post("/neighbours", content=b'{"vector": [NaN, 1, 1, 1]}')
    assert (nan.status_code, "finite" in nan.json()["error"]) == (400, True)


def test_questions_of_one_batch_get_their_own_answers(vectors: Path) -> None:
    served = load_vectors_model(vectors)
    asked: list[Question] = [
        NeighboursOf("queen", 1),
        NeighboursOf("quen"),
        VectorOf("queen"),
        AnalogyOf("man", "king", "woman", method="3cosmul"),
        NeighboursOf(np.ones(3)),
        AnalogyOf("man", "king", "woman"),
    ]
    near, unknown, vector, mul, width, add = served.answer(asked)
    assert near == served.answer([asked[0]])[0]
    assert isinstance(unknown, Refused)
    assert (unknown.status, "Did you mean" in unknown.message) == (404, True)
    assert not isinstance(vector, Refused)
    assert vector["vector"] == [1.0, 1.0, 0.0, 1.0]
    assert isinstance(width, Refused)
    assert width.status == 400
    for answer, method in ((mul, "3cosmul"), (add, "3cosadd")):
        assert not isinstance(answer, Refused)
        assert (answer["method"], answer["answers"][0]["word"]) == (method, "queen")


def test_a_list_in_the_query_string_is_read_whole(stage: Stage) -> None:
    found = stage.get("/neighbours", word="queen", exclude=["woman", "king"], k=1).json()
    assert found["neighbours"][0]["word"] not in ("woman", "king")


def test_a_key_is_asked_for_where_keys_are_set(stage: Stage) -> None:
    stage.endpoint.keys = Keys(["secret"])
    for path in ("/vectors/man", "/neighbours", "/analogy"):
        assert stage.get(path, word="man").status_code == 403
    assert stage.get("/vectors/man", api_key="secret").status_code == 200


def test_a_full_queue_and_a_late_answer(stage: Stage) -> None:
    stage.open.clear()
    served = stage.current[0]
    assert served is not None
    waiting = [submit(stage.queue.batcher, served, [NeighboursOf("man")])]
    while stage.queue.batcher.queued:
        pass
    waiting.append(submit(stage.queue.batcher, served, [NeighboursOf("man")] * 2))
    answer = stage.get("/neighbours", word="man")
    assert (answer.status_code, "Retry-After" in answer.headers) == (429, True)
    stage.open.set()
    for one in waiting:
        one.result(10)
    stage.open.clear()
    stage.queue.timeout = 0.05
    assert stage.get("/neighbours", word="man").status_code == 503


def test_an_endpoint_of_vectors_alone_says_what_it_is_not(stage: Stage) -> None:
    answer = stage.client.post("/translate", json={"q": "x", "source": "en", "target": "de"})
    assert (answer.status_code, "has no translation model; GET /status" in answer.json()["error"]) == (404, True)
    assert stage.get("/languages").status_code == 404
    health = stage.get("/status")
    body = health.json()
    assert (health.status_code, body["status"], body["translation"], body["model"]) == (200, "ok", "off", None)
    assert body["vectors"]["model"]["words"] == 7
    stage.current[0] = None
    assert (stage.get("/status").status_code, stage.get("/status").json()["vectors"]["status"]) == (503, "loading")
    assert stage.get("/neighbours", word="man").status_code == 503


def test_an_endpoint_without_vectors_says_so(stage: Stage) -> None:
    stage.endpoint.vectors = None
    answer = stage.get("/neighbours", word="man")
    assert (answer.status_code, "serve.vectors" in answer.json()["error"]) == (404, True)


class Shelf:
    """A registry whose reference names `version`, and its bundles by version."""

    version = "1"
    bundles: dict[str, Path]

    def __init__(self, *_: object) -> None: ...

    def resolve(self, reference: str) -> ModelVersion:
        return ModelVersion(reference.removeprefix("models:/").partition("@")[0], type(self).version, "q" * 32)

    def fetch(self, version: ModelVersion) -> Path:
        return self.bundles[version.version]


def test_vectors_follow_their_alias_beside_a_translation_model(
    bundle: Path, vectors: Path, make_vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Shelf.bundles = {"1": vectors, "2": make_vectors(tmp_path / "second", scale=2.0), "3": bundle}
    monkeypatch.setattr(queues, "Registry", Shelf)
    monkeypatch.setattr(Shelf, "version", "1")
    config = ServeConfig(bundle=str(bundle), vectors="models:/words@champion", poll=0.05)
    with (
        queues.translation_models(config, DecodeConfig()) as models,
        queues.translations(config, models) as translations,
        queues.vectors(config) as queue,
    ):
        client = Client(create_app(Endpoint(translations, queue, models=models)))
        assert client.get("/vectors/queen").json()["vector"] == [1, 1, 0, 1]
        Shelf.version = "2"
        while (answer := client.get("/vectors/queen")).headers["X-Model-Version"] != "2":
            pass
        assert (answer.headers["X-Model-Name"], answer.json()["vector"]) == ("words", [2, 2, 0, 2])
        Shelf.version = "3"  # a translation model: the last good vectors stay
        while (error := client.get("/status").json()["vectors"]["reload_error"]) is None:
            pass
        assert "holds a translation model" in error
        assert client.get("/vectors/queen").headers["X-Model-Version"] == "2"
        translated = client.post("/translate", json={"q": "dog", "source": "en", "target": "de"})
        assert (translated.status_code, translated.headers["X-Model-Name"]) == (200, "small")
        health = client.get("/status").json()
        assert (health["status"], health["translation"], health["vectors"]["status"]) == ("ok", "ok", "ok")


def test_nothing_to_serve_is_a_mistake() -> None:
    keys = (
        r"serve\.model, serve\.models, serve\.bundle, serve\.ensemble, serve\.vectors, "
        r"serve\.encoder, serve\.labels or serve\.guesser"
    )
    with pytest.raises(UserError, match=keys):
        serve.check(ServeConfig(model=None))
    with (
        queues.translation_models(ServeConfig(model=None), DecodeConfig()) as models,
        queues.translations(ServeConfig(), models) as translations,
        queues.vectors(ServeConfig()) as vectors,
    ):
        assert (translations, vectors) == (None, None)
