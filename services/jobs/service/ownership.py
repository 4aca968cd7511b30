"""Ownership of registered models: who may register versions, and move the alias that is served.

A name belongs to the project of the first accepted job that registers it, or to the owner of that job. The ledger knows
the owner; MLflow's registered model has the same name in a tag, which the job's own process compares before it writes
(pipelines/tracking/author.py). A name that MLflow had before the ledger belongs to the owner in that tag, else to the
project or the owner of the job that made its first version, else to nobody: then an admin assigns it.
"""

import logging
from typing import Any

from sqlalchemy import select

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.places import Models
from dragoman.services.jobs.ledger.tables import PROJECT, Job, Member, account_of
from dragoman.services.jobs.service.tracking import OWNER_TAG, Model, Tracking

NOBODY = ""
GIVE = "an admin gives it to an owner with: dragoman owner {name} OWNER"
logger = logging.getLogger(__name__)


class Ownership:
    """Ownership in a ledger and in the MLflow of its jobs."""

    def __init__(self, ledger: Ledger, tracking: Tracking) -> None:
        self.ledger, self.tracking, self.names = ledger, tracking, Models(ledger)

    def owner(self, name: str) -> str | None:
        """Returns the owner of a registered model, `NOBODY`, or None if there is no such model yet."""
        claimed = self.names.owner(name)
        if claimed is not None or not self.tracking.address:
            return claimed
        model = self.tracking.model(name)
        if model is None:
            return None
        account = model.owner or self._first_owner(model)
        if not account:
            return NOBODY
        if not model.owner:
            self.tracking.set_model_tag(name, OWNER_TAG, account)
        return self.names.claim(name, account)

    def check(self, plan: dict[str, Any], owner: str, admin: bool, account: str = "") -> str:
        """Returns the owner of the model that a plan registers or promotes; empty if none or unknown.

        `account`: of the job's project, whose models are `owner`'s too in this job.

        Raises UserError: the model is another owner's, and `owner` is no admin.
        """
        account = account or owner
        name = plan.get("model")
        if not name:
            return NOBODY
        try:
            owner_account = self.owner(name)
        except ServiceError as problem:  # the job's own process asks MLflow again before it writes
            logger.info("model %s: %s", name, problem)
            return account
        if owner_account is None:
            return account
        if owner_account not in (owner, account) and not admin:
            whose = self._whose(name, owner_account, owner)
            instead = "; choose another registry.name=, or registry.register=false" if plan["verb"] == "train" else ""
            raise UserError(f"registry.name={name}: the model {whose}{instead}")
        return owner_account

    def allows(self, plan: dict[str, Any], owner: str, admin: bool, account: str) -> bool:
        """Returns True if the plan may write its model; see `check`."""
        try:
            self.check(plan, owner, admin, account)
        except UserError:
            return False
        return True

    def claim(self, plan: dict[str, Any], owner: str, admin: bool, account: str = "") -> str:
        """Checks the same, and claims a free name for the account, or the owner, if the plan registers a version."""
        account = account or owner
        owner_account, name = self.check(plan, owner, admin, account), plan.get("model")
        if name and plan["verb"] == "train" and owner_account == account:
            try:
                if self.owner(name) is None:
                    return self.names.claim(name, account, owner)
            except ServiceError:
                pass
        return owner_account

    def _whose(self, name: str, account: str, owner: str) -> str:
        """Returns why the model is not `owner`'s; a member of its project reads how it would be."""
        if not account:
            return f"has no owner; {GIVE.format(name=name)}"
        project = account.removeprefix(PROJECT)
        with self.ledger.database.read() as session:
            member = account != project and session.get(Member, (project, owner)) is not None
        return f"belongs to {account}: add jobs.project={project}" if member else "belongs to another owner"

    def give(self, name: str, owner: str, actor: str) -> None:
        """Gives a name to another owner, in MLflow's registry and in the ledger."""
        if self.tracking.address and self.tracking.model(name) is not None:
            self.tracking.set_model_tag(name, OWNER_TAG, owner)
        self.names.give(name, owner, actor)

    def _first_owner(self, model: Model) -> str:
        """Returns the owner of the job that made the oldest version; empty if unknown."""
        job = model.versions[-1].tags.get("dragoman.job", "") if model.versions else ""
        with self.ledger.database.read() as session:
            row = session.execute(select(Job.owner, Job.project).where(Job.id == job)).first()
        return account_of(row.owner, row.project) if row else NOBODY
