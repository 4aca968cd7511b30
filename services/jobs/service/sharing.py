"""Requests of people about projects, each checked: who sees one, who chooses its members."""

from fastapi import HTTPException
from sqlalchemy import case, func, select

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Access, Person
from dragoman.services.jobs.ledger.projects import Projects
from dragoman.services.jobs.ledger.tables import Job, Model, Project, account_of
from dragoman.services.jobs.service import people_schemas as schemas
from dragoman.services.jobs.states import ACTIVE, QUEUED


class Sharing:
    """The operations on the projects of a ledger."""

    def __init__(self, access: Access, projects: Projects) -> None:
        self.access, self.projects, self.ledger = access, projects, access.ledger

    def get(self, person: Person, name: str, manage: bool = False) -> Project:
        """Returns a project.

        Raises HTTPException: 404, there is none, or the person is no member; 403, with `manage` they are no maintainer.
        """
        project = self.projects.get(name)
        rank = "maintainer" if person.sees_all else dict(person.projects).get(name)
        if project is None or rank is None:
            raise HTTPException(404, f"project {name} is not known")
        if manage and rank != "maintainer":
            raise HTTPException(403, f"a maintainer of project {name} or an admin may do it; you are a {rank}")
        return project

    def all(self, person: Person) -> list[schemas.ProjectView]:
        """Returns the projects that a person is a member of; all for an admin."""
        ranks = dict(person.projects)
        return [self.view(project) for project in self.projects.all() if person.sees_all or project.name in ranks]

    def view(self, project: Project) -> schemas.ProjectView:
        """Returns a project with its members, its quota and its use."""
        account = account_of("", project.name)
        active, queued = Job.state.in_(sorted(ACTIVE)), Job.state.in_(sorted(QUEUED))
        sums = (func.sum(case((active, Job.workers * each), else_=0.0)) for each in (Job.cpus, Job.gpus))
        counts = (func.sum(case((condition, 1), else_=0)) for condition in (active, queued))
        with self.ledger.database.read() as session:
            row = session.execute(select(*sums, *counts).where(Job.project == project.name, active | queued)).one()
            models = session.scalars(select(Model.name).where(Model.owner == account).order_by(Model.name)).all()
        names = ("held_cpus", "held_gpus", "running", "waiting", "cpus", "gpus", "jobs")
        quota = self.access.quotas().get(account, (None, None, None))
        return schemas.ProjectView.model_validate(
            {
                "name": project.name,
                "group": project.issuer_group,
                "created": project.created,
                "members": [
                    schemas.MemberView.model_validate(member) for member in self.projects.members(project.name)
                ],
                "models": list(models),
                **dict(zip(names, (*(amount or 0 for amount in row), *quota), strict=True)),
            }
        )

    def enter(self, person: Person, name: str, owner: str, rank: str) -> None:
        """Makes somebody a member. Raises UserError, or HTTPException as `get`."""
        self.get(person, name, manage=True)
        self.projects.enter(name, owner, rank, person.owner)

    def leave(self, person: Person, name: str, owner: str) -> None:
        """Ends a membership, which members do for themselves too. Raises UserError, or HTTPException as `get`."""
        self.get(person, name, manage=owner != person.owner)
        self.projects.leave(name, owner, person.owner)

    def check_gift(self, person: Person, owner: str | None, body: schemas.ModelRequest) -> None:
        """Checks that somebody may give away what is `owner`'s.

        Raises:
            HTTPException: 403, they are no admin, and it is not theirs or does not go to a project of theirs.
            UserError: there is no such project.
        """
        mine = owner == person.owner and body.project in dict(person.projects)
        if not (person.sees_all or mine):
            raise HTTPException(403, "an admin gives it away; its owner may give it to a project of theirs")
        if body.project and self.projects.get(body.project) is None:
            raise UserError(f"project {body.project!r}: there is none of that name")

    def set_quota(self, person: Person, name: str, body: schemas.QuotaRequest) -> None:
        """Sets a project's quota, as an admin may. Raises HTTPException (404) if there is none."""
        self.get(person, name)
        self.access.set_quota(account_of("", name), body.cpus, body.gpus, person.owner, body.jobs)
