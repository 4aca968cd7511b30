"""Lets a command line in: it asks, its owner types a code on the page /login/device, it takes its token."""

from fastapi import APIRouter, Request, Response

from dragoman.model.errors import UserError
from dragoman.services.jobs.http.parts import Here
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.service.sign_in import WAITS

PAUSE = 2.0  # seconds between two questions of a command line that waits
router = APIRouter(prefix="/v1/login", responses=PROBLEMS)


def _open(here: Here, request: Request) -> None:
    here.guard.count_address(request)
    here.guard.refuse_untyped(request)
    if not here.guard.keys:
        raise UserError("nobody is asked for a token here")


@router.post("", status_code=201)
def ask(here: Here, request: Request, _: schemas.Nothing) -> schemas.LoginView:
    """Begins a sign-in; needs no token."""
    _open(here, request)
    secret, code = here.devices.ask(request.client.host if request.client else "an unknown address")
    return schemas.LoginView(secret=secret, code=code, page=f"{here.url}/login/device", seconds=WAITS, pause=PAUSE)


@router.post("/token")
def take(here: Here, request: Request, response: Response, body: schemas.LoginSecret) -> schemas.LoginToken:
    """Returns the token of a sign-in, once; null while nobody has typed the code."""
    _open(here, request)
    token = here.devices.take(body.secret)
    response.headers["Cache-Control"] = "no-store"
    return schemas.LoginToken(token=token)
