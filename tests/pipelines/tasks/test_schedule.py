"""A learning rate that falls to an end: a run that goes on keeps the course that it began with, unless asked."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.runs import journal, paths
from dragoman.model.runs.spool import Spool
from dragoman.pipelines import train
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks import launch
from dragoman.pipelines.training.time_limit import TimeLimit
from tests.pipelines.tasks.test_language_train import LINES, MODELS, config

FIRST = ["train.max_steps=8", "train.optimizer.lr=0.01"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    shard(config(folder))
    return folder


@pytest.fixture(autouse=True)
def unreleased(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after the last step is no part of these tests, and most of their time."""
    monkeypatch.setattr(launch, "release", lambda *_: None)


def start(home: Path, name: str, schedule: str, *overrides: str) -> Path:
    words = ["model=rnnlm_lstm", *MODELS["rnnlm_lstm"], f"name={name}", f"train.optimizer.schedule={schedule}"]
    assert train.task(config(home, *words, *FIRST, *overrides)) == 0
    return home / "artifacts" / "runs" / name


def rates(run: Path) -> list[float]:
    return [line["lr"] for line in journal.lines(run / paths.STEPS) if "batch" in line]


def plans(run: Path) -> Any:
    return json.loads((run / "run.json").read_text()).get("plans")


def tag(run: Path) -> str:
    """What MLflow shows of the schedule."""
    told = [one.fields["values"] for one in Spool(run).records() if one.kind == "tags"]
    return str([values["schedule"] for values in told if "schedule" in values][-1])


def test_a_run_that_goes_on_keeps_the_course_of_its_rate(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = start(home, "whole", "cosine")
    assert rates(whole)[7] == 0 and "train.schedule_steps" not in caplog.text
    assert plans(whole) == [{"from_step": 0, "max_steps": 8, "schedule_steps": 8}]
    start(home, "cut", "cosine", "train.max_steps=4", "train.schedule_steps=8")
    cut = start(home, "cut", "cosine")
    assert rates(cut) == rates(whole)
    floor = start(home, "floor", "cosine", "train.optimizer.min_lr=0.001")
    longer = start(home, "floor", "cosine", "train.optimizer.min_lr=0.001", "train.max_steps=12")
    assert rates(floor)[8:] == [0.001] * 4
    assert "the cosine schedule of this run ends at step 8 as it was planned" in caplog.text
    assert "train.schedule_steps=12 moves its end there" in caplog.text
    assert [plan["schedule_steps"] for plan in plans(longer)] == [8, 8]


def test_steps_that_would_teach_nothing_are_refused_with_the_setting_that_gives_them_a_rate(home: Path) -> None:
    run = start(home, "over", "cosine")
    with pytest.raises(UserError, match=r"ended at step 8, .* rate 0; train\.schedule_steps=12 moves its end there"):
        start(home, "over", "cosine", "train.max_steps=12")
    assert len(rates(run)) == 8 and plans(run) == [{"from_step": 0, "max_steps": 8, "schedule_steps": 8}]


def test_another_end_is_asked_for_and_both_plans_are_kept(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = start(home, "bent", "cosine")
    assert start(home, "bent", "cosine", "train.max_steps=12", "train.schedule_steps=12") == run
    assert 0 < rates(run)[11 - 1] < rates(run)[8] < 0.01 and rates(run)[11] == 0
    assert "ended at step 8 and ends at step 12 from now on; the rate of step 9 is" in caplog.text
    both = [
        {"from_step": 0, "max_steps": 8, "schedule_steps": 8},
        {"from_step": 8, "max_steps": 12, "schedule_steps": 12},
    ]
    assert plans(run) == both
    assert tag(run) == (
        "from step 0: cosine to step 8, trained to step 8; from step 8: cosine to step 12, trained to step 12"
    )
    with pytest.raises(UserError, match="ended at step 12"):  # the last plan that was asked for stays
        start(home, "bent", "cosine", "train.max_steps=14")


def test_a_rate_without_an_end_goes_on_as_ever(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = start(home, "inverse-whole", "inverse_sqrt", "train.max_steps=12")
    start(home, "inverse", "inverse_sqrt")
    run = start(home, "inverse", "inverse_sqrt", "train.max_steps=12")
    assert rates(run) == rates(whole)
    assert [plan["max_steps"] for plan in plans(run)] == [8, 12] and "schedule" not in caplog.text
    assert not any("schedule" in record.fields["values"] for record in Spool(run).records() if record.kind == "tags")


def test_a_run_without_a_checkpoint_is_planned_anew(home: Path, tmp_path: Path) -> None:
    run = start(home, "anew", "cosine")
    for folder in (run / "checkpoints").iterdir():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    start(home, "anew", "cosine", "train.max_steps=6")
    assert plans(run) == [{"from_step": 0, "max_steps": 6, "schedule_steps": 6}]
    assert rates(run)[5] == 0


def test_the_plan_of_a_run_with_a_time_limit_is_its_number_of_steps(
    home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimeLimit, "left", lambda _: 60.0)  # however slow the machine is
    limit = ("train.max_steps=5000", "train.max_minutes=0.05")  # less than a release takes: it ends once it is planned
    run = start(home, "timed", "cosine", *limit)
    last = len(rates(run))
    assert last < 5000
    assert plans(run) == [{"from_step": 0, "max_steps": 5000, "schedule_steps": last, "last_step": last}]
    assert tag(run) == f"from step 0: cosine to step {last}, trained to step {last}"
    caplog.set_level("INFO")
    start(home, "timed", "cosine", *limit)
    assert len(rates(run)) == last and "the run is trained to its end" in caplog.text
