"""`train.lora`: fine-tunes a network by low-rank factors of its products (LoRA, Hu et al. 2021).

Everything else is frozen, except the parts that `train.lora.whole` names and the output layer of a head, which begins
with random weights. Checkpoints hold the frozen weights and the factors; the final weights are merged, so that a bundle
is that of the plain network.
"""

from collections.abc import Iterator

import torch
from torch import nn

from dragoman.model.errors import UserError, unknown
from dragoman.model.layers.low_rank import LowRank
from dragoman.model.networks import part_names
from dragoman.model.networks.part_names import PARTS, TARGETS, check_part, parameters
from dragoman.pipelines.config import Config
from dragoman.pipelines.settings import LoraConfig

KEY = "train.lora.rank"


def adapt(config: Config, network: nn.Module) -> None:
    """Gives the products of `network` low-rank factors and freezes the rest, if `train.lora.rank` asks for it.

    The factors depend on the seed alone: every rank draws the same.
    """
    settings, train = config.train.lora, config.train
    if not settings.rank:
        if settings != LoraConfig():
            raise UserError(f"train.lora: has settings, and {KEY}=0 trains without it; {KEY}=8 is common")
        return
    setting = f"{KEY}={settings.rank}"
    if not train.init_from:
        raise UserError(f"{setting}: changes a trained network; name it with train.init_from")
    if train.freeze:
        raise UserError(
            f"{setting}: freezes all but its factors, so leave train.freeze=[{','.join(train.freeze)}] out. Choices: "
            f"train.lora.parts names the parts that get factors, train.lora.whole those that are trained whole"
        )
    chosen = list(products(config, network))
    if not chosen:
        raise UserError(f"{setting}: {config.model['architecture']} has no {' or '.join(settings.targets)} to change")
    for name, layer in chosen:
        if settings.rank > (most := min(layer.in_features, layer.out_features)):
            raise UserError(f"{setting}: {name} is {tuple(layer.weight.shape)}; choose a rank of at most {most}")
    network.requires_grad_(False)
    generator = torch.Generator().manual_seed(config.seed)
    for name, layer in chosen:
        network.set_submodule(name, LowRank(layer, settings.rank, settings.alpha, settings.dropout, generator))
    for part in whole(config):
        for _, parameter in parameters(network, check_part("train.lora.whole", part, config.model["architecture"])):
            parameter.requires_grad_(True)


def products(config: Config, network: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """Yields (name, layer) of each product that gets factors."""
    settings, ours = config.train.lora, config.model["architecture"]
    stacks = [part for part in ("encoder", "decoder") if part in PARTS[ours]]
    for part in settings.parts:
        if part not in stacks:
            raise unknown("train.lora.parts", part, stacks)
    if not settings.targets:
        raise UserError(f"train.lora.targets=[]: nothing is left to train. Choices: {', '.join(TARGETS)}")
    for target in settings.targets:
        if target not in TARGETS:
            raise unknown("train.lora.targets", target, TARGETS)
    kept = [part for part in settings.parts or stacks if part not in settings.whole]
    if (settings.parts and kept != settings.parts) or not kept:
        raise UserError(f"train.lora.whole=[{','.join(settings.whole)}]: trains whole what is to get factors")
    yield from part_names.products(network, ours, kept, settings.targets)


def whole(config: Config) -> list[str]:
    """Returns the parts that are trained whole: the output layer of a head among them."""
    return sorted({*config.train.lora.whole, *(["output"] if "head" in config.model else [])})
