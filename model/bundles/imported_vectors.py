"""The bundle of word vectors that another program has trained."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.bundles.vectors import SUBWORDS, save_vectors
from dragoman.model.text.tokenizer import SPECIAL_PIECES, TokenizerPair
from dragoman.model.text.words import WordRules, WordTokenizer
from dragoman.model.word_vectors.glove import GloveConfig
from dragoman.model.word_vectors.read_rows import ReadVectors
from dragoman.model.word_vectors.word2vec import Word2VecConfig


def save_read(directory: Path, found: ReadVectors, language: str, origin: Mapping[str, Any]) -> None:
    """Writes the bundle; its fact `imported` holds `origin`.

    The files do not say how they were trained: `model` names the family of their format, and nothing is trained on.
    Words are looked up as they stand, in lower case if all of them are.

    Raises:
        UserError: no words, or vectors that are not finite.
    """
    width = int(found.vectors.shape[1])
    config = (GloveConfig if found.format == "GloVe" else Word2VecConfig)(name="imported", width=width)
    lowercase = all(word == word.lower() for word in found.words)
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *found.words], WordRules(lowercase=lowercase))
    counts = np.zeros(len(found.words), np.int64) if found.counts is None else found.counts
    facts: dict[str, Any] = {"pair": language, "normalisation": "NFC"}
    tables = {"vectors": found.vectors}
    if found.subwords is not None:
        facts[SUBWORDS] = [found.subwords.shortest, found.subwords.longest]
        tables[SUBWORDS] = found.subwords.table
    save_vectors(
        directory,
        words=found.words,
        counts=counts,
        tables=tables,
        config=config,
        tokenizer=TokenizerPair(tokenizer, tokenizer),
        facts=facts | {"imported": {**origin, "dropped_words": found.dropped}},
    )
