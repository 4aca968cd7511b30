"""Segments: every record once an epoch, the same ones for any number of ranks, and nothing tokenised."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.writer import Record
from dragoman.model.text.tokenizer import SPECIAL
from dragoman.pipelines.loaders.segments import ShardText, language, shard_vocabulary, token_counts
from tests.random_shards import VOCABULARY, MakeShards, random_records


@pytest.fixture
def shards(make_shards: MakeShards) -> Path:
    return make_shards([(source, None) for source, _ in random_records(300)])


def text(shards: Path, words: int = 100, min_count: int = 1, side: str | None = None, seed: int = 1) -> ShardText:
    vocabulary, _ = shard_vocabulary(shards, side, min_count)
    return ShardText(shards, "train", vocabulary, side, words, seed)


def records_of(feed: ShardText, epoch: int, start: int = 0, step: int = 1) -> list[tuple[int, ...]]:
    found = []
    for index in range(start, feed.segments, step):
        segment = feed.segment(epoch, index)
        assert segment.rows.dtype == np.int32 and segment.offsets.dtype == np.int64
        for begin, end in zip(segment.offsets[:-1], segment.offsets[1:], strict=True):
            found.append(tuple(segment.rows[begin:end].tolist()))
    return found


@pytest.mark.parametrize("words", [1, 7, 100, 1_000, 10**6])
def test_every_record_comes_once_an_epoch(shards: Path, words: int) -> None:
    vocabulary, _ = shard_vocabulary(shards, None, 1)
    expected = Counter(
        tuple(vocabulary.rows[source].tolist()) for chunk in ShardReader(shards, "train") for source, _ in chunk.rows()
    )
    feed = text(shards, words)
    assert Counter(records_of(feed, 0)) == Counter(records_of(feed, 1)) == expected
    assert all(row[-1] == -1 for row in expected)  # the end of a record is left out


def test_segments_are_about_as_long_as_asked(shards: Path) -> None:
    feed = text(shards, 100)
    sizes = [feed.size(feed.segment(0, index)) for index in range(feed.segments)]
    assert feed.segments == round(feed.tokens / 100)
    assert sum(sizes) == feed.tokens - 300
    assert max(sizes) < 100 + 31 and min(sizes) > 50


def test_a_segment_depends_on_seed_epoch_and_number_alone(shards: Path) -> None:
    one, other = text(shards), text(shards)
    backwards = [one.segment(1, index).rows.tolist() for index in reversed(range(one.segments))]
    assert [other.segment(1, index).rows.tolist() for index in range(other.segments)] == backwards[::-1]
    assert records_of(one, 0) != records_of(one, 1)
    assert records_of(one, 0) != records_of(text(shards, seed=2), 0)


def test_two_ranks_together_read_what_one_reads(shards: Path) -> None:
    both = records_of(text(shards), 0, 0, 2) + records_of(text(shards), 0, 1, 2)
    assert Counter(both) == Counter(records_of(text(shards), 0))


def test_counts_are_those_of_the_text(shards: Path) -> None:
    reader = ShardReader(shards, "train")
    expected = Counter(int(i) for chunk in reader for source, _ in chunk.rows() for i in source)
    counts = token_counts(reader, 0, VOCABULARY)
    assert {i: int(count) for i, count in enumerate(counts) if count} == dict(expected)


def test_rare_words_are_left_out(make_shards: MakeShards) -> None:
    first = len(SPECIAL)
    rows = [[first, first + 1], [first, first + 1, first + 2], [first]]
    records: list[Record] = [(np.asarray(row, dtype=np.uint16), None) for row in rows]
    feed = text(make_shards(records), 10**6, min_count=2)
    assert Counter(records_of(feed, 0)) == Counter([(0, 1, -1), (0, 1, -1, -1), (0, -1)])


def test_a_side_of_parallel_shards(make_shards: MakeShards, random_pairs: list[Record]) -> None:
    shards = make_shards(random_pairs)
    feed = text(shards, side="target")
    lengths = Counter(len(row) - 1 for row in records_of(feed, 0))
    assert lengths == Counter(len(target) for _, target in random_pairs if target is not None)
    assert language(shards, "target") == "de"
    with pytest.raises(UserError, match=r"vectors\.side.*Choices: vectors\.side=source \(en\), vectors"):
        text(shards)


def test_a_side_of_shards_of_one_language_is_refused(shards: Path) -> None:
    assert language(shards, None) == "en"
    with pytest.raises(UserError, match=r"vectors\.side=target: the shards hold one language"):
        text(shards, side="target")
