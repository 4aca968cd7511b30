"""POST /classify and /tag in the shapes of Hugging Face's pipelines, over models that label by rule."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.model.text.labelled_words import Label, TaggedWord, Words
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.endpoint import Endpoint, LabelsQueue
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models.loaded_labeller import LoadedLabeller
from dragoman.services.models.origin import Origin
from dragoman.services.settings import Limits
from tests.services.endpoint.conftest import Client

TAGS = {"Peter": "B-PER", "Blackburn": "I-PER", "Berlin": "B-LOC"}


@dataclass
class ByRule:
    """Classes by the last mark, tags by a list of names."""

    task: str

    @property
    def bundle(self) -> Any:
        return SimpleNamespace(task=self.task, positions=8)

    labels = ("question", "statement")

    def classify(self, texts: Sequence[str]) -> list[list[Label]]:
        found = [Label("question", 0.9), Label("statement", 0.1)]
        return [sorted(found, key=lambda one: (one.label == "question") != text.endswith("?")) for text in texts]

    def numbers(self, texts: Sequence[str]) -> list[float]:
        return [float(len(text)) for text in texts]

    def count_tokens(self, words: Sequence[str]) -> int:
        return len(words) + 1

    def tag(self, texts: Sequence[Words]) -> list[list[TaggedWord]]:
        return [
            [
                TaggedWord(word, *place, TAGS.get(word, "O"), 0.5)
                for word, place in zip(text.words, text.places, strict=True)
            ]
            for text in texts
        ]


@contextmanager
def label_queue(task: str, name: str = "demo") -> Iterator[LabelsQueue]:
    """Gives a queue over the model of the task."""
    served = LoadedLabeller(ByRule(task), Origin(name, "3", "run1", "abc"))  # type: ignore[arg-type]
    batcher: Batcher[LoadedLabeller, Words, Any] = Batcher(LoadedLabeller.label)
    batcher.start()
    yield InferenceQueue("labels", "Cannot label", lambda: served, batcher)
    batcher.stop(10)


@pytest.fixture
def ask(request: pytest.FixtureRequest) -> Iterator[Client]:
    with label_queue(request.param) as queue:
        yield Client(create_app(Endpoint(None, labels=queue, limits=Limits(characters=80, texts=3))))


@pytest.mark.parametrize("ask", ["classes"], indirect=True)
def test_classes_come_with_their_scores(ask: Client) -> None:
    answer = ask.post("/classify", json={"inputs": "Who is it?"})
    assert answer.json() == [{"label": "question", "score": 0.9}, {"label": "statement", "score": 0.1}]
    assert answer.headers["X-Model-Version"] == "3"
    several = ask.post("/classify", json={"inputs": ["Who?", "I."], "parameters": {"top_k": 1}}).json()
    assert several == [[{"label": "question", "score": 0.9}], [{"label": "statement", "score": 0.1}]]


@pytest.mark.parametrize("ask", ["tags"], indirect=True)
def test_tags_come_with_their_words_and_places(ask: Client) -> None:
    text = "Peter Blackburn's in Berlin."
    found = ask.post("/tag", json={"inputs": text}).json()
    assert found[0] == {"entity": "B-PER", "score": 0.5, "index": 1, "word": "Peter", "start": 0, "end": 5}
    assert [text[one["start"] : one["end"]] for one in found] == ["Peter", "Blackburn", "Berlin"]
    simple = {"inputs": text, "parameters": {"aggregation_strategy": "simple"}}
    groups = [(one["entity_group"], one["word"]) for one in ask.post("/tag", json=simple).json()]
    assert groups == [("PER", "Peter Blackburn"), ("LOC", "Berlin")]
    words = ask.post("/tag", json={"inputs": [["in", "Berlin"]]}).json()
    assert words == [[{"entity": "B-LOC", "score": 0.5, "index": 2, "word": "Berlin", "start": 3, "end": 9}]]


@pytest.mark.parametrize("ask", ["numbers"], indirect=True)
def test_a_number_is_the_score_of_one_label(ask: Client) -> None:
    assert ask.post("/classify", json={"inputs": "four"}).json() == [{"label": "number", "score": 4.0}]


@pytest.mark.parametrize("ask", ["tags"], indirect=True)
@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/tag", {}, 400, "missing inputs"),
        ("/tag", {"inputs": [""]}, 400, "empty text"),
        ("/tag", {"inputs": [[]]}, 400, "empty text"),
        ("/tag", {"inputs": 7}, 400, "inputs must be a string"),
        ("/tag", {"inputs": ["a"] * 4}, 400, "batch limit"),
        ("/tag", {"inputs": "a" * 81}, 400, "text limit"),
        ("/tag", {"inputs": "a b c d e f g h"}, 400, "9 tokens, and the model reads 8"),
        ("/tag", {"inputs": "a", "parameters": {"top_k": 0}}, 400, "parameters"),
        ("/classify", {"inputs": "a"}, 400, "ask /tag"),
    ],
)
def test_bad_requests_are_refused(ask: Client, path: str, body: dict[str, Any], status: int, message: str) -> None:
    answer = ask.post(path, json=body)
    assert answer.status_code == status and message in answer.text


def test_without_a_model_the_routes_say_so() -> None:
    answer = Client(create_app(Endpoint(None))).post("/classify", json={"inputs": "a"})
    assert answer.status_code == 404 and "serve.labels" in answer.text


def test_words_of_a_text_are_split_as_corpora_split_them() -> None:
    found = Words.split("The dog's ball isn't here, at 8.30 o'clock (well-known)!")
    assert found.words == (
        "The", "dog", "'s", "ball", "is", "n't", "here", ",", "at", "8.30", "o'clock", "(", "well-known", ")", "!",
    )  # fmt: skip
    assert all(found.text[start:end] == word for word, (start, end) in zip(found.words, found.places, strict=True))
