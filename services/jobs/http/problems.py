"""The refusals of the REST interface: {"error": ...} with the fitting status."""

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from dragoman.model.errors import ServiceError, UserError, reason
from dragoman.services.http.answers import refusal
from dragoman.services.jobs.http.access_log import REFUSED
from dragoman.services.jobs.ledger.asked import tell_change
from dragoman.services.jobs.ledger.ledger import ConflictError, UnknownJobError
from dragoman.services.jobs.service import schemas

WORDS = {
    400: "the request cannot be carried out",
    401: "the token is missing or wrong",
    403: "this person may not do it, or the request is from a foreign page",
    404: "nothing has that name",
    409: "its state does not allow it, or it changed in the meantime",
    413: "the body is too large",
    415: "the body is not JSON",
    422: "a field is missing, unknown or out of its bounds",
    429: "too many requests: Retry-After says when to come again",
    503: "the ledger, the planner or the cluster does not answer",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.Problem, "description": words} for code, words in WORDS.items()
}


# What a problem is answered with, here and on the pages.
STATUS = {UserError: 400, UnknownJobError: 404, ConflictError: 409, ServiceError: 503, SQLAlchemyError: 503}


def add_handlers(app: FastAPI) -> None:
    """Answers every problem with {"error": ...} and the fitting status."""

    async def answer(request: Request, problem: Exception) -> Response:
        response = refuse(request, problem)
        assert response is not None, "registered for the kinds that have an answer"
        return response

    for kind in (HTTPException, RequestValidationError, *STATUS):
        app.add_exception_handler(kind, answer)


def refuse(_request: Request, problem: Exception) -> Response | None:
    """Returns the answer to an error; None for an unexpected one."""
    if isinstance(problem, HTTPException):
        if problem.status_code in REFUSED:
            tell_change(str(problem.detail))
        return refusal(problem.status_code, str(problem.detail), problem.headers)
    if isinstance(problem, RequestValidationError):
        first = problem.errors()[0]
        return refusal(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    if isinstance(problem, UnknownJobError):
        return refusal(404, f"job {problem.args[0]!r} is not known")
    status = next((code for kind, code in STATUS.items() if isinstance(problem, kind)), None)
    return None if status is None else refusal(status, reason(problem))
