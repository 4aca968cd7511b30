"""`train.quantize=int8`: a run learns with the rounding of its export, and is an ordinary one otherwise."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.model.bundles.directory import read_facts
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.layers.int8 import Int8Linear
from dragoman.model.runs import checkpoints
from dragoman.pipelines import entries, train
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks import launch
from dragoman.pipelines.tasks.translation import Pairs
from tests.pipelines.tasks.test_warm_start import config, corpus, same, weights

INT8 = ["train.init_from=first", "train.quantize=int8", "train.final_weights=last"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a run `first` and a run `rounded` that goes on in int8."""
    folder = tmp_path_factory.mktemp("home")
    shard(config(folder, *corpus(folder, "toy", 1)))
    assert train.task(config(folder, "name=first")) == 0
    assert train.task(config(folder, "name=rounded", *INT8)) == 0
    return folder


def test_all_weights_are_trained_and_the_bundle_is_an_ordinary_one(home: Path) -> None:
    first, tuned = weights(home, "first"), weights(home, "rounded")
    assert first.keys() == tuned.keys()
    moved = {name for name in first if not torch.equal(first[name], tuned[name])}
    assert {name for name in first if name.endswith("weight")} <= moved
    bundle = load_bundle(home / "artifacts" / "runs" / "rounded" / "bundle")
    assert bundle.facts["quantize"] == "int8" and bundle.facts["init"]["reference"] == "first"
    assert bundle.export_folder("int8") is not None
    assert not any(isinstance(module, Int8Linear) for module in bundle.network.modules())
    assert train.task(config(home, "name=third", "train.init_from=rounded")) == 0
    assert "quantize" not in read_facts(home / "artifacts" / "runs" / "third" / "bundle")


def test_the_training_computes_in_int8(home: Path) -> None:
    settings = config(home, "name=rounded", *INT8)
    network = Pairs(settings).network
    assert sum(isinstance(module, Int8Linear) for module in network.modules()) == 12  # four, seven, and the output


def test_a_run_goes_on_and_is_proved(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*INT8, "train.optimizer.ema_decay=0.5", "train.schedule_steps=4"]
    assert train.task(config(home, "name=whole", *words)) == 0
    assert train.task(config(home, "name=parts", *words, "train.max_steps=2")) == 0
    assert train.task(config(home, "name=parts", *words)) == 0
    assert same(weights(home, "parts"), weights(home, "whole"))
    assert checkpoints.last(home / "artifacts/runs/parts").joinpath("network.safetensors").is_file()
    assert (
        load_file(checkpoints.last(home / "artifacts/runs/parts") / "network.safetensors").keys()
        == weights(home, "first").keys()
    )
    places = [f"paths.root={home}/artifacts", f"paths.shards={config(home).shard_dir}", "verify.recompute=ALL"]
    assert entries.main(["verify", "parts", *places]) == 0
    assert "nothing differs" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"quantize was 'int8', is None"):
        launch.check(config(home, "name=parts", *words, "train.quantize=none"))


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["train.lora.rank=2"], "train.quantize=int8: not with train.lora.rank=2; first tune by factors"),
        (["train.quantize=int4"], "train.quantize"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(home: Path, overrides: Sequence[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        train.task(config(home, "name=refused", *INT8, *overrides))
    assert not (home / "artifacts" / "runs" / "refused").exists()


def test_networks_without_an_int8_export_are_refused(home: Path) -> None:
    recurrent = ["model=rnnsearch_dot", "model.width=16", "model.encoder_width=8", "train.quantize=int8"]
    with pytest.raises(UserError, match=r"train.quantize=int8: rnnsearch has no int8 export"):
        launch.check(config(home, "name=no", *recurrent, sizes=[]))
    with pytest.raises(UserError, match=r"train.quantize=int8: word vectors have no int8 export"):
        launch.check(config(home, "name=no", "model=skipgram", "registry=vectors", "train.quantize=int8", sizes=[]))
