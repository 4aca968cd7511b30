"""COMET (Rei et al. 2020, 2022): a learned metric that compares a translation with its source and reference.

An XLM-R encoder, of which all layers are mixed by learned weights; a text's vector is the mean over its tokens. A small
network estimates the quality from the vectors of translation (t), reference (r) and source (s):
[t, r, t * r, |t - r|, t * s, |t - s|]. The folder holds the checkpoint's `hparams.yaml`, its weights under their own
names as safetensors, and the encoder's `config.json` and tokenizer. Checkpoints are pickles, which are never opened.

Letters: N texts, S tokens, L layers with the embeddings, H width.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from dragoman.model.errors import UserError, unknown
from dragoman.model.huggingface.folder import CONFIG, NOT_WEIGHTS
from dragoman.pipelines.evaluation.sets.learned import load_weights, open_folder

HPARAMS = "hparams.yaml"
KEY = "evaluate.comet"
BATCH = 16  # texts
ENCODER, MIX, ESTIMATOR = "encoder.model.", "layerwise_attention.", "estimator.ff."  # prefixes of the weights' names
ACTIVATIONS: dict[str, type[nn.Module]] = {"Tanh": nn.Tanh, "Sigmoid": nn.Sigmoid, "ReLU": nn.ReLU, "GELU": nn.GELU}
POOLS = ("avg", "cls", "max")


def sparsemax(scores: Tensor) -> Tensor:
    """Returns the probabilities nearest to the scores (L,), many of them 0 (Martins and Astudillo 2016)."""
    ordered = scores.sort(descending=True).values
    sums, numbers = ordered.cumsum(0), torch.arange(1, len(scores) + 1, device=scores.device)
    support = int((1 + numbers * ordered > sums).sum())
    return torch.clamp(scores - (sums[support - 1] - 1) / support, min=0)


TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda scores: scores.softmax(0),
    "sparsemax": sparsemax,
}


class Comet:
    """A COMET model that is ready to score."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        """Opens the folder.

        Raises UserError: transformers is missing, a file is missing or a pickle, or the model is of another kind.
        """
        self.hparams = read_hparams(folder)
        opened = open_folder(KEY, folder, "xlm-roberta", add_pooling_layer=False)
        config, weights, where = opened.config, opened.weights, f"{KEY}: {folder}: {CONFIG} and {HPARAMS}"
        self.tokenizer, self.device = opened.tokenizer, device
        self.signature = f"{folder.name}|weights:{opened.digest}|refs:mean|x100"
        self.positions = config.max_position_embeddings - config.pad_token_id - 1
        self.encoder = opened.network
        self.estimator = make_estimator(6 * config.hidden_size, self.hparams)
        self.mix = [weights.pop(f"{MIX}scalar_parameters.{i}", None) for i in range(config.num_hidden_layers + 1)]
        self.gamma = weights.pop(f"{MIX}gamma", None)
        if self.hparams["layer"] == "mix" and (self.gamma is None or any(share is None for share in self.mix)):
            raise UserError(f"{KEY}: {folder}: the weights lack those of the layers' mix ({MIX}gamma ...)")
        for network, prefix in ((self.encoder, ENCODER), (self.estimator, ESTIMATOR)):
            own = {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}
            load_weights(
                network, {name: weight for name, weight in own.items() if not NOT_WEIGHTS.fullmatch(name)}, where
            )
            network.eval().to(device)

    def score(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[float]:
        """Returns the quality of each line times 100, the mean over its references."""
        texts = list(dict.fromkeys([*sources, *hypotheses, *(text for line in references for text in line)]))
        vectors = dict(zip(texts, self.embed(texts), strict=True))
        scores = []
        with torch.inference_mode():
            for source, hypothesis, line in zip(sources, hypotheses, references, strict=True):
                s, t = vectors[source], vectors[hypothesis]
                r = torch.stack([vectors[text] for text in line])  # (references, H)
                s, t = s.expand_as(r), t.expand_as(r)
                pairs = torch.cat((t, r, t * r, (t - r).abs(), t * s, (t - s).abs()), 1)
                scores.append(100.0 * float(self.estimator(pairs.to(self.device)).mean()))
        return scores

    def embed(self, texts: Sequence[str]) -> list[Tensor]:
        """Returns the vector (H,) of each text, on the CPU; what is longer than the positions loses its end."""
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        embedded: list[Tensor] = [torch.empty(0)] * len(texts)
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            encoded = self.tokenizer(
                [texts[row] for row in rows],
                padding=True,
                truncation=True,
                max_length=self.positions,
                return_tensors="pt",
            )
            ids, mask = encoded["input_ids"].to(self.device), encoded["attention_mask"].to(self.device)
            with torch.inference_mode():
                layers = self.encoder(ids, mask, output_hidden_states=True).hidden_states  # L of (N, S, H)
                vectors = self._pool(self._mixed(layers, mask), mask).cpu()
            for row, vector in zip(rows, vectors, strict=True):
                embedded[row] = vector
        return embedded

    def _mixed(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        """Returns (N, S, H): the layers by their learned weights, or one of them."""
        if self.hparams["layer"] != "mix":
            return layers[int(self.hparams["layer"])]
        shares = TRANSFORMS[self.hparams["layer_transformation"]](
            torch.cat([share for share in self.mix if share is not None])
        )
        if self.hparams["layer_norm"]:
            layers = [normalised(layer, mask) for layer in layers]
        assert self.gamma is not None
        mixed = torch.zeros_like(layers[0])
        for share, layer in zip(shares, layers, strict=True):
            mixed += share.to(self.device) * layer
        return self.gamma.to(self.device) * mixed

    def _pool(self, states: Tensor, mask: Tensor) -> Tensor:
        """Returns (N, H)."""
        pool, inside = self.hparams["pool"], mask.unsqueeze(-1).bool()
        if pool == "cls":
            return states[:, 0]
        if pool == "max":
            return states.masked_fill(~inside, -math.inf).amax(1)
        return states.masked_fill(~inside, 0.0).sum(1) / mask.sum(1, keepdim=True)


def normalised(layer: Tensor, mask: Tensor) -> Tensor:
    """Returns (N, S, H) with mean 0 and variance 1 over all numbers of each text's tokens."""
    inside = mask.unsqueeze(-1).to(layer.dtype)
    count = inside.sum((1, 2), keepdim=True) * layer.shape[-1]
    mean = (layer * inside).sum((1, 2), keepdim=True) / count
    variance = (((layer - mean) * inside) ** 2).sum((1, 2), keepdim=True) / count
    return (layer - mean) / torch.sqrt(variance + 1e-12)


def make_estimator(width: int, hparams: dict[str, Any]) -> nn.Sequential:
    """Returns the network over the joined vectors; a place of each dropout is kept, so that the names are COMET's."""
    sizes, activation = [width, *hparams["hidden_sizes"]], ACTIVATIONS[hparams["activations"]]
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), activation(), nn.Identity()]
    parts.append(nn.Linear(sizes[-1], 1))
    if hparams["final_activation"] is not None:
        parts.append(ACTIVATIONS[hparams["final_activation"]]())
    return nn.Sequential(*parts)


def read_hparams(folder: Path) -> dict[str, Any]:
    """Returns the settings of the checkpoint that the scores depend on."""
    path = folder / HPARAMS
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise UserError(
            f"{KEY}: {path}: cannot be read ({type(problem).__name__}); it lies in COMET's checkpoint"
        ) from None
    if not isinstance(values, dict):
        raise UserError(f"{KEY}: {path}: holds no settings")
    hparams = {"layer_transformation": "softmax", "layer_norm": True, "pool": "avg", "final_activation": None} | values
    choices = {
        "class_identifier": ("regression_metric",),
        "encoder_model": ("XLM-RoBERTa",),
        "layer_transformation": tuple(TRANSFORMS),
        "pool": POOLS,
        "activations": tuple(ACTIVATIONS),
    }
    for name, allowed in choices.items():
        if hparams.get(name) not in allowed:
            raise unknown(f"{KEY}: {path}: {name}", hparams.get(name), allowed)
    if hparams["final_activation"] not in (None, *ACTIVATIONS):
        raise unknown(f"{KEY}: {path}: final_activation", hparams["final_activation"], ACTIVATIONS)
    sizes, layer = hparams.get("hidden_sizes"), hparams.get("layer")
    if not (isinstance(sizes, list) and sizes and all(isinstance(size, int) and size > 0 for size in sizes)):
        raise UserError(f"{KEY}: {path}: hidden_sizes={sizes!r}: must be widths, such as [3072, 1024]")
    if layer != "mix" and not (isinstance(layer, int) and layer >= 0):
        raise UserError(f"{KEY}: {path}: layer={layer!r}: must be mix or a number from 0 on")
    return hparams
