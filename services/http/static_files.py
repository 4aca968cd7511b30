"""Static files of a page: a browser may keep those whose address changes with their content."""

from typing import Any

from starlette.responses import Response
from starlette.staticfiles import StaticFiles


class KeptStaticFiles(StaticFiles):
    """Files that are asked for with `?v=HASH` are kept for a year, others are asked for again."""

    async def get_response(self, path: str, scope: Any) -> Response:
        answer = await super().get_response(path, scope)
        kept = "public, max-age=31536000, immutable" if b"v=" in scope.get("query_string", b"") else "no-cache"
        answer.headers["Cache-Control"] = kept
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer
