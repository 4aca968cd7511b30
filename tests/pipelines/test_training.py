"""Whose run a directory is: of the same settings only, and of an older version of the code too."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from model.errors import UserError
from model.transformer import TransformerConfig
from pipelines.config import Config, PathsConfig
from pipelines.training import claim


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(name="one", paths=PathsConfig(runs=str(tmp_path)))


def wanted(**model: Any) -> dict[str, Any]:
    return {"seed": 1, "model": {**asdict(TransformerConfig()), **model}}


def test_a_directory_is_claimed_once_and_by_the_same_settings_again(config: Config) -> None:
    claim(config, wanted())
    claim(config, wanted())
    assert [path.name for path in config.run_dir.iterdir()] == ["run.json"]


def test_other_settings_are_named_with_both_values(config: Config) -> None:
    claim(config, wanted())
    with pytest.raises(UserError, match=r"name=one: .*model\.dropout was 0\.1, is 0\.3; seed was 1, is 2"):
        claim(config, {**wanted(dropout=0.3), "seed": 2})


def test_a_run_from_before_a_switch_was_added_goes_on_while_that_is_at_its_default(config: Config) -> None:
    config.run_dir.mkdir(parents=True)
    older = wanted()
    del older["model"]["kv_heads"]
    (config.run_dir / "run.json").write_text(json.dumps(older))
    claim(config, wanted())
    with pytest.raises(UserError, match=r"model\.kv_heads was "):
        claim(config, wanted(kv_heads=1))
