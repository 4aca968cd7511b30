"""The weights that a network's run ends with: the newest, their moving average, or the mean of the last ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from model.files import file_sha256
from pipelines.settings import TrainConfig
from pipelines.training import checkpoint


def final_weights(run: Path, config: TrainConfig) -> tuple[dict[str, Tensor], list[int]]:
    """The weights that `train.final_weights` asks for, and the steps that they come from.

    Raises:
        UserError: the run has no checkpoint yet.
    """
    if config.final_weights == "average":
        return checkpoint.average(run, config.average_last)
    tensors, state = checkpoint.read(checkpoint.last(run))
    return tensors["average" if config.final_weights == "ema" else "network"], [state["step"]]


def weights_hashes(run: Path, config: TrainConfig) -> list[str]:
    """sha256 of the files that the final weights come from."""
    if config.final_weights == "average":
        return [file_sha256(path) for path in checkpoint.kept_weights(run, config.average_last)]
    name = "average.safetensors" if config.final_weights == "ema" else "network.safetensors"
    return [file_sha256(checkpoint.last(run) / name)]


def weights_facts(run: Path, config: TrainConfig, steps: list[int]) -> dict[str, Any]:
    """The same for a bundle's facts."""
    return {"from": config.final_weights, "steps": steps, "sha256": weights_hashes(run, config)}


def stored_weights(facts: Mapping[str, Any]) -> list[str]:
    """What `weights_hashes` gave when the bundle of these facts was made."""
    return list(dict(facts.get("weights") or {}).get("sha256", []))
