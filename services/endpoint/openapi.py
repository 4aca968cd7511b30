"""The OpenAPI document of each route: its parameters and all its answers.

The parameters come from the classes that check them (requests.py, vector_requests.py); a test sends the endpoint
everything that they allow and forbid.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Response

from dragoman.services.endpoint.answer import OWN, Dialect
from dragoman.services.endpoint.requests import Parameters

Schema = dict[str, Any]

ERRORS = {
    400: "a parameter is missing, not supported, of a wrong type or over a limit",
    401: "no API key, or a wrong one",
    403: "no API key, or a wrong one",
    404: "an unknown word, with similar known ones; or no model here answers such questions",
    408: "the request's body did not come in time",
    413: "the request's body is too large",
    429: "too many requests wait: try again after Retry-After seconds",
    456: "the key's characters are used up",
    500: "a line cannot be translated, or an internal error",
    503: "no model is loaded yet, or no answer in time",
}
RARE = (401, 456)  # only some dialects have these
ORIGIN = {
    "X-Model-Name": "the registered model, or the run of a bundle",
    "X-Model-Version": "its version, or the first digits of the bundle's hash",
    "X-Run-Id": "the MLflow run that made it",
    "X-Manifest-Hash": "the shards that it was trained on",
    "X-Dragoman-Via": "the language in the middle, if two models translated one after the other",
}


def in_body(schema_class: type[Parameters]) -> Schema:
    """Returns a request with these parameters in its body; the query string may hold them too, without a body."""
    schema = schema_class.model_json_schema()
    kinds = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


def in_query(schema_class: type[Parameters]) -> Schema:
    """Returns a request with these parameters in the query string; lists of numbers need a body, so it needs a word."""
    schema = schema_class.model_json_schema()
    needed = schema.get("required", ["word"])
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in needed, "schema": field}
            for name, field in schema["properties"].items()
            if name != "vector"
        ]
    }


def in_path(path: str, operation: Schema) -> Schema:
    """Returns the request with the parameters that stand in the path, each a text."""
    named = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)", path)
    ]
    return {**operation, "parameters": [*named, *operation.get("parameters", ())]} if named else operation


@dataclass(frozen=True)
class Routes:
    """Adds a dialect's routes to the application, each with its part of the document."""

    app: FastAPI
    name: str = ""  # begins the summaries
    dialect: Dialect = OWN  # of errors

    def add(
        self,
        methods: str,
        path: str,
        function: Callable[..., Awaitable[Response]],
        about: str,
        kind: Any,
        request: type[Parameters] | Schema | None = None,
        *,
        origin: bool = False,
    ) -> None:
        """Adds a route for `methods`, separated by blanks; its answers are of the `kind`, see `answers`."""
        for method in methods.split():
            placed = in_query if method in ("GET", "DELETE") else in_body
            operation = placed(request) if isinstance(request, type) else request or {}
            self.app.api_route(
                path,
                methods=[method],
                summary=f"{self.name}{about}",
                responses=answers(kind, origin=origin, dialect=self.dialect),
                openapi_extra=in_path(path, operation),
            )(function)


def answers(kind: Any, *, origin: bool = False, dialect: Dialect = OWN) -> dict[int | str, Schema]:
    """Returns a route's answers: 200 with a `kind` (with `origin`, also its model's headers) and the errors, whose
    bodies have the dialect's form."""
    headers = {name: {"description": about, "schema": {"type": "string"}} for name, about in ORIGIN.items()}
    by_status: dict[int | str, Schema] = {
        200: {"description": "the answer", "model": kind, "headers": headers if origin else {}}
    }
    for code, about in ERRORS.items():
        if code not in RARE or code in dialect.statuses.values():
            by_status[code] = {"description": about, "model": dialect.schema}
    return by_status


def state_answers(kind: Any) -> dict[int | str, Schema]:
    """Returns the answers of a route with the same body for 200 and 503."""
    return {200: {"description": "all is well", "model": kind}, 503: {"description": "not so", "model": kind}}
