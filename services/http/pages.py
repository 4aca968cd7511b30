"""Pages of all services: headers that let nothing in from elsewhere, templates that escape, static files.

A browser may keep a static file whose address has a digest of its content."""

import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from dragoman.services.version import version

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src {images}; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SHARED = Path(__file__).resolve().parent / "static"  # files of all pages


def page_headers(images: str = "'self'") -> dict[str, str]:
    """Returns a page's headers; `images`: where it may have pictures from."""
    return {
        "Content-Security-Policy": POLICY.format(images=images),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "X-Frame-Options": "DENY",
    }


def page_templates(folder: Path, static: str) -> Environment:
    """Returns the templates in FOLDER/templates.

    Their `asset` gives the address, below `static`, of a file of FOLDER/static; it changes with the file's content.
    """
    templates = Environment(
        loader=FileSystemLoader(folder / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {
        "dragoman": version(),
        "asset": lambda name: f"{static}{versioned(folder / 'static', name)}",
    }
    return templates


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
