"""The OpenAPI document of each route: its parameters and all its answers.

The parameters come from the classes that check them (requests.py, vector_requests.py); a test sends the endpoint
everything that they allow and forbid.
"""

import re
from typing import Any, get_type_hints

from dragoman.services.endpoint.answer import NO_KEY, OVER_QUOTA, openai
from dragoman.services.endpoint.requests import Parameters
from dragoman.services.http.answers import Form, error

Schema = dict[str, Any]

ERRORS = {
    400: "a parameter is missing, not supported, of a wrong type or over a limit",
    403: "no API key, or a wrong one",
    404: "an unknown word, with similar known ones; or no model here answers such questions",
    408: "the request's body did not come in time",
    413: "the request's body is too large",
    429: "too many requests wait: try again after Retry-After seconds",
    456: "the key's characters are used up",
    500: "a line cannot be translated, or an internal error",
    503: "no model is loaded yet, or no answer in time",
}
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
    return {**operation, "parameters": [*named, *operation.get("parameters", ())]}


def vector_request() -> Schema:
    """Returns the path and the query string of /vectors/{word}."""
    word = {"name": "word", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return {"parameters": [word, {"name": "api_key", "in": "query", "schema": {}}]}


def answers(kind: Any, *refused: int, origin: bool = False, form: Form = error) -> dict[int | str, Schema]:
    """Returns a route's answers: 200 with a `kind` (with `origin`, also its model's headers) and these errors, whose
    bodies have the dialect's form."""
    headers = {name: {"description": about, "schema": {"type": "string"}} for name, about in ORIGIN.items()}
    wrong = {"model": get_type_hints(form)["return"]}
    by_status: dict[int | str, Schema] = {
        200: {"description": "the answer", "model": kind, "headers": headers if origin else {}}
    }
    if form is openai:
        by_status[NO_KEY] = {"description": ERRORS[403], **wrong}
    codes = refused or tuple(code for code in ERRORS if code != OVER_QUOTA)
    return by_status | {code: {"description": ERRORS[code], **wrong} for code in codes}


def state_answers(kind: Any) -> dict[int | str, Schema]:
    """Returns the answers of a route with the same body for 200 and 503."""
    return {200: {"description": "all is well", "model": kind}, 503: {"description": "not so", "model": kind}}
