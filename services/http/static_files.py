"""Static files of a page: its own and those of all pages. A browser may keep those whose address has their content."""

import hashlib
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.staticfiles import StaticFiles

SHARED = Path(__file__).resolve().parent / "static"


class KeptStaticFiles(StaticFiles):
    """Files of a folder, or of all pages. Those that are asked for with `?v=HASH` are kept for a year."""

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, packages=[(__package__, SHARED.name)])

    async def get_response(self, path: str, scope: Any) -> Response:
        answer = await super().get_response(path, scope)
        kept = "public, max-age=31536000, immutable" if b"v=" in scope.get("query_string", b"") else "no-cache"
        answer.headers["Cache-Control"] = kept
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer


def versioned(folder: Path, name: str) -> str:
    """Returns a file's name with a digest of its content."""
    path = next(place / name for place in (folder, SHARED) if (place / name).is_file())
    return f"{name}?v={hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
