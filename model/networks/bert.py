"""The encoder-only Transformer that predicts masked tokens (Devlin et al. 2019, BERT).

Every position sees all real ones. The loader masks some of the input tokens; the states at their positions pass one
more layer, the head, and the output layer predicts the tokens. The states below the head represent the text: their mean
over the real tokens is its sentence vector (Reimers and Gurevych 2019).

Letters: B rows, T positions, H heads, D width, V vocabulary.
"""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.layers.attention import padding_bias
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.positions import Positions
from dragoman.model.layers.roles import table
from dragoman.model.layers.transformer_layers import (
    EncoderLayer,
    NormPlace,
    StackConfig,
    check_layers,
    embed,
    last_norm,
    make_norm,
)
from dragoman.model.networks.language_network import language_loss, one_vocabulary
from dragoman.model.networks.network import Architecture, Network, after_prefix, initialise, mean_of_real
from dragoman.model.ranges import Count, Whole
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import PAD


@dataclass
class EncoderConfig(StackConfig):
    """Settings that all encoders have."""

    prefix: list[Whole] = field(default_factory=list)  # ids before every text, such as BERT's [CLS]


@dataclass
class EncoderOnlyConfig(EncoderConfig):
    """Sizes and switches; the defaults are BERT's base model."""

    architecture: Literal["bert"] = "bert"
    name: str = "bert_base"
    norm: NormPlace = "post"
    max_positions: Count = 512  # tokens, with the end of sentence


class TokenEncoder(Network):
    """A stack with one table, in which every position sees all real ones; its subclasses add what they predict."""

    def make_stack(self, config: EncoderConfig, vocabulary: int) -> None:
        """Creates table, positions and layers."""
        check_layers(config)
        if any(not 0 < number < vocabulary for number in config.prefix) or len(config.prefix) >= config.max_positions:
            raise UserError(
                f"model.prefix={config.prefix}: ids above 0 and below the vocabulary of {vocabulary}, fewer than "
                f"model.max_positions={config.max_positions}"
            )
        self.prefix = config.prefix
        self.max_positions = config.max_positions - len(config.prefix)
        self.embedding = nn.Embedding(vocabulary, config.width, padding_idx=PAD)
        self.positions = Positions(config)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.norm = last_norm(config)

    def encode(self, ids: Tensor) -> Tensor:
        """ids (B, T), PAD after the real tokens -> states below the head (B, T, D)."""
        return self.whole(ids)[0][:, len(self.prefix) :]

    def whole(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """ids (B, T) -> states (B, P + T, D) with those of the prefix, and which are of real tokens."""
        return self._encode(ids, None), after_prefix(self.prefix, ids) != PAD

    def sentence(self, ids: Tensor) -> Tensor:
        """ids (B, T), PAD after the real tokens -> (B, D): the mean of the states at real tokens, 0 without any."""
        return mean_of_real(*self.whole(ids))

    def layer_states(self, ids: Tensor) -> list[Tensor]:
        """ids (B, T) -> 1 + L states (B, T, D)."""
        states: list[Tensor] = []
        last = self._encode(ids, None, states)
        return [layer[:, len(self.prefix) :] for layer in (*states, last)]

    def attention_maps(self, batch: TextBatch) -> dict[str, Tensor]:
        """Returns `encoder.0` (B, H, T, T) and so on."""
        record: list[Tensor] = []
        self._encode(batch.inputs, record)
        first = len(self.prefix)
        return {f"encoder.{i}": weights[..., first:, first:] for i, weights in enumerate(record)}

    def _encode(self, ids: Tensor, record: list[Tensor] | None, states: list[Tensor] | None = None) -> Tensor:
        """ids (B, T) -> states (B, P + T, D), with those of the prefix; `states` gets each layer's input."""
        ids = after_prefix(self.prefix, ids)
        bias = padding_bias(ids != PAD)
        x = embed(ids, self.embedding, self.positions, self.dropout)
        rotation = self.positions.rotation(ids.shape[1])
        for layer in self.layers:
            if states is not None:
                states.append(x)
            x, _ = layer(x, None, bias, record, rotation)
        return self.norm(x)  # type: ignore[no-any-return]  # modules' calls are untyped


class EncoderOnly(TokenEncoder):
    """The stack, and the head that predicts masked tokens."""

    def __init__(self, config: EncoderOnlyConfig, vocabulary: int) -> None:
        super().__init__()
        check_layers(config)
        self.config = config
        self.output = table(nn.Linear(config.width, vocabulary))
        self.make_stack(config, vocabulary)
        self.head = nn.Linear(config.width, config.width)
        self.head_norm = make_norm(config)
        initialise(self)
        if config.tie:
            self.output.weight = self.embedding.weight

    def forward(self, batch: TextBatch) -> Tensor:
        """-> states (B, T, D) that the output layer turns into logits of the tokens behind the masks."""
        return self.guess(self.encode(batch.inputs))

    def guess(self, states: Tensor) -> Tensor:
        """states (B, T, D) of `encode` -> (B, T, D), which the output layer turns into logits."""
        return self.head_norm(nn.functional.gelu(self.head(states)))  # type: ignore[no-any-return]  # modules' calls are untyped


BERT = Architecture(EncoderOnlyConfig, one_vocabulary(EncoderOnly), language_loss, "masked")
