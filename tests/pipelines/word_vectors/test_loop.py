"""The loop of word vectors: exact resume, turns of one and two ranks, losses, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from dragoman.model.errors import UserError
from dragoman.model.ports import free_ports
from dragoman.model.runs import checkpoints, journal, paths
from dragoman.model.word_vectors.learner import Text
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.loaders.segments import ShardText, shard_vocabulary
from dragoman.pipelines.training import checkpoint, stopping
from dragoman.pipelines.training.verification import DifferenceError, compare_steps
from dragoman.pipelines.word_vectors.averaging import Averaging
from dragoman.pipelines.word_vectors.loop import Decay, Progress, Report, replay_segments, train_tables
from dragoman.pipelines.word_vectors.settings import VectorsConfig
from tests.random_shards import MakeShards, random_records
from tests.warm import start_ranks

CONFIG = VectorsConfig(epochs=3, segment_words=200, checkpoint_every=5, checkpoint_minutes=0, log_every=4)
CPU = torch.device("cpu")
ALONE = Ranks(0, 1, CPU)


class Noise:
    """A learner whose tables remember every segment, its rate and what was drawn for it; a word costs its row."""

    def __init__(self, words: int, factor: float = 1.0) -> None:
        self.tables = {"vectors": np.ones((words, 16), dtype=np.float32)}
        self._factor = np.float32(factor)

    def train(self, segment: Text, lr: float, seed: int, threads: int) -> tuple[float, int]:
        rows = segment.rows[segment.rows >= 0]
        drawn = np.random.default_rng(seed).standard_normal((len(rows), 16), dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(self.tables["vectors"], rows, np.float32(lr) * drawn)
            self.tables["vectors"] *= self._factor
        return float(rows.sum()), len(rows)

    def vectors(self) -> dict[str, Any]:
        return {"vectors": self.tables["vectors"]}


def nothing(step: int, values: dict[str, float]) -> None:
    """A report that goes nowhere."""


@pytest.fixture
def shards(make_shards: MakeShards) -> Path:
    return make_shards([(source, None) for source, _ in random_records(300)])


def train(
    shards: Path,
    run: Path,
    config: VectorsConfig = CONFIG,
    ranks: Ranks = ALONE,
    report: Report = nothing,
    factor: float = 1.0,
    min_count: int = 1,
) -> Progress:
    vocabulary, _ = shard_vocabulary(shards, None, min_count)
    feed = ShardText(shards, "train", vocabulary, None, config.segment_words)
    return train_tables(Noise(len(vocabulary), factor), feed, config, Decay(0.1, 0.01), run, ranks, 7, 1, report)


def table(run: Path) -> Any:
    newest = checkpoints.newest(run)
    assert newest is not None
    return checkpoint.read(newest)[0]["tables"]["vectors"]


def lines(run: Path) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in line.items() if k not in ("seconds", "before")} for line in journal.lines(run / paths.STEPS)
    ]


def verified(shards: Path, run: Path) -> int:
    """Returns the steps of the run's journal, compared with the segments of the shards."""
    vocabulary, _ = shard_vocabulary(shards, None, 1)
    feed = ShardText(shards, "train", vocabulary, None, CONFIG.segment_words)
    return compare_steps(run, replay_segments(feed))


def dies_at(wanted: int) -> Report:
    def report(step: int, values: dict[str, float]) -> None:
        if step >= wanted:
            raise InterruptedError(f"at step {step}")

    return report


@pytest.mark.parametrize("death", [3, 20, 24, 50])
def test_a_resumed_run_is_the_undisturbed_run(shards: Path, tmp_path: Path, death: int) -> None:
    whole = train(shards, tmp_path / "whole")
    with pytest.raises(InterruptedError):
        train(shards, tmp_path / "cut", report=dies_at(death))
    resumed = train(shards, tmp_path / "cut")
    assert vars(resumed) == vars(whole)
    assert torch.equal(table(tmp_path / "cut"), table(tmp_path / "whole"))
    for run in ("whole", "cut"):
        assert verified(shards, tmp_path / run)
    epochs = [[line for line in lines(tmp_path / run) if "epoch" in line] for run in ("whole", "cut")]
    assert epochs[0] == epochs[1] and len(epochs[0]) == 3


def test_the_loss_is_the_mean_over_all_predictions_of_an_epoch(shards: Path, tmp_path: Path) -> None:
    vocabulary, _ = shard_vocabulary(shards, None, 1)
    expected = float((vocabulary.counts * np.arange(len(vocabulary))).sum() / vocabulary.tokens)
    assert train(shards, tmp_path / "run").losses == pytest.approx([expected] * 3)


def test_a_run_that_is_asked_to_stop_keeps_the_next_round_and_goes_on_to_the_same_bits(
    shards: Path, tmp_path: Path
) -> None:
    run = tmp_path / "stopped"

    def asks(step: int, values: dict[str, float]) -> None:
        if step == 8:
            stopping.request_stop(run, 143)

    train(shards, tmp_path / "whole")
    assert train(shards, run, report=asks).step == 9
    newest = checkpoints.newest(run)
    assert newest is not None and newest.name == "step-00000009"
    (run / paths.STOP).unlink()
    assert train(shards, run).losses == train(shards, tmp_path / "whole").losses
    assert np.array_equal(table(run), table(tmp_path / "whole"))


def test_the_rate_falls_in_a_straight_line_over_all_epochs(shards: Path, tmp_path: Path) -> None:
    train(shards, tmp_path / "run", replace(CONFIG, log_every=1))
    rates = [line["lr"] for line in lines(tmp_path / "run") if "lr" in line]
    steps = len(rates)
    assert rates == pytest.approx([0.1 - 0.09 * step / steps for step in range(steps)])


def test_a_journal_that_was_changed_does_not_verify(shards: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(shards, run)
    whole = list(journal.lines(run / paths.STEPS))
    place = [at for at, line in enumerate(whole) if "batch" in line]
    second = whole[place[2]]
    first, last = second["step"] - second["steps"] + 1, second["step"]
    for change, message in (
        ({**second, "batch": "00000000"}, f"step {last}: the shards give other batches"),
        ({**second, "tokens": second["tokens"] - 1}, f"step {last}: the shards give other batches"),
        (None, f"step {last + 1} follows step {first - 1}"),
        (whole[place[0]], f"step 1 follows step {first - 1}"),
    ):
        changed = [change if at == place[2] else line for at, line in enumerate(whole)]
        (run / paths.STEPS).write_text("".join(json.dumps(line) + "\n" for line in changed if line))
        with pytest.raises(DifferenceError, match=message):
            verified(shards, run)


@pytest.mark.parametrize("factor", [1e30, float("nan")])
def test_tables_that_overflow_end_the_run_before_they_are_written(shards: Path, tmp_path: Path, factor: float) -> None:
    with pytest.raises(UserError, match=r"step 5: the tables hold numbers that are not finite.*lower model\.lr"):
        train(shards, tmp_path / "run", factor=factor)
    assert checkpoints.newest(tmp_path / "run") is None
    assert not list((tmp_path / "run").rglob("*.part*"))


def test_a_text_with_nothing_to_predict_is_refused(make_shards: MakeShards, tmp_path: Path) -> None:
    class Idle(Noise):
        def train(self, segment: Text, lr: float, seed: int, threads: int) -> tuple[float, int]:
            return 0.0, 0

    shards = make_shards([(source, None) for source, _ in random_records(20)])
    vocabulary, _ = shard_vocabulary(shards, None, 1)
    feed = ShardText(shards, "train", vocabulary)
    with pytest.raises(UserError, match=r"epoch 1: no text was left to train on.*model\.sample"):
        train_tables(Idle(len(vocabulary)), feed, CONFIG, Decay(0.1, 0.01), tmp_path / "run", ALONE, 7, 1, nothing)


def test_a_checkpoint_of_other_tables_is_refused(shards: Path, tmp_path: Path) -> None:
    train(shards, tmp_path / "run", replace(CONFIG, epochs=1))
    with pytest.raises(UserError, match="holds the tables"):
        train(shards, tmp_path / "run", min_count=105)


def two_ranks(rank: int, port: int, shards: str, run: str) -> None:
    """Averages checked by hand, then the middle of a run that one rank began and one rank ends."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    ranks = Ranks(rank, 2, CPU)
    check_averages(ranks)
    train(Path(shards), Path(run), replace(CONFIG, epochs=2), ranks)
    dist.destroy_process_group()


def check_averages(ranks: Ranks) -> None:
    """Ranks hold 0 and 2: what was averaged is 1."""
    held = np.full((5000, 16), 2.0 * ranks.rank, dtype=np.float32)
    place = held.ctypes.data
    averaging = Averaging({"t": held}, ranks)
    averaging.after_round()
    assert averaging.sent_since() == 1024 * 16 * 4  # a ring of two sends each number once
    assert (held[:1024] == 1).all() and (held[1024:] == 2.0 * ranks.rank).all()
    averaging.after_round()
    assert (held[:2048] == 1).all() and (held[2048:] == 2.0 * ranks.rank).all()
    averaging.everything()
    assert (held == 1).all() and held.ctypes.data == place


@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
def test_one_and_two_ranks_take_turns(shards: Path, tmp_path: Path) -> None:
    """An epoch alone, one on two ranks, one alone again: every word once an epoch, and equal losses."""
    train(shards, tmp_path / "turns", replace(CONFIG, epochs=1))
    (port,) = free_ports(1)
    start_ranks(two_ranks, (port, str(shards), str(tmp_path / "turns")))
    turns = train(shards, tmp_path / "turns")
    alone = train(shards, tmp_path / "alone")
    assert turns.step == alone.step and turns.losses == pytest.approx(alone.losses, rel=1e-9)
    assert turns.losses[1] == alone.losses[1]
    assert verified(shards, tmp_path / "turns")
    sizes = {line["step"]: line.get("tokens", 0) for line in lines(tmp_path / "turns")}
    assert sum(line.get("tokens", 0) for line in lines(tmp_path / "turns")) == sum(
        line.get("tokens", 0) for line in lines(tmp_path / "alone")
    ), sizes
