"""The routes that tell the endpoint's state: health, the served models, metrics, and the OpenAPI document.

Where requests need a key, so does whatever names a model's version, run or hash, except from `serve.monitors`.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.services.endpoint.call import admit, endpoint_of
from dragoman.services.endpoint.openapi import describe
from dragoman.services.http.addresses import is_within
from dragoman.services.http.answers import as_json
from dragoman.services.telemetry import FORMAT
from dragoman.services.version import version


async def health(request: Request) -> Response:
    """Tells if every served model answers.
    ---
    summary: "Health check: 200 if every served model answers"
    responses: {200: {$ref: "#/components/responses/Health"}, 503: {$ref: "#/components/responses/Health"}}
    """
    code, body = endpoint_of(request).status()
    return as_json({"status": body["status"]}, code)


async def status(request: Request) -> Response:
    """Tells the served models and their origin.
    ---
    summary: The served models and their origin
    responses:
      200: {$ref: "#/components/responses/Status"}
      403: {$ref: "#/components/responses/Error"}
      503: {$ref: "#/components/responses/Status"}
    """
    await check_monitor(request)
    code, body = endpoint_of(request).status()
    return as_json({**body, "dragoman": version()}, code)


async def models(request: Request) -> Response:
    """Lists the models.
    ---
    summary: The translation models
    responses: {200: {$ref: "#/components/responses/Models"}, 403: {$ref: "#/components/responses/Error"}}
    """
    await check_monitor(request)
    return as_json([model.facts() for model in endpoint_of(request).models.models])


async def metrics(request: Request) -> Response:
    await check_monitor(request)
    return Response(endpoint_of(request).metrics.telemetry.text(), headers={"Content-Type": FORMAT})


async def check_monitor(request: Request) -> None:
    """Raises KeyRefusedError as `admit` does, unless the client's address is a monitor's."""
    address = request.client.host if request.client else ""
    if not is_within(address, tuple(endpoint_of(request).config.monitors)):
        await admit(request)


async def openapi(request: Request) -> Response:
    return as_json(describe(request.app.routes, "Dragoman"))


async def spec(request: Request) -> Response:
    return as_json(describe(request.app.routes, "LibreTranslate"))  # its clients know an instance by this title


ROUTES = [
    Route("/health", health),
    Route("/status", status),
    Route("/models", models),
    Route("/metrics", metrics, include_in_schema=False),
    Route("/openapi.json", openapi, include_in_schema=False),
    Route("/spec", spec, include_in_schema=False),
]
