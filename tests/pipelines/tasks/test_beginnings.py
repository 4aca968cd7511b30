"""What a run begins with: it goes on exactly, is proved, and refuses what does not fit."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.model.errors import UserError
from dragoman.model.runs import checkpoints
from dragoman.pipelines import entries, train
from dragoman.pipelines.tasks import launch
from tests.pipelines.tasks.test_lora import LORA
from tests.pipelines.tasks.test_part_start import ALIKE, PARTLY
from tests.pipelines.tasks.test_quantise import INT8
from tests.pipelines.tasks.test_warm_start import config, same, weights

FACTORS = ["train.init_from=first", "train.lora.rank=2", "train.lora.dropout=0.1", "train.average_last=2",
           "train.average_share=1"]  # fmt: skip
PARTS = [*PARTLY, *ALIKE, "train.freeze=[encoder]", "train.lr_scale.decoder=0.5", "train.optimizer.kind=muon"]


@pytest.mark.parametrize(
    ("name", "words", "change", "told"),
    [
        ("adam", FACTORS, "train.lora.rank=3", "lora.rank was 2, is 3"),
        ("muon", [*FACTORS, "train.optimizer.kind=muon"], "train.lora.rank=3", "lora.rank was 2, is 3"),
        ("int8", INT8, "train.quantize=none", "quantize was 'int8', is None"),
        ("parts", PARTS, "train.freeze=[]", "freeze was"),
    ],
)
def test_a_run_goes_on_and_is_proved(
    name: str, words: Sequence[str], change: str, told: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, cut, words = f"{name}-whole", f"{name}-cut", [*words, "train.optimizer.ema_decay=0.5"]
    words.append("train.schedule_steps=4")
    assert train.task(config(home, f"name={whole}", *words)) == 0
    assert train.task(config(home, f"name={cut}", *words, "train.max_steps=2")) == 0
    assert train.task(config(home, f"name={cut}", *words)) == 0
    assert same(weights(home, cut), weights(home, whole)) and not same(weights(home, cut), weights(home, "first"))
    places = [f"paths.root={home}/artifacts", f"paths.shards={config(home).shard_dir}", "verify.recompute=ALL"]
    assert entries.main(["verify", cut, *places]) == 0
    assert "nothing differs" in capsys.readouterr().out
    with pytest.raises(UserError, match=told):
        launch.check(config(home, f"name={cut}", *words, change))
    newest = load_file(checkpoints.last(home / "artifacts/runs" / cut) / "network.safetensors")
    assert (newest.keys() == weights(home, "first").keys()) is (name == "int8"), "weights of int8 are plain"


def test_parts_are_frozen_and_the_record_names_the_settings(home: Path) -> None:
    before, after = weights(home, "masked"), weights(home, "parts-whole")
    assert torch.equal(after["encoder.0.feed_forward.inner.weight"], before["layers.0.feed_forward.inner.weight"])
    assert not torch.equal(after["output.weight"], before["output.weight"])
    run = home / "artifacts" / "runs" / "parts-whole"
    record = json.loads((run / "run.json").read_text())
    assert record["freeze"] == ["encoder"] and record["lr_scale"] == {"decoder": 0.5}
    assert record["init_parts"] == {"embeddings": "masked", "encoder": "masked", "decoder": "causal"}
    assert load_file(run / "init.safetensors")


REFUSED: list[tuple[list[str], list[tuple[list[str], str]]]] = [
    (["train.init_from=first"], [
        (["train.init_from=nowhere"], "train.init_from: 'nowhere' is neither a bundle's directory nor a run"),
        (["model.width=32"], "train.init_from=first: was trained with model.width=16, this network has 32"),
        (["model.norm=pre"], "train.init_from=first: was trained with model.norm=post, this network has pre"),
        (["embeddings.source=words"], "embeddings.source and .target"),
    ]),
    (LORA, [
        (["train.init_from=null"], "rank=2: changes a trained network; name it with train.init_from"),
        (["train.lora.rank=17"], r"rank=17: encoder.0.*is \(48, 16\); choose a rank of at most 16"),
        (["train.lora.rank=-1"], "train.lora.rank=-1.*at least 0"),
        (["train.lora.rank=0", "train.lora.alpha=4"], "train.lora: has settings, and train.lora.rank=0 trains without"),
        (["train.freeze=[encoder]"], r"freezes all but its factors, so leave train.freeze=\[encoder\] out"),
        (["train.lora.parts=[embeddings]"], "train.lora.parts: 'embeddings' is not known.*decoder, encoder"),
        (["train.lora.whole=[head]"], "train.lora.whole: 'head' is not known"),
        (["train.lora.whole=[encoder,decoder]"], "trains whole what is to get factors"),
        (["train.lora.whole=[encoder]", "train.lora.parts=[encoder]"], "trains whole what is to get factors"),
        (["train.lora.targets=[tables]"], "train.lora.targets: 'tables' is not known.*attention, feed_forward"),
        (["train.lora.targets=[]"], r"train.lora.targets=\[\]: nothing is left to train. Choices: attention"),
        (["train.lr_scale.embeddings=2"], "train.lr_scale.embeddings=2: train.lora.rank=2 trains nothing of this"),
    ]),
    (INT8, [
        (["train.lora.rank=2"], "train.quantize=int8: not with train.lora.rank=2; first tune by factors"),
        (["train.quantize=int4"], "train.quantize"),
    ]),
    (ALIKE, [
        (["train.init_parts.encoder=masked", "model.feed_forward=24"],
         r"init_parts.encoder=masked: encoder.0.feed_forward.inner.bias is \(16,\) there and \(24,\) in this network"),
        (["train.init_parts.encoder=masked", "model.encoder_layers=2"], r"encoder.1.* is none there and \("),
        (["train.init_parts.encoder=masked", "model.norm=pre"], "with model.norm=post, this network has pre"),
        (["train.init_parts.output=masked"], "the output layer is the table of embeddings"),
        (["train.init_parts.encoder=nowhere"], "train.init_parts.encoder: 'nowhere' is neither a bundle's directory"),
        (["train.init_parts.encoder=masked", "train.init_from=masked"], "starts the whole network; choose one"),
        (["train.init_vocabulary=join"], "train.init_vocabulary=join: needs train.init_from or train.init_parts"),
        (["train.freeze=[embeddings,encoder,decoder]"], "freeze=.*: nothing is left to train; leave a part out"),
        (["train.freeze=[head]"], "train.freeze: 'head' is not known.*decoder, embeddings, encoder, output"),
        (["train.lr_scale.encoder=0.1", "train.freeze=[encoder]"], "train.freeze names this part too"),
        (["train.lr_scale.embeddings=0.1", "train.lr_scale.output=0.2"], "is shared with a part of factor 0.1"),
        (["train.init_parts.embeddings=masked", "embeddings.source=words"], "embeddings.source and .target out"),
    ]),
    (["train.teachers=[first]"], [
        (["train.teachers=[nowhere]"], "train.teachers: 'nowhere' is neither a bundle's directory nor a run"),
        (["train.loss.distillation=1.5"], "train.loss.distillation=1.5: must be at least 0 and at most 1"),
        (["train.loss.rdrop=1"], "train.loss.rdrop=1: not with train.teachers"),
        (["loader.sampling=0.1"], "loader.sampling=0.1: not with train.teachers"),
        (["loader.both_directions=1"], "loader.both_directions=1: not with train.teachers"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "told"), [([*words, *more], told) for words, rows in REFUSED for more, told in rows])
def test_what_does_not_fit_is_refused_and_leaves_nothing(home: Path, words: Sequence[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        train.task(config(home, "name=refused", *words))
    assert not (home / "artifacts" / "runs" / "refused").exists()
