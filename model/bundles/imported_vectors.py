"""The bundle of word vectors that another program has trained.

Apart from `vectors.py`, so that what answers with vectors needs no reader of others' files.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.bundles.vectors import save_vectors
from dragoman.model.text.tokenizer import SPECIAL_PIECES, TokenizerPair
from dragoman.model.text.words import WordRules, WordTokenizer
from dragoman.model.word_vectors.glove import GloveConfig
from dragoman.model.word_vectors.readers import ReadVectors
from dragoman.model.word_vectors.word2vec import Word2VecConfig


def save_read(directory: Path, vectors: ReadVectors, language: str, origin: Mapping[str, Any]) -> None:
    """Writes the bundle; its fact `imported` holds `origin`.

    The files do not say how they were trained: `model` names the family of their format, and nothing is trained on.
    Words are looked up as they stand, in lower case if all of them are.

    Raises UserError: no words, or vectors that are not finite.
    """
    width = int(vectors.vectors.shape[1])
    config = (GloveConfig if vectors.format == "GloVe" else Word2VecConfig)(name="imported", width=width)
    lowercase = all(word == word.lower() for word in vectors.words)
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *vectors.words], WordRules(lowercase=lowercase))
    facts: dict[str, Any] = {"pair": language, "normalisation": "NFC"}
    save_vectors(
        directory,
        words=vectors.words,
        counts=np.zeros(len(vectors.words), np.int64),
        tables={"vectors": vectors.vectors},
        config=config,
        tokenizer=TokenizerPair(tokenizer, tokenizer),
        facts=facts | {"imported": {**origin, "dropped_words": vectors.dropped}},
    )
