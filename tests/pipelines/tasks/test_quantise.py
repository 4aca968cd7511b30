"""`train.quantize=int8`: a run learns with the rounding of its export, and is an ordinary one otherwise."""

from pathlib import Path

import pytest
import torch

from dragoman.model.bundles.directory import read_facts
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.layers.int8 import Int8Linear
from dragoman.pipelines import train
from dragoman.pipelines.tasks import launch
from dragoman.pipelines.tasks.translation import Pairs
from tests.pipelines.tasks.test_warm_start import config, weights

INT8 = ["train.init_from=first", "train.quantize=int8", "train.final_weights=last"]


@pytest.fixture(scope="module", autouse=True)
def rounded(home: Path) -> None:
    """A run that goes on with `first` in int8."""
    assert train.task(config(home, "name=rounded", *INT8)) == 0


def test_all_weights_are_trained_and_the_bundle_is_an_ordinary_one(home: Path) -> None:
    first, tuned = weights(home, "first"), weights(home, "rounded")
    assert first.keys() == tuned.keys()
    moved = {name for name in first if not torch.equal(first[name], tuned[name])}
    assert {name for name in first if name.endswith("weight")} <= moved
    bundle = load_bundle(home / "artifacts" / "runs" / "rounded" / "bundle")
    assert bundle.facts["quantize"] == "int8" and bundle.facts["init"]["reference"] == "first"
    assert bundle.export_folder("int8") is not None
    assert not any(isinstance(module, Int8Linear) for module in bundle.network.modules())
    assert train.task(config(home, "name=plain", "train.init_from=rounded")) == 0
    assert "quantize" not in read_facts(home / "artifacts" / "runs" / "plain" / "bundle")


def test_the_training_computes_in_int8(home: Path) -> None:
    settings = config(home, "name=rounded", *INT8)
    network = Pairs(settings).network
    assert sum(isinstance(module, Int8Linear) for module in network.modules()) == 12  # four, seven, and the output


def test_networks_without_an_int8_export_are_refused(home: Path) -> None:
    recurrent = ["model=rnnsearch_dot", "model.width=16", "model.encoder_width=8", "train.quantize=int8"]
    with pytest.raises(UserError, match=r"train.quantize=int8: rnnsearch has no int8 export"):
        launch.check(config(home, "name=no", *recurrent, sizes=[]))
    with pytest.raises(UserError, match=r"train.quantize=int8: word vectors have no int8 export"):
        launch.check(config(home, "name=no", "model=skipgram", "registry=vectors", "train.quantize=int8", sizes=[]))
