"""Networks that label: an encoder of texts and a head, for a class a text or a tag a word.

    classes   p(y | x) = softmax(W s + b), s the pooled states        many to one
    tags      p(y_i | x) = softmax(W h_i + b), h_i the state at the first piece of word i    many to many

The encoder is BERT's stack or a recurrent network in both directions; a fresh one, or a pre-trained one whose weights
`train.init_from` brings. Nothing hides a token from another, so that a tag depends on the whole text.

Letters: B texts, T positions, P states that are labelled (1 or T), D width of a state, C classes, E embedding width.

Pooling: the states of a text's tokens as one vector.

    mean        the mean over the real tokens (Reimers and Gurevych 2019)
    first       the state of the first token, as a label's own token is read (Devlin et al. 2019)
    attention   sum_t a_t h_t with a = softmax_t(v' tanh(W h_t + b)), over real tokens (Yang et al. 2016, section 2.2)

Letters: B texts, T positions, D width.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.model.layers.attention_scores import attend, attention_weights
from dragoman.model.layers.cells import CellName
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.losses import vocabulary_loss
from dragoman.model.layers.recurrent import Recurrent
from dragoman.model.layers.roles import table
from dragoman.model.networks.bert import EncoderConfig, TokenEncoder
from dragoman.model.networks.network import Architecture, Network, initialise, mean_of_real
from dragoman.model.ranges import Count, Part, check_ranges
from dragoman.model.settings import LossConfig
from dragoman.model.text.labels import FIRST
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import PAD, LabelTask

PoolingName = Literal["mean", "first", "attention"]


class AttentionPooling(nn.Module):
    """A learned query that every token is scored against."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, width)
        self.query = nn.Parameter(torch.empty(width).uniform_(-1.0, 1.0) * math.sqrt(3.0 / width))

    def weights(self, states: Tensor, real: Tensor) -> Tensor:
        """states (B, T, D), real (B, T) -> (B, T), which sum to one over real tokens."""
        scores = torch.tanh(self.key(states)) @ self.query  # (B, T)
        return attention_weights(scores[:, None], real)[:, 0]

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """states (B, T, D), real (B, T) -> (B, D)."""
        return attend(self.weights(states, real)[:, None], states)[:, 0]


@dataclass
class TransformerHeadConfig(EncoderConfig):
    """Sizes and switches; the encoder's are those of `bert`, so that its weights fit."""

    architecture: Literal["transformer_head"] = "transformer_head"
    name: str = "classifier_transformer"
    width: Count = 128
    heads: Count = 4
    feed_forward: Count = 512
    layers: Count = 4
    max_positions: Count = 256  # tokens, with the end of sentence
    head: LabelTask = "classes"  # classes or tags, as corpus.labels of the shards
    pooling: PoolingName = "mean"  # of classes


@dataclass
class RecurrentHeadConfig:
    """Sizes and switches."""

    architecture: Literal["recurrent_head"] = "recurrent_head"
    name: str = "classifier_recurrent"
    cell: CellName = "lstm"
    embedding: Count = 256
    width: Count = 256  # of a direction's state
    layers: Count = 1
    both_directions: bool = True  # read from both ends; false: forwards only, as a language model does
    dropout: Part = 0.3
    head: LabelTask = "classes"
    pooling: PoolingName = "attention"


class Head(Network):
    """The interface of both networks, and what they share: `encode`, pooling and the output layer."""

    head: LabelTask
    pooling: PoolingName

    def make_head(self, head: LabelTask, pooling: PoolingName, width: int, labels: int) -> None:
        """Creates the output layer; `labels`: the size of the label vocabulary, with special ids."""
        self.head, self.pooling = head, pooling
        self.pool = AttentionPooling(width) if head != "tags" and pooling == "attention" else None
        self.output = table(nn.Linear(width, labels - FIRST))

    def encode(self, ids: Tensor) -> Tensor:
        """ids (B, T), PAD after the real tokens -> states (B, T, D)."""
        raise NotImplementedError

    def whole(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """ids (B, T) -> states (B, P + T, D) with those of a prefix, and which are of real tokens."""
        return self.encode(ids), ids != PAD

    def pooled(self, states: Tensor, real: Tensor) -> Tensor:
        """states (B, T, D), real (B, T) -> (B, D)."""
        if self.pool is not None:
            return self.pool(states, real)  # type: ignore[no-any-return]  # modules' calls are untyped
        return states[:, 0] if self.pooling == "first" else mean_of_real(states, real).to(states.dtype)

    def forward(self, batch: TextBatch) -> Tensor:
        """-> states (B, P, D) that the output layer turns into scores of the labels."""
        return self.read(batch.inputs)

    def read(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> states (B, P, D): of every position for tags, of the whole text otherwise."""
        return self.encode(ids) if self.head == "tags" else self.pooled(*self.whole(ids))[:, None]

    def sentence(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> (B, D): the vector that a text's label is read from; for tags the mean of the states."""
        return self.pooled(*self.whole(ids)).float()


class TransformerHead(TokenEncoder, Head):
    """BERT's stack with a head; its table, positions, layers and norm have the names that `bert` gives them."""

    def __init__(self, config: TransformerHeadConfig, vocabulary: int, labels: int) -> None:
        super().__init__()
        self.config = config
        self.make_stack(config, vocabulary)
        self.make_head(config.head, config.pooling, config.width, labels)
        initialise(self)

    def sentence(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> (B, D)."""
        return Head.sentence(self, ids)


class RecurrentHead(Head):
    """An embedding, recurrent layers in one or both directions, and a head."""

    def __init__(self, config: RecurrentHeadConfig, vocabulary: int, labels: int) -> None:
        super().__init__()
        check_ranges("model", config)
        self.config = config
        direction: Literal["both", "forward"] = "both" if config.both_directions else "forward"
        self.embedding = nn.Embedding(vocabulary, config.embedding, padding_idx=PAD)
        self.encoder = Recurrent(config.cell, config.embedding, config.width, config.layers, config.dropout, direction)
        self.dropout = Dropout(config.dropout)
        self.make_head(config.head, config.pooling, config.width * self.encoder.directions, labels)
        nn.init.normal_(self.embedding.weight, std=config.embedding**-0.5)
        nn.init.zeros_(self.embedding.weight[PAD])
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def layer_states(self, ids: Tensor) -> list[Tensor]:
        """ids (B, T) -> the embeddings (B, T, E) and each layer's states (B, T, D)."""
        x = self.embedding(ids) * math.sqrt(self.config.embedding)
        states = [x]
        self.encoder(x, real=ids != PAD, states=states)
        return states

    def encode(self, ids: Tensor) -> Tensor:
        """ids (B, T), PAD after the real tokens -> states (B, T, D): forwards beside backwards."""
        x = self.dropout(self.embedding(ids) * math.sqrt(self.config.embedding))  # (B, T, E)
        states, _ = self.encoder(x, real=ids != PAD)
        return self.dropout(states)  # type: ignore[no-any-return]  # modules' calls are untyped


def head_loss(network: Head, batch: TextBatch, config: LossConfig) -> tuple[Tensor, Tensor]:
    """Returns (loss, nll), summed over the `batch.items` labels; targets (B, P), PAD where there is none."""
    states = network(batch)  # (B, P, D)
    targets = batch.targets[:, : states.shape[1]].flatten()  # a batch may be padded to a length
    labelled = (targets != PAD).nonzero()[:, 0]  # (N,)
    chosen = states.flatten(0, 1).index_select(0, labelled)
    return vocabulary_loss(chosen, targets.index_select(0, labelled) - FIRST, network.output, config.label_smoothing)


def probabilities(network: Head, ids: Tensor) -> Tensor:
    """ids (B, T) -> (B, P, C) float32: probabilities of the labels."""
    return torch.softmax(network.logits(network.read(ids)).float(), -1)


RECURRENT_HEAD = Architecture(RecurrentHeadConfig, RecurrentHead, head_loss, "labels")
TRANSFORMER_HEAD = Architecture(TransformerHeadConfig, TransformerHead, head_loss, "labels")
