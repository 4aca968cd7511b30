"""The OpenAPI document is true: what it allows and what it forbids is asked, and the answers held against it."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from dragoman.model.inference.translator import Alternative, Translation
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint import queues
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models.loaded_labeller import LoadedLabeller
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.origin import Origin
from dragoman.services.settings import Limits, ServeConfig
from tests.services.endpoint.conftest import Client, only_model
from tests.services.endpoint.test_label_routes import ByRule

# Schemathesis asks by way of Starlette's client, which would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")


class Echo:
    """A translator that says everything again."""

    def continuing(self, _: str) -> "Echo":
        return self

    def translate(self, lines: Sequence[str], decode: DecodeConfig, on_error: str) -> list[Translation]:
        return [Translation(line, 0.0, [Alternative(f"{line}{rank}", 0.0) for rank in range(3)]) for line in lines]


@pytest.fixture(scope="module")
def app(vectors: Path, language_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """The application over a translator, documents, labels by rule, a real language model and real word vectors."""
    translator: Any = Echo()
    model = LoadedModel(translator, DecodeConfig(), Origin("echo", "1", "run1", "abc"), "en", "de")
    labeller = LoadedLabeller(ByRule("classes"), model.origin)  # type: ignore[arg-type]
    config = ServeConfig(model=None, vectors=str(vectors), guesser=str(language_bundle))
    limits = Limits(characters=100, texts=4, neighbours=7, body=100_000)
    with (
        queues.vectors(config) as words,
        queues.guesser(config) as guesser,
        queues.run_batcher(config, Batcher(LoadedModel.translate)) as batcher,
        queues.run_batcher(config, Batcher(LoadedLabeller.label)) as labelling,
    ):
        queue = InferenceQueue("model", "Cannot translate", lambda: model, batcher)
        endpoint = Endpoint(queue, words, limits, models=only_model(queue))
        endpoint.guesser = guesser
        endpoint.labels = InferenceQueue("labels", "Cannot label", lambda: labeller, labelling)
        documents = Documents(endpoint, tmp_path_factory.mktemp("documents"))
        documents.start()
        yield create_app(endpoint, documents)
        documents.stop()


@pytest.fixture(scope="module")
def document(app: FastAPI) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.mark.parametrize("allowed", list(GenerationMode))
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/translate"),
        ("POST", "/detect"),
        ("POST", "/suggest"),
        ("GET", "/models"),
        ("GET", "/languages"),
        ("GET", "/frontend/settings"),
        ("GET", "/health"),
        ("GET", "/status"),
        ("GET", "/vectors/{word}"),
        ("GET", "/neighbours"),
        ("POST", "/neighbours"),
        ("GET", "/analogy"),
        ("POST", "/analogy"),
        ("POST", "/v2/translate"),
        ("GET", "/v2/languages"),
        ("GET", "/v3/languages"),
        ("GET", "/v3/languages/resources"),
        ("POST", "/v2/document"),
        ("POST", "/v2/document/{document}"),
        ("POST", "/v2/document/{document}/result"),
        ("POST", "/translate_file"),
        ("GET", "/v2/usage"),
        ("GET", "/v2/glossary-language-pairs"),
        ("POST", "/v2/glossaries"),
        ("POST", "/v3/glossaries"),
        ("PATCH", "/v3/glossaries/{glossary}"),
        ("PUT", "/v3/glossaries/{glossary}/dictionaries"),
        ("GET", "/v3/glossaries/{glossary}/entries"),
        ("GET", "/language/translate/v2"),
        ("POST", "/language/translate/v2"),
        ("POST", "/language/translate/v2/detect"),
        ("GET", "/language/translate/v2/languages"),
        ("POST", "/v3/projects/{project}/locations/{location}:translateText"),
        ("POST", "/v3/projects/{project}/locations/{location}:detectLanguage"),
        ("GET", "/v3/projects/{project}/locations/{location}/supportedLanguages"),
        ("POST", "/invocations"),
        ("GET", "/v1/models"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/classify"),
        ("POST", "/tag"),
        ("POST", "/next"),
        ("POST", "/fill"),
    ],
)
@pytest.mark.usefixtures("generators")
def test_everything_is_answered_as_the_document_says(
    document: schemathesis.BaseSchema, method: str, path: str, allowed: GenerationMode
) -> None:
    operation = document[path][method]
    if allowed == GenerationMode.NEGATIVE and not (operation.body or operation.query or operation.path_parameters):
        return  # nothing can be asked wrongly

    @hypothesis.seed(1)
    @hypothesis.settings(max_examples=8, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @hypothesis.given(case=operation.as_strategy(generation_mode=allowed))
    def ask(case: schemathesis.Case) -> None:
        # Which languages, words and widths there are is the model's to say: what the document allows may be refused.
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    ask()


DIALECTS = {  # the beginnings of paths -> the name in a summary, and what an error has
    "/language/translate/": ("Google", "error"),
    "/v3/projects/": ("Google v3", "error"),
    "/v2/": ("DeepL", "message"),
    "/v3/": ("DeepL v3", "message"),
    "/v1/": ("OpenAI", "error"),
    "/invocations": ("MLflow", "error_code"),
}


@pytest.mark.parametrize("address", ["/spec", "/openapi.json"])
def test_every_route_of_a_dialect_is_described_with_its_errors(app: FastAPI, address: str) -> None:
    described, document = set(), Client(app).get(address).json()
    for path, operations in document["paths"].items():
        start = next((start for start in DIALECTS if path.startswith(start)), None)
        for operation in operations.values() if start else ():
            name, field = DIALECTS[str(start)]
            described.add(start)
            assert operation["summary"].startswith(name), path
            for code, answer in operation["responses"].items():
                if int(code) >= 400:
                    name = answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                    assert field in document["components"]["schemas"][name]["properties"], (path, code)
    assert described == set(DIALECTS)


def test_the_documentation_page_loads_nothing_from_elsewhere(app: FastAPI) -> None:
    get = Client(app).get
    page = get("/docs")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'self';")
    links = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert len(links) == 4
    for link in links:
        if link != "data:,":
            found = get(f"/{link}")
            assert (found.status_code, len(found.content) > 50) == (200, True), link
    assert "<script>" not in page.text  # the policy would keep an inline script from running
    assert "openapi.json" in get("/docs/start.js").text
    assert get("/openapi.json").status_code == 200
