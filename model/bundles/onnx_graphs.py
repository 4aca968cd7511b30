"""A network as graphs of ONNX, which ONNX Runtime and others compute without torch.

    masked model            model.onnx: input_ids (B, T) -> sentence_embedding (B, D), token_embeddings (B, T, D),
                            logits (B, T, V)
    model with a head       model.onnx: input_ids (B, T) -> sentence_embedding (B, D), probabilities (B, P, C); numbers
                            are in standard deviations from the mean
    Transformer that        encoder.onnx: input_ids (B, S) -> the decoder's state before the first token
    translates              decoder.onnx: tokens (B,), <s> at first, and the state -> logits (B, V), and the state grown

B, S and T are free; texts of a batch are padded with 0 at the end. A folder holds besides

    onnx.json       inputs and outputs of each graph, special ids, positions, labels, the model's digest
    tokenizer.json  as in `tokenizer_json`; two vocabularies have source_tokenizer.json and target_tokenizer.json

Letters: B texts, T and S positions, D width, V vocabulary, C labels, P = T for tags, else 1.
"""

import importlib.util
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.model.bundles.directory import Bundle
from dragoman.model.bundles.labelled import LabelBundle
from dragoman.model.bundles.language import TextBundle
from dragoman.model.bundles.tokenizer_json import FILE, tokenizer_json
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.errors import UserError
from dragoman.model.networks.bert import EncoderOnly
from dragoman.model.networks.heads import TransformerHead, probabilities
from dragoman.model.networks.network import mean_of_real
from dragoman.model.networks.transformer import Transformer
from dragoman.model.text.tokenizer import BOS, SPECIAL, UNK

RECORD = "onnx.json"
LIBRARIES = ("onnx", "onnxscript")
LARGE = 1 << 30  # bytes of weights from which they lie beside the graph: a file of protobuf holds 2 GiB at most
EXAMPLE = 2, 5, 3  # texts, source positions, target positions: torch takes sizes of 0 and 1 as fixed


@dataclass(frozen=True)
class Graph:
    """A module with example inputs, by name, and the dimensions of each that are free."""

    module: nn.Module
    inputs: Mapping[str, Tensor]
    free: Mapping[str, Mapping[int, str]]  # input -> its dimensions' names
    outputs: Sequence[str]


class MaskedGraph(nn.Module):
    """A masked model."""

    def __init__(self, network: EncoderOnly) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """input_ids (B, T) -> (B, D), (B, T, D), (B, T, V)."""
        whole, real = self.network.whole(input_ids)
        states = whole[:, len(self.network.prefix) :]
        return mean_of_real(whole, real), states, self.network.logits(self.network.guess(states))


class HeadGraph(nn.Module):
    """A model with a head."""

    def __init__(self, network: TransformerHead) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """input_ids (B, T) -> (B, D), (B, P, C)."""
        return self.network.sentence(input_ids), probabilities(self.network, input_ids)


class EncoderGraph(nn.Module):
    """The encoder of a translation model, up to the decoder's first state."""

    def __init__(self, network: Transformer, names: Sequence[str], empty: Mapping[str, tuple[int, int]]) -> None:
        """`empty`: name -> heads and width of the keys and values of target positions, of which there are none yet."""
        super().__init__()
        self.network, self.names, self.empty = network, list(names), dict(empty)

    def forward(self, input_ids: Tensor) -> tuple[Tensor, ...]:
        """input_ids (B, S) -> the state's tensors, by name."""
        memory = self.network.encode(input_ids)
        state = self.network.start(memory, self.network.max_target_positions)
        for name, (heads, width) in self.empty.items():
            if name not in state:
                state[name] = memory.states.new_zeros(len(memory.states), heads, 0, width)
        return tuple(state[name] for name in self.names)


class DecoderGraph(nn.Module):
    """One step of the decoder."""

    def __init__(self, network: Transformer, names: Sequence[str]) -> None:
        super().__init__()
        self.network, self.names = network, list(names)

    def forward(self, tokens: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """tokens (B,) and the state -> logits (B, V) and the new state."""
        logits, new = self.network.step(tokens, dict(zip(self.names, state, strict=True)))
        return logits, *(new[name] for name in self.names)


def write_onnx(folder: Path, bundle: object) -> None:
    """Writes the graphs of a bundle into `folder`.

    Raises UserError: a library is missing, a network that is not exported, or a tokenizer without subwords.
    """
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"onnx: needs the package {' and '.join(missing)}: pip install 'dragoman[onnx]'")
    graphs = graphs_of(bundle)
    tokenizers, facts = tokenizer_files(bundle), record(bundle)
    folder.mkdir(parents=True, exist_ok=True)
    for name, graph in graphs.items():
        export(graph, folder / name)
        facts["graphs"][name] = {"inputs": list(graph.inputs), "outputs": list(graph.outputs)}
    for name, content in tokenizers.items():
        (folder / name).write_text(content, encoding="utf-8")
    (folder / RECORD).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def graphs_of(bundle: object) -> dict[str, Graph]:
    """Returns file -> graph."""
    texts, length, _ = EXAMPLE
    ids = {"input_ids": torch.full((texts, length), UNK)}
    free = {"input_ids": {0: "batch", 1: "length"}}
    network = getattr(bundle, "network", None)
    if isinstance(network, EncoderOnly):
        outputs = ("sentence_embedding", "token_embeddings", "logits")
        return {"model.onnx": Graph(MaskedGraph(network), ids, free, outputs)}
    if isinstance(network, TransformerHead):
        return {"model.onnx": Graph(HeadGraph(network), ids, free, ("sentence_embedding", "probabilities"))}
    if isinstance(network, Transformer):
        return translation_graphs(network, Graph(network, ids, free, ()))
    raise UserError(
        "onnx: only Transformers are exported: masked models (model=bert_tiny), labels' (model=classifier_transformer) "
        "and translation (model=transformer_tiny)"
    )


def translation_graphs(network: Transformer, source: Graph) -> dict[str, Graph]:
    """Returns the graphs of encoder and decoder; `source`: the encoder's inputs."""
    texts, _, steps = EXAMPLE
    tokens = torch.full((texts,), BOS)
    with torch.no_grad():
        state = network.start(network.encode(source.inputs["input_ids"]), network.max_target_positions)
        for _ in range(steps):
            _, state = network.step(tokens, state)
    names = sorted(state)
    empty = {name: (state[name].shape[1], state[name].shape[3]) for name in names if name.startswith(("key", "value"))}
    free: dict[str, dict[int, str]] = {name: {0: "batch", 2: "done" if name in empty else "length"} for name in names}
    free |= {"tokens": {0: "batch"}, "position": {0: "batch"}, "source_real": {0: "batch", 1: "length"}}
    outputs = ("logits", *(f"next.{name}" for name in names))
    inputs = {"tokens": tokens, **{name: state[name] for name in names}}
    decoder = Graph(DecoderGraph(network, names), inputs, free, outputs)
    return {
        "encoder.onnx": Graph(EncoderGraph(network, names, empty), source.inputs, source.free, names),
        "decoder.onnx": decoder,
    }


def export(graph: Graph, path: Path) -> None:
    """Writes a graph; weights of more than `LARGE` bytes lie beside it."""
    size = sum(parameter.nbytes for parameter in graph.module.parameters())
    first, *others = (dict.fromkeys(graph.free[name], torch.export.Dim.DYNAMIC) for name in graph.inputs)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter's own code
        torch.onnx.export(
            graph.module.eval(),
            tuple(graph.inputs.values()),
            path,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes=(first, tuple(others)) if others else (first,),
            dynamo=True,
            external_data=size > LARGE,
            verbose=False,
        )


def record(bundle: object) -> dict[str, Any]:
    """Returns the content of `onnx.json`, without the graphs."""
    assert isinstance(bundle, Bundle)
    facts: dict[str, Any] = {
        "graphs": {},
        "pair": bundle.pair,
        "special": SPECIAL,
        "normalisation": bundle.normalisation,
        "bundle": bundle.digest,
    }
    if isinstance(bundle, TranslationBundle):
        facts["positions"] = {"source": bundle.source_positions, "target": bundle.target_positions}
    elif isinstance(bundle, TextBundle | LabelBundle):
        facts["positions"] = bundle.positions
    if isinstance(bundle, LabelBundle):
        facts |= {"task": bundle.task, "labels": bundle.labels.labels}
        facts |= {"mean": bundle.labels.mean, "scale": bundle.labels.scale} if bundle.task == "numbers" else {}
    return facts


def tokenizer_files(bundle: object) -> dict[str, str]:
    """Returns file -> content."""
    if isinstance(bundle, TranslationBundle) and not bundle.tokenizers.joint:
        sides = {"source": bundle.tokenizers.source, "target": bundle.tokenizers.target}
        return {
            f"{side}_{FILE}": tokenizer_json(side_tokenizer, bundle.normalisation)
            for side, side_tokenizer in sides.items()
        }
    if isinstance(bundle, TranslationBundle):
        return {FILE: tokenizer_json(bundle.tokenizers.source, bundle.normalisation)}
    assert isinstance(bundle, TextBundle | LabelBundle)
    return {FILE: tokenizer_json(bundle.tokenizer, bundle.normalisation)}
