"""A release keeps to the time of its command: a network that is slow to translate is measured by fewer sentences."""

import json
from pathlib import Path

import pytest

from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.runs import checkpoints, journal, paths
from dragoman.pipelines import train
from dragoman.pipelines.tasks import translation_release
from dragoman.pipelines.training.time_limit import TimeLimit
from tests.pipelines.tasks.test_warm_start import config


def sentences(run: Path) -> tuple[int, int]:
    """Of the evaluation, and of the comparison of int8 with float32 (0 on a machine without int8)."""
    measured = json.loads(paths.evaluation(run, "test").read_text())["scores"]["sentences"]
    return measured, load_bundle(run / "bundle").facts.get("int8", {"sentences": 0})["sentences"]


def test_a_command_whose_time_is_over_ends_early_and_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(translation_release, "SAMPLE", 5)
    monkeypatch.setattr(translation_release, "FEWEST", 10)
    late = config(home, "name=late", "train.max_minutes=0.00001")
    with pytest.raises(UserError, match="the time was over before the first step"):
        train.task(late)
    assert not late.run_dir.exists() or not checkpoints.newest_step(late.run_dir)
    monkeypatch.setattr(TimeLimit, "left", lambda _: 1e-9)
    assert train.task(late) == 0
    (note,) = [line["note"] for line in journal.lines(late.run_dir / paths.STEPS) if "note" in line]
    assert note == "1e-05 min: step 1 of 4, which are too slow to plan; the rest is evaluation and release"
    assert sentences(late.run_dir) in ((10, 10), (10, 0))
    assert "the release translates the first 10 of 20" in caplog.text


def test_a_command_with_time_measures_by_all_sentences(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(translation_release, "SAMPLE", 5)
    monkeypatch.setattr(translation_release, "FEWEST", 10)
    monkeypatch.setattr("os.getloadavg", lambda: (1e6, 0.0, 0.0))  # of what has ended
    early = config(home, "name=early", "train.max_minutes=1000")
    assert train.task(early) == 0
    assert sentences(early.run_dir) in ((20, 20), (20, 0))
    assert "the release translates" not in caplog.text
