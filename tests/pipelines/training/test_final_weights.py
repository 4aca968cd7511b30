"""What a run ends with: its best weights, the mean of those round them, and that neither is gone when it is wanted."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from dragoman.model.errors import UserError
from dragoman.model.runs import checkpoints
from dragoman.pipelines.settings import EarlyStopping, TrainConfig
from dragoman.pipelines.training import checkpoint
from dragoman.pipelines.training.final_weights import (
    final_weights,
    keep_last,
    kept_weights,
    not_too_old,
    round_best,
    weights_facts,
)
from tests.pipelines.training.test_loop import CONFIG, train

SCORES = [10.0, 12.0, 30.0, 11.5, 12.5, 13.0, 14.0]  # BLEU after 2, 4, 6 ... steps: step 6 is the best
WATCHED = replace(
    CONFIG,
    max_steps=14,
    evaluate_every=2,
    checkpoint_every=2,
    keep_checkpoints=20,
    average_last=3,
    average_share=1.0,
    early_stopping=EarlyStopping("bleu", 9),
)


@pytest.fixture
def shards(make_shards: Callable[..., Path], random_pairs: list[Any]) -> Path:
    return make_shards(random_pairs)


def scored(shards: Path, run: Path, config: TrainConfig, scores: Iterator[float]) -> None:
    train(shards, run, config, bleu=lambda: next(scores))


def network(run: Path, step: int) -> dict[str, torch.Tensor]:
    return checkpoint.read(run / f"checkpoints/step-{step:08d}")[0]["network"]


def test_the_best_validated_weights_end_the_run_though_they_are_old(shards: Path, tmp_path: Path) -> None:
    run, config = tmp_path / "run", replace(WATCHED, final_weights="best", average_last=1)
    scored(shards, run, config, iter(SCORES))
    assert list(checkpoints.weights_by_step(run)) == [6, 14]
    weights, steps = final_weights(run, config)
    assert steps == [6]
    assert all(torch.equal(value, network(run, 6)[name]) for name, value in weights.items())
    assert weights_facts(run, config, steps)["from"] == "best"


def test_without_early_stopping_the_validation_loss_tells_the_best(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([3.0, float("nan"), 2.0, 2.5, 2.0, 4.0, 5.0])
    monkeypatch.setattr("dragoman.pipelines.training.loop.validation_loss", lambda *_: (next(losses), 1))
    config = replace(WATCHED, final_weights="best", early_stopping=EarlyStopping("none"))
    train(shards, tmp_path / "run", config)
    assert final_weights(tmp_path / "run", config)[1] == [6]


def test_the_average_is_taken_round_the_best(shards: Path, tmp_path: Path) -> None:
    run, config = tmp_path / "run", replace(WATCHED, final_weights="best_average")
    scored(shards, run, config, iter(SCORES))
    assert list(checkpoints.weights_by_step(run)) == [4, 6, 8, 10, 12, 14]
    mean, steps = final_weights(run, config)
    assert steps == [4, 6, 8]
    for name, value in mean.items():
        torch.testing.assert_close(value, sum(network(run, step)[name] for step in steps) / 3)


def test_a_resumed_run_knows_its_best(shards: Path, tmp_path: Path) -> None:
    run, config = tmp_path / "run", replace(WATCHED, final_weights="best", average_last=1, keep_checkpoints=1)
    scored(shards, run, replace(config, max_steps=10), iter(SCORES))
    scored(shards, run, config, iter([13.0, 14.0]))
    assert final_weights(run, config)[1] == [6]
    assert checkpoints.state(checkpoints.last(run))["waited"] == 4


def test_a_run_that_goes_on_by_another_metric_looks_for_its_best_anew(shards: Path, tmp_path: Path) -> None:
    run, config = tmp_path / "run", replace(WATCHED, final_weights="best")
    scored(shards, run, replace(config, max_steps=10), iter(SCORES))
    train(shards, run, replace(config, early_stopping=EarlyStopping("loss", 9)))
    assert final_weights(run, config)[1] == [12]  # no loss was compared with -30


def test_early_stopping_keeps_the_best_whatever_the_run_was_to_end_with(shards: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    scored(shards, run, WATCHED, iter(SCORES))
    assert list(checkpoints.weights_by_step(run)) == [6, 10, 12, 14]
    assert final_weights(run, WATCHED)[1] == [10, 12, 14]  # as ever
    assert final_weights(run, replace(WATCHED, final_weights="best"))[1] == [6]


def test_weights_that_were_not_kept_are_said_to_be_missing(shards: Path, tmp_path: Path) -> None:
    config = replace(WATCHED, final_weights="best", early_stopping=EarlyStopping("none"))
    train(shards, tmp_path / "run", replace(config, final_weights="average"))  # all losses are equal: the first is best
    with pytest.raises(UserError, match=r"final_weights=best: those of step 2 were not kept .* average, last"):
        final_weights(tmp_path / "run", config)


def test_a_short_run_leaves_its_beginning_out_of_the_average(shards: Path, tmp_path: Path) -> None:
    run, config = tmp_path / "run", replace(WATCHED, average_last=9)
    scored(shards, run, config, iter(SCORES))
    assert final_weights(run, config)[1] == [2, 4, 6, 8, 10, 12, 14]
    assert final_weights(run, replace(config, average_share=0.2))[1] == [12, 14]
    assert final_weights(run, replace(config, average_share=0.0))[1] == [14]
    best = replace(config, final_weights="best_average", average_last=3, average_share=0.2)
    assert final_weights(run, best)[1] == [6, 8]  # the best is that of step 6, and 4 lies a third of the way back


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, [7500]), (0.1, [6750, 7000, 7250, 7500]), (0.2, None), (1.0, None)]
)
def test_the_share_counts_from_the_last_step_and_takes_in_its_edge(share: float, expected: list[int] | None) -> None:
    steps = list(range(6250, 7501, 250))
    assert not_too_old(steps, 7500, share) == (expected or steps)


def test_what_is_evaluated_must_be_kept() -> None:
    for wanted in ("best", "best_average"):
        config = replace(CONFIG, final_weights=wanted, evaluate_every=6, checkpoint_every=4)
        with pytest.raises(UserError, match=rf"final_weights={wanted}: .*evaluate_every=6 .*checkpoint_every=4"):
            config.check()
        replace(config, checkpoint_every=3).check()


@pytest.mark.parametrize(
    ("best", "count", "expected"),
    [(5, 3, [4, 5, 6]), (5, 4, [3, 4, 5, 6]), (1, 3, [1, 2, 3]), (9, 3, [7, 8, 9]), (8, 4, [6, 7, 8, 9]), (5, 1, [5])],
)
def test_round_the_best_is_on_both_sides(best: int, count: int, expected: list[int]) -> None:
    assert round_best(range(1, 10), best, count) == range(expected[0], expected[-1] + 1)


def test_pruning_never_takes_what_the_average_round_the_best_will_need() -> None:
    chance = random.Random(1)
    for count in (1, 2, 3, 4, 7):
        config = TrainConfig(final_weights="best_average", average_last=count)
        for _ in range(50):
            kept: list[int] = []
            best = 0
            for step in range(1, 40):
                kept.append(step)
                best = step if step == 1 or chance.random() < 0.1 else best
                wanted = kept_weights(config, best)(kept)
                kept = [one for one in kept if one in wanted]
                assert list(round_best(kept, best, count)) == list(round_best(range(1, step + 1), best, count))
                assert len(kept) <= 2 * count


def test_a_run_that_was_stopped_at_its_last_step_ends_with_those_weights(shards: Path, tmp_path: Path) -> None:
    """A signal keeps no weights for the mean: they are kept once the run's end is set there."""
    run, config = tmp_path / "run", replace(CONFIG, max_steps=3, checkpoint_every=3, average_last=2)
    train(shards, run, config)
    (kept,) = checkpoints.weights_by_step(run).values()
    kept.unlink()
    kept.with_suffix(".sha256").unlink()
    with pytest.raises(UserError, match=r"its only weights are those of step 3, .* train.max_steps=3 ends it there"):
        final_weights(run, config)
    keep_last(run, 3)
    weights, steps = final_weights(run, config)
    assert steps == [3] and all(torch.equal(weights[name], value) for name, value in network(run, 3).items())


def test_a_share_of_the_first_weights_enters_the_final_ones_whatever_they_are(shards: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    scored(shards, run, WATCHED, iter(SCORES))
    first = {name: torch.zeros_like(value) for name, value in network(run, 14).items()}
    unshared = first.popitem()[0]  # such as a new head: the first model had none
    save_file(first, run / "init.safetensors")
    for final in ("average", "last"):
        config = replace(WATCHED, final_weights=final, init_from="broad")
        ended, _ = final_weights(run, config)
        mixed, steps = final_weights(run, replace(config, average_first=0.25))
        for name, value in ended.items():
            torch.testing.assert_close(mixed[name], value if name == unshared else 0.75 * value)
        assert weights_facts(run, replace(config, average_first=0.25), steps) != weights_facts(run, config, steps)
    with pytest.raises(UserError, match=r"train\.average_first=0\.25: is a share of .* train\.init_from names"):
        replace(WATCHED, average_first=0.25).check()
