"""The page of the audit, and the same rows as CSV."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.pages.export import csv_lines
from dragoman.services.jobs.pages.site import HEADERS, Site
from dragoman.services.jobs.pages.words import iso
from dragoman.services.jobs.service import schemas

ROWS, AT_ONCE = 50, 500  # of a page; of a query for a file
FILTERS = ("person", "what", "status", "since", "until")
STATUSES = {"": "Any answer", "2xx": "Done (2xx)", "4xx": "Refused (4xx)", "401": "No valid token (401)"}
STATUSES |= {"403": "Not allowed (403)", "5xx": "Failed (5xx)"}
HEAD = ("time", "person", "token", "address", "method", "resource", "status", "detail")


def add(router: APIRouter, site: Site) -> None:
    """Adds the routes."""

    @router.get("/audit")
    def audit(request: Request) -> Response:
        visitor, problem = site.visitor(request), ""
        given = {key: request.query_params.get(key, "").strip()[:200] for key in FILTERS}
        before = request.query_params.get("before", "")
        try:
            asked = read(given, before)
            rows = site.operations.audit_rows(visitor.person, asked, asked.cursor, ROWS + 1)
        except UserError as wrong:
            rows, problem = [], str(wrong)
        query = {key: value for key, value in given.items() if value}
        more = f"/audit?{urlencode({**query, 'before': rows[ROWS - 1].id})}" if len(rows) > ROWS else ""
        shown: dict[str, Any] = {"rows": rows[:ROWS], "given": given, "query": urlencode(query), "more": more}
        shown |= {"statuses": STATUSES, "first": not before}
        return site.page(request, visitor, "audit.html", 400 if problem else 200, problem=problem, **shown)

    @router.get("/audit.csv")
    def table(request: Request) -> Response:
        visitor = site.visitor(request)
        asked = read({key: request.query_params.get(key, "").strip() for key in FILTERS}, "")
        asked.filter(None, site.now)  # refused before the answer begins
        headers = {**HEADERS, "Content-Disposition": 'attachment; filename="audit.csv"'}
        return StreamingResponse(_csv(site, visitor.person, asked), media_type="text/csv", headers=headers)


def read(given: dict[str, str], before: str) -> schemas.AuditQuery:
    """Returns what an address asks for. Raises UserError for a value that its field does not take."""
    wanted = {key: value for key, value in given.items() if value}
    try:
        return schemas.AuditQuery.model_validate({**wanted, "cursor": before or None})
    except ValidationError as problem:
        first = problem.errors()[0]
        raise UserError(f"{first['loc'][0]}: {first['msg']}") from None


def _csv(site: Site, person: Person, asked: schemas.AuditQuery) -> Iterator[str]:
    """Yields the wanted rows, newest first, as pieces of a CSV file."""
    yield csv_lines([HEAD])
    before = None
    while found := site.operations.audit_rows(person, asked, before, AT_ONCE):
        yield csv_lines([(iso(one.at), *(getattr(one, name) for name in HEAD[1:])) for one in found])
        before = found[-1].id
