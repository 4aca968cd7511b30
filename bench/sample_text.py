"""Parallel text of any size for the benchmarks: made-up words with the frequencies of real ones, from a seed."""

from pathlib import Path

import numpy as np

WORDS = 50_000
ONSETS = ["b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "st", "tr", "pl", "gr", "sch"]
VOWELS = ["a", "e", "i", "o", "u", "ei", "au", "ie"]
ENDS = ["", "", "n", "r", "t", "s", "nd", "ch"]


def words(count: int, seed: int) -> np.ndarray:
    """`count` different words of one to four syllables, (count,) of str; the frequent ones are short."""
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = 1 + min(3, len(found) // 800)  # of one syllable there are 1,176
        pick = rng.integers(0, [len(ONSETS), len(VOWELS), len(ENDS)], (syllables, 3))
        found["".join(ONSETS[onset] + VOWELS[vowel] + ENDS[end] for onset, vowel, end in pick)] = None
    return np.array(list(found), dtype=object)


def write_text(directory: Path, lines: int, seed: int = 1) -> tuple[Path, Path]:
    """`lines` pairs of 3 to 30 words (13 on average) in two files; word ranks follow Zipf's law."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    chance = 1.0 / np.arange(10, WORDS + 10)
    bounds = np.cumsum(chance / chance.sum())
    vocabularies = [words(WORDS, seed + side) for side in (1, 2)]
    paths = directory / "text.en", directory / "text.de"
    with paths[0].open("w", encoding="utf-8") as source, paths[1].open("w", encoding="utf-8") as target:
        for begin in range(0, lines, 10_000):
            count = min(10_000, lines - begin)
            lengths = np.clip(rng.gamma(6.0, 2.2, count), 3, 30).astype(int)
            ranks = np.minimum(np.searchsorted(bounds, rng.random(lengths.sum())), WORDS - 1)
            ends = np.cumsum(lengths)
            for file, vocabulary in zip((source, target), vocabularies, strict=True):
                text = vocabulary[ranks]
                file.writelines(
                    " ".join(text[end - length : end]) + ".\n" for end, length in zip(ends, lengths, strict=True)
                )
    return paths


def write_ids(lines: int, vocabulary: int, seed: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """`lines` pairs of id arrays, 3 to 60 ids (15 on average), sides of similar length."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.gamma(4.0, 3.8, lines), 3, 60).astype(int)
    others = np.maximum(1, lengths + rng.integers(-2, 3, lines))
    return [
        (
            rng.integers(6, vocabulary, length).astype(np.uint16),
            rng.integers(6, vocabulary, other).astype(np.uint16),
        )
        for length, other in zip(lengths, others, strict=True)
    ]
