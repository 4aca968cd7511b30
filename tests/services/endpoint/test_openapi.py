"""The OpenAPI document is true: what it allows and what it forbids is asked, and the answers held against it."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.applications import Starlette

from dragoman.model.inference.translator import Alternative, Translation
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models.loaded_model import LoadedModel, Origin
from dragoman.services.settings import Limits, ServeConfig
from tests.services.endpoint.conftest import Client, only_model

# Schemathesis asks by way of Starlette's client, which would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")


class Echo:
    """A translator that says everything again."""

    def translate(self, lines: Sequence[str], decode: DecodeConfig, on_error: str) -> list[Translation]:
        return [Translation(line, 0.0, [Alternative(f"{line}{rank}", 0.0) for rank in range(3)]) for line in lines]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starlette]:
    """The application over a translator, with documents and suggestions."""
    translator: Any = Echo()
    model = LoadedModel(translator, DecodeConfig(), Origin("echo", "1", "run1", "abc"), "en", "de")
    batcher = Batcher(LoadedModel.translate)
    batcher.start()
    queue = InferenceQueue(batcher, lambda: model)
    folder = tmp_path_factory.mktemp("documents")
    limits = Limits(characters=100, texts=4, body=100_000)
    endpoint = Endpoint(only_model(queue), queue, limits, config=ServeConfig(host="0.0.0.0"))
    endpoint.suggestions = folder / "suggestions.jsonl"
    documents = Documents(endpoint, folder)
    yield create_app(endpoint, documents)
    documents.close()
    batcher.stop(60)


@pytest.fixture(scope="module")
def document(app: Starlette) -> schemathesis.BaseSchema:
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
        ("POST", "/v2/translate"),
        ("GET", "/v2/languages"),
        ("POST", "/translate_file"),
        ("GET", "/v2/usage"),
        ("POST", "/invocations"),
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


def test_every_reference_in_the_document_leads_somewhere(app: Starlette) -> None:
    document = Client(app).get("/spec").json()
    references = re.findall(r'"\$ref":"#/([^"]*)"', json.dumps(document, separators=(",", ":")))
    assert len(references) > 20
    for reference in references:
        found: Any = document
        for name in reference.split("/"):
            found = found[name]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["summary"] and operation["responses"], path


def test_the_documentation_page_loads_nothing_from_elsewhere(app: Starlette) -> None:
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
