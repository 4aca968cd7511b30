"""The states that a recurrent language model carries from one batch of a lane to the next: kept in checkpoints.

Each rank holds those of its own lanes. A run that goes on, on however many ranks, gives every lane back its own.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from model.networks.language_network import LanguageNetwork
from model.networks.network import Network


def export_state(network: Network) -> dict[str, Tensor]:
    """Lane -> its state (B, ...) on the CPU; nothing where nothing is carried. States of evaluations are left out."""
    if not isinstance(network, LanguageNetwork):
        return {}
    return {str(lane): state.cpu() for lane, state in network.carried.items() if lane >= 0}


def restore_state(network: Network, carried: Mapping[str, Tensor], lanes: Iterable[int], device: torch.device) -> None:
    """Let the network go on from the states of `lanes` among those of a checkpoint."""
    if isinstance(network, LanguageNetwork):
        network.carried = {lane: carried[str(lane)].to(device) for lane in lanes if str(lane) in carried}


def reset_broken_state(network: Network) -> None:
    """Put zeros in the place of states that are not finite: a step that failed must not spoil those after it."""
    if isinstance(network, LanguageNetwork):
        for lane, state in network.carried.items():
            if not bool(torch.isfinite(state).all()):
                network.carried[lane] = torch.zeros_like(state)
