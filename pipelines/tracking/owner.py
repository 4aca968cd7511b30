"""The owner of a registered model: a tag, written when the model is made and compared before a job writes to it.

The job service says in a variable whose the job's model is. A plain command line has no such variable: there MLflow's
own permissions decide, and the tag of a new model is the system's user.
"""

import os
from collections.abc import Mapping

from model.errors import UserError
from pipelines.tracking.author import in_job, user

OWNER_TAG = "dragoman.owner"
MODEL_OWNER = "DRAGOMAN_MODEL_OWNER"  # the owner of the job's model; empty: nobody


def expected_owner() -> str:
    """Return the owner that the service names for this job's model; empty outside of a service and for nobody's."""
    return os.environ.get(MODEL_OWNER, "") if in_job() else ""


def new_owner() -> str:
    """Return the owner of a model that this process makes."""
    return expected_owner() or user()


def check_owner(name: str, tags: Mapping[str, str], expected: str) -> None:
    """Refuse a registered model whose tag names another owner than the service does.

    Raises:
        UserError: names the model and who settles it.
    """
    if expected and tags.get(OWNER_TAG) != expected:
        whose = "another owner" if tags.get(OWNER_TAG) else "nobody"
        raise UserError(
            f"registry.name={name}: the model belongs to {whose} in the registry; an admin gives it to an owner with: "
            f"dragoman owner {name} OWNER"
        )
