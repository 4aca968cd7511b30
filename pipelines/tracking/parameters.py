"""The settings of a stored MLflow model that a caller may change, as its signature states them."""

from collections.abc import Mapping
from typing import Any

from model.bundles.directory import BundleKind
from model.schema import build
from model.settings import DecodeConfig, GenerateConfig


def parameters(kind: BundleKind, config: Mapping[str, Any]) -> Any:
    """MLflow's `ParamSchema` for a bundle of that kind; None where nothing can be set. `config`: its `config.json`."""
    from mlflow.types import DataType, ParamSchema, ParamSpec

    types = {int: DataType.long, float: DataType.double}
    values = settings(kind, config)
    return (
        ParamSchema([ParamSpec(name, types[type(value)], value) for name, value in values.items()]) if values else None
    )


def settings(kind: BundleKind, config: Mapping[str, Any]) -> dict[str, int | float]:
    """What a caller may set, with the values that hold where nothing is said: those that the endpoint goes by too."""
    if kind == "translation":
        decode = build(DecodeConfig, config.get("decode") or {}, "decode")
        return {"beam": decode.beam, "length_penalty": float(decode.alpha)}
    if kind == "language":
        drawn = GenerateConfig()
        names = ("temperature", "top_k", "top_p", "max_tokens", "lines", "seed")
        return {name: getattr(drawn, name) for name in names}
    return {}
