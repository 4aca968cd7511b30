"""Vectors come back from files as they were; other programs open them; damage is named."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import eye

from dragoman.model.errors import UserError
from dragoman.model.word_vectors import formats
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.formats import write_format
from tests import vector_files


@pytest.fixture
def embeddings() -> Embeddings:
    rng = np.random.default_rng(8)
    vectors = rng.standard_normal((50, 7)).astype(np.float32) * 10.0 ** rng.integers(-20, 20, (50, 1))
    vectors[4] = [0, -0.0, 1, 1e-38, 16777217, 0.1, -1 / 3]
    words = [f"w{i}" for i in range(50)]
    words[5:9] = ["naïve", "日本", "New_York", "\u200b"]
    return Embeddings(words, np.arange(50, 0, -1), vectors)


@pytest.mark.parametrize("kind", ["text", "binary"])
def test_vectors_come_back_to_the_bit(kind: formats.Format, embeddings: Embeddings, tmp_path: Path) -> None:
    place = write_format(tmp_path / "new", kind, embeddings)
    words, vectors = getattr(vector_files, kind)(place)
    assert words == embeddings.words
    assert vectors.tobytes() == embeddings.vectors.tobytes()


@pytest.mark.parametrize("kind", ["text", "binary"])
def test_gensim_opens_both_and_finds_the_same_neighbours(kind: formats.Format, tmp_path: Path) -> None:
    gensim = pytest.importorskip("gensim.models", reason="requirements-dev.lock has it")
    vectors = np.random.default_rng(2).standard_normal((200, 20)).astype(np.float32)
    ours = Embeddings([f"w{i}" for i in range(200)], None, vectors)
    place = write_format(tmp_path, kind, ours)
    theirs = gensim.KeyedVectors.load_word2vec_format(str(place), binary=kind == "binary")
    assert theirs.index_to_key == ours.words
    assert theirs.vectors.tobytes() == ours.vectors.tobytes()
    answers = [(ours.neighbours(word, 5), theirs.most_similar(word, topn=5)) for word in ours.words[:40]]
    analogy = theirs.most_similar(positive=["w2", "w3"], negative=["w1"], topn=5)
    for found, expected in [*answers, (ours.analogy("w1", "w2", "w3", k=5), analogy)]:
        assert [one.word for one in found] == [name for name, _ in expected]
        assert [one.similarity for one in found] == pytest.approx([value for _, value in expected], abs=1e-6)


@pytest.mark.parametrize("word", ["New York", "line\nbreak", "tab\t", "", "non\u00a0breaking"])
def test_a_word_that_the_format_cannot_hold_is_named(word: str, tmp_path: Path) -> None:
    odd = Embeddings(["plain", word], None, np.eye(2))
    kinds: tuple[formats.Format, ...] = ("text", "binary")
    for kind in kinds:
        with pytest.raises(UserError, match=r"has white space in it"):
            write_format(tmp_path, kind, odd)


def test_sparse_vectors_and_unknown_formats_are_refused(tmp_path: Path, embeddings: Embeddings) -> None:
    one_hot = Embeddings(["a", "b"], None, eye(2).tocsr())
    for kind in formats.FORMATS:
        with pytest.raises(UserError, match="kept in the bundle only"):
            write_format(tmp_path, kind, one_hot)
    with pytest.raises(UserError, match="'csv' is not known"):
        write_format(tmp_path, "csv", embeddings)  # type: ignore[arg-type]  # the mistake tested
