"""The co-occurrence pass: hand-worked counts, and those of the definition."""

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.glove import Glove, GloveConfig
from dragoman.model.word_vectors.learner import Text
from dragoman.pipelines.word_vectors import cooccurrence
from dragoman.pipelines.word_vectors.cooccurrence import CooccurrenceFeed, Counting, count_cooccurrences

Matrix = dict[tuple[int, int], float]


class Passages:
    """Segments from lists of records; a record is a list of rows, -1 for a word left out."""

    def __init__(self, *segments: list[list[int]]) -> None:
        self.texts = [text(records) for records in segments]
        self.segments = len(self.texts)
        self.read: list[int] = []

    def segment(self, epoch: int, index: int) -> Text:
        self.read.append(index)
        return self.texts[index]


def text(records: list[list[int]]) -> Text:
    offsets = np.cumsum([0, *map(len, records)]).astype(np.int64)
    return Text(np.array([row for record in records for row in record], np.int32), offsets)


def random_passages(vocabulary: int = 40, segments: int = 6, words: int = 300, seed: int = 0) -> Passages:
    """Zipf-like rows with left-out words and empty records among them."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(segments):
        rows = np.minimum(rng.zipf(1.3, words) - 1, vocabulary - 1)
        rows[rng.random(words) < 0.1] = -1
        cuts = np.sort(rng.integers(0, words + 1, 12))
        made.append([part.tolist() for part in np.split(rows, cuts)])
    return Passages(*made)


def expected(passages: Passages, window: int, symmetric: bool) -> Matrix:
    """The matrix by the definition, in fractions."""
    counts: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for part in passages.texts:
        for first, last in zip(part.offsets[:-1], part.offsets[1:], strict=True):
            record = [int(row) for row in part.rows[first:last] if row >= 0]
            for at, word in enumerate(record):
                for distance in range(1, min(window, at) + 1):
                    near = record[at - distance]
                    counts[word, near] += Fraction(1, distance)
                    if symmetric:
                        counts[near, word] += Fraction(1, distance)
    return {cell: float(np.float32(float(count))) for cell, count in counts.items()}


def held(feed: CooccurrenceFeed) -> Matrix:
    """What the segments of an epoch hold; every entry once."""
    found: Matrix = {}
    for index in range(feed.segments):
        part = feed.segment(0, index)
        cells = zip(part.words.tolist(), part.contexts.tolist(), strict=True)
        for cell, value in zip(cells, part.values.tolist(), strict=True):
            assert cell not in found
            found[cell] = value
    return found


@pytest.fixture
def counting() -> Counting:
    return Counting("random", vocabulary=40, window=5)


def test_counts_worked_by_hand(tmp_path: Path) -> None:
    """a b a c | c b: neighbours within a window of two, a left-out word between a and c of the first record."""
    passages = Passages([[0, 1, 0, -1, 2]], [[2, 1], []])
    feed = count_cooccurrences(tmp_path / "x", passages, Counting("t", 3, window=2))
    a, b, c = 0, 1, 2
    assert held(feed) == {
        (a, a): 1.0,  # two places apart, seen from both
        (a, b): 2.0,
        (b, a): 2.0,
        (a, c): 1.0,
        (c, a): 1.0,
        (b, c): 1.5,
        (c, b): 1.5,
    }
    assert (feed.entries, feed.segments, feed.size(feed.segment(0, 0))) == (7, 1, 7)


def test_left_contexts_alone(tmp_path: Path) -> None:
    counting = Counting("t", 3, window=2, symmetric=False)
    feed = count_cooccurrences(tmp_path / "x", Passages([[0, 1, 2]]), counting)
    assert held(feed) == {(1, 0): 1.0, (2, 1): 1.0, (2, 0): 0.5}


@pytest.mark.parametrize("at_once", [1, 1 << 22])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("window", [1, 15, 30])
def test_counts_are_those_of_the_definition(
    tmp_path: Path, symmetric: bool, window: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cooccurrence, "AT_ONCE", at_once)
    passages = random_passages(segments=3, words=40)
    feed = count_cooccurrences(tmp_path / "x", passages, Counting("t", 40, window, symmetric))
    wanted = expected(passages, window, symmetric)
    found = held(feed)
    assert found.keys() == wanted.keys()
    if window <= 22:
        assert found == wanted
    np.testing.assert_allclose([found[cell] for cell in wanted], list(wanted.values()), rtol=1e-6)


def test_segments_come_in_another_order_each_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooccurrence, "segment_size", lambda entries: 50)
    counting = Counting("t", 40, 5, seed=3)
    feed = count_cooccurrences(tmp_path / "x", random_passages(), counting)
    assert feed.segments == -(-feed.entries // 50)
    orders = [[feed.segment(epoch, i).values.tolist() for i in range(feed.segments)] for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert sorted(map(sorted, orders[0])) == sorted(map(sorted, orders[1]))
    first = np.concatenate([feed.segment(0, i).words for i in range(feed.segments)])
    assert not (np.diff(first) >= 0).mean() > 0.7  # not in the order of the matrix
    sizes = [feed.size(feed.segment(0, i)) for i in range(feed.segments)]
    assert max(sizes) < 100


def test_what_is_counted_is_not_counted_again(tmp_path: Path, counting: Counting) -> None:
    with pytest.raises(UserError, match="the pass over the text was not finished"):
        CooccurrenceFeed(tmp_path / "x", 1)
    first = count_cooccurrences(tmp_path / "x", random_passages(), counting)
    passages = random_passages()
    assert held(count_cooccurrences(tmp_path / "x", passages, counting)) == held(first)
    assert not passages.read


@pytest.mark.parametrize("records", [[], [[-1, 0, -1], [1], []]])
def test_a_text_where_nothing_meets(tmp_path: Path, records: list[list[int]]) -> None:
    with pytest.raises(UserError, match="no two words of the text meet"):
        count_cooccurrences(tmp_path / "x", Passages(records), Counting("t", 2))


def test_one_word_alone(tmp_path: Path) -> None:
    feed = count_cooccurrences(tmp_path / "s", Passages([[0] * 1000]), Counting("t", 400, window=2))
    assert held(feed) == {(0, 0): 2 * (999 + 998 / 2)}


@pytest.fixture
def families() -> Iterator[Passages]:
    """Records that speak of one of two subjects, with words of its own and one word that stands everywhere."""
    rng = np.random.default_rng(0)
    records = []
    for number in range(400):
        own = rng.integers(0, 8, 10) * 2 + 1 + number % 2
        record = own.tolist()
        record.insert(5, 0)
        records.append(record)
    yield Passages(records[:200], records[200:])


def test_glove_learns_subjects_from_the_counts(tmp_path: Path, families: Passages) -> None:
    feed = count_cooccurrences(tmp_path / "x", families, Counting("t", 17, window=10))
    learner = Glove(GloveConfig(width=6), np.ones(17, np.int64), seed=1)
    losses = []
    for epoch in range(60):
        sums = [learner.train(feed.segment(epoch, i), 0.05, epoch, threads=1) for i in range(feed.segments)]
        losses.append(sum(loss for loss, _ in sums) / sum(count for _, count in sums))
    assert losses[-1] < 0.05 * losses[0]
    vectors = learner.vectors()["vectors"][1:]
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -1)
    assert (alike.argmax(1) % 2 == np.arange(16) % 2).all()
