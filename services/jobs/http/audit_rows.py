"""The audit's rows: who asked for what."""

from typing import Annotated

from fastapi import APIRouter, Query

from dragoman.services.jobs.http.parts import Here, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.service import schemas

router = APIRouter(prefix="/v1", responses=PROBLEMS)


@router.get("/audit")
def rows(here: Here, person: Viewer, asked: Annotated[schemas.AuditQuery, Query()]) -> schemas.AuditPage:
    """Returns changes that were asked for and refusals, newest first; of everybody only for an admin."""
    found = here.operations.audit_rows(person, asked, asked.cursor, asked.limit)
    more = found[-1].id if len(found) == asked.limit else None
    return schemas.AuditPage(rows=[schemas.AuditView.model_validate(one) for one in found], next=more)
