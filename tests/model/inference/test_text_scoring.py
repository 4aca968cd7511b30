"""The log-probability of texts: the sum of log softmax, alone and in batches, at the bounds."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.inference.text_scoring import TextScorer, score_texts, text_batch
from dragoman.model.networks.language_network import BEFORE, LanguageNetwork
from dragoman.model.networks.rnnlm import RecurrentLanguage, RecurrentLanguageConfig
from dragoman.model.text.tokenizer import EOS, PAD, UNK, TokenizerConfig
from dragoman.model.text.tokenizers import train

TEXTS = ["the dog", "", "a house is old", "the dog sees the old man", "Ж"]
TOKENIZER = train(TokenizerConfig(type="characters", vocabulary=60), TEXTS[:4])


@pytest.fixture
def network() -> RecurrentLanguage:
    torch.manual_seed(3)
    made = RecurrentLanguage(RecurrentLanguageConfig(embedding=8, width=8), TOKENIZER.vocabulary)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made.eval()


def by_steps(network: LanguageNetwork, ids: list[int]) -> list[float]:
    """The log-probability of each token, one at a time."""
    state = network.start(1, torch.device("cpu"))
    found, before = [], BEFORE
    with torch.no_grad():
        for token in ids:
            logits, state = network.step(torch.tensor([before]), state)
            found.append(float(torch.log_softmax(logits[0], 0)[token]))
            before = token
    return found


def test_a_score_is_what_the_network_gives_step_by_step(network: RecurrentLanguage) -> None:
    scorer = TextScorer(network, TOKENIZER)
    for text, score in zip(TEXTS, scorer.score(TEXTS), strict=True):
        ids = [*TOKENIZER.encode([text])[0].tolist(), EOS]
        assert list(score.ids) == ids
        assert list(score.log_probabilities) == pytest.approx(by_steps(network, ids), abs=1e-5)
        assert score.log_probability == pytest.approx(sum(score.log_probabilities))
    assert scorer.score(["Ж"])[0].unknown == 1
    assert scorer.pieces(scorer.score(["the"])[0]) == ["t", "h", "e", "</s>"]


def test_what_may_come_first_has_probability_one(network: RecurrentLanguage) -> None:
    longer = [np.array([token, EOS]) for token in range(TOKENIZER.vocabulary) if token != EOS]
    first = [score.log_probabilities[0] for score in score_texts(network, [*longer, np.array([EOS])])]
    assert sum(map(math.exp, first)) == pytest.approx(1.0)


def test_batches_change_nothing(network: RecurrentLanguage) -> None:
    scorer = TextScorer(network, TOKENIZER)
    alone = [scorer.score([text])[0].log_probability for text in TEXTS]
    for budget in (1, 20, 8192):
        found = [score.log_probability for score in scorer.score(TEXTS, batch_tokens=budget)]
        assert found == pytest.approx(alone, abs=1e-5)
    assert scorer.score([]) == []


def test_a_batch_begins_every_text_anew() -> None:
    batch = text_batch([np.array([7, 8, EOS]), np.array([EOS])], [4, 9])
    assert batch.inputs.tolist() == [[BEFORE, 7, 8], [BEFORE, PAD, PAD]]
    assert batch.targets.tolist() == [[7, 8, EOS], [EOS, PAD, PAD]]
    assert (batch.items, batch.goes_on, batch.ids.tolist()) == (4, False, [4, 9])


class Bounded(RecurrentLanguage):
    max_positions = 6  # type: ignore[assignment]  # a network with a table of positions

    def forward(self, batch: object) -> Tensor:
        assert batch.inputs.shape[1] <= 6  # type: ignore[attr-defined]  # a TextBatch
        return super().forward(batch)  # type: ignore[arg-type]  # as above


def test_a_text_beyond_the_positions_is_named_or_cut() -> None:
    network = Bounded(RecurrentLanguageConfig(embedding=8, width=8), TOKENIZER.vocabulary)
    scorer = TextScorer(network, TOKENIZER)
    with pytest.raises(UserError, match="line 2: the text has 8 tokens, more than the model's 6 positions"):
        scorer.score(["a", "the dog"], places=["line 1", "line 2"])
    score = scorer.score(["the dog"], too_long="truncate")[0]
    assert score.truncated and score.tokens == 6 and score.ids[-1] == EOS
    assert not scorer.score(["the d"], too_long="truncate")[0].truncated


def test_a_broken_network_is_an_error(network: RecurrentLanguage) -> None:
    with torch.no_grad():
        network.output.bias[UNK] = torch.nan
    with pytest.raises(FloatingPointError, match="text 1"):
        TextScorer(network, TOKENIZER).score(["a"])
