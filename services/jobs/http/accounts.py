"""Quotas, the cost of faults, and what is no longer kept."""

from typing import Annotated

from fastapi import APIRouter, Query

from dragoman.services.jobs.http.parts import Admin, Here, Name, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.service.retention import summary

router = APIRouter(prefix="/v1", responses=PROBLEMS)


@router.get("/bill")
def bill(here: Here, person: Viewer, owner: schemas.Owner | None = None) -> list[schemas.BillRow]:
    """Returns the tokens and seconds lost, by cause, job and owner."""
    return here.operations.bill(person, owner)


@router.get("/quotas")
def all_quotas(here: Here, person: Viewer) -> list[schemas.QuotaView]:
    """Returns the quotas of owners and projects; who is no admin sees their own and those of their projects."""
    found = sorted((owner, row) for owner, row in here.access.quotas().items() if person.sees(owner))
    return [schemas.QuotaView(owner=owner, cpus=cpus, gpus=gpus, jobs=jobs) for owner, (cpus, gpus, jobs) in found]


@router.put("/quotas/{owner}", status_code=204)
def set_quota(here: Here, person: Admin, owner: Name, body: schemas.QuotaRequest) -> None:
    """Sets an owner's quota for all jobs together."""
    here.access.set_quota(owner, body.cpus, body.gpus, person.owner, body.jobs)


@router.get("/retention")
def retention(here: Here, person: Viewer, asked: Annotated[schemas.RetentionQuery, Query()]) -> schemas.RetentionView:
    """Returns the jobs that `service.keep`, or other rules, would delete now. Nothing is deleted."""
    rules = asked.rules(here.config.keep)
    found = [one for one in here.retention.due(rules) if person.sees_job(one.job)]
    going = [one for one in found if not one.stays]
    jobs = [schemas.Expired.of(one) for one in going[: asked.limit]]
    return schemas.RetentionView(rules=rules, jobs=jobs, total=len(going), stay=summary(found))
