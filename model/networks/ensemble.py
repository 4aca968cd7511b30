"""Several translation networks with one vocabulary, decoded as one: the mean of their probabilities at every step.

Letters: N networks, B batch, S source length, V target vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from dragoman.model.networks.network import Memory, State, TranslationNetwork
from dragoman.model.text.batch import TranslationBatch


@dataclass
class EnsembleMemory(Memory):
    """The encoders' outputs for their decoders; `states` and `real` are those of the first."""

    parts: tuple[Memory, ...]


class Ensemble(TranslationNetwork):
    """p(y) = 1/N sum_n p_n(y) for each next token (Sutskever et al. 2014, section 3.6, decode an ensemble so).

    Its logits are the logarithms of those means. It only decodes and is never trained: there is no `forward`.
    """

    def __init__(self, networks: Sequence[TranslationNetwork]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.train(any(network.training for network in networks))  # a new module would train them all
        self.max_source_positions = min(network.max_source_positions for network in networks)
        self.max_target_positions = min(network.max_target_positions for network in networks)

    @property
    def members(self) -> "list[TranslationNetwork]":
        """Returns `networks` with its type, which nn.ModuleList loses."""
        return cast("list[TranslationNetwork]", list(self.networks))

    def forward(self, batch: TranslationBatch) -> Tensor:
        """Raises TypeError: the members' states have no common output layer."""
        raise TypeError("an ensemble is searched, not trained: ask its networks one by one")

    def encode(self, source: Tensor) -> EnsembleMemory:
        """source (B, S) -> each member's memory."""
        parts = tuple(network.encode(source) for network in self.members)
        return EnsembleMemory(parts[0].states, parts[0].real, parts)

    def start(self, memory: Memory, max_steps: int) -> State:
        """Returns the members' states side by side; each name starts with its member's number."""
        assert isinstance(memory, EnsembleMemory), "from our own `encode`"
        states = (network.start(part, max_steps) for network, part in zip(self.members, memory.parts, strict=True))
        return {f"{i}/{name}": value for i, state in enumerate(states) for name, value in state.items()}

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B,) -> the logarithm of the mean probability (B, V), in float32."""
        states: list[Tensor] = []
        after: State = {}
        for i, network in enumerate(self.members):
            logits, grown = network.step(tokens, self._part(state, i))
            states.append(logits.float().log_softmax(-1))
            after |= {f"{i}/{name}": value for name, value in grown.items()}
        return torch.stack(states).logsumexp(0) - math.log(len(states)), after

    def reorder(self, state: State, rows: Tensor) -> State:
        """Reorders each member's part in its own way."""
        parts = (network.reorder(self._part(state, i), rows) for i, network in enumerate(self.members))
        return {f"{i}/{name}": value for i, part in enumerate(parts) for name, value in part.items()}

    def _part(self, state: State, member: int) -> State:
        prefix = f"{member}/"
        return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
