"""The OpenAPI document: Starlette reads it from the handlers' docstrings, pydantic from the classes they name."""

from functools import cache
from typing import Any

import orjson
from pydantic import TypeAdapter
from starlette.routing import BaseRoute
from starlette.schemas import SchemaGenerator

from dragoman.services.endpoint.deepl_requests import DeepLRequest
from dragoman.services.endpoint.requests import DetectionRequest, FileRequest, SuggestionRequest, TranslationRequest
from dragoman.services.endpoint.schemas import ANSWERS
from dragoman.services.version import version

REQUESTS = (TranslationRequest, DetectionRequest, SuggestionRequest, DeepLRequest)
KINDS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
TEMPLATE = "#/components/schemas/{model}"
ORIGIN = {
    "X-Model-Name": "the registered model, or the run of a bundle",
    "X-Model-Version": "its version, or the first digits of the bundle's hash",
    "X-Run-Id": "the MLflow run that made it",
    "X-Manifest-Hash": "the shards that it was trained on",
    "X-Dragoman-Via": "the language in the middle, if two models translated one after the other",
}


def describe(routes: list[BaseRoute], title: str) -> dict[str, Any]:
    """Returns the document of the routes."""
    base = {"openapi": "3.1.0", "info": {"title": title, "version": version()}, "components": components()}
    written = orjson.dumps(SchemaGenerator(base).get_schema(routes=routes), option=orjson.OPT_NON_STR_KEYS)
    document: dict[str, Any] = orjson.loads(written)  # YAML's keys may be numbers
    return document


@cache
def components() -> dict[str, Any]:
    """Returns the bodies of requests and the answers, by the names of their classes."""
    named = {**{model.__name__: model for model in REQUESTS}, **ANSWERS}
    kinds = [(name, "validation", TypeAdapter(kind)) for name, kind in named.items()]
    schemas, defined = TypeAdapter.json_schemas(kinds, ref_template=TEMPLATE)  # type: ignore[arg-type]  # its Literal
    by_name = {name: schema for (name, _), schema in schemas.items()}
    headers = {name: {"description": about, "schema": {"type": "string"}} for name, about in ORIGIN.items()}
    form = FileRequest.model_json_schema()
    form["properties"]["file"] = {"type": "string", "format": "binary"}
    form["required"] = [*form["required"], "file"]
    return {
        "schemas": defined.get("$defs", {}),
        "requestBodies": {
            **{model.__name__: _body(by_name[model.__name__], KINDS) for model in REQUESTS},
            "FileRequest": _body(form, KINDS[-1:]),
        },
        "responses": {
            name: {
                "description": "an error" if name.endswith("Error") else "the answer",
                "headers": headers,
                "content": {"application/json": {"schema": by_name[name]}},
            }
            for name in ANSWERS
        },
    }


def _body(schema: dict[str, Any], kinds: tuple[str, ...]) -> dict[str, Any]:
    return {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
