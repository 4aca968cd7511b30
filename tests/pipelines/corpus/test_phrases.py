"""Phrases: equation 6 by hand, and joining that stops at marks and ends."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman.model.text.words import WordRules
from dragoman.pipelines.corpus.pack.counting import write_run
from dragoman.pipelines.corpus.pack.phrases import OuterWords, join_phrases, load_phrases, write_phrases
from dragoman.pipelines.corpus.settings import PhrasesConfig

LOWER = WordRules(lowercase=True, punctuation=False)


def _chosen(folder: Path, texts: list[str], config: PhrasesConfig, number: int = 0) -> dict[str, float]:
    words = Counter(word for text in texts for word in text.split())
    pairs = Counter(f"{a} {b}" for text in texts for a, b in pairwise(text.split()))
    for name, counts in (("words", words), ("pairs", pairs)):
        write_run(folder / name, sorted(counts.items()))
    write_phrases(folder / "phrases", folder / "words", folder / "pairs", config, number)
    lines = (folder / "phrases").read_text(encoding="utf-8").splitlines()
    return {line.split("\t")[0]: float(line.split("\t")[1]) for line in lines}


def test_the_score_is_that_of_the_paper(tmp_path: Path) -> None:
    texts = ["new york is far", "new york is big", "new york", "new is old", "york is", "is far"]
    chosen = _chosen(tmp_path, texts, PhrasesConfig(threshold=0.1, min_count=1))
    total = sum(len(text.split()) for text in texts)
    assert chosen["new york"] == pytest.approx((3 - 1) * total / (4 * 4), rel=1e-5)
    assert chosen["york is"] == pytest.approx((3 - 1) * total / (4 * 5), rel=1e-5)
    assert "is big" not in chosen, "a pair no more frequent than the discount"
    assert list(chosen.values()) == sorted(chosen.values(), reverse=True)
    assert load_phrases(tmp_path / "phrases") == set(chosen)


def test_the_threshold_falls_and_the_number_is_bounded(tmp_path: Path) -> None:
    texts = ["a b", "a b", "a b", "c d", "c d", "c x", "y d"]
    config = PhrasesConfig(threshold=3.0, fall=0.25, min_count=1)
    assert set(_chosen(tmp_path, texts, config)) == {"a b"}
    assert set(_chosen(tmp_path, texts, config, 1)) == {"a b", "c d"}
    assert set(_chosen(tmp_path, texts, PhrasesConfig(threshold=0.1, min_count=1, most=2))) == {"a b"}


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("In New York City, new", "In New_York City, new"),
        ("new. York", "new. York"),
        ('"New York" is New-York', '"New_York" is New-York'),
        ("new york city hall york city", "new_york city_hall york_city"),
        ("new", "new"),
        ("_new york_", "_new_york_"),
    ],
)
def test_joining_goes_left_to_right_and_not_across_marks(text: str, joined: str) -> None:
    phrases = frozenset({"new york", "york city", "city hall"})
    assert list(join_phrases([text], phrases, OuterWords(LOWER))) == [joined]
    (folded,) = join_phrases([text.lower()], phrases, OuterWords(LOWER))
    assert LOWER.split(folded) == LOWER.split(joined.lower())
