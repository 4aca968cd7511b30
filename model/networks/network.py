"""The interface of every network for training and bundles, and of translation networks for decoding."""

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.layers.losses import vocabulary_loss
from dragoman.model.settings import LossConfig, Side
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import PAD

Tie = Literal["all", "target", "inputs", "none"]  # which tables share the output layer's weights; inputs: each other's
Loss = Callable[[Any, Any, LossConfig], tuple[Tensor, Tensor]]
State = dict[str, Tensor]  # decoding state; the batch is dimension 0 of every tensor


@dataclass
class Memory:
    """The encoder's output for the decoder."""

    states: Tensor  # (B, S, D)
    real: Tensor  # (B, S) bool, True at real tokens


class Network(nn.Module):
    """A trainable network: one output layer of width D turns its states into logits over a vocabulary V."""

    output: nn.Linear  # (V, D)
    config: Any  # its architecture's dataclass

    def logits(self, states: Tensor) -> Tensor:
        """(..., D) -> (..., V)."""
        return self.output(states)  # type: ignore[no-any-return]  # modules' calls are untyped

    def layer_states(self, ids: Tensor) -> list[Tensor]:
        """ids (B, T), PAD after the real tokens -> the embeddings and each layer's states, (B, T, D) each.

        The last states are normalised if the network normalises them. States at padding have no meaning.
        """
        raise NotImplementedError

    def reorder(self, state: State, rows: Tensor) -> State:
        """Returns the decoding state of the texts or hypotheses `rows` (B',), which are kept, copied or dropped."""
        return {name: value.index_select(0, rows) for name, value in state.items()}

    @property
    def bytes(self) -> int:
        """Returns the bytes of the weights in memory."""
        return sum(parameter.nbytes for parameter in self.parameters())

    def parameter_count(self) -> int:
        """Returns the number of trainable parameters; a tied table counts once."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def no_network(config: Any, _source: int, _target: int) -> Network:
    raise UserError(f"model.architecture: {config.architecture!r} is a method of word vectors, and has no network")


def no_loss(network: Any, _batch: Any, _config: Any) -> Any:
    raise TypeError(f"{network}: is no network that this table made")


@dataclass(frozen=True)
class Architecture:
    """One row: how to build a network from a configuration, and how to compute a summed loss for a batch.

    A translation network trains on `TranslationBatch`. Others train on `TextBatch` and get their one vocabulary for
    both arguments; those that label get the vocabulary of the labels for the second. Word vectors have tables instead
    of a network (`model/word_vectors`): they are trained in rounds over segments, or counted in one pass.
    """

    config: type[Any]
    network: Callable[[Any, int, int], Network] = no_network
    loss: Loss = no_loss
    kind: str = "translation"  # of its bundles (model/inference/kinds.py) and of its task (pipelines/tasks/base.py)
    counted: bool = False


class TranslationNetwork(Network):
    """Letters: B batch, S source length, T target length, D width, V target vocabulary."""

    max_source_positions: int
    max_target_positions: int
    source_embedding: nn.Embedding
    target_embedding: nn.Embedding

    @abstractmethod
    def forward(self, batch: TranslationBatch) -> Tensor:
        """Teacher forcing: the states (B, T, D) that the output layer turns into logits of `batch.target_out`."""

    @abstractmethod
    def encode(self, source: Tensor) -> Memory:
        """source (B, S) int64, with the end of sentence, PAD after it."""

    @abstractmethod
    def start(self, memory: Memory, max_steps: int) -> State:
        """Returns the state before the first target token."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B,), the last ones chosen (BOS at first) -> logits (B, V) of the next, and the new state."""

    def make_tables(self, tie: Tie, width: int, source_vocabulary: int, target_vocabulary: int) -> None:
        """Creates the embedding tables: one for both sides if `tie` is all or inputs."""
        if tie in ("all", "inputs") and source_vocabulary != target_vocabulary:
            raise UserError(
                f"model.tie={tie!r}: source and target vocabularies differ ({source_vocabulary} and "
                f"{target_vocabulary} tokens). Choices: tokenizer.joint=true, model.tie=target, model.tie=none"
            )
        self.target_embedding = self.source_embedding = nn.Embedding(target_vocabulary, width, padding_idx=PAD)
        if tie in ("target", "none"):
            self.source_embedding = nn.Embedding(source_vocabulary, width, padding_idx=PAD)

    def embedding_tables(self) -> dict[Side, nn.Embedding]:
        """Returns the embedding table of each side; the same object under both names if they share it.

        The output layer may share its weights too (`output.weight is table.weight`).
        """
        return {"source": self.source_embedding, "target": self.target_embedding}

    def check_vocabularies(self, joint: bool) -> None:
        """Refuses tokenizers with two vocabularies if both sides share one table.

        Two vocabularies may have the same size, so comparing sizes is not enough.
        """
        tables = self.embedding_tables()
        if tables["source"] is tables["target"] and not joint:
            raise UserError(
                "model: source and target share one table, but the shards have a vocabulary a side. Choices: "
                "tokenizer.joint=true and sharding again, or for encoder-decoders model.tie=target, model.tie=none"
            )

    def sentence(self, source: Tensor) -> Tensor:
        """source (B, S) as in `encode` -> sentence vectors (B, D): the mean of the memory over its real positions."""
        memory = self.encode(source)
        return mean_of_real(memory.states, memory.real)

    def attention_maps(self, batch: TranslationBatch) -> dict[str, Tensor]:
        """Returns attention weights under teacher forcing by name, each (B, H, T, S); empty without attention.

        The decoder's weights over the source are `decoder.0.cross` and so on by layer; model/alignment/attention_map.py
        reads them.
        """
        return {}


def translation_loss(network: TranslationNetwork, batch: TranslationBatch, config: LossConfig) -> tuple[Tensor, Tensor]:
    """(loss, nll) summed over the `batch.items` real target tokens; padding never reaches the output layer."""
    real = (batch.target_out != PAD).flatten().nonzero()[:, 0]  # (N,)
    targets = batch.target_out.flatten().index_select(0, real)
    states = network(batch).flatten(0, 1).index_select(0, real)  # (N, D)
    return vocabulary_loss(states, targets, network.output, config.label_smoothing)


def initialise(network: nn.Module) -> None:
    """Glorot for products; N(0, 1/D) for tables of width D, which `embed` scales by sqrt(D) to unit variance."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            if module.padding_idx is not None:
                nn.init.zeros_(module.weight[module.padding_idx])


def after_prefix(prefix: Sequence[int], ids: Tensor) -> Tensor:
    """ids (B, T) -> (B, P + T), each row after the prefix."""
    if not prefix:
        return ids
    return torch.cat([ids.new_tensor(prefix).expand(len(ids), -1), ids], 1)


def mean_of_real(states: Tensor, real: Tensor) -> Tensor:
    """states (B, T, D) and real (B, T) bool -> (B, D) in float32: the mean over real positions, 0 if there are none."""
    counted = real[..., None].float()
    return (states.float() * counted).sum(1) / counted.sum(1).clamp_min(1.0)


@contextlib.contextmanager
def evaluating(network: nn.Module) -> Iterator[torch.device]:
    """Puts the network in evaluation mode during the block, restores its mode afterwards, and yields its device."""
    was_training = network.training
    network.eval()
    try:
        yield next(network.parameters()).device
    finally:
        network.train(was_training)
