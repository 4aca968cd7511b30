"""What a stored MLflow model takes and gives, with the settings that a caller may change: name, type, default."""

from collections.abc import Mapping
from typing import Any

from model.bundle_directory import BundleKind


def signature(kind: BundleKind, config: Mapping[str, Any]) -> Any:
    """MLflow's `ModelSignature` of a bundle of that kind; `config` is its `config.json`, which holds the defaults."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
    from mlflow.types.schema import Array

    answer: Any = Array(DataType.double) if kind == "vectors" else DataType.string
    types = {int: DataType.long, float: DataType.double}
    defaults = settings(kind, config)
    params = [ParamSpec(name, types[type(value)], value) for name, value in defaults.items()]
    return ModelSignature(
        inputs=Schema([ColSpec(DataType.string)]),
        outputs=Schema([ColSpec(answer)]),
        params=ParamSchema(params) if params else None,
    )


def settings(kind: BundleKind, config: Mapping[str, Any]) -> dict[str, int | float]:
    """What a caller may set, with the values that hold where nothing is said: those that the endpoint goes by too."""
    if kind == "translation":
        from model.decoding import DecodeConfig
        from model.schema import build

        decode = build(DecodeConfig, config.get("decode") or {}, "decode")
        return {"beam": decode.beam, "length_penalty": float(decode.alpha)}
    if kind == "language":
        from model.generation import GenerateConfig

        drawn = GenerateConfig()
        names = ("temperature", "top_k", "top_p", "max_tokens", "lines", "seed")
        return {name: getattr(drawn, name) for name in names}
    return {}
