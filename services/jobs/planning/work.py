"""The size of a training: steps, tokens, floating-point operations, memory per rank."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import architecture, build_network, model_config
from dragoman.model.networks.network import Network, no_network
from dragoman.model.networks.part_names import PARTS, TARGETS, parameters, products
from dragoman.model.shards.manifest import read_manifest

WEIGHT = 4  # bytes per parameter, in fp32
ADAM = 12  # bytes more per trained parameter: gradient and two moments
ACTIVATIONS = 34  # values per token, layer and unit of width that a Transformer keeps (Korthikanti et al. 2022, eq. 2)
PROCESS = 700 * 2**20  # bytes of Python and the libraries per rank


STACKS = ("layers", "encoder_layers", "decoder_layers")
ALL: Mapping[str, Any] = {"freeze": [], "lora": {"rank": 0}}  # everything is trained
TALL = 3  # layers: in a stack of this height, one more layer is like the last


@dataclass(frozen=True)
class Work:
    """A training's size."""

    steps: int
    tokens: int  # over all steps; an upper limit, because batches are not always full
    flops: float  # over all steps
    parameters: int
    memory: int  # bytes per rank, approximately


def training(values: Mapping[str, Any], lanes: int) -> Work | None:
    """Returns the size of a composed configuration's training; None without a network, as for word vectors."""
    config = model_config(values["model"])
    if architecture(config.architecture).network is no_network:
        return None
    source, target = _vocabularies(values)
    parameters, trained = count_parameters(config, source, target, values["train"])
    steps, batch = int(values["train"]["max_steps"]), int(values["loader"]["batch_tokens"])
    tokens = steps * lanes * batch
    width, layers = int(getattr(config, "width", 0)), sum(_stacks(config).values())
    kept = 4 * batch * (ACTIVATIONS * width * layers // 2 + 2 * target)
    memory = PROCESS + WEIGHT * parameters + ADAM * trained + kept
    return Work(steps, tokens, 6.0 * parameters * tokens, parameters, memory)


def count_parameters(config: Any, source: int, target: int, train: Mapping[str, Any] = ALL) -> tuple[int, int]:
    """Returns the number of parameters of a network without building it, and of those that `train` trains.

    `train` are the values of the section `train`; low-rank factors count among the trained ones only.

    All layers of a stack after the second are alike. So small networks on torch's `meta` device, which has no values,
    give the number for a stack of any height, at a cost that does not depend on the configuration.
    """
    low = replace(config, **{name: min(height, TALL) for name, height in _stacks(config).items()})
    least = _built(low, source, target, train)
    total = list(least)
    for name, height in _stacks(config).items():
        if height > TALL:
            more = _built(replace(low, **{name: TALL + 1}), source, target, train)
            total = [now + (height - TALL) * (b - a) for now, a, b in zip(total, least, more, strict=True)]
    return total[0], total[1]


def _built(config: Any, source: int, target: int, train: Mapping[str, Any]) -> tuple[int, int]:
    try:
        with torch.device("meta"):
            network = build_network(config, source, target)
        return network.parameter_count(), _trained(network, config, train)
    except (RuntimeError, TypeError, OverflowError) as problem:
        reason = str(problem).splitlines()[0][:160]
        raise UserError(f"model: no network can have these sizes: {reason}") from None


def _trained(network: Network, config: Any, train: Mapping[str, Any]) -> int:
    """Returns the number of trained parameters: without frozen parts, or of low-rank factors and whole parts."""
    names, lora = PARTS[config.architecture], train["lora"]

    def size(parts: Iterable[str]) -> int:
        prefixes = tuple(prefix for part in parts for prefix in names.get(part, ()))
        return sum(parameter.numel() for parameter in {parameter for _, parameter in parameters(network, prefixes)})

    if not lora["rank"]:
        return network.parameter_count() - size(train["freeze"])
    whole = {*lora["whole"], *(["output"] if hasattr(config, "head") else [])}
    parts = [part for part in lora["parts"] or ("encoder", "decoder") if part in names and part not in whole]
    layers = products(network, config.architecture, parts, [target for target in lora["targets"] if target in TARGETS])
    return size(whole) + int(lora["rank"]) * sum(module.in_features + module.out_features for _, module in layers)


def _stacks(config: Any) -> dict[str, int]:
    """Returns the key of each stack of layers, and its height."""
    return {name: int(getattr(config, name)) for name in STACKS if hasattr(config, name)}


def _vocabularies(values: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the shards' vocabulary sizes if they are visible, else the tokenizer's setting."""
    vocabulary = int(values["tokenizer"].get("vocabulary") or 8000)
    try:
        sizes = read_manifest(Path(values["paths"]["shards"])).vocabularies()
    except UserError:
        return vocabulary, vocabulary
    return sizes[0], sizes[-1]
