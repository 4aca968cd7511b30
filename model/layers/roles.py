"""The role of every parameter in training, said where the parameter is made.

    matrix   turns vectors into vectors: weight decay, and Muon's steps; a layer may stack several (`packed`)
    table    a row for each piece, position or distance: no weight decay, Adam's steps
    plain    biases, factors, rates and filters: likewise

Without a word, a parameter of two dimensions is a matrix and any other plain; torch's embeddings are tables, and its
recurrent layers stack a matrix for each gate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from torch import nn

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Role:
    """The kind of a parameter, and the rows of each matrix in one that holds several."""

    kind: Literal["matrix", "table", "plain"]
    rows: tuple[int, ...] = ()


def packed(layer: nn.Linear, rows: Sequence[int]) -> nn.Linear:
    """Says that a layer's weight is several matrices of so many rows, above each other only for speed."""
    return _say(layer, Role("matrix", tuple(rows)), "weight")


def like(module: Module, name: str, layer: nn.Linear) -> Module:
    """Says that a parameter of the module has the rows of a layer's weight, and its role."""
    return _say(module, layer.__dict__.get("roles", {}).get("weight", Role("matrix")), name)


def table(module: Module, name: str = "weight") -> Module:
    """Says that a parameter of the module is a table."""
    return _say(module, Role("table"), name)


def plain(module: Module, *names: str) -> Module:
    """Says that parameters of the module are plain, whatever their dimensions."""
    return _say(module, Role("plain"), *names)


def roles(network: nn.Module) -> dict[nn.Parameter, Role]:
    """Returns the role of every parameter, in the network's order; one that two modules share is a table if one of
    them says so."""
    role_of = {parameter: Role("matrix" if parameter.ndim > 1 else "plain") for parameter in network.parameters()}
    for module in network.modules():
        said: dict[str, Role] = module.__dict__.get("roles", {})
        for name, parameter in module.named_parameters(recurse=False):
            role = said.get(name)
            if isinstance(module, nn.Embedding):
                role = Role("table")
            elif isinstance(module, nn.RNNBase) and parameter.ndim > 1:
                role = Role("matrix", (module.hidden_size,) * (len(parameter) // module.hidden_size))
            if role is not None and role_of[parameter].kind != "table":
                role_of[parameter] = role
    return role_of


def _say(module: Module, role: Role, *names: str) -> Module:
    said: dict[str, Role] = module.__dict__.setdefault("roles", {})
    said.update(dict.fromkeys(names, role))
    return module
