"""The parameters of a network by part, as lectures count them, and the cost of a training step by part.

A part is a matrix of one role, such as the queries of all layers. Its formula is a product of the network's letters:
V vocabulary, D width, H heads, G heads of keys and values, K width of a head, F feed-forward width, L layers. Other
parameters have their shape as formula. A tied table counts once.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from dragoman.model.layers.roles import roles
from dragoman.model.networks.network import Network
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import SPECIAL

MATRICES = ("embedding", "queries", "keys", "values", "output", "up", "gate", "down", "unembedding")  # of lectures
STACKED = (  # pattern of a parameter's name, the parts that stand above each other in it
    (r".*(self_attention|mixer)\.qkv\.weight", ("queries", "keys", "values")),
    (r".*cross_attention\.q\.weight", ("queries",)),
    (r".*cross_attention\.kv\.weight", ("keys", "values")),
    (r".*feed_forward\.inner\.weight", ("up", "gate")),
)
SIMPLE = (  # pattern of a parameter's name, part, formula
    (r"(.*_)?embedding\.weight", "embedding", "V x D"),
    (r"output\.weight", "unembedding", "V x D"),
    (r".*(attention|mixer)\.out\.weight", "output", "D x D"),
    (r".*feed_forward\.outer\.weight", "down", "D x F"),
    (r"positions\.table", "positions", "positions x D"),
    (r".*norm\.(weight|bias)", "normalisation", "D"),
    (r".*bias.*", "biases", ""),
)
FORWARD, BOTH = "forward pass", "forward and backward pass"
COSTS = {  # a module's last name: the part whose cost it is
    "self_attention": "attention",
    "cross_attention": "attention to the source",
    "attention": "attention to earlier states",
    "mixer": "mixer",
    "recurrent": "recurrent layers",
    "feed_forward": "feed-forward",
    "head": "head",
    "output": "unembedding",
}


@dataclass
class Part:
    """All parameters of one role and shape."""

    part: str
    matrices: int
    shape: tuple[int, ...]
    formula: str
    parameters: int = 0


@dataclass
class Cost:
    """The cost of one part in the forward pass, or of a whole pass."""

    part: str
    flops: int
    seconds: float


def parts(network: Network) -> list[Part]:
    """Returns the parts in the order of their first parameter; the network may be without its weights."""
    by_key: dict[tuple[str, tuple[int, ...]], Part] = {}
    role_of = roles(network)
    tables = {id(module.weight) for module in network.modules() if isinstance(module, nn.Embedding)}
    for name, parameter in network.named_parameters():
        if id(parameter) in tables:  # a tied one may come under the output layer's name
            name = "embedding.weight"
        for part, shape, formula in matrices(name, parameter, role_of[parameter].rows):
            row = by_key.setdefault((part, shape), Part(part, 0, shape, formula))
            row.matrices += 1
            row.parameters += int(np.prod(shape))
    for row in by_key.values():
        if row.matrices > 1 and row.formula:
            row.formula = f"{row.matrices} x {row.formula}"
    return list(by_key.values())


def matrices(name: str, parameter: Tensor, rows: Sequence[int]) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Returns (part, shape, formula) of a parameter, or of each of its stacked matrices with so many `rows`."""
    shape = tuple(parameter.shape)
    for pattern, names in STACKED:
        if re.fullmatch(pattern, name):
            for part, count in zip(names, rows or shape[:1], strict=False):
                grouped = part in ("keys", "values") and count < shape[1]
                formula = "F x D" if part in ("up", "gate") else "G K x D" if grouped else "H K x D"
                yield part, (count, shape[1]), formula
            return
    for pattern, part, formula in SIMPLE:
        if re.fullmatch(pattern, name):
            yield part, shape, formula or " x ".join(map(str, shape))
            return
    yield re.sub(r"\.\d+\b", "", name).removesuffix(".weight"), shape, " x ".join(map(str, shape))


def matrices_of_lectures(every: list[Part]) -> int:
    """Returns the sum over the matrices that lectures count: no biases, no normalisation, no positions."""
    return sum(part.parameters for part in every if part.part in MATRICES)


def step_costs(network: Network, rows: int, length: int) -> list[Cost]:
    """Returns the forward pass' cost by part on `rows` x `length` random tokens, then that of FORWARD and of BOTH.

    Floating-point operations are counted by torch.utils.flop_counter: products alone. It cannot tell the parts of a
    backward pass apart. Seconds are measured without the counter.
    """
    generator = torch.Generator().manual_seed(1)
    size = network.output.out_features
    tokens = torch.randint(min(len(SPECIAL), size - 1), size, (rows, length + 1), generator=generator)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    batch = TextBatch(inputs, targets, targets.numel(), np.arange(rows, dtype=np.int64))

    def step() -> Tensor:
        return nn.functional.cross_entropy(network.logits(network(batch)).flatten(0, 1), targets.flatten())

    network.train()
    named = {name: COSTS[name.rsplit(".", 1)[-1]] for name, _ in network.named_modules() if is_cost(name)}
    with FlopCounterMode(display=False) as both:
        step().backward()  # type: ignore[no-untyped-call]  # torch's
    start = time.perf_counter()
    step().backward()  # type: ignore[no-untyped-call]  # torch's
    taken = time.perf_counter() - start
    network.zero_grad()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        step()
    counts = counter.get_flop_counts()
    root = type(network).__name__
    flops: dict[str, int] = {}
    for name, part in named.items():
        flops[part] = flops.get(part, 0) + sum(counts.get(f"{root}.{name}", {}).values())
    with torch.no_grad():
        seconds, whole = time_parts(network, named, step)
    costs = [Cost(part, count, seconds[part]) for part, count in flops.items()]
    return [*costs, Cost(FORWARD, counter.get_total_flops(), whole), Cost(BOTH, both.get_total_flops(), taken)]


def is_cost(name: str) -> bool:
    """Returns True for a module that is a part by itself: none inside another part."""
    path = name.split(".")
    return path[-1] in COSTS and not any(part in COSTS for part in path[:-1])


def time_parts(network: Network, named: Mapping[str, str], step: Any) -> tuple[dict[str, float], float]:
    """Returns the seconds of each part's modules and of the whole forward pass, of the second of two passes."""
    seconds = dict.fromkeys(named.values(), 0.0)
    begun: dict[nn.Module, float] = {}
    modules = dict(network.named_modules())

    def begin(module: nn.Module, _inputs: Any) -> None:
        begun[module] = time.perf_counter()

    def end_of(part: str) -> Any:
        def end(module: nn.Module, _inputs: Any, _output: Any) -> None:
            seconds[part] += time.perf_counter() - begun[module]

        return end

    step()
    hooks: list[Any] = []
    for name, part in named.items():
        hooks += [modules[name].register_forward_pre_hook(begin), modules[name].register_forward_hook(end_of(part))]
    start = time.perf_counter()
    step()
    whole = time.perf_counter() - start
    for hook in hooks:
        hook.remove()
    return seconds, whole
