"""Frozen parts of a network: `train.freeze`."""

from torch import nn

from dragoman.model.errors import UserError
from dragoman.model.networks.part_names import check_part, parameters
from dragoman.pipelines.config import Config


def freeze(config: Config, network: nn.Module) -> None:
    """Stops the training of the parts that `train.freeze` names."""
    names, ours = config.train.freeze, config.model["architecture"]
    for part in names:
        for _, parameter in parameters(network, check_part("train.freeze", part, ours)):
            parameter.requires_grad_(False)
    if names and not any(parameter.requires_grad for parameter in network.parameters()):
        raise UserError(f"train.freeze=[{','.join(names)}]: nothing is left to train; leave a part out")


def share(network: nn.Module) -> float:
    """Returns the share of the parameters that are trained."""
    counts = [(parameter.numel(), parameter.requires_grad) for parameter in network.parameters()]
    return sum(count for count, trained in counts if trained) / sum(count for count, _ in counts)


def counted(network: nn.Module) -> str:
    """Returns how many parameters the network has, and which share is trained, as a message says it."""
    total = f"{sum(parameter.numel() for parameter in network.parameters()):,} parameters"
    return total if share(network) == 1 else f"{total}, of which {share(network):.1%} are trained"
