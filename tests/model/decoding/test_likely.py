"""The likeliest path against the network's own probabilities, and greedy generation."""

import pytest
import torch

from dragoman.model.decoding.generation import generate, read_prompt
from dragoman.model.decoding.likely import likely_path
from dragoman.model.errors import UserError
from dragoman.model.networks.gpt import DecoderOnly, DecoderOnlyConfig
from dragoman.model.settings import GenerateConfig
from dragoman.model.text.tokenizer import SPECIAL, Tokenizer, TokenizerConfig
from dragoman.model.text.tokenizers import train


def network(positions: int = 16) -> DecoderOnly:
    torch.manual_seed(3)
    sizes = {"width": 16, "heads": 2, "feed_forward": 16, "layers": 1, "max_positions": positions}
    return DecoderOnly(DecoderOnlyConfig(**sizes), tokenizer().vocabulary).eval()  # type: ignore[arg-type]


def tokenizer() -> Tokenizer:
    return train(TokenizerConfig(type="words", vocabulary=60), ["the cat sat on the mat", "a dog sees the cat"])


def test_probabilities_are_the_networks_and_the_path_is_greedy_generation() -> None:
    ours, words = network(), tokenizer()
    steps = likely_path(ours, words, "the cat", best=4, steps=6)
    ids = torch.tensor([read_prompt(words, "the cat").ids])
    logits, _ = ours.read(ids, ours.start(1, ids.device))
    shares = torch.softmax(logits[0], 0)[len(SPECIAL) :]
    expected = sorted(shares.tolist(), reverse=True)
    assert [one.probability for one in steps[0].predictions if one.piece != "</s>"][:3] == pytest.approx(expected[:3])
    greedy = GenerateConfig(temperature=0.0, max_tokens=5)
    assert steps[0].text == "the cat"
    (found,) = generate(ours, words, ["the cat"], greedy)
    if len(steps) == 6:
        assert steps[-1].text == "the cat" + found[0].text
    for step in steps:
        values = [one.probability for one in step.predictions]
        assert values == sorted(values, reverse=True)


def test_a_long_prompt_keeps_its_end_and_too_many_steps_are_named() -> None:
    ours, words = network(8), tokenizer()
    assert likely_path(ours, words, "the cat sat on " * 6, steps=3)
    with pytest.raises(UserError, match=r"predict\.steps=8: the network has 8 positions"):
        likely_path(ours, words, "the cat", steps=8)
