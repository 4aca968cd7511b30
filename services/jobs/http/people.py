"""The people of the issuer: whose account has which owner's name."""

from fastapi import APIRouter, HTTPException

from dragoman.services.jobs.http.parts import Admin, Here, Name
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.ledger.people import People
from dragoman.services.jobs.service import schemas

router = APIRouter(prefix="/v1/people", responses=PROBLEMS)


def _people(here: Here) -> People:
    if here.door.people is None:
        raise HTTPException(404, "people sign in with tokens here; service.oidc.issuer names an issuer")
    return here.door.people


@router.get("")
def people(here: Here, person: Admin) -> list[schemas.PersonView]:
    """Returns the accounts that have signed in, or may, with their roles at the last sign-in."""
    return [schemas.PersonView.model_validate(one) for one in _people(here).all()] if here.door.people else []


@router.put("/{owner}", status_code=204)
def allow(here: Here, person: Admin, owner: Name, _: schemas.Nothing) -> None:
    """Lets the next account that signs in under this name have it, with its jobs."""
    _people(here).allow(owner, person.owner)


@router.delete("/{owner}", status_code=204)
def forget(here: Here, person: Admin, owner: Name) -> None:
    """Frees a name; its sign-ins and the tokens made with them end at once."""
    _people(here).forget(owner, person.owner)
