"""A home whose runs others begin with."""

from pathlib import Path

import pytest

from dragoman.pipelines import train
from dragoman.pipelines.shard import shard
from tests.pipelines.tasks.test_part_start import alone
from tests.pipelines.tasks.test_warm_start import config, corpus


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translation model `first`, a masked model of the sources and a causal one of the targets."""
    folder = tmp_path_factory.mktemp("home")
    shard(config(folder, *corpus(folder, "toy", 1)))
    assert train.task(config(folder, "name=first")) == 0
    assert train.task(alone(folder, "bert_tiny", "source", "name=masked")) == 0
    assert train.task(alone(folder, "gpt_tiny", "target", "name=causal")) == 0
    return folder
