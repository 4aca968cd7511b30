"""Figures of language models against sums done step by step; comparisons that are and are not luck."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.model.bundles.language import TextBundle, load_text_bundle
from dragoman.model.bundles.network import save_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.networks.language_network import BEFORE, LanguageNetwork
from dragoman.model.text.tokenizer import EOS, MASK, Tokenizer, TokenizerConfig
from dragoman.model.text.tokenizers import train
from dragoman.pipelines.evaluation.language.evaluation import Lines, TextEvaluation, evaluate_text_bundle
from dragoman.pipelines.tracking.plots import curves
from tests.held_out import keep_texts

TEXT = [
    "the cat sat on the mat and looked at the dog",
    "",
    "a dog sat on the cat, which was a mistake of the dog's",
    "über the house a bird sang its song until the cat came",
] * 3
SIZES = {"width": 16, "heads": 2, "feed_forward": 16, "layers": 1}
MODELS: dict[str, dict[str, Any]] = {
    "rnnlm": {"architecture": "rnnlm", "cell": "lstm", "embedding": 8, "width": 12, "layers": 2},
    "gpt": {"architecture": "gpt", **SIZES, "max_positions": 24},
    "bert": {"architecture": "bert", **SIZES, "max_positions": 64},
}


def tokenizer(kind: str = "characters") -> Tokenizer:
    return train(TokenizerConfig(name=kind, type=kind, vocabulary=60), TEXT)  # type: ignore[arg-type]


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A directory that keeps the held-out texts and nothing else."""
    return keep_texts(tmp_path / "shards", {"valid": {"en": TEXT}}, kind="monolingual")


def bundle(folder: Path, name: str, seed: int = 1, kind: str = "characters", **facts: Any) -> TextBundle:
    config, units = model_config(MODELS[name]), tokenizer(kind)
    torch.manual_seed(seed)
    network = build_network(config, units.vocabulary, units.vocabulary)
    directory = folder / f"{name}-{seed}-{kind}"
    save_bundle(directory, network=network, config=config, tokenizers=units, facts={"pair": "en", **facts})
    return load_text_bundle(directory)


def by_steps(network: LanguageNetwork, row: list[int], context: list[int]) -> list[float]:
    """nats of each token of `row` after `context`, one step at a time."""
    with torch.inference_mode():
        state = network.start(1, torch.device("cpu"))
        found = []
        for number, (token, wanted) in enumerate(zip([*context, *row[:-1]], [*context[1:], *row], strict=True)):
            logits, state = network.step(torch.tensor([token]), state)
            if number >= len(context) - 1:
                found.append(float(-torch.log_softmax(logits[0].double(), 0)[wanted]))
    return found


def test_lines_are_tokens_and_count_their_ends() -> None:
    lines = Lines(["ab", "", "ü"], tokenizer())
    assert lines.row[[2, 3, 5]].tolist() == [EOS] * 3
    assert (lines.tokens, lines.lengths.tolist()) == (6, [3, 1, 2])
    assert lines.characters.tolist() == [3, 1, 2]
    assert lines.bytes.tolist() == [3, 1, 3]
    assert lines.words.tolist() == [2, 1, 2]
    assert lines.by_record(np.arange(6.0)).tolist() == [3, 3, 9]
    with pytest.raises(UserError, match=r"evaluate\.split"):
        Lines([], tokenizer())


def test_recurrent_figures_are_those_of_one_pass_with_carried_state(tmp_path: Path, shards: Path) -> None:
    found = bundle(tmp_path, "rnnlm")
    evaluation = evaluate_text_bundle(found, shards, "valid", samples=3)
    lines = Lines(TEXT, found.tokenizer)
    steps = by_steps(found.language_network, lines.row.tolist(), [BEFORE])
    assert evaluation.nll == pytest.approx(lines.by_record(np.array(steps)), rel=1e-4)
    scores, characters = evaluation.figures(), sum(len(line) + 1 for line in TEXT)
    assert scores["nats"] == pytest.approx(sum(steps) / lines.tokens, rel=1e-4)
    assert scores["perplexity"] == pytest.approx(math.exp(scores["nats"]))
    assert scores["bits_per_character"] == pytest.approx(sum(steps) / math.log(2) / characters, rel=1e-4)
    assert scores["bits_per_byte"] < scores["bits_per_character"]
    assert scores["word_perplexity"] > scores["perplexity"]
    assert len(evaluation.samples) == 3 and evaluation.samples[0].prompt == ""
    assert "bits per byte" in evaluation.report()
    figure = curves({"nll": [(1, 2.0)]}, "run", "token")
    assert figure is not None
    figure.savefig(tmp_path / "figure.png")


@pytest.mark.parametrize("stride", [1, 7, 0])
def test_a_sliding_view_gives_each_token_the_context_that_it_says(stride: int, tmp_path: Path, shards: Path) -> None:
    found = bundle(tmp_path, "gpt")
    evaluation = evaluate_text_bundle(found, shards, "valid", stride=stride, records=3, samples=0)
    lines = Lines(TEXT[:3], found.tokenizer)
    row, step = [BEFORE, *lines.row.tolist()], stride or 12
    expected = by_steps(found.language_network, row[1:25], [BEFORE])
    for scored in range(24, lines.tokens, step):
        end = min(scored + step, lines.tokens)
        begin = end - 24  # the view's first target
        context = row[begin : scored + 1]
        expected += by_steps(found.language_network, row[scored + 1 : end + 1], context)
    assert evaluation.nll == pytest.approx(lines.by_record(np.array(expected)), rel=1e-3, abs=1e-3)
    with pytest.raises(UserError, match=r"evaluate\.stride=25"):
        evaluate_text_bundle(found, shards, "valid", stride=25)


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_a_masked_network_is_asked_for_the_same_tokens_each_time(kind: str, tmp_path: Path, shards: Path) -> None:
    one = evaluate_text_bundle(bundle(tmp_path, "bert", 1, kind), shards, "valid", samples=4)
    other = evaluate_text_bundle(bundle(tmp_path, "bert", 2, kind), shards, "valid", samples=4)
    assert one.items.tolist() == other.items.tolist()
    assert one.items[1] == 0  # a blank line has nothing to guess
    assert 0.0 <= one.figures()["accuracy"] <= 1.0
    assert one.figures()["nats"] == pytest.approx(one.nll.sum() / one.items.sum())
    assert "<mask>" in one.samples[0].prompt
    assert "guessed" in one.report()
    assert other.compare(one).metric == "nats a guessed token"
    whole = bundle(tmp_path, "bert", 3, kind, masking={"share": 0.3, "whole_words": True})
    with pytest.raises(UserError, match="other tokenizers or masks"):
        evaluate_text_bundle(whole, shards, "valid", samples=0).compare(one)


def test_models_are_compared_by_character_where_both_write_the_whole_text(tmp_path: Path, shards: Path) -> None:
    def evaluate(*what: Any) -> TextEvaluation:
        return evaluate_text_bundle(bundle(tmp_path, *what), shards, "valid", samples=0)

    characters, others, words = evaluate("rnnlm"), evaluate("gpt", 2), evaluate("rnnlm", 2, "words")
    found = others.compare(characters)
    assert found.candidate == pytest.approx(others.figures()["bits_per_character"])
    assert found.baseline == pytest.approx(characters.figures()["bits_per_character"])
    assert words.compare(evaluate("rnnlm", 3, "words")).p_value <= 1.0, "the same words are left out by both"
    with pytest.raises(UserError, match="one model leaves out what its vocabulary lacks"):
        words.compare(characters)
    with pytest.raises(UserError, match="cannot be compared"):
        evaluate("bert").compare(characters)


def test_a_split_that_is_not_there_is_named(tmp_path: Path, shards: Path) -> None:
    with pytest.raises(UserError, match=r"evaluate\.split: 'test' is not known"):
        evaluate_text_bundle(bundle(tmp_path, "rnnlm"), shards, "test")


def test_masks_are_filled(tmp_path: Path) -> None:
    from dragoman.model.decoding.fill_mask import fill_masks, masked_ids

    found = bundle(tmp_path, "bert", 1, "words")
    ids = masked_ids(found.tokenizer, "the <mask> sat on <mask>")
    assert [token == MASK for token in ids] == [False, True, False, False, True, False] and ids[-1] == EOS
    one, plain = fill_masks(found.network, found.tokenizer, ["the <mask> sat on <mask>", "the cat"], best=3)
    assert len(one.predictions) == 2 and len(one.predictions[0]) == 3
    shares = [prediction.probability for prediction in one.predictions[0]]
    assert shares == sorted(shares, reverse=True) and sum(shares) <= 1.0
    assert one.predictions[0][0].piece in one.text and "<" not in one.text
    assert plain.text == "the cat" and plain.predictions == []
    with pytest.raises(UserError, match="text 1: 101 tokens, the network has 64 positions"):
        fill_masks(found.network, found.tokenizer, ["cat " * 100])
