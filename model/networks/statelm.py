"""Language models whose layers keep a state of a fixed size, where softmax attention keeps every earlier position.

A stack like GPT's, with another layer in the place of attention:

    linear      linear attention (Katharopoulos et al. 2020; model/layers/linear_attention.py). It adds all that it has
                read and forgets nothing, so it reads windows of `max_positions` tokens, with positions added.
    selective   a selective state-space layer (Gu and Dao 2023; model/layers/state_space.py). It forgets, so it carries
                its state from window to window as a recurrent network does, and reads texts of any length.

Letters: B rows, T positions, L layers, D width, V vocabulary; a layer's state (B, ...) has its own shape.
"""

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.linear_attention import LinearAttention
from dragoman.model.layers.positions import sinusoids
from dragoman.model.layers.roles import table
from dragoman.model.layers.state_space import StateSpace
from dragoman.model.layers.transformer_layers import Activation, FeedForward, NormKind, NormPlace, Sublayer, last_norm
from dragoman.model.networks.language_network import EVALUATION, LanguageNetwork, language_loss, one_vocabulary
from dragoman.model.networks.network import Architecture, State, initialise
from dragoman.model.ranges import Count, Part, Positive, check_ranges
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import PAD

Mixer = Literal["linear", "selective"]


@dataclass
class StateLanguageConfig:
    """Sizes and switches; the defaults are small enough for a laptop."""

    architecture: Literal["statelm"] = "statelm"
    name: str = "statelm_linear"
    mixer: Mixer = "linear"
    width: Count = 128
    feed_forward: Count = 512
    layers: Count = 4
    dropout: Part = 0.1
    norm: NormPlace = "pre"
    norm_kind: NormKind = "layer"
    activation: Activation = "gelu"
    activation_dropout: Part | None = None  # dropout of the feed-forward layers' inner states; None: as `dropout`
    norm_epsilon: Positive | None = None  # added to a normalisation's variance; None: 1e-5, rms 1e-6
    heads: Count = 4  # linear
    max_positions: Count = 256  # linear: tokens that are seen at a time
    states: Count = 16  # selective: of each channel
    convolution: Count = 4  # selective: tokens that the layer's convolution sees
    tie: bool = True  # the output layer's weights are the embedding table's


class StateLayer(nn.Module):
    """The mixer, then feed-forward."""

    def __init__(self, config: StateLanguageConfig) -> None:
        super().__init__()
        self.mixer = make_mixer(config)
        self.mixer_sublayer = Sublayer(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_sublayer = Sublayer(config)

    def forward(self, x: Tensor, state: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (B, T, D) after `state` -> (B, T, D) and the new state."""
        change, state = self.mixer(self.mixer_sublayer.before(x), state, real)
        x = self.mixer_sublayer.after(x, change)
        return self.feed_forward_sublayer.after(x, self.feed_forward(self.feed_forward_sublayer.before(x))), state


def make_mixer(config: StateLanguageConfig) -> LinearAttention | StateSpace:
    """Returns the layer in attention's place."""
    if config.mixer == "linear":
        return LinearAttention(config.width, config.heads, config.dropout)
    return StateSpace(config.width, config.states, config.convolution)


class StateLanguage(LanguageNetwork):
    """One stack with one table."""

    def __init__(self, config: StateLanguageConfig, vocabulary: int) -> None:
        super().__init__()
        check_ranges("model", config)
        if config.mixer == "linear" and (config.width % config.heads or config.width % 2):
            raise UserError(f"model.width={config.width}: must be even and a multiple of model.heads={config.heads}")
        self.config = config
        self.max_positions = config.max_positions if config.mixer == "linear" else None
        self.output = table(nn.Linear(config.width, vocabulary, bias=False))
        self.embedding = nn.Embedding(vocabulary, config.width, padding_idx=PAD)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(StateLayer(config) for _ in range(config.layers))
        self.norm = last_norm(config)
        self.register_buffer("positions", sinusoids(self.max_positions or 0, config.width), persistent=False)
        initialise(self)
        for layer in self.layers:
            mixer = cast("StateLayer", layer).mixer
            if isinstance(mixer, StateSpace):
                mixer.initialise()
        if config.tie:
            self.output.weight = self.embedding.weight

    def forward(self, batch: TextBatch) -> Tensor:
        """-> states (B, T, D); the selective layers carry their last states on."""
        rows, device = len(batch.inputs), batch.inputs.device
        if self.max_positions is not None:
            return self._advance(batch.inputs, self.start(rows, device), None)
        lane = batch.lane if self.training else EVALUATION
        state = {"states": self.carried_state(lane, rows)} if batch.goes_on else self.start(rows, device)
        real = None if batch.items == batch.inputs.numel() else batch.inputs != PAD  # (B, T)
        states = self._advance(batch.inputs, state, real)
        self.carried[lane] = state["states"].detach()
        return states

    def layer_states(self, ids: Tensor) -> list[Tensor]:
        """ids (B, T) -> 1 + L states (B, T, D)."""
        states: list[Tensor] = []
        last = self._advance(ids, self.start(len(ids), ids.device), ids != PAD, states)
        return [*states, last]

    def start(self, rows: int, device: torch.device) -> State:
        """Returns zeros: nothing has been read."""
        first = [cast("StateLayer", layer).mixer.start(rows, device) for layer in self.layers]
        return {"states": torch.stack(first, 1), "read": torch.zeros(rows, dtype=torch.int64, device=device)}

    def read(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B, T) in one call -> logits (B, V) after the last."""
        state = dict(state)
        return self.logits(self._advance(tokens, state, None)[:, -1]), state

    def _advance(self, tokens: Tensor, state: State, real: Tensor | None, states: list[Tensor] | None = None) -> Tensor:
        """tokens (B, T) after those of `state` -> their states (B, T, D); moves `state` on.

        `states` gets each layer's input.
        """
        x = self.embedding(tokens) * math.sqrt(self.config.width)
        if self.max_positions is not None:
            at = int(state["read"][0]) if len(tokens) else 0
            end = at + tokens.shape[1]
            if end > self.max_positions:
                raise UserError(f"a text of {end} tokens is longer than model.max_positions={self.max_positions}")
            x = x + self.positions[at:end]  # type: ignore[index]  # a buffer
            state["read"] = state["read"] + tokens.shape[1]
        if torch.is_autocast_enabled(x.device.type):  # the residual stream in one type, as in transformer_layers.embed
            x = x.to(torch.get_autocast_dtype(x.device.type))
        x = self.dropout(x)
        after = []
        for layer, before in zip(self.layers, state["states"].unbind(1), strict=True):
            if states is not None:
                states.append(x)
            x, last = layer(x, before, real)
            after.append(last)
        state["states"] = torch.stack(after, 1)  # (B, L, ...)
        return self.norm(x)  # type: ignore[no-any-return]  # modules' calls are untyped


STATELM = Architecture(StateLanguageConfig, one_vocabulary(StateLanguage), language_loss, "language")
