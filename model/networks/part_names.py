"""The parts of networks by the names of their tensors: for starts from other models, freezes and low-rank factors.

A part is embeddings, encoder, decoder or output. The table gives the beginnings of its tensors' names.
"""

from collections.abc import Iterable, Iterator, Mapping

from torch import nn

from dragoman.model.errors import unknown
from dragoman.model.layers.attention import CrossAttention, SelfAttention
from dragoman.model.layers.transformer_layers import FeedForward

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

PRODUCTS: dict[str, tuple[type[nn.Module], ...]] = {  # layers whose products get low-rank factors, by their names
    "attention": (SelfAttention, CrossAttention),
    "feed_forward": (FeedForward,),
}


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
    kinds = tuple(kind for target in targets for kind in PRODUCTS[target])
    for name, module in list(network.named_modules()):
        if isinstance(module, kinds) and name.startswith(prefixes):
            yield from (
                (f"{name}.{own}", child) for own, child in module.named_children() if isinstance(child, nn.Linear)
            )
