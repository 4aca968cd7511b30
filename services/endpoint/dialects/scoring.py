"""MLflow's scoring protocol: /invocations, /ping, /version. A text gives its translation, as our models in MLflow do.

Texts are the one column of `dataframe_split` or `dataframe_records`, or the strings of `inputs` or `instances`.
`params` may say `source`, `target` and `format`.
"""

from collections.abc import Mapping
from importlib import metadata
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from dragoman.services.endpoint.answer import MLFLOW
from dragoman.services.endpoint.call import Call
from dragoman.services.endpoint.dialects import schemas
from dragoman.services.endpoint.dialects.questions import ask, choose_pair
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.http.answers import as_json
from dragoman.services.texts.options import FORMATS, TextOptions

PLACES = ("dataframe_split", "dataframe_records", "inputs", "instances")
LIST = {"type": "array"}
PARAMS = ("source", "target", "format")


def add_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the routes, with MLflow's parameters, answers and errors."""

    async def invoke(call: Call) -> Response:
        values = call.parameters
        texts = texts_of(values)
        params = params_of(values.get("params"))
        source, target = choose_pair(endpoint, params.get("source"), params.get("target"))
        options = TextOptions(format=params.get("format", "text"))
        translations, headers = await ask(endpoint, call.key, texts, source, target, options)
        return as_json({"predictions": [translation.text for translation in translations]}, headers=headers)

    async def ping(_: Request) -> Response:
        return Response("\n", endpoint.status()[0], media_type="application/json")

    async def version(_: Request) -> Response:
        return Response(metadata.version("mlflow"), media_type="text/html")

    properties = {
        "dataframe_split": {
            "type": "object",
            "properties": {"columns": LIST, "data": LIST},
            "required": ["columns", "data"],
        },
        "dataframe_records": {"type": "array", "items": {"type": "object"}},
        **dict.fromkeys(("inputs", "instances"), LIST),
        "params": {"type": "object"},
    }
    alternative = [{"required": [name]} for name in PLACES]
    body = {"type": "object", "properties": properties, "oneOf": alternative}
    request = {"requestBody": {"required": True, "content": {"application/json": {"schema": body}}}}
    routes = Routes(app, "MLflow: ", MLFLOW)
    routes.add("POST", "/invocations", invoke, "translate texts", schemas.Predictions, request, origin=True)
    app.get("/ping", include_in_schema=False)(ping)
    app.get("/version", include_in_schema=False)(version)


def texts_of(values: Mapping[str, Any]) -> list[str]:
    """Returns the texts of a request.

    Raises HTTPException: 400, it has none, or something else than one column of texts.
    """
    names = [name for name in PLACES if name in values]
    if len(names) != 1:
        raise HTTPException(400, f"The request must have exactly one of {', '.join(PLACES)}")
    (name,) = names
    content = values[name]
    if name == "dataframe_split":
        content = content.get("data") if isinstance(content, dict) else None
    elif isinstance(content, dict):  # inputs: columns by name
        content = next(iter(content.values())) if len(content) == 1 else None
    rows = [content] if isinstance(content, str) else content
    if not isinstance(rows, list) or not rows:
        raise HTTPException(400, f"{name} holds no texts: a list of strings, or one column of them, is expected")
    texts = [cell_of(row) for row in rows]
    if not all(isinstance(text, str) for text in texts):
        raise HTTPException(400, f"{name} holds something else than one column of texts")
    return texts


def cell_of(row: Any) -> Any:
    """Returns the one cell of a row; the row itself if it is no row of one cell."""
    if isinstance(row, dict) and len(row) == 1:
        return next(iter(row.values()))
    if isinstance(row, list) and len(row) == 1:
        return row[0]
    return row


def params_of(params: Any) -> dict[str, Any]:
    """Returns the checked `params`. Raises HTTPException: 400, an unknown one or an invalid value."""
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise HTTPException(400, "params must be an object")
    for name, value in params.items():
        if name not in PARAMS:
            raise HTTPException(400, f"params takes {', '.join(PARAMS)} only")
        if not isinstance(value, str) or (name == "format" and value not in FORMATS):
            raise HTTPException(400, f"params.{name} must be {' or '.join(FORMATS) if name == 'format' else 'a code'}")
    return params
