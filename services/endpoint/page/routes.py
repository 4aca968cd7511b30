"""The endpoint's page: `/` for browsers, the form that it posts, and its files below `/static`.

Without script the form posts, and the whole page comes back with the answer. With script the same form is sent with the
header `X-Part`, and the parts that show the answer come back alone. Programs that ask for `/` get a 404.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from dragoman.model.languages import language_name
from dragoman.model.text.excerpt import for_markup
from dragoman.services.endpoint.call import admit, endpoint_of
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.keys import Key
from dragoman.services.endpoint.requests import TranslationRequest, validate
from dragoman.services.endpoint.translation import Answer
from dragoman.services.http.pages import KeptStaticFiles, page_headers, page_templates
from dragoman.services.models.catalogue import Route as ModelRoute
from dragoman.services.texts.options import FORMATS

FOLDER = Path(__file__).resolve().parent
HEADERS = {**page_headers(), "Vary": "Accept"}
ALTERNATIVES = 3  # that the page asks for
HOW = {
    "copied": "copied",
    "stand-in": "a word stood for it",
    "cut": "the sentence was cut there",
    "aligned": "put beside its words by attention",
    "guessed": "put beside its words by a guess",
    "inflected": "with another ending",
    "kept": "around its sentence",
}
KINDS = {"placeholders": "placeholder", "tags": "tag", "terms": "term", "words": "unknown word"}


@dataclass(frozen=True)
class Shown:
    """An answer as the page shows it."""

    answer: Answer
    route: ModelRoute
    detected: bool  # True: the client named no source language


async def show(request: Request) -> Response:
    """Shows the page to browsers."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404, "Not Found")
    return _page(endpoint_of(request))


async def answer(request: Request) -> Response:
    """Answers the form: with the whole page, or with the part that the script puts into it."""
    endpoint, values = endpoint_of(request), {}
    part = "x-part" in request.headers
    try:
        call = await admit(request)
        values = call.parameters
        shown = await _translate(endpoint, values, call.key)
    except HTTPException as problem:
        endpoint.metrics.refuse(problem.status_code, getattr(problem, "reason", ""))
        message = problem.detail.removeprefix("Invalid request: ")
        if part:
            return _render("_answer.html", problem.status_code, values, problem=message)
        return _page(endpoint, problem.status_code, values, problem=message)
    return _render("_answer.html", 200, values, shown=shown) if part else _page(endpoint, 200, values, shown=shown)


ROUTES: list[BaseRoute] = [
    Route("/", show, include_in_schema=False),
    Route("/", answer, methods=["POST"], include_in_schema=False),
    Mount("/static", KeptStaticFiles(FOLDER / "static")),
]


async def _translate(endpoint: Endpoint, values: dict[str, Any], key: Key) -> Shown:
    """Returns the answer to the form. Raises HTTPException: as POST /translate."""
    if isinstance(values.get("q"), str):
        values["q"] = values["q"].replace("\r\n", "\n")  # a browser's forms have CRLF
    more = {"alternatives": min(ALTERNATIVES, endpoint.limits.alternatives), "report": True, "alignment": False}
    asked = validate(TranslationRequest, values | more | {"terms": values.get("terms") or None})
    if asked.batch:
        raise HTTPException(400, "Invalid request: q must be a string")
    answers, route = await endpoint.translate(asked.question(endpoint.limits, key))
    return Shown(answers[0], route, asked.source == "auto")


def _page(endpoint: Endpoint, status: int = 200, values: Mapping[str, Any] | None = None, **context: Any) -> Response:
    try:
        served = endpoint.served()
    except HTTPException as problem:  # no model is loaded yet
        context |= {"problem": problem.detail, "languages": [], "endpoint": endpoint}
        return _render("page.html", problem.status_code, values, **context)
    languages = [(code, language_name(code), list(targets)) for code, targets in served.view.targets.items()]
    return _render("page.html", status, values, languages=languages, endpoint=endpoint, **context)


def _render(template: str, status: int, values: Mapping[str, Any] | None, **context: Any) -> Response:
    shared = {"values": values or {}, "shown": None, "problem": ""}
    text = make_templates().get_template(template).render(**shared | context)
    return HTMLResponse(for_markup(text), status, headers=HEADERS)


@cache
def make_templates() -> Environment:
    templates = page_templates(FOLDER, "static/")
    templates.filters |= {"language": language_text, "kept": kept_entries}
    templates.globals["FORMATS"] = FORMATS
    return templates


class Kept(NamedTuple):
    """Something that came back unchanged, how, and how often."""

    text: str
    kind: str
    how: str
    times: int
    source: str = ""  # of a term


def language_text(code: str) -> str:
    """Returns a language's name; of none a dash."""
    return language_name(code) if code else "–"


def kept_entries(report: Mapping[str, Any]) -> Sequence[Kept]:
    """Returns what a report says was kept; equal entries are counted."""
    entries: dict[tuple[str, str, str, str], int] = {}
    for name, kind in KINDS.items():
        for entry in report.get(name, ()):
            how = HOW.get(entry["how"], entry["how"])
            if entry.get("form") == "base":
                how += ", in its base form"
            mark = name == "words" and not any(map(str.isalnum, entry["text"]))
            key = (entry["text"], "mark" if mark else entry.get("kind", kind), how, entry.get("source", ""))
            entries[key] = entries.get(key, 0) + 1
    return [Kept(*key[:3], times, key[3]) for key, times in entries.items()]
