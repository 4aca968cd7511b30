"""/docs: shows the OpenAPI document with Swagger UI, served completely from here.

Swagger UI's files come from the package fastapi-offline. A policy header forbids the page to load anything from
elsewhere.
"""

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

# Swagger UI sets styles on its elements, and has its icons in its style sheet.
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dragoman</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/files/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="docs/files/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
START = 'SwaggerUIBundle({url: "openapi.json", dom_id: "#page", deepLinking: true, validatorUrl: null})\n'


async def page(_: Request) -> Response:
    return HTMLResponse(PAGE, headers={"Content-Security-Policy": POLICY})


async def start(_: Request) -> Response:
    return Response(START, media_type="text/javascript")


def documentation_routes() -> list[BaseRoute]:
    """Returns the page, its script and Swagger UI's files."""
    return [
        Route("/docs", page, include_in_schema=False),
        Route("/docs/start.js", start, include_in_schema=False),
        Mount("/docs/files", StaticFiles(directory=str(files("fastapi_offline") / "static"))),
    ]
