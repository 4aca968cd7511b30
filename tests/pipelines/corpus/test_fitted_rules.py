"""Rules fitted to a sample of the corpus: the phrasebook's pairs teach what a pair of it looks like."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.pipelines.corpus.clean import fitted_rules
from dragoman.pipelines.corpus.clean.fitted_rules import FittedRules, is_foreign, learn, load, save
from dragoman.pipelines.corpus.clean.rules import FITTED
from dragoman.pipelines.corpus.read.built_in import phrasebook

LEAST = -5.0
LANGUAGES = ("en", "de")


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return [(pair.english, pair.german) for pair in phrasebook()["train"][:6_000]]


@pytest.fixture(scope="module")
def rules(pairs: list[tuple[str, str]]) -> FittedRules:
    learned = learn([a for a, _ in pairs], [b for _, b in pairs], np.arange(len(pairs)) % 2)
    assert learned is not None
    return learned


def _failed(rules: FittedRules, pairs: list[tuple[str, str]], rule: str) -> float:
    """The share of the pairs that fail a rule."""
    parity = np.arange(len(pairs)) % 2
    found = rules.judge(([a for a, _ in pairs], [b for _, b in pairs]), parity, FITTED, LANGUAGES, LEAST)
    return float(found[rule].mean())


def test_exchanged_and_copied_sides_are_on_the_wrong_side(rules: FittedRules, pairs: list[tuple[str, str]]) -> None:
    some = pairs[:500]
    assert _failed(rules, [(b, a) for a, b in some], "wrong_side") > 0.99
    assert _failed(rules, [(a, a) for a, _ in some], "wrong_side") > 0.99
    assert _failed(rules, some, "wrong_side") < 0.01


def test_a_side_cut_in_half_lacks_its_last_mark(rules: FittedRules, pairs: list[tuple[str, str]]) -> None:
    cut = [(a, b[: len(b) // 2]) for a, b in pairs[:500]]
    assert _failed(rules, cut, "cut_off") > 0.99
    assert _failed(rules, pairs[:500], "cut_off") < 0.01


def test_lengths_far_from_those_of_the_corpus_are_uneven(rules: FittedRules, pairs: list[tuple[str, str]]) -> None:
    joined = [(a, " ".join(other for _, other in pairs[row : row + 5])) for row, (a, _) in enumerate(pairs[:500])]
    assert _failed(rules, joined, "uneven") > 0.95
    assert _failed(rules, pairs[:500], "uneven") < 0.02


def test_pairs_that_chance_has_joined_are_unrelated(
    rules: FittedRules, pairs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = [(a, pairs[(row + 777) % len(pairs)][1]) for row, (a, _) in enumerate(pairs[:500])]
    assert _failed(rules, apart, "unrelated") == 0, "a small corpus knows too few words"
    monkeypatch.setattr(fitted_rules, "ENOUGH", 1_000)
    assert _failed(rules, apart, "unrelated") > 0.8
    assert _failed(rules, pairs[:500], "unrelated") < 0.01


def test_another_language_is_foreign_and_short_texts_pass() -> None:
    assert is_foreign("Je ne sais pas ce que vous voulez dire par là.", "de")
    assert not is_foreign("Ich weiß nicht, was Sie damit sagen wollen.", "de")
    assert not is_foreign("12:30", "de")


def test_rules_are_read_as_they_were_written(rules: FittedRules, pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    save(rules, tmp_path / "rules.npz")
    some = [*pairs[:200], *((b, a) for a, b in pairs[:200])]
    sides, parity = ([a for a, _ in some], [b for _, b in some]), np.arange(len(some)) % 2
    first = rules.judge(sides, parity, FITTED, LANGUAGES, LEAST)
    again = load(tmp_path / "rules.npz").judge(sides, parity, FITTED, LANGUAGES, LEAST)
    assert {rule: marks.tolist() for rule, marks in first.items()} == {r: m.tolist() for r, m in again.items()}


def test_a_small_sample_teaches_nothing() -> None:
    assert learn(["one"] * 10, ["eins"] * 10, np.arange(10) % 2) is None
