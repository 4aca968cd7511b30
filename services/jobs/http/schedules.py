"""Schedules: entered, listed, paused, resumed, removed."""

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path

from dragoman.services.jobs.http.parts import Here, Submitter, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.ledger.tables import Schedule
from dragoman.services.jobs.service import schemas

router = APIRouter(prefix="/v1/schedules", responses=PROBLEMS)


def own(here: Here, person: Submitter, id: Annotated[int, Path(ge=1, le=2**31 - 1)]) -> Schedule:
    found = here.loop.schedules.get(id)
    if found is None or not person.sees(found.owner):
        raise HTTPException(404, f"schedule {id} is not known")
    return found


Own = Annotated[Schedule, Depends(own)]


@router.get("")
def schedules(here: Here, person: Viewer) -> list[schemas.ScheduleView]:
    """Returns the schedules that the person may see."""
    return [schemas.ScheduleView.of(one) for one in here.loop.schedules.all(here.operations.only(person, None))]


@router.post("", status_code=201)
def add(here: Here, person: Submitter, body: schemas.ScheduleRequest) -> schemas.ScheduleView:
    """Enters a schedule once its first job has been planned. Its jobs never have an admin's rights."""
    options = body.model_dump(include=set(schemas.Options.model_fields))
    command = body.every, body.verb, body.overrides, options
    first = here.loop.schedules.check(*command)
    here.loop.intake.plan(
        person.owner, body.verb, first, here.loop.capacity, deadline=None, admin=False, project=body.project
    )
    return schemas.ScheduleView.of(here.loop.schedules.add(person, *command))


@router.post("/{id}/pause", status_code=204)
def pause(here: Here, person: Submitter, one: Own) -> None:
    """Submits nothing until it is resumed."""
    here.loop.schedules.set_active(one, False, person)


@router.post("/{id}/resume", status_code=204)
def resume(here: Here, person: Submitter, one: Own) -> None:
    """Goes on from its next time."""
    here.loop.schedules.set_active(one, True, person)


@router.delete("/{id}", status_code=204)
def remove(here: Here, person: Submitter, one: Own) -> None:
    """Removes a schedule; its jobs stay."""
    here.loop.schedules.remove(one, person.owner)
