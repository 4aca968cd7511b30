"""The owners of registered models."""

from fastapi import APIRouter

from dragoman.model.errors import UserError
from dragoman.services.jobs.http.parts import Admin, Here, Name, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.ledger.tables import account_of
from dragoman.services.jobs.service import schemas

router = APIRouter(prefix="/v1/models", responses=PROBLEMS)


@router.get("")
def owned(here: Here, person: Viewer) -> list[schemas.ModelView]:
    """Returns the owners of registered models, people or projects; only an admin sees all of them."""
    names = here.loop.intake.ownership.names.all()
    return [schemas.ModelView.model_validate(one) for one in names if person.sees(one.owner)]


@router.put("/{name}", status_code=204)
def give(here: Here, person: Admin, name: Name, body: schemas.ModelRequest) -> None:
    """Gives a registered model to an owner, or to a project."""
    if body.project and here.projects.get(body.project) is None:
        raise UserError(f"project {body.project!r}: there is none of that name")
    here.loop.intake.ownership.give(name, account_of(body.owner, body.project), person.owner)
