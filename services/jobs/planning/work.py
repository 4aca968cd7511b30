"""The size of a training: steps, tokens, floating-point operations, memory per rank, bytes between ranks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from model.errors import UserError
from model.networks.architectures import any_network, architecture, model_config
from model.shards.manifest import read_manifest

ADAM = 16  # bytes per parameter: weight, gradient, two moments, in fp32
ACTIVATIONS = 34  # values per token, layer and unit of width that a Transformer keeps (Korthikanti et al. 2022, eq. 2)
PROCESS = 700 * 2**20  # bytes of Python and the libraries per rank


STACKS = ("layers", "encoder_layers", "decoder_layers")
TALL = 3  # layers: in a stack of this height, one more layer is like the last


@dataclass(frozen=True)
class Work:
    """A training's size."""

    steps: int
    tokens: int  # over all steps; an upper limit, because batches are not always full
    flops: float  # over all steps
    parameters: int
    memory: int  # bytes per rank, approximately
    architecture: str = ""
    width: int = 0
    layers: int = 0

    def traffic(self, workers: int) -> int:
        """Returns the bytes that all ranks send in the whole training: one ring all-reduce per step."""
        return self.steps * 2 * (workers - 1) * 4 * self.parameters


def training(values: Mapping[str, Any], lanes: int) -> Work | None:
    """Returns the size of a composed configuration's training; None for word vectors."""
    config = model_config(values["model"])
    if architecture(config.architecture).kind == "vectors":
        return None
    source, target = _vocabularies(values)
    parameters = count_parameters(config, source, target)
    steps, batch = int(values["train"]["max_steps"]), int(values["loader"]["batch_tokens"])
    tokens = steps * lanes * batch
    width, layers = int(getattr(config, "width", 0)), sum(_stacks(config).values())
    kept = 4 * batch * (ACTIVATIONS * width * layers // 2 + 2 * target)
    memory = PROCESS + ADAM * parameters + kept
    return Work(steps, tokens, 6.0 * parameters * tokens, parameters, memory, config.architecture, width, layers)


def count_parameters(config: Any, source: int, target: int) -> int:
    """Returns the number of parameters of a network without building it.

    All layers of a stack after the second are alike. So small networks on torch's `meta` device, which has no values,
    give the number for a stack of any height, at a cost that does not depend on the configuration.

    Raises:
        UserError: sizes that do not fit each other, or that no tensor can have.
        UserError: sizes that do not fit each other, or that no tensor can have.
    """
    low = replace(config, **{name: min(height, TALL) for name, height in _stacks(config).items()})
    least = _built(low, source, target)
    total = least
    for name, height in _stacks(config).items():
        if height > TALL:
            total += (height - TALL) * (_built(replace(low, **{name: TALL + 1}), source, target) - least)
    return total


def _built(config: Any, source: int, target: int) -> int:
    try:
        with torch.device("meta"):
            return any_network(config, source, target).parameter_count()
    except (RuntimeError, TypeError, OverflowError) as problem:
        reason = str(problem).splitlines()[0][:160]
        raise UserError(f"model: no network can have these sizes: {reason}") from None


def _stacks(config: Any) -> dict[str, int]:
    """Returns the key of each stack of layers, and its height."""
    return {name: int(getattr(config, name)) for name in STACKS if hasattr(config, name)}


def _vocabularies(values: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the shards' vocabulary sizes if they are visible, else the tokenizer's setting."""
    wanted = int(values["tokenizer"].get("vocabulary") or 8000)
    try:
        sizes = read_manifest(Path(values["paths"]["shards"])).vocabularies()
    except UserError:
        return wanted, wanted
    return sizes[0], sizes[-1]
