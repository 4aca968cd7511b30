"""MLflow's scoring protocol: /invocations, /ping, /version. A text gives its translation, as our models in MLflow do.

Texts are the one column of `dataframe_split` or `dataframe_records`, or the strings of `inputs` or `instances`.
`params` may say `source`, `target` and `format`.
"""

import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.model.languages import nearest
from dragoman.services.endpoint.call import admit, endpoint_of
from dragoman.services.endpoint.requests import CODE, check_size
from dragoman.services.endpoint.translation import Question
from dragoman.services.http.answers import as_json
from dragoman.services.texts.options import FORMATS, TextOptions

PLACES = ("dataframe_split", "dataframe_records", "inputs", "instances")
PARAMS = ("source", "target", "format")


async def invoke(request: Request) -> Response:
    """Translates.
    ---
    summary: "MLflow: translate texts"
    requestBody:
      required: true
      content:
        application/json:
          schema:
            type: object
            properties:
              dataframe_split:
                type: object
                properties: {columns: {type: array}, data: {type: array}}
                required: [columns, data]
              dataframe_records: {type: array, items: {type: object}}
              inputs: {type: array}
              instances: {type: array}
              params: {type: object}
            oneOf:
              - {required: [dataframe_split]}
              - {required: [dataframe_records]}
              - {required: [inputs]}
              - {required: [instances]}
    responses:
      200: {$ref: "#/components/responses/Predictions"}
      default: {$ref: "#/components/responses/MlflowError"}
    """
    endpoint, call = endpoint_of(request), await admit(request)
    texts = texts_of(call.parameters)
    params = params_of(call.parameters.get("params"))
    check_size(texts, endpoint.limits)
    source, target = choose_pair(endpoint.pairs(), params.get("source"), params.get("target"))
    options = TextOptions(format=params.get("format", "text"))
    answers, route = await endpoint.translate(Question(texts, source, target, options=options, key=call.key))
    return as_json({"predictions": [answer.text for answer in answers]}, headers=route.headers())


async def ping(request: Request) -> Response:
    return Response("\n", endpoint_of(request).status()[0], media_type="application/json")


async def version(_: Request) -> Response:
    return Response(metadata.version("mlflow"), media_type="text/html")


ROUTES = [
    Route("/invocations", invoke, methods=["POST"]),
    Route("/ping", ping, include_in_schema=False),
    Route("/version", version, include_in_schema=False),
]


def choose_pair(pairs: Sequence[tuple[str, str]], source: str | None, target: str | None) -> tuple[str | None, str]:
    """Returns the languages of a request that may name none: those of the one pair that fits; a source that several
    pairs have is detected (None).

    Raises HTTPException: 400, pairs with several targets fit, or none.
    """
    fitting = [
        pair
        for pair in pairs
        if (source is None or nearest(source, (pair[0],))) and (target is None or nearest(target, (pair[1],)))
    ]
    if target is None and len({into for _, into in fitting}) != 1:
        names = ", ".join(f"{origin}-{into}" for origin, into in pairs)
        raise HTTPException(400, f"name the target language: the pairs here are {names}")
    if source is None and len(fitting) == 1:
        source = fitting[0][0]
    return source, target or fitting[0][1]


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
        fits = value in FORMATS if name == "format" else isinstance(value, str) and re.fullmatch(CODE, value)
        if not fits:
            raise HTTPException(400, f"params.{name} must be {' or '.join(FORMATS) if name == 'format' else 'a code'}")
    return params
