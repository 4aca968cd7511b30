"""Text generation: samples one token at a time from a language model and keeps its state between steps.

Each row depends only on its own prompt, seed and number, so a batch gives the same texts as each prompt alone.

Letters: B rows, T tokens that all rows have read, V vocabulary.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dragoman.model.networks.language_network import BEFORE, LanguageNetwork
from dragoman.model.networks.network import State, evaluating
from dragoman.model.settings import GenerateConfig
from dragoman.model.text.normalise import normalise
from dragoman.model.text.tokenizer import BOS, EOS, MASK, PAD, SEP, UNK, Tokenizer

NEVER = (PAD, UNK, BOS, MASK, SEP)  # ids that are never drawn
ROWS = 64  # of a batch


def candidates(logits: Tensor, temperature: float, top_k: int = 0, top_p: float = 1.0) -> tuple[Tensor, Tensor]:
    """logits (B, V) -> ids and probabilities, both (B, V), likeliest first; excluded tokens have probability 0.

    In this order: softmax(z / temperature) with temperature > 0; then the `top_k` likeliest (Fan et al. 2018; 0: all),
    renormalised to sum to one; then the smallest set of likeliest tokens that reaches `top_p` (nucleus sampling,
    Holtzman et al. 2020, section 3.1; at least one). Among equally likely tokens the lower id comes first.
    """
    values, ids = logits.double().sort(dim=1, descending=True, stable=True)
    probabilities = torch.softmax((values - values[:, :1]) / temperature, 1)
    if 0 < top_k < probabilities.shape[1]:
        probabilities[:, top_k:] = 0.0
        probabilities /= probabilities.sum(1, keepdim=True)
    if top_p < 1.0:
        before = probabilities.cumsum(1) - probabilities  # the mass of all likelier tokens
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    return ids, probabilities / probabilities.sum(1, keepdim=True)


def draw(ids: Tensor, probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Samples one id per row (B,), by inverting the cumulative distribution at `uniform` (B,) from [0, 1)."""
    cumulative = probabilities.cumsum(1)
    places = torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:], right=True)
    last = (probabilities > 0).sum(1, keepdim=True) - 1  # a product that was rounded up stays within the candidates
    return ids.gather(1, places.minimum(last))[:, 0]


@dataclass(frozen=True)
class Generated:
    """One continuation of a prompt."""

    text: str  # without the prompt
    log_probability: float  # natural logarithm, of the network itself, without temperature, top-k and top-p
    ended: bool  # the text ended by itself, not by max_tokens
    tokens: int  # an end of line counts as one


@dataclass(frozen=True)
class Prompt:
    """A prompt as the network reads it."""

    ids: tuple[int, ...]  # BEFORE, and lines with EOS between them
    line: tuple[int, ...]  # the ids of its last line
    spaced: bool  # the prompt ends with a space that the ids do not contain

    @property
    def unknown(self) -> int:
        """Returns the number of tokens that are not in the vocabulary."""
        return self.ids.count(UNK)


class Token(NamedTuple):
    """A token sampled for a row."""

    row: int
    id: int
    log_probability: float


def generate(
    network: LanguageNetwork, tokenizer: Tokenizer, prompts: Sequence[str], config: GenerateConfig, form: str = "NFC"
) -> list[list[Generated]]:
    """Returns the `samples` continuations of each prompt, in order.

    A prompt may be empty (a new text begins), have several lines, or exceed the network's positions (only its end is
    read). `form` is the Unicode normalisation of the network's shards. The same prompt and seed give the same texts.

    Raises FloatingPointError: the network's output is not a number (its weights are broken).
    """
    config.check()
    read = [read_prompt(tokenizer, prompt, form) for prompt in prompts]
    rows = [(place, sample) for place in range(len(read)) for sample in range(config.samples)]
    rows.sort(key=lambda row: len(read[row[0]].ids))
    generated: list[list[Generated | None]] = [[None] * config.samples for _ in read]
    for start in range(0, len(rows), ROWS):
        group = rows[start : start + ROWS]
        drawn: list[list[Token]] = [[] for _ in group]
        for tokens in continue_prompts(network, [read[place].ids for place, _ in group], [s for _, s in group], config):
            for token in tokens:
                drawn[token.row].append(token)
        for (place, sample), tokens in zip(group, drawn, strict=True):
            generated[place][sample] = make_continuation(tokenizer, read[place], tokens, config.lines)
    return [[text for text in texts if text is not None] for texts in generated]


def read_prompt(tokenizer: Tokenizer, text: str, form: str = "NFC") -> Prompt:
    """Returns the ids of a prompt. Encodes its lines one by one, as in the shards.

    Keeps a space at the end if spaces are tokens: "to " then means that the next word begins.
    """
    lines = [normalise(line, form) for line in text.split("\n")]
    spaced = text.endswith(" ") and bool(lines[-1])
    if spaced and tokenizer.type == "characters":
        lines[-1] += " "
        spaced = False
    rows = [tuple(map(int, row)) for row in tokenizer.encode(lines)]
    ids = [BEFORE, *rows[0]]
    for row in rows[1:]:
        ids += [EOS, *row]
    return Prompt(tuple(ids), rows[-1], spaced)


def make_continuation(tokenizer: Tokenizer, prompt: Prompt, tokens: Sequence[Token], lines: int) -> Generated:
    """Returns the continuation that was sampled for one row."""
    ids = [token.id for token in tokens]
    ended = lines > 0 and ids.count(EOS) == lines
    text = decode_continuation(tokenizer, prompt, ids[:-1] if ended else ids)
    return Generated(text, math.fsum(token.log_probability for token in tokens), ended, len(tokens))


def decode_continuation(tokenizer: Tokenizer, prompt: Prompt, ids: Sequence[int]) -> str:
    """Returns the text of ids that continue a prompt, with the space between the two words; EOS ends a line."""
    rows: list[list[int]] = [[]]
    for token in ids:
        if token == EOS:
            rows.append([])
        else:
            rows[-1].append(token)
    head, whole, *others = tokenizer.decode([prompt.line, [*prompt.line, *rows[0]], *rows[1:]])
    pairs = enumerate(zip(head, whole, strict=False))
    begin = whole[next((place for place, (left, other) in pairs if left != other), min(len(head), len(whole))) :]
    return "\n".join([begin.removeprefix(" ") if prompt.spaced else begin, *others])


def continue_prompts(
    network: LanguageNetwork, prompts: Sequence[Sequence[int]], samples: Sequence[int], config: GenerateConfig
) -> Iterator[list[Token]]:
    """Yields the tokens of all rows step by step, until every row has ended.

    prompts: B rows of ids that begin with BEFORE; samples: each row's number among those of its prompt, from 0.

    Raises FloatingPointError: the network's output is not a number.
    """
    with evaluating(network):
        run = Run(network, prompts, samples, config)
        while run.rows:
            yield run.step()


class Run:
    """Rows that advance together. Some may still read their prompts while others already write.

    A network with limited positions rereads the last half of them whenever they are used up.
    """

    def __init__(
        self, network: LanguageNetwork, prompts: Sequence[Sequence[int]], samples: Sequence[int], config: GenerateConfig
    ) -> None:
        self.network, self.config = network, config
        self.most = network.max_positions
        self.prompts = [list(ids)[-self.most :] if self.most else list(ids) for ids in prompts]
        self.draws = [
            np.random.default_rng([config.seed, sample, zlib.crc32(np.asarray(ids, "<i8").tobytes())])
            for ids, sample in zip(prompts, samples, strict=True)
        ]
        self.rows = list(range(len(prompts)))  # rows that have not ended
        self.drawn = [0] * len(prompts)
        self.ends = [0] * len(prompts)
        self.device = next(network.parameters()).device
        self.logits, self.state = Tensor(), State()
        common = min(map(len, self.prompts), default=0)
        self.fed = common  # tokens that every row has read, of its prompt and beyond
        self.window = torch.tensor([ids[:common] for ids in self.prompts], dtype=torch.int64, device=self.device)
        if self.rows:
            self._read()

    def step(self) -> list[Token]:
        """Advances every row by one token and returns the sampled ones; drops rows that have ended."""
        with torch.inference_mode():
            chosen, log_probabilities = self._choose()
            tokens: list[Token] = []
            kept = []
            for place, row in enumerate(self.rows):
                if self.fed < len(self.prompts[row]):
                    kept.append(place)
                    continue
                token = Token(row, chosen[place], log_probabilities[place])
                tokens.append(token)
                self.drawn[row] += 1
                self.ends[row] += token.id == EOS
                over = self.drawn[row] == self.config.max_tokens or 0 < self.config.lines == self.ends[row]
                if not over:
                    kept.append(place)
            feed = [chosen[place] for place in kept]
            if len(kept) < len(self.rows):
                places = torch.tensor(kept, dtype=torch.int64, device=self.device)
                self.state = self.network.reorder(self.state, places)
                self.window = self.window.index_select(0, places)
                self.rows = [self.rows[place] for place in kept]
            if self.rows:
                self._feed(torch.tensor(feed, dtype=torch.int64, device=self.device))
        return tokens

    def _choose(self) -> tuple[list[int], list[float]]:
        """Returns the next token of each row (from its prompt while that lasts) and its log-probability."""
        logits = self.logits.float()
        if not torch.isfinite(logits).all():
            raise FloatingPointError("the network's output is not a number")
        allowed = logits.index_fill(1, torch.tensor(NEVER, device=self.device), -torch.inf)
        writing = [self.fed >= len(self.prompts[row]) for row in self.rows]
        if self.config.temperature == 0.0:
            picks = allowed.argmax(1)
        else:
            uniform = [
                self.draws[row].random() if writes else 0.0 for row, writes in zip(self.rows, writing, strict=True)
            ]
            ranked = candidates(allowed, self.config.temperature, self.config.top_k, self.config.top_p)
            picks = draw(*ranked, torch.tensor(uniform, dtype=torch.float64, device=self.device))
        log_probabilities = torch.log_softmax(logits, 1).gather(1, picks[:, None])[:, 0].tolist()
        drawn = picks.tolist()
        chosen = [
            drawn[place] if writing[place] else self.prompts[row][self.fed] for place, row in enumerate(self.rows)
        ]
        return chosen, log_probabilities

    def _feed(self, tokens: Tensor) -> None:
        """Feeds each row its token (B,)."""
        self.fed += 1
        if self.most is not None:
            self.window = torch.cat([self.window, tokens[:, None]], 1)
            if self.window.shape[1] > self.most:
                self.window = self.window[:, -max(1, self.most // 2) :]
                self._read()
                return
        self.logits, self.state = self.network.step(tokens, self.state)

    def _read(self) -> None:
        """Feeds all rows the window (B, T) from the beginning."""
        with torch.inference_mode():
            state = self.network.start(len(self.window), self.device)
            self.logits, self.state = self.network.read(self.window, state)
