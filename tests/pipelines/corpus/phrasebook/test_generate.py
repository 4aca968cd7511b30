"""The written corpus: splits, held-out combinations, distinctness, determinism, files."""

import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from dragoman.pipelines.corpus.phrasebook.adjectives import ADJECTIVES
from dragoman.pipelines.corpus.phrasebook.function_words import MANNERS, PRONOUNS, SUBORDINATORS
from dragoman.pipelines.corpus.phrasebook.generate import (
    Line,
    distinct_pairs,
    generate,
    held_out,
    quotas,
    split_of,
    write_corpus,
)
from dragoman.pipelines.corpus.phrasebook.nouns import NOUNS
from dragoman.pipelines.corpus.phrasebook.places import NAMES, PLACE_ROWS, TOWNS
from dragoman.pipelines.corpus.phrasebook.verb_table import FRAMES
from dragoman.pipelines.corpus.phrasebook.words import tokens

PAIRS = 8000


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Line]]:
    return generate(PAIRS, seed=5)


def test_sizes_of_the_splits(corpus: dict[str, list[Line]]) -> None:
    assert {split: len(lines) for split, lines in corpus.items()} == {
        "train": PAIRS,
        "valid": PAIRS // 20,
        "test": PAIRS // 10,
    }


def test_pairs_are_distinct_and_no_sentence_is_in_two_splits(corpus: dict[str, list[Line]]) -> None:
    lines = [line for split in corpus.values() for line in split]
    assert len({line.english for line in lines}) == len(lines)
    assert len({line.german for line in lines}) == len(lines)


def test_lengths_spread_from_3_to_40_words(corpus: dict[str, list[Line]]) -> None:
    for lines in corpus.values():
        for side in ("english", "german"):
            lengths = [len(getattr(line, side).split()) for line in lines]
            assert min(lengths) >= 3
            assert max(lengths) <= 40
            assert 9 <= sum(lengths) / len(lengths) <= 15
    counts = Counter(len(line.english.split()) for line in corpus["train"])
    assert set(range(3, 33)) <= set(counts)


def test_words_of_held_out_sentences_occur_in_training(corpus: dict[str, list[Line]]) -> None:
    known = {token for line in corpus["train"] for side in (line.english, line.german) for token in tokens(side)}
    for split in ("valid", "test"):
        new = [line for line in corpus[split] if set(tokens(line.english) + tokens(line.german)) - known]
        assert len(new) < 0.01 * len(corpus[split])


def test_held_out_combinations_never_occur_in_training() -> None:
    combinations: dict[str, set[str]] = {"train": set(), "valid": set(), "test": set()}
    for pair in islice(distinct_pairs(5), 3000):
        split = split_of(pair.combinations)
        if split is not None:
            combinations[split].update(pair.combinations)
    assert {held_out(combination) for combination in combinations["train"]} == {"train"}
    for split in ("valid", "test"):
        held = {combination for combination in combinations[split] if held_out(combination) == split}
        assert held
        assert not held & combinations["train"]


def test_one_english_sentence_never_has_two_german_ones() -> None:
    german_of: dict[str, str] = {}
    for pair in islice(distinct_pairs(6), 12000):  # it asserts the same of the sentences that it leaves out
        assert german_of.setdefault(pair.english, pair.german) == pair.german


def test_the_whole_lexicon_is_used(corpus: dict[str, list[Line]]) -> None:
    text = " ".join(" ".join(tokens(line.english)).lower() for line in corpus["train"])
    padded = f" {text} "
    words = {noun.english for noun in NOUNS} | {place.noun.english for place in PLACE_ROWS}
    words |= {adjective.english for adjective in ADJECTIVES} | {english for english, _ in (*TOWNS, *NAMES)}
    words |= {verb.english.base for frame in FRAMES.values() for verb in frame}
    words |= {english for english, _ in MANNERS.values()} | set(SUBORDINATORS)
    words |= {pronoun.english for pronoun in PRONOUNS}
    assert 400 <= len(words) <= 500
    assert [word for word in sorted(words) if f" {word.lower()} " not in padded] == []


def test_same_seed_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from dragoman.pipelines.corpus.phrasebook import write_corpus; "
    program += "write_corpus(Path(sys.argv[1]), 300, 9, True)"
    outputs = []
    for hash_seed in ("1", "2"):
        directory = tmp_path / hash_seed
        subprocess.run(
            [sys.executable, "-c", program, str(directory)],
            check=True,
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).resolve().parents[4])},
        )
        outputs.append({path.name: path.read_bytes() for path in sorted(directory.iterdir())})
    assert outputs[0] == outputs[1]
    kinds = ("align", "de", "en")
    assert list(outputs[0]) == [f"{split}.{kind}" for split in ("test", "train", "valid") for kind in kinds]


def test_another_seed_gives_other_sentences() -> None:
    first, second = (next(iter(distinct_pairs(seed))) for seed in (1, 2))
    assert first.english != second.english


def test_files_hold_a_line_for_each_pair_and_alignments_fit(tmp_path: Path) -> None:
    files = write_corpus(tmp_path, 400, seed=3, alignments=True)
    assert set(files) == {"train", "valid", "test"}
    for split, (english, german) in files.items():
        assert (english, german) == (tmp_path / f"{split}.en", tmp_path / f"{split}.de")
        sources, targets = (path.read_text(encoding="utf-8").splitlines() for path in (english, german))
        links = (tmp_path / f"{split}.align").read_text(encoding="utf-8").splitlines()
        assert len(sources) == len(targets) == len(links)
        for source, target, line in zip(sources, targets, links, strict=True):
            for link in line.split():
                i, j = map(int, link.split("-"))
                assert i < len(tokens(source))
                assert j < len(tokens(target))
    assert not list(tmp_path.glob("*.part"))


def test_without_alignments_no_align_file_is_written(tmp_path: Path) -> None:
    write_corpus(tmp_path, 40, seed=3)
    assert not list(tmp_path.glob("*.align"))


def test_a_large_corpus_has_2000_test_and_1000_validation_pairs() -> None:
    assert quotas(100_000) == quotas(20_000) | {"train": 100_000}
    assert quotas(20_000) == {"train": 20_000, "valid": 1000, "test": 2000}


def test_fewer_than_one_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="pairs=0"):
        generate(0, seed=1)
