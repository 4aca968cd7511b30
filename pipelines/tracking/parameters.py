"""The settings of a stored MLflow model that a caller may change, for its signature."""

from collections.abc import Mapping
from typing import Any

from dragoman.model.inference.kinds import KINDS


def parameters(config: Mapping[str, Any]) -> Any:
    """Returns MLflow's `ParamSchema` for a bundle with this `config.json`; None if it has no settings."""
    from mlflow.types import DataType, ParamSchema, ParamSpec

    types = {int: DataType.long, float: DataType.double}
    kind = KINDS.get(str(config.get("kind", "translation")))
    values = kind.settings(config) if kind else {}
    return (
        ParamSchema([ParamSpec(name, types[type(value)], value) for name, value in values.items()]) if values else None
    )
