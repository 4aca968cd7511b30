"""Settings and tensors of a family's row, read and written."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.huggingface.families import ABOUT, ACTIVATIONS, Row
from dragoman.model.huggingface.folder import CONFIG, Folder, Tensors
from dragoman.model.huggingface.generation import KEYS
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
MOST_POSITIONS = 1 << 20  # more than any table of theirs has


def check_keys(folder: Folder, row: Row) -> None:
    """Refuses a config.json with a key that the row does not list, or a value that ours does not compute."""
    where = folder.path / CONFIG
    known = {theirs for theirs, _ in row.settings.values()} | {*row.read, *row.needs, *row.ignored} | ABOUT | KEYS
    for key, value in folder.config.items():
        if key in row.needs and value is not None and value not in row.needs[key]:
            raise UserError(f"{where}: {key}={value!r}: ours has {' or '.join(map(repr, row.needs[key]))}")
        if key not in known and value is not None:
            raise UserError(
                f"{where}: {key}={str(value)[:60]!r}: what this key changes in {folder.config['model_type']} is not "
                "known here; without it the model is read as if it changed nothing"
            )
    defaults = {**dict(row.settings.values()), **row.read}
    for first, second in row.same:
        sides = [folder.setting(key, int, defaults[key]) for key in (first, second)]
        if sides[0] != sides[1]:
            raise UserError(f"{where}: {first}={sides[0]}, {second}={sides[1]}: this network has one number for both")


def shape(folder: Folder, row: Row, tensors: Tensors) -> Any:
    """Returns our configuration of the network that config.json describes."""
    check_keys(folder, row)
    where = folder.path / CONFIG
    sizes: dict[str, Any] = {"name": str(folder.config["model_type"]), **row.fixed}
    for ours, (theirs, default) in row.settings.items():
        kind = KINDS.get(ours, int)
        value = folder.setting(theirs, kind, default(sizes) if callable(default) else default)
        if ours == "activation":
            if value not in ACTIVATIONS:
                raise UserError(f"{where}: {theirs}={value!r} is not known. Choices: {', '.join(ACTIVATIONS)}")
            value = ACTIVATIONS[value]
        if ours.endswith("dropout") and not 0 <= value < 1:
            raise UserError(f"{where}: {theirs}={value!r}: must be at least 0 and below 1")
        sizes[ours] = float(value) if kind is float else value
    heads = row.settings["heads"][0]
    if sizes["heads"] < 1 or sizes["width"] % sizes["heads"]:
        raise UserError(f"{where}: {heads}={sizes['heads']}: must divide {row.settings['width'][0]}={sizes['width']}")
    check_sizes(folder, row, tensors, sizes)
    if row.halves:
        sizes |= rotary(folder, row, sizes)
    return row.config(**sizes)


def check_sizes(folder: Folder, row: Row, tensors: Tensors, sizes: Mapping[str, Any]) -> None:
    """Compares the sizes of config.json with the tensors."""

    def compare(theirs: str, declared: int, held: int, what: str) -> None:
        if declared != held:
            raise UserError(f"{folder.path / CONFIG}: {theirs}={declared}: the weights have {held} {what}")

    def rows_of(name: str, dimension: int = 0) -> int:
        tensor = tensors.left.get(f"{name}.weight")
        return 0 if tensor is None or tensor.dim() <= dimension else tensor.shape[dimension]

    for key, stack in (("layers", "layers"), ("encoder_layers", "encoder"), ("decoder_layers", "decoder")):
        if key not in row.settings:
            continue
        before, after = row.names[f"{stack}.{{}}.self_attention.out"][0].split("{}")
        held = sum(name.startswith(before) and name.endswith(f"{after}.weight") for name in tensors.left)
        compare(row.settings[key][0], sizes[key], held, "layers")
        inner = row.names[f"{stack}.{{}}.feed_forward.inner"][0].format(0)
        if held:
            theirs = row.settings["feed_forward"][0]
            compare(theirs, sizes["feed_forward"], rows_of(inner, int(row.transposed)), "rows in its layers")
    theirs = row.settings["max_positions"][0]
    for table in ("positions", "source_positions"):
        if table in row.names and sizes["positions"] == "learned" and (held := rows_of(row.names[table][0])):
            extra = row.first_position if table == "source_positions" else 0  # one stack counts them among its own
            compare(theirs, sizes["max_positions"], held - extra, "positions")
    if not 1 <= sizes["max_positions"] <= MOST_POSITIONS:
        raise UserError(f"{folder.path / CONFIG}: {theirs}={sizes['max_positions']}: must be 1 to {MOST_POSITIONS:,}")


def first_position(folder: Folder, row: Row) -> int:
    """Returns the row of the table of positions of the first token."""
    return (
        folder.setting("pad_token_id", int, row.read["pad_token_id"]) + 1 if row.after_padding else row.first_position
    )


def rotary(folder: Folder, row: Row, sizes: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of rotary positions and of shared heads."""
    heads, width, where = sizes["heads"], sizes["width"], folder.path / CONFIG
    head = folder.setting("head_dim", int, width // heads)
    if head * heads != width:
        raise UserError(f"{where}: head_dim={head}: {heads} heads of it are not hidden_size={width}, as ours are")
    angles = folder.config.get("rope_parameters") or folder.config.get("rope_scaling") or {}
    kind = angles.get("rope_type", angles.get("type", "default"))
    if kind != "default":
        raise UserError(f"{where}: rope_type={kind!r}: ours turns by 'default' angles alone")
    return {
        "rotary_base": float(angles.get("rope_theta") or folder.setting("rope_theta", float, 10000.0)),
        "kv_heads": 0 if sizes["kv_heads"] == heads else sizes["kv_heads"],
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
