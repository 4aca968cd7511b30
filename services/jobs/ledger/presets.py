"""Submissions that owners keep under names of their own, to submit them again. Each owner alone sees theirs."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, select

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import SavedPreset

KIND = "preset"
MOST = 100  # of an owner


class Presets:
    """The presets in a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def all(self, owner: str) -> list[SavedPreset]:
        query = select(SavedPreset).filter_by(owner=owner, kind=KIND).order_by(SavedPreset.name)
        return self.ledger.database.all(query)

    def get(self, owner: str, name: str) -> SavedPreset:
        """Returns a preset. Raises UserError if the owner has none of that name; names the choices."""
        preset = self.ledger.database.get(SavedPreset, (owner, KIND, name))
        if preset is None:
            names = ", ".join(other.name for other in self.all(owner)) or "none"
            raise UserError(f"preset {name!r}: there is none of that name; {owner} has: {names}")
        return preset

    def put(self, owner: str, name: str, content: Mapping[str, Any]) -> SavedPreset:
        """Keeps a preset, in the place of one of the same name. Raises UserError if the owner has too many."""
        preset = SavedPreset(owner=owner, kind=KIND, name=name, content=dict(content), changed=self.ledger.now())
        others = select(func.count()).select_from(SavedPreset).filter_by(owner=owner, kind=KIND)
        with self.ledger.database.write() as session:
            if (session.scalar(others.where(SavedPreset.name != name)) or 0) >= MOST:
                raise UserError(f"{owner} has {MOST} presets: remove one first")
            return session.merge(preset)

    def remove(self, owner: str, name: str) -> None:
        """Removes a preset. Raises UserError as `get` does."""
        preset = self.get(owner, name)
        with self.ledger.database.write() as session:
            session.delete(preset)
