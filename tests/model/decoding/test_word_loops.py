"""Loops of subwords within a word: what is one, what would close one, and a search that is kept out of them."""

import itertools
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.model.decoding.search import decode
from dragoman.model.decoding.word_loops import LONGEST, WordLoops
from dragoman.model.networks.network import Memory, State, TranslationNetwork
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import EOS, PAD, SPECIAL_PIECES

PIECES = [*SPECIAL_PIECES, "▁B", "il", "ist", "▁sehr", "f", "00", "▁", "en", "t"]
IDS = {piece: number for number, piece in enumerate(PIECES)}


def loops(most: int = 2, kind: str = "bpe") -> WordLoops:
    tokenizer: Any = SimpleNamespace(
        type=kind, vocabulary=len(PIECES), pieces=lambda ids: [PIECES[number] for number in ids]
    )
    return WordLoops(tokenizer, most)


def ids(text: str) -> list[int]:
    return [IDS[piece] for piece in text.split(" ")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("▁B il il ist", False),
        ("▁B il il il ist", True),
        ("▁B il ist il ist il ist", True),
        ("▁B il ist il ist il", False),
        ("▁B il en t f il en t f il en t f", True),
        ("▁sehr ▁sehr ▁sehr ▁sehr", False),
        ("▁B il ▁B il ▁B il", False),
        ("▁ f f f", False),
        ("▁ f t f t f t", True),
        ("▁ 00 00 00 00", False),
        ("▁B il il ▁ il", False),
    ],
)
def test_what_is_a_loop(text: str, expected: bool) -> None:
    assert loops().found(ids(text)) is expected


def test_characters_and_words_have_none() -> None:
    assert not any(loops(kind=kind).found(ids("▁B il il il il")) for kind in ("characters", "words"))


def test_what_is_forbidden_is_all_that_would_close_a_loop() -> None:
    rng = random.Random(1)
    for most in (1, 2):
        guard, closed = loops(most), 0
        for _ in range(300):
            before = rng.choices([IDS[one] for one in ("▁B", "il", "en", "f")], k=rng.randint(0, 14))
            expected = [token for token in range(len(PIECES)) if guard.found([*before, token])]
            if not guard.found(before):
                assert guard.forbidden(before) == expected
                closed += bool(expected)
        assert closed > 10
    assert LONGEST == 4


class Chain(TranslationNetwork):
    """The next token hangs on the last one alone: `table` holds the logits (V, V)."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(table, requires_grad=False)
        self.max_source_positions = self.max_target_positions = 64

    def forward(self, batch: TranslationBatch) -> Tensor:
        raise NotImplementedError

    def encode(self, source: Tensor) -> Memory:
        return Memory(source[:, :, None].float(), source != PAD)

    def start(self, memory: Memory, max_steps: int) -> State:
        return {"real": memory.real}

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        return self.table[tokens], state


@pytest.mark.parametrize("beam", [1, 3, 200])
def test_a_search_that_may_not_loop_finds_the_best_of_the_rest(beam: int) -> None:
    """With a beam as wide as there are continuations: of all translations without a loop."""
    table = torch.full((len(PIECES), len(PIECES)), -4.0)
    table[:, IDS["il"]], table[:, EOS] = 3.0, 1.0
    network, source = Chain(table), np.array([IDS["▁B"], EOS])
    config = DecodeConfig(beam=beam, length_penalty=1.0, max_ratio=0.0, max_extra=6)
    ((free, *_),) = decode(network, [source], config)
    assert loops().found(free.ids)
    ((kept, *_),) = decode(network, [source], config, guard=loops())
    assert not loops().found(kept.ids)
    assert kept.ids[:2] == (IDS["il"], IDS["il"])
    if beam == 200:
        allowed = [number for number in range(len(PIECES)) if number not in config.forbidden()]
        found = {}
        for length in (1, 2, 3):
            for words in itertools.product([one for one in allowed if one != EOS], repeat=length):
                if not loops().found(words):
                    found[words] = score(table, words, config.forbidden())
        best = max(found, key=lambda one: found[one])
        assert kept.log_probability / kept.length >= found[best] - 1e-4


def score(table: Tensor, words: tuple[int, ...], never: list[int]) -> float:
    """The mean log-probability a token of the words and their end."""
    row = table[0].index_fill(0, torch.tensor(never), -torch.inf)
    guard, total = loops(), 0.0
    for place, token in enumerate((*words, EOS)):
        logits = row.clone()
        logits[guard.forbidden(words[:place])] = -torch.inf
        if place == 0:
            logits[EOS] = -torch.inf
        total += float(logits.log_softmax(0)[token])
    return total / (len(words) + 1)
