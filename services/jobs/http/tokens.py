"""Tokens: listed, issued, replaced, revoked."""

from fastapi import APIRouter

from services.jobs.http.parts import Admin, Here, Name
from services.jobs.http.problems import PROBLEMS
from services.jobs.service import schemas

router = APIRouter(prefix="/v1/tokens", responses=PROBLEMS)


@router.get("")
def tokens(here: Here, person: Admin) -> list[schemas.TokenView]:
    """Returns the names, owners and roles of the tokens, never the tokens themselves."""
    return [schemas.TokenView.model_validate(token) for token in here.access.tokens()]


@router.post("", status_code=201)
def issue(here: Here, person: Admin, body: schemas.TokenRequest) -> schemas.IssuedToken:
    """Issues a new token, which is shown only once."""
    return schemas.IssuedToken(token=here.access.issue(body.name, body.owner, body.role, person.owner))


@router.post("/{name}/rotate")
def rotate(here: Here, person: Admin, name: Name) -> schemas.IssuedToken:
    """Replaces a token by a new one, which is shown only once."""
    return schemas.IssuedToken(token=here.access.rotate(name, person.owner))


@router.delete("/{name}", status_code=204)
def revoke(here: Here, person: Admin, name: Name) -> None:
    """Revokes a token."""
    here.access.revoke(name, person.owner)
