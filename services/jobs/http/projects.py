"""Projects: made, shown, their members and quotas, removed."""

from typing import Annotated

from fastapi import APIRouter, Path

from dragoman.services.jobs.http.parts import Admin, Here, Name, Submitter, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.service import schemas

router = APIRouter(prefix="/v1/projects", responses=PROBLEMS)
Project = Annotated[schemas.SavedName, Path()]


@router.get("")
def projects(here: Here, person: Viewer) -> list[schemas.ProjectView]:
    """Returns the projects that the person is a member of; all for an admin."""
    return here.sharing.all(person)


@router.post("", status_code=201)
def create(here: Here, person: Admin, body: schemas.ProjectRequest) -> schemas.ProjectView:
    """Makes a project without members."""
    here.projects.create(body.name, body.group, person.owner)
    return here.sharing.view(here.sharing.get(person, body.name))


@router.get("/{project}")
def project(here: Here, person: Viewer, project: Project) -> schemas.ProjectView:
    """Returns a project with its members, its quota and its use."""
    return here.sharing.view(here.sharing.get(person, project))


@router.delete("/{project}", status_code=204)
def remove(here: Here, person: Admin, project: Project) -> None:
    """Removes a project whose jobs have ended, and that has no models."""
    here.projects.remove(here.sharing.get(person, project).name, person.owner)


@router.put("/{project}/quota", status_code=204)
def set_quota(here: Here, person: Admin, project: Project, body: schemas.QuotaRequest) -> None:
    """Sets a project's quota for all of its jobs together."""
    here.sharing.set_quota(person, project, body)


@router.put("/{project}/members/{owner}", status_code=204)
def enter(here: Here, person: Submitter, project: Project, owner: Name, body: schemas.MemberRequest) -> None:
    """Makes somebody a member, or changes their role; for maintainers and admins."""
    here.sharing.enter(person, project, owner, body.role)


@router.delete("/{project}/members/{owner}", status_code=204)
def leave(here: Here, person: Submitter, project: Project, owner: Name) -> None:
    """Ends a membership; for maintainers, admins and the member."""
    here.sharing.leave(person, project, owner)
