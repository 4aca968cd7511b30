"""The co-occurrence pass: hand-worked counts, any budget and any kill give the same bytes."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.glove import Glove, GloveConfig
from dragoman.model.word_vectors.learner import Text
from dragoman.pipelines.word_vectors import cooccurrence
from dragoman.pipelines.word_vectors.cooccurrence import (
    CooccurrenceFeed,
    Counting,
    count_cooccurrences,
    merge_runs,
    unit,
    units,
    write_run,
)

LARGE, TINY = 64 << 20, 1
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


def digest(folder: Path) -> str:
    names = sorted(folder.glob("segment-*"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in names)).hexdigest()


@pytest.fixture
def counting() -> Counting:
    return Counting("random", vocabulary=40, window=5)


def test_counts_worked_by_hand(tmp_path: Path) -> None:
    """a b a c | c b: neighbours within a window of two, a left-out word between a and c of the first record."""
    passages = Passages([[0, 1, 0, -1, 2]], [[2, 1], []])
    feed = count_cooccurrences(tmp_path / "x", passages, Counting("t", 3, window=2), LARGE)
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
    feed = count_cooccurrences(tmp_path / "x", Passages([[0, 1, 2]]), counting, LARGE)
    assert held(feed) == {(1, 0): 1.0, (2, 1): 1.0, (2, 0): 0.5}


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("window", "memory"), [(1, TINY), (5, TINY), (5, 2000), (5, LARGE), (15, 8000), (30, 8000)])
def test_any_budget_gives_the_defined_matrix(tmp_path: Path, symmetric: bool, window: int, memory: int) -> None:
    passages = random_passages(segments=3, words=40)
    feed = count_cooccurrences(tmp_path / "x", passages, Counting("t", 40, window, symmetric), memory)
    wanted = expected(passages, window, symmetric)
    found = held(feed)
    assert found.keys() == wanted.keys()
    if window <= 22:
        assert found == wanted
    np.testing.assert_allclose([found[cell] for cell in wanted], list(wanted.values()), rtol=1e-6)


def test_the_bytes_do_not_depend_on_the_budget(tmp_path: Path, counting: Counting) -> None:
    passages, digests = random_passages(), set()
    for memory in (500, 5000, LARGE):
        folder = tmp_path / str(memory)
        count_cooccurrences(folder, passages, counting, memory)
        digests.add(digest(folder))
        names = {path.name.split("-")[0] for path in folder.iterdir()}
        assert names == {"made", "segment", "cooccurrences.json"}
    assert len(digests) == 1


def test_segments_come_in_another_order_each_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooccurrence, "segment_size", lambda entries: 50)
    counting = Counting("t", 40, 5, seed=3)
    feed = count_cooccurrences(tmp_path / "x", random_passages(), counting, LARGE)
    assert feed.segments == -(-feed.entries // 50)
    orders = [[feed.segment(epoch, i).values.tolist() for i in range(feed.segments)] for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert sorted(map(sorted, orders[0])) == sorted(map(sorted, orders[1]))
    first = np.concatenate([feed.segment(0, i).words for i in range(feed.segments)])
    assert not (np.diff(first) >= 0).mean() > 0.7  # not in the order of the matrix
    sizes = [feed.size(feed.segment(0, i)) for i in range(feed.segments)]
    assert max(sizes) < 100


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours handles it."""


def kill_after(monkeypatch: pytest.MonkeyPatch, name: str, calls: int) -> None:
    """Make the function `name` of the pass die at call number `calls`."""
    real, count = getattr(cooccurrence, name), iter(range(1, 10**9))

    def dying(*args: object, **keys: object) -> object:
        if next(count) == calls:
            raise Killed
        return real(*args, **keys)

    monkeypatch.setattr(cooccurrence, name, dying)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("write_run", 1),
        ("write_run", 4),
        ("write_entries", 1),
        ("write_json", 2),  # after the merge
        ("as_entries", 3),
        ("with_mirrors", 1),
        ("segment_path", 3),
        ("write_json", 3),  # after the last segment
        ("finish", 1),
    ],
)
def test_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counting: Counting, name: str, calls: int
) -> None:
    passages = random_passages()
    count_cooccurrences(tmp_path / "whole", passages, counting, LARGE)
    with monkeypatch.context() as patch:
        patch.setattr(cooccurrence, "segment_size", lambda entries: 300)
        count_cooccurrences(tmp_path / "cut", passages, counting, LARGE)
        wanted = digest(tmp_path / "cut")
        folder = tmp_path / "x"
        kill_after(patch, name, calls)
        with pytest.raises(Killed):
            count_cooccurrences(folder, passages, counting, 4000)
    monkeypatch.setattr(cooccurrence, "segment_size", lambda entries: 300)
    if name != "finish":  # the summary was written
        with pytest.raises(UserError, match="not finished"):
            CooccurrenceFeed(folder)
    for leftover in ("run-x.123.part", ".part-node-123-4-run-x"):  # an earlier version's, and ours
        (folder / leftover).touch()
    count_cooccurrences(folder, passages, counting, 7000)
    assert digest(folder) == wanted
    assert not list(folder.glob("*part*"))


def test_finished_runs_are_not_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counting: Counting
) -> None:
    passages = random_passages()
    with monkeypatch.context() as patch:
        kill_after(patch, "write_run", 4)
        with pytest.raises(Killed):
            count_cooccurrences(tmp_path / "x", passages, counting, 3000)
    last = cooccurrence.run_paths(tmp_path / "x")[-1]
    begins = int(last.stem.split("-")[2])
    assert begins > 0
    passages.read.clear()
    count_cooccurrences(tmp_path / "x", passages, counting, 3000)
    assert passages.read == list(range(begins, passages.segments))
    passages.read.clear()
    count_cooccurrences(tmp_path / "x", passages, counting, 3000)
    assert passages.read == []


def test_runs_that_ended_within_a_segment_are_counted_again(tmp_path: Path, counting: Counting) -> None:
    """As an earlier version left them when it was killed."""
    passages = random_passages()
    count_cooccurrences(tmp_path / "whole", passages, counting, LARGE)
    folder = tmp_path / "x"
    assert not cooccurrence.open_folder(folder_of(folder), {**asdict(counting), "segments": 6})
    for number, (segment, word) in enumerate([(1, 0), (2, 0), (2, 17)]):
        cells = cooccurrence.count_pairs(passages.texts[number], counting)
        write_run(folder / f"run-{number:06d}-{segment:09d}-{word:012d}.cells", [cells])
    passages.read.clear()
    count_cooccurrences(folder, passages, counting, LARGE)
    assert digest(folder) == digest(tmp_path / "whole") and passages.read == [2, 3, 4, 5]


def folder_of(path: Path) -> Path:
    path.mkdir()
    return path


def test_another_window_or_text_starts_anew(tmp_path: Path, counting: Counting) -> None:
    passages, folder = random_passages(), tmp_path / "x"
    count_cooccurrences(folder, passages, counting, LARGE)
    for other in (replace(counting, window=2), replace(counting, text="other"), replace(counting, symmetric=False)):
        passages.read.clear()
        feed = count_cooccurrences(folder, passages, other, LARGE)
        assert passages.read == list(range(passages.segments))
        assert held(feed) == expected(passages, other.window, other.symmetric)


def test_progress_is_reported(tmp_path: Path, counting: Counting) -> None:
    told: list[tuple[int, int]] = []
    count_cooccurrences(tmp_path / "x", random_passages(), counting, LARGE, lambda *done: told.append(done))
    assert told == [(number, 6) for number in range(1, 7)]


@pytest.mark.parametrize("records", [[], [[0]], [[0], [1], []], [[-1, 0, -1], [-1]]])
def test_a_text_where_nothing_meets(tmp_path: Path, records: list[list[int]]) -> None:
    with pytest.raises(UserError, match="no two words of the text meet"):
        count_cooccurrences(tmp_path / "x", Passages(records), Counting("t", 2), LARGE)


def test_one_word_alone(tmp_path: Path) -> None:
    feed = count_cooccurrences(tmp_path / "s", Passages([[0] * 1000]), Counting("t", 400, window=2), 4000)
    assert held(feed) == {(0, 0): 2 * (999 + 998 / 2)}


def test_files_of_others_are_left_alone(tmp_path: Path, counting: Counting) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(UserError, match="thesis"):
        count_cooccurrences(tmp_path, random_passages(), counting, LARGE)
    assert (tmp_path / "thesis.txt").exists()


def test_a_second_pass_into_the_same_folder_is_refused(tmp_path: Path, counting: Counting) -> None:
    with cooccurrence.claim_folder(tmp_path), pytest.raises(UserError, match="another process"):
        count_cooccurrences(tmp_path, random_passages(), counting, LARGE)


def test_a_cut_segment_is_refused(tmp_path: Path, counting: Counting) -> None:
    feed = count_cooccurrences(tmp_path / "x", random_passages(), counting, LARGE)
    path = cooccurrence.segment_path(feed.folder, 0)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"segment-000000.entries: \d+ bytes instead of"):
        CooccurrenceFeed(feed.folder)


def test_runs_are_merged_in_pieces(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    total: dict[int, int] = defaultdict(int)
    paths = []
    for number in range(5):
        cells = np.unique(rng.integers(0, 500, 20 * number))  # the first run is empty
        counts = rng.integers(1, 100, len(cells))
        for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
            total[cell] += count
        paths.append(tmp_path / f"{number}")
        write_run(paths[-1], iter([np.stack([cells, counts], axis=1)[part] for part in (slice(7), slice(7, None))]))
    for at_once in (1, 10, 40, 10_000):
        blocks = list(merge_runs(paths, at_once))
        assert np.concatenate(blocks).tolist() == [[cell, total[cell]] for cell in sorted(total)]
        assert max(map(len, blocks)) <= max(at_once, 5)
    assert list(merge_runs(paths[:1], 10)) == list(merge_runs([], 10)) == []


def test_units_are_exact_where_they_can_be() -> None:
    for window in (1, 2, 15, 22):
        assert all(int(weight) * (n + 1) == unit(window) for n, weight in enumerate(units(window)))
    found = units(500) / unit(500)
    np.testing.assert_allclose(found, 1 / np.arange(1, 501), rtol=1e-6)


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
    feed = count_cooccurrences(tmp_path / "x", families, Counting("t", 17, window=10), LARGE)
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
