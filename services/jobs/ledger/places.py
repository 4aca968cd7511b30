"""The owners of folders and of registered models' names."""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from sqlalchemy import Select, and_, bindparam, insert, or_, select, update
from sqlalchemy.orm import Session

from dragoman.model.errors import UserError
from dragoman.model.names import check_name
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.statements import ANY_TOKEN
from dragoman.services.jobs.ledger.tables import PROJECT, Base, Job, Member, Model, Place, account_of
from dragoman.services.jobs.states import UNENDED

AT_ONCE = 200  # paths per query
PLACES = Base.metadata.tables[Place.__tablename__]
SET_PLACE = update(PLACES).where(PLACES.c.path == bindparam("at"))
PROJECTS_OF = select(Member.project).where(Member.owner == bindparam("whose"))


class TakenError(UserError):
    """The place of a setting belongs to another owner; `place` as the plan names it."""

    def __init__(self, message: str, place: Mapping[str, str]) -> None:
        super().__init__(message)
        self.place = place


class Places:
    """The owned places of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def check(
        self, owner: str, places: Sequence[Mapping[str, str]], account: str = "", admin: bool = False
    ) -> dict[str, list[str]]:
        """Returns the paths that a job of `owner` may read and write, of those that its plan names.

        `admin`: the token that submitted it is an admin's, whatever other tokens its owner has.

        Folders of their own, and of the job's `account`, are writable even if the command only reads them. Those of all
        projects of `owner` are readable.

        Raises:
            TakenError: a place belongs to another owner.
            UserError: it has no owner and may not be changed.
        """
        with self.ledger.database.read() as session:
            related = _related(session, [place["path"] for place in places])
            closed = session.scalar(ANY_TOKEN) is not None
            shared = session.scalars(PROJECTS_OF, {"whose": owner}).all()
        admin = admin and closed  # where everybody is an admin, names alone keep owners apart
        names = {owner, account}
        readable = names | {account_of("", project) for project in shared}
        free = admin or not closed
        granted: dict[str, list[str]] = {"read": [], "write": [], "record": []}
        for place in places:
            path, use = place["path"], place["use"]
            if use in ("cache", "record"):
                granted["write" if use == "cache" else use].append(path)
                if use == "record":  # the same shards made again continue the record
                    granted["write"] += [
                        record for record in _records(path) if _is_theirs(related, record, names, free)
                    ]
                continue
            theirs = names if use in ("write", "all") else readable
            others = [place for place in related if place.owner not in theirs and _touch(place.path, path)]
            if use == "maybe" and not os.path.lexists(path):
                continue
            if others and (use in ("write", "all") or not admin):
                raise _belongs(place)
            mine = any(place.owner in names and PurePosixPath(path).is_relative_to(place.path) for place in related)
            if use == "write" and not (mine or free) and _holds(path):
                raise UserError(
                    f"{place['key']}={place['value']}: was made by no job of the service, so a job may read it and not "
                    f"change it; choose another name"
                )
            granted["write" if use in ("write", "all") or mine else "read"].append(path)
        return granted

    def claim(self, session: Session, job: Job, places: Iterable[Mapping[str, str]]) -> None:
        """Records what the job is going to write as its owner's, in the transaction that plans it."""
        for place in places:
            if place["use"] == "write":
                _enter(session, place["path"], job)

    def owner(self, path: str) -> str | None:
        with self.ledger.database.read() as session:
            return next((place.owner for place in _related(session, [path]) if path.startswith(place.path)), None)

    def give(self, path: str, owner: str, actor: str) -> None:
        """Gives a folder, and what jobs wrote in it, to `owner`, or to a project's account."""
        check_name("owner", owner.removeprefix(PROJECT))
        with self.ledger.noting(actor, "place", f"gave {path} to {owner}", owner) as session:
            for place in _related(session, [path]):
                if PurePosixPath(place.path).is_relative_to(path):
                    place.owner = owner
            if session.get(Place, path) is None:
                session.add(Place(path=path, owner=owner, job=""))

    def hidden(self, person: Person, paths: Sequence[str]) -> set[str]:
        """Returns those of the real `paths` that another owner's job has written, in whole or in part."""
        with self.ledger.database.read() as session:
            theirs = [place.path for place in _related(session, paths) if not person.sees(place.owner)]
        above = {str(folder) for path in theirs for folder in PurePosixPath(path).parents}
        return {
            path
            for path in paths
            if path in above or not {path, *map(str, PurePosixPath(path).parents)}.isdisjoint(theirs)
        }

    def take(self, job: Job, path: Path) -> None:
        """Records a folder that a job has made as its owner's, unless it has an owner."""
        with self.ledger.database.write() as session:
            if not _related(session, [str(path)]):
                _enter(session, str(path), job)


def _enter(session: Session, path: str, job: Job) -> None:
    values = {"owner": job.account, "job": job.id}
    changed: Any = session.execute(SET_PLACE, {"at": path, **values})
    if changed.rowcount == 0:
        session.execute(insert(PLACES), {"path": path, **values})


def _records(folder: str) -> list[str]:
    """Returns the runs in a folder that record shardings."""
    return [str(path) for path in Path(folder).glob("shard-*") if path.is_dir() and not path.is_symlink()]


def _is_theirs(related: Sequence[Place], path: str, names: set[str], free: bool) -> bool:
    """Returns True if `path` is an owner's of `names`, or has no owner and everybody is `free` to change it."""
    owners = {place.owner for place in related if PurePosixPath(path).is_relative_to(place.path)}
    return bool(names & owners) or (free and not owners)


def _related(session: Session, paths: Sequence[str]) -> list[Place]:
    """Returns the owned places that are one of `paths`, contain one, or lie below one; without those that are gone."""
    by_path: dict[str, Place] = {}
    for start in range(0, len(paths), AT_ONCE):
        some = paths[start : start + AT_ONCE]
        bounds: dict[str, Any] = {f"from{number}": f"{path}/" for number, path in enumerate(some)}
        bounds |= {f"to{number}": f"{path}0" for number, path in enumerate(some)}  # 0 follows / in ASCII
        bounds["above"] = sorted({str(folder) for path in some for folder in (path, *PurePosixPath(path).parents)})
        by_path |= {place.path: place for place in session.scalars(_touching(len(some)), bounds)}
    gone = [place.job for place in by_path.values() if not os.path.lexists(place.path)]
    unended = set(session.scalars(select(Job.id).where(Job.id.in_(gone), Job.state.in_(UNENDED)))) if gone else set()
    return [place for place in by_path.values() if os.path.lexists(place.path) or place.job in unended]


@cache
def _touching(count: int) -> Select[Place]:
    """Returns the query for `_related` of so many paths; building it takes longer than running it."""
    below = (and_(Place.path > bindparam(f"from{at}"), Place.path < bindparam(f"to{at}")) for at in range(count))
    return select(Place).where(or_(Place.path.in_(bindparam("above", expanding=True)), *below))


def _touch(path: str, other: str) -> bool:
    return PurePosixPath(path).is_relative_to(other) or PurePosixPath(other).is_relative_to(path)


def _holds(path: str) -> bool:
    """Returns True if there is something at `path` that could be overwritten."""
    try:
        return any(Path(path).iterdir())
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _belongs(place: Mapping[str, str]) -> TakenError:
    key, value = place["key"], place["value"]
    said = f"{key}={value}: belongs to another owner; choose another {key}="
    if key == "name":
        said = f"name={value}: the run {value} belongs to another owner; choose another name="
    elif place["use"] == "all":
        said = f"{key}={value}: holds runs of other owners; name one of your own with name="
    return TakenError(said, place)


class Models:
    """The registered models' names in a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def owner(self, name: str) -> str | None:
        return self.ledger.database.first(select(Model.owner).where(Model.name == name))

    def all(self) -> list[Model]:
        """Returns all names that have an owner, in order."""
        return self.ledger.database.all(select(Model).order_by(Model.name))

    def claim(self, name: str, owner: str, actor: str | None = None) -> str:
        """Enters the owner of a name without one, and returns its owner afterwards; `actor`: if it is a project."""
        with self.ledger.write() as session:
            model = session.get(Model, name)
            if model is not None:
                return model.owner
            session.add(Model(name=name, owner=owner, since=self.ledger.now()))
            reason = f"{owner} owns {name}" if actor else f"owns {name}"
            self.ledger.note(session, actor or owner, "model", reason, owner)
        return owner

    def give(self, name: str, owner: str, actor: str) -> None:
        """Gives a name to `owner`, or to a project's account, whoever had it."""
        check_name("model", name)
        check_name("owner", owner.removeprefix(PROJECT))
        with self.ledger.noting(actor, "model", f"gave {name} to {owner}", owner) as session:
            session.merge(Model(name=name, owner=owner, since=self.ledger.now()))
