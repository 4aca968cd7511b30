"""Items that users keep under names of their own: submissions as presets, lists of jobs as views, comparisons."""

from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import func, select

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import Saved

Kind = Literal["preset", "view", "comparison"]
MOST = 100  # of a kind and an owner


class SavedItems:
    """The items of one kind in a ledger. Each belongs to its owner, who alone sees it."""

    def __init__(self, ledger: Ledger, kind: Kind) -> None:
        self.ledger, self.kind = ledger, kind

    def all(self, owner: str) -> list[Saved]:
        """Returns an owner's items by name."""
        query = select(Saved).where(Saved.owner == owner, Saved.kind == self.kind).order_by(Saved.name)
        with self.ledger.database.read() as session:
            return list(session.scalars(query))

    def get(self, owner: str, name: str) -> Saved:
        """Returns an item. Raises UserError if the owner has none of that name; names the choices."""
        with self.ledger.database.read() as session:
            found = session.get(Saved, (owner, self.kind, name))
        if found is None:
            names = ", ".join(one.name for one in self.all(owner)) or "none"
            raise UserError(f"{self.kind} {name!r}: there is none of that name; {owner} has: {names}")
        return found

    def put(self, owner: str, name: str, content: Mapping[str, Any]) -> Saved:
        """Keeps an item, in the place of one of the same name. Raises UserError if the owner has too many."""
        one = Saved(owner=owner, kind=self.kind, name=name, content=dict(content), changed=self.ledger.now())
        count = select(func.count()).where(Saved.owner == owner, Saved.kind == self.kind, Saved.name != name)
        with self.ledger.database.write() as session:
            if (session.scalar(count) or 0) >= MOST:
                raise UserError(f"{owner} has {MOST} {self.kind}s: remove one first")
            return session.merge(one)

    def remove(self, owner: str, name: str) -> None:
        """Removes an item. Raises UserError as `get` does."""
        found = self.get(owner, name)
        with self.ledger.database.write() as session:
            session.delete(found)
