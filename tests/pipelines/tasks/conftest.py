"""A home whose run others begin with."""

from pathlib import Path

import pytest

from dragoman.pipelines import train
from dragoman.pipelines.shard import shard
from tests.pipelines.tasks.test_warm_start import config, corpus


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translation model `first`."""
    folder = tmp_path_factory.mktemp("home")
    shard(config(folder, *corpus(folder, "toy", 1)))
    assert train.task(config(folder, "name=first")) == 0
    return folder
