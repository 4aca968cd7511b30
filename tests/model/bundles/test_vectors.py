"""A bundle of word vectors comes back as it was saved, and anything else is refused by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, eye

from dragoman.model.bundles.directory import bundle_kind
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.bundles.vectors import load_vectors, save_vectors
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
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


def save(directory: Path, tables: object, **settings: Any) -> Path:
    contents: dict[str, Any] = {
        "words": WORDS,
        "counts": COUNTS,
        "tables": tables,
        "config": Word2VecConfig(width=3),
        "tokenizer": tokenizer(),
        "facts": FACTS,
    }
    save_vectors(directory, **contents | settings)
    return directory


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tables = {"vectors": VECTORS, "contexts": CONTEXTS, "weights": np.array([1, 2, 3, 4.0])}
    return save(tmp_path / "bundle", tables, exports=("text", "numpy"))


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
    assert {"exports/vectors.txt", "exports/numpy/vectors.npy", "words.json", "tokenizer.json"} < set(bundle.files)


def test_a_sparse_table_comes_back_sparse(tmp_path: Path) -> None:
    saved = save(tmp_path / "b", csr_array(eye(4, 6, 1)))
    bundle = load_vectors(saved)
    assert bundle.embeddings.sparse
    assert bundle.embeddings.vectors.toarray().tolist() == eye(4, 6, 1).toarray().tolist()
    assert bundle.contexts is None
    assert (saved / "model.safetensors").stat().st_size < 600


def test_the_same_vectors_have_the_same_digest(saved: Path, tmp_path: Path) -> None:
    tables = {"vectors": VECTORS, "contexts": CONTEXTS, "weights": np.array([1, 2, 3, 4.0])}
    again = save(tmp_path / "again", tables, exports=("text", "numpy"))
    assert load_vectors(again).digest == load_vectors(saved).digest


@pytest.mark.parametrize("name", ["model.safetensors", "words.json", "tokenizer.json", "exports/vectors.txt"])
def test_a_tampered_or_missing_file_is_named(name: str, saved: Path) -> None:
    content = bytearray((saved / name).read_bytes())
    content[len(content) // 2] ^= 1
    (saved / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}: not the file that was saved"):
        load_vectors(saved)
    (saved / name).unlink()
    with pytest.raises(UserError, match=rf"{name}: missing"):
        load_vectors(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "format_version 2; this program reads 1"),
        ({"kind": "pictures"}, "a bundle of the kind 'pictures'; one of the kind 'vectors' is needed here"),
        ({"architecture": "glovee"}, "'glovee' is not known"),
        ({"architecture": "glove"}, "does not fit its model section"),
        ({"model": {"architecture": "word2vec", "widht": 3}}, "widht"),
        ({"table": {"words": 5, "width": 3}}, "the 4 words of words.json"),
        ({"files": {}}, "model.safetensors is missing"),
        ({"pair": None}, "pair is missing"),
    ],
    ids=str,
)
def test_a_foreign_configuration_is_refused(change: dict[str, object], message: str, saved: Path) -> None:
    record = json.loads((saved / "config.json").read_text()) | change
    (saved / "config.json").write_text(json.dumps({key: value for key, value in record.items() if value is not None}))
    with pytest.raises(UserError, match=message):
        load_vectors(saved)


def test_a_table_of_another_shape_is_refused(saved: Path) -> None:
    record = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(record | {"table": record["table"] | {"width": 4}}))
    with pytest.raises(UserError, match=r"vectors have the shape \(4, 3\), not \(4, 4\)"):
        _ = load_vectors(saved).embeddings


def test_a_bundle_of_the_other_kind_is_said(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a bundle of the kind 'vectors'; one of the kind 'translation' is needed here"):
        load_bundle(saved)
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({"format_version": 1, "architecture": "transformer"}))
    assert bundle_kind(other) == "translation"
    with pytest.raises(UserError, match="a bundle of the kind 'translation'; one of the kind 'vectors' is needed here"):
        load_vectors(other)


def test_scores_are_added_without_touching_the_files(saved: Path) -> None:
    before = load_vectors(saved)
    open_bundle(saved).update_facts({"scores": {"simlex": 30.0}})
    after = load_vectors(saved)
    assert after.facts == before.facts | {"scores": {"simlex": 30.0}}
    assert after.files == before.files
    with pytest.raises(UserError, match="table cannot be facts"):
        open_bundle(saved).update_facts({"table": {}})


def test_what_cannot_be_saved_leaves_the_older_bundle(saved: Path) -> None:
    before = load_vectors(saved).digest
    mistakes: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"contexts": CONTEXTS}, {}, "vectors is needed"),
        ({"vectors": VECTORS, "biases": VECTORS}, {}, "vectors is needed, of vectors, contexts, weights"),
        ({"vectors": VECTORS * np.nan}, {}, "nan or infinity"),
        ({"vectors": VECTORS}, {"words": WORDS[:3]}, "do not belong together"),
        ({"vectors": VECTORS}, {"facts": {}}, "pair must name the language"),
        ({"vectors": VECTORS}, {"facts": FACTS | {"files": {}}}, "files cannot be facts"),
        ({"vectors": VECTORS}, {"words": ["a", "b", "c d", "e"], "exports": ("text",)}, "'c d' has white space"),
    ]
    for tables, settings, message in mistakes:
        with pytest.raises(UserError, match=message):
            save(saved, tables, **settings)
    assert load_vectors(saved).digest == before
    assert [path.name for path in saved.parent.iterdir()] == ["bundle"]
