"""Beside a score stands how often its set was scored before, and which of its lines the model learned from."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.runs.paths import TRAINING
from dragoman.model.text.hashed_texts import read_hashes, seen, write_hashes
from dragoman.model.text.text_keys import sentence_keys
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.settings import EvaluateConfig
from dragoman.pipelines.tasks.held_out_set import describe_set, held_split
from dragoman.pipelines.tasks.training_texts import overlap
from dragoman.pipelines.tracking import server
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.settings import TrackingConfig
from tests.held_out import keep_texts

SOURCES = [f"The dog sees cat number {letter}." for letter in "abcdefghij"]
TARGETS = [f"Der Hund sieht Katze Nummer {letter}." for letter in "abcdefghij"]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    server.make_database(tmp_path / "mlflow.db")  # a copy, see conftest.py
    shards = keep_texts(tmp_path / "shards", {split: {"en": SOURCES, "de": TARGETS} for split in ("valid", "test")})
    return Config(
        paths=PathsConfig(root=str(tmp_path), runs=str(tmp_path / "runs"), shards=str(shards)),
        tracking=TrackingConfig(uri=f"sqlite:///{tmp_path}/mlflow.db", artifacts=str(tmp_path), system_metrics=False),
    )


def scored(config: Config, run: str) -> str:
    """Returns the lines beside a score of a run, whose record is sent before the next."""
    folder = Path(config.paths.runs) / run
    folder.mkdir(parents=True, exist_ok=True)
    with TrackedRun(config.tracking, folder, run, system=False) as tracked:
        lines = describe_set(config, folder, run, [], tracked)
        assert tracked.flush(30)
    return lines


def test_scorings_are_counted_over_all_runs(config: Config) -> None:
    held = held_split(config.shard_dir, "test")
    assert held is not None
    first, *told = [scored(config, run) for run in ("one", "one", "two", "one")]
    assert "before" not in first
    assert [lines.split("\n")[0] for lines in told] == [
        f"test (set {held.digest}): scored {times} before" for times in ("1 time", "2 times", "3 times")
    ]
    folder = Path(config.paths.root) / "elsewhere"  # the run's folder is on another machine
    folder.mkdir()
    assert "scored 4 times before" in describe_set(config, folder, "two", [])
    assert "scored 5 times before" in describe_set(config, folder, "two", [])


def test_sets_to_choose_on_and_offline_scores_are_not_counted(config: Config) -> None:
    assert "before" not in scored(replace(config, evaluate=EvaluateConfig(split="valid")), "one")
    offline = replace(config, tracking=replace(config.tracking, offline=True))
    assert "before" not in describe_set(offline, Path(config.paths.root), "one", [])


def test_lines_that_a_model_learned_from_are_named(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In any spelling, of either side."""
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    write_hashes(bundle / TRAINING, [sentence_keys([SOURCES[7].upper(), TARGETS[8].rstrip("."), "Another text"])])
    told = describe_set(config, tmp_path, "one", [bundle])
    assert "the model learned from 2 of its 10 lines (8, 9)" in told
    assert "a score on them says little of others" in caplog.text
    assert "unknown training texts" in describe_set(config, tmp_path, "one", [tmp_path])
    known = overlap([bundle], (SOURCES, TARGETS))
    assert known is not None and (known.lines, known.share) == ((8, 9), 0.2)


def test_hashes_are_sorted_once_each_and_without_texts_of_no_letters(tmp_path: Path) -> None:
    path = tmp_path / TRAINING
    keys = sentence_keys([*SOURCES, *SOURCES, "123 !"])
    write_hashes(path, [keys[5:], keys[:5]])
    assert read_hashes(path).tolist() == sorted(set(sentence_keys(SOURCES).tolist()))
    assert not seen(path, [["?", "Unseen"]]).any()
    write_hashes(path, [])
    assert not seen(path, [SOURCES]).any()
    for content in (b"", b"no array", np.arange(3).tobytes()):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"no hashes of training texts .*; make the bundle again"):
            seen(path, [SOURCES])
    np.save(path, np.arange(3))
    with pytest.raises(UserError, match="int64"):
        seen(path, [SOURCES])
