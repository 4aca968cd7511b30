"""The example that a stored MLflow model carries: a text, and the settings that a caller may change.

MLflow reads the signature from the type hints of `predict`, and the names, types and defaults of settings from here.
"""

from collections.abc import Mapping
from typing import Any

from model.bundle_directory import BundleKind


def example(kind: BundleKind, config: Mapping[str, Any]) -> tuple[list[str], dict[str, int | float]] | None:
    """(texts, settings) of a bundle of that kind; None where nothing can be set. `config` is its `config.json`."""
    values = settings(kind, config)
    return (["Good morning."], values) if values else None


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
