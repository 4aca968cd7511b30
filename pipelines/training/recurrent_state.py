"""The states that a recurrent language model carries between the batches of a lane, stored in checkpoints.

Each rank holds those of its own lanes. A resumed run, on any number of ranks, gives every lane its own state.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from dragoman.model.networks.language_network import LanguageNetwork
from dragoman.model.networks.network import Network


def export_state(network: Network) -> dict[str, Tensor]:
    """Returns lane -> its state (B, ...) on the CPU, without the states of evaluations; empty if none is carried."""
    if not isinstance(network, LanguageNetwork):
        return {}
    return {str(lane): state.cpu() for lane, state in network.carried.items() if lane >= 0}


def restore_state(network: Network, carried: Mapping[str, Tensor], lanes: Iterable[int], device: torch.device) -> None:
    """Restores the states of `lanes` from those of a checkpoint."""
    if isinstance(network, LanguageNetwork):
        network.carried = {lane: carried[str(lane)].to(device) for lane in lanes if str(lane) in carried}


def reset_broken_state(network: Network) -> None:
    """Zeros states that are not finite, so that a failed step does not spoil later ones."""
    if isinstance(network, LanguageNetwork):
        for lane, state in network.carried.items():
            if not bool(torch.isfinite(state).all()):
                network.carried[lane] = torch.zeros_like(state)
