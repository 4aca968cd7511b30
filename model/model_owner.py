"""Who may change a registered model: the one rule of the job service, which plans, and of its jobs, which write."""

from dragoman.model.errors import UserError

OWNER_TAG = "dragoman.owner"  # tag of a registered model in MLflow


def check_model_owner(name: str, tag: str | None, owner: str, admin: bool = False) -> str:
    """Returns the owner of a model that `owner` changes: the one in its tag, or `owner` if it does not exist (None).

    Raises UserError: the tag names another owner, or nobody, and `owner` is no admin.
    """
    if tag is None or tag == owner:
        return owner
    if not admin:
        whose = "belongs to another owner" if tag else "has no owner, so only an admin's job changes it"
        raise UserError(f"registry.name={name}: the model {whose}; choose another registry.name=")
    return tag
