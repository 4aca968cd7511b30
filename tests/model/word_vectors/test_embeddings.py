"""Neighbours and analogies against answers worked by hand, and against every cosine computed the plain way."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix, eye

from dragoman.model.errors import UserError
from dragoman.model.word_vectors import search
from dragoman.model.word_vectors.embeddings import METHODS, Embeddings

# On the unit circle and one beside it, so that every cosine is known: 1, 0.8, 0.6, 0, -1.
WORDS = ["east", "north", "west", "northeast", "nowhere"]
PLANE = np.array([[2, 0], [0, 3], [-1, 0], [0.8, 0.6], [0, 0]], np.float32)


@pytest.fixture(params=["dense", "csr"])
def plane(request: pytest.FixtureRequest) -> Embeddings:
    return Embeddings(WORDS, np.array([9, 7, 5, 3, 1]), PLANE if request.param == "dense" else csr_array(PLANE))


def random_embeddings(size: int = 60, width: int = 7, seed: int = 3) -> Embeddings:
    vectors = np.random.default_rng(seed).standard_normal((size, width)).astype(np.float32)
    return Embeddings([f"w{i}" for i in range(size)], None, vectors)


def units(embeddings: Embeddings) -> NDArray[np.float64]:
    vectors = np.asarray(embeddings.vectors, np.float64)
    lengths: NDArray[np.float64] = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    return vectors / lengths


def test_similarities_are_cosines(plane: Embeddings) -> None:
    assert plane.similarity("east", "north") == pytest.approx(0.0)
    assert plane.similarity("east", "northeast") == pytest.approx(0.8)
    assert plane.similarity("north", "northeast") == pytest.approx(0.6)
    assert plane.similarity("east", "west") == pytest.approx(-1.0)
    assert plane.similarity("west", "west") == 1.0
    assert plane.similarity("east", "nowhere") == 0.0, "a row of zeros has no direction"


def test_neighbours_leave_out_the_word_itself_and_stand_in_order(plane: Embeddings) -> None:
    found = plane.neighbours("east", 4)
    assert [one.word for one in found] == ["northeast", "north", "nowhere", "west"]
    assert [one.similarity for one in found] == pytest.approx([0.8, 0.0, 0.0, -1.0])
    assert [one.word for one in plane.neighbours("northeast", 9, restrict=2)] == ["east", "north"]


def test_equals_stand_in_the_order_of_frequency() -> None:
    one_hot = Embeddings([f"w{i}" for i in range(8)], None, csr_matrix(eye(8)))
    assert [one.word for one in one_hot.neighbours("w3", 4)] == ["w0", "w1", "w2", "w4"]
    assert [one.similarity for one in one_hot.neighbours("w3", 4)] == [0.0] * 4


def test_an_analogy_worked_by_hand() -> None:
    """man (1,0,0), woman (0.6,0.8,0), king (0.8,0,0.6): woman - man + king = (0.4, 0.8, 0.6)."""
    words = ["man", "woman", "king", "queen", "crown"]
    vectors = np.array([[1, 0, 0], [0.6, 0.8, 0], [0.8, 0, 0.6], [0.48, 0.64, 0.6], [0, 0, 1]], np.float32)
    embeddings = Embeddings(words, None, vectors)
    length = np.sqrt(0.4**2 + 0.8**2 + 0.6**2)
    first, second = embeddings.analogy("man", "woman", "king", k=2)
    assert (first.word, second.word) == ("queen", "crown")
    assert first.similarity == pytest.approx((0.4 * 0.48 + 0.8 * 0.64 + 0.6 * 0.6) / length)
    assert second.similarity == pytest.approx(0.6 / length)
    (best,) = embeddings.analogy("man", "woman", "king", method="3cosmul")
    of_woman, of_king, of_man = 0.6 * 0.48 + 0.8 * 0.64, 0.8 * 0.48 + 0.6 * 0.6, 0.48
    shifted = [(cosine + 1) / 2 for cosine in (of_woman, of_king, of_man)]
    assert best.word == "queen"
    assert best.similarity == pytest.approx(shifted[0] * shifted[1] / (shifted[2] + 0.001), rel=1e-5)


def test_the_words_of_the_question_are_no_answers() -> None:
    embeddings = random_embeddings()
    for method in METHODS:
        answers = embeddings.analogy("w1", "w2", "w3", k=100, method=method)
        assert {one.word for one in answers} == set(embeddings.words) - {"w1", "w2", "w3"}
        nearest = next(one.word for one in embeddings.neighbours("w3", 2) if one.word != "w1")
        assert embeddings.analogy("w1", "w1", "w3", k=1)[0].word == nearest


def test_all_cosines_agree_with_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BLOCK_BYTES", 200)  # several blocks
    embeddings = random_embeddings()
    plain = units(embeddings)
    for row, word in enumerate(embeddings.words):
        order = [one for one in np.argsort(-(plain @ plain[row]), kind="stable") if one != row][:5]
        found = embeddings.neighbours(word, 5)
        assert [one.word for one in found] == [f"w{i}" for i in order]
        assert [one.similarity for one in found] == pytest.approx(plain[order] @ plain[row], abs=1e-6)
    pairs = np.random.default_rng(1).integers(0, 60, (40, 2))
    assert embeddings.similarities(pairs) == pytest.approx((plain[pairs[:, 0]] * plain[pairs[:, 1]]).sum(1), abs=1e-6)


@pytest.mark.parametrize("queries", [1, 2, 7, 8, 14])
def test_any_number_of_queries_gives_the_same_cosines(queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SMALL", 60)
    embeddings = random_embeddings()
    found = embeddings.row_cosines(np.arange(queries), restrict=53)
    plain = units(embeddings)
    np.testing.assert_allclose(found, plain[:queries] @ plain[:53].T, atol=1e-6)


def test_a_restriction_leaves_the_frequent_words_alone() -> None:
    embeddings = random_embeddings()
    assert all(int(one.word[1:]) < 10 for one in embeddings.neighbours("w40", 20, restrict=10))
    assert len(embeddings.analogy("w1", "w2", "w40", k=20, restrict=10)) == 8
    with pytest.raises(UserError, match=r"restrict: .*not -1"):
        embeddings.neighbours("w1", restrict=-1)


def test_a_question_is_normalised_as_texts_are() -> None:
    words = ["caf\u00e9", "\ufb01ne", "fine", "cafe\u0301x"]
    embeddings = Embeddings(words, None, np.eye(4, dtype=np.float32))
    asked = ["cafe\u0301", "caf\u00e9", "\u200ecafe\u0301", "\ufb01ne", "CAFE\u0301", "cafe\u0301x"]
    assert [embeddings.find(word) for word in asked] == [0, 0, 0, 1, 0, 3]
    assert embeddings.known("cafe\u0301") == embeddings.row("caf\u00e9") == 0
    assert Embeddings(["fine"], None, np.ones((1, 1), np.float32)).known("\ufb01ne") == 0


def test_an_unknown_word_is_named_with_close_spellings() -> None:
    embeddings = Embeddings(["Paris", "London", "parish", "vector"], None, np.eye(4))
    with pytest.raises(UserError, match=r"'paris' is not among the 4 words .* 'Paris' or 'parish'\?"):
        embeddings.vector("paris")
    with pytest.raises(UserError, match=r"'vektor' .* 'vector'\?"):
        embeddings.similarity("Paris", "vektor")
    with pytest.raises(UserError, match=r"'' is not among the 4 words of these vectors\.$"):
        embeddings.neighbours("")
    assert embeddings.row("paris") is None
    assert embeddings.find("VECTOR") == 3
    assert embeddings.find("Paris") == 0


def test_a_text_is_the_weighted_sum_of_its_known_words() -> None:
    weights = np.array([1.0, 2.0, 0.5, 1.0, 1.0])
    dense = Embeddings(WORDS, None, PLANE, weights)
    text = ["north", "unheard", "west", "north"]
    assert dense.text_vectors([text, ["unheard"]]).tolist() == [[-0.5, 12.0], [0.0, 0.0]]
    sparse = Embeddings(WORDS, None, csr_array(PLANE), weights)
    assert sparse.text_vectors([text, []]).toarray().tolist() == [[-0.5, 12.0], [0.0, 0.0]]


def test_what_cannot_be_vectors_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="do not belong together"):
        Embeddings(["a", "b"], None, np.ones((3, 2)))
    with pytest.raises(UserError, match="no words"):
        Embeddings([], None, np.ones((0, 2)))
    with pytest.raises(UserError, match="'a' has two rows"):
        Embeddings(["a", "b", "a"], None, np.ones((3, 2)))
    with pytest.raises(UserError, match=r"1 of 2 hold nan or infinity, the first is that of 'b'"):
        Embeddings(["a", "b"], None, np.array([[1.0, 2.0], [np.nan, 1.0]]))
    with pytest.raises(UserError, match="'3cosdiv' is not known"):
        random_embeddings().analogy("w1", "w2", "w3", method="3cosdiv")  # type: ignore[arg-type]  # the mistake tested
    with pytest.raises(UserError, match="k: must be at least 1, not 0"):
        random_embeddings().neighbours("w1", 0)


def test_one_word_has_no_neighbours() -> None:
    assert Embeddings(["alone"], None, np.ones((1, 3))).neighbours("alone") == []
