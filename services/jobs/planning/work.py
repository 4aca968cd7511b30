"""How much a training is: steps, tokens, floating-point operations, memory of a rank, bytes between ranks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from model.errors import UserError
from model.networks.architectures import any_network, architecture, model_config
from model.shards.manifest import read_manifest

ADAM = 16  # bytes a parameter: weight, gradient, two moments, in fp32
ACTIVATIONS = 34  # values a token, layer and unit of width that a Transformer keeps (Korthikanti et al. 2022, eq. 2)
PROCESS = 700 * 2**20  # bytes of Python and the libraries in a rank


@dataclass(frozen=True)
class Work:
    """A training's size."""

    steps: int
    tokens: int  # of all steps; at most, for batches are not always full
    flops: float  # of all steps
    parameters: int
    memory: int  # bytes of one rank, about

    def traffic(self, workers: int) -> int:
        """Bytes that all ranks together send in the whole training: a ring's all-reduce of the gradients a step."""
        return self.steps * 2 * (workers - 1) * 4 * self.parameters


def training(values: Mapping[str, Any], lanes: int) -> Work | None:
    """Of a composed configuration; None where no network is trained (word vectors)."""
    config = model_config(values["model"])
    if architecture(config.architecture).kind == "vectors":
        return None
    source, target = _vocabularies(values)
    with torch.device("meta"):
        network = any_network(config, source, target)
    parameters = network.parameter_count()
    steps, batch = int(values["train"]["max_steps"]), int(values["loader"]["batch_tokens"])
    tokens = steps * lanes * batch
    width, layers = int(getattr(config, "width", 0)), _layers(config)
    kept = 4 * batch * (ACTIVATIONS * width * layers // 2 + 2 * target)
    return Work(steps, tokens, 6.0 * parameters * tokens, parameters, PROCESS + ADAM * parameters + kept)


def _layers(config: Any) -> int:
    names = ("layers", "encoder_layers", "decoder_layers")
    return sum(int(getattr(config, name)) for name in names if hasattr(config, name))


def _vocabularies(values: Mapping[str, Any]) -> tuple[int, int]:
    """Of the shards where they are in sight, else as many as the tokenizer is asked for."""
    wanted = int(values["tokenizer"].get("vocabulary") or 8000)
    try:
        sizes = read_manifest(Path(values["paths"]["shards"])).vocabularies()
    except UserError:
        return wanted, wanted
    return sizes[0], sizes[-1]
