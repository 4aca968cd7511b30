"""The owners of registered models' names, people or projects: one row per name, kept when jobs are removed."""

from sqlalchemy import select

from dragoman.model.names import check_name
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import PROJECT, Model


class Models:
    """The registered models' names in a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def owner(self, name: str) -> str | None:
        """Returns the owner of a name; None if it has none."""
        with self.ledger.database.read() as session:
            return session.scalar(select(Model.owner).where(Model.name == name))

    def all(self) -> list[Model]:
        """Returns all names that have an owner, in order."""
        with self.ledger.database.read() as session:
            return list(session.scalars(select(Model).order_by(Model.name)))

    def claim(self, name: str, owner: str, actor: str | None = None) -> str:
        """Enters the owner of a name without one, and returns its owner afterwards; `actor`: if it is a project."""
        with self.ledger.database.write() as session:
            found = session.get(Model, name)
            if found is not None:
                return found.owner
            session.add(Model(name=name, owner=owner, since=self.ledger.now()))
        self.ledger.note(actor or owner, "model", f"{owner} owns {name}" if actor else f"owns {name}", owner)
        return owner

    def give(self, name: str, owner: str, actor: str) -> None:
        """Gives a name to `owner`, or to a project's account, whoever had it."""
        check_name("model", name)
        check_name("owner", owner.removeprefix(PROJECT))
        with self.ledger.database.write() as session:
            session.merge(Model(name=name, owner=owner, since=self.ledger.now()))
        self.ledger.note(actor, "model", f"gave {name} to {owner}", owner)
