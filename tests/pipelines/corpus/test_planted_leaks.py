"""195 leaks planted over real text: `near_words` finds 95 in 100 of them, and marks hardly a pair of clean text."""

import gzip
import random
import string
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.pipelines.corpus.plan.near_words import RULES, HeldOutWords
from dragoman.pipelines.corpus.read.built_in import phrasebook

Pairs = list[tuple[str, str]]
EACH = 39


def added(text: str, other: str, draw: random.Random) -> str:
    words = text.split()
    words.insert(draw.randrange(len(words) + 1), draw.choice(other.split()))
    return " ".join(words)


def replaced(text: str, other: str, draw: random.Random) -> str:
    """Another word in a word's place, or none."""
    words = text.split()
    place = draw.randrange(len(words))
    words[place : place + 1] = draw.choice([[], [draw.choice(other.split())]])
    return " ".join(words)


def swapped(text: str, other: str, draw: random.Random) -> str:
    words = text.split()
    place = draw.randrange(max(1, len(words) - 1))
    words[place : place + 2] = reversed(words[place : place + 2])
    return " ".join(words)


def joined(text: str, other: str, draw: random.Random) -> str:
    return " ".join(draw.sample([text, other], 2))


def misspelt(text: str, other: str, draw: random.Random) -> str:
    """A letter more, one less, or another."""
    place = draw.choice([place for place, letter in enumerate(text) if letter.isalpha()])
    new, rest = draw.choice([("", 1), (draw.choice(string.ascii_lowercase), draw.randrange(2))])
    return text[:place] + new + text[place + rest :]


KINDS: tuple[Callable[[str, str, random.Random], str], ...] = (added, replaced, swapped, joined, misspelt)


def plant(held: Pairs, others: Pairs, draw: random.Random) -> Pairs:
    """A leak of each of the first 195 held-out pairs, both sides changed in the same way."""
    leaks = []
    for number, pair in enumerate(held[: EACH * len(KINDS)]):
        other, kind = draw.choice(others), KINDS[number // EACH]
        source, target = (kind(pair[side], other[side], draw) for side in (0, 1))
        leaks.append((source, target))
    return leaks


def found_of(held: Pairs, leaks: Pairs) -> Counter[str]:
    """Kind -> planted leaks that are found as copies of the very pair that they are of."""
    index = HeldOutWords((*pair, name) for name, pair in enumerate(held))
    found = [number for number, leak in enumerate(leaks) if number in index.near(*leak)]
    return Counter(KINDS[number // EACH].__name__ for number in found)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_planted_leaks_are_found_in_real_sentences(corpora: Path, seed: int) -> None:
    with gzip.open(corpora / "tatoeba" / "deu.txt.gz", "rt", encoding="utf-8") as file:
        pairs = [(line.split("\t")[0], line.split("\t")[1].rstrip("\n")) for line in file]
    draw = random.Random(seed)
    draw.shuffle(pairs)
    held = pairs[:1000]
    found = found_of(held, plant(held, pairs[1000:], draw))
    assert found.total() >= 0.95 * 195, found
    assert min(found[kind.__name__] for kind in KINDS) >= 0.9 * EACH, found


def test_planted_leaks_are_found_in_generated_sentences() -> None:
    pairs = [(pair.english, pair.german) for pair in phrasebook()["train"][:600]]
    held = pairs[:195]
    found = found_of(held, plant(held, pairs[195:], random.Random(5)))
    assert found.total() >= 0.95 * 195, found


def test_hardly_a_pair_of_clean_text_is_marked(corpora: Path) -> None:
    """Captions of other images than the validation set's: a mark in a thousand, and never a misspelling by chance."""
    held, train = (
        list(zip(*(_lines(corpora / "multi30k" / f"{split}.{language}.gz") for language in ("en", "de")), strict=True))
        for split in ("val", "train")
    )
    index = HeldOutWords((*pair, name) for name, pair in enumerate(held))
    sample = random.Random(1).sample(train, 4000)
    marked = Counter(min(near.values(), key=RULES.index) for pair in sample if (near := index.near(*pair)))
    assert marked.total() <= 0.002 * len(sample), marked


def _lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()
