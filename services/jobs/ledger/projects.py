"""Projects: owners who share jobs, models, folders and a quota.

A project's account is what its jobs are counted for and what owns what they make, as an owner is for other jobs. A
member sees the project's jobs and promotes its models; a maintainer also changes others' jobs, and chooses the members.
"""

from collections.abc import Collection, Sequence
from typing import Literal, get_args

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from dragoman.model.errors import UserError, unknown
from dragoman.model.names import check_name
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import Job, Member, Model, Project, Quota, account_of
from dragoman.services.jobs.states import UNENDED

Rank = Literal["member", "maintainer"]
RANKS: tuple[Rank, ...] = get_args(Rank)
LONGEST = 64  # letters of a name
MOST = 1000  # members of a project


class Projects:
    """The projects of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def all(self) -> Sequence[Project]:
        return self.ledger.database.all(select(Project).order_by(Project.name))

    def get(self, name: str) -> Project | None:
        return self.ledger.database.get(Project, name)

    def members(self, name: str) -> Sequence[Member]:
        return self.ledger.database.all(select(Member).where(Member.project == name).order_by(Member.owner))

    def create(self, name: str, group: str, actor: str) -> None:
        """Makes a project without members; people of the proxy's `group` become members when they come.

        Raises UserError: an invalid name, or one that is in use.
        """
        if len(check_name("project", name)) > LONGEST:
            raise UserError(f"project {name!r}: at most {LONGEST} letters")
        with self.ledger.noting(actor, "project", f"created project {name}") as session:
            if session.get(Project, name) is not None:
                raise UserError(f"project {name!r}: there is one of that name")
            session.add(Project(name=name, issuer_group=group, created=self.ledger.now()))

    def remove(self, name: str, actor: str) -> None:
        """Removes a project, its members and its quota. Its ended jobs stay with their owners.

        Raises UserError: jobs of it have not ended, or models belong to it.
        """
        account = account_of("", name)
        with self.ledger.noting(actor, "project", f"removed project {name}") as session:
            left = select(func.count()).where(Job.project == name, Job.state.in_(sorted(UNENDED)))
            if count := session.scalar(left):
                raise UserError(f"project {name!r}: {count} of its jobs have not ended; stop them first")
            if models := session.scalars(select(Model.name).where(Model.owner == account)).all():
                raise UserError(f"project {name!r}: give its models away first: dragoman owner {models[0]} OWNER")
            session.execute(delete(Member).where(Member.project == name))
            session.execute(delete(Quota).where(Quota.owner == account))
            session.execute(delete(Project).where(Project.name == name))

    def enter(self, name: str, owner: str, rank: str, actor: str) -> None:
        """Makes an owner a member, or changes their rank.

        Raises UserError: an invalid owner or rank, or too many members.
        """
        check_name("owner", owner)
        if rank not in RANKS:
            raise unknown("role", rank, RANKS)
        count = select(func.count()).where(Member.project == name, Member.owner != owner)
        with self.ledger.noting(actor, "project", f"{owner} is a {rank} of project {name}", owner) as session:
            if (session.scalar(count) or 0) >= MOST:
                raise UserError(f"project {name!r}: it has {MOST} members; remove one first")
            session.merge(Member(project=name, owner=owner, rank=rank, by_group=False))

    def leave(self, name: str, owner: str, actor: str) -> None:
        """Ends a membership; the owner's jobs in the project that wait do not start any more."""
        reason = f"{owner} is no member of project {name} any more"
        with self.ledger.noting(actor, "project", reason, owner) as session:
            member = session.get(Member, (name, owner))
            if member is None:
                raise UserError(f"{owner} is no member of project {name!r}")
            session.delete(member)

    def check_member(self, name: str, owner: str, admin: bool) -> None:
        """Raises UserError if there is no such project, or `owner` is no member and no admin."""
        with self.ledger.database.read() as session:
            project = session.get(Project, name)
            member = project is not None and session.get(Member, (name, owner)) is not None
            mine = ", ".join(session.scalars(select(Member.project).where(Member.owner == owner))) or "none"
        if project is None or not (member or admin):
            raise UserError(
                f"jobs.project={name}: there is no such project, or {owner} is no member of it; {owner} has: {mine}"
            )


def memberships(session: Session, owner: str) -> tuple[tuple[tuple[str, str], ...], frozenset[str]]:
    """Returns (project, rank) for each project of an owner, and the names of all of their members."""
    mine = select(Member.project).where(Member.owner == owner)
    rows = session.execute(select(Member.project, Member.owner, Member.rank).where(Member.project.in_(mine))).all()
    ranks = sorted((project, rank) for project, name, rank in rows if name == owner)
    return tuple(ranks), frozenset(name for _, name, _ in rows)


def enter_by_groups(session: Session, owner: str, groups: Collection[str]) -> list[str]:
    """Makes an owner a member of the projects of these groups, and of no others whose group let them in.

    Returns what has changed, as texts. Members whom a maintainer has entered stay.
    """
    mine = {
        member_row.project: member_row for member_row in session.scalars(select(Member).where(Member.owner == owner))
    }
    changes = []
    for project in session.scalars(select(Project)):
        member = mine.get(project.name)
        belongs = bool(project.issuer_group) and project.issuer_group in groups
        if belongs and member is None:
            session.add(Member(project=project.name, owner=owner, rank="member", by_group=True))
            changes.append(f"{owner} is a member of project {project.name} by their groups")
        elif member is not None and member.by_group and not belongs:
            session.delete(member)
            changes.append(f"{owner} is no member of project {project.name} any more, by their groups")
    return changes
