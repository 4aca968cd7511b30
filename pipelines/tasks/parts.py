"""The parts of networks: what a start from other models, a freeze and a rate of its own are named by.

A part is embeddings, encoder, decoder or output. The table gives the beginnings of its tensors' names, and the name
that stands for each in every network, so that a tensor of one network finds its place in another.
"""

from collections.abc import Iterator, Mapping

from torch import nn

from model.errors import UserError, unknown
from pipelines.config import Config

Prefixes = Mapping[str, str]  # beginning of a tensor's name -> the same for all networks
STACK = {name: name for name in ("positions.", "layers.", "norm.")}
ONE_TABLE = {"embedding.": "both."}
TWO_TABLES = {"source_embedding.": "source.", "target_embedding.": "target."}
OUTPUT = {"output.": ""}
DECODER_ONLY: Mapping[str, Prefixes] = {"embeddings": ONE_TABLE, "decoder": STACK, "output": OUTPUT}
RECURRENT: Mapping[str, Prefixes] = {
    "embeddings": TWO_TABLES,
    "encoder": {"encoder.": ""},
    "decoder": {"decoder.": "", **{name: name for name in ("readout.", "bridge.", "score.")}},
    "output": OUTPUT,
}
HEAD_OUTPUT = {"output.": "", "pool.": "pool."}
PARTS: dict[str, Mapping[str, Prefixes]] = {
    "bert": {
        "embeddings": ONE_TABLE,
        "encoder": STACK,
        "output": {**OUTPUT, "head.": "head.", "head_norm.": "head_norm."},
    },
    "gpt": DECODER_ONLY,
    "prefixlm": DECODER_ONLY,
    "recurrent_head": {"embeddings": ONE_TABLE, "encoder": {"encoder.": ""}, "output": HEAD_OUTPUT},
    "rnnenc": RECURRENT,
    "rnnlm": {"embeddings": ONE_TABLE, "decoder": {"recurrent.": ""}, "output": OUTPUT},
    "rnnsearch": RECURRENT,
    "statelm": DECODER_ONLY,
    "transformer": {
        "embeddings": TWO_TABLES,
        "encoder": {"source_positions.": "positions.", "encoder.": "layers.", "encoder_norm.": "norm."},
        "decoder": {"target_positions.": "positions.", "decoder.": "layers.", "decoder_norm.": "norm."},
        "output": OUTPUT,
    },
    "transformer_head": {"embeddings": ONE_TABLE, "encoder": STACK, "output": HEAD_OUTPUT},
}
LAYERS = {  # networks with the same value have layers of one kind
    **dict.fromkeys(("bert", "gpt", "prefixlm", "transformer", "transformer_head"), "attention"),
    **dict.fromkeys(("recurrent_head", "rnnenc", "rnnlm", "rnnsearch"), "recurrent"),
    "statelm": "state",
}


def parameters(network: nn.Module, prefixes: Prefixes) -> Iterator[tuple[str, nn.Parameter]]:
    """Yields (name, parameter) of a part, also under the names of a table that parts share."""
    for name, parameter in network.named_parameters(remove_duplicate=False):
        if name.startswith(tuple(prefixes)):
            yield name, parameter


def check_part(key: str, part: str, architecture: str) -> Prefixes:
    """Returns the prefixes of a part.

    Raises:
        UserError: the network has no such part.
    """
    if part not in PARTS[architecture]:
        raise unknown(key, part, PARTS[architecture])
    return PARTS[architecture][part]


def freeze(config: Config, network: nn.Module) -> None:
    """Stops the training of the parts that `train.freeze` names, and checks those of `train.lr_scale`.

    Raises:
        UserError: the network has no such part, or nothing is left to train.
    """
    wanted, ours = config.train.freeze, config.model["architecture"]
    for part in wanted:
        for _, parameter in parameters(network, check_part("train.freeze", part, ours)):
            parameter.requires_grad_(False)
    if wanted and not any(parameter.requires_grad for parameter in network.parameters()):
        raise UserError(f"train.freeze=[{','.join(wanted)}]: nothing is left to train; leave a part out")
    rates(config, network)


def share(network: nn.Module) -> float:
    """Returns the share of the parameters that are trained."""
    counts = [(one.numel(), one.requires_grad) for one in network.parameters()]
    return sum(count for count, trained in counts if trained) / sum(count for count, _ in counts)


def counted(network: nn.Module) -> str:
    """Returns how many parameters the network has, and which share is trained, as a message says it."""
    total = f"{sum(one.numel() for one in network.parameters()):,} parameters"
    return total if share(network) == 1 else f"{total}, of which {share(network):.1%} are trained"


def rates(config: Config, network: nn.Module) -> dict[nn.Parameter, float]:
    """Returns the parameters whose learning rate is scaled, with the factor.

    Raises:
        UserError: the network has no such part, it is frozen, or a table that two parts share has two factors.
    """
    found: dict[nn.Parameter, float] = {}
    for part, factor in config.train.lr_scale.changed.items():
        key = f"train.lr_scale.{part}"
        prefixes = check_part("train.lr_scale", part, config.model["architecture"])
        if part in config.train.freeze:
            raise UserError(f"{key}={factor:g}: train.freeze names this part too; leave one of them out")
        for name, parameter in parameters(network, prefixes):
            if found.setdefault(parameter, factor) != factor:
                raise UserError(f"{key}={factor:g}: {name} is shared with a part of factor {found[parameter]:g}")
    return found
