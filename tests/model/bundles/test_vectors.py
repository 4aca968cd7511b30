"""A bundle of word vectors comes back as it was saved, and anything else is refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, eye

from dragoman.model.bundles.directory import bundle_kind
from dragoman.model.bundles.vectors import load_vectors, save_vectors
from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import SPECIAL_PIECES, TokenizerPair
from dragoman.model.text.words import WordTokenizer
from dragoman.model.word_vectors.word2vec import Word2VecConfig

WORDS = ["the", "of", "Müller", "日本"]
COUNTS = np.array([90, 40, 3, 3])
FACTS = {"pair": "en", "manifest_hash": "ab" * 32, "run": {"id": None, "name": "skipgram"}}
RNG = np.random.default_rng(5)
VECTORS, CONTEXTS = (RNG.standard_normal((rows, 3)).astype(np.float32) for rows in (4, 3))


def tokenizer() -> TokenizerPair:
    words = WordTokenizer([*SPECIAL_PIECES, *WORDS])
    return TokenizerPair(words, words)


def save(directory: Path, tables: object = None, **settings: Any) -> Path:
    every = {"vectors": VECTORS, "contexts": CONTEXTS, "weights": np.array([1, 2, 3, 4.0])}
    contents: dict[str, Any] = {
        "words": WORDS,
        "counts": COUNTS,
        "tables": every if tables is None else tables,
        "config": Word2VecConfig(width=3),
        "tokenizer": tokenizer(),
        "facts": FACTS,
    }
    save_vectors(directory, **contents | settings)
    return directory


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save(tmp_path / "bundle")


def test_a_bundle_comes_back_as_it_was_saved(saved: Path) -> None:
    bundle = load_vectors(saved)
    assert bundle_kind(saved) == "vectors"
    assert bundle.config == Word2VecConfig(width=3)
    assert (bundle.words, bundle.counts.tolist(), bundle.width) == (WORDS, COUNTS.tolist(), 3)
    assert np.array_equal(bundle.embeddings.vectors, VECTORS)
    assert bundle.embeddings.weights.tolist() == [1, 2, 3, 4]
    assert bundle.contexts is not None
    assert np.array_equal(bundle.contexts, CONTEXTS)
    assert bundle.facts == FACTS
    assert bundle.pair == "en"
    assert bundle.tokenizer.describe() == tokenizer().describe()
    assert {"words.json", "tokenizer.json"} < set(bundle.files)


def test_a_sparse_table_comes_back_sparse(tmp_path: Path) -> None:
    saved = save(tmp_path / "b", {"vectors": csr_array(eye(4, 6, 1))})
    bundle = load_vectors(saved)
    assert bundle.embeddings.sparse
    assert bundle.embeddings.vectors.toarray().tolist() == eye(4, 6, 1).toarray().tolist()
    assert bundle.contexts is None
    assert (saved / "model.safetensors").stat().st_size < 600


def test_what_cannot_be_saved_leaves_the_older_bundle(saved: Path) -> None:
    before = load_vectors(saved).digest
    mistakes: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"vectors": VECTORS * np.nan}, {}, "nan or infinity"),
        ({"vectors": VECTORS}, {"words": WORDS[:3]}, "do not belong together"),
    ]
    for tables, settings, message in mistakes:
        with pytest.raises(UserError, match=message):
            save(saved, tables, **settings)
    assert load_vectors(saved).digest == before
    assert [path.name for path in saved.parent.iterdir()] == ["bundle"]
