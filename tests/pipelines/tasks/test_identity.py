"""Whose run a directory is: of the same settings only."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.networks.transformer import TransformerConfig
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.loaders.prefetch import check_lanes
from dragoman.pipelines.tasks.identity import claim_run_dir
from dragoman.pipelines.tasks.workers import with_lanes


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(name="one", paths=PathsConfig(runs=str(tmp_path)))


def wanted(**model: Any) -> dict[str, Any]:
    return {"seed": 1, "model": {**asdict(TransformerConfig()), **model}}


def test_a_directory_is_claimed_once_and_by_the_same_settings_again(config: Config) -> None:
    claim_run_dir(config, wanted())
    claim_run_dir(config, wanted())
    assert [path.name for path in config.run_dir.iterdir()] == ["run.json"]


def test_other_settings_are_named_with_both_values(config: Config) -> None:
    claim_run_dir(config, wanted())
    with pytest.raises(UserError, match=r"name=one: .*model\.dropout was 0\.1, is 0\.3; seed was 1, is 2"):
        claim_run_dir(config, {**wanted(dropout=0.3), "seed": 2})


def with_workers(config: Config, workers: int, lanes: int = 0) -> Config:
    loader, cluster = replace(config.loader, lanes=lanes), replace(config.cluster, workers=workers)
    return replace(config, loader=loader, cluster=cluster)


@pytest.mark.parametrize(("workers", "lanes"), [(1, 2), (2, 2), (3, 3), (8, 8)])
def test_lanes_follow_the_workers(config: Config, workers: int, lanes: int) -> None:
    assert with_lanes(with_workers(config, workers), [config.run_dir]).loader.lanes == lanes
    assert with_lanes(with_workers(config, workers, lanes=24), [config.run_dir]).loader.lanes == 24


def test_a_run_keeps_the_lanes_that_it_began_with(config: Config) -> None:
    claim_run_dir(config, {**wanted(), "loader": {"lanes": 8}})
    for workers in (1, 4, 8):
        assert with_lanes(with_workers(config, workers), [config.run_dir]).loader.lanes == 8
    with pytest.raises(UserError, match=r"loader\.lanes=8: 3 ranks .* cluster\.workers=1\|2\|4\|8"):
        check_lanes(with_lanes(with_workers(config, 3), [config.run_dir]).loader.lanes, 3)


@pytest.mark.parametrize("content", ["", '{"seed": 1', "[]"])
def test_a_damaged_record_of_a_run_is_named(config: Config, content: str) -> None:
    config.run_dir.mkdir(parents=True)
    (config.run_dir / "run.json").write_text(content)
    for reads in (
        lambda: claim_run_dir(config, wanted()),
        lambda: with_lanes(with_workers(config, 2), [config.run_dir]),
    ):
        with pytest.raises(UserError, match=r"run\.json: damaged \(.*\)\. Put back .* or choose another name="):
            reads()


def test_the_precision_that_auto_chose_may_be_named_when_the_run_goes_on(config: Config) -> None:
    def in_precision(precision: str) -> dict[str, Any]:
        return {**wanted(), "train": {"precision": precision}}

    claim_run_dir(config, in_precision("auto"))
    with pytest.raises(UserError, match=r"train\.precision was 'auto', is 'fp32'"):
        claim_run_dir(config, in_precision("fp32"))  # nothing is decided yet
    (config.run_dir / "precision.json").write_text('{"precision": "fp32", "because": "faster here"}')
    for same in ("auto", "fp32"):
        claim_run_dir(config, in_precision(same))
    with pytest.raises(UserError, match=r"train\.precision was 'auto', is 'bf16'"):
        claim_run_dir(config, in_precision("bf16"))
