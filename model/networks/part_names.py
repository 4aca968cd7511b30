"""The parts of networks by the names of their tensors: for starts from other models, freezes and low-rank factors.

A part is embeddings, encoder, decoder or output. The table gives the beginnings of its tensors' names.
"""

from collections.abc import Iterable, Iterator, Mapping

from torch import nn

from dragoman.model.errors import unknown

Prefixes = tuple[str, ...]
STACK = ("positions.", "layers.", "norm.")
ONE_TABLE = ("embedding.",)
TWO_TABLES = ("source_embedding.", "target_embedding.")
OUTPUT = ("output.",)
HEAD_OUTPUT = ("output.", "pool.")
DECODER_ONLY: Mapping[str, Prefixes] = {"embeddings": ONE_TABLE, "decoder": STACK, "output": OUTPUT}
RECURRENT: Mapping[str, Prefixes] = {
    "embeddings": TWO_TABLES,
    "encoder": ("encoder.",),
    "decoder": ("decoder.", "readout.", "bridge.", "score."),
    "output": OUTPUT,
}
PARTS: dict[str, Mapping[str, Prefixes]] = {
    "bert": {"embeddings": ONE_TABLE, "encoder": STACK, "output": ("output.", "head.", "head_norm.")},
    "gpt": DECODER_ONLY,
    "prefixlm": DECODER_ONLY,
    "recurrent_head": {"embeddings": ONE_TABLE, "encoder": ("encoder.",), "output": HEAD_OUTPUT},
    "rnnenc": RECURRENT,
    "rnnlm": {"embeddings": ONE_TABLE, "decoder": ("recurrent.",), "output": OUTPUT},
    "rnnsearch": RECURRENT,
    "statelm": DECODER_ONLY,
    "transformer": {
        "embeddings": TWO_TABLES,
        "encoder": ("source_positions.", "encoder.", "encoder_norm."),
        "decoder": ("target_positions.", "decoder.", "decoder_norm."),
        "output": OUTPUT,
    },
    "transformer_head": {"embeddings": ONE_TABLE, "encoder": STACK, "output": HEAD_OUTPUT},
}

TARGETS = ("attention", "feed_forward")  # `low_rank_target` of layers whose products may get low-rank factors


def parameters(network: nn.Module, prefixes: Prefixes) -> Iterator[tuple[str, nn.Parameter]]:
    """Yields (name, parameter) of a part, also under the names of a table that parts share."""
    for name, parameter in network.named_parameters(remove_duplicate=False):
        if name.startswith(prefixes):
            yield name, parameter


def check_part(key: str, part: str, architecture: str) -> Prefixes:
    """Returns the prefixes of a part."""
    if part not in PARTS[architecture]:
        raise unknown(key, part, PARTS[architecture])
    return PARTS[architecture][part]


def products(
    network: nn.Module, architecture: str, parts: Iterable[str], targets: Iterable[str]
) -> Iterator[tuple[str, nn.Linear]]:
    """Yields (name, layer) of each product of the `targets` in these parts."""
    prefixes = tuple(prefix for part in parts for prefix in PARTS[architecture][part])
    chosen = set(targets)
    for name, module in list(network.named_modules()):
        if getattr(module, "low_rank_target", "") in chosen and name.startswith(prefixes):
            yield from (
                (f"{name}.{own}", child) for own, child in module.named_children() if isinstance(child, nn.Linear)
            )
