"""The gradient of a loss with distance: norm of d loss_t / d input_(t-k) against k.

In a plain recurrent network the gradient passes k products with the recurrent weights, so it vanishes or explodes
(Bengio et al. 1994; Pascanu et al. 2013). Gates keep a path open; attention is one step away from every position.

Letters: B sequences, T positions, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.layers.attention import causal_bias
from dragoman.model.layers.positions import sinusoids
from dragoman.model.layers.recurrent import Recurrent
from dragoman.model.layers.transformer_layers import EncoderLayer
from dragoman.model.networks.network import TranslationNetwork, evaluating
from dragoman.model.networks.transformer import TransformerConfig
from dragoman.model.text.batch import TranslationBatch, collate
from dragoman.model.text.normalise import normalise
from dragoman.model.text.tokenizer import EOS, PAD

WIDTH, SEQUENCES, SEEDS, CLASSES = 64, 16, 4, 10  # of the fresh layers
SENTENCES = 64  # the longest ones, for trained networks
FEWEST = 8  # sentences that a point needs


@dataclass
class GradientCurve:
    """Norms by distance."""

    label: str
    distances: list[int]
    norms: list[float]  # mean over sequences


def fresh_curves(distance: int, width: int = WIDTH, seeds: int = SEEDS) -> list[GradientCurve]:
    """Returns the curves of single layers, freshly initialised, on standard normal vectors; the loss is at the end."""
    layers: dict[str, tuple[str, float]] = {
        "RNN tanh": ("rnn_tanh", 1.0),
        "RNN tanh, recurrence x 0.5": ("rnn_tanh", 0.5),
        "RNN ReLU, recurrence x 1.6": ("rnn_relu", 1.6),
        "LSTM": ("lstm", 1.0),
        "GRU": ("gru", 1.0),
        "self-attention": ("attention", 1.0),
    }
    found = []
    for label, (kind, gain) in layers.items():
        norms = np.mean([fresh_norms(kind, gain, distance, width, seed) for seed in range(1, seeds + 1)], axis=0)
        found.append(GradientCurve(label, list(range(distance + 1)), [float(value) for value in norms]))
    return found


def fresh_norms(kind: str, gain: float, distance: int, width: int, seed: int) -> NDArray[np.float64]:
    """Returns (distance + 1,) mean norms at distances 0, 1, ...; `gain` scales the initial recurrent weights."""
    torch.manual_seed(seed)
    layer: nn.Module
    if kind == "attention":
        layer = EncoderLayer(TransformerConfig(width=width, heads=4, feed_forward=2 * width, dropout=0.0))
    else:
        layer = Recurrent(kind, width, width, 1, 0.0)  # type: ignore[arg-type]  # one of the cells' names
        with torch.no_grad():
            for name, weight in layer.named_parameters():
                if "weight_hh" in name:
                    weight.mul_(gain)
    readout = nn.Linear(width, CLASSES)
    x = torch.randn(SEQUENCES, distance + 1, width, requires_grad=True)  # (B, T, D)
    if kind == "attention":
        placed = x + sinusoids(distance + 1, width)
        states, _ = layer(placed, None, causal_bias(distance + 1, x.device))
    else:
        states, _ = layer(x)
    loss = nn.functional.cross_entropy(readout(states[:, -1]), torch.randint(CLASSES, (SEQUENCES,)), reduction="sum")
    (gradient,) = torch.autograd.grad(loss, x)
    return norms_by_distance(gradient)


def norms_by_distance(gradient: Tensor) -> NDArray[np.float64]:
    """gradient (B, T, D) of a loss at the last position -> (T,): mean norms at distance 0, 1, ... T - 1."""
    norms: NDArray[np.float64] = gradient.double().norm(dim=2).mean(0).flip(0).cpu().numpy()
    return norms


def trained_curve(
    bundle: TranslationBundle, label: str, sources: Sequence[str], targets: Sequence[str]
) -> GradientCurve | None:
    """Returns the curve of a trained decoder: its loss at the end of sentence against the words read before.

    Uses the longest of these pairs. None if the decoder's input cannot be separated from its other inputs.
    """
    sides = [tokenizer_ids(bundle, texts, side) for texts, side in ((sources, "source"), (targets, "target"))]
    network = bundle.network
    limits = network.max_source_positions, network.max_target_positions
    fitting = [
        row
        for row in range(len(sources))
        if all(1 < len(side[row]) <= most for side, most in zip(sides, limits, strict=True))
    ]
    rows = sorted(fitting, key=lambda row: (-len(sides[1][row]), row))[:SENTENCES]
    if not rows:
        return None
    batch = collate([sides[0][row] for row in rows], [sides[1][row] for row in rows], rows)
    gradient = input_gradient(network, batch.to(next(network.parameters()).device))
    if gradient is None:
        return None
    lengths = [len(sides[1][row]) for row in rows]
    return curve(label, gradient, lengths)


def input_gradient(network: TranslationNetwork, batch: TranslationBatch) -> Tensor | None:
    """Returns (B, T, E): the gradient of each row's loss at its end of sentence by the embedded target inputs."""
    taken: list[Tensor] = []

    def take(_: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor | None:
        if arguments[0] is not batch.target_in:
            return None
        taken.append(output.detach().requires_grad_())
        return taken[-1]

    handle = network.embedding_tables()["target"].register_forward_hook(take)
    with handle, evaluating(network):
        states = network(batch)  # (B, T, D)
    if len(taken) != 1:
        return None
    ends = (batch.target_out != PAD).sum(1) - 1  # (B,)
    rows = torch.arange(len(ends), device=ends.device)
    logits = network.logits(states[rows, ends]).float()
    loss = nn.functional.cross_entropy(logits, torch.full_like(ends, EOS), reduction="sum")
    (gradient,) = torch.autograd.grad(loss, taken[0])
    return gradient


def curve(label: str, gradient: Tensor, lengths: Sequence[int]) -> GradientCurve:
    """Returns mean norms by distance from each row's last real position; drops distances that few rows reach."""
    norms = gradient.double().norm(dim=2).cpu().numpy()  # (B, T)
    distances, means = [], []
    for distance in range(max(lengths)):
        reached = [norms[row, length - 1 - distance] for row, length in enumerate(lengths) if length > distance]
        if len(reached) < min(FEWEST, len(lengths)):
            break
        distances.append(distance)
        means.append(float(np.mean(reached)))
    return GradientCurve(label, distances, means)


def tokenizer_ids(bundle: TranslationBundle, texts: Sequence[str], side: str) -> list[NDArray[Any]]:
    """Returns the ids of one side with the end of sentence."""
    tokenizer = bundle.tokenizers.source if side == "source" else bundle.tokenizers.target
    encoded = tokenizer.encode([normalise(text, bundle.normalisation) for text in texts])
    return [np.append(ids.astype(np.int64), EOS) for ids in encoded]
