"""What every training begins and ends with, whatever its kind."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.conf.interrupts import Interrupted
from dragoman.model.errors import UserError
from dragoman.model.memory import PRODUCTS
from dragoman.model.runs.spool import Spool
from dragoman.model.shards.manifest import manifest_hash
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.tasks import launch
from dragoman.pipelines.tasks.identity import claim_run_dir
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tracking.settings import TrackingConfig


@pytest.fixture
def config(tmp_path: Path) -> Config:
    paths = PathsConfig(root=str(tmp_path), runs=str(tmp_path / "runs"))
    return Config(name="one", paths=paths, tracking=TrackingConfig(uri=f"sqlite:///{tmp_path}/db", offline=True))


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """No word of the user's about kept products, and none left behind."""
    for name in PRODUCTS:
        monkeypatch.setenv(name, "given back after the test")
        monkeypatch.delenv(name)


def kept() -> dict[str, str]:
    return {name: os.environ[name] for name in PRODUCTS}


def test_a_worker_keeps_few_products_before_the_first_one(config: Config, unset: None) -> None:
    """A rank begins by measuring which precision pays."""
    ranks = Ranks(0, 1, torch.device("cpu"))
    found: list[object] = []
    launch.train_here(lambda _, ranks, run: found.append(kept()), 0.0, config, ranks)
    assert found == [PRODUCTS]


def test_a_worker_that_starts_again_refuses_shards_that_were_made_anew(
    config: Config, unset: None, tmp_path: Path
) -> None:
    config = replace(config, paths=replace(config.paths, shards=str(tmp_path / "shards")))
    ranks, trained = Ranks(0, 1, torch.device("cpu")), []
    config.shard_dir.mkdir(parents=True)
    manifest = config.shard_dir / "manifest.json"
    manifest.write_text("{}")
    claim_run_dir(config, {"shards": manifest_hash(config.shard_dir)})
    launch.train_here(lambda *_: trained.append(1), 0.0, config, ranks)
    manifest.write_text('{"seed": 2}')
    with pytest.raises(UserError, match="not the shards that one began with"):
        launch.train_here(lambda *_: trained.append(2), 0.0, config, ranks)
    assert trained == [1]


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (Interrupted("step 400 is kept", 75), "KILLED"),
        (ImportError("initialization failed"), "FAILED"),
    ],
)
@pytest.mark.parametrize("imported", [False, True], ids=["plain", "imported"])
def test_the_record_of_a_training_ends_as_the_training_did(
    config: Config, problem: BaseException, status: str, imported: bool
) -> None:
    """A signal while a compiled module is imported comes as the cause of an ImportError."""
    given = ImportError("initialization failed") if imported else problem
    given.__cause__ = problem if imported else None
    Run.of(config).close_record(given)
    assert [one.fields["status"] for one in Spool(config.run_dir).records() if one.kind == "status"][-1] == status
