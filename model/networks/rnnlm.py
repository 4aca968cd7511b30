"""Recurrent language models (Mikolov et al. 2010; Graves 2013; Zaremba et al. 2014).

    h_t = f(E x_t, h_{t-1}),    P(x_{t+1} | x_1 ... x_t) = softmax(V h_t + b)

with f a vanilla RNN, an LSTM or a GRU of several layers. Training cuts the text into windows. A window starts from the
last states of the previous one, and gradients stop at its beginning (truncated back-propagation through time, Williams
and Peng 1990; Mikolov et al. 2010).

Letters: B rows, T positions, E embedding width, W width of a state, L layers, P parts of a state (1; LSTM 2: hidden
state and cell), V vocabulary.

Attention of a recurrent network to its own earlier states (Cheng et al. 2016; Daniluk et al. 2017).

Each state h_t attends to the M states before it, and the two are joined as in Luong et al. 2015, equation 5:

    c_t = attention(h_t; h_{t-M} ... h_{t-1}),    h'_t = tanh(W [c_t; h_t])

The first state of a text has nothing to attend to, and gets zeros (model/layers/attention.py).

Letters: B batch, T positions, M earlier states, W width of a state.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.model.layers.attention import MASKED, attend, split_heads
from dragoman.model.layers.cells import CellName
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.recurrent import Recurrent
from dragoman.model.layers.roles import packed, table
from dragoman.model.layers.state_space import last_of
from dragoman.model.networks.language_network import EVALUATION, LanguageNetwork, language_loss, one_vocabulary
from dragoman.model.networks.network import Architecture, State
from dragoman.model.ranges import Count, Part, Whole, check_ranges
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import PAD


class PastAttention(nn.Module):
    """One head of scaled dot products over the last M states, which are its memory."""

    def __init__(self, width: int, past: int, dropout: float) -> None:
        super().__init__()
        self.past = past
        self.q = nn.Linear(width, width)
        self.kv = packed(nn.Linear(width, 2 * width), [width] * 2)
        self.join = nn.Linear(2 * width, width)
        self.dropout = Dropout(dropout)
        for product in (self.q, self.kv, self.join):
            nn.init.xavier_uniform_(product.weight)
            nn.init.zeros_(product.bias)

    def start(self, rows: int, device: torch.device) -> Tensor:
        """Returns the memory (B, M, W + 1) before the first state: zeros. The last column is 1 where a state is."""
        weight = self.q.weight
        return torch.zeros(rows, self.past, len(weight) + 1, device=device, dtype=weight.dtype)

    def forward(self, hidden: Tensor, memory: Tensor, real: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """hidden (B, T, W) after `memory` -> (B, T, W) and the memory after the last real position; padding, where
        `real` (B, T) is False, comes last."""
        length = hidden.shape[1]
        line = torch.cat([memory, nn.functional.pad(hidden.to(memory.dtype), (0, 1), value=1.0)], 1)  # (B, M + T, W+1)
        (q,) = split_heads(self.q(hidden), 1, 1)  # (B, 1, T, W)
        k, v = split_heads(self.kv(line[..., :-1]), 2, 1)  # (B, 1, M + T, W)
        bias = past_bias(line[..., -1] > 0, length)
        seen = attend(q, k, v, bias, self.dropout)[:, 0]  # (B, T, W)
        joined = torch.tanh(self.join(torch.cat([seen, hidden.to(seen.dtype)], -1)))
        if real is None:
            return joined, line[:, length:]
        return joined, last_of(line.transpose(1, 2), real, self.past).transpose(1, 2)


def past_bias(filled: Tensor, length: int) -> Tensor:
    """filled (B, M + T) -> (B, 1, T, M + T): position t, at M + t, sees the filled ones among the M before it."""
    past = filled.shape[1] - length
    band = torch.ones(length, past + length, dtype=torch.bool, device=filled.device)
    seen = band.triu() & band.tril(past - 1) & filled[:, None]  # (B, T, M + T)
    return torch.zeros(seen.shape, device=filled.device).masked_fill_(~seen, MASKED)[:, None]


@dataclass
class RecurrentLanguageConfig:
    """Sizes and switches; the defaults suit a corpus of a few million subwords."""

    architecture: Literal["rnnlm"] = "rnnlm"
    name: str = "rnnlm_lstm"
    cell: CellName = "lstm"
    embedding: Count = 512
    width: Count = 512  # of each layer's state
    layers: Count = 2
    dropout: Part = 0.3  # of embeddings, between layers, before the output; never between steps
    tie: bool = True  # the output layer's weights are the embedding table's (Press and Wolf 2017)
    past: Whole = 0  # the last layer's earlier states that each state attends to (`PastAttention`); 0: none


class RecurrentLanguage(LanguageNetwork):
    """Embedding, recurrent layers, output layer; tied tables of another width than the state add a product."""

    max_positions = None

    def __init__(self, config: RecurrentLanguageConfig, vocabulary: int) -> None:
        super().__init__()
        check_ranges("model", config)
        self.config = config
        narrowed = config.tie and config.embedding != config.width
        self.embedding = nn.Embedding(vocabulary, config.embedding, padding_idx=PAD)
        self.recurrent = Recurrent(config.cell, config.embedding, config.width, config.layers, config.dropout)
        self.readout = nn.Linear(config.width, config.embedding, bias=False) if narrowed else nn.Identity()
        self.output = table(nn.Linear(config.embedding if config.tie else config.width, vocabulary))
        self.attention = PastAttention(config.width, config.past, config.dropout) if config.past else None
        self.dropout = Dropout(config.dropout)
        self._initialise()

    def _initialise(self) -> None:
        """Glorot for products, N(0, 1/E) for the table, which `_embed` scales by sqrt(E) to unit variance."""
        nn.init.normal_(self.embedding.weight, std=self.config.embedding**-0.5)
        nn.init.zeros_(self.embedding.weight[PAD])
        nn.init.zeros_(self.output.bias)
        if isinstance(self.readout, nn.Linear):
            nn.init.xavier_uniform_(self.readout.weight)
        if self.config.tie:
            self.output.weight = self.embedding.weight
        else:
            nn.init.xavier_uniform_(self.output.weight)

    def forward(self, batch: TextBatch) -> Tensor:
        """-> (B, T, E) if the tables are tied, else (B, T, W); carries the last states on."""
        lane = batch.lane if self.training else EVALUATION
        rows, device = len(batch.inputs), batch.inputs.device
        state = {"hidden": self.carried_state(lane, rows)} if batch.goes_on else self.start(rows, device)
        real = None if batch.items == batch.inputs.numel() else batch.inputs != PAD  # (B, T)
        states, last = self._advance(batch.inputs, state["hidden"], real)
        self.carried[lane] = last.detach()
        return states

    def layer_states(self, ids: Tensor) -> list[Tensor]:
        """ids (B, T) -> the embeddings (B, T, E) and each layer's states (B, T, W), after attention."""
        states: list[Tensor] = []
        self._advance(ids, self.start(len(ids), ids.device)["hidden"], ids != PAD, states)
        return states

    def start(self, rows: int, device: torch.device) -> State:
        """Returns zeros: nothing has been read."""
        hidden = self.recurrent.start(rows, device)
        if self.attention is None:
            return {"hidden": hidden}
        memory = self.attention.start(rows, device)
        return {"hidden": torch.cat([hidden.flatten(1), memory.flatten(1)], 1)}

    def read(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B, T) in one call -> logits (B, V) after the last."""
        states, last = self._advance(tokens, state["hidden"], None)
        return self.logits(states[:, -1]), {"hidden": last}

    def _advance(
        self, tokens: Tensor, state: Tensor, real: Tensor | None, states: list[Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """tokens (B, T) after state (B, L, P, W) -> the output layer's input (B, T, E or W), and the new state.

        With attention to earlier states their memory follows in the state, which then is (B, L P W + M (W + 1)).
        `states` gets the embeddings and each layer's states.
        """
        x = self.dropout(self.embedding(tokens) * math.sqrt(self.config.embedding))  # (B, T, E)
        if states is not None:
            states.append(x)
        if self.attention is None:
            hidden, last = self.recurrent(x, state, real, states)
            return self.readout(self.dropout(hidden)), last
        first = self.recurrent.start(len(tokens), tokens.device)
        size = first[0].numel()
        own, memory = torch.split(state, [size, state.shape[1] - size], 1)
        hidden, last = self.recurrent(x, own.view_as(first), real, states)
        hidden, memory = self.attention(hidden, memory.view(len(tokens), self.config.past, -1), real)
        if states is not None:
            states[-1] = hidden
        return self.readout(self.dropout(hidden)), torch.cat([last.flatten(1), memory.flatten(1)], 1)


RNNLM = Architecture(RecurrentLanguageConfig, one_vocabulary(RecurrentLanguage), language_loss, "language")
