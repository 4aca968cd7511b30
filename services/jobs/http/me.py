"""The user of the request, and the tokens that they make for themselves."""

from fastapi import APIRouter

from dragoman.services.jobs.http.parts import Here, Name, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.service import schemas

router = APIRouter(prefix="/v1/me", responses=PROBLEMS)


@router.get("")
def me(here: Here, person: Viewer) -> schemas.MeView:
    """Returns who asks, and their role."""
    mine = [one.name.rpartition("/")[2] for one in here.own_tokens.of(person.owner) if one.digest == person.proof]
    return schemas.MeView(owner=person.owner, role=person.role, token=mine[0] if mine else None)


@router.get("/tokens")
def my_tokens(here: Here, person: Viewer) -> list[schemas.OwnTokenView]:
    """Returns the tokens that the asker made and not those of administrators; never the tokens themselves."""
    return [schemas.OwnTokenView.model_validate(one) for one in here.own_tokens.of(person.owner)]


@router.post("/tokens", status_code=201)
def make(here: Here, person: Viewer, body: schemas.OwnTokenRequest) -> schemas.IssuedToken:
    """Makes a token with an end and at most the asker's role; it is shown only once."""
    return schemas.IssuedToken(token=here.own_tokens.make(person, body.name, body.role, body.ends))


@router.delete("/tokens/{name}", status_code=204)
def revoke(here: Here, person: Viewer, name: Name) -> None:
    """Ends one of the asker's tokens at once, with its sessions and streams."""
    here.own_tokens.revoke(person.owner, name, person.owner)
