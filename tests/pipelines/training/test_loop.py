"""The loop: exact resume, the same run on one and two ranks, skipped steps, early stopping."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import architecture, build_network, model_config
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.ports import free_ports
from dragoman.model.runs import attempts, checkpoints, journal, paths
from dragoman.model.settings import LossConfig
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.batch import TranslationBatch
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import EarlyStopping, LoaderConfig, OptimizerConfig, TrainConfig
from dragoman.pipelines.training import checkpoint
from dragoman.pipelines.training.final_weights import final_weights
from dragoman.pipelines.training.loop import Report, Trainer, validation_loss
from tests.warm import start_ranks

LOADER = LoaderConfig(lanes=2, batch_tokens=120, window_chunks=2)
CONFIG = TrainConfig(
    max_steps=12,
    precision="fp32",
    optimizer=OptimizerConfig(lr=0.01, warmup_steps=4, ema_decay=0.9),
    evaluate_every=6,
    checkpoint_every=4,
    keep_checkpoints=9,
    average_last=2,
    average_share=1.0,
)
CPU = torch.device("cpu")
NETWORKS: dict[str, dict[str, Any]] = {
    "transformer": {
        "architecture": "transformer", "width": 16, "heads": 2, "feed_forward": 16,
        "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.3,
    },
    "rnnsearch": {"architecture": "rnnsearch", "embedding": 12, "width": 16, "encoder_width": 8},
}  # fmt: skip


def nothing(step: int, values: dict[str, float]) -> None:
    """A report that goes nowhere."""


def train(
    shards: Path,
    run: Path,
    config: TrainConfig = CONFIG,
    ranks: Ranks | None = None,
    report: Report = nothing,
    kind: str = "transformer",
    **changes: Any,
) -> Trainer:
    """One start of a small run, with dropout; `changes` replace the trainer's arguments."""
    ranks = ranks or Ranks(0, 1, CPU)
    if "network" not in changes:
        torch.manual_seed(5)
        loader = LaneLoader(ShardReader(shards, "train"), LOADER, 3, ranks.rank, ranks.world)
        changes = {"network": build_network(model_config(NETWORKS[kind]), 50, 50), "loader": loader, **changes}
    arguments: dict[str, Any] = {
        "loss": architecture("transformer").loss,
        "lanes": LOADER.lanes,
        "config": config,
        "run": run,
        "ranks": ranks,
        "seed": 3,
        "held_out": lambda: [],
    }
    trainer = Trainer(**{**arguments, **changes})
    try:
        trainer.run(report)
    finally:
        changes["loader"].close()
    return trainer


def steps(run: Path) -> list[dict[str, Any]]:
    return [line for line in journal.lines(run / paths.STEPS) if "batch" in line]


def tensors(run: Path) -> dict[str, dict[str, torch.Tensor]]:
    return checkpoint.read(checkpoints.last(run))[0]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return tensors(run)["network"]


def check_resumed(folder: Path, start: Callable[..., Trainer]) -> None:
    """Stopped at step 6, resumed from the checkpoint of step 4: same batches, same losses, same tensors.

    `start(run, config changes, ...)` is one start of a run."""

    def dies(step: int, values: dict[str, float]) -> None:
        raise InterruptedError(f"at step {step}")

    start(folder / "whole")
    with pytest.raises(InterruptedError):
        start(folder / "cut", evaluate_every=7, log_every=6, report=dies)
    assert [line["step"] for line in steps(folder / "cut")] == [1, 2, 3, 4, 5, 6]
    assert start(folder / "cut").progress.step == 12
    keys = ("step", "loss", "batch", "tokens", "norm")
    whole, cut = ([{k: line[k] for k in keys} for line in steps(folder / run)] for run in ("whole", "cut"))
    assert whole == cut
    expected = tensors(folder / "whole")
    for group, members in tensors(folder / "cut").items():
        for name, value in members.items():
            assert torch.equal(value, expected[group][name])


def check_turns(folder: Path, start: Callable[..., Trainer], ranks: Callable[..., None], *arguments: Any) -> None:
    """12 steps alone; and 4 alone, 4 on two ranks, 4 alone again: same batches, losses equal to rounding.

    `ranks(rank, port, run, *arguments)` is a rank's process, up to step 8."""
    start(folder / "alone")
    start(folder / "turns", max_steps=4)
    (port,) = free_ports(1)
    start_ranks(ranks, (port, str(folder / "turns"), *arguments))
    start(folder / "turns")
    alone, turns = steps(folder / "alone"), steps(folder / "turns")
    assert [(line["batch"], line["tokens"]) for line in alone] == [(line["batch"], line["tokens"]) for line in turns]
    for one, other in zip(alone, turns, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)


@pytest.fixture
def shards(make_shards: Callable[..., Path], random_pairs: list[Any]) -> Path:
    return make_shards(random_pairs)


def starts(shards: Path, kind: str) -> Callable[..., Trainer]:
    def start(run: Path, report: Report = nothing, **changes: Any) -> Trainer:
        return train(shards, run, replace(CONFIG, **changes), report=report, kind=kind)

    return start


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_resumed_run_is_the_undisturbed_run(kind: str, shards: Path, tmp_path: Path) -> None:
    check_resumed(tmp_path, starts(shards, kind))


def rank_process(rank: int, port: int, shards: str, run: str, config: TrainConfig, kind: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    train(Path(shards), Path(run), config, Ranks(rank, 2, CPU), kind=kind)
    dist.destroy_process_group()


def turn(rank: int, port: int, run: str, shards: str, kind: str) -> None:
    rank_process(rank, port, shards, run, replace(CONFIG, max_steps=8), kind)


@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
def test_one_and_two_ranks_are_the_same_run_and_may_take_turns(shards: Path, tmp_path: Path) -> None:
    check_turns(tmp_path, starts(shards, "transformer"), turn, str(shards), "transformer")


def test_a_step_without_a_finite_gradient_is_skipped_and_counted(shards: Path, tmp_path: Path) -> None:
    calls: Iterator[int] = iter(range(1000))

    def loss(network: Any, batch: TranslationBatch, config: LossConfig) -> tuple[torch.Tensor, torch.Tensor]:
        value, nll = architecture("transformer").loss(network, batch, config)
        return (value * float("nan") if next(calls) == 3 else value), nll  # step 2, second lane

    trainer = train(shards, tmp_path / "run", loss=loss)
    assert trainer.progress.skipped == 1
    assert all(torch.isfinite(p).all() for p in trainer.network.parameters())
    assert steps(tmp_path / "run")[1]["loss"] is None


def test_weights_that_are_not_finite_are_never_a_checkpoint(shards: Path, tmp_path: Path) -> None:
    """The run ends, each time it is started, with the step and the setting; its journal stays JSON."""
    run = tmp_path / "run"
    for last in (11, 3):  # the call of the loss in step 6, from the beginning and from the checkpoint
        calls = iter(range(1000))

        def loss(
            network: Any, batch: TranslationBatch, config: LossConfig, calls: Iterator[int] = calls, last: int = last
        ) -> tuple[torch.Tensor, torch.Tensor]:
            value, nll = architecture("transformer").loss(network, batch, config)
            if next(calls) == last:
                network.output.weight.data.fill_(float("inf"))
            return value, nll

        with pytest.raises(UserError, match=r"step 6: the weights are not finite.*lower train\.optimizer\.lr=0\.01"):
            train(shards, run, loss=loss)
        assert list(checkpoints.every(run)) == [4]
    for line in (run / paths.STEPS).read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


class BrokenLoss:
    """The loss of one lane of step 2 is infinite and its gradient what it would be: a sum that overflows in fp32."""

    def __init__(self, call: int) -> None:
        self.call, self.calls = call, iter(range(1000))

    def __call__(self, network: Any, batch: TranslationBatch, config: LossConfig) -> tuple[torch.Tensor, torch.Tensor]:
        value, nll = architecture("transformer").loss(network, batch, config)
        return (value + float("inf") if next(self.calls) == self.call else value), nll


def rank_with_a_broken_loss(rank: int, port: int, shards: str, run: str) -> None:
    """Rank 1's lane alone is broken: what it decides, rank 0 must decide too."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    loss = BrokenLoss(1 if rank == 1 else -1)
    train(Path(shards), Path(run), STEP_BY_STEP, Ranks(rank, 2, CPU), loss=loss)
    dist.destroy_process_group()


STEP_BY_STEP = replace(CONFIG, max_steps=2, checkpoint_every=1, evaluate_every=9)


@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
@pytest.mark.parametrize("world", [1, 2])
def test_a_step_without_a_finite_loss_updates_nothing_on_any_rank(world: int, shards: Path, tmp_path: Path) -> None:
    """Its gradient is finite. Weights, optimizer and average after it are those before it; it is counted once."""
    run = tmp_path / "run"
    if world == 1:
        train(shards, run, STEP_BY_STEP, loss=BrokenLoss(3))  # step 2, second lane
    else:
        (port,) = free_ports(1)
        start_ranks(rank_with_a_broken_loss, (port, str(shards), str(run)))
    before, after = (checkpoint.read(run / "checkpoints" / f"step-{step:08d}") for step in (1, 2))
    assert before[0].keys() == after[0].keys() == {"network", "optimizer", "average"}
    for group, tensors in before[0].items():
        for name, value in tensors.items():
            assert torch.equal(value, after[0][group][name]), (group, name)
    assert (before[1]["skipped"], after[1]["skipped"], after[1]["step"]) == (0, 1, 2)
    assert steps(run)[1]["loss"] is None and steps(run)[1]["norm"] is not None


def test_fp16_halves_its_loss_scale_after_an_overflow(shards: Path, tmp_path: Path) -> None:
    calls: Iterator[int] = iter(range(1000))

    def loss(network: Any, batch: TranslationBatch, config: LossConfig) -> tuple[torch.Tensor, torch.Tensor]:
        value, nll = architecture("transformer").loss(network, batch, config)
        return (value * float("inf") if next(calls) == 3 else value), nll

    trainer = train(shards, tmp_path / "run", replace(CONFIG, precision="fp16"), loss=loss)
    assert trainer.progress.skipped >= 1  # ours, and whatever 2^15 is too much for
    assert trainer.progress.loss_scale.value == 2.0 ** (15 - trainer.progress.skipped)
    plain = train(shards, tmp_path / "plain")
    ours, theirs = steps(tmp_path / "run")[0]["loss"], steps(tmp_path / "plain")[0]["loss"]
    assert ours == pytest.approx(theirs, rel=0.01)
    assert plain.progress.skipped == 0


def test_training_lowers_the_loss(shards: Path, tmp_path: Path) -> None:
    """Random ids hold nothing to learn but their range: the loss falls to about ln(44) = 3.8."""
    train(shards, tmp_path / "run", replace(CONFIG, max_steps=60))
    losses = [line["nll"] for line in steps(tmp_path / "run")]
    assert losses[0] > 4.2
    assert sum(losses[-5:]) / 5 < 3.95


def test_early_stopping_counts_evaluations_without_a_better_one(shards: Path, tmp_path: Path) -> None:
    scores = iter([10.0, 12.0, 11.0, 11.5, 12.5])
    config = replace(
        CONFIG, max_steps=100, evaluate_every=2, early_stopping=EarlyStopping("bleu", 2), checkpoint_every=50
    )
    trainer = train(shards, tmp_path / "run", config, bleu=lambda: next(scores))
    assert trainer.progress.step == 8
    assert "no better validation bleu in 2 evaluations" in trainer.progress.stopped
    newest = checkpoints.newest(tmp_path / "run")
    assert newest is not None and newest.name == "step-00000008"  # the end is always kept


def test_validation_loss_is_the_mean_over_tokens(shards: Path) -> None:
    torch.manual_seed(0)
    network = Transformer(TransformerConfig("transformer", "t", 16, 2, 16, 1, 1, dropout=0.3), 50, 50)
    loader = LaneLoader(ShardReader(shards, "train"), LOADER, 3, 0, 1)
    batches = [batch for _ in range(3) for batch in loader.step()]
    loader.close()
    objective = (architecture("transformer").loss, LossConfig(0.0))
    loss, items = validation_loss(network, objective, batches, "fp32", Ranks(0, 1, CPU))
    network.eval()
    with torch.no_grad():
        expected = sum(float(objective[0](network, batch, objective[1])[0]) for batch in batches)
    assert items == sum(batch.items for batch in batches)
    assert loss == pytest.approx(expected / items)


def test_the_average_of_the_last_weights_is_their_mean(shards: Path, tmp_path: Path) -> None:
    train(shards, tmp_path / "run")
    mean, used = final_weights(tmp_path / "run", CONFIG)
    assert used == [8, 12]
    parts = [checkpoint.read(tmp_path / f"run/checkpoints/step-{step:08d}")[0]["network"] for step in used]
    for name, value in mean.items():
        torch.testing.assert_close(value, (parts[0][name] + parts[1][name]) / 2)


def test_damaged_state_and_truncated_weights_are_refused_by_name(tmp_path: Path) -> None:
    run = tmp_path / "run"
    attempt = attempts.next_attempt(run)
    kept = checkpoint.write(run, 4, attempt, {"network": {"w": torch.ones(8)}}, {"step": 4})
    weights = run / "weights/step-00000004.safetensors"
    whole = weights.read_bytes()
    weights.unlink()  # it is a second name of the checkpoint's file
    weights.write_bytes(whole[:-8])
    with pytest.raises(UserError, match=r"weights/step-00000004\.safetensors: was changed after"):
        checkpoint.average([weights])
    (kept / "state.json").write_text('{"step": 4', encoding="utf-8")
    with pytest.raises(UserError, match=r"state\.json: does not match its manifest.*Delete"):
        checkpoints.state(kept)


def test_weights_that_were_changed_enter_no_average(shards: Path, tmp_path: Path) -> None:
    train(shards, tmp_path / "run")
    flip_last_bit(tmp_path / "run/weights/step-00000008.safetensors")
    with pytest.raises(UserError, match=r"step-00000008\.safetensors: was changed after it was written"):
        final_weights(tmp_path / "run", CONFIG)


def test_reports_have_the_mean_loss_since_the_last_one(shards: Path, tmp_path: Path) -> None:
    reports: list[tuple[int, dict[str, float]]] = []
    config = replace(CONFIG, log_every=4, max_steps=8)
    train(shards, tmp_path / "run", config, report=lambda step, metrics: reports.append((step, dict(metrics))))
    lines = [line for line in steps(tmp_path / "run") if "loss" in line]
    for step, metrics in [row for row in reports if "loss" in row[1]]:
        window = [line for line in lines if step - 4 < line["step"] <= step]
        tokens = sum(line["tokens"] for line in window)
        for key in ("loss", "nll"):
            assert metrics[key] == pytest.approx(sum(line[key] * line["tokens"] for line in window) / tokens)
    assert [step for step, metrics in reports if "loss" in metrics] == [4, 8]


def flip_last_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def test_a_tampered_checkpoint_is_refused_by_name(shards: Path, tmp_path: Path) -> None:
    train(shards, tmp_path / "run")
    flip_last_bit(tmp_path / "run/checkpoints/step-00000012/optimizer.safetensors")
    with pytest.raises(
        UserError, match=r"optimizer\.safetensors: does not match its manifest.*goes on from step-00000008"
    ):
        train(shards, tmp_path / "run", replace(CONFIG, max_steps=20))


def test_a_stale_attempt_cannot_write(tmp_path: Path) -> None:
    first = attempts.next_attempt(tmp_path)
    attempts.next_attempt(tmp_path)
    with pytest.raises(attempts.StaleAttemptError, match="attempt 1 was replaced by attempt 2"):
        checkpoint.write(tmp_path, 1, first, {"network": {"w": torch.ones(1)}}, {})
    assert not (tmp_path / "checkpoints").exists()


def test_old_checkpoints_go_and_their_weights_stay_for_averaging(shards: Path, tmp_path: Path) -> None:
    train(shards, tmp_path / "run", replace(CONFIG, checkpoint_every=2, keep_checkpoints=2, average_last=3))
    assert sorted(p.name for p in (tmp_path / "run/checkpoints").iterdir()) == ["step-00000010", "step-00000012"]
    kept = [f"step-{step:08d}.{kind}" for step in (8, 10, 12) for kind in ("safetensors", "sha256")]
    assert sorted(p.name for p in (tmp_path / "run/weights").iterdir()) == kept


def test_the_journal_drops_what_a_resumed_run_repeats_and_a_torn_line(tmp_path: Path) -> None:
    first = journal.Journal(tmp_path, 0)
    for step in (1, 2, 3):
        first.write({"step": step, "batch": "x"})
    first.close()
    with (tmp_path / paths.STEPS).open("a") as file:
        file.write('{"step": 4, "ba')
    second = journal.Journal(tmp_path, 2)
    second.write({"step": 3, "batch": "y"})
    second.close()
    read = [json.loads(line) for line in (tmp_path / paths.STEPS).read_text().splitlines()]
    assert [(line["step"], line["batch"]) for line in read] == [(1, "x"), (2, "x"), (3, "y")]
