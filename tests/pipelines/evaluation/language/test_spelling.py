"""What tokens leave out is charged by a code: complete, decodable, and no way to win for a model full of <unk>."""

import gzip
import math
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.model.bundles.language import TextBundle, load_text_bundle
from dragoman.model.bundles.network import save_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import any_network, architecture, model_config
from dragoman.model.settings import LossConfig
from dragoman.model.text.normalise import normalise
from dragoman.model.text.tokenizer import Kind, Tokenizer, TokenizerConfig
from dragoman.model.text.tokenizers import train
from dragoman.model.text.words import WordRules, WordTokenizer
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.evaluation.language.evaluation import (
    Lines,
    TextEvaluation,
    evaluate_text_bundle,
)
from dragoman.pipelines.evaluation.language.held_out import span_batches, views
from dragoman.pipelines.evaluation.language.spelling import END, SYMBOLS, SpacingCode, SpellingCode, spelling_nats
from dragoman.pipelines.tasks.language import judge
from dragoman.pipelines.tracking.promotion import PromoteConfig
from dragoman.pipelines.tracking.registry import Version
from tests.held_out import keep_texts


def rare_words(count: int, seed: int) -> list[str]:
    """Lines of words of random syllables, hardly any twice, and a few frequent ones between them."""
    rng = random.Random(seed)

    def word() -> str:
        if rng.random() < 0.4:
            return rng.choice(("the", "of", "and"))
        return "".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(rng.randint(2, 5)))

    return [" ".join(word() for _ in range(rng.randint(4, 12))) for _ in range(count)]


def tokenizer(kind: Kind, vocabulary: int, lines: Sequence[str]) -> Tokenizer:
    return train(TokenizerConfig(name=kind, type=kind, vocabulary=vocabulary), list(lines))


def shards(folder: Path, lines: Sequence[str]) -> Path:
    """A directory that keeps a held-out text and nothing else."""
    return keep_texts(folder, {"valid": {"en": lines}}, kind="monolingual")


def trained(folder: Path, units: Tokenizer, lines: Sequence[str], steps: int = 0) -> TextBundle:
    """A recurrent network that has the tokens' frequencies by heart and was trained for some steps beyond."""
    text = Lines(lines, units)
    config = model_config({"architecture": "rnnlm", "cell": "gru", "embedding": 32, "width": 64, "tie": False})
    torch.manual_seed(1)
    network = any_network(config, units.vocabulary, units.vocabulary)
    counts = torch.from_numpy(np.bincount(text.row, minlength=units.vocabulary)) + 0.1
    output = network.output
    assert isinstance(output, torch.nn.Linear)
    with torch.no_grad():
        output.bias.copy_((counts / counts.sum()).log())
        output.weight.zero_()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    batches = span_batches(text, views(text.tokens, 48, 48), 32, 48)
    for batch, _ in zip(batches, range(steps), strict=False):
        loss, _ = architecture("rnnlm").loss(network, batch, LossConfig(0.0))
        optimizer.zero_grad()
        (loss / batch.items).backward()
        optimizer.step()
    save_bundle(folder, network=network.eval(), config=config, tokenizers=units, facts={"pair": "en"})
    return load_text_bundle(folder)


def bare_bits(evaluation: TextEvaluation) -> float:
    """Bits a character as they were: of what the network is asked for."""
    return float(evaluation.nll.sum() / math.log(2) / evaluation.characters.sum())


def test_the_code_of_characters_is_complete_and_learns() -> None:
    code = SpellingCode()
    assert code.probability("x") == 1 / SYMBOLS
    for word in ("ab", "a", "Zoë" + END):
        code.learn(word)
        unseen = code.probability("\U0010ffff")
        assert sum(map(code.probability, code.seen)) + (SYMBOLS - len(code.seen)) * unseen == pytest.approx(1, abs=1e-9)
    assert code.nats("a") < code.nats("b") < code.nats("ж")


def test_the_code_of_spaces_is_complete_and_does_not_hang_on_the_order() -> None:
    """Krichevsky and Trofimov's, one gap after the other; all ways that three gaps can be sum to 1."""
    total = 0.0
    for gaps in product((True, False), repeat=3):
        spacing, hits = SpacingCode(), sum(gaps)
        one_by_one = sum(spacing.nats(int(hit), int(not hit)) for hit in gaps)
        assert one_by_one == pytest.approx(SpacingCode().nats(hits, 3 - hits))
        total += math.exp(-one_by_one)
    assert total == pytest.approx(1.0)
    assert SpacingCode().nats(0, 1) == pytest.approx(math.log(2))


def test_an_unknown_word_costs_its_letters_and_its_end_and_is_known_after() -> None:
    units = WordTokenizer([*("<pad>", "<unk>", "<s>", "</s>", "<mask>", "<sep>"), "ab"])
    texts = ["ab b", "b ab"]
    first, second = spelling_nats(units, texts, units.encode(texts))
    # seen before: a, b, END; after the first "b": b and END once more
    expected = [2 * math.log((1 + 3 / SYMBOLS) / 6), math.log((2 + 3 / SYMBOLS) / 8) * 2]
    spacing = SpacingCode()
    assert first == pytest.approx(spacing.nats(1, 0) - expected[0])
    assert second == pytest.approx(spacing.nats(1, 0) - expected[1])


def test_spaces_that_are_not_where_they_are_expected_are_charged() -> None:
    usual, odd = ["a dog, a cat"] * 20, ["a dog , a cat"] * 20
    units = tokenizer("words", 40, usual)
    charged = [spelling_nats(units, lines, units.encode(lines)).sum() for lines in (usual, odd, usual[:10] + odd[:10])]
    assert 0 < charged[0] < charged[2] < charged[1]


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_a_text_without_unknown_tokens_is_described_by_its_tokens_alone(kind: Kind) -> None:
    lines = rare_words(50, 1)
    units = tokenizer(kind, 60, lines)
    assert not spelling_nats(units, lines, units.encode(lines)).any()
    unknown = math.log(SYMBOLS)  # of a character that was never seen; subwords must say where it ends too
    assert spelling_nats(units, ["ж"], units.encode(["ж"]))[0] == pytest.approx(
        {"characters": 1, "bpe": 2}[kind] * unknown
    )


class Shelf:
    """A registry whose versions are folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def bundle(self, version: Version, to: Path) -> Path:
        return self.folder / version.number


def test_a_model_full_of_unknown_words_does_not_win(tmp_path: Path) -> None:
    """By the tokens alone it would, by far: most of them are <unk>, which it foresees. Nor is it promoted."""
    lines, held_out = rare_words(800, 1), shards(tmp_path / "shards", rare_words(200, 2))
    sizes: dict[Kind, int] = {"words": 9, "characters": 40}
    made = {kind: trained(tmp_path / kind, tokenizer(kind, size, lines), lines, 25) for kind, size in sizes.items()}
    words, characters = (evaluate_text_bundle(made[kind], held_out, "valid") for kind in sizes)
    assert bare_bits(words) < 0.2 * bare_bits(characters)
    found = words.compare(characters)
    assert found.difference > 0 and found.p_value < 0.01
    assert words.record()["scores"]["unknown_rate"] == words.unknown / words.items.sum() > 0.5
    assert characters.figures()["unknown_rate"] == 0
    assert "unknown" in words.report()

    made["words"].update_facts({"scores": {"valid": {"bits_per_character": bare_bits(words)}}})  # as it was recorded
    shelf: Any = Shelf(tmp_path)
    config = Config(promote=PromoteConfig(split="valid", samples=100), paths=PathsConfig(shards=str(held_out)))
    verdict = judge(config, shelf, Version("words", ""), Version("characters", ""))
    assert not verdict.better(1.0)
    assert verdict.candidate == pytest.approx(words.figures()["bits_per_character"])


def test_knowing_fewer_words_never_pays(tmp_path: Path) -> None:
    lines, held_out = rare_words(800, 1), shards(tmp_path / "shards", rare_words(200, 2))
    found = [
        evaluate_text_bundle(trained(tmp_path / str(size), tokenizer("words", size, lines), lines), held_out, "valid")
        for size in (7, 8, 9)
    ]
    assert [one.unknown for one in found] == sorted((one.unknown for one in found), reverse=True)
    bits = [one.figures()["bits_per_character"] for one in found]
    assert bits == sorted(bits, reverse=True)


def test_lower_case_and_whole_texts_are_not_compared(tmp_path: Path) -> None:
    lines = rare_words(50, 1)
    held_out = shards(tmp_path / "shards", lines)
    plain = WordTokenizer(tokenizer("words", 40, lines).pieces(range(40)))
    lower = WordTokenizer(plain.written, WordRules(lowercase=True))
    one, other = (
        evaluate_text_bundle(trained(tmp_path / name, units, lines), held_out, "valid", samples=0)
        for name, units in (("plain", plain), ("lower", lower))
    )
    with pytest.raises(UserError, match="describes the text in lower case, the other as it stands"):
        other.compare(one)


def test_tiny_shakespeare_is_not_won_by_forty_words(tmp_path: Path, corpora: Path) -> None:
    path = corpora / "charlm" / "tinyshakespeare.txt.gz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not among the corpora")
    text = [normalise(line) for line in gzip.decompress(path.read_bytes()).decode().split("\n")]
    lines, held_out = text[:20_000], shards(tmp_path / "shards", text[-2000:])
    sizes: dict[Kind, int] = {"words": 40, "characters": 80}
    words, characters = (
        evaluate_text_bundle(
            trained(tmp_path / kind, tokenizer(kind, sizes[kind], lines), lines, steps=120),
            held_out,
            "valid",
            samples=0,
        )
        for kind in sizes
    )
    assert words.figures()["unknown_rate"] > 0.4
    assert bare_bits(words) < 0.4 * bare_bits(characters)
    found = words.compare(characters)
    assert found.difference > 0 and found.p_value < 0.01
