"""Stops: what a signal does to the command, and where all ranks stop when one was asked for."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from dragoman.conf.interrupts import Interrupted
from dragoman.model.ports import free_ports
from dragoman.model.runs import attempts, checkpoints, paths
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.training import stopping
from dragoman.pipelines.training.loop import Report
from tests.pipelines.training.test_loop import CONFIG, CPU, steps, train, weights
from tests.random_shards import MakeShards
from tests.warm import start_ranks

EVERY = replace(CONFIG, log_every=1)


@pytest.fixture
def shards(make_shards: MakeShards, random_pairs: list[Any]) -> Path:
    return make_shards(random_pairs)


def asks_at(wanted: int, run: Path) -> Report:
    def report(step: int, values: dict[str, float]) -> None:
        if step == wanted:
            stopping.request_stop(run, 143)

    return report


def kept(run: Path, folder: str) -> list[str]:
    return sorted({path.stem for path in (run / folder).iterdir()})  # weights have a hash beside each


def test_a_run_that_is_asked_to_stop_keeps_the_next_step_and_goes_on_to_the_same_bits(
    shards: Path, tmp_path: Path
) -> None:
    run = tmp_path / "stopped"
    train(shards, tmp_path / "whole")
    stopped = train(shards, run, EVERY, report=asks_at(5, run))
    assert stopped.progress.step == 6 and not stopped.progress.stopped
    assert kept(run, "checkpoints") == ["step-00000004", "step-00000006"]
    again = train(shards, run, EVERY)  # still asked for: the next start of the command forgets it
    assert again.progress.step == 6
    (run / paths.STOP).unlink()
    train(shards, run)
    for name, value in weights(tmp_path / "whole").items():
        assert torch.equal(value, weights(run)[name])
    assert [line["batch"] for line in steps(run)] == [line["batch"] for line in steps(tmp_path / "whole")]
    # the final model is an average of these: it does not depend on when the run was stopped
    assert kept(run, "weights") == kept(tmp_path / "whole", "weights") == ["step-00000008", "step-00000012"]


def test_the_clock_makes_checkpoints_beside_those_by_steps(shards: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, checkpoint_minutes=1e-9, max_steps=5, keep_checkpoints=9)
    train(shards, tmp_path / "run", config)
    assert kept(tmp_path / "run", "checkpoints") == [f"step-0000000{step}" for step in range(1, 6)]
    assert kept(tmp_path / "run", "weights") == ["step-00000004", "step-00000005"]
    train(shards, tmp_path / "steps", replace(config, checkpoint_minutes=0))
    assert kept(tmp_path / "steps", "checkpoints") == ["step-00000004", "step-00000005"]


def rank_process(rank: int, port: int, shards: str, run: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    report = asks_at(5, Path(run)) if rank == 0 else asks_at(-1, Path(run))
    stopped = train(Path(shards), Path(run), EVERY, Ranks(rank, 2, CPU), report)
    assert stopped.progress.step == 6
    dist.destroy_process_group()


@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
def test_all_ranks_stop_at_the_same_step(shards: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    start_ranks(rank_process, (port, str(shards), str(tmp_path / "run")))
    newest = checkpoints.newest(tmp_path / "run")
    assert newest is not None and newest.name == "step-00000006"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_outside_of_training_interrupts_at_once(tmp_path: Path, number: signal.Signals, code: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match="before the first checkpoint") as caught, stopping.signals(tmp_path):
        os.kill(os.getpid(), number)
    assert caught.value.code == code
    assert signal.getsignal(number) == before


def test_a_signal_while_workers_train_waits_for_their_checkpoint(tmp_path: Path) -> None:
    came_to_its_end = False
    with pytest.raises(Interrupted) as caught, stopping.signals(tmp_path) as received, received.awaited():
        attempts.next_attempt(tmp_path)  # the workers have begun
        os.kill(os.getpid(), signal.SIGTERM)
        came_to_its_end = stopping.read_request(tmp_path) == 143
    assert came_to_its_end and caught.value.code == 143
    with stopping.signals(tmp_path):
        assert stopping.read_request(tmp_path) is None


def test_a_second_sigterm_changes_nothing_for_it_comes_to_every_process_of_a_job(tmp_path: Path) -> None:
    with pytest.raises(Interrupted) as caught, stopping.signals(tmp_path) as received, received.awaited():
        attempts.next_attempt(tmp_path)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 143


def test_a_request_says_why_and_a_pause_is_none(tmp_path: Path) -> None:
    stopping.request_stop(tmp_path / "run", reason="a node goes away")
    assert (stopping.read_request(tmp_path / "run"), stopping.read_reason(tmp_path / "run")) == (75, "a node goes away")
    stopping.request_pause(tmp_path / "paused")
    assert stopping.is_asked(tmp_path / "paused") and stopping.read_request(tmp_path / "paused") is None
    stopping.forget(tmp_path / "paused")
    assert not stopping.is_asked(tmp_path / "paused")


def test_a_second_ctrl_c_does_not_wait_for_the_checkpoint(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = []
    refused = pytest.raises(Interrupted, match=r"interrupted \(SIGINT\)")
    with refused, stopping.signals(tmp_path) as received, received.awaited():
        attempts.next_attempt(tmp_path)
        os.kill(os.getpid(), signal.SIGINT)
        said.append("asked")
        os.kill(os.getpid(), signal.SIGINT)
        said.append("waited")
    assert said == ["asked"]
    assert "stopping at the next step" in capfd.readouterr().err


def test_a_signal_while_the_record_is_closed_disturbs_nothing_and_a_third_ctrl_c_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    monkeypatch.setattr("os._exit", codes.append)
    with pytest.raises(Interrupted), stopping.signals(tmp_path) as received:
        try:
            with received.awaited():
                os.kill(os.getpid(), signal.SIGINT)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)
            assert not codes
            os.kill(os.getpid(), signal.SIGINT)
    assert codes == [130]
    assert "interrupted again: ended at once" in capfd.readouterr().err
