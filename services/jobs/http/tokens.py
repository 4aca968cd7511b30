"""Tokens: listed, issued, replaced, revoked."""

from typing import Annotated

from fastapi import APIRouter, Path

from dragoman.services.jobs.http.parts import Admin, Here, Name
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.service import schemas

AnyName = Annotated[str, Path(max_length=160, pattern=r"^[\w.+-]+(/[\w.+-]+)?$")]  # NAME, or OWNER/NAME
router = APIRouter(prefix="/v1/tokens", responses=PROBLEMS)


@router.get("")
def tokens(here: Here, person: Admin) -> list[schemas.TokenView]:
    """Returns the names, owners and roles of the tokens, never the tokens themselves."""
    return [schemas.TokenView.model_validate(token) for token in here.access.tokens()]


@router.post("", status_code=201)
def issue(here: Here, person: Admin, body: schemas.TokenRequest) -> schemas.IssuedToken:
    """Issues a new token, which is shown only once."""
    here.own_tokens.check_maker(person, first=True)
    return schemas.IssuedToken(token=here.access.issue(body.name, body.owner, body.role, person.owner))


@router.post("/{name}/rotate")
def rotate(here: Here, person: Admin, name: Name) -> schemas.IssuedToken:
    """Replaces a token by a new one, which is shown only once."""
    here.own_tokens.check_maker(person, first=True)
    return schemas.IssuedToken(token=here.access.rotate(name, person.owner))


@router.delete("/{name:path}", status_code=204)
def revoke(here: Here, person: Admin, name: AnyName) -> None:
    """Revokes a token with those that were made with it; OWNER/NAME is one that its owner made."""
    owner, slash, own = name.partition("/")
    if slash:
        here.own_tokens.revoke(owner, own, person.owner)
    else:
        here.access.revoke(name, person.owner)
