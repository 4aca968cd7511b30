"""Settings and tensors of a family's row, read and written."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.huggingface.families import ACTIVATIONS, Row
from dragoman.model.huggingface.folder import CONFIG, Folder, Tensors
from dragoman.model.huggingface.vocabulary import Order
from dragoman.model.layers.roles import roles
from dragoman.model.networks.network import Network

OF_HEAD = ("head", "output")  # begin the names of ours that are no part of the stack
TABLE, OUTPUT = "embedding.weight", "output.weight"
LAYER = re.compile(r"(layers|encoder|decoder)\.(\d+)\.")
WRITES = re.compile(r".*(\.out|\.outer|norm)\.(weight|bias)")  # to the residual stream; other matrices read it
KINDS = {"activation": str, "scale_table": bool, "norm_epsilon": float} | dict.fromkeys(
    ("dropout", "attention_dropout", "activation_dropout"), float
)  # of settings; the others are whole numbers


def shape(folder: Folder, row: Row) -> Any:
    """Returns our configuration of the network that config.json describes.

    Raises UserError: a value that ours does not compute, or of another type; names it and the choices.
    """
    where = folder.path / CONFIG
    for theirs, values in row.needs.items():
        if folder.config.get(theirs, values[0]) not in values:
            choices = " or ".join(map(repr, values))
            raise UserError(f"{where}: {theirs}={folder.config[theirs]!r}: ours has {choices}")
    for pair in row.same:
        first, second = (folder.setting(key, int) for key in pair)
        if first != second:
            raise UserError(f"{where}: {pair[0]}={first}, {pair[1]}={second}: this network has one number for both")
    sizes: dict[str, Any] = {"name": str(folder.config["model_type"]), **row.fixed}
    for ours, (theirs, default) in row.settings.items():
        kind = KINDS.get(ours, int)
        value = folder.setting(theirs, kind, default(sizes) if callable(default) else default)
        if ours == "activation":
            if value not in ACTIVATIONS:
                raise UserError(f"{where}: {theirs}={value!r} is not known. Choices: {', '.join(ACTIVATIONS)}")
            value = ACTIVATIONS[value]
        sizes[ours] = float(value) if kind is float else value
    if row.halves:
        sizes |= rotary(folder, sizes)
    return row.config(**sizes)


def rotary(folder: Folder, sizes: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of rotary positions and of shared heads.

    Raises UserError: heads of another width, or angles that are scaled.
    """
    heads, width, where = sizes["heads"], sizes["width"], folder.path / CONFIG
    head = folder.setting("head_dim", int, width // heads)
    if head * heads != width:
        raise UserError(f"{where}: head_dim={head}: {heads} heads of it are not hidden_size={width}, as ours are")
    angles = folder.config.get("rope_parameters") or folder.config.get("rope_scaling") or {}
    kind = angles.get("rope_type", angles.get("type", "default"))
    if kind != "default":
        raise UserError(f"{where}: rope_type={kind!r}: ours turns by 'default' angles alone")
    window = folder.config.get("sliding_window") if folder.config.get("use_sliding_window", True) else None
    return {
        "rotary_base": float(angles.get("rope_theta") or folder.setting("rope_theta", float, 10000.0)),
        "kv_heads": 0 if sizes["kv_heads"] == heads else sizes["kv_heads"],
        "max_positions": min(sizes["max_positions"], window or sizes["max_positions"]),
    }


class Part(NamedTuple):
    """One of their tensors that stand above each other in one of ours."""

    name: str  # without the base
    rows: int
    heads: int = 0  # whose numbers move between halves and neighbours; 0: none
    transposed: bool = False


def parts_of(row: Row, network: Network, name: str) -> list[Part]:
    """Returns the parts of the tensor `name` of our network; none if it has no place there."""
    module, _, kind = name.rpartition(".")
    layer = LAYER.match(name)
    theirs = row.names.get(LAYER.sub(r"\1.{}.", module, count=1) if layer else module, ())
    tensor = network.get_parameter(name)
    rows: Sequence[int] = (len(tensor),)
    if len(theirs) > 1:
        rows = roles(network)[network.get_parameter(f"{module}.weight")].rows
    config: Any = network.config
    heads = (config.heads, config.kv_heads or config.heads, 0) if row.halves and module.endswith("qkv") else (0, 0, 0)
    turned = row.transposed and layer is not None and tensor.dim() == 2
    return [
        Part(f"{part.format(layer[2] if layer else '')}.{'weight' if kind == 'table' else kind}", count, own, turned)
        for part, count, own in zip(theirs, rows, heads, strict=False)
    ]


def fill(
    network: Network,
    row: Row,
    tensors: Tensors,
    state: dict[str, Tensor],
    notes: dict[str, object],
    order: Order | None = None,
    width_order: Tensor | None = None,
) -> None:
    """Sets the network's weights: `state` as they are, the others from theirs. Nothing may be left of these.

    `order`: the vocabulary of the bias of a language model's output. `width_order`: see `permuted`.

    Raises UserError: a tensor is missing, has another shape, or has no place here.
    """
    for name in network.state_dict():
        if name not in state:
            state[name] = permuted(read_tensor(name, row, network, tensors, notes, order), name, width_order)
    tensors.finish()
    network.load_state_dict(state)


def read_tensor(
    name: str, row: Row, network: Network, tensors: Tensors, notes: dict[str, object], order: Order | None
) -> Tensor:
    """Returns the tensor `name` of our network from theirs."""
    ours, parts = network.get_parameter(name), parts_of(row, network, name)
    first = parts[0].name if parts else ""
    if name == "output.bias" and order is not None:
        used = f"{row.output.removesuffix('weight')}bias"  # where the tables are two, the other is not
        held = [tensors.take(bias, max(order.theirs) + 1) for bias in (used, first) if bias in tensors]
        return order.bias(held[0] if held else None)
    if name.startswith(OF_HEAD) and first not in tensors:
        notes["head"] = "not in the folder"  # the stack was saved alone
        return ours.detach()
    if name.endswith("positions.table"):
        table = tensors.take(first, len(ours) + row.first_position, ours.shape[1])
        if row.types is not None and row.types in tensors:
            types = tensors.take(row.types, len(tensors.left[row.types]), ours.shape[1])
            table = table + types[:1]
        return table[row.first_position :]
    weights = []
    for part in parts:
        size = (part.rows, *ours.shape[1:])
        if part.name not in tensors and row.without_biases and name.endswith(".bias"):
            weights.append(torch.zeros(size))
            continue
        tensor = tensors.take(part.name, *(size[::-1] if part.transposed else size))
        tensor = tensor.t() if part.transposed else tensor
        weights.append(neighbours(tensor, part.heads) if part.heads else tensor)
    return torch.cat(weights)


def written_tensors(row: Row, network: Network, width_order: Tensor | None = None) -> dict[str, Tensor]:
    """Returns our network's tensors by their names; the table of a stack has the scale that one there reads."""
    weights = {}
    for name, tensor in network.state_dict().items():
        if name == OUTPUT:
            weights[row.output] = permuted(tensor, name, width_order)
            continue
        parts = parts_of(row, network, name)  # none for the bias of absent tokens
        rows = torch.split(permuted(tensor, name, width_order), [part.rows for part in parts]) if parts else ()
        for part, own in zip(parts, rows, strict=True):
            turned = halves(own, part.heads) if part.heads else own.t() if part.transposed else own
            weights[f"{'' if name.startswith(OF_HEAD) else row.base}{part.name}"] = turned
            if name == TABLE and network.config.scale_table:
                weights[f"{row.base}{part.name}"] = own * network.config.width**0.5
    return weights


def permuted(tensor: Tensor, name: str, width_order: Tensor | None) -> Tensor:
    """Returns the tensor `name` for a residual stream in another order: its columns, or rows if it writes there."""
    if width_order is None:
        return tensor
    if WRITES.fullmatch(name):
        return tensor[width_order]
    return tensor[:, width_order] if tensor.dim() == 2 else tensor


def halves(rows: Tensor, heads: int) -> Tensor:
    """rows (heads x K, ...): of each head first the even numbers, then the odd ones."""
    return rows.view(heads, -1, 2, *rows.shape[1:]).transpose(1, 2).flatten(0, 2)


def neighbours(rows: Tensor, heads: int) -> Tensor:
    """rows (heads x K, ...) of `halves` -> as they were."""
    return rows.view(heads, 2, -1, *rows.shape[1:]).transpose(1, 2).flatten(0, 2)
