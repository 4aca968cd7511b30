"""The weights of a network as a safetensors file: each distinct tensor once."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.networks.network import Network


def distinct_weights(network: Network) -> dict[str, Tensor]:
    """Returns the state by name, each tensor once: tied ones under their first name."""
    seen: set[int] = set()
    weights = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            weights[name] = tensor.detach().cpu().contiguous()
    return weights


def load_weights(network: Network, path: Path) -> None:
    """Loads a safetensors file into the network; the file names each distinct tensor once."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(path)
    except SafetensorError as problem:
        raise UserError(f"{path}: not readable as safetensors ({problem})") from None
    fill(network, weights, str(path))


def fill(network: Network, weights: Mapping[str, Tensor], where: str) -> None:
    """Sets the network's weights; each distinct tensor is named once. Messages begin with `where`, their source."""
    expected = distinct_weights(network)
    for name in sorted(expected.keys() ^ weights.keys()):
        raise UserError(f"{where}: {'no' if name in expected else 'unexpected'} tensor {name!r} for this configuration")
    for name, tensor in expected.items():
        if tensor.shape != weights[name].shape:
            raise UserError(
                f"{where}: tensor {name!r} has shape {tuple(weights[name].shape)}, "
                f"the configuration needs {tuple(tensor.shape)}"
            )
    with torch.no_grad():
        network.load_state_dict(weights, strict=False)
