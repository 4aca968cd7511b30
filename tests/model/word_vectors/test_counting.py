"""The counted baselines: tables worked by hand, and scikit-learn's where the definitions agree."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from dragoman.model.bundles.vectors import load_vectors, save_vectors
from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import SPECIAL_PIECES, TokenizerPair
from dragoman.model.text.words import WordTokenizer
from dragoman.model.word_vectors import counting
from dragoman.model.word_vectors.counting import (
    BagOfWordsConfig,
    OneHotConfig,
    TfidfConfig,
    bag_of_words,
    count_vectors,
    inverse_frequencies,
    one_hot,
    tfidf,
)
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.learner import Text

WORDS = ["the", "cat", "dog", "sat", "ran"]
RECORDS = [["the", "cat", "sat"], ["the", "dog", "sat"], [], ["the", "cat", "ran", "the", "cat"], ["?", "dog", "?"]]


def text(records: list[list[str]], words: list[str] = WORDS) -> Text:
    rows = [words.index(word) if word in words else -1 for record in records for word in record]
    return Text(np.array(rows, np.int32), np.cumsum([0, *map(len, records)]).astype(np.int64))


def random_texts(words: int, zipf: bool, count: int = 5, seed: int = 0) -> list[Text]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        rows = np.minimum(rng.zipf(1.4, 400) - 1, words - 1) if zipf else rng.integers(0, words, 400)
        rows[rng.random(400) < 0.1] = -1
        made.append(Text(rows.astype(np.int32), np.array([0, 0, 50, 51, 200, 400], np.int64)))
    return made


def defined_counts(texts: list[Text], words: int, window: int) -> NDArray[np.float64]:
    """The bag of words by its definition, word for word."""
    counts = np.zeros((words, words))
    for one in texts:
        for first, last in zip(one.offsets[:-1], one.offsets[1:], strict=True):
            record = [row for row in one.rows[first:last].tolist() if row >= 0]
            for i, word in enumerate(record):
                for j, near in enumerate(record):
                    counts[word, near] += 0 < abs(i - j) <= window
    return counts


def test_one_hot_rows_are_all_at_right_angles() -> None:
    np.testing.assert_array_equal(one_hot(4).toarray(), np.eye(4))
    found = Embeddings(WORDS, None, count_vectors(OneHotConfig(), [], 5)["vectors"], texts="words")
    assert found.similarity("cat", "cat") == 1.0
    assert found.similarity("cat", "dog") == 0.0
    np.testing.assert_array_equal(found.text_vectors([["cat", "the", "cat", "?"]]).toarray(), [[1, 2, 0, 0, 0]])


def test_bag_of_words_worked_by_hand() -> None:
    """Window 1; in the fourth record `the` and `cat` meet twice, and left-out words let their neighbours meet."""
    found = bag_of_words([text(RECORDS[:3]), text([*RECORDS[3:], ["dog", "?", "ran"]])], 5, window=1)
    np.testing.assert_array_equal(
        found.toarray(),
        [
            # the cat dog sat ran
            [0, 3, 1, 0, 1],
            [3, 0, 0, 1, 1],
            [1, 0, 0, 1, 1],
            [0, 1, 1, 0, 0],
            [1, 1, 1, 0, 0],
        ],
    )


def test_a_word_beside_itself_is_its_own_context_twice() -> None:
    np.testing.assert_array_equal(bag_of_words([text([["cat", "cat"]])], 5, 3).toarray()[1], [0, 2, 0, 0, 0])


@pytest.mark.parametrize("zipf", [True, False])
@pytest.mark.parametrize(("window", "at_once"), [(1, 1 << 22), (4, 100), (1000, 3000)])
def test_bag_of_words_is_what_it_is_defined_as(
    zipf: bool, window: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_AT_ONCE", at_once)
    texts = random_texts(30, zipf)
    found = count_vectors(BagOfWordsConfig(window=window), iter(texts), 30)["vectors"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), defined_counts(texts, 30, window))


def test_tfidf_worked_by_hand() -> None:
    """Five records; `the` stands in three of them, `sat` and `cat` in two. The first record is the first column."""
    vectors, idf = tfidf([text(RECORDS[:2]), text(RECORDS[2:])], 5)
    np.testing.assert_allclose(idf[0], math.log(6 / 4) + 1)
    np.testing.assert_allclose(idf[[1, 2, 3]], math.log(6 / 3) + 1)
    the, cat, sat = idf[[0, 1, 3]]
    length = math.sqrt(the**2 + cat**2 + sat**2)
    np.testing.assert_allclose(vectors.toarray()[:, 0], [the / length, cat / length, 0, sat / length, 0], rtol=1e-6)
    assert not vectors.toarray()[:, 2].any()  # the empty record
    np.testing.assert_allclose(vectors.toarray()[:, 4], [0, 0, 1, 0, 0])


def test_tables_are_those_of_scikit_learn() -> None:
    options: dict[str, Any] = {"analyzer": list, "vocabulary": WORDS}
    records = [*RECORDS, ["ran", "ran", "the"]]
    vectorizer = TfidfVectorizer(**options)
    expected = vectorizer.fit_transform(records)
    tables = count_vectors(TfidfConfig(), [text(records[:4]), text(records[4:])], 5)
    np.testing.assert_allclose(tables["vectors"].toarray(), expected.T.toarray(), rtol=1e-6)
    np.testing.assert_allclose(tables["weights"], vectorizer.idf_, rtol=1e-6)

    weighted = Embeddings(WORDS, None, tables["vectors"], tables["weights"], texts="words")
    query = ["dog", "?", "the", "dog"]
    found = weighted.text_vectors([query]).toarray()
    np.testing.assert_allclose(found / np.linalg.norm(found), vectorizer.transform([query]).toarray(), rtol=1e-6)

    counted = Embeddings(WORDS, None, one_hot(5), texts="words")
    expected = CountVectorizer(**options).fit_transform(records).toarray()
    np.testing.assert_array_equal(counted.text_vectors(records).toarray(), expected)


def test_a_record_in_pieces_or_whole_gives_the_same_table() -> None:
    texts = random_texts(30, zipf=True)
    rows = np.concatenate([one.rows for one in texts])
    lengths = np.concatenate([np.diff(one.offsets) for one in texts])
    whole = Text(rows, np.concatenate([[0], np.cumsum(lengths)]))
    for config in (BagOfWordsConfig(), TfidfConfig()):
        one, many = (count_vectors(config, source, 30)["vectors"] for source in ([whole], texts))
        np.testing.assert_array_equal(one.toarray(), many.toarray())


@pytest.mark.parametrize("config", [OneHotConfig(), BagOfWordsConfig(), TfidfConfig()])
@pytest.mark.parametrize("records", [[], [["?"], []], [["the", "cat"]]])
def test_empty_records_and_two_words_alone(config: counting.Config, records: list[list[str]]) -> None:
    tables = count_vectors(config, [text(records, WORDS[:2])], 2)
    width = len(records) if isinstance(config, TfidfConfig) else 2
    assert tables["vectors"].shape == (2, width)
    assert np.isfinite(tables["vectors"].toarray()).all()
    assert np.isfinite(tables.get("weights", np.zeros(2))).all()


def test_words_of_no_record_have_a_finite_weight() -> None:
    assert inverse_frequencies(np.array([0, 4]), 4).tolist() == pytest.approx([math.log(5) + 1, 1.0])


@pytest.mark.parametrize("config", [BagOfWordsConfig(), TfidfConfig()])
def test_a_table_too_large_for_memory_is_refused(config: counting.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_ENTRIES", 50)
    with pytest.raises(UserError, match=rf"model={config.name}: more than 50 numbers .* model\.min_count"):
        count_vectors(config, random_texts(30, zipf=False), 30)


@pytest.mark.parametrize("config", [OneHotConfig(min_count=0), BagOfWordsConfig(window=0), TfidfConfig(min_count=-1)])
def test_settings_that_cannot_be_are_refused(config: counting.Config) -> None:
    with pytest.raises(UserError, match="must be at least 1"):
        count_vectors(config, [], 5)


@pytest.mark.parametrize("config", [OneHotConfig(), BagOfWordsConfig(), TfidfConfig()])
def test_a_bundle_keeps_rows_weights_and_what_texts_are(config: counting.Config, tmp_path: Path) -> None:
    tables = count_vectors(config, [text(RECORDS)], 5)
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *WORDS])
    save_vectors(
        tmp_path / "bundle",
        words=WORDS,
        counts=np.array([4, 3, 2, 2, 1]),
        tables=tables,
        config=config,
        tokenizer=TokenizerPair(tokenizer, tokenizer),
        facts={"pair": "en"},
    )
    found = load_vectors(tmp_path / "bundle").embeddings
    np.testing.assert_array_equal(found.vectors.toarray(), tables["vectors"].toarray())
    weights = tables.get("weights", np.ones(5, np.float32))
    np.testing.assert_allclose(found.text_vectors([["dog", "the"]]).toarray(), [weights * [1, 0, 1, 0, 0]])
    assert [near.word for near in found.neighbours("cat", 2)]
