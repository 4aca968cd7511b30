"""fastText's own model file, as gensim writes and reads it; words that the file lacks; damage."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.bundles.vectors import load_vectors, save_read
from dragoman.model.errors import UserError
from dragoman.model.word_vectors.readers import read_vectors
from dragoman.services.cli import main

gensim = pytest.importorskip("gensim.models.fasttext", reason="requirements-dev.lock has it")
SENTENCES = [
    f"{one} {verb} {other}".split()
    for one in ("Hund", "Katze", "größe", "日本語", "naïve")
    for verb in ("sieht", "findet", "läuft", "🚲")
    for other in ("Haus", "Häuser", "die", "a")
]
UNKNOWN = ["Hunde", "Häuschen", "日本", "🚲🚲", "x", "größer"]


def _write(path: Path, **settings: int) -> Path:
    """A model of fastText with vectors of 12 numbers."""
    sizes = {"vector_size": 12, "min_count": 1, "bucket": 500, "epochs": 2, "seed": 3, "workers": 1, **settings}
    gensim.save_facebook_model(gensim.FastText(SENTENCES, **sizes), str(path))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("fasttext") / "model.bin")


@pytest.mark.parametrize(
    "runs", [{}, {"min_n": 1, "max_n": 2}, {"min_n": 4, "max_n": 9, "bucket": 7}, {"max_n": 0}], ids=str
)
def test_words_and_unknown_words_have_the_vectors_of_the_library(runs: dict[str, int], tmp_path: Path) -> None:
    path = _write(tmp_path / "model.bin", **runs)
    theirs, ours = gensim.load_facebook_vectors(str(path)), read_vectors(path)
    assert ours.words == [word for word in theirs.index_to_key if word != "</s>"]
    assert ours.counts is not None
    assert ours.counts.tolist() == [theirs.get_vecattr(word, "count") for word in ours.words]
    np.testing.assert_allclose(ours.vectors, np.stack([theirs[word] for word in ours.words]), rtol=1e-5, atol=1e-7)
    if runs.get("max_n") == 0:
        assert ours.subwords is None
        return
    assert ours.subwords is not None
    shortest, longest = runs.get("min_n", 3), runs.get("max_n", 6)
    for word in UNKNOWN:
        found = ours.subwords.vector(word)
        if found is None:
            assert not gensim.ft_ngram_hashes(word, shortest, longest, 500)
        else:
            np.testing.assert_allclose(found, theirs[word], rtol=1e-5, atol=1e-7)


def test_an_imported_model_answers_for_words_that_it_lacks(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [str(model), "pair=de", "name=parts", "registry.register=false", "tracking.offline=true"]
    assert main(["import", *words]) == 0
    capsys.readouterr()
    assert main(["neighbours", "Hunde", "query.vectors=parts", "query.k=3"]) == 0
    shown = capsys.readouterr().out
    theirs = gensim.load_facebook_vectors(str(model))
    nearest = [word for word, _ in theirs.similar_by_vector(theirs["Hunde"], topn=4) if word != "</s>"]
    assert [word for word in shown.split() if word in theirs.key_to_index] == nearest[:3]


def test_the_bundle_keeps_the_runs_to_the_bit(model: Path, tmp_path: Path) -> None:
    found = read_vectors(model)
    assert found.subwords is not None
    save_read(tmp_path / "bundle", found, "de", {"source": "x"})
    embeddings = load_vectors(tmp_path / "bundle").embeddings
    expected = found.subwords.vector("Hunde")
    assert expected is not None
    assert np.array_equal(embeddings.vector("Hunde"), expected)
    assert np.array_equal(embeddings.vector("Hund"), found.vectors[found.words.index("Hund")])
    assert embeddings.neighbours("Hunde", 2) == embeddings.neighbours(expected, 2)
    with pytest.raises(UserError, match="'Hunde' is not among"):
        embeddings.analogy("Hunde", "Hund", "Katze")


# offsets: magic 0, version 4, settings 8 (width first), dictionary 64
DAMAGED: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda content: content[:50], "the file is cut off"),
    (lambda content: content[:130], r"word \d of \d+: the file is cut off|the file is cut off, or no model"),
    (lambda content: content[: len(content) // 2], r"the matrix of \d+ x 12 is cut off"),
    (lambda content: content[:4] + struct.pack("<i", 7) + content[8:], "format 7; known are 11 and 12"),
    (lambda content: content[:8] + struct.pack("<i", 13) + content[12:], "x 12 for .* words of 13 numbers"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGED, ids=[message for _, message in DAMAGED])
def test_damage_is_named(damage: Callable[[bytes], bytes], message: str, model: Path, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(damage(model.read_bytes()))
    with pytest.raises(UserError, match=message):
        read_vectors(tmp_path / "model.bin")
