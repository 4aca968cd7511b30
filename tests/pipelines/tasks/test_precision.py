"""The precision of a run: one for all ranks, kept when it goes on, refused by name where it does not run."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dragoman.model.errors import UserError
from dragoman.model.precision import Decision
from dragoman.model.settings import Precision
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.settings import OptimizerConfig, TrainConfig
from dragoman.pipelines.tasks import precision
from dragoman.pipelines.tasks.identity import claim_run_dir
from dragoman.pipelines.tasks.precision import refuse_unrunnable, settle_precision
from dragoman.pipelines.tasks.schedule import warn_of_warmup

ALONE = Ranks(0, 1, torch.device("cpu"))
NETWORK = nn.Linear(2, 2)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(name="one", paths=PathsConfig(root=str(tmp_path), runs=str(tmp_path / "runs")))


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What this machine answers: bf16 pays, everything runs."""
    answers: dict[str, Any] = {"decide": Decision("bf16", "fast here"), "trouble": None}
    monkeypatch.setattr(precision, "decide", lambda *_: answers["decide"])
    monkeypatch.setattr(precision, "cannot_run", lambda network, wanted, _: answers["trouble"])
    return answers


def wanting(config: Config, wanted: Precision) -> Config:
    return replace(config, train=TrainConfig(precision=wanted))


def started(config: Config) -> Config:
    """The run's directory as `train` claims it."""
    claim_run_dir(config, {"train": {"precision": config.train.precision}})
    return config


def test_the_first_ranks_machine_decides_once(config: Config) -> None:
    started(config)
    assert settle_precision(config, NETWORK, ALONE, None).precision == "bf16"
    assert json.loads((config.run_dir / "precision.json").read_text()) == {"precision": "bf16", "because": "fast here"}


def test_a_run_that_goes_on_keeps_its_precision(config: Config, machine: dict[str, Any]) -> None:
    started(config)
    assert settle_precision(config, NETWORK, ALONE, None).precision == "bf16"
    machine["decide"] = Decision("fp32", "slow here")
    started(config)
    assert settle_precision(config, NETWORK, ALONE, None).precision == "bf16"


def test_what_this_machine_cannot_run_is_refused_before_anything_starts(
    config: Config, machine: dict[str, Any]
) -> None:
    machine["trouble"] = "no kernel"
    refuse_unrunnable(config, NETWORK)  # auto finds its way
    with pytest.raises(UserError, match=r"train\.precision=bf16: no kernel\. Choices: auto, fp32"):
        refuse_unrunnable(wanting(config, "bf16"), NETWORK)
    assert not config.run_dir.exists()


def test_what_a_worker_cannot_run_it_refuses(config: Config, machine: dict[str, Any]) -> None:
    machine["trouble"] = "no kernel there"
    with pytest.raises(UserError, match=r"train\.precision=bf16: no kernel there\. .* choose another name="):
        settle_precision(started(wanting(config, "bf16")), NETWORK, ALONE, None)


@pytest.mark.parametrize(
    ("warmup", "said"), [(33, ""), (34, "train.optimizer.warmup_steps=34"), (100, "never reaches")]
)
def test_a_warm_up_longer_than_a_third_of_the_run_is_warned_of(
    config: Config, caplog: pytest.LogCaptureFixture, warmup: int, said: str
) -> None:
    warn_of_warmup(replace(config, train=TrainConfig(max_steps=100, optimizer=OptimizerConfig(warmup_steps=warmup))))
    assert [record.levelno for record in caplog.records] == ([logging.WARNING] if said else [])
    assert said in caplog.text
