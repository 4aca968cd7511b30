"""Runs of counts add up to the counts of a Counter."""

import random
from collections import Counter
from pathlib import Path

import pytest

from dragoman.pipelines.corpus.pack import counting
from dragoman.pipelines.corpus.pack.counting import merged_files, read_run, write_run


def _text(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [f"wörd{int(rng.paretovariate(0.6)) % 3000}" for _ in range(count)]


def test_many_runs_are_merged_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_RUNS", 3)
    total: Counter[str] = Counter()
    runs = []
    for number in range(20):
        words = Counter(_text(200, number))
        total += words
        runs.append(write_run(tmp_path / f"{number:02d}.run", sorted(words.items())))
    merged = merged_files(runs, tmp_path / "all.run")
    assert list(read_run(merged)) == sorted(total.items())
    assert all(run.exists() for run in runs), "they are needed again after a kill"
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    merged.unlink()
    assert list(read_run(merged_files(runs, merged))) == sorted(total.items())
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert [name for name in before if before[name] != after[name]] == ["all.run"], "what was merged is merged once"


def test_nothing_counted_is_an_empty_run(tmp_path: Path) -> None:
    assert list(read_run(merged_files([], tmp_path / "all"))) == []
