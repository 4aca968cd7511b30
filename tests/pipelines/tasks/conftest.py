"""A home whose run others begin with."""

import shutil
from pathlib import Path

import pytest

from dragoman.pipelines import train
from dragoman.pipelines.shard import shard
from tests.pipelines.tasks.test_warm_start import config, corpus


@pytest.fixture(scope="session")
def first_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translation model `first`."""
    folder = tmp_path_factory.mktemp("first")
    shard(config(folder, *corpus(folder, "toy", 1)))
    assert train.task(config(folder, "name=first")) == 0
    return folder


@pytest.fixture(scope="module")
def home(first_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy for each file of tests: names of runs in two files cannot meet."""
    return shutil.copytree(first_home, tmp_path_factory.mktemp("home"), dirs_exist_ok=True)
