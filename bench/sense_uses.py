"""Senses of ambiguous English words, told from their vectors in sentences of the phrasebook.

The answers are known: the German word that the phrasebook aligns an English one to. Each word has as many uses of each
sense, so that a guess is right half of the time, and so is a static vector, which is the same in all of them.

Letters: N uses, D width of a vector.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from dragoman.model.inference.sentence_vectors import Floats, NetworkVectors
from dragoman.model.inference.words_in_context import Use, word_vectors
from dragoman.pipelines.corpus.gold import gold_words
from dragoman.pipelines.corpus.read.built_in import Pair, phrasebook

SENSES = {  # English word -> sense -> its German words
    "that": {"dass": "dass", "der, die, das": "der die das den dem denen dessen deren"},
    "is": {"ist": "ist", "wird": "wird"},
    "was": {"war": "war", "wurde": "wurde"},
    "has": {"hat": "hat", "ist": "ist"},
    "by": {"von": "von vom", "mit": "mit"},
    "know": {"wissen": "wissen weiß wusste wussten gewusst", "kennen": "kennen kenne kennt kannte kannten gekannt"},
    "to": {"zu": "zu", "nach": "nach"},
    "before": {"bevor": "bevor", "vor": "vor"},
    "where": {"wo": "wo", "wohin": "wohin"},
}
SIZES = {"train": 100, "valid": 15, "test": 25}  # uses of each sense
MOST = 18_000  # training pairs to look at
STRENGTH = 0.1  # the inverse of the probe's regularisation
SMALLEST = 1e-6  # deviation: a static vector has none


@dataclass(frozen=True)
class SenseUse:
    """A use of an ambiguous word, and its sense."""

    use: Use
    sense: str


Split = dict[str, list[SenseUse]]  # word -> uses


def draw_uses(seed: int, most: int = MOST) -> dict[str, Split]:
    """Returns the uses of each split, SIZES of each sense, drawn with the seed; a word with fewer is left out.

    Validation and test have combinations of words that training does not have.
    """
    kept: dict[tuple[str, str, str], list[SenseUse]] = {
        (split, word, sense): [] for split in SIZES for word, senses in SENSES.items() for sense in senses
    }
    for split, pairs in phrasebook().items():
        for pair in Random(seed).sample(pairs, min(most, len(pairs))):
            for found in sense_uses(pair):
                uses = kept[split, found.use.word, found.sense]
                if len(uses) < SIZES[split]:
                    uses.append(found)
    short = {word for (split, word, _), uses in kept.items() if len(uses) < SIZES[split]}
    return {
        split: {
            word: [use for sense in senses for use in kept[split, word, sense]]
            for word, senses in SENSES.items()
            if word not in short
        }
        for split in SIZES
    }


def sense_uses(pair: Pair) -> Iterator[SenseUse]:
    """Yields the ambiguous words of a pair, written in small letters, since a capital tells where a word stands."""
    english, german = gold_words(pair.english), gold_words(pair.german)
    for source, span in enumerate(english):
        use = Use(pair.english, span)
        if use.word not in SENSES:
            continue
        aligned = {pair.german[slice(*german[i])] for j, i in pair.alignment if j == source}
        senses = [sense for sense, words in SENSES[use.word].items() if aligned & set(words.split())]
        if len(senses) == 1:
            yield SenseUse(use, senses[0])


def vectors_of(vectors: NetworkVectors, uses: Sequence[SenseUse]) -> Floats:
    """Returns the vector of each word in its sentence, (N, D)."""
    found = vectors.tokens([one.use.text for one in uses])
    rows = [next(iter(word_vectors(vectors, text, [one.use.span])))[1] for text, one in zip(found, uses, strict=True)]
    return np.stack(rows)


def static_vectors_of(vectors: NetworkVectors, uses: Sequence[SenseUse]) -> Floats:
    """Returns the vector of each word without its sentence, (N, D)."""
    words = list(dict.fromkeys(one.use.word for one in uses))
    alone = {word: vectors.tokens([word])[0].vectors.mean(0) for word in words}
    return np.stack([alone[one.use.word] for one in uses])


def accuracy(known: Floats, senses: Sequence[str], asked: Floats, answers: Sequence[str]) -> float:
    """Trains a logistic regression on the `known` vectors; returns the share of `asked` (N, D) that is right."""
    from sklearn.linear_model import LogisticRegression

    mean, deviation = known.mean(0), known.std(0) + SMALLEST
    probe = LogisticRegression(C=STRENGTH, max_iter=2000).fit((known - mean) / deviation, senses)
    return float(probe.score((asked - mean) / deviation, answers))


def accuracies(vectors: NetworkVectors, train: Split, held_out: Split, static: bool = False) -> dict[str, float]:
    """Returns the accuracy of each word's senses on `held_out`."""
    read = static_vectors_of if static else vectors_of
    return {
        word: accuracy(
            read(vectors, train[word]),
            [one.sense for one in train[word]],
            read(vectors, uses),
            [one.sense for one in uses],
        )
        for word, uses in held_out.items()
    }
