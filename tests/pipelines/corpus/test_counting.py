"""Counting in bounded memory gives the counts of a Counter, however often the table spills."""

import random
from collections import Counter
from pathlib import Path

import pytest

from dragoman.pipelines.corpus.pack import counting
from dragoman.pipelines.corpus.pack.counting import BoundedCounts, merged_files, read_run


def _text(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [f"wörd{int(rng.paretovariate(0.6)) % 3000}" for _ in range(count)]


@pytest.mark.parametrize("most_bytes", [200, 5_000, 10**9])
def test_a_table_that_spills_counts_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int) -> None:
    monkeypatch.setattr(counting, "MOST_RUNS", 4)
    text = _text(8_000, 1)
    counts = BoundedCounts(tmp_path / "run", most_bytes)
    largest = 0
    for start in range(0, len(text), 100):
        counts.add(Counter(text[start : start + 100]))
        largest = max(largest, len(counts.table))
    assert largest <= most_bytes // counting.ENTRY_BYTES + 1
    assert list(read_run(counts.finish())) == sorted(Counter(text).items())
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_many_runs_are_merged_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_RUNS", 3)
    total: Counter[str] = Counter()
    runs = []
    for number in range(20):
        words = Counter(_text(200, number))
        total += words
        counts = BoundedCounts(tmp_path / f"{number:02d}.run")
        counts.add(words)
        runs.append(counts.finish())
    merged = merged_files(runs, tmp_path / "all.run")
    assert list(read_run(merged)) == sorted(total.items())
    assert all(run.exists() for run in runs), "they are needed again after a kill"
    assert len(list(tmp_path.iterdir())) == 21


def test_nothing_counted_is_an_empty_run(tmp_path: Path) -> None:
    assert list(read_run(BoundedCounts(tmp_path / "run").finish())) == []
    assert list(read_run(merged_files([], tmp_path / "all"))) == []
