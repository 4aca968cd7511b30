"""Who owns what jobs write: the one judge of the service.

What jobs make lies below their owner's name: HOME/shards/OWNER/NAME, HOME/runs/OWNER/NAME, HOME/corpora/OWNER/NAME, in
a folder that the service marks. What lies beside the owners' folders was made by no job: all read it, and only an
admin's job changes it. A registered model is called OWNER.NAME and belongs to the owner in MLflow's tag; the job's own
process asks the same judge again before it writes (model/model_owner.py).
"""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.model_owner import check_model_owner
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.statements import ANY_TOKEN
from dragoman.services.jobs.service.tracking import Tracking

KINDS = ("shards", "runs", "corpora")  # folders of the home that hold those of owners
MARK = ".owner"  # a file in an owner's folder
WRITES = ("write", "all", "record")
Place = Mapping[str, str]  # of a plan: key, value, path, use
logger = logging.getLogger(__name__)


class Ownership:
    """Ownership in a home and in the MLflow of its jobs."""

    def __init__(self, ledger: Ledger, home: Path, tracking: Tracking) -> None:
        self.ledger, self.home, self.tracking = ledger, home.resolve(), tracking
        self._roots = [self.home / kind for kind in KINDS]

    def grant(self, owner: str, places: Sequence[Place], admin: bool = False) -> dict[str, list[str]]:
        """Returns the paths that a job of `owner` may read and write, of those that its plan names.

        `admin`: the token that submitted it is an admin's. Folders of the owner are writable even if the command only
        reads them.
        """
        closed = self._asks_for_tokens()
        admin = admin and closed  # where everybody is an admin, names alone keep owners apart
        granted: dict[str, list[str]] = {"read": [], "write": [], "record": []}
        for place in places:
            path, use = Path(place["path"]), place["use"]
            if use == "cache":
                granted["write"].append(place["path"])
            if use == "cache" or (use == "maybe" and not os.path.lexists(path)):
                continue
            owners = self.owners(path)
            if owners - {owner} and (use in WRITES or not admin):
                raise _belongs(place)
            mine = owner in owners or (path.name == owner and path.parent in self._roots and not path.exists())
            if use in WRITES and closed and not (mine or admin):
                raise self._outside(place, owner)
            if use == "record":
                granted["record"].append(place["path"])
                granted["write"] += map(str, _records(path))  # the same shards made again continue the record
            else:
                granted["write" if use in WRITES or mine else "read"].append(place["path"])
        return granted

    def owners(self, path: Path) -> set[str]:
        """Returns the owners of a real path, and of all below it."""
        for root in self._roots:
            if root == path or root.is_relative_to(path):
                return {mark.parent.name for top in self._roots for mark in top.glob(f"*/{MARK}")}
            if path.is_relative_to(root):
                first, *below = path.relative_to(root).parts
                is_owners = (root / first / MARK).exists() or bool(below and not (root / first).exists())
                return {first} if is_owners else set()
        return set()

    def mark(self, owner: str, places: Sequence[Place]) -> None:
        """Makes the owner's folders in which a job is about to write."""
        for root in self._roots:
            folder = root / owner
            writes = (Path(place["path"]) for place in places if place["use"] in WRITES)
            if (folder / MARK).exists() or not any(path.is_relative_to(folder) for path in writes):
                continue
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise UserError(f"{folder}: was made by no job, and {owner}'s {root.name} go there: move it")
            (folder / MARK).touch()

    def check_model(self, plan: Mapping[str, Any], owner: str, admin: bool) -> str:
        """Returns the owner of the model that a plan registers or promotes; empty if it has none."""
        name = plan.get("model")
        if not name:
            return ""
        try:
            of_model = self.tracking.model_owner(name) if self.tracking.address else None
        except ServiceError as problem:  # the job's own process asks MLflow again before it writes
            logger.info("model %s: %s", name, problem)
            return owner
        if of_model is None and self._asks_for_tokens() and not (admin or name.startswith(f"{owner}.")):
            raise UserError(f"registry.name={name}: a model of {owner} is called {owner}.NAME")
        return check_model_owner(name, of_model, owner, admin)

    def visible(self, owner: str) -> list[str]:
        """Returns the folders of shards and runs that `owner` may read: their own, and those that no job made."""
        folders = []
        for root in (self.home / kind for kind in ("shards", "runs")):
            folders += [path for path in root.glob("*") if not self.owners(path)]
            folders += [path for path in (root / owner).glob("*") if path.is_dir() and self.owners(path) == {owner}]
        return list(map(str, folders))

    def _asks_for_tokens(self) -> bool:
        with self.ledger.database.read() as session:
            return session.scalar(ANY_TOKEN) is not None

    def _outside(self, place: Place, owner: str) -> UserError:
        root = next((root for root in self._roots if Path(place["path"]).is_relative_to(root)), None)
        yours = self.home / "shards" / owner if root is None else root / owner
        return UserError(
            f"{place['key']}={place['value']}: a job of {owner} writes below {yours}; leave {place['key']} out, or "
            f"name a folder there"
        )


def _records(folder: Path) -> list[Path]:
    """Returns the runs in a folder that record shardings."""
    return [path for path in folder.glob("shard-*") if path.is_dir() and not path.is_symlink()]


def _belongs(place: Place) -> UserError:
    key, value = place["key"], place["value"]
    if place["use"] == "all":
        return UserError(f"{key}={value}: holds runs of other owners; leave {key} out")
    return UserError(f"{key}={value}: belongs to another owner; choose another {key}=")
