"""The endpoint's page: `/` for browsers, the form that it posts, and its files below `/static`.

Without script the form posts, and the whole page comes back with the answer. With script the same form is sent with the
header `X-Part`, and the parts that show the answer come back alone. Programs that ask for `/` get a 404 as before.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from jinja2 import Environment
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.languages import language_name
from dragoman.model.text.excerpt import for_markup
from dragoman.services.endpoint.call import Call, admit
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.glossaries import Glossary
from dragoman.services.endpoint.keys import Key
from dragoman.services.endpoint.page.words import kept_entries, language_text
from dragoman.services.endpoint.requests import TranslationRequest, validate
from dragoman.services.endpoint.terms import with_terms
from dragoman.services.endpoint.translation import Answer
from dragoman.services.http.pages import page_headers, page_templates
from dragoman.services.http.static_files import KeptStaticFiles
from dragoman.services.http.wrapper import REFUSED
from dragoman.services.models.catalogue import Route
from dragoman.services.texts.options import FORMATS

FOLDER = Path(__file__).resolve().parent
HEADERS = {**page_headers(), "Vary": "Accept"}
ALTERNATIVES, OTHERS = 3, 5  # that the page asks for: of a translation, and at one of its words


@dataclass(frozen=True)
class Shown:
    """An answer as the page shows it."""

    answer: Answer
    route: Route
    detected: bool  # True: the client named no source language


def add_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the page, its form and its files, unless the settings leave it out."""
    if not endpoint.config.page:
        return
    templates = make_templates()
    request_model = TranslationRequest.within(endpoint.limits)

    def render(template: str, status: int = 200, values: Mapping[str, Any] | None = None, **context: Any) -> Response:
        shared = {"values": values or {}, "shown": None, "problem": ""}
        text = templates.get_template(template).render(**shared | context)
        return HTMLResponse(for_markup(text), status, headers=HEADERS)

    async def page(status: int = 200, values: Mapping[str, Any] | None = None, **context: Any) -> Response:
        try:
            served = endpoint.served()
        except HTTPException as problem:  # no model, or none yet
            context |= {"problem": problem.detail, "languages": [], "models": [], "endpoint": endpoint}
            return render("page.html", problem.status_code, values, **context)
        languages = [(code, language_name(code), list(targets)) for code, targets in served.view.targets.items()]
        models = [offer.card for offer in served.view.offers]
        context |= {"languages": languages, "models": models, "endpoint": endpoint, "glossaries": await glossaries()}
        context["others"] = min(OTHERS, endpoint.limits.alternatives)
        return render("page.html", status, values, **context)

    async def glossaries() -> Sequence[Glossary]:
        """Returns the stored glossaries of everybody; those of a key are fetched by the page once it is given."""
        if endpoint.keys.needed:
            return []
        try:
            return await asyncio.to_thread(endpoint.glossaries.list, "")
        except (UserError, ServiceError):
            return []

    @app.get("/", include_in_schema=False)
    async def show(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404, "Not Found")
        return await page()

    @app.post("/", include_in_schema=False)
    async def answer(request: Request) -> Response:
        values: dict[str, Any] = {}
        part = "x-part" in request.headers
        try:
            call = await admit(Call, endpoint, request.scope, request.receive)
            values = call.parameters
            translation = await _translate(endpoint, request_model, values, call.key)
        except HTTPException as problem:
            request.scope[REFUSED] = getattr(problem, "reason", None)
            if part:
                return render("_answer.html", problem.status_code, values, problem=problem.detail)
            return await page(problem.status_code, values, problem=problem.detail)
        return (
            render("_answer.html", 200, values, shown=translation)
            if part
            else await page(200, values, shown=translation)
        )

    app.mount("/static", KeptStaticFiles(FOLDER / "static"))


async def _translate(endpoint: Endpoint, model: type[TranslationRequest], values: dict[str, Any], key: Key) -> Shown:
    """Returns the answer to the form. Raises HTTPException: as POST /translate."""
    if isinstance(values.get("q"), str):
        values["q"] = values["q"].replace("\r\n", "\n")  # a browser's forms have CRLF
    more = {"alternatives": min(ALTERNATIVES, endpoint.limits.alternatives), "report": True, "alignment": False}
    request = validate(
        model, values | more | {name: values.get(name) or None for name in ("version", "glossary", "terms")}
    )
    if request.batch:
        raise HTTPException(400, "Invalid request: q must be a string")
    question = request.question(key=key)
    if request.glossary or request.terms:
        question = await with_terms(question, endpoint.glossaries, request.glossary, request.terms)
    answers, route = await endpoint.translate(question)
    return Shown(answers[0], route, request.source == "auto")


def make_templates() -> Environment:
    templates = page_templates(FOLDER, "static/")
    templates.filters |= {"language": language_text, "kept": kept_entries}
    templates.globals["FORMATS"] = FORMATS
    return templates
