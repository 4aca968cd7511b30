"""`train.max_minutes` becomes a number of steps, which everything follows and a resumed run keeps."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from dragoman.model.errors import UserError
from dragoman.model.ports import free_ports
from dragoman.model.runs import checkpoints, journal, paths
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.settings import OptimizerConfig, TrainConfig
from dragoman.pipelines.training import time_limit
from dragoman.pipelines.training.loop import Trainer
from dragoman.pipelines.training.time_limit import TimeLimit
from tests.pipelines.training.test_loop import CONFIG, CPU, nothing, shards, steps, train
from tests.warm import start_ranks

__all__ = ["shards"]  # a fixture

LONG = replace(
    CONFIG,
    max_steps=2000,
    max_minutes=1.0,
    optimizer=OptimizerConfig(lr=0.01, warmup_steps=200, schedule="cosine"),
    evaluate_every=200,
    checkpoint_every=100,
)


class Clock:
    """A clock that goes on by `tick` seconds whenever it is read."""

    def __init__(self, tick: float) -> None:
        self.now, self.tick = 1000.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of the journal and of the limit. The journal reads it twice a step."""
    clock = Clock(0.2)
    monkeypatch.setattr(journal, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(time_limit, "FIXED", 4.0)
    return clock


def timed(
    shards: Path, run: Path, clock: Clock, config: TrainConfig = LONG, report: Any = nothing, start: float = 0.0
) -> Trainer:
    """Trains for a command that began `start` seconds ago."""
    limit = TimeLimit(config.max_minutes, clock.now - start, passes=3.0, clock=lambda: clock.now)
    return train(shards, run, config, report=report, time_limit=limit)


def notes(run: Path) -> list[str]:
    return [line["note"] for line in journal.lines(run / paths.STEPS) if "note" in line]


def test_everything_follows_the_number_of_steps_that_fit(shards: Path, tmp_path: Path, clock: Clock) -> None:
    """A minute, four seconds of it for the release: some 120 steps of 0.4 s; warm-up a tenth, ten evaluations."""
    began = clock.now
    trainer = timed(shards, tmp_path, clock)
    last = trainer.progress.limit.steps
    assert trainer.progress.step == last and not trainer.progress.stopped
    assert 0.85 * 56 <= clock.now - began <= 1.05 * 56  # what an evaluation writes takes time on this clock
    assert notes(tmp_path)[0].startswith("1 min: ") and " of 2,000 steps, 4 s for evaluation" in notes(tmp_path)[0]
    rates = [line["lr"] for line in steps(tmp_path)]
    assert rates.index(max(rates)) == pytest.approx(last / 10, abs=last / 50) and rates[-1] == 0
    evaluated = [line["step"] for line in journal.lines(tmp_path / paths.STEPS) if "valid_loss" in line]
    assert 10 <= len(evaluated) <= 12 and evaluated[-1] == last
    assert trainer.config.checkpoint_every == round(last / 20)
    assert all(step % trainer.config.checkpoint_every == 0 for step in checkpoints.every(tmp_path) if step != last)


def test_a_resumed_run_keeps_its_number(shards: Path, tmp_path: Path, clock: Clock) -> None:
    def dies(step: int, values: dict[str, float]) -> None:
        if step >= 30:
            raise InterruptedError

    short = replace(LONG, max_minutes=0.4)
    with pytest.raises(InterruptedError):
        timed(shards, tmp_path, clock, short, dies)
    kept = json.loads((checkpoints.last(tmp_path) / checkpoints.STATE).read_text())["limit"]
    clock.tick = 0.001  # a quicker machine
    trainer = timed(shards, tmp_path, clock, short)
    assert trainer.progress.step == trainer.progress.limit.steps == kept["steps"]
    assert steps(tmp_path)[-1]["lr"] == 0
    clock.tick = 0.2
    longer = timed(shards, tmp_path, clock, replace(LONG, max_minutes=0.5))
    assert longer.progress.step > kept["steps"]


def test_a_machine_that_slows_down_ends_early_and_says_so(shards: Path, tmp_path: Path, clock: Clock) -> None:
    began = clock.now

    def slower(step: int, values: dict[str, float]) -> None:
        clock.tick = 3.0 if clock.now - began > 48 else 0.2

    trainer = timed(shards, tmp_path, clock, report=slower)
    assert trainer.progress.step < trainer.progress.limit.steps
    assert notes(tmp_path)[-1] == trainer.progress.stopped
    assert trainer.progress.stopped.startswith(f"1 min are over: step {trainer.progress.step:,} of ")
    assert checkpoints.newest_step(tmp_path) == trainer.progress.step


def test_a_run_whose_steps_are_too_slow_to_plan_ends_when_half_of_what_was_left_is_over(
    shards: Path, tmp_path: Path, clock: Clock
) -> None:
    clock.tick = 2.0
    trainer = timed(shards, tmp_path, clock, start=50.0)
    assert trainer.progress.step in (1, 2) and not trainer.progress.limit.steps
    assert trainer.progress.stopped.startswith(f"1 min: step {trainer.progress.step} of 2,000, which are too slow")
    assert checkpoints.newest_step(tmp_path) == trainer.progress.step


def test_a_command_whose_workers_start_too_late_fails_and_goes_on_with_new_time(
    shards: Path, tmp_path: Path, clock: Clock
) -> None:
    for start in (59.0, 90.0):
        with pytest.raises(
            UserError, match=r"train\.max_minutes=1: the time was over before the first step could be planned"
        ):
            timed(shards, tmp_path, clock, start=start)
        assert checkpoints.newest_step(tmp_path) == 0
    assert timed(shards, tmp_path, clock, replace(LONG, max_minutes=0.4)).progress.limit.steps


def test_what_is_kept_for_the_release_follows_the_commands_own_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow start tells of a slow release; one that waited for room leaves half of the rest to the training."""
    monkeypatch.setattr("os.getloadavg", lambda: (1e6, 0.0, 0.0))  # of what has ended

    def release(start: float) -> float:
        limit = TimeLimit(5.0, began=0.0, passes=3.0, clock=lambda: start + 9.0)
        assert not limit.is_due(time_limit.Limit(), 1, 1.0)
        return limit.decide(LONG, time_limit.Limit(), 10, 10.0, one_pass=1.0).release

    assert [release(start) for start in (2.0, 50.0, 240.0)] == [15.0, 53.0, 30.0]


def test_a_number_is_corrected_where_the_speed_has_changed(shards: Path, tmp_path: Path, clock: Clock) -> None:
    began = clock.now

    def slower(step: int, values: dict[str, float]) -> None:
        clock.tick = 0.4 if clock.now - began > 10 else 0.2

    trainer = timed(shards, tmp_path, clock, report=slower)
    assert trainer.progress.step == trainer.progress.limit.steps and steps(tmp_path)[-1]["lr"] == 0
    first, *corrections = notes(tmp_path)
    assert ": now " not in first and corrections and all(": now " in note for note in corrections)
    assert 0.85 * 56 <= clock.now - began <= 1.05 * 56  # what an evaluation writes takes time on this clock


def rank_process(rank: int, port: int, shards: str, run: str) -> None:
    """A rank with a clock of its own: only the first one's may decide."""
    torch.set_num_threads(1)
    time_limit.FIXED, clock = 0.0, Clock(0.1)
    vars(journal)["time"] = SimpleNamespace(monotonic=clock)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    limit = TimeLimit(0.2, clock.now, passes=1.0, clock=lambda: clock.now + 5 * rank)
    ranks = Ranks(rank, 2, CPU)
    trainer = train(Path(shards), Path(run), replace(LONG, max_minutes=0.2), ranks, time_limit=limit)
    Path(run, f"limit-{rank}.json").write_text(json.dumps([trainer.progress.step, vars(trainer.progress.limit)]))
    dist.destroy_process_group()


@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
def test_all_ranks_have_one_number(shards: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    start_ranks(rank_process, (port, str(shards), str(tmp_path)))
    first, second = (json.loads((tmp_path / f"limit-{rank}.json").read_text()) for rank in range(2))
    assert first == second and first[1]["steps"]
