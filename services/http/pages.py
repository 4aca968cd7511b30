"""What the pages of all services have: headers that let nothing in from elsewhere, and templates that escape."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dragoman.services.http.static_files import versioned
from dragoman.services.version import version

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src {images}; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


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
